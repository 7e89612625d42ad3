//! Writes of documents: all changes of a call, or none.

use singletree_durable::{
    DocumentChange, DocumentKey, DocumentPrecondition, JsonDocument, SessionId, SessionKey, TenantId,
    Timestamp,
};

use crate::checksum;
use crate::column;
use crate::error::{BatchFailure, refuse_batch};
use crate::meter::{BoundValue, WriteTransaction};
use crate::number::to_query_bound;

/// Makes all changes if their expectations hold for the documents stored before the first change.
pub(crate) fn change_documents(
    scribe: &WriteTransaction<'_>,
    changes: &[DocumentChange],
) -> Result<(), BatchFailure> {
    for change in changes {
        let (DocumentChange::Write { key, expect, .. } | DocumentChange::Remove { key, expect }) = change;
        check_precondition(scribe, key, *expect)?;
    }
    changes.iter().try_for_each(|change| apply_change(scribe, change))
}

fn check_precondition(
    scribe: &WriteTransaction<'_>,
    key: &DocumentKey,
    expect: DocumentPrecondition,
) -> Result<(), BatchFailure> {
    if expect == DocumentPrecondition::Any {
        return Ok(());
    }
    let sql = "SELECT version FROM document WHERE tenant = ? AND kind = ? AND id = ?";
    let name = [key.tenant.as_str().into(), (&key.kind).into(), (&key.id).into()];
    let found = scribe.query_one_row(sql, &name, |row| column::read_number(row, 0))?;
    let holds = match expect {
        DocumentPrecondition::Any => true,
        DocumentPrecondition::Absent => found.is_none(),
        DocumentPrecondition::Version(version) => found == Some(version),
    };
    if holds {
        return Ok(());
    }
    refuse_batch(format!("{expect:?} of document {} {} (found {found:?})", key.kind, key.id))
}

fn apply_change(scribe: &WriteTransaction<'_>, change: &DocumentChange) -> Result<(), BatchFailure> {
    match change {
        DocumentChange::Write { key, session, body, expires_at, .. } => {
            let name = (&key.tenant, key.kind.as_str(), key.id.as_str());
            write_document(scribe, name, session.as_ref(), (body, *expires_at))?;
        }
        DocumentChange::Remove { key, .. } => {
            let name = [key.tenant.as_str().into(), (&key.kind).into(), (&key.id).into()];
            scribe.execute_write("DELETE FROM document WHERE tenant = ? AND kind = ? AND id = ?", &name)?;
        }
    }
    Ok(())
}

/// Writes a document, whatever stood there.
pub(super) fn write_document(
    scribe: &WriteTransaction<'_>,
    (tenant, kind, id): (&TenantId, &str, &str),
    session: Option<&SessionId>,
    (body, expires_at): (&JsonDocument, Option<Timestamp>),
) -> Result<(), BatchFailure> {
    let session = session.map(SessionId::as_str);
    let name = [tenant.as_str().into(), kind.into(), id.into(), session.into()];
    let [tenant, kind, id, session] = name;
    // The version is counted on by the statement, and stays out of it.
    let values: [BoundValue<'_>; 6] = [tenant, kind, id, session, expires_at.into(), body.into()];
    scribe
        .execute_write(WRITE, &[values.as_slice(), &[checksum::checksum_of_parts(&[&values])]].concat())
        .map(drop)
}

const WRITE: &str = "INSERT INTO document (tenant, kind, id, session, version, expires_at, body, checksum) \
    VALUES (?, ?, ?, ?, 1, ?, ?, ?) ON CONFLICT (tenant, kind, id) DO UPDATE SET session = excluded.session, \
    version = version + 1, expires_at = excluded.expires_at, body = excluded.body, checksum = excluded.checksum";

/// Removes documents whose time was over before, at most so many, the earliest first, and then notes of unsent turns; returns
/// how many.
pub(crate) fn expire_documents(
    scribe: &WriteTransaction<'_>,
    before: Timestamp,
    limit: u64,
) -> Result<u64, BatchFailure> {
    let mut removed = 0;
    for sql in EXPIRE {
        let left = to_query_bound(limit - removed);
        removed += scribe.execute_write(sql, &[before.into(), left.into()])? as u64;
    }
    Ok(removed)
}

/// The statements by which documents expire. Notes of unsent turns are in no index: each tenant's first one is looked at, and
/// the others where that one has expired.
const EXPIRE: [&str; 2] = [
    "DELETE FROM document WHERE (tenant, kind, id) IN (SELECT tenant, kind, id FROM document \
     INDEXED BY document_end WHERE expires_at < ? AND kind <> 'unsent' ORDER BY expires_at LIMIT ?)",
    "DELETE FROM document WHERE (tenant, kind, id) IN (\
     WITH RECURSIVE named (tenant) AS (SELECT min(tenant) FROM document UNION ALL \
       SELECT (SELECT min(tenant) FROM document WHERE tenant > named.tenant) FROM named WHERE tenant IS NOT NULL), \
     due (tenant) AS (SELECT tenant FROM named WHERE (SELECT expires_at FROM document \
       WHERE tenant = named.tenant AND kind = 'unsent' ORDER BY id LIMIT 1) < ?1) \
     SELECT note.tenant, note.kind, note.id FROM due CROSS JOIN document AS note \
     ON note.tenant = due.tenant AND note.kind = 'unsent' WHERE note.expires_at < ?1 LIMIT ?2)",
];

/// Removes the data that belongs to a session, whether the session exists or not: its documents, its uses of blobs, and
/// the blobs that no other session uses (D25).
pub(super) fn remove_session_data(
    scribe: &WriteTransaction<'_>,
    key: &SessionKey,
) -> Result<(), BatchFailure> {
    let name = [key.tenant.as_str().into(), key.session.as_str().into()];
    for sql in FORGET {
        scribe.execute_write(sql, &name)?;
    }
    Ok(())
}

/// The uses of one blob are not indexed: if the session uses any blob, the uses of the tenant's other sessions are
/// scanned once. Nor are the notes of unsent turns: those of the tenant are scanned, which are none or few unless the receiver
/// of traces takes nothing.
const FORGET: [&str; 4] = [
    "DELETE FROM document INDEXED BY document_session WHERE tenant = ? AND session = ? AND kind <> 'unsent'",
    "DELETE FROM document WHERE tenant = ? AND session = ? AND kind = 'unsent'",
    "DELETE FROM blob WHERE tenant = ?1 \
     AND digest IN (SELECT digest FROM blob_use WHERE tenant = ?1 AND session = ?2) \
     AND digest NOT IN (SELECT digest FROM blob_use WHERE tenant = ?1 AND session <> ?2)",
    "DELETE FROM blob_use WHERE tenant = ? AND session = ?",
];

#[cfg(test)]
mod tests {
    use rusqlite::Connection;
    use singletree_durable::UNSENT_TURN;

    use super::{EXPIRE, FORGET};

    /// Without the index, or with one that holds the notes, too, only the time that these statements take differs.
    #[tokio::test]
    async fn documents_that_go_together_are_found_by_an_index_and_notes_by_their_kind() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.db");
        crate::SqliteStore::open(&path).await.unwrap().close().await;
        let file = Connection::open(&path).unwrap();
        let without_notes = "SELECT count(*) FROM sqlite_schema WHERE type = 'index' AND tbl_name = 'document' \
            AND sql LIKE '%AND kind <> ''' || ? || ''''";
        let count: i64 = file.query_row(without_notes, [UNSENT_TURN], |row| row.get(0)).unwrap();
        assert_eq!(count, 2);
        for (sql, wanted) in [
            (FORGET[0], "INDEX document_session (tenant=? AND session=?)"),
            (FORGET[1], "PRIMARY KEY (tenant=? AND kind=?)"),
            (EXPIRE[0], "INDEX document_end (expires_at<?)"),
            (EXPIRE[1], "SEARCH note USING PRIMARY KEY (tenant=? AND kind=?)"),
        ] {
            let mut plan = file.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
            let steps = plan.query_map([1, 1], |row| row.get(3)).unwrap();
            let steps: Vec<String> = steps.collect::<Result<_, _>>().unwrap();
            assert!(steps.iter().any(|step| step.contains(wanted)), "{sql}: {steps:?}");
        }
    }
}
