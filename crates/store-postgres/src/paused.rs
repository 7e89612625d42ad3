//! The store of the suspension specification (suspension §7).

use singletree_durable::{
    BoxFuture, InvocationId, JsonDocument, PausedRecord, PausedStatus, PausedStore, Result, TenantId,
};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::PostgresStore;
use crate::database::bind;
use crate::error::corrupt_error;
use crate::keyword::ColumnKeyword;

fn record_from_row(row: &Row) -> Result<PausedRecord> {
    let word: &str = row.get(0);
    let status = PausedStatus::from_keyword(word);
    let status = status.ok_or_else(|| corrupt_error(format!("the word '{word}'"), None))?;
    Ok(PausedRecord { status, body: JsonDocument::from_text(row.get::<_, String>(1)) })
}

impl PausedStore for PostgresStore {
    fn save<'a>(
        &'a self,
        tenant: &'a TenantId,
        invocation: &'a InvocationId,
        record: &'a PausedRecord,
    ) -> BoxFuture<'a, Result<()>> {
        let (inner, tenant, invocation) = (self.inner().clone(), tenant.clone(), invocation.clone());
        let record = record.clone();
        self.inner().run_in_background(async move {
            let (tenant, invocation) = (tenant.as_str(), invocation.as_str());
            let (status, body) = (record.status.to_keyword(), record.body.as_str());
            let parameters = [
                bind(&tenant, Type::TEXT),
                bind(&invocation, Type::TEXT),
                bind(&status, Type::TEXT),
                bind(&body, Type::TEXT),
            ];
            let sql = "INSERT INTO singletree.paused (tenant, invocation, status, body) VALUES ($1, $2, $3, $4) \
                ON CONFLICT (tenant, invocation) DO UPDATE SET status = excluded.status, body = excluded.body";
            inner.database.of_tenant(tenant).write_rows(sql, &parameters).await.map(drop)
        })
    }

    fn load<'a>(
        &'a self,
        tenant: &'a TenantId,
        invocation: &'a InvocationId,
    ) -> BoxFuture<'a, Result<Option<PausedRecord>>> {
        Box::pin(async move {
            let (tenant, invocation) = (tenant.as_str(), invocation.as_str());
            let parameters = [bind(&tenant, Type::TEXT), bind(&invocation, Type::TEXT)];
            let sql = "SELECT status, body FROM singletree.paused WHERE tenant = $1 AND invocation = $2";
            let rows = self.inner().database.of_tenant(tenant).read_rows(sql, &parameters).await?;
            rows.first().map(record_from_row).transpose()
        })
    }

    fn claim<'a>(
        &'a self,
        tenant: &'a TenantId,
        invocation: &'a InvocationId,
    ) -> BoxFuture<'a, Result<Option<PausedRecord>>> {
        let (inner, tenant, invocation) = (self.inner().clone(), tenant.clone(), invocation.clone());
        self.inner().run_in_background(async move {
            let (tenant, invocation) = (tenant.as_str(), invocation.as_str());
            let parameters = [bind(&tenant, Type::TEXT), bind(&invocation, Type::TEXT)];
            let sql = "UPDATE singletree.paused SET status = 'resuming' \
                WHERE tenant = $1 AND invocation = $2 AND status = 'suspended' RETURNING 'suspended', body";
            inner
                .database
                .of_tenant(tenant)
                .write_rows(sql, &parameters)
                .await?
                .first()
                .map(record_from_row)
                .transpose()
        })
    }

    fn close<'a>(
        &'a self,
        tenant: &'a TenantId,
        invocation: &'a InvocationId,
        status: PausedStatus,
    ) -> BoxFuture<'a, Result<()>> {
        let (inner, tenant, invocation) = (self.inner().clone(), tenant.clone(), invocation.clone());
        self.inner().run_in_background(async move {
            let (tenant, invocation, status) = (tenant.as_str(), invocation.as_str(), status.to_keyword());
            let parameters =
                [bind(&tenant, Type::TEXT), bind(&invocation, Type::TEXT), bind(&status, Type::TEXT)];
            let sql = "UPDATE singletree.paused SET status = $3 WHERE tenant = $1 AND invocation = $2";
            inner.database.of_tenant(tenant).write_rows(sql, &parameters).await.map(drop)
        })
    }

    fn delete<'a>(&'a self, tenant: &'a TenantId, invocation: &'a InvocationId) -> BoxFuture<'a, Result<()>> {
        let (inner, tenant, invocation) = (self.inner().clone(), tenant.clone(), invocation.clone());
        self.inner().run_in_background(async move {
            let (tenant, invocation) = (tenant.as_str(), invocation.as_str());
            let parameters = [bind(&tenant, Type::TEXT), bind(&invocation, Type::TEXT)];
            let sql = "DELETE FROM singletree.paused WHERE tenant = $1 AND invocation = $2";
            inner.database.of_tenant(tenant).write_rows(sql, &parameters).await.map(drop)
        })
    }
}
