//! The checkpointer of a case: what it was given to save, and what it gives back. This file is where the engine's interface
//! goes; there is none yet.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Map, Value};
use singletree::Graph;
use singletree::durable::{InvocationId, Migrations};
use singletree::engine::{Error, GraphBuilder, InvokeOptions, Outcome as Ended, Snapshot, UNVERSIONED};
use tokio::sync::Notify;

use super::record::Seeded;
use super::spec::{Backend, Crash};
use crate::failure::{Failure, Outcome};

/// A checkpointer that writes down each record, in the specification's form (pipeline-utilities §10.2).
#[derive(Debug)]
pub(crate) struct CaseCheckpoints {
    backend: Backend,
    saves: Mutex<Vec<Value>>,
    crash: Mutex<Option<Crash>>,
    crashed: Notify,
}

fn not_built<T>() -> Outcome<T> {
    Err(Failure::build("checkpointer", "needs checkpointers, which are not built"))
}

impl CaseCheckpoints {
    /// Makes an empty one.
    #[must_use]
    pub(crate) fn new(backend: Backend) -> Self {
        Self { backend, saves: Mutex::default(), crash: Mutex::default(), crashed: Notify::new() }
    }

    /// Registers it, and migrations of its records, with a graph.
    ///
    /// # Errors
    /// When the engine has nothing of the kind.
    pub(crate) fn register(
        self: &Arc<Self>,
        builder: GraphBuilder<Snapshot>,
        migrations: Migrations,
    ) -> Outcome<GraphBuilder<Snapshot>> {
        drop((builder, migrations));
        match self.backend {
            Backend::Memory | Backend::Sqlite | Backend::Batched(_) => not_built(),
        }
    }

    /// Lets the process end at a save, as far as the run can tell: what was saved stays, and nothing goes on.
    pub(crate) fn crash_at(&self, crash: Option<Crash>) {
        *self.crash.lock().unwrap_or_else(PoisonError::into_inner) = crash;
    }

    /// Returns when the process has ended so.
    pub(crate) async fn crashed(&self) {
        self.crashed.notified().await;
    }

    fn written(&self) -> MutexGuard<'_, Vec<Value>> {
        self.saves.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns what was saved, in order.
    #[must_use]
    pub(crate) fn saves(&self) -> Vec<Value> {
        self.written().clone()
    }

    /// Returns the record of an invocation, as another process would load it.
    ///
    /// # Errors
    /// When the store fails.
    pub(crate) async fn record(&self, invocation: &str) -> Outcome<Option<Value>> {
        let saves = self.saves();
        Ok(saves.into_iter().rev().find(|it| it["invocation_id"] == *invocation))
    }

    /// Puts a record into the store, and returns the invocation that it is of.
    ///
    /// # Errors
    /// When the store fails.
    pub(crate) async fn seed(&self, record: &Seeded) -> Outcome<InvocationId> {
        drop(record.to_json("seeded", UNVERSIONED));
        not_built()
    }

    /// Changes fields of the state of a record.
    ///
    /// # Errors
    /// When there is none, or the store fails.
    pub(crate) async fn modify(&self, invocation: &InvocationId, fields: &Map<String, Value>) -> Outcome<()> {
        if fields.is_empty() {
            return Ok(());
        }
        self.record(invocation.as_str()).await?;
        not_built()
    }
}

/// Goes on from a record.
///
/// # Errors
/// When the engine has nothing of the kind; inside, what the engine says.
pub(crate) async fn resume(
    graph: &Graph<Snapshot>,
    invocation: &InvocationId,
    options: InvokeOptions,
) -> Outcome<Result<Ended<Snapshot>, Error>> {
    drop((graph, invocation, options));
    not_built()
}
