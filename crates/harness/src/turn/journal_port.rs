//! Keeps one turn's run over the journal: the engine's port, with a transition behind each call.

mod entry;
mod trace;
mod waiting_commits;

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use futures_util::FutureExt;
use singletree_durable::{BoxFuture, StoredTurnKind, TurnRow, WaitRow};
use singletree_engine::{
    Error as RunError, GraphEvent, Item, PersistencePort, RunEnding, RunEntry, RunMonitor, RunProgress,
    SessionState, Snapshot,
};
use singletree_session::{
    BatchBuilder, ChatTurnOutcome, CommitProvenance, ErroredTurn, KeptPart, PendingAnswer, SideRecords,
    SteeredMessage, StoppedRun, TelemetryRecord, TurnPromptPolicy, TurnRowExt, TurnState, UnknownRows, apply,
};
use singletree_telemetry::InvocationTrace;
use tokio::sync::watch;

use crate::Error;
use crate::agents::agent::Durability;
use crate::runtime::chat_inner::{ChatInner, ServedAgent};
use crate::runtime::commit::DoubtReport;
use crate::runtime::field_reads::read_stored_items;
use crate::runtime::loaded_session::{LoadedSession, LoadedState, TurnHandle};
use crate::turn::budget::TurnBudget;
use crate::turn::stream::TurnStream;
use crate::turn::telemetry_records::TelemetryRecords;
pub(crate) use entry::TurnInput;

/// Keeps one turn.
pub(crate) struct JournalPort {
    inner: Arc<ChatInner>,
    loaded: Arc<LoadedSession>,
    served: Arc<ServedAgent>,
    stream: TurnStream,
    /// Counts the usage of the run (D13).
    budget: TurnBudget,
    /// The value that `load_entry` returns, once.
    entered: Mutex<Option<RunEntry>>,
    /// Guards the turn while it runs; held for a moment, never across an await.
    turning: Mutex<TurnState>,
    /// The wait that `claim_suspended_run` has to consume, for a turn that answers a wait.
    claim: Mutex<Option<ClaimedWait>>,
    /// Why the claim failed, if it did.
    unclaimed: Mutex<Option<Error>>,
    /// The outcome, once it is recorded.
    outcome: Mutex<Option<Arc<ChatTurnOutcome>>>,
    /// Reports the position of the run. Weak, because the run holds its port: a cycle would free neither.
    watch: OnceLock<Weak<RunMonitor>>,
    /// How many commits are on their way, or are tried again until they land.
    busy: watch::Sender<usize>,
    /// Whether a commit failed: then the store may differ from the state held here.
    doubtful: AtomicBool,
    /// Makes the records for telemetry; held for a moment, never across an await.
    telemetry: Mutex<TelemetryRecords>,
    /// The trace of the invocation, once a call asks for it: by then the number of the turn is known.
    trace: OnceLock<Option<InvocationTrace>>,
}

/// A wait that this turn is about to answer.
pub(crate) struct ClaimedWait {
    pub(crate) suspended: TurnRow,
    pub(crate) wait: WaitRow,
    pub(crate) answering: PendingAnswer,
    pub(crate) handle: Arc<TurnHandle>,
}

/// The parts of a port.
pub(crate) struct JournalPortParts {
    pub(crate) inner: Arc<ChatInner>,
    pub(crate) loaded: Arc<LoadedSession>,
    pub(crate) served: Arc<ServedAgent>,
    pub(crate) stream: TurnStream,
    pub(crate) entered: RunEntry,
    pub(crate) turning: TurnState,
    pub(crate) claim: Option<ClaimedWait>,
}

fn lock_unpoisoned<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl JournalPort {
    pub(crate) fn new(parts: JournalPortParts) -> Self {
        Self {
            budget: TurnBudget::new(
                &parts.inner.env,
                parts.turning.bounds,
                parts.turning.spent,
                parts.turning.used.clone(),
            ),
            inner: parts.inner,
            loaded: parts.loaded,
            served: parts.served,
            stream: parts.stream,
            entered: Mutex::new(Some(parts.entered)),
            telemetry: Mutex::new(TelemetryRecords::restore(&parts.turning.records)),
            turning: Mutex::new(parts.turning),
            claim: Mutex::new(parts.claim),
            unclaimed: Mutex::default(),
            outcome: Mutex::default(),
            watch: OnceLock::new(),
            busy: watch::Sender::new(0),
            doubtful: AtomicBool::new(false),
            trace: OnceLock::new(),
        }
    }

    /// Sets the watch that reports the progress of the run. Only a weak reference is kept.
    pub(crate) fn set_run_monitor(&self, watch: &Arc<RunMonitor>) {
        drop(self.watch.set(Arc::downgrade(watch)));
    }

    fn run_progress(&self) -> Option<RunProgress> {
        self.watch.get().and_then(Weak::upgrade).and_then(|it| it.capture_progress())
    }

    /// Waits until no commit is on its way.
    pub(crate) async fn wait_for_commits(&self) {
        // The sender lives as long as this future.
        drop(self.busy.subscribe().wait_for(|count| *count == 0).await);
    }

    /// Tells whether a commit failed.
    pub(crate) fn is_doubtful(&self) -> bool {
        self.doubtful.load(Ordering::Acquire)
    }

    pub(crate) fn turn_budget(&self) -> &TurnBudget {
        &self.budget
    }

    /// Returns where nodes say something about the messages that they make.
    pub(crate) fn side_records(&self) -> SideRecords {
        lock_unpoisoned(&self.turning).sides.clone()
    }

    /// Tells whether the turn may have been run before.
    pub(crate) fn may_have_run(&self) -> bool {
        lock_unpoisoned(&self.turning).runs_before > 0
    }

    /// Returns which texts reach the model.
    pub(crate) fn prompt_policy(&self) -> TurnPromptPolicy {
        lock_unpoisoned(&self.turning).policy
    }

    pub(crate) fn served_agent(&self) -> &Arc<ServedAgent> {
        &self.served
    }

    /// Returns the outcome, once it is recorded.
    pub(crate) fn recorded_outcome(&self) -> Option<Arc<ChatTurnOutcome>> {
        lock_unpoisoned(&self.outcome).clone()
    }

    /// Returns the turn's row as it is committed.
    pub(crate) fn committed_row(&self) -> TurnRow {
        lock_unpoisoned(&self.turning).row.clone()
    }

    /// Returns the claim that was not taken, to tell who waits for it, and why, if taking it failed.
    pub(crate) fn take_unclaimed_wait(&self) -> Option<(ClaimedWait, Option<Error>)> {
        let claim = lock_unpoisoned(&self.claim).take()?;
        Some((claim, lock_unpoisoned(&self.unclaimed).take()))
    }

    /// Commits a transition of this turn, once. Its changes to the turn take effect only once the commit has landed. With a
    /// report, a commit whose reply is lost is settled first
    /// ([`ChatInner::await_settled_commit`]).
    async fn commit_settled_transition<T>(
        &self,
        transition: impl FnOnce(&mut BatchBuilder, &mut TurnState) -> Result<T, Error>,
        report_doubt: Option<DoubtReport<'_>>,
    ) -> Result<T, Error> {
        let mut turning = lock_unpoisoned(&self.turning).clone();
        turning.spent = self.budget.settled_usage();
        turning.used = self.budget.model_usage();
        turning.making.at = None;
        let taken_before = turning.taken.len();
        let mut piece = None;
        let (result, commit) = self.inner.commit_decision(&self.loaded, |state, writing| {
            writing.offered = state.offered_messages();
            writing.landed.invalidates = true;
            let result = transition(writing, &mut turning)?;
            piece = lock_unpoisoned(&self.telemetry).add_to_commit(writing, &mut turning);
            if turning.row.status.is_ended() {
                self.add_trace(writing, &turning);
            }
            // Under the same lock of the session's state, so that no other call ends a message that this commit
            // takes.
            self.pass_on_cancels(state, &turning.taken);
            self.busy.send_modify(|count| *count += 1);
            Ok::<_, Error>(result)
        })?;
        let landed = self.inner.await_settled_commit(&self.loaded, commit, report_doubt).await;
        if landed.is_err() {
            self.doubtful.store(true, Ordering::Release);
            lock_unpoisoned(&self.turning).unknown_rows = UnknownRows::Possible;
            self.loaded.lock_state().return_steering(turning.taken.get(taken_before..).unwrap_or_default());
        }
        self.busy.send_modify(|count| *count -= 1);
        landed?;
        if let Some(piece) = &piece {
            lock_unpoisoned(&self.telemetry).recorder.mark_stored(piece);
        }
        self.stream.mark_recorded_up_to(turning.marks.announced);
        let mut held = lock_unpoisoned(&self.turning);
        *held = turning;
        held.numbers.mark_all_landed();
        drop(held);
        Ok(result)
    }

    /// Records which messages the commit in flight takes. If one of them was cancelled in the meantime, the running
    /// turn is cancelled, because it continues with that message.
    fn pass_on_cancels(&self, state: &mut LoadedState, taken: &[SteeredMessage]) {
        let is_cancelled = |handle: &Arc<TurnHandle>| handle.cancel.notified().now_or_never().is_some();
        let cancelled = state.take_steering(taken).iter().filter(|handle| is_cancelled(handle)).count();
        if let Some(running) = state.running_turn().filter(|_| cancelled > 0) {
            running.handle.cancel.notify_one();
        }
    }

    fn set_recorded_outcome(&self, outcome: Arc<ChatTurnOutcome>) {
        *lock_unpoisoned(&self.outcome) = Some(outcome);
    }

    /// Tells whether the turn's invocation had effects (D29).
    pub(crate) fn had_effects(&self) -> bool {
        lock_unpoisoned(&self.turning).effects.is_intended()
    }

    /// Describes the progress of a run of this process, with the text so far of the message in progress.
    pub(crate) fn describe_stopped_run(&self, progress: Option<&RunProgress>) -> Option<StoppedRun> {
        let version = self.served.agent.graph.session_version();
        let stopped = StoppedRun::from_progress(progress?, &self.served.names, version)?;
        let shown =
            self.stream.message_in_progress().filter(|(position, _)| *position >= stopped.history.len());
        Some(StoppedRun { shown: shown.map(|(_, text)| text), ..stopped })
    }

    /// Ends the turn as failed, keeping the effects of its run (D29).
    pub(crate) async fn fail_turn(&self, error: &Error, stopped: Option<StoppedRun>) -> Result<(), Error> {
        let errored = self.make_errored_turn(error);
        let transition =
            |writing: &mut BatchBuilder, turning: &mut TurnState, kept: (Option<&StoppedRun>, KeptPart)| {
                Ok(apply::fail::fail_turn(writing, turning, kept, errored.clone())?)
            };
        self.end_turn_early(stopped, transition).await
    }

    /// Ends the turn as cancelled, keeping the text that was shown (D10).
    pub(crate) async fn cancel_turn(&self, progress: Option<&RunProgress>) -> Result<(), Error> {
        let Some(stopped) = self.describe_stopped_run(progress) else {
            return self.fail_turn(&Error::Cancelled, None).await;
        };
        let errored = self.make_errored_turn(&Error::Cancelled);
        let transition =
            |writing: &mut BatchBuilder, turning: &mut TurnState, kept: (Option<&StoppedRun>, KeptPart)| {
                Ok(match kept {
                    (Some(stopped), part) if part != KeptPart::Nothing => {
                        apply::cancel::cancel_running_turn(writing, turning, (stopped, part), errored.clone())
                    }
                    kept => apply::fail::fail_turn(writing, turning, kept, errored.clone()),
                }?)
            };
        self.end_turn_early(Some(stopped), transition).await
    }

    /// Commits the end of a turn whose run did not record it. Content that exceeds the limits is left out, so that the
    /// turn ends in any case (INV-8).
    async fn end_turn_early(
        &self,
        mut stopped: Option<StoppedRun>,
        transition: impl Fn(
            &mut BatchBuilder,
            &mut TurnState,
            (Option<&StoppedRun>, KeptPart),
        ) -> Result<Arc<ChatTurnOutcome>, Error>,
    ) -> Result<(), Error> {
        if let Some(stopped) = stopped.as_mut().filter(|_| self.had_effects()) {
            let range = lock_unpoisoned(&self.turning).locate_last_message(&stopped.history);
            if let Some(range) = range {
                stopped.last = self.inner.read_item_side(&self.loaded, &range).await;
            }
        }
        let mut parts = KeptPart::MOST_FIRST.into_iter();
        loop {
            let part = parts.next().unwrap_or(KeptPart::Nothing);
            let ended = self.commit_turn_end(|writing, turning| {
                turning.making.at = stopped.as_ref().and_then(|stopped| stopped.made.clone());
                transition(writing, turning, (stopped.as_ref(), part))
            });
            match ended.await {
                // Nothing of it was sent to the store.
                Err(_) if part != KeptPart::Nothing && !self.is_doubtful() => {}
                ended => {
                    self.set_recorded_outcome(ended?);
                    return Ok(());
                }
            }
        }
    }

    pub(crate) fn make_errored_turn(&self, error: &Error) -> ErroredTurn {
        let id = lock_unpoisoned(&self.turning).row.turn_id();
        self.served.make_errored_turn(&self.inner.limits, Some(id), error)
    }

    async fn complete_turn(&self, state: &Snapshot, session: Option<SessionState>) -> Result<(), Error> {
        self.budget.complete_step()?;
        // Only where one node made the new content; elsewhere no node is determined.
        let progress = if self.keeps_steps() { self.run_progress() } else { None };
        let at = progress.and_then(|progress| CommitProvenance::from_cursor(&progress.cursor));
        let outcome = self.commit_turn_end(|writing, turning| {
            turning.making.at.clone_from(&at);
            Ok(apply::finish::complete_turn(writing, turning, state, session.as_ref())?)
        });
        self.set_recorded_outcome(outcome.await?);
        Ok(())
    }

    async fn suspend_turn(
        &self,
        paused: &singletree_engine::PausedRun,
        session: Option<SessionState>,
    ) -> Result<(), Error> {
        self.budget.complete_step()?;
        let suspended = self.commit_turn_end(|writing, turning| {
            turning.making.at = CommitProvenance::from_cursor(&paused.progress.cursor);
            Ok(apply::suspend::suspend_turn(writing, turning, paused, session.as_ref())?)
        });
        self.set_recorded_outcome(suspended.await?);
        Ok(())
    }

    async fn commit_claim(&self, claim: ClaimedWait) -> Result<(), RunError> {
        let ClaimedWait { suspended, wait, answering, handle } = claim;
        // A claim whose reply is lost is looked up until the store tells: it has started a turn that nobody else runs.
        let report: DoubtReport<'_> = &|error| {
            handle.report_doubtful_answer(error);
            true
        };
        let claim = |writing: &mut BatchBuilder, turning: &mut TurnState| {
            turning.row = apply::claim::next_turn_row(writing, &suspended, &wait, StoredTurnKind::Resume);
            self.add_trace(writing, turning);
            let trace = turning.trace.as_deref();
            Ok(apply::claim::claim_wait(writing, &turning.row, &wait, &answering, trace)?)
        };
        let result = self.commit_settled_transition(claim, Some(report)).await;
        let id = lock_unpoisoned(&self.turning).row.turn_id();
        match result {
            Ok(_) => {
                let no = self.committed_row().no;
                self.loaded.lock_state().set_running_number(no);
                self.stream.show_turn_start();
                handle.settle_answer(Ok(id));
                Ok(())
            }
            Err(error) => {
                // Put back, for the runner to say why.
                *lock_unpoisoned(&self.claim) = Some(ClaimedWait { suspended, wait, answering, handle });
                let failed = RunError::SuspensionRecord {
                    invocation: self.committed_row().invocation.to_string(),
                    reason: singletree_engine::format_error_chain(&error),
                };
                *lock_unpoisoned(&self.unclaimed) = Some(error);
                Err(failed)
            }
        }
    }
}

impl std::fmt::Debug for JournalPort {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "JournalPort({})", lock_unpoisoned(&self.turning).row.no)
    }
}

impl PersistencePort for JournalPort {
    fn notes_events(&self) -> bool {
        self.inner.records_telemetry || self.inner.event_watcher().is_some()
    }

    fn note_event(&self, event: &GraphEvent) {
        if self.inner.records_telemetry {
            lock_unpoisoned(&self.telemetry).recorder.record_event(event);
        }
        self.inner.report_event(event);
    }

    fn keeps_steps(&self) -> bool {
        self.served.agent.durability == Durability::Step
    }

    fn load_entry(&self) -> BoxFuture<'_, Result<RunEntry, RunError>> {
        let entered = lock_unpoisoned(&self.entered).take();
        let twice = || RunError::Argument { what: "a turn's run is entered once".into() };
        Box::pin(std::future::ready(entered.ok_or_else(twice)))
    }

    fn claim_suspended_run(&self) -> BoxFuture<'_, Result<(), RunError>> {
        Box::pin(async {
            let Some(claim) = lock_unpoisoned(&self.claim).take() else { return Ok(()) };
            self.commit_claim(claim).await
        })
    }

    fn save_session(&self, session: SessionState) -> BoxFuture<'_, Result<(), RunError>> {
        Box::pin(async move {
            let progress = self.run_progress();
            let saved = self.commit_transition(|writing, turning| {
                turning.making.at =
                    progress.as_ref().and_then(|progress| CommitProvenance::from_cursor(&progress.cursor));
                Ok(apply::save::save_session(writing, turning, &session, progress.as_ref())?)
            });
            saved.await.map_err(|error| RunError::SessionSave { source: error.into(), completed: None })
        })
    }

    fn begin_node_execution(&self, is_member: bool) -> Result<(), RunError> {
        self.budget.begin_step(is_member).map_err(|error| RunError::Exhausted { source: error.into() })
    }

    fn is_shared(&self) -> bool {
        self.inner.journal.has_other_writers()
    }

    fn check_ownership(&self) -> BoxFuture<'_, Result<(), RunError>> {
        Box::pin(async {
            let lost = self.inner.find_lost_turn(&self.loaded).await;
            lost.map_or(Ok(()), |lost| Err(RunError::Record { source: lost.into() }))
        })
    }

    fn record_step(&self, progress: RunProgress) -> BoxFuture<'_, Result<(), RunError>> {
        Box::pin(async move {
            self.budget.complete_step().map_err(|error| RunError::Exhausted { source: error.into() })?;
            let stepped = self.commit_transition(|writing, turning| {
                turning.making.at = CommitProvenance::from_cursor(&progress.cursor);
                Ok(apply::step::write_completed_step(writing, turning, &progress)?)
            });
            stepped.await.map_err(|error| RunError::Record { source: error.into() })
        })
    }

    fn record_fact<'a>(&'a self, name: &'a str, fact: Item) -> BoxFuture<'a, Result<(), RunError>> {
        Box::pin(async move {
            if TelemetryRecord::is_telemetry_name(name) {
                return Err(RunError::Argument {
                    what: format!("the name of the record '{name}' is reserved"),
                });
            }
            let progress = self.run_progress();
            let recorded = self.commit_transition(|writing, turning| {
                Ok(apply::step::record_fact(writing, turning, (name, &fact), progress.as_ref())?)
            });
            recorded.await.map_err(|error| RunError::Record { source: error.into() })
        })
    }

    fn read_earlier_items<'a>(
        &'a self,
        field: &'a str,
        positions: Range<u64>,
    ) -> BoxFuture<'a, Result<Vec<Item>, RunError>> {
        Box::pin(async move {
            let generation = lock_unpoisoned(&self.turning).list_generation(field);
            let what = || RunError::Argument { what: format!("'{field}' is not kept as rows") };
            let list = (field, generation.ok_or_else(what)?);
            let place = (self.inner.journal.as_ref(), &self.loaded.key);
            let read = self.inner.await_read_sequence(read_stored_items(place, list, positions)).await;
            read.map_err(|error| RunError::SessionLoad { source: error.into() })
        })
    }

    fn record_ending<'a>(&'a self, ending: RunEnding<'a>) -> BoxFuture<'a, Result<(), RunError>> {
        Box::pin(async move {
            match ending {
                RunEnding::Completed { state, session } => {
                    let saved = self.complete_turn(state, session).await;
                    saved.map_err(|error| RunError::SessionSave { source: error.into(), completed: None })
                }
                RunEnding::Suspended { paused, session } => {
                    let saved = self.suspend_turn(paused, session).await;
                    saved.map_err(|error| RunError::SuspensionPersistence { source: error.into() })
                }
                // The runner ends failed turns: it has the error itself, not only a look at it.
                RunEnding::Errored { .. } => Ok(()),
            }
        })
    }
}
