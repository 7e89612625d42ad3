//! Turns.

use singletree_durable::{
    InvocationId, LoggedTurn, LoggedTurnQuery, Result, SessionKey, TenantId, TurnRow, TurnRowQuery,
};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::item::event_from_row;
use super::{read_number, to_bound};
use crate::database::{Parameter, bind};
use crate::error::corrupt_error;
use crate::row::{TurnColumns, decode_json, parse_session_key};
use crate::store::PostgresStoreInner;

/// The turns of a session; `t` is the turn, the first parameters are tenant and session.
macro_rules! select_turns {
    ($rest:literal) => {
        concat!(
            "SELECT to_jsonb(t)::text FROM singletree.turn t JOIN singletree.session s ON s.id = t.session \
             WHERE s.tenant = $1 AND s.session = $2 AND ",
            $rest
        )
    };
}

fn turn_from_row(row: &Row, at: usize) -> Result<TurnRow> {
    decode_json::<TurnColumns>(row.get(at), "a turn")?.into_row()
}

/// Returns the place of a row among those that were asked for, which is its first column.
fn place_of<'a>(row: &Row, turns: &'a mut [LoggedTurn]) -> Result<&'a mut LoggedTurn> {
    let place = usize::try_from(read_number(row, 0)?).ok();
    place.and_then(|place| turns.get_mut(place)).ok_or_else(|| corrupt_error("the place of a turn", None))
}

impl PostgresStoreInner {
    pub(crate) async fn read_turns(&self, key: &SessionKey, query: &TurnRowQuery) -> Result<Vec<TurnRow>> {
        let (tenant, session) = (key.tenant.as_str(), key.session.as_str());
        let name = [bind(&tenant, Type::TEXT), bind(&session, Type::TEXT)];
        match query {
            TurnRowQuery::No(no) => {
                let no = to_bound(*no);
                self.query_turns(
                    tenant,
                    select_turns!("t.no = $3"),
                    &[&name[..], &[bind(&no, Type::INT8)]].concat(),
                )
                .await
            }
            TurnRowQuery::Key(idempotency) => {
                let parameters = [&name[..], &[bind(idempotency, Type::TEXT)]].concat();
                self.query_turns(tenant, select_turns!("t.key = $3"), &parameters).await
            }
            TurnRowQuery::Invocation(invocation) => {
                let invocation = invocation.as_str();
                let parameters = [&name[..], &[bind(&invocation, Type::TEXT)]].concat();
                let sql = select_turns!("t.tenant = $1 AND t.invocation = $3 ORDER BY t.no");
                self.query_turns(tenant, sql, &parameters).await
            }
            TurnRowQuery::Open => {
                self.query_turns(tenant, select_turns!("t.status = 'accepted' ORDER BY t.no"), &name).await
            }
            TurnRowQuery::From { no, limit } => {
                let (no, limit) = (to_bound(*no), to_bound(*limit));
                let parameters = [&name[..], &[bind(&no, Type::INT8), bind(&limit, Type::INT8)]].concat();
                self.query_turns(tenant, select_turns!("t.no >= $3 ORDER BY t.no LIMIT $4"), &parameters)
                    .await
            }
        }
    }

    /// Reads several turns with events of their sessions, by two statements.
    pub(crate) async fn read_logged_turns(&self, queries: &[LoggedTurnQuery]) -> Result<Vec<LoggedTurn>> {
        let mut turns = vec![LoggedTurn { turn: None, events: Vec::new() }; queries.len()];
        if queries.is_empty() {
            return Ok(turns);
        }
        let tenants: Vec<&str> = queries.iter().map(|query| query.key.tenant.as_str()).collect();
        let sessions: Vec<&str> = queries.iter().map(|query| query.key.session.as_str()).collect();
        let numbers = |of: fn(&LoggedTurnQuery) -> u64| -> Vec<i64> {
            queries.iter().map(|query| to_bound(of(query))).collect()
        };
        let (no, from, limit) =
            (numbers(|query| query.no), numbers(|query| query.from), numbers(|query| query.limit));
        let statements = self.database.of_tenants(tenants.iter().copied());
        let names = [bind(&tenants, Type::TEXT_ARRAY), bind(&sessions, Type::TEXT_ARRAY)];
        let sql = "SELECT q.place - 1, to_jsonb(t)::text \
            FROM unnest($1, $2, $3) WITH ORDINALITY q (tenant, session, no, place) \
            JOIN singletree.session s ON s.tenant = q.tenant AND s.session = q.session \
            JOIN singletree.turn t ON t.session = s.id AND t.no = q.no";
        let parameters = [&names[..], &[bind(&no, Type::INT8_ARRAY)]].concat();
        for row in statements.read_rows(sql, &parameters).await? {
            place_of(&row, &mut turns)?.turn = Some(turn_from_row(&row, 1)?);
        }
        let sql = "SELECT q.place - 1, e.seq, e.turn, e.kind, e.item, e.at, e.body \
            FROM unnest($1, $2, $3, $4) WITH ORDINALITY q (tenant, session, first, most, place) \
            JOIN singletree.session s ON s.tenant = q.tenant AND s.session = q.session \
            CROSS JOIN LATERAL (SELECT * FROM singletree.event i WHERE i.session = s.id AND i.seq >= q.first \
            ORDER BY i.seq LIMIT q.most) e ORDER BY q.place, e.seq";
        let bounds = [bind(&from, Type::INT8_ARRAY), bind(&limit, Type::INT8_ARRAY)];
        for row in statements.read_rows(sql, &[&names[..], &bounds[..]].concat()).await? {
            place_of(&row, &mut turns)?.events.push(event_from_row(&row, 1)?);
        }
        Ok(turns)
    }

    async fn query_turns(
        &self,
        tenant: &str,
        sql: &str,
        parameters: &[Parameter<'_>],
    ) -> Result<Vec<TurnRow>> {
        let rows = self.database.of_tenant(tenant).read_rows(sql, parameters).await?;
        rows.iter().map(|row| turn_from_row(row, 0)).collect()
    }

    pub(crate) async fn find_session_of_invocation(
        &self,
        tenant: &TenantId,
        invocation: &InvocationId,
    ) -> Result<Option<SessionKey>> {
        let (tenant, invocation) = (tenant.as_str(), invocation.as_str());
        let parameters = [bind(&tenant, Type::TEXT), bind(&invocation, Type::TEXT)];
        let sql = "SELECT s.session FROM singletree.turn t JOIN singletree.session s ON s.id = t.session \
            WHERE t.tenant = $1 AND t.invocation = $2 ORDER BY s.session LIMIT 1";
        let rows = self.database.of_tenant(tenant).read_rows(sql, &parameters).await?;
        rows.first().map(|row| parse_session_key(tenant, row.get(0))).transpose()
    }

    /// Reads open turns whose session no owner holds that lives as far as this process knows, or that were not taken over by
    /// the one that does.
    pub(crate) async fn read_ownerless_turns(
        &self,
        past: Option<&(SessionKey, u64)>,
        limit: u64,
    ) -> Result<Vec<(SessionKey, TurnRow)>> {
        let (tenant, session, no) = match past {
            Some((key, no)) => (key.tenant.as_str(), key.session.as_str(), to_bound(*no)),
            None => ("", "", 0),
        };
        let limit = to_bound(limit);
        let (dead, _) = self.lock_others().find_dead(self.lease);
        let parameters = [
            bind(&tenant, Type::TEXT),
            bind(&session, Type::TEXT),
            bind(&no, Type::INT8),
            bind(&limit, Type::INT8),
            bind(&dead, Type::INT8_ARRAY),
        ];
        let sql = "SELECT s.tenant, s.session, to_jsonb(t)::text FROM singletree.turn t \
            JOIN singletree.session s ON s.id = t.session \
            LEFT JOIN singletree.lease l ON l.tenant = s.tenant AND l.session = s.session \
            LEFT JOIN singletree.node n ON n.incarnation = l.owner AND n.incarnation <> ALL ($5) \
            WHERE t.status = 'accepted' AND (n.incarnation IS NULL OR t.fence < l.fence) \
            AND (s.tenant, s.session, t.no) > ($1, $2, $3) ORDER BY s.tenant, s.session, t.no LIMIT $4";
        let from_row = |row: &Row| Ok((parse_session_key(row.get(0), row.get(1))?, turn_from_row(row, 2)?));
        let rows = self.database.of_all_tenants().read_rows(sql, &parameters).await?;
        rows.iter().map(from_row).collect()
    }
}
