//! The commits of a turn that wait for the store: those of a run, while it is away, and the one that ends the turn, until the store
//! takes it (D20, D38).

use singletree_session::{BatchBuilder, TurnState};

use std::sync::atomic::Ordering;

use super::JournalPort;
use crate::Error;
use crate::runtime::commit::DoubtReport;
use crate::runtime::store_wait::StoreWait;

impl JournalPort {
    /// Commits a transition of this turn. Its changes to the turn take effect only once the commit has landed. Where the store
    /// is waited for ([`StoreWait`]), it is tried again while the store is away.
    pub(super) async fn commit_transition<T>(
        &self,
        transition: impl Fn(&mut BatchBuilder, &mut TurnState) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let wait = self.inner.begin_store_wait();
        let may_wait = || !self.inner.is_store_wait_over(wait) && !self.inner.is_closing();
        loop {
            match self.commit_settled_transition(&transition, Some(&|_| may_wait())).await {
                Err(error) if error.is_unavailable() && may_wait() => {}
                Ok(done) => {
                    self.doubtful.store(false, Ordering::Release);
                    return Ok(done);
                }
                failed => return failed,
            }
            self.inner.env.timer.sleep_for(self.inner.limits.record_retry).await;
            // As in `commit_turn_end`.
            drop(self.inner.ensure_loaded(&self.loaded).await);
        }
    }

    /// As [`JournalPort::commit_transition`], for the commit that ends the turn. The result of the run stays in memory and is recorded
    /// when the store works or has space again, as long as this process lives (D38); after the second failure, and not before
    /// nobody waits for the store any more ([`StoreWait`]), callers are told that it is not recorded yet (D20). A commit whose
    /// reply is lost is settled before another one is tried. The end of a turn that has not run, or not here, is tried once: the turn
    /// keeps its place in the queue.
    pub(super) async fn commit_turn_end<T>(
        &self,
        transition: impl Fn(&mut BatchBuilder, &mut TurnState) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let is_run = self.watch.get().is_some();
        self.busy.send_modify(|count| *count += 1);
        let mut failures = 0_u32;
        let wait = self.inner.begin_store_wait();
        let report: DoubtReport<'_> = &|error| {
            self.report_unrecorded_end(error, wait);
            true
        };
        let ended = loop {
            let error = match self.commit_settled_transition(&transition, Some(report)).await {
                Ok(ended) => {
                    self.doubtful.store(false, Ordering::Release);
                    break Ok(ended);
                }
                Err(error) => error,
            };
            if !is_run || !may_commit_later(&error) || self.inner.is_closing() {
                break Err(error);
            }
            failures += 1;
            if failures > 1 {
                self.report_unrecorded_end(&error, wait);
                self.inner.env.timer.sleep_for(self.inner.limits.record_retry).await;
            }
            // The next attempt is built from the stored state; if that cannot be read, the attempt fails as well.
            drop(self.inner.ensure_loaded(&self.loaded).await);
        };
        self.busy.send_modify(|count| *count -= 1);
        ended
    }

    /// Tells whoever waits for the turn that its end is not recorded, unless the store is still waited for.
    fn report_unrecorded_end(&self, error: &Error, wait: StoreWait) {
        if !self.inner.is_store_wait_over(wait) {
            return;
        }
        let row = self.committed_row();
        let unrecorded = self.inner.unrecorded_outcome(&row, error);
        let state = self.loaded.lock_state();
        if let Some(running) = state.running_turn().filter(|running| running.no == Some(row.no)) {
            running.handle.publish_outcome(unrecorded);
        }
    }
}

/// Tells whether the same commit may succeed later, when the store works or has space again (D38).
fn may_commit_later(error: &Error) -> bool {
    error.is_unavailable() || matches!(error, Error::Store { source: singletree_durable::Error::Full { .. } })
}
