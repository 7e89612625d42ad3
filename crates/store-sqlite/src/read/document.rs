//! Documents and blobs.

use rusqlite::{Connection, Result, Row, params};
use singletree_durable::{
    BlobMetadata, DocumentKey, SessionKey, StoredBlob, StoredDocument, TenantBlobTotals, TenantId,
};

use super::query_rows_by_index;
use crate::column;
use crate::number::to_query_bound;

macro_rules! select {
    ($rest:literal) => {
        concat!("SELECT tenant, kind, id, session, version, expires_at, body FROM document WHERE ", $rest)
    };
}

/// Reads a document.
pub(crate) fn read_document(connection: &Connection, key: &DocumentKey) -> Result<Option<StoredDocument>> {
    let name = params![key.tenant.as_str(), key.kind, key.id];
    let sql = select!("tenant = ? AND kind = ? AND id = ?");
    Ok(query_rows_by_index(connection, sql, name, document_from_row)?.pop())
}

/// Reads the documents of a kind, from past an id on.
pub(crate) fn read_documents(
    connection: &Connection,
    (tenant, kind): (&TenantId, &str),
    past: Option<&str>,
    limit: u64,
) -> Result<Vec<StoredDocument>> {
    match past {
        Some(past) => query_rows_by_index(
            connection,
            select!("tenant = ? AND kind = ? AND id > ? ORDER BY id LIMIT ?"),
            params![tenant.as_str(), kind, past, to_query_bound(limit)],
            document_from_row,
        ),
        None => query_rows_by_index(
            connection,
            select!("tenant = ? AND kind = ? ORDER BY id LIMIT ?"),
            params![tenant.as_str(), kind, to_query_bound(limit)],
            document_from_row,
        ),
    }
}

fn document_from_row(row: &Row<'_>) -> Result<StoredDocument> {
    let session = match row.get_ref(3)? {
        rusqlite::types::ValueRef::Null => None,
        _ => Some(column::read_session_id(row, 3)?),
    };
    Ok(StoredDocument {
        key: DocumentKey { tenant: column::read_tenant_id(row, 0)?, kind: row.get(1)?, id: row.get(2)? },
        session,
        version: column::read_number(row, 4)?,
        expires_at: column::read_optional_time(row, 5)?,
        body: column::read_json(row, 6)?,
    })
}

/// Reads a blob that a session uses.
pub(crate) fn read_blob(
    connection: &Connection,
    key: &SessionKey,
    digest: &str,
) -> Result<Option<StoredBlob>> {
    let sql = "SELECT b.digest, b.media_type, b.bytes FROM blob_use u CROSS JOIN blob b \
        ON b.tenant = u.tenant AND b.digest = u.digest WHERE u.tenant = ? AND u.session = ? AND u.digest = ?";
    let values = params![key.tenant.as_str(), key.session.as_str(), digest];
    let read =
        |row: &Row<'_>| Ok(StoredBlob { digest: row.get(0)?, media_type: row.get(1)?, bytes: row.get(2)? });
    Ok(query_rows_by_index(connection, sql, values, read)?.pop())
}

/// Describes a blob that a session uses. Its bytes are not read.
pub(crate) fn read_blob_metadata(
    connection: &Connection,
    key: &SessionKey,
    digest: &str,
) -> Result<Option<BlobMetadata>> {
    let sql = "SELECT b.digest, b.media_type, length(b.bytes) FROM blob_use u CROSS JOIN blob b \
        ON b.tenant = u.tenant AND b.digest = u.digest WHERE u.tenant = ? AND u.session = ? AND u.digest = ?";
    let values = params![key.tenant.as_str(), key.session.as_str(), digest];
    let read = |row: &Row<'_>| {
        Ok(BlobMetadata { digest: row.get(0)?, media_type: row.get(1)?, bytes: column::read_number(row, 2)? })
    };
    Ok(query_rows_by_index(connection, sql, values, read)?.pop())
}

/// Returns the bytes of all blobs of a tenant, and of those of one holder.
pub(crate) fn read_blob_totals(
    connection: &Connection,
    tenant: &TenantId,
    holder: &str,
) -> Result<TenantBlobTotals> {
    let sql = "SELECT holder, bytes FROM blob_account WHERE tenant = ? AND holder IN ('', ?)";
    let mut account = TenantBlobTotals::default();
    let read = |row: &Row<'_>| Ok((row.get::<_, String>(0)?, column::read_number(row, 1)?));
    for (of, bytes) in query_rows_by_index(connection, sql, params![tenant.as_str(), holder], read)? {
        if of.is_empty() {
            account.tenant_bytes = bytes;
        } else {
            account.holder_bytes = bytes;
        }
    }
    Ok(account)
}

/// Returns how many bytes of blobs a session uses. The bytes themselves are not read.
pub(crate) fn count_blob_bytes(connection: &Connection, key: &SessionKey) -> Result<u64> {
    let sql = "SELECT coalesce(sum(length(b.bytes)), 0) FROM blob_use u CROSS JOIN blob b \
        ON b.tenant = u.tenant AND b.digest = u.digest WHERE u.tenant = ? AND u.session = ?";
    let values = params![key.tenant.as_str(), key.session.as_str()];
    Ok(query_rows_by_index(connection, sql, values, |row| column::read_number(row, 0))?
        .pop()
        .unwrap_or_default())
}
