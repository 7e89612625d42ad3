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
use sha2::{Digest, Sha256};
use singletree_durable::{JsonDocument, RowMutation, SessionId, StoredDocument, TenantId, Timestamp};
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

/// The body of a note.
#[derive(Debug, Serialize, Deserialize)]
struct NoteBody {
    turn: TurnId,
    at: Timestamp,
    bytes: u64,
    no: u64,
    last_event: u64,
}

impl UnsentTurn {
    /// The kind of the documents that these notes are. Their ids are in the order of the ends of turns.
    pub const KIND: &'static str = "unsent_turn";

    /// Reads its document.
    ///
    /// # Errors
    /// `store_corrupt`.
    pub fn from_document(document: &StoredDocument) -> Result<Self> {
        let what = || format!("the document {} {}", document.key.kind, document.key.id);
        let body: NoteBody =
            document.body.decode().map_err(|error| store_corrupt_error(what(), Some(error.into())))?;
        let session = document.session.clone().ok_or_else(|| store_corrupt_error(what(), None))?;
        let NoteBody { turn, at, bytes, no, last_event } = body;
        Ok(Self { turn, session, at, bytes, no, last_event })
    }
}

impl NoteBody {
    fn document_id(&self) -> String {
        let digest = Sha256::digest(self.turn.to_string());
        let digits: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        format!("{:016}-{digits}", self.at.as_millis().max(0))
    }
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
                let (turn, bytes) = (row.turn_id(), writing.telemetry_bytes);
                let note = NoteBody { turn, at, bytes, no: row.no, last_event };
                Some(RowMutation::Document {
                    kind: UnsentTurn::KIND.to_owned(),
                    id: note.document_id(),
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
