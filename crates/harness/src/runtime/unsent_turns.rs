//! Which ended turns are still to be exported as traces.
//!
//! Where telemetry is exported, the commit that ends a turn also writes a note that says so, as a document of the session.
//! Whoever exports removes it once a receiver has taken the turn's spans. So no crash comes between a turn and its export,
//! unsent turns survive any restart, and a session that is deleted takes its notes with it. A note names the turn
//! and holds none of its records: these are read from the log.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use singletree_durable::{
    BoxError, JsonDocument, RowMutation, SessionId, StoredDocument, TenantId, Timestamp, UNSENT_TURN,
};
use singletree_session::{BatchBuilder, TurnId, TurnRowExt, event_kinds};
use singletree_telemetry::TraceContext;
use tokio::sync::Notify;

use crate::Result;
use crate::error::store_corrupt_error;

/// An ended turn whose spans no receiver has taken yet.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnsentTurn {
    /// The turn.
    pub turn: TurnId,
    /// Its session.
    pub session: SessionId,
    /// When it ended.
    pub at: Timestamp,
    /// How many bytes its records have, as far as the process that ended it knows.
    pub bytes: u64,
    /// The number of the turn in the session.
    pub(crate) no: u64,
    /// The number of the event that ended it.
    pub(crate) last_event: u64,
}

/// The body of a note: the bytes of the turn's records, its number, and that of its last event. Turn and time are in the id only,
/// because the size of a note makes the commit that ends the turn slower.
#[derive(Debug, Serialize, Deserialize)]
struct NoteBody(u64, u64, u64);

/// The body of a note of [`UnsentTurn::OLD_KIND`].
#[derive(Debug, Deserialize)]
struct OldNoteBody {
    turn: TurnId,
    at: Timestamp,
    bytes: u64,
    no: u64,
    last_event: u64,
}

impl UnsentTurn {
    /// The kind of the documents that these notes are. Their ids are in the order of the ends of turns.
    pub const KIND: &'static str = UNSENT_TURN;

    /// The kind of the notes of earlier versions, whose servers still write them while they are replaced one by one.
    pub const OLD_KIND: &'static str = "unsent_turn";

    /// Reads its document.
    ///
    /// # Errors
    /// `store_corrupt`.
    pub fn from_document(document: &StoredDocument) -> Result<Self> {
        let what = || format!("the document {} {}", document.key.kind, document.key.id);
        let unreadable = |error: Option<BoxError>| store_corrupt_error(what(), error);
        let session = document.session.clone().ok_or_else(|| unreadable(None))?;
        if document.key.kind == Self::OLD_KIND {
            let decoded = document.body.decode::<OldNoteBody>();
            let OldNoteBody { turn, at, bytes, no, last_event } =
                decoded.map_err(|error| unreadable(Some(error.into())))?;
            return Ok(Self { turn, session, at, bytes, no, last_event });
        }
        let (at, turn) = parse_document_id(&document.key.id).ok_or_else(|| unreadable(None))?;
        let decoded = document.body.decode();
        let NoteBody(bytes, no, last_event) = decoded.map_err(|error| unreadable(Some(error.into())))?;
        Ok(Self { turn, session, at, bytes, no, last_event })
    }
}

/// Returns the id of a note: ids are in the order of the ends of turns.
fn format_document_id(at: Timestamp, turn: &TurnId) -> String {
    format!("{:016}-{turn}", at.as_millis().max(0))
}

fn parse_document_id(id: &str) -> Option<(Timestamp, TurnId)> {
    let (at, turn) = id.split_once('-')?;
    Some((Timestamp::from_millis(at.parse().ok()?), turn.parse().ok()?))
}

/// Tells of ended turns whose traces are to be exported, in this process. A clone tells of the same.
#[derive(Debug, Clone)]
pub struct UnsentTurns {
    /// How long a note is kept; none where nothing is exported.
    kept: Option<Duration>,
    new: Arc<NewNotes>,
}

/// The tenants that have new notes.
#[derive(Debug, Default)]
struct NewNotes {
    /// Held for a change only.
    tenants: Mutex<BTreeSet<TenantId>>,
    written: Notify,
}

impl UnsentTurns {
    pub(crate) fn new(kept: Option<Duration>) -> Self {
        Self { kept, new: Arc::default() }
    }

    pub(crate) fn notes_turns(&self) -> bool {
        self.kept.is_some()
    }

    /// Waits until turns have ended of which [`take_tenants`](Self::take_tenants) has not told.
    ///
    /// # Cancellation
    /// Dropping the future changes nothing.
    pub async fn wait(&self) {
        while self.new.lock_tenants().is_empty() {
            self.new.written.notified().await;
        }
    }

    /// Returns the tenants of the turns that have ended since the last call. Their notes, and those of other processes, are
    /// documents of the kind [`UnsentTurn::KIND`].
    #[must_use]
    pub fn take_tenants(&self) -> BTreeSet<TenantId> {
        std::mem::take(&mut *self.new.lock_tenants())
    }

    /// Returns the notes of the turns that a batch ends; none of an invocation that is left out of the export.
    pub(crate) fn documents_for_batch(&self, writing: &BatchBuilder) -> Vec<RowMutation> {
        let Some(kept) = self.kept else { return Vec::new() };
        let context = writing.trace.as_ref().and_then(|trace| TraceContext::from_header(trace.traceparent()));
        if context.is_some_and(|context| !context.is_sampled) {
            return Vec::new();
        }
        let note = |put: &RowMutation| match put {
            RowMutation::Turn(row) if row.status.is_ended() => {
                let at = row.ended_at.unwrap_or(writing.now);
                let last_event = find_last_event(writing, row.no)?;
                let note = NoteBody(writing.telemetry_bytes, row.no, last_event);
                Some(RowMutation::Document {
                    kind: UnsentTurn::KIND.to_owned(),
                    id: format_document_id(at, &row.turn_id()),
                    body: JsonDocument::from_serializable(&note).ok()?,
                    expires_at: Some(at.saturating_add(kept)),
                    outlives: false,
                })
            }
            _ => None,
        };
        writing.batch.puts.iter().filter_map(note).collect()
    }

    /// Tells that a tenant has new notes, once they are stored.
    pub(crate) fn report_new_notes(&self, tenant: &TenantId) {
        self.new.lock_tenants().insert(tenant.clone());
        self.new.written.notify_one();
    }
}

impl NewNotes {
    fn lock_tenants(&self) -> MutexGuard<'_, BTreeSet<TenantId>> {
        self.tenants.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the number of the event by which a batch ends a turn.
fn find_last_event(writing: &BatchBuilder, turn: u64) -> Option<u64> {
    writing.batch.puts.iter().find_map(|put| match put {
        RowMutation::Event(row) if row.turn == turn && event_kinds::ends_turn(&row.kind) => Some(row.seq),
        _ => None,
    })
}
