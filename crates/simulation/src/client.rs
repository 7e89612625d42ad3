//! The clients: they ask, note every answer, and come back when the connection was lost.

mod choice;
mod handler;
mod http;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;
use singletree_audit::{AuditedOutcome, ClientOperation, HistoryEvent};
use singletree_durable::{SessionId, SessionKey, TenantId};
use tokio::sync::mpsc::UnboundedReceiver;

use crate::fault::FaultKind;
use crate::process::SimulatedProcess;
use crate::random::SimulationRandom;
use crate::world::SimulatedWorld;
pub(crate) use choice::{TENANTS, USER_SESSION};
use handler::handle_call;
pub(crate) use handler::{describe_event, is_office};
use http::{ConnectionCut, can_go_over_http, handle_http_call};
pub(crate) use http::{KEYLESS_TENANT, describe_http_event, read_turn_events, split_frames};

/// Of a hundred calls that HTTP has, how many are made over it.
const HTTP_PERCENT: u64 = 40;

/// A report of a call's handler to the client.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum CallReport {
    /// The call was given a turn.
    Given {
        /// The turn.
        turn: String,
    },
    /// A durable event was seen.
    Event {
        seq: u64,
        turn: String,
        kind: String,
        /// The whole event, to compare it with the log.
        content: String,
        view: EventView,
    },
    /// The turn ended, or the call was refused with an outcome.
    Told {
        turn: Option<String>,
        end: AuditedOutcome,
        /// The digest of the action that waits for an approval.
        action: Option<String>,
    },
    /// The call failed without an outcome.
    Failed { category: String },
    /// The call is done.
    Done,
}

/// How an event was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum EventView {
    /// As the chat has it.
    Chat,
    /// As the native API has it.
    Http,
}

/// A session of a tenant.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SimulatedSessionName {
    pub(crate) tenant: String,
    pub(crate) session: String,
}

impl SimulatedSessionName {
    /// Returns the name under which the history has it.
    pub(crate) fn qualified(&self) -> String {
        format!("{}/{}", self.tenant, self.session)
    }

    pub(crate) fn tenant_id(&self) -> TenantId {
        TenantId::parse(&self.tenant).unwrap_or_else(|_| TenantId::single())
    }

    /// Returns the key under which it is stored; none for a name that no session can have.
    pub(crate) fn key(&self) -> Option<SessionKey> {
        Some(SessionKey::new(self.tenant_id(), SessionId::parse(&self.session).ok()?))
    }
}

/// A call that a client makes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum SimulatedCall {
    Send {
        text: String,
        key: Option<String>,
        steers: bool,
    },
    Answer {
        signal: String,
        payload: Value,
        to: Option<(u64, String)>,
        may_keep: bool,
    },
    Cancel {
        turn: String,
    },
    Delete,
    /// Retries a failed turn, whose message had this text.
    Retry {
        turn: String,
        text: String,
    },
    /// Sends a message in a fork of another session: at the end, or in the place of a message of the user.
    Branch {
        from: String,
        text: String,
        edits: Option<u64>,
    },
    /// Asks for the outcome of a turn that was given before.
    Outcome {
        turn: String,
    },
}

impl SimulatedCall {
    /// Returns the operation, as the history has it.
    fn operation(&self) -> Option<ClientOperation> {
        Some(match self {
            Self::Send { text, key, .. } => ClientOperation::Send { text: text.clone(), key: key.clone() },
            Self::Answer { signal, payload, .. } => {
                ClientOperation::Answer { signal: signal.clone(), payload: payload.clone() }
            }
            Self::Cancel { turn } => ClientOperation::Cancel { turn: turn.clone() },
            Self::Delete => ClientOperation::Delete,
            Self::Retry { text, .. } | Self::Branch { text, .. } => {
                ClientOperation::Send { text: text.clone(), key: None }
            }
            Self::Outcome { .. } => return None,
        })
    }
}

/// A wait that a client was told of.
#[derive(Debug, Clone)]
pub(crate) struct AwaitedAnswer {
    pub(crate) signal: String,
    pub(crate) to: Option<(u64, String)>,
}

/// What clients know of each other: waits, messages with keys, turns, and events that were seen.
#[derive(Debug, Default)]
pub(crate) struct KnownWaits(Mutex<SharedKnowledge>);

#[derive(Debug, Default)]
pub(crate) struct SharedKnowledge {
    pub(crate) waits: BTreeMap<SimulatedSessionName, AwaitedAnswer>,
    /// Messages that were sent under a key: session, text, key.
    pub(crate) keyed: Vec<(SimulatedSessionName, String, String)>,
    /// Turns that were given and are not known to have ended.
    pub(crate) running: Vec<(SimulatedSessionName, String)>,
    /// Turns that failed, with the text of their message.
    pub(crate) failed: Vec<(SimulatedSessionName, String, String)>,
    /// The text of each turn's message.
    pub(crate) texts: BTreeMap<String, String>,
    /// The events that were seen, by session, number and view.
    pub(crate) seen: BTreeMap<(SimulatedSessionName, u64, EventView), String>,
    pub(crate) sent: u64,
    pub(crate) deleting: u64,
    /// How many deletions of each session have been answered.
    pub(crate) deleted: BTreeMap<SimulatedSessionName, u64>,
    pub(crate) forks: u64,
}

impl KnownWaits {
    pub(crate) fn lock(&self) -> MutexGuard<'_, SharedKnowledge> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One client. It waits for one answer at a time.
pub(crate) struct SimulatedClient {
    world: Arc<SimulatedWorld>,
    number: usize,
    random: SimulationRandom,
    /// The step that follows from the last answer.
    next: Option<(SimulatedSessionName, SimulatedCall)>,
    /// How many deletions of the session had been answered when the call was made.
    deleted_before: u64,
}

impl SimulatedClient {
    pub(crate) fn new(world: Arc<SimulatedWorld>, number: usize) -> Self {
        let random = SimulationRandom::from_name(world.seed, &format!("client {number}"));
        Self { world, number, random, next: None, deleted_before: 0 }
    }

    /// Makes calls until none are left.
    pub(crate) async fn run(mut self) {
        loop {
            let most = u64::try_from(self.world.settings.thinking.as_micros()).unwrap_or(0);
            self.world.executor.sleep_for(Duration::from_micros(self.random.draw_between(1, most))).await;
            if !self.world.take_operation() {
                return;
            }
            let (session, call) = match self.next.take() {
                Some(next) => next,
                None => self.choose_call(),
            };
            self.make_call(session, call).await;
        }
    }

    /// Makes a call and follows it to its end, over lost connections.
    async fn make_call(&mut self, session: SimulatedSessionName, call: SimulatedCall) {
        let world = self.world.clone();
        let name = session.qualified();
        world.executor.trace_event(format_args!("client {} {name}: {call:?}", self.number));
        self.note_call(&session, &call);
        let Some(operation) = call.operation() else { return };
        world.begin_work();
        let number = world.history.record_call(&name, operation);
        let mut asked = call.clone();
        let mut given = None;
        self.deleted_before = self.count_deletions(&session);
        loop {
            let agent = world.agent_of_session(&session.session);
            let handled = (session.clone(), asked.clone(), agent);
            let mut reports = self.send_call(handled).await;
            let mut is_over = false;
            while let Some(report) = reports.recv().await {
                world.executor.trace_event(format_args!("client {} hears {report:?}", self.number));
                is_over |= self.hear_report((&session, &call), number, &mut given, report);
            }
            if is_over {
                break;
            }
            // The connection was lost. Who knows the turn asks for it again; others may never know.
            match &given {
                Some(turn) if self.random.draw_percent(90) => {
                    asked = SimulatedCall::Outcome { turn: String::clone(turn) }
                }
                Some(_) | None => {
                    world.history.record_event(&name, HistoryEvent::Gone { call: number });
                    self.come_back(&session, &call);
                    break;
                }
            }
            world.executor.sleep_for(Duration::from_millis(self.random.draw_between(1, 500))).await;
        }
        self.note_call_end(&call);
        world.end_work();
    }

    /// Makes a call through the chat or over HTTP; returns its reports.
    async fn send_call(
        &self,
        call: (SimulatedSessionName, SimulatedCall, Option<String>),
    ) -> UnboundedReceiver<CallReport> {
        let is_over_http = can_go_over_http(&call.0, &call.1) && self.random.draw_percent(HTTP_PERCENT);
        if !is_over_http {
            let handle =
                move |process: &SimulatedProcess, reporter| handle_call(process.chat.clone(), reporter, call);
            return self.world.call_process(handle).await;
        }
        let is_cut = self.world.swarm.is_due(FaultKind::ConnectionCut);
        let cut = is_cut.then(|| match self.random.draw_percent(20) {
            true => ConnectionCut::Request(self.random.draw_index(60)),
            false => ConnectionCut::Response(self.random.draw_index(4_000)),
        });
        let handle = move |process: &SimulatedProcess, reporter| {
            process.server.run_handler(handle_http_call(process.server.clone(), reporter, call, cut))
        };
        self.world.call_process(handle).await
    }

    fn count_deletions(&self, session: &SimulatedSessionName) -> u64 {
        self.world.waits.lock().deleted.get(session).copied().unwrap_or(0)
    }

    /// Takes a report down; returns whether the call is over.
    fn hear_report(
        &mut self,
        (session, call): (&SimulatedSessionName, &SimulatedCall),
        number: u64,
        given: &mut Option<String>,
        report: CallReport,
    ) -> bool {
        let (world, name) = (self.world.clone(), session.qualified());
        match report {
            CallReport::Given { turn } => {
                if given.is_none() {
                    let what = HistoryEvent::Given { call: number, turn: turn.clone() };
                    world.history.record_event(&name, what);
                    self.note_given(session, call, &turn);
                    *given = Some(turn);
                }
                false
            }
            CallReport::Event { seq, turn, kind, content, view } => {
                // What was read before a deletion and is heard after it is in no log any more.
                if self.count_deletions(session) == self.deleted_before {
                    world.history.record_event(&name, HistoryEvent::Event { seq, turn, kind });
                }
                world.note_seen_event((session, seq, view), content);
                false
            }
            CallReport::Told { turn, end, action } => {
                world.history.record_event(
                    &name,
                    HistoryEvent::Told { call: number, turn: turn.clone(), end: end.clone() },
                );
                self.choose_next_step((session, call), turn.as_deref(), &end, action);
                true
            }
            CallReport::Failed { category } => {
                world.coverage.note_if(category == "chat_turn_unknown", "a turn was not known any more");
                world.history.record_event(&name, HistoryEvent::Gone { call: number });
                // Whoever was given a turn and cannot read it asks again.
                !(given.is_some() && is_temporary(&category))
            }
            CallReport::Done => {
                if *call == SimulatedCall::Delete {
                    *world.waits.lock().deleted.entry(session.clone()).or_default() += 1;
                }
                world.history.record_event(&name, HistoryEvent::Done { call: number });
                true
            }
        }
    }
}

/// Tells whether the same call may succeed a little later.
fn is_temporary(category: &str) -> bool {
    category.starts_with("store_")
        || matches!(category, "chat_shutting_down" | "session_load_failed" | "session_moving")
}
