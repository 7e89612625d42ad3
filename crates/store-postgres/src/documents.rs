//! Documents and blobs, beside the journal.

use singletree_durable::{
    BlobMetadata, BoxFuture, DocumentChange, DocumentKey, DocumentStore, JsonDocument, Result, SessionId,
    SessionKey, StoredBlob, StoredDocument, TenantBlobTotals, TenantId, Timestamp,
};
use tokio_postgres::Row;
use tokio_postgres::types::{Json, Type};

use crate::PostgresStore;
use crate::database::{Parameter, bind};
use crate::encode::encode_changes;
use crate::error::corrupt_error;
use crate::read::{read_number, to_bound};
use crate::store::PostgresStoreInner;

impl PostgresStoreInner {
    async fn query_documents(
        &self,
        tenant: &str,
        sql: &str,
        parameters: &[Parameter<'_>],
    ) -> Result<Vec<StoredDocument>> {
        let rows = self.database.of_tenant(tenant).read_rows(sql, parameters).await?;
        rows.iter().map(document_from_row).collect()
    }
}

fn document_from_row(row: &Row) -> Result<StoredDocument> {
    let invalid =
        |error: singletree_durable::InvalidIdentifier| corrupt_error("a document", Some(error.into()));
    let session: Option<&str> = row.get(3);
    Ok(StoredDocument {
        key: DocumentKey::new(
            TenantId::parse(row.get::<_, &str>(0)).map_err(invalid)?,
            row.get::<_, &str>(1),
            row.get::<_, &str>(2),
        ),
        session: session.map(SessionId::parse).transpose().map_err(invalid)?,
        version: read_number(row, 4)?,
        expires_at: row.get::<_, Option<i64>>(5).map(Timestamp::from_millis),
        body: JsonDocument::from_text(row.get::<_, String>(6)),
    })
}

impl DocumentStore for PostgresStore {
    fn read_document<'a>(&'a self, key: &'a DocumentKey) -> BoxFuture<'a, Result<Option<StoredDocument>>> {
        Box::pin(async move {
            let tenant = key.tenant.as_str();
            let parameters =
                [bind(&tenant, Type::TEXT), bind(&key.kind, Type::TEXT), bind(&key.id, Type::TEXT)];
            let sql = "SELECT tenant, kind, id, session, version, expires_at, body FROM singletree.document \
                WHERE tenant = $1 AND kind = $2 AND id = $3";
            Ok(self.inner().query_documents(tenant, sql, &parameters).await?.pop())
        })
    }

    fn read_documents<'a>(
        &'a self,
        tenant: &'a TenantId,
        kind: &'a str,
        past: Option<&'a str>,
        limit: u64,
    ) -> BoxFuture<'a, Result<Vec<StoredDocument>>> {
        Box::pin(async move {
            let (tenant, limit) = (tenant.as_str(), to_bound(limit));
            let parameters = [
                bind(&tenant, Type::TEXT),
                bind(&kind, Type::TEXT),
                bind(&past, Type::TEXT),
                bind(&limit, Type::INT8),
            ];
            let sql = "SELECT tenant, kind, id, session, version, expires_at, body FROM singletree.document \
                WHERE tenant = $1 AND kind = $2 AND ($3::text IS NULL OR id > $3) ORDER BY id LIMIT $4";
            self.inner().query_documents(tenant, sql, &parameters).await
        })
    }

    fn change_documents(&self, changes: Vec<DocumentChange>) -> BoxFuture<'static, Result<()>> {
        let inner = self.inner().clone();
        self.inner().run_in_background(async move {
            let tenants = changes.iter().map(|change| match change {
                DocumentChange::Write { key, .. } | DocumentChange::Remove { key, .. } => key.tenant.as_str(),
            });
            let statements = inner.database.of_tenants(tenants);
            let changes = Json(encode_changes(&changes));
            let sql = "SELECT singletree.change_documents($1)";
            statements.write_rows(sql, &[bind(&changes, Type::JSONB)]).await.map(drop)
        })
    }

    fn expire_documents(&self, before: Timestamp, limit: u64) -> BoxFuture<'static, Result<u64>> {
        let inner = self.inner().clone();
        self.inner().run_in_background(async move {
            let (before, limit) = (before.as_millis(), to_bound(limit));
            let sql = "DELETE FROM singletree.document d USING (\
                SELECT tenant, kind, id FROM singletree.document WHERE expires_at < $1 \
                ORDER BY expires_at LIMIT $2 FOR UPDATE SKIP LOCKED) over \
                WHERE d.tenant = over.tenant AND d.kind = over.kind AND d.id = over.id RETURNING 1";
            let parameters = [bind(&before, Type::INT8), bind(&limit, Type::INT8)];
            Ok(inner.database.of_all_tenants().write_rows(sql, &parameters).await?.len() as u64)
        })
    }

    fn probe_write(&self) -> BoxFuture<'static, Result<()>> {
        let inner = self.inner().clone();
        self.inner().run_in_background(async move { inner.commit_nothing().await })
    }

    fn keep_blob_for(
        &self,
        key: &SessionKey,
        blob: StoredBlob,
        holder: Option<&str>,
    ) -> BoxFuture<'static, Result<()>> {
        let (inner, key, holder) = (self.inner().clone(), key.clone(), holder.map(str::to_owned));
        self.inner().run_in_background(async move {
            let (tenant, session) = (key.tenant.as_str(), key.session.as_str());
            let parameters = [
                bind(&tenant, Type::TEXT),
                bind(&session, Type::TEXT),
                bind(&blob.digest, Type::TEXT),
                bind(&blob.media_type, Type::TEXT),
                bind(&holder, Type::TEXT),
                bind(&blob.bytes, Type::BYTEA),
            ];
            let sql = "SELECT singletree.keep_blob($1, $2, $3, $4, $5, $6)";
            inner.database.of_tenant(tenant).write_rows(sql, &parameters).await.map(drop)
        })
    }

    fn read_blob_totals<'a>(
        &'a self,
        tenant: &'a TenantId,
        holder: &'a str,
    ) -> BoxFuture<'a, Result<TenantBlobTotals>> {
        Box::pin(async move {
            let tenant = tenant.as_str();
            let parameters = [bind(&tenant, Type::TEXT), bind(&holder, Type::TEXT)];
            let sql = "SELECT coalesce(sum(size), 0)::bigint, \
                coalesce(sum(size) FILTER (WHERE holder = $2), 0)::bigint FROM singletree.blob WHERE tenant = $1";
            let rows = self.inner().database.of_tenant(tenant).read_rows(sql, &parameters).await?;
            let Some(row) = rows.first() else { return Ok(TenantBlobTotals::default()) };
            Ok(TenantBlobTotals { tenant_bytes: read_number(row, 0)?, holder_bytes: read_number(row, 1)? })
        })
    }

    fn read_blob<'a>(
        &'a self,
        key: &'a SessionKey,
        digest: &'a str,
    ) -> BoxFuture<'a, Result<Option<StoredBlob>>> {
        Box::pin(async move {
            let (tenant, session) = (key.tenant.as_str(), key.session.as_str());
            let parameters =
                [bind(&tenant, Type::TEXT), bind(&session, Type::TEXT), bind(&digest, Type::TEXT)];
            let sql = "SELECT b.digest, b.media_type, b.bytes FROM singletree.blob b \
                JOIN singletree.blob_use u ON u.tenant = b.tenant AND u.digest = b.digest \
                WHERE u.tenant = $1 AND u.session = $2 AND u.digest = $3";
            let rows = self.inner().database.of_tenant(tenant).read_rows(sql, &parameters).await?;
            Ok(rows.first().map(|row| StoredBlob {
                digest: row.get(0),
                media_type: row.get(1),
                bytes: row.get(2),
            }))
        })
    }

    fn read_blob_metadata<'a>(
        &'a self,
        key: &'a SessionKey,
        digest: &'a str,
    ) -> BoxFuture<'a, Result<Option<BlobMetadata>>> {
        Box::pin(async move {
            let (tenant, session) = (key.tenant.as_str(), key.session.as_str());
            let parameters =
                [bind(&tenant, Type::TEXT), bind(&session, Type::TEXT), bind(&digest, Type::TEXT)];
            let sql = "SELECT b.digest, b.media_type, b.size FROM singletree.blob b \
                JOIN singletree.blob_use u ON u.tenant = b.tenant AND u.digest = b.digest \
                WHERE u.tenant = $1 AND u.session = $2 AND u.digest = $3";
            let rows = self.inner().database.of_tenant(tenant).read_rows(sql, &parameters).await?;
            let from_row = |row: &Row| {
                Ok(BlobMetadata { digest: row.get(0), media_type: row.get(1), bytes: read_number(row, 2)? })
            };
            rows.first().map(from_row).transpose()
        })
    }

    fn count_blob_bytes<'a>(&'a self, key: &'a SessionKey) -> BoxFuture<'a, Result<u64>> {
        Box::pin(async move {
            let (tenant, session) = (key.tenant.as_str(), key.session.as_str());
            let parameters = [bind(&tenant, Type::TEXT), bind(&session, Type::TEXT)];
            let sql = "SELECT coalesce(sum(b.size), 0)::bigint FROM singletree.blob b \
                JOIN singletree.blob_use u ON u.tenant = b.tenant AND u.digest = b.digest \
                WHERE u.tenant = $1 AND u.session = $2";
            let rows = self.inner().database.of_tenant(tenant).read_rows(sql, &parameters).await?;
            rows.first().map_or(Ok(0), |row| read_number(row, 0))
        })
    }
}
