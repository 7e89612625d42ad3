//! Which campaigns have something to do: the queue of the runner, and its timers.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use singletree_campaign::{CampaignBoard, CampaignStep};
use singletree_env::Timestamp;
use tokio::sync::Notify;

use crate::core::CampaignKey;

/// The queue of the runner: first in, first out, each campaign once, so that none gets a second cycle before every
/// other that could run had one. A campaign that waits for a person is not in it.
#[derive(Debug, Default)]
pub(crate) struct RunnerQueue {
    state: Mutex<RunnerQueueState>,
    /// Notified when something was put into it.
    pub(crate) bell: Notify,
}

#[derive(Debug, Default)]
struct RunnerQueueState {
    /// Whether a runner takes from it; without one nothing is put into it.
    is_open: bool,
    ready: VecDeque<CampaignKey>,
    /// Where each campaign is that is queued or runs.
    places: HashMap<CampaignKey, QueuePlace>,
    timers: BTreeSet<(Timestamp, RunnerTimer)>,
    /// The time of each pause, to replace it.
    pauses: BTreeMap<CampaignKey, Timestamp>,
}

/// Where a campaign is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum QueuePlace {
    Ready,
    Running,
    /// It runs, and something has happened in it since its cycle began.
    RunningAgain,
}

/// What happens at a time.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RunnerTimer {
    /// A pause is over, or something is tried again.
    Campaign(CampaignKey),
    /// A schedule is due.
    Schedule(CampaignKey, String),
}

impl RunnerQueue {
    /// Lets campaigns in, until it is closed. Returns false when it is open already.
    pub(crate) fn open(&self) -> bool {
        !std::mem::replace(&mut self.lock_state().is_open, true)
    }

    /// Tells whether a campaign is ready.
    pub(crate) fn has_ready(&self) -> bool {
        !self.lock_state().ready.is_empty()
    }

    /// Empties it, and lets nothing in.
    pub(crate) fn close(&self) {
        *self.lock_state() = RunnerQueueState::default();
    }

    /// Queues a campaign, or sets its timer, as its board says. Acknowledgements arrive in any order, so the board may be
    /// outdated: a waiting campaign keeps its timer, which may belong to a newer pause and otherwise does nothing.
    pub(crate) fn wake_campaign(&self, key: &CampaignKey, board: &CampaignBoard) {
        match board.next_step() {
            CampaignStep::Ask | CampaignStep::Execute(_) => self.push_campaign(key),
            CampaignStep::Sleep(until) => self.set_pause(key, until),
            CampaignStep::Await | CampaignStep::Rest => {}
        }
    }

    /// Queues a campaign, unless it is queued.
    pub(crate) fn push_campaign(&self, key: &CampaignKey) {
        let mut state = self.lock_state();
        if !state.is_open {
            return;
        }
        state.clear_pause(key);
        match state.places.get(key) {
            None => {
                state.ready.push_back(key.clone());
                state.places.insert(key.clone(), QueuePlace::Ready);
            }
            Some(QueuePlace::Running) => {
                state.places.insert(key.clone(), QueuePlace::RunningAgain);
            }
            Some(QueuePlace::Ready | QueuePlace::RunningAgain) => {}
        }
        drop(state);
        self.bell.notify_one();
    }

    /// Queues a campaign at a time.
    pub(crate) fn set_pause(&self, key: &CampaignKey, until: Timestamp) {
        let mut state = self.lock_state();
        if !state.is_open {
            return;
        }
        state.clear_pause(key);
        state.pauses.insert(key.clone(), until);
        state.timers.insert((until, RunnerTimer::Campaign(key.clone())));
        drop(state);
        self.bell.notify_one();
    }

    /// Has a schedule looked at, at a time.
    pub(crate) fn set_schedule(&self, key: &CampaignKey, schedule: &str, at: Timestamp) {
        let mut state = self.lock_state();
        if state.is_open {
            state.timers.insert((at, RunnerTimer::Schedule(key.clone(), schedule.to_owned())));
            drop(state);
            self.bell.notify_one();
        }
    }

    /// Takes the next campaign, to run a cycle of it.
    pub(crate) fn take_ready(&self) -> Option<CampaignKey> {
        let mut state = self.lock_state();
        let key = state.ready.pop_front()?;
        state.places.insert(key.clone(), QueuePlace::Running);
        Some(key)
    }

    /// Notes that the board is read after a cycle: what happens from here on is not seen in it.
    pub(crate) fn begin_look(&self, key: &CampaignKey) {
        self.lock_state().places.insert(key.clone(), QueuePlace::Running);
    }

    /// Notes that a cycle has ended. Returns whether something has happened in the campaign since the board was read.
    pub(crate) fn end_cycle(&self, key: &CampaignKey) -> bool {
        self.lock_state().places.remove(key) == Some(QueuePlace::RunningAgain)
    }

    /// Tells whether a cycle of the campaign runs.
    pub(crate) fn is_running(&self, key: &CampaignKey) -> bool {
        let place = self.lock_state().places.get(key).copied();
        matches!(place, Some(QueuePlace::Running | QueuePlace::RunningAgain))
    }

    /// Returns the time of the first timer.
    pub(crate) fn next_timer(&self) -> Option<Timestamp> {
        self.lock_state().timers.first().map(|(at, _)| *at)
    }

    /// Takes the timers whose time has come.
    pub(crate) fn take_due_timers(&self, now: Timestamp) -> Vec<RunnerTimer> {
        let mut state = self.lock_state();
        let mut due = Vec::new();
        while state.timers.first().is_some_and(|(at, _)| *at <= now) {
            let Some((_, timer)) = state.timers.pop_first() else { break };
            if let RunnerTimer::Campaign(key) = &timer {
                state.pauses.remove(key);
            }
            due.push(timer);
        }
        due
    }

    /// Forgets a campaign that was deleted. A schedule of it is not found any more when its time comes.
    pub(crate) fn forget_campaign(&self, key: &CampaignKey) {
        let mut state = self.lock_state();
        state.clear_pause(key);
        if state.places.get(key) == Some(&QueuePlace::Ready) {
            state.places.remove(key);
            state.ready.retain(|ready| ready != key);
        }
    }

    fn lock_state(&self) -> MutexGuard<'_, RunnerQueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RunnerQueueState {
    fn clear_pause(&mut self, key: &CampaignKey) {
        if let Some(until) = self.pauses.remove(key) {
            self.timers.remove(&(until, RunnerTimer::Campaign(key.clone())));
        }
    }
}
