//! Documents and blobs.

use rusqlite::{Connection, Result, Row, params};
use singletree_durable::{
    BlobMetadata, DocumentKey, SessionKey, StoredBlob, StoredDocument, TenantBlobTotals, TenantId,
};

use super::all;
use crate::column;
use crate::number::bound;

macro_rules! select {
    ($rest:literal) => {
        concat!("SELECT tenant, kind, id, session, version, expires_at, body FROM document WHERE ", $rest)
    };
}

/// Reads a document.
pub(crate) fn one(connection: &Connection, key: &DocumentKey) -> Result<Option<StoredDocument>> {
    let name = params![key.tenant.as_str(), key.kind, key.id];
    let sql = select!("tenant = ? AND kind = ? AND id = ?");
    Ok(all(connection, sql, name, document)?.pop())
}

/// Reads the documents of a kind, from past an id on.
pub(crate) fn page(
    connection: &Connection,
    (tenant, kind): (&TenantId, &str),
    past: Option<&str>,
    limit: u64,
) -> Result<Vec<StoredDocument>> {
    match past {
        Some(past) => all(
            connection,
            select!("tenant = ? AND kind = ? AND id > ? ORDER BY id LIMIT ?"),
            params![tenant.as_str(), kind, past, bound(limit)],
            document,
        ),
        None => all(
            connection,
            select!("tenant = ? AND kind = ? ORDER BY id LIMIT ?"),
            params![tenant.as_str(), kind, bound(limit)],
            document,
        ),
    }
}

fn document(row: &Row<'_>) -> Result<StoredDocument> {
    let session = match row.get_ref(3)? {
        rusqlite::types::ValueRef::Null => None,
        _ => Some(column::session(row, 3)?),
    };
    Ok(StoredDocument {
        key: DocumentKey { tenant: column::tenant(row, 0)?, kind: row.get(1)?, id: row.get(2)? },
        session,
        version: column::number(row, 4)?,
        expires_at: column::time_opt(row, 5)?,
        body: column::json(row, 6)?,
    })
}

/// Reads a blob that a session uses.
pub(crate) fn blob(connection: &Connection, key: &SessionKey, digest: &str) -> Result<Option<StoredBlob>> {
    let sql = "SELECT b.digest, b.media_type, b.bytes FROM blob_use u CROSS JOIN blob b \
        ON b.tenant = u.tenant AND b.digest = u.digest WHERE u.tenant = ? AND u.session = ? AND u.digest = ?";
    let values = params![key.tenant.as_str(), key.session.as_str(), digest];
    let read =
        |row: &Row<'_>| Ok(StoredBlob { digest: row.get(0)?, media_type: row.get(1)?, bytes: row.get(2)? });
    Ok(all(connection, sql, values, read)?.pop())
}

/// Describes a blob that a session uses. Its bytes are not read.
pub(crate) fn blob_info(
    connection: &Connection,
    key: &SessionKey,
    digest: &str,
) -> Result<Option<BlobMetadata>> {
    let sql = "SELECT b.digest, b.media_type, length(b.bytes) FROM blob_use u CROSS JOIN blob b \
        ON b.tenant = u.tenant AND b.digest = u.digest WHERE u.tenant = ? AND u.session = ? AND u.digest = ?";
    let values = params![key.tenant.as_str(), key.session.as_str(), digest];
    let read = |row: &Row<'_>| {
        Ok(BlobMetadata { digest: row.get(0)?, media_type: row.get(1)?, bytes: column::number(row, 2)? })
    };
    Ok(all(connection, sql, values, read)?.pop())
}

/// Returns the bytes of all blobs of a tenant, and of those of one holder.
pub(crate) fn account(connection: &Connection, tenant: &TenantId, holder: &str) -> Result<TenantBlobTotals> {
    let sql = "SELECT holder, bytes FROM blob_account WHERE tenant = ? AND holder IN ('', ?)";
    let mut account = TenantBlobTotals::default();
    let read = |row: &Row<'_>| Ok((row.get::<_, String>(0)?, column::number(row, 1)?));
    for (of, bytes) in all(connection, sql, params![tenant.as_str(), holder], read)? {
        if of.is_empty() {
            account.tenant_bytes = bytes;
        } else {
            account.holder_bytes = bytes;
        }
    }
    Ok(account)
}

/// Returns how many bytes of blobs a session uses. The bytes themselves are not read.
pub(crate) fn bytes(connection: &Connection, key: &SessionKey) -> Result<u64> {
    let sql = "SELECT coalesce(sum(length(b.bytes)), 0) FROM blob_use u CROSS JOIN blob b \
        ON b.tenant = u.tenant AND b.digest = u.digest WHERE u.tenant = ? AND u.session = ?";
    let values = params![key.tenant.as_str(), key.session.as_str()];
    Ok(all(connection, sql, values, |row| column::number(row, 0))?.pop().unwrap_or_default())
}
