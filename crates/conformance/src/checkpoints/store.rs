//! The checkpointer of a case: it keeps the records of all saves, and loads them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Map, Value, json};
use singletree::Graph;
use singletree::durable::{
    BoxFuture, CheckpointFilter, CheckpointRecord, CheckpointSummary, Checkpointer, InvocationId,
    JsonDocument, Result, StateMigrations, TenantId,
};
use singletree::engine::{Error, GraphBuilder, InvokeOptions, RunOutcome as Ended, Snapshot, UNVERSIONED};
use tokio::sync::Notify;

use super::backend;
use super::record::SeededCheckpoint;
use super::spec::{CheckpointBackend, CrashPoint};
use crate::failure::{CaseFailure, Outcome};

/// One save.
#[derive(Debug, Clone)]
pub(crate) struct CheckpointSave {
    /// The record, in the specification's form.
    pub(crate) record: Value,
    /// Whether a load right after the save returned this record.
    pub(crate) at_once: bool,
}

/// A checkpointer that writes down each record, in the specification's form (pipeline-utilities §10.2), and lets the
/// process end where the fixture says.
#[derive(Debug)]
pub(crate) struct RecordingCheckpointer {
    inner: Arc<dyn Checkpointer>,
    /// The fields of the outermost graph, which a record does not name.
    outermost: Vec<String>,
    saves: Mutex<Vec<CheckpointSave>>,
    crash: Mutex<Option<CrashPoint>>,
    crashed: Notify,
    has_crashed: AtomicBool,
}

impl RecordingCheckpointer {
    /// Makes an empty one, for a graph with these fields.
    ///
    /// # Errors
    /// When the store cannot be made.
    pub(crate) async fn open_empty(backend: CheckpointBackend, outermost: Vec<String>) -> Outcome<Self> {
        Ok(Self {
            inner: backend::open_backend(backend).await?,
            outermost,
            saves: Mutex::default(),
            crash: Mutex::default(),
            crashed: Notify::new(),
            has_crashed: AtomicBool::new(false),
        })
    }

    /// Registers it, and migrations of its records, with a graph.
    #[must_use]
    pub(crate) fn register_with_graph(
        self: &Arc<Self>,
        builder: GraphBuilder<Snapshot>,
        migrations: StateMigrations,
    ) -> GraphBuilder<Snapshot> {
        builder.checkpointer(self.clone()).state_migrations(migrations)
    }

    /// Simulates the end of the process at a save, as far as the run can tell: saved records stay, and the run does
    /// not go on.
    pub(crate) fn set_crash_point(&self, crash: Option<CrashPoint>) {
        *self.crash.lock().unwrap_or_else(PoisonError::into_inner) = crash;
    }

    /// Returns when the process has ended so.
    pub(crate) async fn wait_for_crash(&self) {
        self.crashed.notified().await;
    }

    /// Tells whether the process has ended so.
    #[must_use]
    pub(crate) fn has_crashed(&self) -> bool {
        self.has_crashed.load(Ordering::Relaxed)
    }

    fn crashes_at(&self, record: &Value) -> bool {
        let crash = self.crash.lock().unwrap_or_else(PoisonError::into_inner);
        crash.as_ref().is_some_and(|crash| crash.is_reached_by(record))
    }

    fn lock_saves(&self) -> MutexGuard<'_, Vec<CheckpointSave>> {
        self.saves.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the saves, in order.
    #[must_use]
    pub(crate) fn recorded_saves(&self) -> Vec<CheckpointSave> {
        self.lock_saves().clone()
    }

    /// Forgets the earlier saves; the store keeps them.
    pub(crate) fn forget_saves(&self) {
        self.lock_saves().clear();
    }

    /// A record in the specification's form, with the fields of the outermost graph beside it.
    fn record_to_json(&self, record: &CheckpointRecord) -> std::result::Result<Value, serde_json::Error> {
        let mut shown = serde_json::to_value(record)?;
        if let Some(shown) = shown.as_object_mut() {
            // Where the engine stands is its own; the specification has no such field.
            shown.remove("cursor");
            shown.insert("outermost_fields".into(), json!(self.outermost));
        }
        Ok(shown)
    }

    /// Returns the record of an invocation, as another process would load it.
    ///
    /// # Errors
    /// When the store fails.
    pub(crate) async fn load_record_json(&self, invocation: &str) -> Outcome<Option<Value>> {
        let id = InvocationId::parse(invocation).map_err(|error| store_failure(error.to_string()))?;
        let Some(record) = self.load_record(&id).await? else { return Ok(None) };
        self.record_to_json(&record).map(Some).map_err(|error| store_failure(error.to_string()))
    }

    async fn load_record(&self, invocation: &InvocationId) -> Outcome<Option<CheckpointRecord>> {
        let loaded = self.inner.load(&TenantId::single(), invocation).await;
        loaded.map_err(|error| store_failure(error.to_string()))
    }

    async fn save_record(&self, record: &CheckpointRecord) -> Outcome<()> {
        let saved = self.inner.save(&TenantId::single(), record).await;
        saved.map_err(|error| store_failure(error.to_string()))
    }

    /// Puts a record into the store, and returns the invocation that it is of.
    ///
    /// # Errors
    /// When the store fails.
    pub(crate) async fn seed_record(&self, record: &SeededCheckpoint) -> Outcome<InvocationId> {
        let mut record = record.to_json("seeded", UNVERSIONED);
        // No fixture says when and for whom the process worked that left it.
        record["correlation_id"] = "seeded-work".into();
        record["last_saved_at"] = 0.into();
        let record: CheckpointRecord = serde_json::from_value(record)
            .map_err(|error| CaseFailure::build_error("seeded_record", error.to_string()))?;
        // Whatever the fan-outs in it: it is all that the dead process had written.
        self.save_record(&record).await?;
        match self.load_record(&record.invocation_id).await? {
            Some(_) => Ok(record.invocation_id),
            None => Err(CaseFailure::build_error("seeded_record", "the checkpointer kept it back")),
        }
    }

    /// Changes fields of the state of a record: each in the innermost of its states that has it.
    ///
    /// # Errors
    /// When there is no record, none of its states has the field, or the store fails.
    pub(crate) async fn modify_state(
        &self,
        invocation: &InvocationId,
        fields: &Map<String, Value>,
    ) -> Outcome<()> {
        if fields.is_empty() {
            return Ok(());
        }
        let no = |what: String| CaseFailure::build_error("resume_with_modified_items", what);
        let record = self.load_record(invocation).await?;
        let mut record = record.ok_or_else(|| no("there is no record".into()))?;
        for (name, value) in fields {
            let states = std::iter::once(&mut record.state).chain(record.parent_states.iter_mut().rev());
            let mut fields = states.filter_map(|state| state.get_mut(name));
            let field = fields.next().ok_or_else(|| no(format!("the record has no field '{name}'")))?;
            *field = JsonDocument::from(value);
        }
        self.save_record(&record).await
    }
}

fn store_failure(what: String) -> CaseFailure {
    CaseFailure::build_error("checkpointer", what)
}

impl Checkpointer for RecordingCheckpointer {
    fn save<'a>(&'a self, tenant: &'a TenantId, record: &'a CheckpointRecord) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            self.inner.save(tenant, record).await?;
            let at_once = self.inner.load(tenant, &record.invocation_id).await?.as_ref() == Some(record);
            let shown =
                self.record_to_json(record).unwrap_or_else(|shown| json!({"unreadable": shown.to_string()}));
            let crashes = self.crashes_at(&shown);
            self.lock_saves().push(CheckpointSave { record: shown, at_once });
            if crashes {
                self.has_crashed.store(true, Ordering::Relaxed);
                self.crashed.notify_one();
                std::future::pending::<()>().await;
            }
            Ok(())
        })
    }

    fn load<'a>(
        &'a self,
        tenant: &'a TenantId,
        invocation: &'a InvocationId,
    ) -> BoxFuture<'a, Result<Option<CheckpointRecord>>> {
        self.inner.load(tenant, invocation)
    }

    fn list<'a>(
        &'a self,
        tenant: &'a TenantId,
        filter: &'a CheckpointFilter,
    ) -> BoxFuture<'a, Result<Vec<CheckpointSummary>>> {
        self.inner.list(tenant, filter)
    }

    fn delete<'a>(&'a self, tenant: &'a TenantId, invocation: &'a InvocationId) -> BoxFuture<'a, Result<()>> {
        self.inner.delete(tenant, invocation)
    }

    fn supports_state_migration(&self) -> bool {
        self.inner.supports_state_migration()
    }
}

/// Resumes from a record; the inner result is that of the engine.
pub(crate) async fn resume_invocation(
    graph: &Graph<Snapshot>,
    invocation: &InvocationId,
    options: InvokeOptions,
) -> std::result::Result<Ended<Snapshot>, Error> {
    graph.recover(invocation, options).await
}
