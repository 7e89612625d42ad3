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
    fn open(&self) -> MutexGuard<'_, Option<UnsettledAttempt>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that an attempt has begun.
    pub(crate) fn begin(&self, scope: &Arc<NodeAttempt>) {
        *self.open() = Some(UnsettledAttempt { scope: scope.clone(), own: None });
    }

    /// Notes how the unit ended.
    pub(crate) fn ended(&self, outcome: &Result<StateUpdate, NodeError>) {
        if let Some(open) = self.open().as_mut()
            && open.scope.run.queue.is_some()
        {
            open.own = Some(match outcome {
                Ok(update) => AttemptOutcome::Returned(update.clone()),
                Err(error) => AttemptOutcome::Failed(open.scope.describe(error)),
            });
        }
    }

    /// Takes the attempt: who takes it tells its end.
    pub(crate) fn take(&self) -> Option<Arc<NodeAttempt>> {
        self.open().take().map(|item| item.scope)
    }

    /// Tells the attempt with its own outcome.
    pub(crate) fn settle(&self) {
        let Some(open) = self.open().take() else { return };
        let scope = open.scope;
        match open.own {
            Some(AttemptOutcome::Failed(error)) => scope.ended_with(error),
            Some(AttemptOutcome::Returned(update)) => match scope.merge(update) {
                Ok(after) => scope.merged(&after),
                Err(error) => scope.failed(&error),
            },
            // The chain dropped it while it ran.
            None => {
                let dropped = NodeError::new("the attempt was given up by its middleware");
                scope.ended_with(scope.describe(&dropped));
            }
        }
    }
}
