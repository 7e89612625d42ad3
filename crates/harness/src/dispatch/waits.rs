//! How waits end: by their signal, by a deadline, or given up (D2, INV-7).

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};
use singletree_durable::{JsonDocument, StoredTurnKind, StoredWaitStatus, WaitRow};
use singletree_engine::Error as RunError;
use singletree_session::{
    ChatTurnOutcome, CommitProvenance, EffectIntent, PendingAnswer, QueuedTurn, QueuedWork, StoppedRun,
    StoredPosition, TurnRowExt, TurnState, apply,
};

use crate::Error;
use crate::error::store_corrupt_error;
use crate::runtime::chat_inner::ChatInner;
use crate::runtime::loaded_session::{LoadedSession, OutcomeListener, TurnHandle};
use crate::turn::prepare::TurnPreparation;

/// Why a wait ends without being resumed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WaitEndReason {
    /// Somebody cancelled it (D10).
    Cancelled,
    /// A new message took its place (D1).
    Superseded,
    /// Its deadline passed and it names no values to go on with (D2).
    Expired,
    /// Where it stands does not fit the graph any more (D28).
    Unfit,
}

/// Ends the session's wait: its invocation ends errored, in a turn of its own. Nothing happens when there is none.
pub(crate) async fn close_wait(
    inner: &Arc<ChatInner>,
    loaded: &Arc<LoadedSession>,
    end: WaitEndReason,
) -> Result<Option<Arc<ChatTurnOutcome>>, Error> {
    let Some(wait) = loaded.lock_state().pending_wait().cloned() else { return Ok(None) };
    let (status, error) = match end {
        WaitEndReason::Cancelled | WaitEndReason::Superseded => {
            (StoredWaitStatus::Cancelled, Error::Cancelled)
        }
        WaitEndReason::Expired => {
            (StoredWaitStatus::Expired, Error::SignalExpired { signal: wait.signal.clone() })
        }
        WaitEndReason::Unfit => {
            let reason = "where it stands does not fit the graph any more".into();
            let invocation = wait.invocation.to_string();
            (StoredWaitStatus::Cancelled, RunError::SuspensionRecord { invocation, reason }.into())
        }
    };
    let any = inner.default_served_agent();
    let preparing = TurnPreparation { inner, loaded, served: any };
    let suspended = preparing.read_turn_row(wait.turn).await?;
    let served = inner.agents.get(&suspended.agent).unwrap_or(any);
    let mut turning = TurnPreparation { inner, loaded, served }.load_turn_state(suspended.clone()).await?;
    turning.positioned = true;
    let stopped = read_closed_run(inner, loaded, &mut turning).await?;
    let (outcome, commit) = inner.commit_decision(loaded, |_, writing| {
        turning.row = apply::claim::next_turn_row(writing, &suspended, &wait, StoredTurnKind::Close);
        let errored = served.make_errored_turn(&inner.limits, Some(turning.row.turn_id()), &error);
        let ended = WaitRow { status, ..wait };
        writing.trace = inner.invocation_trace(&turning, &loaded.key).map(|trace| trace.headers());
        apply::close::close_wait(writing, &mut turning, (ended, &stopped), errored)
    })?;
    inner.await_commit(loaded, commit).await?;
    let listeners = loaded.lock_outcome_listeners().all.clone();
    notify_outcome_listeners(&listeners, &outcome);
    Ok(Some(outcome))
}

/// Reads whether the invocation that ends had effects, and where its history ends (D29).
async fn read_closed_run(
    inner: &ChatInner,
    loaded: &LoadedSession,
    turning: &mut TurnState,
) -> Result<StoppedRun, Error> {
    let row =
        inner.await_store_read(inner.journal.read_position(&loaded.key, &turning.row.invocation)).await?;
    // One that cannot be read says nothing of that.
    let position = row.and_then(|row| row.body.decode::<StoredPosition>().ok());
    turning.effects =
        EffectIntent::from_has_intent(position.as_ref().is_some_and(|position| position.effects));
    turning.trace = position.as_ref().and_then(|position| position.trace.clone()).map(Arc::new);
    let history = turning.committed_history();
    let range = turning.locate_last_message(&history).filter(|_| turning.effects.is_intended());
    let last = match range {
        Some(range) => inner.read_item_side(loaded, &range).await,
        None => None,
    };
    let made = position.and_then(|position| CommitProvenance::from_cursor(&position.cursor));
    Ok(StoppedRun { session: None, history, shown: None, made, last })
}

/// Runs the turn that an answer starts; none when the answer was not taken: then nothing was consumed.
pub(crate) async fn run_answer_turn(
    inner: &Arc<ChatInner>,
    loaded: &Arc<LoadedSession>,
    handle: &Arc<TurnHandle>,
    answering: PendingAnswer,
) -> Option<Arc<ChatTurnOutcome>> {
    let wait = loaded.lock_state().begin_answer(answering.wait).cloned();
    let Some(wait) = wait else {
        handle.settle_answer(Err(Error::Correlation { why: "the wait has ended".into() }));
        return None;
    };
    let preparing = TurnPreparation { inner, loaded, served: inner.default_served_agent() };
    let paused = match preparing.load_paused_invocation(&wait).await {
        Ok(paused) => paused,
        Err(error) => {
            settle_failed_answer(inner, loaded, (handle, answering), error).await;
            return None;
        }
    };
    let served = match inner.find_served_agent(&paused.turn.agent).cloned() {
        Ok(served) => served,
        Err(error) => {
            handle.settle_answer(Err(error));
            return None;
        }
    };
    let preparing = TurnPreparation { inner, loaded, served: &served };
    let ready = match preparing.prepare_answer(wait, paused, (handle, answering)).await {
        Ok(ready) => ready,
        Err((error, answering)) => {
            settle_failed_answer(inner, loaded, (handle, answering), error).await;
            return None;
        }
    };
    handle.assign_turn_id(ready.port.committed_row().turn_id());
    inner.run_answered_turn(loaded, handle, ready).await
}

/// An answer could not start its turn, and nothing was consumed. A wait that no answer can ever end is ended here.
pub(crate) async fn settle_failed_answer(
    inner: &Arc<ChatInner>,
    loaded: &Arc<LoadedSession>,
    (handle, answering): (&TurnHandle, PendingAnswer),
    error: Error,
) {
    let category = error.category();
    if category == "chat_signal_expired" && !answering.expired {
        // If this cannot be recorded, the next answer or look at the deadlines tries again.
        drop(expire_pending_wait(inner, loaded, answering.wait).await);
        return handle.settle_answer(Err(error));
    }
    let unfit = matches!(category, "suspension_record_invalid" | "checkpoint_record_invalid");
    // A store that does not work is no reason: it may work again.
    let store = matches!(error, Error::Store { .. }) || inner.is_closing();
    let end = match (unfit, answering.expired && !store) {
        (true, _) => Some(WaitEndReason::Unfit),
        (false, true) => Some(WaitEndReason::Expired),
        (false, false) => None,
    };
    if let Some(end) = end {
        // If even this cannot be recorded, the next answer or deadline tries again.
        drop(close_wait(inner, loaded, end).await);
    }
    handle.settle_answer(Err(error));
}

/// Ends a wait whose deadline has come. The caller has the session's turn. The wait ends at once, or, where it names
/// values to go on with, in the turn that runs next.
async fn expire_pending_wait(
    inner: &Arc<ChatInner>,
    loaded: &Arc<LoadedSession>,
    wait: u64,
) -> Result<(), Error> {
    let pending = loaded.lock_state().pending_wait().filter(|pending| pending.no == wait).cloned();
    let Some(wait) = pending else { return Ok(()) };
    match decode_deadline_fields(&wait)? {
        None => close_wait(inner, loaded, WaitEndReason::Expired).await.map(drop),
        Some(payload) => {
            let expiry = PendingAnswer { wait: wait.no, payload, from: None, expired: true };
            let queued = QueuedTurn { handle: TurnHandle::new(None, None), work: QueuedWork::Answer(expiry) };
            loaded.lock_state().put_before_messages(queued);
            Ok(())
        }
    }
}

pub(crate) fn notify_outcome_listeners(listeners: &[(u64, OutcomeListener)], outcome: &Arc<ChatTurnOutcome>) {
    for (_, listener) in listeners {
        // A listener's panic is its own: the turn is over and recorded.
        drop(catch_unwind(AssertUnwindSafe(|| listener(outcome.clone()))));
    }
}

/// How long the deadlines are not looked at, at most: they are compared with the clock on the wall, and timers stand
/// still while the machine is suspended (D37).
const LONGEST_SLEEP: Duration = Duration::from_mins(1);

/// The same where other processes write to the store: they wake nobody here when a turn waits, and one that dies leaves its
/// deadlines to the others.
const LONGEST_SLEEP_BESIDE_OTHERS: Duration = Duration::from_secs(5);

impl ChatInner {
    /// Watches deadlines in the background, from the first call on.
    pub(crate) fn watch_deadlines(self: &Arc<Self>) {
        use std::sync::atomic::Ordering;
        if self.watching.swap(true, Ordering::AcqRel) {
            return;
        }
        let (watched, timer) = (Arc::downgrade(self), self.env.timer.clone());
        let is_shared = self.journal.has_other_writers();
        let longest = if is_shared { LONGEST_SLEEP_BESIDE_OTHERS } else { LONGEST_SLEEP };
        self.tasks.spawn_task(async move {
            while let Some(inner) = watched.upgrade().filter(|inner| !inner.is_closing()) {
                let next = inner.expire_due_waits().await;
                let bell = inner.deadlines.clone();
                drop(inner);
                drop(timer.run_with_timeout(next.min(longest), bell.notified()).await);
            }
        });
    }

    /// Ends the waits whose deadline has passed; returns how long to wait for the next one.
    pub(crate) async fn expire_due_waits(self: &Arc<Self>) -> Duration {
        const AGAIN: Duration = Duration::from_secs(1);
        const PAGE: u64 = 256;
        let now = self.current_time();
        let mut limit = PAGE;
        // Waits that are not ours to end stay due: they must not hide those behind them.
        let due = loop {
            let Ok(due) = self.await_store_read(self.upkeep.read_waits_by_deadline(Some(now), limit)).await
            else {
                return AGAIN;
            };
            if due.len() as u64 == limit && due.iter().all(|(key, _)| !self.serves_tenant(&key.tenant)) {
                limit = limit.saturating_mul(2);
            } else {
                break due;
            }
        };
        let due_count = due.len() as u64;
        let mut left = due_count == limit;
        for (key, wait) in due.into_iter().filter(|(key, _)| self.serves_tenant(&key.tenant)) {
            left |= match self.session_in_memory(&key) {
                Ok(loaded) => self.expire_wait(&loaded, wait).await.is_err(),
                Err(_) => true,
            };
        }
        if left {
            return AGAIN;
        }
        match self.await_store_read(self.upkeep.read_waits_by_deadline(None, due_count + 1)).await {
            Ok(next) => {
                let next = next.iter().filter_map(|(_, it)| it.deadline);
                // A wait that is still due is being ended, or is not ours.
                let still = next.clone().any(|it| it <= now);
                let next = next
                    .filter(|next| *next > now)
                    .min()
                    .map_or(LONGEST_SLEEP, |next| next.duration_since(now));
                if still { next.min(AGAIN) } else { next }
            }
            Err(_) => AGAIN,
        }
    }

    async fn expire_wait(self: &Arc<Self>, loaded: &Arc<LoadedSession>, wait: WaitRow) -> Result<(), Error> {
        self.ensure_session_ready(loaded).await?;
        let preparing = TurnPreparation { inner: self, loaded, served: self.default_served_agent() };
        if !self.agents.contains_key(&preparing.read_turn_row(wait.turn).await?.agent) {
            // Another process has the agent (D28).
            return Ok(());
        }
        let Some(fields) = decode_deadline_fields(&wait)? else {
            // Behind whatever runs in the session now: an answer that came first wins.
            let Some(held) = loaded.try_hold_turn() else {
                return Err(RunError::Argument { what: "the session is busy".into() }.into());
            };
            let still = loaded.lock_state().pending_wait().is_some_and(|pending| pending.no == wait.no);
            let closed =
                if still { close_wait(self, loaded, WaitEndReason::Expired).await.map(drop) } else { Ok(()) };
            drop(held);
            // A turn has ended, and the state was read for it.
            self.trim_loaded_sessions();
            self.wake_queue(loaded);
            return closed;
        };
        if loaded.lock_state().pending_wait().is_none_or(|pending| pending.no != wait.no) {
            return Ok(());
        }
        let expiry = PendingAnswer { wait: wait.no, payload: fields, from: None, expired: true };
        // One that came first wins; if it is refused, the next look finds the wait still due.
        if loaded.lock_state().queue_answer(TurnHandle::new(None, None), expiry).is_none() {
            self.wake_queue(loaded);
        }
        Ok(())
    }
}

fn decode_deadline_fields(wait: &WaitRow) -> Result<Option<Map<String, Value>>, Error> {
    let fields = wait.on_deadline.as_ref().map(JsonDocument::decode).transpose();
    fields
        .map_err(|error| store_corrupt_error(format!("on_deadline of wait {}", wait.no), Some(error.into())))
}
