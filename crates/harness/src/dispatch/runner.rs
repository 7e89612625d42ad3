//! Runs the turns of a session, one at a time, in the order of acceptance (INV-1).

use std::sync::Arc;

use singletree_durable::{BoxFuture, StoredTurnKind, TurnRow};
use singletree_engine::{Extensions, InvokeOptions, RunMonitor, RunProgress, RunStart};
use singletree_session::{
    ChatTurnOutcome, QueueDecision, QueuedTurn, QueuedWork, TurnRowExt, WhileSuspended,
};

use crate::Error;
use crate::dispatch::load_retry::LoadRetry;
use crate::dispatch::waits;
use crate::error::describe_cause;
use crate::runtime::chat_inner::ChatInner;
use crate::runtime::commit::lost_turn_error;
use crate::runtime::loaded_session::{LoadedSession, TurnHandle};
use crate::runtime::outcome_reads::read_outcome;
use crate::turn::journal_port::JournalPort;
use crate::turn::pictures::TurnPictures;
use crate::turn::prepare::{PreparedTurn, TurnPreparation};
use crate::turn::steering_inbox::SteeringInbox;
use crate::turn::turn_context::{SessionTurnContext, TurnContext};
use crate::turn::unrun::AbandonedTurn;

impl ChatInner {
    /// Lets the session go on in the background, if there is something to do.
    pub(crate) fn wake_queue(self: &Arc<Self>, loaded: &Arc<LoadedSession>) {
        let (inner, loaded) = (self.clone(), loaded.clone());
        self.tasks.spawn_task(async move { inner.run_queue(&loaded).await });
    }

    /// Runs turns until none may run. Many may call it; one runs.
    pub(crate) async fn run_queue(self: &Arc<Self>, loaded: &Arc<LoadedSession>) {
        loop {
            match self.decide_next_turn(loaded) {
                QueueDecision::Nothing if self.is_closing() && self.journal.has_other_writers() => {
                    // The future is large, and runs at most once.
                    return Box::pin(self.hand_over_session(loaded)).await;
                }
                QueueDecision::Nothing => return,
                QueueDecision::Run(queued) => {
                    self.pause_if_due("turn_begins").await;
                    // The commit that claims a wait looks for itself.
                    let is_answer = matches!(queued.work, QueuedWork::Answer(_));
                    if !is_answer && self.find_lost_turn(loaded).await.is_some() {
                        // Its callers follow it in the store, as those of turns that were queued.
                        drop(queued);
                        loaded.release_turn();
                        self.trim_loaded_sessions();
                        continue;
                    }
                    self.run_queued_turn(loaded, *queued).await;
                }
                QueueDecision::Refuse(queued) => self.refuse_queued_turn(loaded, *queued).await,
                QueueDecision::Supersede => {
                    let closed = waits::close_wait(self, loaded, waits::WaitEndReason::Superseded).await;
                    loaded.release_turn();
                    self.trim_loaded_sessions();
                    if closed.is_err() {
                        // The message stays where it is, until the store works again.
                        self.env.timer.sleep_for(self.limits.record_retry).await;
                    }
                }
                QueueDecision::Load => {
                    if self.ensure_loaded(loaded).await.is_err() {
                        self.env.timer.sleep_for(self.limits.record_retry).await;
                    }
                }
            }
        }
    }

    fn decide_next_turn(&self, loaded: &LoadedSession) -> QueueDecision<Arc<TurnHandle>> {
        let mut state = loaded.lock_state();
        if self.is_closing() {
            // The next process takes these turns over. Dropping the handles ends the waits of their callers.
            state.leave_queued_turns();
            return QueueDecision::Nothing;
        }
        state.decide_next_turn(|row| {
            let served = self.agents.get(&row.agent);
            served.map_or(WhileSuspended::Reject, |served| served.agent.while_suspended)
        })
    }

    /// Ends a message's turn that may not run while the session waits.
    async fn refuse_queued_turn(
        self: &Arc<Self>,
        loaded: &Arc<LoadedSession>,
        queued: QueuedTurn<Arc<TurnHandle>>,
    ) {
        let waits = loaded.lock_state().pending_wait().iter().map(|wait| wait.signal.clone()).collect();
        if let QueuedWork::Message { row, .. } = queued.work {
            let error = Error::SessionSuspended { waits };
            let outcome = self.end_abandoned_turn(loaded, &queued.handle, row, &error).await;
            self.finish_turn(loaded, &queued.handle, outcome, false);
        }
    }

    /// Ends a turn that was accepted and is not run, or not further.
    ///
    /// # Errors
    /// Those of the store: then the turn has no outcome yet.
    pub(crate) fn try_end_abandoned_turn<'a>(
        self: &'a Arc<Self>,
        loaded: &'a Arc<LoadedSession>,
        unrun: impl Into<AbandonedTurn>,
        error: &'a Error,
    ) -> BoxFuture<'a, Result<Arc<ChatTurnOutcome>, Error>> {
        let unrun = unrun.into();
        Box::pin(async move {
            // A commit that seemed to fail may have landed all the same (D20).
            if let Some(outcome) = self.read_stored_outcome(loaded, unrun.turn_row()).await? {
                return Ok(outcome);
            }
            let served =
                self.agents.get(&unrun.turn_row().agent).unwrap_or_else(|| self.default_served_agent());
            let (port, stopped) =
                TurnPreparation { inner: self, loaded, served }.prepare_abandoned_turn(unrun).await?;
            port.fail_turn(error, stopped).await?;
            Ok(self.outcome_of_port(&port))
        })
    }

    /// As [`ChatInner::try_end_abandoned_turn`], for the turn whose place it is: tries until it is recorded.
    async fn end_abandoned_turn(
        self: &Arc<Self>,
        loaded: &Arc<LoadedSession>,
        handle: &TurnHandle,
        unrun: impl Into<AbandonedTurn>,
        error: &Error,
    ) -> Arc<ChatTurnOutcome> {
        let unrun = unrun.into();
        match self.try_end_running_turn(loaded, unrun.clone(), error).await {
            Ok(outcome) => outcome,
            Err(lost) if lost.is_lease_lost() => self.unrecorded_outcome(unrun.turn_row(), &lost),
            Err(_) => self.retry_recording_end(loaded, handle, unrun, error).await,
        }
    }

    /// As [`ChatInner::try_end_abandoned_turn`], for the turn whose place it is. Of a session that was lost nothing is
    /// read: its next owner may have ended the turn, or deleted it.
    async fn try_end_running_turn(
        self: &Arc<Self>,
        loaded: &Arc<LoadedSession>,
        unrun: AbandonedTurn,
        error: &Error,
    ) -> Result<Arc<ChatTurnOutcome>, Error> {
        match lost_turn_error(loaded) {
            Some(lost) => Err(lost),
            None => self.try_end_abandoned_turn(loaded, unrun, error).await,
        }
    }

    async fn run_queued_turn(
        self: &Arc<Self>,
        loaded: &Arc<LoadedSession>,
        queued: QueuedTurn<Arc<TurnHandle>>,
    ) {
        let QueuedTurn { handle, work } = queued;
        match work {
            QueuedWork::Answer(answering) => {
                if let Some(outcome) = waits::run_answer_turn(self, loaded, &handle, answering).await {
                    self.finish_turn(loaded, &handle, outcome, true);
                } else {
                    loaded.release_turn();
                }
            }
            QueuedWork::Message { row, message, .. } => {
                let outcome = match self.find_served_agent(&row.agent) {
                    Ok(served) => {
                        let preparing = TurnPreparation { inner: self, loaded, served };
                        let mut retry = LoadRetry::new(self);
                        let ready = loop {
                            let ready =
                                preparing.prepare_message(&handle, row.clone(), message.clone()).await;
                            if !retry.may_load_again(ready.as_ref().err()).await {
                                break ready;
                            }
                        };
                        self.run_or_end_turn(loaded, &handle, row, ready).await
                    }
                    Err(error) => self.end_abandoned_turn(loaded, &handle, row, &error).await,
                };
                self.finish_turn(loaded, &handle, outcome, false);
            }
            QueuedWork::Recover { row, has_run } => {
                let resumed = row.kind != StoredTurnKind::Message;
                let outcome = match self.find_served_agent(&row.agent) {
                    Ok(served) => {
                        let preparing = TurnPreparation { inner: self, loaded, served };
                        let mut retry = LoadRetry::new(self);
                        let ready = loop {
                            let ready = preparing.prepare_recovery(&handle, row.clone(), has_run).await;
                            if !retry.may_load_again(ready.as_ref().err()).await {
                                break ready;
                            }
                        };
                        self.run_or_end_turn(loaded, &handle, row, ready).await
                    }
                    Err(error) => self.end_abandoned_turn(loaded, &handle, row, &error).await,
                };
                self.finish_turn(loaded, &handle, outcome, resumed);
            }
        }
    }

    /// Waits a moment before a session is read again that could not be read: one failed read ends no conversation.
    /// False when the chat shuts down.
    pub(crate) async fn pause_before_load(&self) -> bool {
        self.env.timer.sleep_for(self.limits.record_retry).await;
        !self.is_closing()
    }

    async fn run_or_end_turn(
        self: &Arc<Self>,
        loaded: &Arc<LoadedSession>,
        handle: &Arc<TurnHandle>,
        row: TurnRow,
        ready: Result<PreparedTurn, Error>,
    ) -> Arc<ChatTurnOutcome> {
        match ready {
            Ok(ready) => self.run_prepared_turn(loaded, handle, ready).await,
            Err(error) => {
                let error = session_load_error(error);
                self.end_abandoned_turn(loaded, handle, row, &error).await
            }
        }
    }

    /// Runs the turn that an answer starts; none when the wait could not be claimed: then nothing was consumed.
    pub(crate) async fn run_answered_turn(
        self: &Arc<Self>,
        loaded: &Arc<LoadedSession>,
        handle: &Arc<TurnHandle>,
        ready: PreparedTurn,
    ) -> Option<Arc<ChatTurnOutcome>> {
        let port = ready.port.clone();
        let ended = self.invoke_graph(loaded, handle, ready).await;
        if let Some((claim, failed)) = port.take_unclaimed_wait() {
            let error = failed.unwrap_or(match ended {
                RunTermination::Failed(error, _) => error,
                RunTermination::Cancelled(_) | RunTermination::Ran => Error::Cancelled,
            });
            waits::settle_failed_answer(self, loaded, (handle, claim.answering), error).await;
            return None;
        }
        Some(self.record_run_end(loaded, handle, &port, ended).await)
    }

    /// Runs a turn to its end, which is recorded when this returns, unless the store does not work (D20).
    async fn run_prepared_turn(
        self: &Arc<Self>,
        loaded: &Arc<LoadedSession>,
        handle: &Arc<TurnHandle>,
        ready: PreparedTurn,
    ) -> Arc<ChatTurnOutcome> {
        let port = ready.port.clone();
        // The session was read since its lease was looked at.
        if let Some(lost) = self.find_lost_turn(loaded).await {
            return self.unrecorded_outcome(&port.committed_row(), &lost);
        }
        let ended = self.invoke_graph(loaded, handle, ready).await;
        self.record_run_end(loaded, handle, &port, ended).await
    }

    /// Runs a graph until it ends, is cancelled, or its time is up. A commit that has begun is never given up (D20): a
    /// cancellation and the end of the time wait for it.
    async fn invoke_graph(
        self: &Arc<Self>,
        loaded: &Arc<LoadedSession>,
        handle: &Arc<TurnHandle>,
        ready: PreparedTurn,
    ) -> RunTermination {
        let PreparedTurn { port, stream, start } = ready;
        let row = port.committed_row();
        handle.set_turn_stream(Some(stream.clone()));
        let now = self.current_time();
        loaded.lock_state().record_graph_start(row.no, now);
        // A turn that answers a wait does not exist before it has claimed that.
        if !matches!(start, RunStart::Resume { .. }) {
            stream.show_turn_start();
        }
        let served = port.served_agent().clone();
        let steering = SteeringInbox::new(loaded.clone(), row.agent.clone(), stream.clone());
        let (budget, sides, rng) = (port.turn_budget().clone(), port.side_records(), self.env.rng.clone());
        let context = TurnContext::new(stream, budget, sides, rng).in_session(SessionTurnContext {
            key: loaded.key.clone(),
            fence: row.fence,
            prompt_policy: port.prompt_policy(),
            steering,
            narrator: self.new_narrator(loaded),
            pictures: TurnPictures::for_session(self, &loaded.key, handle.admission()).map(Arc::new),
        });
        let options = InvokeOptions::new()
            .session(loaded.key.session.clone())
            .invocation(row.invocation.clone())
            .correlation(row.invocation.as_str())
            .recovering(port.may_have_run())
            .extensions(Extensions::default().with_value(context));
        let options = if port.has_trace() { options.call_tracing(port.clone()) } else { options };
        let watch = Arc::new(RunMonitor::default());
        port.set_run_monitor(&watch);
        let running = served.agent.graph.invoke_with_port(port.clone(), start, options, &watch);
        let cancelled = async {
            handle.cancel.notified().await;
            port.wait_for_commits().await;
        };
        let late = async {
            let error = port.turn_budget().wait_for_timeout().await;
            port.wait_for_commits().await;
            error
        };
        tokio::select! {
            biased;
            () = cancelled => RunTermination::Cancelled(watch.capture_progress()),
            ended = running => match ended {
                Ok(_) => RunTermination::Ran,
                Err(error) => {
                    // A node may have made something else of it, or nothing.
                    let error = port.turn_budget().check_not_exceeded().err().unwrap_or_else(|| error.into());
                    RunTermination::Failed(error, watch.capture_progress())
                }
            },
            error = late => RunTermination::Failed(error, watch.capture_progress()),
        }
    }

    /// Records how a run ended, as far as the run has not done it itself.
    async fn record_run_end(
        self: &Arc<Self>,
        loaded: &Arc<LoadedSession>,
        handle: &TurnHandle,
        port: &Arc<JournalPort>,
        ended: RunTermination,
    ) -> Arc<ChatTurnOutcome> {
        let (recorded, error) = match ended {
            RunTermination::Ran => match port.recorded_outcome() {
                Some(outcome) => return outcome,
                None => (Err(Error::ShuttingDown), Error::ShuttingDown),
            },
            // The effects of a run are read from the store where the run itself no longer reports them.
            RunTermination::Cancelled(None) if port.had_effects() => {
                (Err(Error::Cancelled), Error::Cancelled)
            }
            RunTermination::Failed(error, None) if port.had_effects() => (Err(Error::ShuttingDown), error),
            RunTermination::Cancelled(progress) => {
                (port.cancel_turn(progress.as_ref()).await, Error::Cancelled)
            }
            // After a failed commit, the state in the port may differ from the store.
            RunTermination::Failed(error, _) if port.is_doubtful() => (Err(Error::ShuttingDown), error),
            RunTermination::Failed(error, progress) => {
                (port.fail_turn(&error, port.describe_stopped_run(progress.as_ref())).await, error)
            }
        };
        match recorded {
            Ok(()) => self.outcome_of_port(port),
            Err(_) => self.end_abandoned_turn(loaded, handle, AbandonedTurn::from_port(port), &error).await,
        }
    }

    fn outcome_of_port(&self, port: &JournalPort) -> Arc<ChatTurnOutcome> {
        let unsaid = || Arc::new(ChatTurnOutcome::Errored(port.make_errored_turn(&Error::ShuttingDown)));
        port.recorded_outcome().unwrap_or_else(unsaid)
    }

    /// Tells whether the row of a turn is stored.
    pub(crate) async fn is_turn_stored(&self, loaded: &LoadedSession, row: &TurnRow) -> Result<bool, Error> {
        let query = singletree_durable::TurnRowQuery::No(row.no);
        let rows = self.await_store_read(self.journal.read_turns(&loaded.key, &query)).await?;
        Ok(rows.iter().any(|it| it.invocation == row.invocation))
    }

    /// Reads the outcome of a turn, if it has one.
    pub(crate) async fn read_stored_outcome(
        &self,
        loaded: &LoadedSession,
        row: &TurnRow,
    ) -> Result<Option<Arc<ChatTurnOutcome>>, Error> {
        let query = singletree_durable::TurnRowQuery::No(row.no);
        let rows = self.await_store_read(self.journal.read_turns(&loaded.key, &query)).await?;
        match rows.first().filter(|it| it.invocation == row.invocation) {
            Some(row) => {
                let outcome =
                    self.await_read_sequence(read_outcome(self.journal.as_ref(), &loaded.key, row)).await?;
                Ok(outcome.map(Arc::new))
            }
            None => Ok(None),
        }
    }

    /// The end of a turn could not be recorded: the caller is told so, and the session stands still until the store
    /// works again and the turn is closed. It is not run again (D20).
    async fn retry_recording_end(
        self: &Arc<Self>,
        loaded: &Arc<LoadedSession>,
        handle: &TurnHandle,
        unrun: AbandonedTurn,
        error: &Error,
    ) -> Arc<ChatTurnOutcome> {
        let unrecorded = self.unrecorded_outcome(unrun.turn_row(), error);
        let failed = session_save_error(error);
        handle.publish_outcome(unrecorded.clone());
        while !self.is_closing() {
            self.env.timer.sleep_for(self.limits.record_retry).await;
            match self.try_end_running_turn(loaded, unrun.clone(), &failed).await {
                Ok(outcome) => return outcome,
                // Another owner continues the turn.
                Err(lost) if lost.is_lease_lost() => return unrecorded,
                // It went with its session: nothing can be recorded of it.
                Err(_) if matches!(self.is_turn_stored(loaded, unrun.turn_row()).await, Ok(false)) => {
                    return unrecorded;
                }
                Err(_) => {}
            }
        }
        unrecorded
    }

    /// Returns the outcome that is told of a turn whose end could not be recorded (D20).
    pub(crate) fn unrecorded_outcome(&self, row: &TurnRow, error: &Error) -> Arc<ChatTurnOutcome> {
        let served = self.agents.get(&row.agent).unwrap_or_else(|| self.default_served_agent());
        let failed = session_save_error(error);
        let shown = if error.is_lease_lost() { error } else { &failed };
        let mut errored = served.make_errored_turn(&self.limits, Some(row.turn_id()), shown);
        errored.recorded = false;
        errored.retry_safe = false;
        Arc::new(ChatTurnOutcome::Errored(errored))
    }

    /// A turn has ended: tells who waits, and lets the next one begin. Where other processes write the store, whoever waits for a
    /// turn that was lost with its session is told the outcome that another process records.
    pub(crate) fn finish_turn(
        &self,
        loaded: &LoadedSession,
        handle: &TurnHandle,
        outcome: Arc<ChatTurnOutcome>,
        resumed: bool,
    ) {
        // A resumed turn that suspends again has no answer yet: subscribers are told a later one (harness-chat §8.2).
        let is_end = !matches!(outcome.as_ref(), ChatTurnOutcome::Suspended(_));
        let listeners =
            if resumed && is_end { loaded.lock_outcome_listeners().all.clone() } else { Vec::new() };
        self.note_session_use(loaded);
        loaded.release_turn();
        self.trim_loaded_sessions();
        if !(self.journal.has_other_writers() && is_lost(&outcome)) {
            handle.publish_outcome(outcome.clone());
            waits::notify_outcome_listeners(&listeners, &outcome);
        }
        self.note_turn_end(loaded);
    }
}

/// Tells whether the turn was lost with its session: another owner goes on with it.
fn is_lost(outcome: &ChatTurnOutcome) -> bool {
    let ChatTurnOutcome::Errored(errored) = outcome else { return false };
    !errored.recorded && errored.error_category == "store_lease_lost"
}

/// How a run ended, and where it stood when it did not record that itself.
enum RunTermination {
    Ran,
    Cancelled(Option<RunProgress>),
    Failed(Error, Option<RunProgress>),
}

/// Tells whether something failed that may succeed when it is tried again.
pub(crate) fn is_transient_failure<T>(result: &Result<T, Error>) -> bool {
    result.as_ref().is_err_and(Error::is_transient)
}

fn session_save_error(error: &Error) -> Error {
    let source = describe_cause(error);
    singletree_engine::Error::SessionSave { source, completed: None }.into()
}

/// A session that cannot be read is a failed load, whatever the store said (sessions §10).
pub(crate) fn session_load_error(error: Error) -> Error {
    match error {
        // Nothing is wrong with the session: its owner lives, and it is to be had there or later.
        held @ Error::Store { source: singletree_durable::Error::HeldElsewhere { .. } } => held,
        Error::Store { source } => singletree_engine::Error::SessionLoad { source: source.into() }.into(),
        other => other,
    }
}
