//! The only commit path of a session: decide, send, wait until the batch is durable, publish.
//!
//! Every change of a session takes this path. The calls of the chat differ only in their decisions.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, PoisonError};

use singletree_durable::{
    Batch, BoxFuture, EarlySignalRow, FencingToken, RowMutation, SessionKey, Timestamp, TurnRowQuery,
};
use singletree_narration::NarrationMessage;
use singletree_session::{
    BatchBuilder, ChatEvent, ChatTurnOutcome, LandedChange, QueuedTurn, QueuedWork, SignalMailbox, TurnRowExt,
};
use tokio::sync::oneshot;

use crate::runtime::chat_inner::ChatInner;
use crate::runtime::loaded_session::{CommitInFlight, LoadedSession, LoadedState, TurnHandle};
use crate::runtime::narrate::{EventNarrator, NarrationPiece};
use crate::runtime::narrator::emit_narration;
use crate::runtime::notice::Notice;
use crate::runtime::noticing::NoticePublisher;
use crate::runtime::tenant_events::SessionChange;
use crate::runtime::watcher::EndedTurn;
use crate::{Error, Result};

/// A batch in flight, with the events and notices to publish once it has landed.
pub(crate) struct PendingCommit {
    landing: BoxFuture<'static, singletree_durable::Result<()>>,
    events: Vec<ChatEvent>,
    notices: Vec<Arc<Notice>>,
    /// The early signals that it removes: they are kept if it does not land.
    removed_signals: Vec<EarlySignalRow>,
    /// Whether it notes that the trace of a turn is to be exported.
    has_unsent_turn: bool,
    session_change: Option<SessionChange>,
    /// The turns that it ends; empty without a watcher.
    ended: Vec<EndedTurn>,
    trace: Option<CommitMarker>,
    /// The change of the session's state that it makes once it has landed.
    change: LandedChange,
    /// Set when the batch changes the session's state.
    in_flight: Option<CommitInFlight>,
}

/// Receives the error of each look at a commit whose reply was lost that failed; tells whether to look again.
pub(crate) type DoubtReport<'a> = &'a (dyn Fn(&Error) -> bool + Sync);

/// The part of a batch that shows whether it landed when the reply of the store is lost (D20). This process never uses a
/// number again, but another owner of the session may have given the same one to something else: so times are compared, too.
enum CommitMarker {
    Event { seq: u64, turn: u64, at: Timestamp },
    Version { version: u64, at: Timestamp },
    TakenOver { turn: u64, fence: FencingToken },
}

impl CommitMarker {
    fn from_batch(batch: &Batch) -> Option<Self> {
        let event = batch.puts.iter().find_map(|put| match put {
            RowMutation::Event(row) => Some(Self::Event { seq: row.seq, turn: row.turn, at: row.at }),
            _ => None,
        });
        event.or_else(|| {
            batch.puts.iter().find_map(|put| match put {
                RowMutation::Head(head) => Some(Self::Version { version: head.version, at: head.updated_at }),
                RowMutation::Turn(row) => Some(Self::TakenOver { turn: row.no, fence: row.fence }),
                _ => None,
            })
        })
    }
}

impl ChatInner {
    /// Decides about a session, and hands the batch of the decision to the store under the same lock: the order of
    /// decisions is the order of batches (INV-1). Nothing is sent when the decision fails; a decision changes the state
    /// only after the last thing that may fail.
    pub(crate) fn commit_decision<T, E>(
        &self,
        loaded: &Arc<LoadedSession>,
        decision: impl FnOnce(&mut LoadedState, &mut BatchBuilder) -> std::result::Result<T, E>,
    ) -> std::result::Result<(T, PendingCommit), E> {
        let mut state = loaded.lock_state();
        let fence = state.batch_fence();
        let writing =
            BatchBuilder::new(&loaded.key, fence, state.next_numbers(), self.current_time(), &self.epoch);
        let mailbox = SignalMailbox::from_state(&state, &self.limits);
        let mut writing = writing.with_mailbox(mailbox).with_limits(&self.limits);
        let decided = decision(&mut state, &mut writing)?;
        let commit = self.send_batch(loaded, &mut state, writing);
        Ok((decided, commit))
    }

    fn send_batch(
        &self,
        loaded: &Arc<LoadedSession>,
        state: &mut LoadedState,
        writing: BatchBuilder,
    ) -> PendingCommit {
        let mut writing = writing.finish_batch();
        let notices = self.noticing.notices_of_batch(&writing);
        writing.batch.puts.extend(NoticePublisher::documents_for_notices(&notices));
        let deeds = self.auditing.documents_for_batch(&writing.batch, writing.now);
        writing.batch.puts.extend(deeds);
        let unsent = self.unsent_turns.documents_for_batch(&writing);
        let has_unsent_turn = !unsent.is_empty();
        writing.batch.puts.extend(unsent);
        let ended = if self.watcher.is_some() { EndedTurn::find_in_batch(&writing) } else { Vec::new() };
        let removed_signals = state.early_signals_removed_by(&writing.batch);
        let changes_state = state.begin_commit(&writing.batch, writing.counters, self.keeps_mail);
        let in_flight = changes_state.then(|| CommitInFlight(loaded.clone()));
        let trace = CommitMarker::from_batch(&writing.batch);
        let session_change = SessionChange::from_batch(&writing.batch, writing.now);
        let landing = self.journal.apply(writing.batch);
        let BatchBuilder { events, landed: change, .. } = writing;
        PendingCommit {
            landing,
            events,
            notices,
            removed_signals,
            has_unsent_turn,
            session_change,
            ended,
            trace,
            change,
            in_flight,
        }
    }

    /// Waits until a commit has landed, changes the session's state as the commit says, and publishes its events.
    /// Call this only in a task of the chat: a future that is dropped halfway would not publish the events.
    pub(crate) async fn await_commit(
        &self,
        loaded: &LoadedSession,
        commit: PendingCommit,
    ) -> singletree_durable::Result<()> {
        self.await_settled_commit(loaded, commit, None).await
    }

    /// As [`ChatInner::await_commit`]. With a report, a commit whose reply is lost is looked up until the store tells
    /// whether it landed, until the chat closes, or as long as the report wants it: a second attempt would be refused, and
    /// nobody would publish the events of the first.
    pub(crate) async fn await_settled_commit(
        &self,
        loaded: &LoadedSession,
        commit: PendingCommit,
        report_doubt: Option<DoubtReport<'_>>,
    ) -> singletree_durable::Result<()> {
        if let Err(error) = commit.landing.await {
            note_failed_commit(loaded, &error);
            let refused = error.is_refusal();
            // Unless the store refused the batch, it may have landed although its reply was lost: ask the store.
            if refused || !self.settle_commit(loaded, commit.trace.as_ref(), report_doubt).await {
                // A run whose suspension failed may suspend again, and takes its signal then.
                loaded.lock_state().restore_early_signals(commit.removed_signals);
                return Err(error);
            }
        }
        self.pause_if_due("commit_landed").await;
        let ended = self.apply_landed_change(loaded, commit.change);
        drop(commit.in_flight);
        if self.tenant_log.is_used() {
            self.tenant_log.wake_reader();
        } else {
            let SessionKey { tenant, session } = &loaded.key;
            self.tenant_events.publish_commit(tenant, session, commit.session_change, &commit.events);
        }
        for event in commit.events {
            self.report_ended_turn(loaded, &commit.ended, &event);
            self.narrate_event(loaded, &event);
            loaded.feed.publish_event(event);
        }
        self.noticing.publish_notices(commit.notices);
        if commit.has_unsent_turn {
            self.unsent_turns.report_new_notes(&loaded.key.tenant);
        }
        for (handle, outcome) in ended {
            handle.publish_outcome(outcome);
        }
        Ok(())
    }

    /// Makes the change of a commit that has landed. Returns the other turns that the commit has ended, so that their
    /// callers get the outcome.
    fn apply_landed_change(
        &self,
        loaded: &LoadedSession,
        change: LandedChange,
    ) -> Vec<(Arc<TurnHandle>, Arc<ChatTurnOutcome>)> {
        let mut state = loaded.lock_state();
        let effects = state.commit_landed(change);
        if let Some(row) = effects.resumes {
            let handle = TurnHandle::new(Some(row.turn_id()), None);
            handle.settle_acceptance(true);
            let work = QueuedWork::Recover { row, has_run: false };
            state.put_before_messages(QueuedTurn { handle, work });
        }
        drop(state);
        if effects.has_deadline {
            self.deadlines.notify_one();
        }
        effects.ended
    }

    /// Reports a turn that has ended to the watcher.
    fn report_ended_turn(&self, loaded: &LoadedSession, ended: &[EndedTurn], event: &ChatEvent) {
        let (Some(watcher), Some(outcome)) = (&self.watcher, event.what.outcome()) else { return };
        let Some(ended) = ended.iter().find(|it| it.matches_outcome(outcome)) else { return };
        let state = loaded.lock_state();
        let running = state.running_turn().filter(|running| running.no == Some(ended.turn_number()));
        let since = running.and_then(|running| running.since);
        drop(state);
        let report = ended.build_end_report(&loaded.key, since, outcome);
        // A watcher that panics must not affect the turn, which has ended.
        drop(catch_unwind(AssertUnwindSafe(|| watcher.on_turn_end(&report))));
    }

    /// Finds out whether a commit landed. If the store cannot be read, it counts as not landed, or is looked up again
    /// where its doubt is reported and the report wants it.
    async fn settle_commit(
        &self,
        loaded: &LoadedSession,
        trace: Option<&CommitMarker>,
        report_doubt: Option<DoubtReport<'_>>,
    ) -> bool {
        loop {
            let error = match self.has_landed(loaded, trace).await {
                Ok(landed) => return landed,
                Err(error) => error,
            };
            let is_repeated = report_doubt.is_some_and(|report| report(&error));
            if !is_repeated || !error.is_unavailable() || self.is_closing() {
                return false;
            }
            self.env.timer.sleep_for(self.limits.record_retry).await;
        }
    }

    async fn has_landed(&self, loaded: &LoadedSession, trace: Option<&CommitMarker>) -> Result<bool> {
        let (journal, key) = (&self.journal, &loaded.key);
        Ok(match trace {
            Some(&CommitMarker::Event { seq, turn, at }) => self
                .await_store_read(journal.read_events(key, seq, 1))
                .await?
                .first()
                .is_some_and(|it| (it.seq, it.turn, it.at) == (seq, turn, at)),
            Some(&CommitMarker::Version { version, at }) => self
                .await_store_read(journal.read_session(key))
                .await?
                .is_some_and(|it| (it.head.version, it.head.updated_at) == (version, at)),
            Some(&CommitMarker::TakenOver { turn, fence }) => {
                let rows = self.await_store_read(journal.read_turns(key, &TurnRowQuery::No(turn))).await?;
                rows.first().is_some_and(|rows| rows.fence == fence)
            }
            None => false,
        })
    }

    /// As [`ChatInner::await_commit`], in a task of the chat, so that it completes even if the caller is dropped.
    pub(crate) async fn await_commit_in_task(
        self: &Arc<Self>,
        loaded: &Arc<LoadedSession>,
        commit: PendingCommit,
    ) -> Result<()> {
        let (told, landed) = oneshot::channel();
        let (inner, loaded) = (self.clone(), loaded.clone());
        self.tasks.spawn_task(async move {
            let landed = inner.await_commit(&loaded, commit).await;
            // The caller may have been dropped.
            drop(told.send(landed));
        });
        Ok(landed.await.map_err(|_| Error::ShuttingDown)??)
    }

    /// Narrates an event. The result of the narration sink is ignored (INV-9).
    fn narrate_event(&self, loaded: &LoadedSession, event: &ChatEvent) {
        if self.is_reserved_session(loaded.key.session.as_str()) {
            return;
        }
        let redact = |text: &str| self.redact_session_text(loaded, text);
        let mut calls = loaded.narrated_calls.lock().unwrap_or_else(PoisonError::into_inner);
        let mut narrator = EventNarrator { style: self.narration_style, calls: &mut calls, redact: &redact };
        if let Some(NarrationPiece { role, kind, content }) = narrator.compose_narration(&event.what) {
            let timestamp = event.at.to_system_time();
            emit_narration(
                self.narration.as_ref(),
                &loaded.key,
                NarrationMessage { timestamp, role, kind, content },
            );
        }
    }

    /// Takes the secrets of the session's agent out of a text (INV-16).
    fn redact_session_text(&self, loaded: &LoadedSession, text: &str) -> String {
        let agent = loaded.lock_state().session_head().map(|head| head.agent.clone());
        let served = agent.and_then(|agent| self.agents.get(agent.as_str()));
        (served.unwrap_or_else(|| self.default_served_agent()).agent.replies.redact)(text)
    }
}

/// Marks the state of a session as unknown; one whose lease is lost stops working on the session.
fn note_failed_commit(loaded: &LoadedSession, error: &singletree_durable::Error) {
    match error {
        singletree_durable::Error::LeaseLost { fence, .. } => note_lost_lease(loaded, *fence),
        _ => loaded.lock_state().commit_failed(),
    }
}

/// Stops working on a session that another process has taken over; what is known of it is stale.
pub(crate) fn note_lost_lease(loaded: &LoadedSession, fence: FencingToken) {
    let mut state = loaded.lock_state();
    state.commit_failed();
    if let Some(running) = state.lose_lease(fence) {
        running.cancel.notify_one();
    }
}

/// Returns the error of work on a session that is not held under this fence any more.
pub(crate) fn lease_lost_error(loaded: &LoadedSession, fence: FencingToken) -> Error {
    Error::Store { source: singletree_durable::Error::LeaseLost { key: loaded.key.clone(), fence } }
}

impl ChatInner {
    /// Looks at the lease, and returns an error if the session of the turn in the slot is lost: where this process stood still,
    /// another one may have run the turn, so that nothing more of it runs here. A store that does not work stops nothing here:
    /// the next commit fails, or waits for it.
    pub(crate) async fn find_lost_turn(&self, loaded: &LoadedSession) -> Option<Error> {
        drop(self.check_lease(loaded).await);
        lost_turn_error(loaded)
    }
}

/// Returns an error if the session of the turn in the slot is known to be lost.
pub(crate) fn lost_turn_error(loaded: &LoadedSession) -> Option<Error> {
    let fence = {
        let state = loaded.lock_state();
        state.has_lost_running_turn().then(|| state.batch_fence())
    };
    fence.map(|fence| lease_lost_error(loaded, fence))
}
