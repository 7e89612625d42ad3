//! The checkpointer of the pipeline-utilities specification (§10.1): one row for each invocation, the whole record.

use singletree_durable::{
    BoxFuture, CheckpointFilter, CheckpointRecord, CheckpointSummary, Checkpointer, InvocationId,
    JsonDocument, Result, TenantId, Timestamp,
};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::PostgresStore;
use crate::database::bind;
use crate::error::{corrupt_error, unavailable_error};
use crate::read::read_number;
use crate::row::{decode_json, parse_invocation};

fn summary_from_row(row: &Row) -> Result<CheckpointSummary> {
    Ok(CheckpointSummary {
        invocation_id: parse_invocation(row.get(0))?,
        correlation_id: row.get(1),
        last_saved_at: Timestamp::from_millis(row.get(2)),
        completed_node_count: read_number(row, 3)?,
    })
}

impl Checkpointer for PostgresStore {
    fn save<'a>(&'a self, tenant: &'a TenantId, record: &'a CheckpointRecord) -> BoxFuture<'a, Result<()>> {
        let (inner, tenant, summary) = (self.inner().clone(), tenant.clone(), record.to_summary());
        let body = JsonDocument::from_serializable(record);
        self.inner().run_in_background(async move {
            let body = body.map_err(|error| unavailable_error("write a checkpoint", error))?;
            let count = i64::try_from(summary.completed_node_count)
                .map_err(|error| corrupt_error("a checkpoint", Some(error.into())))?;
            let (tenant, invocation) = (tenant.as_str(), summary.invocation_id.as_str());
            let (saved_at, body) = (summary.last_saved_at.as_millis(), body.as_str());
            let parameters = [
                bind(&tenant, Type::TEXT),
                bind(&invocation, Type::TEXT),
                bind(&summary.correlation_id, Type::TEXT),
                bind(&saved_at, Type::INT8),
                bind(&count, Type::INT8),
                bind(&body, Type::TEXT),
            ];
            let sql = "INSERT INTO singletree.checkpoint (tenant, invocation, correlation, saved_at, positions, body) \
                VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (tenant, invocation) DO UPDATE SET \
                correlation = excluded.correlation, saved_at = excluded.saved_at, \
                positions = excluded.positions, body = excluded.body";
            inner.database.of_tenant(tenant).write_rows(sql, &parameters).await.map(drop)
        })
    }

    fn load<'a>(
        &'a self,
        tenant: &'a TenantId,
        invocation: &'a InvocationId,
    ) -> BoxFuture<'a, Result<Option<CheckpointRecord>>> {
        Box::pin(async move {
            let (tenant, invocation) = (tenant.as_str(), invocation.as_str());
            let parameters = [bind(&tenant, Type::TEXT), bind(&invocation, Type::TEXT)];
            let sql = "SELECT body FROM singletree.checkpoint WHERE tenant = $1 AND invocation = $2";
            let rows = self.inner().database.of_tenant(tenant).read_rows(sql, &parameters).await?;
            rows.first().map(|row| decode_json(row.get(0), "a checkpoint")).transpose()
        })
    }

    fn list<'a>(
        &'a self,
        tenant: &'a TenantId,
        filter: &'a CheckpointFilter,
    ) -> BoxFuture<'a, Result<Vec<CheckpointSummary>>> {
        Box::pin(async move {
            let tenant = tenant.as_str();
            let after = filter.saved_after.map(|time| time.as_millis());
            let before = filter.saved_before.map(|time| time.as_millis());
            let parameters = [
                bind(&tenant, Type::TEXT),
                bind(&filter.correlation_id, Type::TEXT),
                bind(&after, Type::INT8),
                bind(&before, Type::INT8),
            ];
            let sql = "SELECT invocation, correlation, saved_at, positions FROM singletree.checkpoint \
                WHERE tenant = $1 AND ($2::text IS NULL OR correlation = $2) \
                AND ($3::bigint IS NULL OR saved_at > $3) AND ($4::bigint IS NULL OR saved_at < $4) \
                ORDER BY invocation";
            let rows = self.inner().database.of_tenant(tenant).read_rows(sql, &parameters).await?;
            rows.iter().map(summary_from_row).collect()
        })
    }

    fn delete<'a>(&'a self, tenant: &'a TenantId, invocation: &'a InvocationId) -> BoxFuture<'a, Result<()>> {
        let (inner, tenant, invocation) = (self.inner().clone(), tenant.clone(), invocation.clone());
        self.inner().run_in_background(async move {
            let (tenant, invocation) = (tenant.as_str(), invocation.as_str());
            let parameters = [bind(&tenant, Type::TEXT), bind(&invocation, Type::TEXT)];
            let sql = "DELETE FROM singletree.checkpoint WHERE tenant = $1 AND invocation = $2";
            inner.database.of_tenant(tenant).write_rows(sql, &parameters).await.map(drop)
        })
    }

    fn backend_name(&self) -> &str {
        "postgresql"
    }
}
