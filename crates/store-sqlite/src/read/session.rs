//! Sessions with their fields.

use rusqlite::{Connection, OptionalExtension, Result, Row, params};
use singletree_durable::{
    Counters, FieldRow, FieldValue, ParentSession, SessionHead, SessionId, SessionKey, SessionPage,
    SessionRow, TenantId, Timestamp,
};

use super::{query_rows_by_index, query_rows_by_sweep};
use crate::column;
use crate::name_hash::{hash_session_name, names_are_hashed};
use crate::number::to_query_bound;
use crate::usual;

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT s.id, s.tenant, s.session, a.text, g.text, s.schema_version, s.version, s.prompt_policy, ",
            "s.parent, s.parent_offset, s.created_at, s.updated_at, s.next_turn, s.next_item, s.next_event, ",
            "s.next_wait FROM session s JOIN name a ON a.id = s.agent JOIN name g ON g.id = s.graph ",
            "WHERE s.tenant = ? AND ",
            $rest
        )
    };
}

/// Reads a session.
pub(crate) fn read_session(connection: &Connection, key: &SessionKey) -> Result<Option<SessionRow>> {
    let found = connection
        .prepare_cached(select!("s.session = ?"))?
        .query_row(params![key.tenant.as_str(), key.session.as_str()], session_from_row)
        .optional()?;
    found.map(|(id, row)| read_fields_into(connection, id, row)).transpose()
}

/// Reads the next free numbers of a session, or those that a deleted one left: there is never both.
pub(crate) fn read_counters(connection: &Connection, key: &SessionKey) -> Result<Counters> {
    let sql = "SELECT next_turn, next_item, next_event, next_wait FROM session WHERE tenant = ?1 AND session = ?2 \
        UNION ALL SELECT next_turn, next_item, next_event, next_wait FROM former WHERE tenant = ?1 AND session = ?3";
    let params = params![key.tenant.as_str(), key.session.as_str(), hash_session_name(connection, key)?];
    Ok(query_rows_by_index(connection, sql, params, |row| column::read_counters(row, 0))?
        .pop()
        .unwrap_or_default())
}

/// Reads a page of a tenant's sessions.
pub(crate) fn read_session_page(
    connection: &Connection,
    tenant: &TenantId,
    from: Option<&SessionId>,
    limit: u64,
) -> Result<SessionPage> {
    // No id is empty, so that the empty text stands before all of them.
    let from = from.map_or("", SessionId::as_str);
    let mut found = query_rows_by_index(
        connection,
        select!("s.session >= ? ORDER BY s.session LIMIT ?"),
        params![tenant.as_str(), from, to_query_bound(limit.saturating_add(1))],
        session_from_row,
    )?;
    let kept = usize::try_from(limit).unwrap_or(usize::MAX);
    let next = found.get(kept).map(|(_, row)| row.key.session.clone());
    found.truncate(kept);
    let sessions =
        found.into_iter().map(|(id, row)| read_fields_into(connection, id, row)).collect::<Result<_>>()?;
    Ok(SessionPage { sessions, next })
}

/// Reads sessions of a tenant, those written last first. It goes through all of them: nothing that a turn writes keeps
/// them in this order.
pub(crate) fn read_recent_sessions(
    connection: &Connection,
    tenant: &TenantId,
    past: Option<&(Timestamp, SessionId)>,
    limit: u64,
) -> Result<Vec<SessionRow>> {
    let (at, id) = past.map_or((i64::MAX, ""), |(at, id)| (at.as_millis(), id.as_str()));
    let found = query_rows_by_index(
        connection,
        select!("(s.updated_at, s.session) < (?, ?) ORDER BY s.updated_at DESC, s.session DESC LIMIT ?"),
        params![tenant.as_str(), at, id, to_query_bound(limit)],
        session_from_row,
    )?;
    found.into_iter().map(|(id, row)| read_fields_into(connection, id, row)).collect()
}

/// Reads the tenants that have sessions, past one. It steps from tenant to tenant, and sees one session of each.
pub(crate) fn read_tenants(
    connection: &Connection,
    past: Option<&TenantId>,
    limit: u64,
) -> Result<Vec<TenantId>> {
    let sql = "WITH RECURSIVE found (tenant) AS ( \
        SELECT (SELECT tenant FROM session WHERE tenant > ?1 ORDER BY tenant LIMIT 1) UNION ALL \
        SELECT (SELECT s.tenant FROM session s WHERE s.tenant > found.tenant ORDER BY s.tenant LIMIT 1) \
        FROM found WHERE found.tenant IS NOT NULL) \
        SELECT tenant FROM found WHERE tenant IS NOT NULL LIMIT ?2";
    // No id is empty, so that the empty text stands before all of them.
    let past = past.map_or("", TenantId::as_str);
    query_rows_by_sweep(connection, sql, params![past, to_query_bound(limit)], |row| {
        column::read_tenant_id(row, 0)
    })
}

fn session_from_row(row: &Row<'_>) -> Result<(i64, SessionRow)> {
    let parent = match row.get_ref(8)? {
        rusqlite::types::ValueRef::Null => None,
        _ => Some(ParentSession {
            session: column::read_session_id(row, 8)?,
            offset: column::read_number(row, 9)?,
        }),
    };
    let head = SessionHead {
        agent: row.get(3)?,
        graph: row.get(4)?,
        schema_version: usual::restore_usual(row.get(5)?, usual::SCHEMA),
        version: column::read_number(row, 6)?,
        prompt_policy: usual::restore_usual(row.get(7)?, usual::POLICY),
        parent,
        subject: None,
        created_at: column::read_time(row, 10)?,
        updated_at: column::read_time(row, 11)?,
    };
    let counters = column::read_counters(row, 12)?;
    Ok((
        row.get(0)?,
        SessionRow { key: column::read_session_key(row, 1)?, head, counters, fields: Vec::new() },
    ))
}

fn read_fields_into(connection: &Connection, id: i64, mut row: SessionRow) -> Result<SessionRow> {
    if names_are_hashed(connection)? {
        let mut select = connection.prepare_cached("SELECT subject FROM session WHERE id = ?")?;
        row.head.subject = select.query_row([id], |row| column::read_optional_subject(row, 0))?;
    }
    let sql = "SELECT name, value, generation, len, bytes FROM field WHERE session = ? ORDER BY name";
    row.fields = query_rows_by_index(connection, sql, [id], |row| {
        let value = match column::read_optional_json(row, 1)? {
            Some(json) => FieldValue::Value(json),
            None => FieldValue::List {
                generation: column::read_number(row, 2)?,
                len: column::read_number(row, 3)?,
                bytes: column::read_number(row, 4)?,
            },
        };
        Ok(FieldRow { name: row.get(0)?, value })
    })?;
    Ok(row)
}
