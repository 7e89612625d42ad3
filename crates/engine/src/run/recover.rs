//! The specifications' checkpointer behind the port: saving, and loading for a resume (pipeline-utilities §10.4,
//! §10.12).

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use singletree_durable::{
    CheckpointRecord, CheckpointState, Checkpointer, Error as StoreError, InvocationId, JsonDocument,
    StateMigrations, Timestamp,
};
use singletree_graph::{Identity, RunCheckpoint};

use super::migrate::migrate_state;
use super::port::RunEntry;
use super::record;
use super::restore;
use super::stores::StorePort;
use crate::error::{Error, Result};

/// The record of an invocation, while it is brought to the present graph.
struct LoadedCheckpoint<'a> {
    invocation: &'a InvocationId,
    record: CheckpointRecord,
}

impl LoadedCheckpoint<'_> {
    fn invalid_record_error(&self, reason: impl Into<String>) -> Error {
        invalid_checkpoint_error(self.invocation, reason)
    }
}

fn invalid_checkpoint_error(invocation: &InvocationId, reason: impl Into<String>) -> Error {
    Error::CheckpointRecord { invocation: invocation.to_string(), reason: reason.into(), source: None }
}

impl StorePort {
    /// Saves where the run stands.
    pub(crate) async fn write_checkpoint(&self, checkpoint: &RunCheckpoint) -> Result<Timestamp> {
        let stores = &self.core.stores;
        let Some(checkpointer) = &stores.checkpoints else { return Ok(checkpoint.at) };
        let at = {
            let mut memory = self.lock_port_state();
            // Clocks are set back sometimes.
            let at = memory.last_saved_at.map_or(checkpoint.at, |saved_at| saved_at.max(checkpoint.at));
            memory.last_saved_at = Some(at);
            at
        };
        let record = record::make_checkpoint_record(&self.core, checkpoint, at);
        let record = record.map_err(|source| Error::Record { source: source.into() })?;
        let saved = checkpointer.save(&stores.tenant, &record).await;
        saved.map(|()| at).map_err(|source| Error::Record { source: source.into() })
    }

    /// Loads the record of an invocation and brings it to the present graph.
    pub(crate) async fn load_checkpoint_entry(&self, invocation: &InvocationId) -> Result<RunEntry> {
        let missing = || Error::CheckpointNotFound { invocation: invocation.to_string() };
        let stores = &self.core.stores;
        let checkpointer = stores.checkpoints.as_ref().ok_or_else(missing)?;
        let record = match checkpointer.load(&stores.tenant, invocation).await {
            Ok(record) => record.ok_or_else(missing)?,
            Err(error @ (StoreError::Corrupt { .. } | StoreError::Format { .. })) => {
                let (invocation, reason) = (invocation.to_string(), "it cannot be read".into());
                return Err(Error::CheckpointRecord { invocation, reason, source: Some(error.into()) });
            }
            Err(error) => return Err(Error::CheckpointLoad { source: error.into() }),
        };
        let mut loaded = LoadedCheckpoint { invocation, record };
        let session = match (&loaded.record.session_id, &self.asked) {
            (Some(its), Some(asked)) if its != asked => {
                return Err(Error::Argument { what: "the invocation belongs to another session".into() });
            }
            (its, asked) => its.clone().or_else(|| asked.clone()),
        };
        migrate_checkpoint(
            &mut loaded,
            self.core.topology.schema.version(),
            (checkpointer, &stores.state_migrations),
        )?;
        let mut standing = record::stored_run_from_record(&self.core, &loaded.record)
            .map_err(|reason| loaded.invalid_record_error(reason))?;
        let checked = restore::check_stored_states(&self.core, &standing);
        checked.and_then(|()| restore::check_fits_graph(&self.core, &standing)).map_err(|source| {
            let (invocation, reason) = (invocation.to_string(), "it does not fit the graph".into());
            Error::CheckpointRecord { invocation, reason, source: Some(source.into()) }
        })?;
        let fresh = self.core.env.ids.generate_uuid();
        let fresh =
            InvocationId::parse(&fresh).map_err(|error| Error::Argument { what: error.to_string() })?;
        standing.identity = Some(Identity {
            invocation_id: fresh,
            correlation_id: loaded.record.correlation_id.clone(),
            session_id: session.clone(),
        });
        self.lock_port_state().session = session;
        self.remember_session().await?;
        let mut memory = self.lock_port_state();
        memory.last_saved_at = Some(loaded.record.last_saved_at);
        drop(memory);
        Ok(RunEntry::Standing(standing))
    }
}

/// Brings the states of a record to the present version; where it has that version, the registry is not consulted
/// (§10.12.3).
fn migrate_checkpoint(
    loaded: &mut LoadedCheckpoint<'_>,
    to: &str,
    (checkpointer, migrations): (&Arc<dyn Checkpointer>, &StateMigrations),
) -> Result<()> {
    let from = loaded.record.schema_version.clone();
    if from == to {
        return Ok(());
    }
    if !checkpointer.supports_state_migration() && migrations.count_registered() > 0 {
        let reason = format!(
            "its state is of version '{from}', the graph's is '{to}', and the checkpointer cannot show states to migrations"
        );
        return Err(loaded.invalid_record_error(reason));
    }
    let invocation = loaded.invocation;
    let one = |state: &CheckpointState| -> Result<CheckpointState> {
        let decoded = state.iter().map(|(name, json)| Ok((name.clone(), json.decode::<Value>()?)));
        let decoded: serde_json::Result<BTreeMap<_, _>> = decoded.collect();
        let decoded = decoded.map_err(|error| {
            invalid_checkpoint_error(invocation, format!("its state is damaged: {error}"))
        })?;
        let migrated = migrate_state(decoded, (&from, to), migrations)?;
        Ok(migrated.iter().map(|(name, value)| (name.clone(), JsonDocument::from(value))).collect())
    };
    let record = &mut loaded.record;
    record.state = one(&record.state)?;
    record.parent_states = record.parent_states.iter().map(one).collect::<Result<_>>()?;
    to.clone_into(&mut record.schema_version);
    Ok(())
}
