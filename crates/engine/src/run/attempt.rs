//! Attempts whose end is told late (R5).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use singletree_graph::StateUpdate;

use super::event::EventError;
use super::fault::NodeError;
use super::scope::NodeAttempt;

/// The attempt of a node execution that has begun and whose end is not told yet; there is at most one.
#[derive(Default)]
pub(crate) struct OpenAttempt(Mutex<Option<UnsettledAttempt>>);

struct UnsettledAttempt {
    scope: Arc<NodeAttempt>,
    /// How its unit ended, when it did: the chain may make something else of it.
    own: Option<AttemptOutcome>,
}

enum AttemptOutcome {
    Returned(StateUpdate),
    Failed(EventError),
}

impl OpenAttempt {
    fn lock_attempt(&self) -> MutexGuard<'_, Option<UnsettledAttempt>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that an attempt has begun.
    pub(crate) fn begin_attempt(&self, scope: &Arc<NodeAttempt>) {
        *self.lock_attempt() = Some(UnsettledAttempt { scope: scope.clone(), own: None });
    }

    /// Notes how the unit ended.
    pub(crate) fn record_outcome(&self, outcome: &Result<StateUpdate, NodeError>) {
        if let Some(open) = self.lock_attempt().as_mut()
            && open.scope.run.events.is_some()
        {
            open.own = Some(match outcome {
                Ok(update) => AttemptOutcome::Returned(update.clone()),
                Err(error) => AttemptOutcome::Failed(open.scope.describe_node_error(error)),
            });
        }
    }

    /// Takes the attempt: who takes it tells its end.
    pub(crate) fn take_attempt(&self) -> Option<Arc<NodeAttempt>> {
        self.lock_attempt().take().map(|item| item.scope)
    }

    /// Tells the attempt with its own outcome.
    pub(crate) fn settle_attempt(&self) {
        let Some(open) = self.lock_attempt().take() else { return };
        let scope = open.scope;
        match open.own {
            Some(AttemptOutcome::Failed(error)) => scope.report_failed_with(error),
            Some(AttemptOutcome::Returned(update)) => match scope.merge_update(update) {
                Ok(after) => scope.report_merged(&after),
                Err(error) => scope.report_failed(&error),
            },
            // The chain dropped it while it ran.
            None => {
                let dropped = NodeError::new("the attempt was given up by its middleware");
                scope.report_failed_with(scope.describe_node_error(&dropped));
            }
        }
    }
}
