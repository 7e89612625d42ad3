//! Hands out all rows of a database, for another store.

use std::ops::ControlFlow;
use std::path::Path;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row, TransactionBehavior};
use singletree_durable::archive::{ArchiveMetadata, ArchiveRows, ArchiveSource, ArchiveTable, ArchiveValue};
use singletree_durable::{
    BoxError, BoxFuture, Error, FencingToken, InvocationId, JsonDocument, Result, TenantId,
};
use tokio::sync::{mpsc, oneshot};

use crate::error::{translate_error, unavailable_error};
use crate::{SqliteStore, open, read, usual};

const DOING: &str = "read all of its rows";

/// How many bytes of rows are handed out at once, apart from those of the row that goes beyond it.
const BYTES: usize = 1024 * 1024;

/// How many parts wait for whoever takes them.
const WAITING: usize = 2;

/// The rows of a database.
#[derive(Debug)]
struct SqliteArchive {
    metadata: ArchiveMetadata,
    rows: mpsc::Receiver<Result<ArchiveRows>>,
}

impl ArchiveSource for SqliteArchive {
    fn metadata(&self) -> &ArchiveMetadata {
        &self.metadata
    }

    fn next_rows(&mut self) -> BoxFuture<'_, Result<Option<ArchiveRows>>> {
        Box::pin(async { self.rows.recv().await.transpose() })
    }
}

impl SqliteStore {
    /// Begins to read all rows of the database, as they are at one moment after the call. The file must be of the newest
    /// version, which opening it for writing makes it.
    ///
    /// # Errors
    /// `store_unavailable`, `store_closed`.
    ///
    /// # Cancellation
    /// Reading ends when the returned source is dropped.
    pub async fn read_archive(&self) -> Result<Box<dyn ArchiveSource>> {
        let (begun, has_begun) = oneshot::channel();
        let (sender, rows) = mpsc::channel(WAITING);
        let reading = self.run_on_own_thread(DOING, move |path| {
            let parts = PartSender(sender);
            match read_database(path, begun, &parts) {
                Ok(()) => {}
                Err(error) => drop(parts.0.blocking_send(Err(error))),
            }
            Ok(())
        });
        drop(reading);
        let mut rows = rows;
        match has_begun.await {
            Ok(metadata) => Ok(Box::new(SqliteArchive { metadata, rows })),
            // The error is the only part.
            Err(_) => match rows.recv().await {
                Some(Err(error)) => Err(error),
                _ => Err(Error::Closed),
            },
        }
    }
}

/// Hands out parts; a receiver that is gone ends the reading.
struct PartSender(mpsc::Sender<Result<ArchiveRows>>);

impl PartSender {
    fn send_rows(&self, table: ArchiveTable, rows: Vec<Vec<ArchiveValue>>) -> ControlFlow<()> {
        match self.0.blocking_send(Ok(ArchiveRows { table, rows })) {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    }
}

fn read_database(path: &Path, begun: oneshot::Sender<ArchiveMetadata>, parts: &PartSender) -> Result<()> {
    let failed = |error| translate_error(error, DOING);
    let mut connection = open::open_reader(path)?;
    let snapshot = connection.transaction_with_behavior(TransactionBehavior::Deferred).map_err(failed)?;
    let metadata = read_metadata(&snapshot)?;
    if begun.send(metadata).is_err() {
        return Ok(());
    }
    for table in ArchiveTable::ALL {
        if read_table(&snapshot, table, parts)?.is_break() {
            return Ok(());
        }
    }
    Ok(())
}

fn read_metadata(snapshot: &Connection) -> Result<ArchiveMetadata> {
    let read = |row: &Row<'_>| Ok((row.get(0)?, row.get::<_, Option<String>>(1)?, row.get::<_, i64>(2)?));
    let found = snapshot.query_row("SELECT log_epoch, name_key, fence FROM meta", [], read);
    let (log_epoch, name_key, fence) = found.map_err(|error| translate_error(error, DOING))?;
    let name_key = name_key.ok_or_else(|| unavailable_error(DOING, "an older version made the file"))?;
    Ok(ArchiveMetadata { log_epoch, name_key, fence: FencingToken(fence.cast_unsigned()) })
}

fn read_table(snapshot: &Connection, table: ArchiveTable, parts: &PartSender) -> Result<ControlFlow<()>> {
    let failed = |error| translate_error(error, DOING);
    let mut statement = snapshot.prepare(rows_sql(table)).map_err(failed)?;
    let columns = table.columns().len();
    let mut found = statement.query([]).map_err(failed)?;
    let (mut rows, mut bytes) = (Vec::new(), 0);
    while let Some(row) = found.next().map_err(failed)? {
        let mut values = Vec::with_capacity(columns);
        for at in 0..columns {
            values.push(read_value(row.get_ref(at).map_err(failed)?)?);
        }
        complete_row(snapshot, table, &mut values)?;
        bytes += values.iter().map(size_of_value).sum::<usize>();
        rows.push(values);
        if bytes >= BYTES {
            bytes = 0;
            if parts.send_rows(table, std::mem::take(&mut rows)).is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
    }
    if rows.is_empty() {
        return Ok(ControlFlow::Continue(()));
    }
    Ok(parts.send_rows(table, rows))
}

fn read_value(value: ValueRef<'_>) -> Result<ArchiveValue> {
    Ok(match value {
        ValueRef::Null => ArchiveValue::Null,
        ValueRef::Integer(number) => ArchiveValue::Number(number),
        ValueRef::Text(text) => {
            let text = str::from_utf8(text).map_err(|error| corrupt_error("a text", Some(error.into())))?;
            ArchiveValue::Text(text.to_owned())
        }
        ValueRef::Blob(bytes) => ArchiveValue::Bytes(bytes.to_owned()),
        ValueRef::Real(_) => return Err(corrupt_error("a number with a fraction", None)),
    })
}

fn corrupt_error(what: impl Into<String>, source: Option<BoxError>) -> Error {
    Error::Corrupt { what: what.into(), source }
}

fn size_of_value(value: &ArchiveValue) -> usize {
    match value {
        ArchiveValue::Null | ArchiveValue::Number(_) => 8,
        ArchiveValue::Text(text) => text.len(),
        ArchiveValue::Bytes(bytes) => bytes.len(),
    }
}

/// Replaces the values that are stored in a shorter form.
fn complete_row(snapshot: &Connection, table: ArchiveTable, row: &mut [ArchiveValue]) -> Result<()> {
    let names = table.columns().iter().map(|(name, _)| *name);
    match table {
        ArchiveTable::Session => {
            for (name, value) in names.zip(row) {
                let usual = match name {
                    "schema_version" => usual::SCHEMA,
                    "prompt_policy" => usual::POLICY,
                    _ => continue,
                };
                if let ArchiveValue::Text(text) = value {
                    *text = usual::restore_usual(std::mem::take(text), usual);
                }
            }
        }
        ArchiveTable::Checkpoint => {
            if let [
                ArchiveValue::Text(tenant),
                ArchiveValue::Text(invocation),
                ..,
                ArchiveValue::Text(body),
            ] = row
            {
                *body = read_whole_checkpoint(snapshot, tenant, invocation)?;
            }
        }
        _ => {}
    }
    Ok(())
}

/// Reads the record of a checkpoint with its completed positions, which are rows of their own here.
fn read_whole_checkpoint(snapshot: &Connection, tenant: &str, invocation: &str) -> Result<String> {
    let doubted = || corrupt_error(format!("the checkpoint {invocation}"), None);
    let tenant = TenantId::parse(tenant).map_err(|_| doubted())?;
    let invocation_id = InvocationId::parse(invocation).map_err(|_| doubted())?;
    let record = read::checkpoint::read_checkpoint(snapshot, &tenant, &invocation_id);
    let record = record.map_err(|error| translate_error(error, DOING))?.ok_or_else(doubted)?;
    let body = JsonDocument::from_serializable(&record).map_err(|error| unavailable_error(DOING, error))?;
    Ok(body.as_str().to_owned())
}

/// Returns the query of a table's rows, with the columns of [`ArchiveTable::columns`]. Names that are missing become NULL,
/// which the other store refuses.
fn rows_sql(table: ArchiveTable) -> &'static str {
    match table {
        ArchiveTable::Session => {
            "SELECT s.id, s.tenant, s.session, a.text, g.text, s.schema_version, s.version, s.prompt_policy, s.parent, \
             s.parent_offset, s.subject, s.created_at, s.updated_at, s.next_turn, s.next_item, s.next_event, s.next_wait \
             FROM session s LEFT JOIN name a ON a.id = s.agent LEFT JOIN name g ON g.id = s.graph ORDER BY s.id"
        }
        ArchiveTable::Former => {
            "SELECT tenant, session, next_turn, next_item, next_event, next_wait FROM former"
        }
        ArchiveTable::Field => "SELECT session, name, value, generation, len, bytes FROM field",
        ArchiveTable::Item => {
            "SELECT i.session, i.no, i.turn, n.text, i.generation, i.seq, i.side, i.body \
             FROM item i LEFT JOIN name n ON n.id = i.list ORDER BY i.id"
        }
        ArchiveTable::Turn => {
            "SELECT t.session, t.no, s.tenant, t.invocation, t.ordinal, t.kind, t.status, t.fence, t.deaths, a.text, g.text, \
             t.message, t.wait, t.key, t.digest, t.accepted_at, t.ended_at, t.outcome, t.retries FROM turn t \
             LEFT JOIN session s ON s.id = t.session LEFT JOIN name a ON a.id = t.agent LEFT JOIN name g ON g.id = t.graph \
             ORDER BY t.id"
        }
        ArchiveTable::Wait => {
            "SELECT w.session, w.no, s.tenant, w.signal, w.invocation, w.turn, w.status, w.metadata, w.action, w.deadline, \
             w.payload_schema, w.on_deadline, w.created_at, w.ended_by, w.answer, w.answered_by, w.ended_at FROM wait w \
             LEFT JOIN session s ON s.id = w.session ORDER BY w.id"
        }
        ArchiveTable::Mail => "SELECT session, signal, payload, sent_by, at FROM mail",
        ArchiveTable::Position => "SELECT session, invocation, turn, body FROM position",
        ArchiveTable::Record => "SELECT session, turn, name, body FROM record",
        ArchiveTable::Event => {
            "SELECT e.session, e.seq, e.turn, k.text, e.item, e.at, e.body FROM event e \
             LEFT JOIN name k ON k.id = e.kind ORDER BY e.id"
        }
        ArchiveTable::Usage => {
            "SELECT tenant, session, model, calls, prompt_tokens, completion_tokens, cached_tokens, cache_creation_tokens \
             FROM usage"
        }
        ArchiveTable::Audit => "SELECT at, action, tenant, session, done_by FROM audit ORDER BY id",
        ArchiveTable::Document => "SELECT tenant, kind, id, session, version, expires_at, body FROM document",
        ArchiveTable::Blob => {
            "SELECT tenant, digest, media_type, nullif(holder, ''), length(bytes), bytes FROM blob"
        }
        ArchiveTable::BlobUse => "SELECT tenant, session, digest FROM blob_use",
        ArchiveTable::Paused => "SELECT tenant, invocation, status, body FROM paused",
        ArchiveTable::Checkpoint => {
            "SELECT tenant, invocation, correlation, saved_at, positions, body FROM checkpoint ORDER BY id"
        }
    }
}
