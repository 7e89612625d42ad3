//! Migration of stored data to the present schema: a session (sessions §7), the states of a run (pipeline-utilities
//! §10.12).

use std::collections::BTreeMap;

use serde_json::Value;
use singletree_durable::StateMigrations;
use singletree_graph::{FieldContent, Fields, SessionState};

use crate::error::{Error, Result};

/// A state as migrations see it.
type State = BTreeMap<String, Value>;

/// Migrates the state of one graph of a run that was stored: a checkpoint's (pipeline-utilities §10.12.2), or a
/// suspended invocation's (R36).
///
/// # Errors
/// `checkpoint_state_migration_missing`, `…_chain_ambiguous`, `…_failed`.
pub(crate) fn migrate_state(
    state: State,
    (from, to): (&str, &str),
    migrations: &StateMigrations,
) -> Result<State> {
    let migrated = migrations.migrate(from, to, state);
    migrated.map_err(|source| Error::CheckpointMigration {
        from: from.to_owned(),
        to: to.to_owned(),
        source: source.into(),
    })
}

/// Migrates the states of a stored run, each by the same chain: the version is that of the outermost one
/// (pipeline-utilities §10.12.2). The same version is passed through, the registry not consulted.
///
/// # Errors
/// As [`migrate_state`].
pub(crate) fn migrate_frames(
    frames: Vec<Fields>,
    (from, to): (&str, &str),
    migrations: &StateMigrations,
) -> Result<Vec<Fields>> {
    if from == to {
        return Ok(frames);
    }
    let unreadable = |it| Error::Position { reason: format!("its state cannot be read: {it}") };
    let one =
        |fields| migrate_fields(fields, |state| migrate_state(state, (from, to), migrations), unreadable);
    frames.into_iter().map(one).collect()
}

/// Migrates loaded session state to a version; the same version is passed through, the registry not consulted.
///
/// # Errors
/// `session_state_migration_missing`, `…_chain_ambiguous`, `…_failed`; nothing was written.
pub fn migrate_session(loaded: SessionState, to: &str, migrations: &StateMigrations) -> Result<SessionState> {
    if loaded.schema_version == to {
        return Ok(loaded);
    }
    let from = loaded.schema_version;
    let migrate = |state| {
        let migrated = migrations.migrate(&from, to, state);
        migrated.map_err(|source| Error::SessionMigration {
            from: from.clone(),
            to: to.to_owned(),
            source: source.into(),
        })
    };
    let unreadable = |it: serde_json::Error| Error::SessionLoad { source: it.into() };
    let fields = migrate_fields(loaded.fields, migrate, unreadable)?;
    Ok(SessionState { schema_version: to.to_owned(), fields })
}

/// Migrates fields to another version. A field that the chain leaves unchanged keeps its slot: a list that nothing
/// rewrote still extends the stored list (INV-4).
fn migrate_fields(
    fields: Fields,
    migrate: impl FnOnce(State) -> Result<State>,
    unreadable: impl FnOnce(serde_json::Error) -> Error,
) -> Result<Fields> {
    let decoded = fields.iter().map(|(name, slot)| Ok((name.as_ref().to_owned(), slot.to_json()?)));
    let before: State = decoded.collect::<serde_json::Result<_>>().map_err(unreadable)?;
    let after = migrate(before.clone())?;
    let known = |name: &str| fields.iter().find(|(it, _)| it.as_ref() == name);
    let fields = after.into_iter().map(|(name, value)| match known(&name) {
        Some(field) if before.get(&name) == Some(&value) => field.clone(),
        Some(_) | None => (name.into(), FieldContent::from_json(value)),
    });
    Ok(fields.collect())
}
