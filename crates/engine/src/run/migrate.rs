//! Bringing what is stored to the present schema: a session (sessions §7), the states of a run (pipeline-utilities §10.12).

use std::collections::BTreeMap;

use serde_json::Value;
use singletree_durable::{MigrationError, Migrations};

use super::port::{Fields, SessionState};
use crate::error::{Error, Result};
use crate::plan::slot::Slot;

/// Why a state could not be brought to another version.
enum Failure {
    /// It is no JSON.
    Unreadable(serde_json::Error),
    /// The registry has no way, or more than one, or it failed.
    Migration(MigrationError),
}

/// Brings a state to another version. A field that the chain leaves as it was keeps its slot: a list that nothing rewrote
/// still extends what is stored (INV-4).
fn migrate(
    fields: Fields,
    (from, to): (&str, &str),
    migrations: &Migrations,
) -> std::result::Result<Fields, Failure> {
    let decoded = fields.iter().map(|(name, slot)| Ok((name.as_ref().to_owned(), slot.to_json()?)));
    let before: BTreeMap<String, Value> =
        decoded.collect::<serde_json::Result<_>>().map_err(Failure::Unreadable)?;
    let after = migrations.migrate(from, to, before.clone()).map_err(Failure::Migration)?;
    let kept = |name: &str| fields.iter().find(|(it, _)| it.as_ref() == name);
    let migrated = after.into_iter().map(|(name, value)| match kept(&name) {
        Some(field) if before.get(&name) == Some(&value) => field.clone(),
        Some(_) | None => (name.into(), Slot::from_json(value)),
    });
    Ok(migrated.collect())
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
    let fields = migrate(loaded.fields, (&from, to), migrations).map_err(|failure| match failure {
        Failure::Unreadable(source) => Error::SessionLoad { source: source.into() },
        Failure::Migration(source) => {
            Error::SessionMigration { from: from.clone(), to: to.to_owned(), source: source.into() }
        }
    })?;
    Ok(SessionState { schema_version: to.to_owned(), fields })
}

/// Migrates the states of a stored run, each by the same chain: the version is that of the outermost one
/// (pipeline-utilities §10.12.2). The same version is passed through, the registry not consulted.
///
/// # Errors
/// `checkpoint_state_migration_missing`, `…_chain_ambiguous`, `…_failed`.
pub(crate) fn migrate_frames(
    frames: Vec<Fields>,
    (from, to): (&str, &str),
    migrations: &Migrations,
) -> Result<Vec<Fields>> {
    if from == to {
        return Ok(frames);
    }
    let one = |fields| {
        migrate(fields, (from, to), migrations).map_err(|failure| match failure {
            Failure::Unreadable(it) => Error::Position { reason: format!("its state cannot be read: {it}") },
            Failure::Migration(source) => {
                Error::CheckpointMigration { from: from.to_owned(), to: to.to_owned(), source: source.into() }
            }
        })
    };
    frames.into_iter().map(one).collect()
}
