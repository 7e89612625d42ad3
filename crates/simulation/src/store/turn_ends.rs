//! The ends of turns that did not reach the store: a turn that has run ends as its run did, also when the commit of
//! that end failed for a passing reason (D38).

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use singletree_durable::{
    Batch, Error, FencingToken, InvocationId, Result, RowMutation, SessionKey, StoredTurnStatus,
};

/// A turn, as long as one owner holds its session.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct OwnedTurn {
    session: SessionKey,
    fence: FencingToken,
    invocation: InvocationId,
    number: u64,
}

/// The turns that a batch ends, and how.
#[derive(Debug)]
pub(super) struct TurnEnds(Vec<(OwnedTurn, StoredTurnStatus)>);

impl TurnEnds {
    pub(super) fn of_batch(batch: &Batch) -> Self {
        let ends = batch.puts.iter().filter_map(|put| match put {
            RowMutation::Turn(row) if row.status.is_ended() => {
                let turn = OwnedTurn {
                    session: batch.key.clone(),
                    fence: batch.fence,
                    invocation: row.invocation.clone(),
                    number: row.no,
                };
                Some((turn, row.status))
            }
            _ => None,
        });
        Self(ends.collect())
    }
}

/// The ends that one process could not record, and that it has to try again.
#[derive(Debug, Default)]
pub(super) struct UnrecordedEnds {
    ends: Mutex<BTreeMap<OwnedTurn, StoredTurnStatus>>,
    is_stopping: AtomicBool,
}

impl UnrecordedEnds {
    /// From now on the process may leave a turn to the next one.
    pub(super) fn note_stop(&self) {
        self.is_stopping.store(true, Ordering::Release);
    }

    /// Notes the store's answer to a batch. Only a turn that has run completes or suspends; one that has not may
    /// be tried once.
    pub(super) fn note_answer(&self, ends: &TurnEnds, answer: &Result<()>) {
        let is_passing = matches!(
            answer,
            Err(Error::Unavailable { .. } | Error::CommitUnknown { .. } | Error::Full { .. })
        );
        let has_run = |status| matches!(status, StoredTurnStatus::Completed | StoredTurnStatus::Suspended);
        if is_passing {
            let ends = ends.0.iter().filter(|(_, status)| has_run(*status));
            self.lock_ends().extend(ends.cloned());
        }
    }

    /// Returns the turns that a batch, which has landed, has ended otherwise than their run did, one line each.
    pub(super) fn find_replaced_ends(&self, ends: &TurnEnds) -> Vec<String> {
        let mut unrecorded = self.lock_ends();
        let replaced = ends.0.iter().filter_map(|(turn, status)| {
            let meant = unrecorded.remove(turn)?;
            (meant != *status && !self.is_stopping.load(Ordering::Acquire)).then(|| {
                let (session, number) = (&turn.session, turn.number);
                format!(
                    "commit in {}/{}: turn {number} ends as {status:?}; its run ended as {meant:?}, which failed \
                     for a passing reason and was not tried again",
                    session.tenant, session.session
                )
            })
        });
        replaced.collect()
    }

    fn lock_ends(&self) -> MutexGuard<'_, BTreeMap<OwnedTurn, StoredTurnStatus>> {
        self.ends.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
