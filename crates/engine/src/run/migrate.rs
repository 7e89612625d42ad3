//! Bringing a stored state to the present schema (sessions §7, pipeline-utilities §10.12).

use std::collections::BTreeMap;

use serde_json::Value;
use singletree_durable::Migrations;

use super::port::SessionState;
use crate::error::{Error, Result};
use crate::plan::slot::Slot;

/// Migrates the state of one graph of a run that was stored: a checkpoint's (pipeline-utilities §10.12.2), or a suspended
/// invocation's (R36).
///
/// # Errors
/// `checkpoint_state_migration_missing`, `…_chain_ambiguous`, `…_failed`.
pub(crate) fn migrate_state(
    state: BTreeMap<String, Value>,
    (from, to): (&str, &str),
    migrations: &Migrations,
) -> Result<BTreeMap<String, Value>> {
    let migrated = migrations.migrate(from, to, state);
    migrated.map_err(|source| Error::CheckpointMigration {
        from: from.to_owned(),
        to: to.to_owned(),
        source: source.into(),
    })
}

/// Migrates loaded session state to a version; the same version is passed through, the registry not consulted.
///
/// # Errors
/// `session_state_migration_missing`, `…_chain_ambiguous`, `…_failed`; nothing was written.
pub fn migrate_session(loaded: SessionState, to: &str, migrations: &Migrations) -> Result<SessionState> {
    if loaded.schema_version == to {
        return Ok(loaded);
    }
    let from = loaded.schema_version;
    let unreadable = |source: serde_json::Error| Error::SessionLoad { source: source.into() };
    let fields = loaded.fields.iter().map(|(name, slot)| Ok((name.as_ref().to_owned(), slot.to_json()?)));
    let state: BTreeMap<String, Value> = fields.collect::<serde_json::Result<_>>().map_err(unreadable)?;
    let migrated = migrations.migrate(&from, to, state);
    let migrated = migrated.map_err(|source| Error::SessionMigration {
        from: from.clone(),
        to: to.to_owned(),
        source: source.into(),
    })?;
    let fields = migrated.into_iter().map(|(name, value)| (name.into(), Slot::from_json(value))).collect();
    Ok(SessionState { schema_version: to.to_owned(), fields })
}
