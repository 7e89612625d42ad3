//! Answering in no session: a list of messages in, a reply out, nothing kept (harness §3.0, D16).

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_core::Stream;
use futures_util::stream::unfold;
use singletree_durable::{InvocationId, SessionId};
use singletree_engine::{
    Extensions, FieldContent, Item, PersistentList, Snapshot, StateUpdate, TraceHeaders,
};
use singletree_llm::{ChatMessage, validate_messages};
use singletree_session::{
    AnswerEnd, BudgetUsage, ChatEvent, ChatEventKind, ChatTurnOutcome, CompletedTurn, DispatchPath,
    ErroredTurn, HISTORY, HistoryMarks, MessageId, ModelTokenUsage, SideRecords, TurnId, TurnModelUsage,
    history_of_state, messages_from,
};
use tokio::sync::broadcast::error::RecvError;

use crate::api::chat::Chat;
use crate::api::listen::LiveEvents;
use crate::base::{Harness, HarnessOutcome, InboundRequest, TurnReport};
use crate::runtime::chat_inner::ServedAgent;
use crate::runtime::feed::EventBroadcast;
use crate::turn::budget::TurnBudget;
use crate::turn::stream::TurnStream;
use crate::turn::turn_context::TurnContext;
use crate::{Error, Result};

/// A request for an answer outside of any session.
#[derive(Debug, Clone, Default)]
pub struct StatelessRequest {
    messages: Vec<ChatMessage>,
    agent: Option<String>,
    extensions: Extensions,
}

impl StatelessRequest {
    /// Asks for the answer to a conversation: messages of all roles, all there is.
    #[must_use]
    pub fn new(messages: impl IntoIterator<Item = ChatMessage>) -> Self {
        Self { messages: messages.into_iter().collect(), ..Self::default() }
    }

    /// Names the agent that answers; the first one otherwise.
    #[must_use]
    pub fn agent(mut self, agent: impl Into<String>) -> Self {
        self.agent = Some(agent.into());
        self
    }

    /// Hands values to the agent's nodes, by type.
    #[must_use]
    pub fn extensions(mut self, extensions: Extensions) -> Self {
        self.extensions = extensions;
        self
    }
}

impl Chat {
    /// Answers a list of messages once, in no session: one run of the abstract harness in stateless mode, of the graph
    /// that the agent has for it ([`GraphAgent::stateless`](crate::GraphAgent::stateless)). No store is touched.
    ///
    /// The run is told as a turn is, by events without ids: deltas and tool activity as they come, then the messages
    /// that were added; the last event is the outcome. A slow reader gets the text so far in one piece. The budgets of
    /// a turn hold: tool calls, tokens, time.
    ///
    /// # Errors
    /// Before anything runs: `chat_agent_unknown`, `chat_session_required` when the agent answers in sessions only,
    /// `chat_message_shape_invalid` when no model could answer the list, `chat_tenant_foreign`, `chat_shutting_down`. A
    /// later failure is the outcome.
    ///
    /// # Cancellation
    /// The run goes on while the stream is read; dropping it ends the run.
    pub fn stateless(&self, request: StatelessRequest) -> Result<StatelessRun> {
        // A run takes a place as a turn does, for as long as it is read.
        let permit = self.admit_turn().map_err(|error| self.refused_turn(&error))?;
        let (answering, budget) =
            self.begin_stateless_run(request).map_err(|error| self.refused_turn(&error))?;
        let events = unfold((answering, permit), |(mut answering, permit)| async move {
            answering.next_event().await.map(|event| (event, (answering, permit)))
        });
        Ok(StatelessRun { events: Box::pin(events), budget })
    }

    fn begin_stateless_run(&self, request: StatelessRequest) -> Result<(StatelessRunState, TurnBudget)> {
        let StatelessRequest { messages, agent, extensions } = request;
        self.served_tenant()?;
        if self.inner.is_closing() {
            return Err(Error::ShuttingDown);
        }
        let served = match &agent {
            Some(agent) => self.inner.find_served_agent(agent)?,
            None => self.inner.default_served_agent(),
        };
        let graph = served.agent.stateless.clone().ok_or_else(|| Error::SessionRequired {
            agent: served.agent.name.clone(),
            why: "it answers in sessions only".into(),
        })?;
        validate_messages(&messages).map_err(|error| Error::MessageShape { why: error.to_string() })?;
        let len = messages.len() as u64;
        let list: PersistentList = messages.into_iter().map(Item::from_typed).collect();
        let teller = RunEventBuilder::new(self, served.clone(), len)?;
        let stream = teller.stream.clone();
        let live = teller.feed.subscribe_to_events();
        let budget = TurnBudget::new(
            &self.inner.env,
            served.bounds,
            BudgetUsage::default(),
            TurnModelUsage::default(),
        );
        let context =
            TurnContext::new(stream, budget.clone(), teller.sides.clone(), self.inner.env.rng.clone());
        let extensions = extensions.with_value(context);
        let (ServedAgent { agent, .. }, counted) = (served.as_ref(), budget.clone());
        let redact = agent.replies.redact.clone();
        let harness = Harness::stateless(graph)
            .state_builder(move |_| StateUpdate::new().with(HISTORY, FieldContent::Many(list.clone())))
            .buckets(agent.buckets.clone())
            .redact(move |text| redact(text))
            .limits(self.inner.limits.clone())
            .env(self.inner.env.clone())
            .extensions(extensions)
            .build();
        let run = async move {
            tokio::select! {
                biased;
                report = harness.handle(InboundRequest::default()) => StatelessRunEnd::Ran(report),
                error = budget.wait_for_timeout() => StatelessRunEnd::Late(error),
            }
        };
        // Its calls go out in the trace of the caller.
        let run = Box::pin(TraceHeaders::scope(TraceHeaders::current(), run));
        Ok((StatelessRunState { teller, live, run: Some(run), ready: VecDeque::new() }, counted))
    }
}

/// An answer outside of any session, in progress: a stream of events, the last of which is the outcome.
pub struct StatelessRun {
    events: Pin<Box<dyn Stream<Item = ChatEvent> + Send>>,
    budget: TurnBudget,
}

impl StatelessRun {
    /// Returns the model usage of the run so far, by model. It is counted nowhere else.
    #[must_use]
    pub fn usage(&self) -> Vec<ModelTokenUsage> {
        self.budget.model_usage().to_token_usages()
    }
}

impl Stream for StatelessRun {
    type Item = ChatEvent;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<ChatEvent>> {
        self.events.as_mut().poll_next(cx)
    }
}

impl fmt::Debug for StatelessRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StatelessRun").finish_non_exhaustive()
    }
}

enum StatelessRunEnd {
    Ran(TurnReport<Snapshot>),
    Late(Error),
}

/// A run while it is read.
struct StatelessRunState {
    teller: RunEventBuilder,
    live: LiveEvents,
    run: Option<Pin<Box<dyn Future<Output = StatelessRunEnd> + Send>>>,
    ready: VecDeque<ChatEvent>,
}

impl StatelessRunState {
    async fn next_event(&mut self) -> Option<ChatEvent> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            let run = self.run.as_mut()?;
            tokio::select! {
                biased;
                heard = self.live.recv() => match heard {
                    Ok(event) => return Some(event.as_ref().clone()),
                    Err(RecvError::Lagged(_)) => {
                        // The run stands still meanwhile: from here on nothing is missed, and nothing heard twice.
                        self.live = self.live.resubscribe();
                        self.ready.extend(self.teller.stream.text_so_far_event());
                    }
                    // The feed is held here and never ended.
                    Err(RecvError::Closed) => return None,
                },
                ended = run => {
                    self.run = None;
                    while let Ok(event) = self.live.try_recv() {
                        self.ready.push_back(event.as_ref().clone());
                    }
                    self.ready.extend(self.teller.build_end_events(ended));
                }
            }
        }
    }
}

/// Makes the events that tell of a run.
struct RunEventBuilder {
    served: Arc<ServedAgent>,
    chat: Chat,
    session: SessionId,
    turn: TurnId,
    feed: EventBroadcast,
    stream: TurnStream,
    sides: SideRecords,
    /// How many messages there were.
    given: u64,
}

impl RunEventBuilder {
    fn new(chat: &Chat, served: Arc<ServedAgent>, given: u64) -> Result<Self> {
        let (inner, name) = (&chat.inner, chat.inner.env.ids.generate_uuid());
        let unfit = |it: singletree_durable::InvalidIdentifier| Error::SessionId { why: it.to_string() };
        let session = SessionId::parse(&name).map_err(unfit)?;
        let turn = TurnId::new(InvocationId::parse(&name).map_err(unfit)?, 0);
        let feed = EventBroadcast::new(inner.limits.feed_backlog);
        let sides = SideRecords::default();
        let shown = (feed.clone(), inner.limits.shown_bytes, sides.clone());
        let stream = TurnStream::new(session.clone(), turn.clone(), 0, shown, inner.env.clock.clone());
        stream.set_history_marks(HistoryMarks { first: given, boundary: given, announced: given });
        Ok(Self { served, chat: chat.clone(), session, turn, feed, stream, sides, given })
    }

    fn build_event(&self, what: ChatEventKind) -> ChatEvent {
        let at = self.chat.inner.current_time();
        ChatEvent { id: None, session: self.session.clone(), turn: self.turn.clone(), at, what }
    }

    fn build_end_events(&self, ended: StatelessRunEnd) -> Vec<ChatEvent> {
        let told = match ended {
            StatelessRunEnd::Late(error) => Err(self.build_errored_turn(&error)),
            StatelessRunEnd::Ran(report) => match report.outcome {
                HarnessOutcome::Completed(done) => {
                    self.build_completed_events(&done.state).map_err(|error| self.build_errored_turn(&error))
                }
                HarnessOutcome::Suspended(_) => Err(self.build_errored_turn(&self.wait_unsupported_error())),
                HarnessOutcome::Errored(failure) => {
                    let errored = self.build_errored_turn(&failure.error);
                    let reply = self
                        .served
                        .agent
                        .replies
                        .render_reply((failure.bucket, &errored.error_category), &errored.diagnostic);
                    Err(ErroredTurn { error_bucket: failure.bucket, reply, ..errored })
                }
            },
        };
        told.unwrap_or_else(|errored| {
            let outcome = Arc::new(ChatTurnOutcome::Errored(errored));
            vec![self.build_event(ChatEventKind::TurnErrored { outcome })]
        })
    }

    fn build_completed_events(&self, state: &Snapshot) -> Result<Vec<ChatEvent>, Error> {
        let replies = messages_from(&history_of_state(state), self.given)?;
        let appended = (0..).zip(&replies).map(|(k, message)| {
            let (id, side) =
                (MessageId { turn: self.turn.clone(), k }, self.sides.side_record_at(self.given + k));
            self.build_event(ChatEventKind::MessageAppended { id, message: message.clone(), side })
        });
        let mut events: Vec<_> = appended.collect();
        let (turn, path) = (self.turn.clone(), DispatchPath::Stateless);
        let answer = AnswerEnd::from_side_records(&self.sides, self.given + replies.len() as u64);
        let outcome = CompletedTurn { turn, replies, final_state: Some(state.clone()), path, answer };
        let outcome = Arc::new(ChatTurnOutcome::Completed(outcome));
        events.push(self.build_event(ChatEventKind::TurnCompleted { outcome }));
        Ok(events)
    }

    fn wait_unsupported_error(&self) -> Error {
        Error::SessionRequired {
            agent: self.served.agent.name.clone(),
            why: "it waits for a signal, which only a session can".into(),
        }
    }

    fn build_errored_turn(&self, error: &Error) -> ErroredTurn {
        let errored = self.served.make_errored_turn(&self.chat.inner.limits, Some(self.turn.clone()), error);
        ErroredTurn { recorded: false, ..errored }
    }
}
