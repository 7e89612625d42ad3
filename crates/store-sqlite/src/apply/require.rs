//! The preconditions of a batch, looked up in the transaction that writes it.

use singletree_durable::{BatchPrecondition, Counters, FencingToken, StoredTurnStatus, StoredWaitStatus};

use super::{TargetSession, fork, session};
use crate::column;
use crate::error::{BatchFailure, refused};
use crate::meter::{BoundValue, WriteTransaction};
use crate::number::packed;
use crate::word::ColumnKeyword;

/// Checks that the writer's fence is the store's.
pub(super) fn fence(scribe: &WriteTransaction<'_>, fence: FencingToken) -> Result<(), BatchFailure> {
    if scribe.fence == fence {
        return Ok(());
    }
    refused(format!("the fence is {} (it is {})", fence.0, scribe.fence.0))
}

/// Checks one requirement.
pub(super) fn check(
    scribe: &WriteTransaction<'_>,
    target: &TargetSession<'_>,
    require: &BatchPrecondition,
) -> Result<(), BatchFailure> {
    match require {
        BatchPrecondition::SessionAbsent => absent(target),
        BatchPrecondition::SessionVersion(version) => at_version(target, *version),
        BatchPrecondition::Counters(counters) => counted(scribe, target, counters),
        BatchPrecondition::Turn { no, status } => turn_at(scribe, target, *no, *status),
        BatchPrecondition::NewestTurn(no) => newest_turn(scribe, target, *no),
        BatchPrecondition::KeyFree(key) => key_free(scribe, target, key),
        BatchPrecondition::Wait { no, status } => wait_at(scribe, target, *no, *status),
        BatchPrecondition::MailAbsent(signal) => mail_absent(scribe, target, signal),
        BatchPrecondition::Idle => idle(scribe, target),
        BatchPrecondition::Source { session, created_at, version } => {
            fork::source(scribe, target, (session, *created_at), *version)
        }
    }
}

fn absent(target: &TargetSession<'_>) -> Result<(), BatchFailure> {
    match target.id {
        None => Ok(()),
        Some(_) => refused("the session is absent (it exists)"),
    }
}

fn at_version(target: &TargetSession<'_>, wanted: u64) -> Result<(), BatchFailure> {
    let found = target.found.map(|found| found.version);
    if found == Some(wanted) {
        return Ok(());
    }
    refused(format!("the session is at version {wanted} (it is {})", found_is(found)))
}

fn counted(
    scribe: &WriteTransaction<'_>,
    target: &TargetSession<'_>,
    wanted: &Counters,
) -> Result<(), BatchFailure> {
    let found = match target.found {
        None => session::former(scribe, target.key)?,
        Some(found) => Some(found.counters),
    };
    let found = found.unwrap_or_default();
    if found == *wanted {
        return Ok(());
    }
    refused(format!("the session's counters are {wanted:?} (they are {found:?})"))
}

fn turn_at(
    scribe: &WriteTransaction<'_>,
    target: &TargetSession<'_>,
    no: u64,
    wanted: StoredTurnStatus,
) -> Result<(), BatchFailure> {
    let found = match target.id {
        None => None,
        Some(id) => {
            scribe.find("SELECT status FROM turn WHERE id = ?", &[packed(id, no)?.into()], |row| {
                column::word::<StoredTurnStatus>(row, 0)
            })?
        }
    };
    if found == Some(wanted) {
        return Ok(());
    }
    refused(format!("turn {no} is {} (it is {})", wanted.word(), found_is(found.map(ColumnKeyword::word))))
}

fn newest_turn(
    scribe: &WriteTransaction<'_>,
    target: &TargetSession<'_>,
    no: u64,
) -> Result<(), BatchFailure> {
    let sql = "SELECT no FROM turn WHERE id >= ? << 32 AND id < (? + 1) << 32 ORDER BY id DESC LIMIT 1";
    let found = match target.id {
        None => None,
        Some(id) => scribe.find(sql, &[id.into(), id.into()], |row| column::number(row, 0))?,
    };
    if found == Some(no) {
        return Ok(());
    }
    refused(format!("turn {no} is the newest one (that is {})", found_is(found)))
}

fn wait_at(
    scribe: &WriteTransaction<'_>,
    target: &TargetSession<'_>,
    no: u64,
    wanted: StoredWaitStatus,
) -> Result<(), BatchFailure> {
    let found = match target.id {
        None => None,
        Some(id) => {
            scribe.find("SELECT status FROM wait WHERE id = ?", &[packed(id, no)?.into()], |row| {
                column::word::<StoredWaitStatus>(row, 0)
            })?
        }
    };
    if found == Some(wanted) {
        return Ok(());
    }
    refused(format!("wait {no} is {} (it is {})", wanted.word(), found_is(found.map(ColumnKeyword::word))))
}

fn key_free(
    scribe: &WriteTransaction<'_>,
    target: &TargetSession<'_>,
    key: &str,
) -> Result<(), BatchFailure> {
    let Some(id) = target.id else { return Ok(()) };
    let sql = "SELECT no FROM turn WHERE session = ? AND key = ?";
    match scribe.find(sql, &[id.into(), key.into()], |row| column::number(row, 0))? {
        None => Ok(()),
        Some(turn) => refused(format!("the idempotency key is free (turn {turn} holds it)")),
    }
}

fn mail_absent(
    scribe: &WriteTransaction<'_>,
    target: &TargetSession<'_>,
    signal: &str,
) -> Result<(), BatchFailure> {
    let Some(id) = target.id else { return Ok(()) };
    let sql = "SELECT at FROM mail WHERE session = ? AND signal = ?";
    match scribe.find(sql, &[id.into(), signal.into()], |row| row.get::<_, i64>(0))? {
        None => Ok(()),
        Some(_) => refused(format!("no early signal '{signal}' is kept (one is)")),
    }
}

fn idle(scribe: &WriteTransaction<'_>, target: &TargetSession<'_>) -> Result<(), BatchFailure> {
    let Some(id) = target.id else { return Ok(()) };
    let open = "SELECT no FROM turn WHERE session = ? AND status = 'accepted' LIMIT 1";
    let pending = "SELECT no FROM wait WHERE session = ? AND status = 'pending' LIMIT 1";
    for (what, sql) in [("turn", open), ("wait", pending)] {
        if let Some(no) = scribe.find(sql, &[BoundValue::Int(id)], |row| column::number(row, 0))? {
            return refused(format!("the session is idle ({what} {no} is not over)"));
        }
    }
    Ok(())
}

fn found_is(found: Option<impl std::fmt::Display>) -> String {
    found.map_or_else(|| "absent".to_owned(), |found| found.to_string())
}
