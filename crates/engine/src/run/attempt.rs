//! Attempts whose end is told late (R5).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::event::EventError;
use super::fault::NodeError;
use super::scope::Scope;
use crate::plan::update::Update;

/// The attempt of a node execution that has begun and whose end is not told yet; there is at most one.
#[derive(Default)]
pub(crate) struct OpenAttempt(Mutex<Option<Open>>);

struct Open {
    scope: Arc<Scope>,
    /// How its unit ended, when it did: the chain may make something else of it.
    own: Option<Own>,
}

enum Own {
    Returned(Update),
    Failed(EventError),
}

impl OpenAttempt {
    fn open(&self) -> MutexGuard<'_, Option<Open>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that an attempt has begun.
    pub(crate) fn begin(&self, scope: &Arc<Scope>) {
        *self.open() = Some(Open { scope: scope.clone(), own: None });
    }

    /// Notes how the unit ended.
    pub(crate) fn ended(&self, outcome: &Result<Update, NodeError>) {
        if let Some(open) = self.open().as_mut()
            && open.scope.run.queue.is_some()
        {
            open.own = Some(match outcome {
                Ok(update) => Own::Returned(update.clone()),
                Err(error) => Own::Failed(open.scope.describe(error)),
            });
        }
    }

    /// Takes the attempt: who takes it tells its end.
    pub(crate) fn take(&self) -> Option<Arc<Scope>> {
        self.open().take().map(|item| item.scope)
    }

    /// Tells the attempt with its own outcome.
    pub(crate) fn settle(&self) {
        let Some(open) = self.open().take() else { return };
        let scope = open.scope;
        match open.own {
            Some(Own::Failed(error)) => scope.ended_with(error),
            Some(Own::Returned(update)) => match scope.merge(update) {
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
