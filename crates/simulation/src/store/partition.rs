//! A process that cannot reach the store for a while: its statements fail or hang, and its lease may end meanwhile.

use std::time::Duration;

use singletree_durable::{Error, Result, SessionKey};

use super::SimulatedStore;
use super::node::SimulatedNode;
use super::weather::CommitFate;

/// How long a statement may take.
const STATEMENT_TIME: Duration = Duration::from_secs(10);

impl SimulatedStore {
    /// Cuts the process at a place off from the store for a while.
    pub(crate) fn cut_off(&self, slot: usize, span: Duration) {
        self.lock_state().writers[slot].cut_off_until = self.0.executor.now() + span;
    }

    /// Tells whether the process at a place cannot reach the store.
    pub(super) fn is_cut_off(&self, slot: usize) -> bool {
        let is_cut_off =
            self.0.executor.now() < self.lock_state().writers[slot].cut_off_until && !self.0.swarm.is_over();
        if is_cut_off {
            self.0.swarm.note_store_failure();
        }
        is_cut_off
    }

    /// Waits until the process can reach the store, at most for such a span; tells whether it can.
    async fn wait_until_reached(&self, slot: usize, most: Duration) -> bool {
        let given_up_at = self.0.executor.now().saturating_add(most);
        while self.is_cut_off(slot) {
            let (now, until) = (self.0.executor.now(), self.lock_state().writers[slot].cut_off_until);
            let Some(rest) = given_up_at.checked_sub(now).filter(|rest| !rest.is_zero()) else {
                return false;
            };
            self.0.executor.sleep_for(until.saturating_sub(now).min(rest)).await;
        }
        true
    }

    /// Lets a statement reach the store: at once, or where the process is cut off, after a while or never.
    ///
    /// # Errors
    /// `store_unavailable`.
    pub(super) async fn reach(&self, slot: usize, doing: &'static str) -> Result<()> {
        if !self.is_cut_off(slot) {
            return Ok(());
        }
        self.0.coverage.note("a statement of a process that was cut off");
        // Without a connection it fails at once; on one that is silent it waits.
        let most = match self.0.random.draw_percent(50) {
            true => self.draw_micros(50, 20_000),
            false => STATEMENT_TIME,
        };
        match self.wait_until_reached(slot, most).await {
            true => Ok(()),
            false => Err(Error::Unavailable { doing, source: "the store cannot be reached".into() }),
        }
    }

    /// Sends the group of writes under way while the process is cut off: it fails at once, or is settled when the store can be
    /// reached again; false when the process has died meanwhile.
    pub(super) async fn commit_while_cut_off(&self, slot: usize, process: u64) -> bool {
        let is_alive = || self.lock_state().writers[slot].process == process;
        match self.0.random.draw_below(3) {
            // There is no connection to send it on.
            0 => {
                self.0.executor.sleep_for(self.draw_micros(50, 20_000)).await;
                if is_alive() {
                    self.finish_group(slot, CommitFate::Fails);
                }
                return is_alive();
            }
            // It arrived, and its answer does not.
            1 => {
                let mut state = self.lock_state();
                let committing = &mut state.writers[slot].committing;
                committing.iter_mut().for_each(|write| self.land_write(write.as_mut()));
            }
            _ => {}
        }
        self.wait_until_reached(slot, Duration::MAX).await;
        self.0.executor.sleep_for(self.draw_micros(1_000, 100_000)).await;
        if is_alive() {
            self.settle_group(slot);
        }
        is_alive()
    }

    /// Settles the group under way when the store can be reached again. A write that has not landed lands now, if the process still has
    /// its session; else it never will, and whether it landed is not known.
    fn settle_group(&self, slot: usize) {
        let (group, node) = {
            let mut state = self.lock_state();
            let group = std::mem::take(&mut state.writers[slot].committing);
            state.commits += 1;
            state.writes += group.len() as u64;
            (group, state.writers[slot].node.clone())
        };
        for mut write in group {
            let has_session = |key: &SessionKey| node.as_ref().is_none_or(|node| node.has_session(self, key));
            let error = match write.session().cloned() {
                Some(key) if !has_session(&key) => {
                    self.0.coverage.note("the session of a cut commit was another process's");
                    node.iter().for_each(|node| node.lose_session(&key));
                    let source = "the session is held by another owner now".into();
                    Some(Error::CommitUnknown { doing: "commit", source })
                }
                Some(_) => {
                    self.land_write(write.as_mut());
                    None
                }
                // Writes outside of sessions are not settled.
                None => Some(Error::Unavailable { doing: "commit", source: "the answer was lost".into() }),
            };
            let answer = write.take_answer(error);
            let after = self.draw_answer_delay(&mut self.lock_state(), write.session());
            self.answer_later(after, answer);
        }
    }
}

impl SimulatedNode {
    /// Tells whether the process has a session, by the tables.
    fn has_session(&self, store: &SimulatedStore, key: &SessionKey) -> bool {
        let owner = store.lock_nodes().and_then(|table| table.sessions.get(key)?.owner);
        let node = self.lock();
        node.held.contains_key(key) && owner == Some(node.incarnation)
    }

    /// Notes that a session is another process's.
    fn lose_session(&self, key: &SessionKey) {
        self.lock().held.remove(key);
    }
}
