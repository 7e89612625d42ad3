//! The storage traits and their contracts.
//!
//! # Vocabulary
//! A *session* is a conversation under a [`SessionKey`]. A *turn* is one bounded execution in answer to one message or
//! one signal; it ends once. An *invocation* is the work that one message started: its turn and every resuming turn. An
//! *item* is one element of a list field (a message, in a chat). A *wait* is the record of a suspension. A *position*
//! is the place where an unfinished invocation continues. An *event* is an entry of a session's durable log.
//!
//! # Two levels
//! - [`SessionStore`], [`PausedStore`] and [`Checkpointer`] are the small public traits of the sessions, suspension and
//!   pipeline-utilities specifications: whole records, anyone can implement them.
//! - [`Journal`] is the storage trait of the chat harness: one write, [`Journal::apply`], that commits a whole
//!   transition or nothing, and a handful of reads. It contains no chat terms.
//!
//! The package `singletree-store-testing` has the public suite that every implementation passes, and a fault injector.
//!
//! # Invariants
//! INV-3, INV-4, INV-13, INV-14 (see ARCHITECTURE.md).

pub mod archive;
mod batch;
mod batched;
mod changes;
mod checkpoint;
pub mod checksum;
mod documents;
mod dossier;
mod error;
mod id;
mod journal;
mod journal_sessions;
mod json;
mod layer;
mod lease;
mod memory;
mod migration;
mod paused;
mod positions;
mod raw;
mod row;
mod served;
mod session;

pub use batch::{Batch, BatchPrecondition, RowMutation};
pub use batched::BatchedCheckpointer;
pub use changes::{ChangeFollower, CommittedChange, CommittedChanges, CreatedSession};
pub use checkpoint::{
    CheckpointFilter, CheckpointRecord, CheckpointState, CheckpointSummary, Checkpointer, EnclosingInstance,
    FanOutProgress, InstanceProgress, InstanceState,
};
pub use documents::{
    BlobMetadata, DocumentChange, DocumentKey, DocumentPrecondition, DocumentStore, StoredBlob,
    StoredDocument, TenantBlobTotals, UNSENT_TURN,
};
pub use dossier::{PausedInvocation, SessionSnapshot};
pub use error::{Error, Result};
pub use id::{FencingToken, InvalidIdentifier, InvocationId, SessionId, SessionKey, SubjectId, TenantId};
pub use journal::{
    ItemRange, Journal, JournalMaintenance, LoggedTurn, LoggedTurnQuery, SessionPage, TurnRowQuery,
    UsageRowQuery, WaitRowQuery,
};
pub use journal_sessions::JournalSessions;
pub use json::JsonDocument;
pub use layer::{JournalLayer, JournalRead, MaintenanceLayer};
pub use lease::{AcquiredSession, LeaseTable};
pub use memory::MemoryStore;
pub use migration::{MigrationError, MigrationErrorKind, StateMigrations};
pub use paused::{PausedRecord, PausedStatus, PausedStore};
pub use positions::{NodePosition, PositionHistory};
pub use row::{
    AuditRow, Counters, EarlySignalRow, EventRow, FieldRow, FieldValue, ItemPlacement, ListItemRow,
    ParentSession, PositionRow, RecordRow, SessionHead, SessionRow, StoredTurnKind, StoredTurnStatus,
    StoredWaitStatus, TurnRow, UsageRow, WaitRow,
};
pub use served::{ServedGraph, ServedGraphs};
pub use session::{
    ExpectedVersion, RecordVersion, SessionFilter, SessionRecord, SessionStore, SessionSummary,
};
pub use singletree_env::{BoxError, BoxFuture, Timestamp};
