//! Sessions with their fields.

use rusqlite::{Connection, OptionalExtension, Result, Row, params};
use singletree_durable::{
    Counters, FieldRow, FieldValue, ParentSession, SessionHead, SessionId, SessionKey, SessionPage,
    SessionRow, TenantId, Timestamp,
};

use super::{all, sweep};
use crate::column;
use crate::name_hash::{hash_of_session, names_are_hashed};
use crate::number::bound;
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
pub(crate) fn one(connection: &Connection, key: &SessionKey) -> Result<Option<SessionRow>> {
    let found = connection
        .prepare_cached(select!("s.session = ?"))?
        .query_row(params![key.tenant.as_str(), key.session.as_str()], head)
        .optional()?;
    found.map(|(id, row)| with_fields(connection, id, row)).transpose()
}

/// Reads the next free numbers of a session, or those that a deleted one left: there is never both.
pub(crate) fn numbers(connection: &Connection, key: &SessionKey) -> Result<Counters> {
    let sql = "SELECT next_turn, next_item, next_event, next_wait FROM session WHERE tenant = ?1 AND session = ?2 \
        UNION ALL SELECT next_turn, next_item, next_event, next_wait FROM former WHERE tenant = ?1 AND session = ?3";
    let params = params![key.tenant.as_str(), key.session.as_str(), hash_of_session(connection, key)?];
    Ok(all(connection, sql, params, |row| column::counters(row, 0))?.pop().unwrap_or_default())
}

/// Reads a page of a tenant's sessions.
pub(crate) fn page(
    connection: &Connection,
    tenant: &TenantId,
    from: Option<&SessionId>,
    limit: u64,
) -> Result<SessionPage> {
    // No id is empty, so that the empty text stands before all of them.
    let from = from.map_or("", SessionId::as_str);
    let mut found = all(
        connection,
        select!("s.session >= ? ORDER BY s.session LIMIT ?"),
        params![tenant.as_str(), from, bound(limit.saturating_add(1))],
        head,
    )?;
    let kept = usize::try_from(limit).unwrap_or(usize::MAX);
    let next = found.get(kept).map(|(_, row)| row.key.session.clone());
    found.truncate(kept);
    let sessions =
        found.into_iter().map(|(id, row)| with_fields(connection, id, row)).collect::<Result<_>>()?;
    Ok(SessionPage { sessions, next })
}

/// Reads sessions of a tenant, those written last first. It goes through all of them: nothing that a turn writes keeps
/// them in this order.
pub(crate) fn recent(
    connection: &Connection,
    tenant: &TenantId,
    past: Option<&(Timestamp, SessionId)>,
    limit: u64,
) -> Result<Vec<SessionRow>> {
    let (at, id) = past.map_or((i64::MAX, ""), |(at, id)| (at.as_millis(), id.as_str()));
    let found = all(
        connection,
        select!("(s.updated_at, s.session) < (?, ?) ORDER BY s.updated_at DESC, s.session DESC LIMIT ?"),
        params![tenant.as_str(), at, id, bound(limit)],
        head,
    )?;
    found.into_iter().map(|(id, row)| with_fields(connection, id, row)).collect()
}

/// Reads the tenants that have sessions, past one. It steps from tenant to tenant, and sees one session of each.
pub(crate) fn tenants(connection: &Connection, past: Option<&TenantId>, limit: u64) -> Result<Vec<TenantId>> {
    let sql = "WITH RECURSIVE found (tenant) AS ( \
        SELECT (SELECT tenant FROM session WHERE tenant > ?1 ORDER BY tenant LIMIT 1) UNION ALL \
        SELECT (SELECT s.tenant FROM session s WHERE s.tenant > found.tenant ORDER BY s.tenant LIMIT 1) \
        FROM found WHERE found.tenant IS NOT NULL) \
        SELECT tenant FROM found WHERE tenant IS NOT NULL LIMIT ?2";
    // No id is empty, so that the empty text stands before all of them.
    let past = past.map_or("", TenantId::as_str);
    sweep(connection, sql, params![past, bound(limit)], |row| column::tenant(row, 0))
}

fn head(row: &Row<'_>) -> Result<(i64, SessionRow)> {
    let parent = match row.get_ref(8)? {
        rusqlite::types::ValueRef::Null => None,
        _ => Some(ParentSession { session: column::session(row, 8)?, offset: column::number(row, 9)? }),
    };
    let head = SessionHead {
        agent: row.get(3)?,
        graph: row.get(4)?,
        schema_version: usual::lengthen(row.get(5)?, usual::SCHEMA),
        version: column::number(row, 6)?,
        prompt_policy: usual::lengthen(row.get(7)?, usual::POLICY),
        parent,
        subject: None,
        created_at: column::time(row, 10)?,
        updated_at: column::time(row, 11)?,
    };
    let counters = column::counters(row, 12)?;
    Ok((row.get(0)?, SessionRow { key: column::key(row, 1)?, head, counters, fields: Vec::new() }))
}

fn with_fields(connection: &Connection, id: i64, mut row: SessionRow) -> Result<SessionRow> {
    if names_are_hashed(connection)? {
        let mut select = connection.prepare_cached("SELECT subject FROM session WHERE id = ?")?;
        row.head.subject = select.query_row([id], |row| column::subject(row, 0))?;
    }
    let sql = "SELECT name, value, generation, len, bytes FROM field WHERE session = ? ORDER BY name";
    row.fields = all(connection, sql, [id], |row| {
        let value = match column::json_opt(row, 1)? {
            Some(json) => FieldValue::Value(json),
            None => FieldValue::List {
                generation: column::number(row, 2)?,
                len: column::number(row, 3)?,
                bytes: column::number(row, 4)?,
            },
        };
        Ok(FieldRow { name: row.get(0)?, value })
    })?;
    Ok(row)
}
