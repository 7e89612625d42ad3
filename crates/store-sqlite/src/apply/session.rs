//! Puts of the session itself: head, counters, fields, and its end.

use singletree_durable::{Counters, FieldRow, FieldValue, SessionHead, SessionKey, SubjectId};

use super::{PersistedSession, TargetSession, document, usage};
use crate::checksum;
use crate::column;
use crate::error::{BatchFailure, refuse_batch};
use crate::meter::{BoundValue, WriteTransaction};
use crate::number::{SESSIONS, session_key_range, to_stored_number, to_stored_optional};
use crate::usual;

/// Finds the integer id of a session. Every write begins here, so that the tenant is part of every key (INV-14).
pub(super) fn find_session_id(
    scribe: &WriteTransaction<'_>,
    key: &SessionKey,
) -> Result<Option<i64>, BatchFailure> {
    let sql = "SELECT id FROM session WHERE tenant = ? AND session = ?";
    scribe.query_one_row(sql, &[key.tenant.as_str().into(), key.session.as_str().into()], |row| row.get(0))
}

/// Finds a session with the values that preconditions of batches compare.
pub(super) fn find_session(
    scribe: &WriteTransaction<'_>,
    key: &SessionKey,
) -> Result<Option<PersistedSession>, BatchFailure> {
    let sql = "SELECT id, version, next_turn, next_item, next_event, next_wait FROM session \
        WHERE tenant = ? AND session = ?";
    scribe.query_one_row(sql, &[key.tenant.as_str().into(), key.session.as_str().into()], |row| {
        let (version, counters) = (column::read_number(row, 1)?, column::read_counters(row, 2)?);
        Ok(PersistedSession { id: row.get(0)?, version, counters })
    })
}

/// Finds the integer id of a text that stands in many rows, or gives it one.
pub(super) fn find_or_add_name(scribe: &WriteTransaction<'_>, text: &str) -> Result<i64, BatchFailure> {
    if let Some(id) = scribe.names.find_name_id(text) {
        return Ok(id);
    }
    let id = find_or_add_name_in_file(scribe, text)?;
    scribe.names.remember_name_id(text, id);
    Ok(id)
}

fn find_or_add_name_in_file(scribe: &WriteTransaction<'_>, text: &str) -> Result<i64, BatchFailure> {
    let found =
        scribe.query_one_row("SELECT id FROM name WHERE text = ?", &[text.into()], |row| row.get(0))?;
    if let Some(id) = found {
        return Ok(id);
    }
    scribe.execute_write("INSERT INTO name (text) VALUES (?)", &[text.into()])?;
    Ok(scribe.last_added_rowid())
}

/// Makes the session, or replaces its head, and returns its id.
pub(super) fn put_session_head(
    scribe: &WriteTransaction<'_>,
    target: &mut TargetSession<'_>,
    head: &SessionHead,
) -> Result<i64, BatchFailure> {
    let schema = usual::shorten_usual(&head.schema_version, usual::SCHEMA);
    let policy = usual::shorten_usual(&head.prompt_policy, usual::POLICY);
    let values: [BoundValue<'_>; 10] = [
        find_or_add_name(scribe, &head.agent)?.into(),
        find_or_add_name(scribe, &head.graph)?.into(),
        schema.as_ref().into(),
        to_stored_number(head.version)?.into(),
        policy.as_ref().into(),
        head.parent.as_ref().map(|parent| parent.session.as_str()).into(),
        to_stored_optional(head.parent.as_ref().map(|parent| parent.offset))?.into(),
        head.subject.as_ref().map(SubjectId::as_str).into(),
        head.created_at.into(),
        head.updated_at.into(),
    ];
    let [a, b, c, d, e, f, g, h, i, s] = values;
    let sum = checksum::checksum_of_parts(&[&values]);
    if let Some(id) = target.id {
        match target.upcoming_counters() {
            Some(counters) => {
                let [j, k, l, m] = bind_counters(&counters)?;
                scribe.execute_write(
                    UPDATE_BOTH,
                    &[a, b, c, d, e, f, g, h, i, s, sum, j, k, l, m, id.into()],
                )?;
                target.counted = true;
            }
            None => drop(scribe.execute_write(UPDATE, &[a, b, c, d, e, f, g, h, i, s, sum, id.into()])?),
        }
        return Ok(id);
    }
    let (tenant, session) = (target.key.tenant.as_str(), target.key.session.as_str());
    let coming = target.upcoming_counters();
    let [j, k, l, m] = bind_counters(&coming.unwrap_or_default())?;
    scribe.execute_write(
        INSERT,
        &[a, b, c, d, e, f, g, h, i, s, sum, j, k, l, m, tenant.into(), session.into()],
    )?;
    let id = scribe.last_added_rowid();
    if id >= SESSIONS {
        return refuse_batch(format!("the file has fewer than {SESSIONS} sessions"));
    }
    target.id = Some(id);
    target.counted = coming.is_some();
    restore_former_counters(scribe, target.key, id)?;
    Ok(id)
}

/// Gives a session that was just made the numbers that one of its name left.
fn restore_former_counters(
    scribe: &WriteTransaction<'_>,
    key: &SessionKey,
    id: i64,
) -> Result<(), BatchFailure> {
    let Some(left) = find_former_counters(scribe, key)? else { return Ok(()) };
    raise_counters(scribe, id, &left)?;
    let hash = scribe.hash_session_name(key)?;
    let name = [key.tenant.as_str().into(), hash.as_str().into()];
    scribe.execute_write("DELETE FROM former WHERE tenant = ? AND session = ?", &name).map(drop)
}

/// Finds the next free numbers that a deleted session left.
pub(super) fn find_former_counters(
    scribe: &WriteTransaction<'_>,
    key: &SessionKey,
) -> Result<Option<Counters>, BatchFailure> {
    let sql =
        "SELECT next_turn, next_item, next_event, next_wait FROM former WHERE tenant = ? AND session = ?";
    let hash = scribe.hash_session_name(key)?;
    let name = [key.tenant.as_str().into(), hash.as_str().into()];
    scribe.query_one_row(sql, &name, |row| column::read_counters(row, 0))
}

const UPDATE: &str = "UPDATE session SET agent = ?, graph = ?, schema_version = ?, version = ?, prompt_policy = ?, \
    parent = ?, parent_offset = ?, subject = ?, created_at = ?, updated_at = ?, checksum = ? WHERE id = ?";

/// Head and counters of most commits, in one go.
const UPDATE_BOTH: &str = "UPDATE session SET agent = ?, graph = ?, schema_version = ?, version = ?, \
    prompt_policy = ?, parent = ?, parent_offset = ?, subject = ?, created_at = ?, updated_at = ?, checksum = ?, next_turn = max(next_turn, ?), \
    next_item = max(next_item, ?), next_event = max(next_event, ?), next_wait = max(next_wait, ?) WHERE id = ?";

const INSERT: &str = "INSERT INTO session (agent, graph, schema_version, version, prompt_policy, parent, \
    parent_offset, subject, created_at, updated_at, checksum, next_turn, next_item, next_event, next_wait, tenant, session) \
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";

/// Raises the counters.
pub(super) fn raise_counters(
    scribe: &WriteTransaction<'_>,
    session: i64,
    counters: &Counters,
) -> Result<(), BatchFailure> {
    let [turns, items, events, waits] = bind_counters(counters)?;
    scribe.execute_write(
        "UPDATE session SET next_turn = max(next_turn, ?), next_item = max(next_item, ?), \
         next_event = max(next_event, ?), next_wait = max(next_wait, ?) WHERE id = ?",
        &[turns, items, events, waits, session.into()],
    )?;
    Ok(())
}

fn bind_counters(counters: &Counters) -> Result<[BoundValue<'static>; 4], BatchFailure> {
    let Counters { turns, items, events, waits } = *counters;
    Ok([
        to_stored_number(turns)?.into(),
        to_stored_number(items)?.into(),
        to_stored_number(events)?.into(),
        to_stored_number(waits)?.into(),
    ])
}

/// Writes a field.
pub(super) fn put_field(
    scribe: &WriteTransaction<'_>,
    session: i64,
    row: &FieldRow,
) -> Result<(), BatchFailure> {
    let (value, generation, len, bytes) = match &row.value {
        FieldValue::Value(json) => (Some(json), None, None, None),
        FieldValue::List { generation, len, bytes } => (
            None,
            Some(to_stored_number(*generation)?),
            Some(to_stored_number(*len)?),
            Some(to_stored_number(*bytes)?),
        ),
    };
    let values: [BoundValue<'_>; 5] =
        [(&row.name).into(), value.into(), generation.into(), len.into(), bytes.into()];
    let [name, value, generation, len, bytes] = values;
    let sql = "INSERT INTO field (session, name, value, generation, len, bytes, checksum) VALUES (?, ?, ?, ?, ?, ?, ?) \
         ON CONFLICT (session, name) DO UPDATE SET value = excluded.value, \
         generation = excluded.generation, len = excluded.len, bytes = excluded.bytes, checksum = excluded.checksum";
    let checksum = checksum::checksum_of_parts(&[&values]);
    scribe.execute_write(sql, &[session.into(), name, value, generation, len, bytes, checksum]).map(drop)
}

/// Removes a field, if there is one.
pub(super) fn drop_field(
    scribe: &WriteTransaction<'_>,
    session: Option<i64>,
    name: &str,
) -> Result<(), BatchFailure> {
    let Some(session) = session else { return Ok(()) };
    scribe
        .execute_write("DELETE FROM field WHERE session = ? AND name = ?", &[session.into(), name.into()])?;
    Ok(())
}

/// Removes the session with its rows, all but its numbers (D25): those of packed keys by their range, the others
/// because they refer to it.
pub(super) fn delete_session(
    scribe: &WriteTransaction<'_>,
    target: &mut TargetSession<'_>,
) -> Result<(), BatchFailure> {
    document::remove_session_data(scribe, target.key)?;
    if let Some(id) = target.id.take() {
        let (first, end) = session_key_range(id);
        for sql in ROWS {
            scribe.execute_write(sql, &[first.into(), end.into()])?;
        }
        usage::remove_session_usage(scribe, target.key)?;
        let hash = scribe.hash_session_name(target.key)?;
        scribe.execute_write(LEAVE, &[hash.as_str().into(), id.into()])?;
        scribe.execute_write("DELETE FROM session WHERE id = ?", &[id.into()])?;
    }
    Ok(())
}

/// Nothing is left by a session that gave out no number.
const LEAVE: &str = "INSERT INTO former SELECT tenant, ?, next_turn, next_item, next_event, next_wait \
    FROM session WHERE id = ? AND max(next_turn, next_item, next_event, next_wait) > 0";

/// One statement for every table of packed keys.
const ROWS: [&str; 4] = [
    "DELETE FROM item WHERE id >= ? AND id < ?",
    "DELETE FROM turn WHERE id >= ? AND id < ?",
    "DELETE FROM wait WHERE id >= ? AND id < ?",
    "DELETE FROM event WHERE id >= ? AND id < ?",
];
