//! Turns.

use std::borrow::Cow;

use rusqlite::{Connection, OptionalExtension, Result, Row, params};
use singletree_durable::{
    FencingToken, InvocationId, LoggedTurn, LoggedTurnQuery, SessionKey, TenantId, TurnRow, TurnRowQuery,
};

use super::{query_rows_by_index, query_rows_by_sweep};
use crate::column;
use crate::name_hash::names_are_hashed;
use crate::number::{to_packed_bound, to_query_bound};

macro_rules! columns {
    () => {
        "SELECT s.tenant, s.session, t.no, t.invocation, t.ordinal, t.kind, t.status, t.fence, t.deaths, \
         a.text, g.text, t.message, t.wait, t.key, t.digest, t.accepted_at, t.ended_at, t.outcome, t.retries "
    };
}

macro_rules! select {
    ($way:literal, $rest:literal) => {
        concat!(
            columns!(),
            "FROM session s CROSS JOIN turn t ",
            $way,
            " CROSS JOIN name a ON a.id = t.agent CROSS JOIN name g ON g.id = t.graph ",
            "WHERE s.tenant = ?1 AND s.session = ?2 AND ",
            $rest
        )
    };
}

/// Returns the query for the version of the file: before version 4, turns have no `retries`. Such files are only read.
fn adapt_sql_to_version(connection: &Connection, sql: &'static str) -> Result<Cow<'static, str>> {
    Ok(match names_are_hashed(connection)? {
        true => Cow::Borrowed(sql),
        false => Cow::Owned(sql.replace("t.retries", "NULL")),
    })
}

/// Reads turns of a session.
/// Reads several turns with events of their sessions.
pub(crate) fn read_logged_turns(
    connection: &Connection,
    queries: &[LoggedTurnQuery],
) -> Result<Vec<LoggedTurn>> {
    let read = |LoggedTurnQuery { key, no, from, limit }: &LoggedTurnQuery| {
        let turn = read_turns(connection, key, &TurnRowQuery::No(*no))?.pop();
        Ok(LoggedTurn { turn, events: super::event::read_events(connection, key, *from, *limit)? })
    };
    queries.iter().map(read).collect()
}

pub(crate) fn read_turns(
    connection: &Connection,
    key: &SessionKey,
    query: &TurnRowQuery,
) -> Result<Vec<TurnRow>> {
    let (tenant, session) = (key.tenant.as_str(), key.session.as_str());
    let read = |row: &Row<'_>| turn_from_row(row).map(|(_, it)| it);
    let sql = |sql: &'static str| adapt_sql_to_version(connection, sql);
    match query {
        TurnRowQuery::No(no) => query_rows_by_index(
            connection,
            &sql(select!("NOT INDEXED", "t.id >= (s.id << 32) + ?3 AND t.id < (s.id << 32) + ?4"))?,
            params![tenant, session, to_packed_bound(*no), to_packed_bound(no.saturating_add(1))],
            read,
        ),
        TurnRowQuery::Key(key) => {
            let sql = sql(select!("INDEXED BY turn_key", "t.session = s.id AND t.key = ?3"))?;
            query_rows_by_index(connection, &sql, params![tenant, session, key], read)
        }
        TurnRowQuery::Invocation(id) => query_rows_by_index(
            connection,
            &sql(select!(
                "INDEXED BY turn_invocation",
                "substr(t.invocation, -12) = substr(?3, -12) AND t.id >= s.id << 32 \
                 AND t.id < (s.id + 1) << 32 AND +t.invocation = ?3 ORDER BY t.id"
            ))?,
            params![tenant, session, id.as_str()],
            read,
        ),
        TurnRowQuery::Open => {
            let open =
                select!("INDEXED BY turn_open", "t.session = s.id AND t.status = 'accepted' ORDER BY t.id");
            query_rows_by_index(connection, &sql(open)?, params![tenant, session], read)
        }
        TurnRowQuery::From { no, limit } => query_rows_by_index(
            connection,
            &sql(select!(
                "NOT INDEXED",
                "t.id >= (s.id << 32) + ?3 AND t.id < (s.id + 1) << 32 ORDER BY t.id LIMIT ?4"
            ))?,
            params![tenant, session, to_packed_bound(*no), to_query_bound(*limit)],
            read,
        ),
    }
}

/// Finds the session that an invocation of a tenant belongs to.
pub(crate) fn find_session_of_invocation(
    connection: &Connection,
    tenant: &TenantId,
    invocation: &InvocationId,
) -> Result<Option<SessionKey>> {
    connection
        .prepare_cached(
            "SELECT s.tenant, s.session FROM turn t INDEXED BY turn_invocation CROSS JOIN session s ON s.id = t.session \
             WHERE substr(t.invocation, -12) = substr(?1, -12) AND +t.invocation = ?1 AND s.tenant = ?2 LIMIT 1",
        )?
        .query_row(params![invocation.as_str(), tenant.as_str()], |row| column::read_session_key(row, 0))
        .optional()
}

/// Reads turns without outcome of a lower fence, past a place.
///
/// It goes through the turns without outcome, few at any time, and never through the sessions.
pub(crate) fn read_ownerless_turns(
    connection: &Connection,
    fence: FencingToken,
    past: Option<&(SessionKey, u64)>,
    limit: u64,
) -> Result<Vec<(SessionKey, TurnRow)>> {
    // No id is empty, so that this stands before all of them.
    let (tenant, session, no) = match past {
        None => ("", "", 0),
        Some((key, no)) => (key.tenant.as_str(), key.session.as_str(), to_query_bound(*no)),
    };
    let sql = concat!(
        columns!(),
        "FROM turn t INDEXED BY turn_open CROSS JOIN session s ON s.id = t.session ",
        "JOIN name a ON a.id = t.agent JOIN name g ON g.id = t.graph ",
        "WHERE t.status = 'accepted' AND t.fence < ? AND (s.tenant, s.session, t.no) > (?, ?, ?) ",
        "ORDER BY s.tenant, s.session, t.no LIMIT ?"
    );
    query_rows_by_sweep(
        connection,
        &adapt_sql_to_version(connection, sql)?,
        params![to_query_bound(fence.0), tenant, session, no, to_query_bound(limit)],
        turn_from_row,
    )
}

fn turn_from_row(row: &Row<'_>) -> Result<(SessionKey, TurnRow)> {
    let turn = TurnRow {
        no: column::read_number(row, 2)?,
        invocation: column::read_invocation_id(row, 3)?,
        ordinal: column::read_small_number(row, 4)?,
        kind: column::read_keyword(row, 5)?,
        status: column::read_keyword(row, 6)?,
        fence: FencingToken(column::read_number(row, 7)?),
        deaths: column::read_small_number(row, 8)?,
        agent: row.get(9)?,
        graph: row.get(10)?,
        message: column::read_optional_number(row, 11)?,
        wait: column::read_optional_number(row, 12)?,
        key: row.get(13)?,
        digest: row.get(14)?,
        accepted_at: column::read_time(row, 15)?,
        ended_at: column::read_optional_time(row, 16)?,
        outcome: column::read_optional_json(row, 17)?,
        retries: column::read_optional_number(row, 18)?,
    };
    Ok((column::read_session_key(row, 0)?, turn))
}
