//! Observers: who sees events (graph-engine §6, INV-10).

use std::fmt;
use std::sync::Arc;

use singletree_durable::{BoxError, BoxFuture};

use super::event::{AttemptPhase, GraphEvent};
use crate::error::{Error, Result};

/// Sees the events of a run; cannot change, fail or delay it.
///
/// Events of one invocation come one at a time, in order. An error or a panic is reported as a
/// [`ObserverFailure`](crate::ObserverFailure) and changes nothing else.
///
/// # Cancellation
/// A drain with a time limit may drop the future.
pub trait Observer: Send + Sync {
    /// Takes an event.
    fn observe_event<'a>(&'a self, event: &'a GraphEvent)
    -> BoxFuture<'a, std::result::Result<(), BoxError>>;
}

/// An observer with the events it wants: of all three phases unless it says otherwise (R4), and no more than the
/// specification's unless it asks for more.
#[derive(Clone)]
pub struct Subscription {
    pub(crate) observer: Arc<dyn Observer>,
    phases: [bool; 3],
    pub(crate) lifecycle: bool,
    pub(crate) caller_metadata: bool,
}

impl Subscription {
    /// Subscribes an observer to all phases.
    pub fn new(observer: impl Observer + 'static) -> Self {
        Self::from_shared_observer(Arc::new(observer))
    }

    /// Subscribes a shared observer to all phases.
    #[must_use]
    pub fn from_shared_observer(observer: Arc<dyn Observer>) -> Self {
        Self { observer, phases: [true; 3], lifecycle: false, caller_metadata: false }
    }

    /// Asks for events about lifecycles, too: of the invocation, of inner runs, and of the attempts of model calls.
    #[must_use]
    pub fn with_lifecycle(mut self) -> Self {
        self.lifecycle = true;
        self
    }

    /// Asks for the caller's metadata on events ([`NodeEvent::caller_invocation_metadata`] and its like).
    ///
    /// [`NodeEvent::caller_invocation_metadata`]: crate::NodeEvent::caller_invocation_metadata
    #[must_use]
    pub fn with_caller_metadata(mut self) -> Self {
        self.caller_metadata = true;
        self
    }

    /// Limits the subscription to some phases.
    ///
    /// # Errors
    /// `invalid_argument` when there is none: such an observer would never see anything.
    pub fn limit_to_phases(mut self, phases: impl IntoIterator<Item = AttemptPhase>) -> Result<Self> {
        self.phases = [false; 3];
        for phase in phases {
            self.phases[phase as usize] = true;
        }
        if self.phases.contains(&true) {
            Ok(self)
        } else {
            Err(Error::Argument { what: "an observer must subscribe to at least one phase".into() })
        }
    }

    pub(crate) fn wants_event(&self, event: &GraphEvent) -> bool {
        let wants_phase = event.attempt_phase().is_none_or(|phase| self.phases[phase as usize]);
        wants_phase && (self.lifecycle || !event.is_about_lifecycle())
    }
}

impl<O: Observer + 'static> From<O> for Subscription {
    fn from(observer: O) -> Self {
        Self::new(observer)
    }
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Subscription({:?})", self.phases)
    }
}

/// Names an observer that was attached to a graph, to take it off again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ObserverId(pub(crate) u64);

/// The result of a drain (graph-engine §6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DrainSummary {
    /// How many events were not delivered.
    pub undelivered_count: u64,
    /// Whether the time ran out.
    pub timeout_reached: bool,
}
