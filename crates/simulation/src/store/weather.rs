//! The weather: how commits fail, and what the death of a process does to those under way.

use singletree_durable::Error;

use super::{LeaseFault, ProcessDeath, SimulatedStore, StoreRefusal};
use crate::executor::TaskGroup;
use crate::fault::FaultKind;
use crate::store::write::{PendingWrite, WriteLanding};

/// What happens to a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CommitFate {
    /// It lands and is acknowledged.
    Lands,
    /// It lands, and its answer is an error.
    AnswerLost,
    /// It does not land.
    Fails,
    /// It does not land, and the next process may find it (D38).
    Unknown,
    /// There is no space for it.
    Full,
    /// The log still ends with a commit that is to be replaced.
    Refused,
    /// The connection was cut before the answer came: the process settles whether it landed, before it tells anyone.
    Cut,
    /// The process looked whether it had landed, and it had not yet: it lands later.
    LandsLate,
}

impl CommitFate {
    /// Returns the error that its members are told.
    pub(super) fn error(self) -> Option<Error> {
        let unavailable = |cause: &str| Error::Unavailable { doing: "commit", source: cause.into() };
        match self {
            Self::Lands | Self::Cut => None,
            Self::LandsLate => Some(unavailable("the commit was not found")),
            Self::AnswerLost => Some(unavailable("the answer was lost")),
            Self::Fails => Some(unavailable("the commit failed")),
            Self::Unknown => Some(Error::CommitUnknown { doing: "commit", source: "the sync failed".into() }),
            Self::Full => Some(Error::Full { doing: "commit", source: "the disk is full".into() }),
            Self::Refused => Some(unavailable("the end of the log is not replaced yet")),
        }
    }
}

impl SimulatedStore {
    /// Draws what happens to the commit under way.
    pub(super) fn draw_commit_fate(&self, slot: usize) -> CommitFate {
        let refusing = self.lock_state().writers[slot].refusing;
        match refusing {
            Some((until, refusal)) if self.0.executor.now() < until && !self.0.swarm.is_over() => {
                self.0.swarm.note_store_failure();
                return match refusal {
                    StoreRefusal::Full => CommitFate::Full,
                    StoreRefusal::Doubtful => CommitFate::Refused,
                };
            }
            Some((_, StoreRefusal::Doubtful)) => {
                // The end of the log was replaced: what was in doubt is gone for good.
                let mut state = self.lock_state();
                let writer = &mut state.writers[slot];
                (writer.refusing, writer.doubtful) = (None, Vec::new());
                drop(state);
                self.0.coverage.note("a commit in doubt was replaced");
            }
            Some((_, StoreRefusal::Full)) => self.lock_state().writers[slot].refusing = None,
            None => {}
        }
        let due = |kind| self.0.swarm.is_due(kind);
        if due(FaultKind::CommitUnknown) {
            // A shared database settles it; only the log of a file can end with such a commit (D38).
            if self.is_shared() { CommitFate::Cut } else { CommitFate::Unknown }
        } else if due(FaultKind::DiskFull) {
            CommitFate::Full
        } else if due(FaultKind::GroupCommitFails) || due(FaultKind::CommitLost) {
            CommitFate::Fails
        } else if due(FaultKind::AcknowledgementLost) {
            CommitFate::AnswerLost
        } else {
            CommitFate::Lands
        }
    }

    /// Tells whether several processes share the store.
    pub(super) fn is_shared(&self) -> bool {
        self.0.nodes.is_some()
    }

    /// Settles a commit whose connection was cut. The statement that settles it comes behind the lost one, or makes that
    /// one stale; then the commit is sent again. So it has landed when this is over.
    pub(super) async fn settle_cut_commit(&self) -> CommitFate {
        self.0.executor.sleep_for(self.draw_micros(1_000, 4_000_000)).await;
        if self.planted_lease_fault() == Some(LeaseFault::OutcomeRead) && self.0.random.draw_percent(50) {
            return CommitFate::LandsLate;
        }
        self.0.coverage.note("the outcome of a cut commit was settled");
        CommitFate::Lands
    }

    /// Decides about the writes of a process that has died: a beginning of them lands, the others are lost, or arrive
    /// late.
    pub(crate) fn handle_process_death(&self, slot: usize, death: ProcessDeath) {
        let mut state = self.lock_state();
        let writer = &mut state.writers[slot];
        writer.process += 1;
        writer.is_writing = false;
        let doubtful = std::mem::take(&mut writer.doubtful);
        let committing = std::mem::take(&mut writer.committing);
        let queued = std::mem::take(&mut writer.queue);
        drop(state);
        // Whether the sync of a commit in doubt reached the disk shows now.
        let is_kept = !doubtful.is_empty() && self.0.random.draw_percent(50);
        if !doubtful.is_empty() {
            let case = if is_kept { "a commit in doubt was kept" } else { "a commit in doubt was lost" };
            self.0.coverage.note(case);
            if is_kept {
                self.land_all(doubtful);
            }
        }
        // One commit lands whole or not at all, and none lands without those before it; behind a commit in doubt that
        // is still there, none was written.
        let lands = !is_kept && death != ProcessDeath::PowerCut && self.0.random.draw_percent(50);
        self.0
            .coverage
            .note_if(lands && !committing.is_empty(), "a commit landed after its process was killed");
        self.0.coverage.note_if(!lands && !committing.is_empty(), "a commit was lost with its process");
        let mut left: Vec<_> = queued.into();
        match lands {
            true => {
                self.land_all(committing);
                let landing = self.0.random.draw_index(left.len() + 1);
                let late = left.split_off(landing);
                self.land_all(left);
                left = late;
            }
            false => left = committing.into_iter().chain(left).collect(),
        }
        if !is_kept
            && death != ProcessDeath::PowerCut
            && !left.is_empty()
            && self.0.swarm.is_due(FaultKind::LateStatement)
        {
            self.land_late(left);
        } else {
            let is_cut = death == ProcessDeath::PowerCut && !left.is_empty();
            self.0.coverage.note_if(is_cut, "a power cut lost a suffix");
        }
    }

    fn land_all(&self, writes: Vec<Box<dyn PendingWrite>>) {
        for mut write in writes {
            self.land_write(write.as_mut());
        }
    }

    /// Lets statements arrive when their client is gone: before the next process opens the store, or behind its fence.
    pub(super) fn land_late(&self, writes: Vec<Box<dyn PendingWrite>>) {
        let (store, after) = (self.clone(), self.draw_micros(1_000, 3_000_000));
        let landing = async move {
            store.0.executor.sleep_for(after).await;
            for mut write in writes {
                let landing = write.land();
                store.0.executor.trace_event(format_args!("late write {}: {landing}", write.label()));
                match landing {
                    WriteLanding::Written => {
                        store.0.coverage.note("a statement landed after its client had gone")
                    }
                    WriteLanding::Refused("store_fenced" | "store_lease_lost") => {
                        store.0.coverage.note("a fence was refused");
                    }
                    WriteLanding::Refused(_) | WriteLanding::Again => {}
                }
            }
        };
        self.0.executor.spawn_in_group(TaskGroup::STORE, Box::pin(landing));
    }
}
