//! Waits, early signals, positions and records.

use singletree_durable::{
    EarlySignalRow, InvocationId, PositionRow, RecordRow, Result, SessionKey, Timestamp, WaitRow,
    WaitRowQuery,
};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::to_bound;
use crate::database::{Parameter, bind};
use crate::row::{MailColumns, PositionColumns, RecordColumns, WaitColumns, decode_json, parse_session_key};
use crate::store::PostgresStoreInner;

/// Waits with their sessions; `w` is the wait, `s` the session.
macro_rules! select_waits {
    ($rest:literal) => {
        concat!(
            "SELECT s.tenant, s.session, to_jsonb(w)::text FROM singletree.wait w \
             JOIN singletree.session s ON s.id = w.session WHERE ",
            $rest
        )
    };
}

fn wait_from_row(row: &Row) -> Result<(SessionKey, WaitRow)> {
    let wait = decode_json::<WaitColumns>(row.get(2), "a wait")?.into_row()?;
    Ok((parse_session_key(row.get(0), row.get(1))?, wait))
}

impl PostgresStoreInner {
    pub(crate) async fn read_waits(&self, query: &WaitRowQuery) -> Result<Vec<(SessionKey, WaitRow)>> {
        match query {
            WaitRowQuery::Pending(key) => {
                let (tenant, session) = (key.tenant.as_str(), key.session.as_str());
                let sql =
                    select_waits!("s.tenant = $1 AND s.session = $2 AND w.status = 'pending' ORDER BY w.no");
                self.query_waits(Some(tenant), sql, &[bind(&tenant, Type::TEXT), bind(&session, Type::TEXT)])
                    .await
            }
            WaitRowQuery::PendingOf(tenant, limit) => {
                let (tenant, limit) = (tenant.as_str(), to_bound(*limit));
                let sql =
                    select_waits!("w.tenant = $1 AND w.status = 'pending' ORDER BY s.session, w.no LIMIT $2");
                self.query_waits(Some(tenant), sql, &[bind(&tenant, Type::TEXT), bind(&limit, Type::INT8)])
                    .await
            }
            WaitRowQuery::Signal(key, signal) => {
                let (tenant, session) = (key.tenant.as_str(), key.session.as_str());
                let sql = select_waits!(
                    "s.tenant = $1 AND s.session = $2 AND w.tenant = $1 AND w.signal = $3 ORDER BY w.no"
                );
                let parameters =
                    [bind(&tenant, Type::TEXT), bind(&session, Type::TEXT), bind(signal, Type::TEXT)];
                self.query_waits(Some(tenant), sql, &parameters).await
            }
            WaitRowQuery::SignalOf(tenant, signal, limit) => {
                let (tenant, limit) = (tenant.as_str(), to_bound(*limit));
                let sql = select_waits!(
                    "w.tenant = $1 AND w.signal = $2 AND w.status = 'pending' \
                     ORDER BY s.session, w.no LIMIT $3"
                );
                let parameters =
                    [bind(&tenant, Type::TEXT), bind(signal, Type::TEXT), bind(&limit, Type::INT8)];
                self.query_waits(Some(tenant), sql, &parameters).await
            }
            WaitRowQuery::Invocation(tenant, invocation) => {
                let (tenant, invocation) = (tenant.as_str(), invocation.as_str());
                let sql = select_waits!("w.tenant = $1 AND w.invocation = $2 ORDER BY s.session, w.no");
                self.query_waits(
                    Some(tenant),
                    sql,
                    &[bind(&tenant, Type::TEXT), bind(&invocation, Type::TEXT)],
                )
                .await
            }
        }
    }

    async fn query_waits(
        &self,
        tenant: Option<&str>,
        sql: &str,
        parameters: &[Parameter<'_>],
    ) -> Result<Vec<(SessionKey, WaitRow)>> {
        self.database.of_tenants(tenant).read_rows(sql, parameters).await?.iter().map(wait_from_row).collect()
    }

    pub(crate) async fn read_waits_by_deadline(
        &self,
        until: Option<Timestamp>,
        limit: u64,
    ) -> Result<Vec<(SessionKey, WaitRow)>> {
        let (until, limit) = (until.map(|until| until.as_millis()), to_bound(limit));
        let sql = select_waits!(
            "w.status = 'pending' AND w.deadline IS NOT NULL AND ($1::bigint IS NULL OR w.deadline <= $1) \
             ORDER BY w.deadline, s.tenant, s.session, w.no LIMIT $2"
        );
        self.query_waits(None, sql, &[bind(&until, Type::INT8), bind(&limit, Type::INT8)]).await
    }

    pub(crate) async fn read_early_signals(&self, key: &SessionKey) -> Result<Vec<EarlySignalRow>> {
        let (tenant, session) = (key.tenant.as_str(), key.session.as_str());
        let sql = "SELECT to_jsonb(m)::text FROM singletree.mail m JOIN singletree.session s ON s.id = m.session \
            WHERE s.tenant = $1 AND s.session = $2 ORDER BY m.signal";
        let parameters = [bind(&tenant, Type::TEXT), bind(&session, Type::TEXT)];
        let rows = self.database.of_tenant(tenant).read_rows(sql, &parameters).await?;
        let decode = |row: &Row| decode_json::<MailColumns>(row.get(0), "an early signal");
        rows.iter().map(|row| decode(row).map(MailColumns::into_row)).collect()
    }

    pub(crate) async fn read_position(
        &self,
        key: &SessionKey,
        invocation: &InvocationId,
    ) -> Result<Option<PositionRow>> {
        let positions = self.query_positions(key, Some(invocation.as_str())).await?;
        Ok(positions.into_iter().next())
    }

    pub(crate) async fn read_positions(&self, key: &SessionKey) -> Result<Vec<PositionRow>> {
        self.query_positions(key, None).await
    }

    async fn query_positions(&self, key: &SessionKey, of: Option<&str>) -> Result<Vec<PositionRow>> {
        let (tenant, session) = (key.tenant.as_str(), key.session.as_str());
        let parameters = [bind(&tenant, Type::TEXT), bind(&session, Type::TEXT), bind(&of, Type::TEXT)];
        let sql = "SELECT to_jsonb(p)::text FROM singletree.position p \
            JOIN singletree.session s ON s.id = p.session \
            WHERE s.tenant = $1 AND s.session = $2 AND ($3::text IS NULL OR p.invocation = $3) \
            ORDER BY p.invocation";
        let rows = self.database.of_tenant(tenant).read_rows(sql, &parameters).await?;
        let decode = |row: &Row| decode_json::<PositionColumns>(row.get(0), "a position");
        rows.iter().map(|row| decode(row)?.into_row()).collect()
    }

    pub(crate) async fn read_turn_records(&self, key: &SessionKey, turn: u64) -> Result<Vec<RecordRow>> {
        let (tenant, session) = (key.tenant.as_str(), key.session.as_str());
        let turn = to_bound(turn);
        let parameters = [bind(&tenant, Type::TEXT), bind(&session, Type::TEXT), bind(&turn, Type::INT8)];
        let sql = "SELECT to_jsonb(r)::text FROM singletree.record r \
            JOIN singletree.session s ON s.id = r.session \
            WHERE s.tenant = $1 AND s.session = $2 AND r.turn = $3 ORDER BY r.name";
        let rows = self.database.of_tenant(tenant).read_rows(sql, &parameters).await?;
        let decode = |row: &Row| decode_json::<RecordColumns>(row.get(0), "a record");
        rows.iter().map(|row| decode(row).map(RecordColumns::into_row)).collect()
    }
}
