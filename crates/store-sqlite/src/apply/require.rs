//! The preconditions of a batch, looked up in the transaction that writes it.

use singletree_durable::{Counters, Fence, Require, TurnStatus, WaitStatus};

use super::{Target, fork, session};
use crate::column;
use crate::error::{Failure, refused};
use crate::meter::{Bind, Scribe};
use crate::number::packed;
use crate::word::Word;

/// Checks that the writer's fence is the store's.
pub(super) fn fence(scribe: &Scribe<'_>, fence: Fence) -> Result<(), Failure> {
    if scribe.fence == fence {
        return Ok(());
    }
    refused(format!("the fence is {} (it is {})", fence.0, scribe.fence.0))
}

/// Checks one requirement.
pub(super) fn check(scribe: &Scribe<'_>, target: &Target<'_>, require: &Require) -> Result<(), Failure> {
    match require {
        Require::SessionAbsent => absent(target),
        Require::SessionVersion(version) => at_version(target, *version),
        Require::Counters(counters) => counted(scribe, target, counters),
        Require::Turn { no, status } => turn_at(scribe, target, *no, *status),
        Require::NewestTurn(no) => newest_turn(scribe, target, *no),
        Require::KeyFree(key) => key_free(scribe, target, key),
        Require::Wait { no, status } => wait_at(scribe, target, *no, *status),
        Require::MailAbsent(signal) => mail_absent(scribe, target, signal),
        Require::Idle => idle(scribe, target),
        Require::Source { session, created_at, version } => {
            fork::source(scribe, target, (session, *created_at), *version)
        }
    }
}

fn absent(target: &Target<'_>) -> Result<(), Failure> {
    match target.id {
        None => Ok(()),
        Some(_) => refused("the session is absent (it exists)"),
    }
}

fn at_version(target: &Target<'_>, wanted: u64) -> Result<(), Failure> {
    let found = target.found.map(|found| found.version);
    if found == Some(wanted) {
        return Ok(());
    }
    refused(format!("the session is at version {wanted} (it is {})", found_is(found)))
}

fn counted(scribe: &Scribe<'_>, target: &Target<'_>, wanted: &Counters) -> Result<(), Failure> {
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

fn turn_at(scribe: &Scribe<'_>, target: &Target<'_>, no: u64, wanted: TurnStatus) -> Result<(), Failure> {
    let found = match target.id {
        None => None,
        Some(id) => {
            scribe.find("SELECT status FROM turn WHERE id = ?", &[packed(id, no)?.into()], |row| {
                column::word::<TurnStatus>(row, 0)
            })?
        }
    };
    if found == Some(wanted) {
        return Ok(());
    }
    refused(format!("turn {no} is {} (it is {})", wanted.word(), found_is(found.map(Word::word))))
}

fn newest_turn(scribe: &Scribe<'_>, target: &Target<'_>, no: u64) -> Result<(), Failure> {
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

fn wait_at(scribe: &Scribe<'_>, target: &Target<'_>, no: u64, wanted: WaitStatus) -> Result<(), Failure> {
    let found = match target.id {
        None => None,
        Some(id) => {
            scribe.find("SELECT status FROM wait WHERE id = ?", &[packed(id, no)?.into()], |row| {
                column::word::<WaitStatus>(row, 0)
            })?
        }
    };
    if found == Some(wanted) {
        return Ok(());
    }
    refused(format!("wait {no} is {} (it is {})", wanted.word(), found_is(found.map(Word::word))))
}

fn key_free(scribe: &Scribe<'_>, target: &Target<'_>, key: &str) -> Result<(), Failure> {
    let Some(id) = target.id else { return Ok(()) };
    let sql = "SELECT no FROM turn WHERE session = ? AND key = ?";
    match scribe.find(sql, &[id.into(), key.into()], |row| column::number(row, 0))? {
        None => Ok(()),
        Some(turn) => refused(format!("the idempotency key is free (turn {turn} holds it)")),
    }
}

fn mail_absent(scribe: &Scribe<'_>, target: &Target<'_>, signal: &str) -> Result<(), Failure> {
    let Some(id) = target.id else { return Ok(()) };
    let sql = "SELECT at FROM mail WHERE session = ? AND signal = ?";
    match scribe.find(sql, &[id.into(), signal.into()], |row| row.get::<_, i64>(0))? {
        None => Ok(()),
        Some(_) => refused(format!("no early signal '{signal}' is kept (one is)")),
    }
}

fn idle(scribe: &Scribe<'_>, target: &Target<'_>) -> Result<(), Failure> {
    let Some(id) = target.id else { return Ok(()) };
    let open = "SELECT no FROM turn WHERE session = ? AND status = 'accepted' LIMIT 1";
    let pending = "SELECT no FROM wait WHERE session = ? AND status = 'pending' LIMIT 1";
    for (what, sql) in [("turn", open), ("wait", pending)] {
        if let Some(no) = scribe.find(sql, &[Bind::Int(id)], |row| column::number(row, 0))? {
            return refused(format!("the session is idle ({what} {no} is not over)"));
        }
    }
    Ok(())
}

fn found_is(found: Option<impl std::fmt::Display>) -> String {
    found.map_or_else(|| "absent".to_owned(), |found| found.to_string())
}
