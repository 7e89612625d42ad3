//! The choice of a client's next call.

use std::time::Duration;

use serde_json::json;
use singletree_audit::AuditedOutcome;

use super::handler::is_office;
use super::{AwaitedAnswer, SimulatedCall, SimulatedClient, SimulatedSessionName};
use crate::agents::EARLY;

/// The tenants. Their sessions have the same names.
pub(crate) const TENANTS: [&str; 2] = ["default", "other"];

/// The session that is deleted often.
const DELETED: &str = "d0";

/// How the names of sessions with agents of a user begin; the number of the agent follows.
pub(crate) const USER_SESSION: &str = "a";

/// How many forks there are at most.
const FORKS: u64 = 8;

impl SimulatedClient {
    /// Chooses a call that does not follow from an answer.
    pub(super) fn choose_call(&mut self) -> (SimulatedSessionName, SimulatedCall) {
        if let Some(call) = self.choose_cancel() {
            return call;
        }
        let knowledge = self.world.waits.lock();
        if self.random.draw_percent(6)
            && let Some((session, text, key)) = self.random.draw_from(&knowledge.keyed)
        {
            return (session, SimulatedCall::Send { text, key: Some(key), steers: false });
        }
        if self.random.draw_percent(12)
            && let Some((session, turn, text)) = self.random.draw_from(&knowledge.failed)
        {
            return (session, SimulatedCall::Retry { turn, text });
        }
        let at = self.random.draw_index(knowledge.waits.len());
        let awaited =
            knowledge.waits.iter().nth(at).map(|(session, awaited)| (session.clone(), awaited.clone()));
        drop(knowledge);
        if self.random.draw_percent(30)
            && let Some((session, awaited)) = awaited
        {
            let call = self.answer_wait(awaited);
            return (session, call);
        }
        let session = self.draw_session();
        if session.session == DELETED && self.random.draw_percent(25) || self.random.draw_percent(2) {
            return (session, SimulatedCall::Delete);
        }
        self.choose_message(session)
    }

    /// Chooses a turn of anybody to cancel; rather when a deletion is under way, with which it races.
    fn choose_cancel(&self) -> Option<(SimulatedSessionName, SimulatedCall)> {
        let knowledge = self.world.waits.lock();
        let percent = if knowledge.deleting > 0 { 50 } else { 8 };
        if !self.random.draw_percent(percent) {
            return None;
        }
        let (session, turn) = self.random.draw_from(&knowledge.running)?;
        if knowledge.deleting > 0 {
            self.world.coverage.note("a cancel raced a deletion");
        }
        Some((session, SimulatedCall::Cancel { turn }))
    }

    fn draw_session(&self) -> SimulatedSessionName {
        let tenant = self.random.draw_from(&TENANTS).unwrap_or_default().to_owned();
        if let Some(agents) = &self.world.agents {
            let agent = self.random.draw_index(agents.agent_names().len());
            let number = self.random.draw_index(self.world.settings.sessions);
            let deletes = self.random.draw_percent(10);
            let session =
                if deletes { DELETED.to_owned() } else { format!("{USER_SESSION}{agent}-{number}") };
            return SimulatedSessionName { tenant, session };
        }
        let session = match self.random.draw_below(10) {
            0 | 1 => DELETED.to_owned(),
            2 | 3 => "o0".to_owned(),
            _ => format!("s{}", self.random.draw_index(self.world.settings.sessions)),
        };
        SimulatedSessionName { tenant, session }
    }

    fn choose_message(&self, session: SimulatedSessionName) -> (SimulatedSessionName, SimulatedCall) {
        let word = match (is_office(&session.session), self.random.draw_below(100)) {
            _ if self.world.agents.is_some() => "request",
            (true, 0..25) => "later",
            (true, 25..40) => "valued",
            (true, 40..60) => EARLY,
            (true, _) => "note",
            (false, 0..10) => "risky",
            (false, 10..22) => "slow",
            (false, 22..38) => "effect",
            (false, 38..48) => "once",
            (false, 48..58) => "pair",
            (false, 58..62) => "look",
            (false, 62..68) => "far",
            (false, 68..74) => "aside",
            (false, 74..80) => "break",
            (false, 80..83) => "loop",
            (false, 83..86) => "fail",
            (false, _) => "plain",
        };
        let mut knowledge = self.world.waits.lock();
        let text = format!("{word} {}-{}", session.tenant, knowledge.sent);
        knowledge.sent += 1;
        if word == EARLY && self.random.draw_percent(50) {
            // The signal comes first.
            drop(knowledge);
            let signal = format!("{EARLY}-{}", text.replace(' ', "-"));
            let send = SimulatedCall::Send { text, key: None, steers: false };
            self.schedule_early(&session, send);
            let payload = json!({ "approved": true });
            return (session, SimulatedCall::Answer { signal, payload, to: None, may_keep: true });
        }
        if self.random.draw_percent(8) && !is_office(&session.session) {
            let fork = SimulatedSessionName {
                session: format!("f{}", self.random.draw_below(FORKS)),
                ..session.clone()
            };
            knowledge.forks += 1;
            if knowledge.deleting > 0 {
                self.world.coverage.note("a fork raced a deletion");
            }
            let edits = self.random.draw_percent(60).then(|| self.random.draw_below(1_000));
            return (fork, SimulatedCall::Branch { from: session.session, text, edits });
        }
        let steers = word == "aside" || self.random.draw_percent(4);
        let key = (!steers && self.random.draw_percent(60)).then(|| format!("key of {text}"));
        if let Some(key) = &key {
            knowledge.keyed.push((session.clone(), text.clone(), key.clone()));
        }
        (session, SimulatedCall::Send { text, key, steers })
    }

    /// Lets somebody else send the message for which an early signal is on its way.
    fn schedule_early(&self, session: &SimulatedSessionName, send: SimulatedCall) {
        let (world, session) = (self.world.clone(), session.clone());
        let number = self.number + 100;
        let mut other = Self::new(world.clone(), number);
        let after = Duration::from_millis(self.random.draw_below(50));
        world.clone().spawn_in_world(async move {
            world.executor.sleep_for(after).await;
            other.make_call(session, send).await;
        });
    }

    fn answer_wait(&self, awaited: AwaitedAnswer) -> SimulatedCall {
        let payload = json!({ "approved": self.random.draw_percent(75) });
        let may_keep = awaited.to.is_none() && self.random.draw_percent(30);
        SimulatedCall::Answer { signal: awaited.signal, payload, to: awaited.to, may_keep }
    }

    pub(super) fn note_call(&self, session: &SimulatedSessionName, call: &SimulatedCall) {
        let pair = |session: &SimulatedSessionName| (session.tenant.clone(), session.session.clone());
        self.world.sessions.lock().unwrap_or_else(std::sync::PoisonError::into_inner).insert(pair(session));
        if *call == SimulatedCall::Delete {
            self.world.waits.lock().deleting += 1;
        }
    }

    pub(super) fn note_call_end(&self, call: &SimulatedCall) {
        if *call == SimulatedCall::Delete {
            self.world.waits.lock().deleting -= 1;
        }
    }

    pub(super) fn note_given(&self, session: &SimulatedSessionName, call: &SimulatedCall, turn: &str) {
        let mut knowledge = self.world.waits.lock();
        if let SimulatedCall::Send { text, .. }
        | SimulatedCall::Retry { text, .. }
        | SimulatedCall::Branch { text, .. } = call
        {
            knowledge.texts.insert(turn.to_owned(), text.clone());
        }
        knowledge.running.push((session.clone(), turn.to_owned()));
    }

    /// Sends the same again whose answer was lost, when it has a key.
    pub(super) fn come_back(&mut self, session: &SimulatedSessionName, call: &SimulatedCall) {
        if let SimulatedCall::Send { key: Some(_), .. } | SimulatedCall::Answer { .. } = call
            && self.random.draw_percent(70)
        {
            self.world.coverage.note("a call was repeated after its connection was lost");
            self.next = Some((session.clone(), call.clone()));
        }
    }

    /// Chooses the next step after this answer.
    pub(super) fn choose_next_step(
        &mut self,
        (session, call): (&SimulatedSessionName, &SimulatedCall),
        turn: Option<&str>,
        end: &AuditedOutcome,
        action: Option<String>,
    ) {
        let mut knowledge = self.world.waits.lock();
        if let Some(turn) = turn {
            knowledge.running.retain(|(_, running)| running != turn);
        }
        match end {
            AuditedOutcome::Suspended { signal, wait, .. } => {
                let to = action.map(|action| (*wait, action));
                let awaited = AwaitedAnswer { signal: signal.clone(), to };
                knowledge.waits.insert(session.clone(), awaited.clone());
                if let Some(turn) = turn {
                    knowledge.running.push((session.clone(), turn.to_owned()));
                }
                drop(knowledge);
                if self.random.draw_percent(60) {
                    self.next = Some((session.clone(), self.answer_wait(awaited)));
                }
            }
            AuditedOutcome::Completed { .. } => drop(knowledge.waits.remove(session)),
            AuditedOutcome::Errored { category, retry_safe, .. } => {
                self.world.coverage.note(coverage_of_error(category));
                let is_answer = matches!(call, SimulatedCall::Answer { .. });
                let is_late = is_answer && category == "chat_signal_expired";
                self.world.coverage.note_if(is_late, "an answer raced a deadline");
                let text = turn.and_then(|turn| knowledge.texts.get(turn)).cloned();
                if let (Some(turn), Some(text)) = (turn, text) {
                    knowledge.failed.push((session.clone(), turn.to_owned(), text));
                }
                drop(knowledge);
                let resends = matches!(call, SimulatedCall::Send { key: Some(_), .. }) && *retry_safe;
                if resends && self.random.draw_percent(60) {
                    self.next = Some((session.clone(), call.clone()));
                }
            }
        }
    }
}

/// Returns the case that an error category is.
fn coverage_of_error(category: &str) -> &'static str {
    match category {
        "chat_turn_cancelled" => "a turn was cancelled",
        "chat_turn_crashed" => "a turn died with its process too often",
        "chat_budget_exhausted" => "a turn used up its budget",
        "chat_signal_expired" => "a wait expired, or an answer came after its deadline",
        "chat_signal_conflict" => "two answers differed",
        "chat_session_suspended" => "a message was refused while its session waited",
        "chat_queue_full" => "a queue was full",
        "chat_accept_failed" => "a message was refused since the store failed",
        "chat_accept_unknown" => "it was not known whether a message was accepted",
        "chat_retry_superseded" => "a retry came too late",
        "chat_mailbox_full" => "a mailbox was full",
        "chat_shutting_down" => "a call met a process that was stopping",
        _ => "a turn failed otherwise",
    }
}
