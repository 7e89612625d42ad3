//! Taking over the unfinished turns of dead processes: accepted turns without an outcome (INV-2, INV-8, D24, D28).

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard};

use futures_util::stream::{self, StreamExt};
use singletree_durable::{
    BoxFuture, FencingToken, ServedGraph, ServedGraphs, SessionKey, StoredTurnKind, TurnRow, TurnRowQuery,
};
use singletree_session::{
    AgentVersion, QueuedTurn, QueuedWork, SteeredPosition, StoredPosition, TurnId, TurnRowExt, apply,
};

use crate::Error;
use crate::runtime::chat_inner::{ChatInner, ServedAgent};
use crate::runtime::commit::lease_lost_error;
use crate::runtime::loaded_session::{LoadedSession, LoadedState, TurnHandle};
use crate::turn::prepare::TurnPreparation;

/// Of how many sessions a stop notes at once which turns it leaves.
const LEFT_AT_ONCE: usize = 256;

/// How many sessions with turns of dead processes are taken over at once.
const TAKEN_AT_ONCE: usize = 64;

/// A turn that was taken over, with the handle that receives its outcome.
pub(crate) struct AdoptedTurn {
    pub(crate) key: SessionKey,
    pub(crate) id: TurnId,
    pub(crate) handle: Arc<TurnHandle>,
}

/// The turns that were taken over so far, and the first failure.
struct OwnerlessSweep {
    taken: Vec<AdoptedTurn>,
    swept: Result<(), Error>,
}

impl ChatInner {
    /// Makes a session ready for work: acquired, known, and former owners' turns taken over.
    pub(crate) async fn ensure_session_ready(
        self: &Arc<Self>,
        loaded: &Arc<LoadedSession>,
    ) -> Result<Vec<AdoptedTurn>, Error> {
        match self.ensure_acquired(loaded).await {
            // The store was opened for reading only: the session can be looked at, and turns of others stay theirs.
            Err(Error::Store { source: singletree_durable::Error::Closed }) => {
                self.ensure_loaded(loaded).await?;
                return Ok(Vec::new());
            }
            acquired => acquired?,
        }
        if loaded.lock_state().is_taken_over() {
            return Ok(Vec::new());
        }
        self.run_call_in_task(self.clone().adopt_open_turns(loaded.clone())).await
    }

    /// Takes over the unfinished turns of former owners. The future is large and runs once per session, hence the box.
    fn adopt_open_turns(
        self: Arc<Self>,
        loaded: Arc<LoadedSession>,
    ) -> BoxFuture<'static, Result<Vec<AdoptedTurn>, Error>> {
        Box::pin(async move {
            let loaded = &loaded;
            let adopting = loaded.adopting.lock().await;
            if loaded.lock_state().is_taken_over() {
                return Ok(Vec::new());
            }
            // A lease that is lost meanwhile ends this takeover: the next one reads the open turns anew.
            let fence = loaded.lock_state().batch_fence();
            let mut taken = Vec::new();
            let adopted = self.take_over_open_turns(loaded, fence, &mut taken).await;
            let is_waiting = {
                let mut state = loaded.lock_state();
                state.record_takeover_end(fence, adopted.is_ok());
                state.has_queued_turns()
            };
            drop(adopting);
            // Also runs turns that an earlier attempt queued before it failed, and gives back a session that a stop has left here.
            if is_waiting || self.is_closing() {
                self.wake_queue(loaded);
            }
            adopted.inspect_err(|error| self.retry_takeover(loaded, error))?;
            Ok(taken)
        })
    }

    async fn take_over_open_turns(
        self: &Arc<Self>,
        loaded: &Arc<LoadedSession>,
        fence: FencingToken,
        taken: &mut Vec<AdoptedTurn>,
    ) -> Result<(), Error> {
        let ahead = loaded.lock_state().take_prefetched_turns();
        let mut open = match ahead {
            Some(open) => open,
            None => self.await_store_read(self.journal.read_turns(&loaded.key, &TurnRowQuery::Open)).await?,
        };
        apply::take_over::order_open_turns(&mut open);
        for handle in loaded.lock_state().take_messages_of_former_lease(&open) {
            handle.settle_acceptance(true);
        }
        let carried = self.read_steered_positions(loaded, &open).await?;
        for (at, row) in open.into_iter().enumerate() {
            // An earlier try that failed half way has queued it already.
            if loaded.lock_state().find_turn(&row.turn_id()).is_some() {
                continue;
            }
            let position = carried.iter().find(|it| it.turn == row.no).map(|it| it.position);
            taken.extend(match position {
                Some(position) => self.take_over_steered_turn(loaded, (row, fence), position).await?,
                None => self.take_over_turn(loaded, (row, fence), at == 0).await?,
            });
        }
        Ok(())
    }

    /// Tries a takeover that has failed again in the background, until it succeeds or the session is another process's. The
    /// turns may be this process's already: then no sweep finds them.
    fn retry_takeover(self: &Arc<Self>, loaded: &Arc<LoadedSession>, error: &Error) {
        if error.is_lease_lost() || error.is_corrupt() || loaded.retries_takeover.swap(true, Ordering::AcqRel)
        {
            return;
        }
        let (inner, loaded) = (self.clone(), loaded.clone());
        self.tasks.spawn_task(async move {
            inner.env.timer.sleep_for(inner.limits.record_retry).await;
            loaded.retries_takeover.store(false, Ordering::Release);
            let is_held = loaded.lock_state().held_fence().is_some();
            if is_held && !inner.is_closing() {
                // One that fails again is tried again.
                drop(inner.ensure_session_ready(&loaded).await);
                // The session was read for it, and nobody may use it.
                inner.trim_loaded_sessions();
            }
        });
    }

    /// Takes over one turn. Only the first unfinished one of a session can have been running; one that is parked behind
    /// a wait was not.
    async fn take_over_turn(
        self: &Arc<Self>,
        loaded: &Arc<LoadedSession>,
        (row, fence): (TurnRow, FencingToken),
        first: bool,
    ) -> Result<Option<AdoptedTurn>, Error> {
        let Some(served) = self.agents.get(&row.agent) else { return Ok(None) };
        let parked = row.kind == StoredTurnKind::Message && loaded.lock_state().pending_wait().is_some();
        let ours = Some(row.fence) == loaded.lock_state().held_fence();
        let ran = first && !parked;
        let row = self.commit_takeover(loaded, &row, ran && !ours).await?;
        self.pause_if_due("turn_taken_over").await;
        let id = row.turn_id();
        let handle = TurnHandle::new(Some(id.clone()), row.key.clone().zip(row.digest.clone()));
        handle.settle_acceptance(true);
        let taken = AdoptedTurn { key: loaded.key.clone(), id, handle: handle.clone() };
        if let Some(error) = self.give_up_reason(&row) {
            handle.publish_outcome(self.try_end_abandoned_turn(loaded, row, &error).await?);
            return Ok(Some(taken));
        }
        let message = match row.kind {
            StoredTurnKind::Message if !ran => self.find_message_item(&loaded.key, &row).await?,
            StoredTurnKind::Message | StoredTurnKind::Resume | StoredTurnKind::Close => None,
        };
        let work = match message {
            Some(no) => {
                let message = TurnPreparation { inner: self, loaded, served }.read_item(no).await?;
                QueuedWork::Message { row, message, committed: true, steers: false, side: None }
            }
            None => QueuedWork::Recover { row, has_run: ran },
        };
        lock_state_under(loaded, fence)?.append_turn(QueuedTurn { handle, work });
        Ok(Some(taken))
    }

    /// Returns the messages that the turn which ran has taken: they are part of it, and go where it goes.
    async fn read_steered_positions(
        &self,
        loaded: &LoadedSession,
        open: &[TurnRow],
    ) -> Result<Vec<SteeredPosition>, Error> {
        let [first, _, ..] = open else { return Ok(Vec::new()) };
        let position =
            self.await_store_read(self.journal.read_position(&loaded.key, &first.invocation)).await?;
        let own = position.filter(|position| position.turn == first.no);
        // One that cannot be read ends its turn, and is told there.
        Ok(own
            .and_then(|own| own.body.decode::<StoredPosition>().ok())
            .map(|it| it.taken)
            .unwrap_or_default())
    }

    /// Takes over the turn of a message that another turn has taken.
    async fn take_over_steered_turn(
        self: &Arc<Self>,
        loaded: &Arc<LoadedSession>,
        (row, fence): (TurnRow, FencingToken),
        position: u64,
    ) -> Result<Option<AdoptedTurn>, Error> {
        if !self.agents.contains_key(&row.agent) {
            return Ok(None);
        }
        let ended = self.read_stored_outcome(loaded, &row).await?;
        let id = row.turn_id();
        let handle = TurnHandle::new(Some(id.clone()), row.key.clone().zip(row.digest.clone()));
        handle.settle_acceptance(true);
        let taken = AdoptedTurn { key: loaded.key.clone(), id, handle: handle.clone() };
        if let Some(outcome) = ended {
            // The turn that took it was given up just now, and this one with it.
            handle.publish_outcome(outcome);
            return Ok(Some(taken));
        }
        let row = self.commit_takeover(loaded, &row, false).await?;
        let work = QueuedWork::Recover { row, has_run: false };
        lock_state_under(loaded, fence)?.add_taken_message(QueuedTurn { handle, work }, position);
        Ok(Some(taken))
    }

    /// Records that a turn belongs to this process, and returns its row as it is stored then.
    async fn commit_takeover(
        &self,
        loaded: &Arc<LoadedSession>,
        row: &TurnRow,
        is_death: bool,
    ) -> Result<TurnRow, Error> {
        let (row, commit) = self.commit_decision(loaded, |_, writing| {
            Ok::<_, Error>(apply::take_over::take_over_turn(writing, row, is_death))
        })?;
        self.await_commit(loaded, commit).await?;
        Ok(row)
    }

    /// Says why a turn is not run again, if it is not.
    fn give_up_reason(&self, row: &TurnRow) -> Option<Error> {
        if row.deaths >= self.limits.deaths {
            return Some(Error::Crashed { deaths: row.deaths });
        }
        let age = self.current_time().duration_since(row.accepted_at);
        let days = self.limits.turn_age.as_secs() / (24 * 3600);
        (age > self.limits.turn_age).then_some(Error::Abandoned { days })
    }

    /// Records in the unfinished turns of this process that they have no owner, so that an orderly stop does not count
    /// as a death (D24, D33). Of each session the first unfinished turn is written, since no other can have been running,
    /// and the one behind it, which becomes the first when that one still ends before the process does. A failed write
    /// counts as a death later.
    pub(crate) async fn leave_open_turns(&self) {
        let may_leave = |loaded: &Arc<LoadedSession>| {
            loaded.is_taking_over() || loaded.lock_state().has_unfinished_turns()
        };
        let leaving = self.loaded_sessions().into_iter().filter(may_leave);
        // Many at once: they share commits, and one that takes long holds up no other.
        let leaving = stream::iter(leaving);
        leaving.for_each_concurrent(LEFT_AT_ONCE, |loaded| self.leave_turns_of_session(loaded)).await;
    }

    /// Gives a session back while this process ends, as soon as nothing runs in it: other processes need not wait until all
    /// turns of this one have ended.
    pub(crate) async fn hand_over_session(&self, loaded: &Arc<LoadedSession>) {
        if loaded.lock_state().has_turns() {
            return;
        }
        if loaded.lock_state().has_unfinished_turns() {
            self.clear_turn_owners(loaded).await;
        }
        if self.end_idle_lease(loaded) {
            self.release_sessions(vec![loaded.key.clone()]);
        }
    }

    async fn leave_turns_of_session(&self, loaded: Arc<LoadedSession>) {
        let arriving = loaded.lock_state().uncommitted_messages();
        self.clear_turn_owners(&loaded).await;
        // A message on its way to the store is a turn of this process as soon as it lands, which may be known late.
        for handle in arriving {
            if handle.wait_for_acceptance().await {
                self.clear_turn_owners(&loaded).await;
            }
        }
    }

    async fn clear_turn_owners(&self, loaded: &Arc<LoadedSession>) {
        let open = self.await_store_read(self.journal.read_turns(&loaded.key, &TurnRowQuery::Open)).await;
        let mut open = open.unwrap_or_default();
        apply::take_over::order_open_turns(&mut open);
        let Some(fence) = loaded.lock_state().held_fence() else { return };
        for row in open.into_iter().take(2).filter(|row| row.fence == fence) {
            let left = self.commit_decision(loaded, |_, writing| {
                apply::take_over::clear_turn_owner(writing, row);
                Ok::<_, Error>(())
            });
            if let Ok(((), commit)) = left {
                // The turn may have ended just now.
                drop(self.await_commit(loaded, commit).await);
            }
        }
    }

    /// Tells the other processes over the same data which agents this one can go on with.
    pub(crate) fn announce_graphs(&self) {
        if self.is_closing() {
            return;
        }
        let version = |served: &Arc<ServedAgent>| {
            let AgentVersion { name, graph, schema_version, .. } = served.agent.describe_version();
            ServedGraph {
                agent: name.to_owned(),
                graph: graph.to_owned(),
                schema_version: schema_version.to_owned(),
            }
        };
        self.announce(self.agents.values().map(version).collect());
    }

    /// Tells the other processes that this one takes no more work.
    pub(crate) fn withdraw_graphs(&self) {
        self.announce(Vec::new());
    }

    fn announce(&self, graphs: Vec<ServedGraph>) {
        let (tenant, turn_age) = (self.bound.clone(), self.limits.turn_age);
        self.journal.announce_graphs(ServedGraphs { graphs, tenant, turn_age });
    }

    /// Takes over every turn without an owner of the served tenants whose agent this process has. A failure in one
    /// session does not stop the takeover of the others; the first such error is returned at the end. At most as many
    /// turns are returned as the limit says.
    ///
    /// Where other processes may do the same, each one takes a few sessions at a time, from a position that it draws at
    /// random, and reads the list again: so they rarely try the same one.
    pub(crate) async fn sweep_ownerless_turns(self: &Arc<Self>) -> Result<Vec<AdoptedTurn>, Error> {
        const PAGE: u64 = 256;
        let mut sweep = OwnerlessSweep { taken: Vec::new(), swept: Ok(()) };
        let (mut past, mut tried) = (None, BTreeSet::new());
        loop {
            let page = self.await_store_read(self.upkeep.read_ownerless_turns(past.as_ref(), PAGE)).await?;
            let full = page.len() as u64 == PAGE;
            let last = page.last().map(|(key, row)| (key.clone(), row.no));
            // A session whose turns another process can go on with is left to it.
            let served = page.into_iter().filter(|(_, row)| self.agents.contains_key(&row.agent));
            let keys: BTreeSet<SessionKey> = served.map(|(key, _)| key).collect();
            let keys = keys.into_iter().filter(|key| self.serves_tenant(&key.tenant) && !tried.contains(key));
            let mut keys: Vec<SessionKey> = keys.collect();
            let is_rest = !self.journal.has_other_writers() || keys.len() <= TAKEN_AT_ONCE;
            if !is_rest {
                let first = self.env.rng.draw_u64() % keys.len() as u64;
                keys.rotate_left(usize::try_from(first).unwrap_or_default());
                keys.truncate(TAKEN_AT_ONCE);
                tried.extend(keys.iter().cloned());
            }
            let is_closing = self.take_over_sessions(keys, &mut sweep).await;
            if is_closing || is_rest && !full {
                return sweep.swept.map(|()| sweep.taken);
            }
            if is_rest {
                past = last;
                tried.clear();
            }
        }
    }

    /// Takes over the turns of sessions. Returns whether this process closes meanwhile.
    async fn take_over_sessions(self: &Arc<Self>, keys: Vec<SessionKey>, sweep: &mut OwnerlessSweep) -> bool {
        let mut takeovers = stream::iter(keys)
            .map(|key| async move {
                let loaded = self.session_in_memory_when_room(&key).await?;
                Some(self.ensure_session_ready(&loaded).await)
            })
            .buffer_unordered(TAKEN_AT_ONCE);
        let mut is_closing = false;
        while let Some(made) = takeovers.next().await {
            match made {
                None => is_closing = true,
                Some(Ok(it)) => {
                    let room = self.limits.swept - sweep.taken.len();
                    sweep.taken.extend(it.into_iter().take(room));
                }
                // Another process has taken it over, or does so now.
                Some(Err(Error::Store { source: singletree_durable::Error::HeldElsewhere { .. } })) => {}
                Some(Err(error)) => {
                    let swept = std::mem::replace(&mut sweep.swept, Ok(()));
                    sweep.swept = swept.and(Err(error));
                }
            }
        }
        is_closing
    }
}

/// Locks the state of a session that is held under this fence still. The turns of a session that was lost are the next
/// owner's, which may have ended them.
fn lock_state_under(
    loaded: &LoadedSession,
    fence: FencingToken,
) -> Result<MutexGuard<'_, LoadedState>, Error> {
    let state = loaded.lock_state();
    if state.held_fence() == Some(fence) { Ok(state) } else { Err(lease_lost_error(loaded, fence)) }
}
