//! The preconditions of a batch, looked up in the transaction that writes it.

use singletree_durable::{BatchPrecondition, Counters, StoredTurnStatus, StoredWaitStatus};

use super::{TargetSession, fork, session};
use crate::column;
use crate::error::{BatchFailure, refuse_batch};
use crate::meter::{BoundValue, WriteTransaction};
use crate::number::pack_row_key;
use crate::word::ColumnKeyword;

/// Checks one requirement.
pub(super) fn check_requirement(
    scribe: &WriteTransaction<'_>,
    target: &TargetSession<'_>,
    require: &BatchPrecondition,
) -> Result<(), BatchFailure> {
    match require {
        BatchPrecondition::SessionAbsent => check_session_absent(target),
        BatchPrecondition::SessionVersion(version) => check_session_version(target, *version),
        BatchPrecondition::Counters(counters) => check_counters(scribe, target, counters),
        BatchPrecondition::Turn { no, status } => check_turn_status(scribe, target, *no, *status),
        BatchPrecondition::NewestTurn(no) => check_newest_turn(scribe, target, *no),
        BatchPrecondition::KeyFree(key) => check_key_free(scribe, target, key),
        BatchPrecondition::Wait { no, status } => check_wait_status(scribe, target, *no, *status),
        BatchPrecondition::MailAbsent(signal) => check_signal_absent(scribe, target, signal),
        BatchPrecondition::Idle => check_session_idle(scribe, target),
        BatchPrecondition::Source { session, created_at, version } => {
            fork::check_source_session(scribe, target, (session, *created_at), *version)
        }
    }
}

fn check_session_absent(target: &TargetSession<'_>) -> Result<(), BatchFailure> {
    match target.id {
        None => Ok(()),
        Some(_) => refuse_batch("the session is absent (it exists)"),
    }
}

fn check_session_version(target: &TargetSession<'_>, wanted: u64) -> Result<(), BatchFailure> {
    let found = target.found.map(|found| found.version);
    if found == Some(wanted) {
        return Ok(());
    }
    refuse_batch(format!("the session is at version {wanted} (it is {})", describe_found(found)))
}

fn check_counters(
    scribe: &WriteTransaction<'_>,
    target: &TargetSession<'_>,
    wanted: &Counters,
) -> Result<(), BatchFailure> {
    let found = match target.found {
        None => session::find_former_counters(scribe, target.key)?,
        Some(found) => Some(found.counters),
    };
    let found = found.unwrap_or_default();
    if found == *wanted {
        return Ok(());
    }
    refuse_batch(format!("the session's counters are {wanted:?} (they are {found:?})"))
}

fn check_turn_status(
    scribe: &WriteTransaction<'_>,
    target: &TargetSession<'_>,
    no: u64,
    wanted: StoredTurnStatus,
) -> Result<(), BatchFailure> {
    let found = match target.id {
        None => None,
        Some(id) => scribe.query_one_row(
            "SELECT status FROM turn WHERE id = ?",
            &[pack_row_key(id, no)?.into()],
            |row| column::read_keyword::<StoredTurnStatus>(row, 0),
        )?,
    };
    if found == Some(wanted) {
        return Ok(());
    }
    refuse_batch(format!(
        "turn {no} is {} (it is {})",
        wanted.to_keyword(),
        describe_found(found.map(ColumnKeyword::to_keyword))
    ))
}

fn check_newest_turn(
    scribe: &WriteTransaction<'_>,
    target: &TargetSession<'_>,
    no: u64,
) -> Result<(), BatchFailure> {
    let sql = "SELECT no FROM turn WHERE id >= ? << 32 AND id < (? + 1) << 32 ORDER BY id DESC LIMIT 1";
    let found = match target.id {
        None => None,
        Some(id) => scribe.query_one_row(sql, &[id.into(), id.into()], |row| column::read_number(row, 0))?,
    };
    if found == Some(no) {
        return Ok(());
    }
    refuse_batch(format!("turn {no} is the newest one (that is {})", describe_found(found)))
}

fn check_wait_status(
    scribe: &WriteTransaction<'_>,
    target: &TargetSession<'_>,
    no: u64,
    wanted: StoredWaitStatus,
) -> Result<(), BatchFailure> {
    let found = match target.id {
        None => None,
        Some(id) => scribe.query_one_row(
            "SELECT status FROM wait WHERE id = ?",
            &[pack_row_key(id, no)?.into()],
            |row| column::read_keyword::<StoredWaitStatus>(row, 0),
        )?,
    };
    if found == Some(wanted) {
        return Ok(());
    }
    refuse_batch(format!(
        "wait {no} is {} (it is {})",
        wanted.to_keyword(),
        describe_found(found.map(ColumnKeyword::to_keyword))
    ))
}

fn check_key_free(
    scribe: &WriteTransaction<'_>,
    target: &TargetSession<'_>,
    key: &str,
) -> Result<(), BatchFailure> {
    let Some(id) = target.id else { return Ok(()) };
    let sql = "SELECT no FROM turn WHERE session = ? AND key = ?";
    match scribe.query_one_row(sql, &[id.into(), key.into()], |row| column::read_number(row, 0))? {
        None => Ok(()),
        Some(turn) => refuse_batch(format!("the idempotency key is free (turn {turn} holds it)")),
    }
}

fn check_signal_absent(
    scribe: &WriteTransaction<'_>,
    target: &TargetSession<'_>,
    signal: &str,
) -> Result<(), BatchFailure> {
    let Some(id) = target.id else { return Ok(()) };
    let sql = "SELECT at FROM mail WHERE session = ? AND signal = ?";
    match scribe.query_one_row(sql, &[id.into(), signal.into()], |row| row.get::<_, i64>(0))? {
        None => Ok(()),
        Some(_) => refuse_batch(format!("no early signal '{signal}' is kept (one is)")),
    }
}

fn check_session_idle(scribe: &WriteTransaction<'_>, target: &TargetSession<'_>) -> Result<(), BatchFailure> {
    let Some(id) = target.id else { return Ok(()) };
    let open = "SELECT no FROM turn WHERE session = ? AND status = 'accepted' LIMIT 1";
    let pending = "SELECT no FROM wait WHERE session = ? AND status = 'pending' LIMIT 1";
    for (what, sql) in [("turn", open), ("wait", pending)] {
        if let Some(no) =
            scribe.query_one_row(sql, &[BoundValue::Int(id)], |row| column::read_number(row, 0))?
        {
            return refuse_batch(format!("the session is idle ({what} {no} is not over)"));
        }
    }
    Ok(())
}

fn describe_found(found: Option<impl std::fmt::Display>) -> String {
    found.map_or_else(|| "absent".to_owned(), |found| found.to_string())
}
