//! Sessions, usage, tenants.

use singletree_durable::{
    Counters, FencingToken, Result, SessionId, SessionKey, SessionPage, SessionRow, TenantId, Timestamp,
    UsageRow, UsageRowQuery,
};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::{read_number, to_bound};
use crate::database::bind;
use crate::error::corrupt_error;
use crate::row::{SessionColumns, decode_json};
use crate::store::PostgresStoreInner;

fn session_from_row(row: &Row) -> Result<SessionRow> {
    decode_json::<SessionColumns>(row.get(0), "a session")?.into_row()
}

impl PostgresStoreInner {
    /// Reads a fence that is not lower than any that was given out.
    pub(crate) async fn read_newest_fence(&self) -> Result<FencingToken> {
        let rows =
            self.database.of_all_tenants().read_rows("SELECT last_value FROM singletree.fence", &[]).await?;
        Ok(FencingToken(rows.first().map_or(Ok(0), |row| read_number(row, 0))?))
    }

    pub(crate) async fn read_session(&self, key: &SessionKey) -> Result<Option<SessionRow>> {
        let (tenant, session) = (key.tenant.as_str(), key.session.as_str());
        let parameters = [bind(&tenant, Type::TEXT), bind(&session, Type::TEXT)];
        let sql = "SELECT singletree.session_json(s)::text FROM singletree.session s \
            WHERE s.tenant = $1 AND s.session = $2";
        self.database
            .of_tenant(tenant)
            .read_rows(sql, &parameters)
            .await?
            .first()
            .map(session_from_row)
            .transpose()
    }

    pub(crate) async fn read_counters(&self, key: &SessionKey) -> Result<Counters> {
        let (tenant, session) = (key.tenant.as_str(), key.session.as_str());
        let parameters = [bind(&tenant, Type::TEXT), bind(&session, Type::TEXT)];
        let sql = "SELECT c[1], c[2], c[3], c[4] FROM singletree.read_counters($1, $2) AS c";
        let rows = self.database.of_tenant(tenant).read_rows(sql, &parameters).await?;
        let row = rows.first().ok_or_else(|| corrupt_error("the counters of a session", None))?;
        Ok(Counters {
            turns: read_number(row, 0)?,
            items: read_number(row, 1)?,
            events: read_number(row, 2)?,
            waits: read_number(row, 3)?,
        })
    }

    /// Reads a page of a tenant's sessions, and where the next one begins.
    pub(crate) async fn read_session_page(
        &self,
        tenant: &TenantId,
        from: Option<&SessionId>,
        limit: u64,
    ) -> Result<SessionPage> {
        let (tenant, from) = (tenant.as_str(), from.map_or("", SessionId::as_str));
        let one_more = to_bound(limit.saturating_add(1));
        let parameters = [bind(&tenant, Type::TEXT), bind(&from, Type::TEXT), bind(&one_more, Type::INT8)];
        let sql = "SELECT singletree.session_json(s)::text FROM singletree.session s \
            WHERE s.tenant = $1 AND s.session >= $2 ORDER BY s.session LIMIT $3";
        let rows = self.database.of_tenant(tenant).read_rows(sql, &parameters).await?;
        let mut sessions = rows.iter().map(session_from_row).collect::<Result<Vec<_>>>()?;
        let is_cut = sessions.len() as u64 > limit;
        let next = if is_cut { sessions.pop().map(|session| session.key.session) } else { None };
        Ok(SessionPage { sessions, next })
    }

    pub(crate) async fn read_recent_sessions(
        &self,
        tenant: &TenantId,
        past: Option<&(Timestamp, SessionId)>,
        limit: u64,
    ) -> Result<Vec<SessionRow>> {
        let tenant = tenant.as_str();
        let (time, id) = past.map(|(time, id)| (time.as_millis(), id.as_str())).unzip();
        let limit = to_bound(limit);
        let parameters = [
            bind(&tenant, Type::TEXT),
            bind(&time, Type::INT8),
            bind(&id, Type::TEXT),
            bind(&limit, Type::INT8),
        ];
        let sql = "SELECT singletree.session_json(s)::text FROM singletree.session s \
            WHERE s.tenant = $1 AND ($2::bigint IS NULL OR (s.updated_at, s.session) < ($2, $3)) \
            ORDER BY s.updated_at DESC, s.session DESC LIMIT $4";
        let rows = self.database.of_tenant(tenant).read_rows(sql, &parameters).await?;
        rows.iter().map(session_from_row).collect()
    }

    pub(crate) async fn read_tenants(&self, past: Option<&TenantId>, limit: u64) -> Result<Vec<TenantId>> {
        let past = past.map_or("", TenantId::as_str);
        let limit = to_bound(limit);
        let sql = "SELECT DISTINCT s.tenant FROM singletree.session s \
            WHERE s.tenant > $1 ORDER BY s.tenant LIMIT $2";
        let rows = self
            .database
            .of_all_tenants()
            .read_rows(sql, &[bind(&past, Type::TEXT), bind(&limit, Type::INT8)])
            .await?;
        let parse = |row: &Row| {
            TenantId::parse(row.get::<_, &str>(0))
                .map_err(|error| corrupt_error("the name of a tenant", Some(error.into())))
        };
        rows.iter().map(parse).collect()
    }

    pub(crate) async fn read_model_usage(&self, of: &UsageRowQuery) -> Result<Vec<UsageRow>> {
        let (tenant, session) = match of {
            UsageRowQuery::Session(key) => (key.tenant.as_str(), key.session.as_str()),
            UsageRowQuery::Tenant(tenant) => (tenant.as_str(), ""),
        };
        let parameters = [bind(&tenant, Type::TEXT), bind(&session, Type::TEXT)];
        let sql = "SELECT model, calls, prompt_tokens, completion_tokens, cached_tokens, cache_creation_tokens \
            FROM singletree.usage WHERE tenant = $1 AND session = $2 ORDER BY model";
        let from_row = |row: &Row| {
            Ok(UsageRow {
                model: row.get(0),
                calls: read_number(row, 1)?,
                prompt_tokens: read_number(row, 2)?,
                completion_tokens: read_number(row, 3)?,
                cached_tokens: read_number(row, 4)?,
                cache_creation_tokens: read_number(row, 5)?,
            })
        };
        self.database.of_tenant(tenant).read_rows(sql, &parameters).await?.iter().map(from_row).collect()
    }
}
