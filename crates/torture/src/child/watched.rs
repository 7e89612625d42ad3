//! A journal that tells which commit is under way: before it is handed over, and when it is answered. Some of its
//! commits fail, where that is wanted.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use singletree_durable::{
    AcquiredSession, Batch, BatchPrecondition, BoxFuture, Error, Journal, JournalLayer, JournalMaintenance,
    MaintenanceLayer, Result, RowMutation, SessionKey,
};
use singletree_store_testing::FailedWriteEffect;

use super::Say;
use crate::fault::CommitFaults;
use crate::phase::BatchPurpose;
use crate::wire::{ChildReport, CommitSide};

/// A store whose commits are told.
pub(super) struct ReportingStore {
    journal: Arc<dyn Journal>,
    upkeep: Arc<dyn JournalMaintenance>,
    say: Say,
    commits: AtomicU64,
    faults: Option<CommitFaults>,
}

impl ReportingStore {
    pub(super) fn new(
        (journal, upkeep): (Arc<dyn Journal>, Arc<dyn JournalMaintenance>),
        say: Say,
        faults: Option<CommitFaults>,
    ) -> Self {
        Self { journal, upkeep, say, commits: AtomicU64::new(0), faults }
    }

    /// Returns how many commits there were.
    pub(super) fn commit_count(&self) -> u64 {
        self.commits.load(Ordering::Relaxed)
    }
}

impl fmt::Debug for ReportingStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReportingStore").field("journal", &self.journal).finish_non_exhaustive()
    }
}

/// Returns the turn that a batch is about.
fn turn_of_batch(batch: &Batch) -> Option<u64> {
    batch.puts.iter().find_map(|put| match put {
        RowMutation::Turn(row) => Some(row.no),
        RowMutation::Position(row) => Some(row.turn),
        RowMutation::Record(row) => Some(row.turn),
        _ => None,
    })
}

/// How a store refuses a batch whose session is not there: the commit that was to make it has failed.
const NO_SESSION: &str = "the session exists";

/// Returns why a batch was refused if its writer has not required it: then somebody else has written what the writer, as the
/// only owner of the session, takes for its own to write.
fn find_foreign_write(requires: &[BatchPrecondition], landed: &Result<()>) -> Option<String> {
    let Err(Error::Refused { requirement }) = landed else { return None };
    let is_required = requires.iter().any(|require| format!("{require:?}") == *requirement);
    (!is_required && requirement != NO_SESSION).then(|| requirement.clone())
}

impl JournalLayer for ReportingStore {
    type Journal = dyn Journal;

    fn inner_journal(&self) -> &Self::Journal {
        self.journal.as_ref()
    }

    fn acquire_session<'a>(&'a self, key: &'a SessionKey) -> BoxFuture<'a, Result<AcquiredSession>> {
        Box::pin(async move {
            let acquired = self.journal.acquire(key).await?;
            let (session, fence) = (key.session.to_string(), acquired.fence.0);
            (self.say)(&ChildReport::Acquired { session, fence });
            Ok(acquired)
        })
    }

    fn write_batch(&self, batch: Batch) -> BoxFuture<'static, Result<()>> {
        let n = self.commits.fetch_add(1, Ordering::Relaxed);
        let (phase, turn, session) =
            (BatchPurpose::from_batch(&batch), turn_of_batch(&batch), batch.key.session.to_string());
        let line = move |at| ChildReport::Commit { n, phase, session: session.clone(), turn, at };
        (self.say)(&line(CommitSide::Begin));
        let fault = self.faults.filter(|fault| fault.fails_commit(n)).map(|it| it.land);
        let (requires, session) = (batch.requires.clone(), batch.key.session.to_string());
        let landing = (fault != Some(FailedWriteEffect::Before)).then(|| self.journal.apply(batch));
        let say = self.say.clone();
        Box::pin(async move {
            let landed = match landing {
                Some(landing) => landing.await,
                None => Ok(()),
            };
            say(&line(if landed.is_ok() { CommitSide::End } else { CommitSide::Failed }));
            if let Some(why) = find_foreign_write(&requires, &landed) {
                say(&ChildReport::Refused { session, why: format!("commit {}: {why}", phase.as_str()) });
            }
            match fault {
                Some(_) => Err(Error::Unavailable { doing: "write", source: "the disk is full".into() }),
                None => landed,
            }
        })
    }
}

impl MaintenanceLayer for ReportingStore {
    type Maintenance = dyn JournalMaintenance;

    fn inner_maintenance(&self) -> &Self::Maintenance {
        self.upkeep.as_ref()
    }
}
