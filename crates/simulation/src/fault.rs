//! The faults of a run: which are on and how often they happen follows from the seed.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use singletree_env::FaultInjector;

use crate::coverage::CoverageCounts;
use crate::executor::SimulationExecutor;
use crate::random::SimulationRandom;

/// Defines the faults: variant, name, the highest rate, and the meaning.
macro_rules! fault_kinds {
    ($($(#[$doc:meta])* $kind:ident = $name:literal, $rate:literal;)*) => {
        /// A fault that the world injects.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum FaultKind { $($(#[$doc])* $kind,)* }

        impl FaultKind {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$kind,)*];

            /// Returns the name, as reports and the command line have it.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$kind => $name,)* }
            }

            /// Returns how often it happens at most, of 1, each time that it may happen.
            const fn highest_rate(self) -> f64 {
                match self { $(Self::$kind => $rate,)* }
            }
        }
    };
}

fault_kinds! {
    /// A commit fails for all writes that share it, and the store goes on with a new connection.
    GroupCommitFails = "group_commit_fails", 0.03;
    /// A commit fails, and so does its removal from the log: it is not known whether the next process finds it (D38).
    CommitUnknown = "commit_unknown", 0.01;
    /// The answer to a commit that has landed is an error.
    AcknowledgementLost = "acknowledgement_lost", 0.03;
    /// A commit is lost before it lands, and its answer is an error.
    CommitLost = "commit_lost", 0.03;
    /// Answers to commits of different sessions come in another order than the commits, and late.
    AcknowledgementsReordered = "acknowledgements_reordered", 0.4;
    /// A statement of a dead process lands after its client has gone, or is refused by the fence of the next one.
    LateStatement = "late_statement", 0.5;
    /// A power cut instead of a kill: unacknowledged commits are lost from some place on.
    PowerCut = "power_cut", 0.5;
    /// The store takes no writes for a while.
    StoreBusy = "store_busy", 0.03;
    /// The disk is full for a while.
    DiskFull = "disk_full", 0.01;
    /// A read fails.
    ReadFails = "read_fails", 0.02;
    /// A read takes long, sometimes longer than a read may take.
    ReadHangs = "read_hangs", 0.01;
    /// The process is killed.
    ProcessKilled = "process_killed", 0.9;
    /// The process is stopped in an orderly way.
    ProcessStopped = "process_stopped", 0.5;
    /// A caller goes away: the future of its call is dropped after some polls.
    CallDropped = "call_dropped", 0.15;
    /// A connection is cut behind some byte of a request or of its response.
    ConnectionCut = "connection_cut", 0.3;
    /// The model's server answers 429 or 5xx.
    ModelRefuses = "model_refuses", 0.15;
    /// The model's stream breaks off.
    ModelBreaksOff = "model_breaks_off", 0.1;
    /// The model is silent for long.
    ModelStalls = "model_stalls", 0.05;
    /// The model calls a tool that there is not, or with arguments that are no JSON.
    ModelMalformed = "model_malformed", 0.1;
    /// The request to a tool is lost before it takes effect.
    ToolRequestLost = "tool_request_lost", 0.1;
    /// The answer of a tool is lost after it took effect.
    ToolAnswerLost = "tool_answer_lost", 0.1;
    /// A server of tools cannot be reached for a while.
    ToolServerAway = "tool_server_away", 0.1;
    /// A server of tools lists others than before: with other definitions, more or fewer.
    ToolListChanges = "tool_list_changes", 0.1;
    /// A tool is slow.
    ToolSlow = "tool_slow", 0.1;
    /// The receiver of a webhook refuses a notice, cannot be reached, or takes it and does not say so.
    WebhookFails = "webhook_fails", 0.3;
    /// The clock of the machine is set back or forward.
    ClockCorrected = "clock_corrected", 0.1;
    /// The program pauses at a named point.
    Pause = "pause", 0.1;
    /// A heartbeat of one of several processes does not reach the store.
    HeartbeatLost = "heartbeat_lost", 0.3;
    /// One of several processes cannot reach the store for a while, often for longer than its lease.
    Partition = "partition", 0.3;
    /// One of several processes stands still for a while, often for longer than its lease.
    ProcessFrozen = "process_frozen", 0.4;
    /// The clock of the store that several processes share moves ahead, as that of a promoted standby does.
    StoreClockAhead = "store_clock_ahead", 0.1;
    /// The lease of one of several processes ends soon after it has acquired a session, while it takes turns over.
    LeaseEnds = "lease_ends", 0.2;
}

impl FaultKind {
    /// Tells whether it can happen where so many processes share the store.
    pub(crate) const fn can_happen(self, processes: usize) -> bool {
        let needs_several = matches!(
            self,
            Self::HeartbeatLost
                | Self::Partition
                | Self::ProcessFrozen
                | Self::StoreClockAhead
                | Self::LeaseEnds
        );
        processes > 1 || !needs_several
    }

    /// Tells whether the store fails or is slow.
    fn is_of_store(self) -> bool {
        matches!(
            self,
            Self::GroupCommitFails
                | Self::CommitUnknown
                | Self::AcknowledgementLost
                | Self::CommitLost
                | Self::StoreBusy
                | Self::DiskFull
                | Self::ReadFails
                | Self::ReadHangs
        )
    }
}

/// A limit of the faults and operations of a run, to find the smallest run that still fails.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunRestriction {
    /// Faults that do not happen.
    pub without: BTreeSet<FaultKind>,
    /// At most so many faults happen.
    pub faults: Option<u64>,
    /// At most so many operations are begun.
    pub operations: Option<u64>,
}

/// Decides which faults happen.
pub(crate) struct FaultSwarm {
    executor: SimulationExecutor,
    coverage: CoverageCounts,
    restriction: RunRestriction,
    state: Mutex<SwarmState>,
}

struct SwarmState {
    is_over: bool,
    random: SimulationRandom,
    streams: BTreeMap<FaultKind, FaultStream>,
    happened: BTreeMap<FaultKind, u64>,
    total: u64,
    /// When the store failed last.
    store_failed_at: Option<Duration>,
    /// When the program paused last.
    paused_at: Option<Duration>,
}

struct FaultStream {
    rate: f64,
    random: SimulationRandom,
}

impl FaultSwarm {
    /// Draws which faults are on, and how often each of them happens.
    pub(crate) fn draw(
        seed: u64,
        executor: &SimulationExecutor,
        coverage: &CoverageCounts,
        restriction: &RunRestriction,
        processes: usize,
    ) -> Self {
        let random = SimulationRandom::from_name(seed, "swarm");
        let stream = |kind: FaultKind| {
            let stream = SimulationRandom::from_name(seed, kind.as_str());
            (kind, FaultStream { rate: draw_rate(&random, kind), random: stream })
        };
        let kinds = FaultKind::ALL.iter().filter(|kind| kind.can_happen(processes));
        let streams = kinds.map(|kind| stream(*kind)).collect();
        let state = SwarmState {
            is_over: false,
            random,
            streams,
            happened: BTreeMap::new(),
            total: 0,
            store_failed_at: None,
            paused_at: None,
        };
        Self {
            executor: executor.clone(),
            coverage: coverage.clone(),
            restriction: restriction.clone(),
            state: Mutex::new(state),
        }
    }

    fn lock_state(&self) -> MutexGuard<'_, SwarmState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells whether a fault happens now.
    pub(crate) fn is_due(&self, kind: FaultKind) -> bool {
        let mut state = self.lock_state();
        let Some(stream) = state.streams.get(&kind) else { return false };
        let is_drawn = stream.random.draw_chance(stream.rate);
        let is_allowed = !state.is_over
            && !self.restriction.without.contains(&kind)
            && self.restriction.faults.is_none_or(|max| state.total < max);
        if !(is_drawn && is_allowed) {
            return false;
        }
        state.total += 1;
        *state.happened.entry(kind).or_default() += 1;
        let now = Some(self.executor.now());
        match kind {
            FaultKind::Pause => state.paused_at = now,
            kind if kind.is_of_store() => state.store_failed_at = now,
            _ => {}
        }
        drop(state);
        self.coverage.note(kind.as_str());
        self.executor.trace_event(format_args!("fault {}", kind.as_str()));
        true
    }

    /// Draws other rates, as the weather changes.
    pub(crate) fn change_rates(&self) {
        let mut state = self.lock_state();
        let rates: Vec<(FaultKind, f64)> = state
            .streams
            .keys()
            .filter(|_| state.random.draw_percent(30))
            .map(|kind| (*kind, draw_rate(&state.random, *kind)))
            .collect();
        for (kind, rate) in rates {
            if let Some(stream) = state.streams.get_mut(&kind) {
                stream.rate = rate;
            }
        }
    }

    /// Notes that the store fails still.
    pub(crate) fn note_store_failure(&self) {
        self.lock_state().store_failed_at = Some(self.executor.now());
    }

    /// Tells whether the program has paused at a named point since then.
    pub(crate) fn has_paused_since(&self, time: Duration) -> bool {
        self.lock_state().paused_at.is_some_and(|at| at >= time)
    }

    /// Tells whether the store has worked for the last half minute.
    pub(crate) fn is_store_calm(&self) -> bool {
        let failed = self.lock_state().store_failed_at;
        failed.is_none_or(|at| self.executor.now().saturating_sub(at) > Duration::from_secs(30))
    }

    /// Lets no fault happen from now on.
    pub(crate) fn stop_faults(&self) {
        self.lock_state().is_over = true;
    }

    /// Tells whether no fault happens any more.
    pub(crate) fn is_over(&self) -> bool {
        self.lock_state().is_over
    }

    /// Returns how often each fault has happened.
    pub(crate) fn happened_counts(&self) -> BTreeMap<FaultKind, u64> {
        self.lock_state().happened.clone()
    }
}

/// Draws a rate: half of the faults are off, the others seldom or often.
fn draw_rate(random: &SimulationRandom, kind: FaultKind) -> f64 {
    match random.draw_below(4) {
        0 | 1 => 0.0,
        2 => kind.highest_rate() / 4.0,
        _ => kind.highest_rate(),
    }
}

impl FaultInjector for FaultSwarm {
    fn is_fault_due(&self, name: &'static str) -> bool {
        let is_due = self.is_due(FaultKind::Pause);
        if is_due {
            self.coverage.note(name);
        }
        is_due
    }
}

impl fmt::Debug for FaultSwarm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultSwarm").field("restriction", &self.restriction).finish_non_exhaustive()
    }
}
