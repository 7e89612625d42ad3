//! The port over the specifications' stores: session first, paused record second, and back if that fails.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use singletree_durable::{
    BoxError, BoxFuture, Checkpointer, Error as StoreError, ExpectedVersion, InvocationId, JsonDocument,
    PausedRecord, PausedStatus, PausedStore, PositionHistory, RecordVersion, SessionId, SessionKey,
    SessionRecord, SessionStore, StateMigrations, TenantId, Timestamp,
};
use singletree_graph::{
    Descriptor, FieldContent, GraphCursor, Identity, Item, PausedRun, RunCheckpoint, RunProgress,
    SessionState, StoredRun,
};

use super::graph::GraphCore;
use super::migrate::migrate_session;
use super::port::{PersistencePort, RunEnding, RunEntry};
use super::restore;
use crate::error::{Error, Result};

/// The stores that a graph was compiled with.
pub(crate) struct GraphStores {
    pub(crate) sessions: Option<Arc<dyn SessionStore>>,
    pub(crate) paused: Arc<dyn PausedStore>,
    pub(crate) tenant: TenantId,
    pub(crate) migrations: Arc<StateMigrations>,
    pub(crate) checkpoints: Option<Arc<dyn Checkpointer>>,
    /// Whether observers are told of saves.
    pub(crate) checkpoint_events: bool,
    /// Those of checkpoints and of suspended invocations.
    pub(crate) state_migrations: Arc<StateMigrations>,
}

/// The stored record of a suspended invocation.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PausedBody {
    invocation_id: InvocationId,
    correlation_id: String,
    session_id: Option<SessionId>,
    /// The version of the session that was saved with the suspension (D1).
    session_version: Option<RecordVersion>,
    schema_version: String,
    descriptor: Descriptor,
    mark_node_completed: bool,
    node_name: String,
    namespace: Vec<String>,
    cursor: GraphCursor,
    frames: Vec<BTreeMap<String, Value>>,
    suspended_at: Timestamp,
    /// The node executions that the run has completed, where checkpoints are kept.
    #[serde(default, skip_serializing_if = "PositionHistory::is_empty")]
    completed_positions: PositionHistory,
}

/// The data that the port keeps between its calls.
#[derive(Default)]
pub(crate) struct StorePortState {
    /// The session as this run last knew it, to put it back when a suspension fails half-way.
    known: Option<(SessionRecord, RecordVersion)>,
    claimed: bool,
    pub(crate) session: Option<SessionId>,
    /// When the run was last saved as a checkpoint.
    pub(crate) last_saved_at: Option<Timestamp>,
}

/// The record that a run goes on with.
#[derive(Debug)]
enum RunOrigin {
    /// Nothing: it is new.
    New,
    /// A suspended invocation.
    Paused(InvocationId),
    /// The checkpoint of an invocation.
    Checkpoint(InvocationId),
}

/// Keeps one run over the specifications' stores.
pub(crate) struct StorePort {
    pub(crate) core: Arc<GraphCore>,
    origin: RunOrigin,
    pub(crate) asked: Option<SessionId>,
    memory: Mutex<StorePortState>,
}

impl std::fmt::Debug for StorePort {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StorePort").field("origin", &self.origin).finish_non_exhaustive()
    }
}

fn session_load_error(source: impl Into<BoxError>) -> Error {
    Error::SessionLoad { source: source.into() }
}

fn session_save_error(source: StoreError) -> Error {
    match source {
        StoreError::Conflict { .. } => Error::SessionConflict { source: source.into() },
        source => Error::SessionSave { source: source.into(), completed: None },
    }
}

fn suspension_save_error(source: impl Into<BoxError>) -> Error {
    Error::SuspensionPersistence { source: source.into() }
}

impl StorePort {
    pub(crate) fn for_new_run(core: &Arc<GraphCore>, session: Option<SessionId>) -> Self {
        let memory = StorePortState { session: session.clone(), ..StorePortState::default() };
        Self { core: core.clone(), origin: RunOrigin::New, asked: session, memory: Mutex::new(memory) }
    }

    pub(crate) fn for_paused_run(
        core: &Arc<GraphCore>,
        invocation: InvocationId,
        session: Option<SessionId>,
    ) -> Self {
        Self {
            core: core.clone(),
            origin: RunOrigin::Paused(invocation),
            asked: session,
            memory: Mutex::default(),
        }
    }

    pub(crate) fn for_checkpoint(
        core: &Arc<GraphCore>,
        invocation: InvocationId,
        session: Option<SessionId>,
    ) -> Self {
        Self {
            core: core.clone(),
            origin: RunOrigin::Checkpoint(invocation),
            asked: session,
            memory: Mutex::default(),
        }
    }

    pub(crate) fn lock_port_state(&self) -> std::sync::MutexGuard<'_, StorePortState> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn find_session_store(&self) -> Option<(&Arc<dyn SessionStore>, SessionKey)> {
        let session = self.lock_port_state().session.clone()?;
        let stores = &self.core.stores;
        let store = stores.sessions.as_ref()?;
        Some((store, SessionKey::new(stores.tenant.clone(), session)))
    }

    async fn load_session(&self) -> Result<Option<SessionState>> {
        let Some((store, key)) = self.find_session_store() else { return Ok(None) };
        let Some((record, version)) = store.load(&key).await.map_err(session_load_error)? else {
            return Ok(None);
        };
        let fields = record
            .state
            .iter()
            .map(|(name, json)| Ok((name.as_str().into(), FieldContent::from_json(json.decode()?))));
        let fields = fields.collect::<serde_json::Result<_>>().map_err(session_load_error)?;
        let loaded = SessionState { schema_version: record.schema_version.clone(), fields };
        let to = &self.core.topology.session.version;
        let migrated = migrate_session(loaded, to, &self.core.stores.migrations)?;
        self.core.check_session_state(&migrated)?;
        self.lock_port_state().known = Some((record, version));
        Ok(Some(migrated))
    }

    /// Saves the session; returns the stored record and its version, if there is a session.
    async fn write_session(
        &self,
        session: SessionState,
    ) -> Result<Option<(SessionRecord, RecordVersion)>, StoreError> {
        let Some((store, key)) = self.find_session_store() else { return Ok(None) };
        let corrupt = |source: serde_json::Error| StoreError::Corrupt {
            what: "a state that JSON cannot represent".into(),
            source: Some(source.into()),
        };
        let fields = session
            .fields
            .into_iter()
            .map(|(name, slot)| Ok((name.as_ref().to_owned(), encode_content(&slot)?)));
        let state = fields.collect::<serde_json::Result<_>>().map_err(corrupt)?;
        let updated_at = self.core.env.clock.now();
        let record = SessionRecord { schema_version: session.schema_version, state, updated_at };
        let version = store.save(&key, &record, ExpectedVersion::Any).await?;
        Ok(Some((record, version)))
    }

    /// Puts the session back as it was before a suspension that could not be recorded whole (suspension §8.6), unless
    /// somebody else wrote it in between.
    async fn restore_session(&self, saved: RecordVersion) -> Result<(), StoreError> {
        let Some((store, key)) = self.find_session_store() else { return Ok(()) };
        let known = self.lock_port_state().known.clone();
        let Some((record, _)) = known else { return store.delete(&key).await };
        match store.save(&key, &record, ExpectedVersion::Exactly(saved)).await {
            Ok(version) => {
                self.lock_port_state().known = Some((record, version));
                Ok(())
            }
            Err(StoreError::Conflict { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    async fn load_paused_entry(&self, invocation: &InvocationId) -> Result<RunEntry> {
        let invalid = |reason: &str| Error::SuspensionRecord {
            invocation: invocation.to_string(),
            reason: reason.into(),
        };
        let stores = &self.core.stores;
        let record = stores.paused.load(&stores.tenant, invocation).await.map_err(suspension_save_error)?;
        let record = record.ok_or_else(|| invalid("it is not known"))?;
        if record.status != PausedStatus::Suspended {
            return Err(invalid(&format!("it is not suspended but {:?}", record.status).to_lowercase()));
        }
        let body: PausedBody =
            record.body.decode().map_err(|error| invalid(&format!("its record is damaged: {error}")))?;
        if self.asked.is_some() && self.asked != body.session_id {
            return Err(Error::Argument { what: "the invocation belongs to another session".into() });
        }
        self.lock_port_state().session.clone_from(&body.session_id);
        self.check_session_version(body.session_version).await?;
        let fields = |frame: BTreeMap<String, Value>| {
            frame.into_iter().map(|(name, value)| (name.into(), FieldContent::from_json(value))).collect()
        };
        let standing = StoredRun {
            identity: Some(Identity {
                invocation_id: body.invocation_id,
                correlation_id: body.correlation_id,
                session_id: body.session_id,
            }),
            cursor: body.cursor,
            frames: body.frames.into_iter().map(fields).collect(),
            records: BTreeMap::new(),
            containers: Vec::new(),
            completed: body.completed_positions,
        };
        // A pause may outlast the schema that it was made under (R36).
        let standing =
            self.core.migrate_stored_run(standing, &body.schema_version, &stores.state_migrations)?;
        restore::check_stored_states(&self.core, &standing)?;
        Ok(RunEntry::Standing(standing))
    }

    /// Looks at the session without taking it over: a suspension that fails half-way has to put it back (suspension
    /// §8.6).
    pub(crate) async fn remember_session(&self) -> Result<()> {
        let Some((store, key)) = self.find_session_store() else { return Ok(()) };
        let known = store.load(&key).await.map_err(session_load_error)?;
        self.lock_port_state().known = known;
        Ok(())
    }

    /// Refuses to resume over a session that somebody wrote since (D1).
    async fn check_session_version(&self, expected: Option<RecordVersion>) -> Result<()> {
        let (Some((store, key)), Some(expected)) = (self.find_session_store(), expected) else {
            return Ok(());
        };
        let loaded = store.load(&key).await.map_err(session_load_error)?;
        let found = loaded.as_ref().map(|(_, version)| *version);
        self.lock_port_state().known = loaded;
        if found == Some(expected) {
            return Ok(());
        }
        let conflict = StoreError::Conflict { key, expected: ExpectedVersion::Exactly(expected), found };
        Err(Error::SessionConflict { source: conflict.into() })
    }

    async fn write_suspension(&self, paused: &PausedRun, session: Option<SessionState>) -> Result<()> {
        let saved = match session {
            Some(session) => self.write_session(session).await.map_err(suspension_save_error)?,
            None => None,
        };
        let version = saved.as_ref().map(|(_, version)| *version);
        match (self.write_paused_run(paused, version).await, version) {
            (Ok(()), _) => Ok(()),
            (Err(error), version) => {
                // The write may have landed although it failed: nobody may resume a run that goes on.
                let invocation = &paused.identity.invocation_id;
                drop(self.set_paused_status(invocation, PausedStatus::Errored).await);
                if let Some(version) = version {
                    self.restore_session(version).await.map_err(suspension_save_error)?;
                }
                Err(error)
            }
        }
    }

    async fn write_paused_run(
        &self,
        paused: &PausedRun,
        session_version: Option<RecordVersion>,
    ) -> Result<()> {
        let RunProgress { cursor, frames, containers: _ } = &paused.progress;
        let frames = frames.iter().map(|frame| frame.to_json().map(|json| json.into_iter().collect()));
        let body = PausedBody {
            invocation_id: paused.identity.invocation_id.clone(),
            correlation_id: paused.identity.correlation_id.clone(),
            session_id: paused.identity.session_id.clone(),
            session_version,
            schema_version: self.core.topology.schema.version().to_owned(),
            descriptor: paused.descriptor.clone(),
            mark_node_completed: paused.mark_node_completed,
            node_name: paused.node_name.as_ref().to_owned(),
            namespace: paused.namespace.iter().map(|it| it.as_ref().to_owned()).collect(),
            cursor: cursor.clone(),
            frames: frames.collect::<serde_json::Result<_>>().map_err(suspension_save_error)?,
            suspended_at: self.core.env.clock.now(),
            completed_positions: paused.completed.clone(),
        };
        let record = PausedRecord {
            status: PausedStatus::Suspended,
            body: JsonDocument::from_serializable(&body).map_err(suspension_save_error)?,
        };
        let stores = &self.core.stores;
        stores.paused.save(&stores.tenant, &body.invocation_id, &record).await.map_err(suspension_save_error)
    }

    async fn set_paused_status(
        &self,
        invocation: &InvocationId,
        status: PausedStatus,
    ) -> Result<(), StoreError> {
        let stores = &self.core.stores;
        stores.paused.close(&stores.tenant, invocation, status).await
    }

    /// Sets the status of the record that this run resumed.
    ///
    /// A failure is not passed on: the record stays as claimed, which nobody can resume either, and how the run ended
    /// matters more.
    async fn close_paused_run(&self, status: PausedStatus) {
        if let RunOrigin::Paused(invocation) = &self.origin
            && self.lock_port_state().claimed
        {
            drop(self.set_paused_status(invocation, status).await);
        }
    }
}

/// Encodes a value; the elements of a list keep their texts.
pub(crate) fn encode_content(slot: &FieldContent) -> serde_json::Result<JsonDocument> {
    let FieldContent::Many(list) = slot else { return JsonDocument::from_serializable(&slot.to_json()?) };
    let mut text = String::from("[");
    for (at, item) in list.iter().enumerate() {
        if at > 0 {
            text.push(',');
        }
        text.push_str(item.json_text()?);
    }
    text.push(']');
    Ok(JsonDocument::from_text(text))
}

impl PersistencePort for StorePort {
    fn keeps_steps(&self) -> bool {
        false
    }

    fn load_entry(&self) -> BoxFuture<'_, Result<RunEntry>> {
        Box::pin(async {
            match &self.origin {
                RunOrigin::New => self.load_session().await.map(RunEntry::Fresh),
                RunOrigin::Paused(invocation) => self.load_paused_entry(invocation).await,
                RunOrigin::Checkpoint(invocation) => self.load_checkpoint_entry(invocation).await,
            }
        })
    }

    fn claim_suspended_run(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async {
            let RunOrigin::Paused(invocation) = &self.origin else { return Ok(()) };
            let stores = &self.core.stores;
            let claimed =
                stores.paused.claim(&stores.tenant, invocation).await.map_err(suspension_save_error)?;
            self.lock_port_state().claimed = claimed.is_some();
            claimed.map(drop).ok_or_else(|| Error::SuspensionRecord {
                invocation: invocation.to_string(),
                reason: "another resume was quicker".into(),
            })
        })
    }

    fn save_session(&self, session: SessionState) -> BoxFuture<'_, Result<()>> {
        Box::pin(async {
            let saved = self.write_session(session).await.map_err(session_save_error)?;
            self.lock_port_state().known = saved;
            Ok(())
        })
    }

    fn keeps_checkpoints(&self) -> bool {
        self.core.stores.checkpoints.is_some()
    }

    fn checkpoint_backend(&self) -> Option<&str> {
        let stores = &self.core.stores;
        stores
            .checkpoints
            .as_ref()
            .filter(|_| stores.checkpoint_events)
            .map(|checkpoints| checkpoints.backend_name())
    }

    fn save_checkpoint(&self, checkpoint: RunCheckpoint) -> BoxFuture<'_, Result<Timestamp>> {
        Box::pin(async move { self.write_checkpoint(&checkpoint).await })
    }

    fn record_step(&self, _progress: RunProgress) -> BoxFuture<'_, Result<()>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn record_fact<'a>(&'a self, _name: &'a str, _fact: Item) -> BoxFuture<'a, Result<()>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn record_ending<'a>(&'a self, ending: RunEnding<'a>) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            match ending {
                RunEnding::Completed { session, .. } => {
                    let saved = match session {
                        Some(session) => {
                            self.write_session(session).await.map(drop).map_err(session_save_error)
                        }
                        None => Ok(()),
                    };
                    self.close_paused_run(PausedStatus::Completed).await;
                    saved
                }
                RunEnding::Suspended { paused, session } => self.write_suspension(paused, session).await,
                RunEnding::Errored { .. } => {
                    self.close_paused_run(PausedStatus::Errored).await;
                    Ok(())
                }
            }
        })
    }
}
