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
//! [`contract`] holds the public suite that every implementation passes, [`FailAt`] the fault injector.
//!
//! # Invariants
//! INV-3, INV-4, INV-13, INV-14 (see ARCHITECTURE.md).

mod batch;
mod batched;
mod checkpoint;
pub mod checksum;
pub mod contract;
mod documents;
mod dossier;
mod error;
mod fault;
mod id;
mod journal;
mod journal_sessions;
mod json;
mod layer;
mod memory;
mod migration;
mod paused;
mod positions;
mod raw;
mod row;
mod session;
mod time;

pub use batch::{Batch, Put, Require};
pub use batched::Batched;
pub use checkpoint::{
    CheckpointFilter, CheckpointRecord, CheckpointState, CheckpointSummary, Checkpointer, EnclosingInstance,
    FanOutProgress, InstanceProgress, InstanceState,
};
pub use documents::{Blob, BlobAccount, BlobInfo, Change, Document, DocumentKey, Documents, Expect};
pub use dossier::{Dossier, Paused};
pub use error::{BoxError, Error, Result};
pub use fault::{FailAt, Land};
pub use id::{Fence, IdError, InvocationId, SessionId, SessionKey, SubjectId, TenantId};
pub use journal::{BoxFuture, ItemRange, Journal, SessionPage, TurnQuery, Upkeep, UsageOf, WaitQuery};
pub use journal_sessions::JournalSessions;
pub use json::Json;
pub use layer::{Layer, Read};
pub use memory::MemoryStore;
pub use migration::{MigrationError, MigrationErrorKind, Migrations};
pub use paused::{PausedRecord, PausedStatus, PausedStore};
pub use positions::{NodePosition, Positions};
pub use row::{
    AuditRow, Counters, EventRow, FieldRow, FieldValue, Head, ItemRow, MailRow, Parent, Placement,
    PositionRow, RecordRow, SessionRow, TurnKind, TurnRow, TurnStatus, UsageRow, WaitRow, WaitStatus,
};
pub use session::{Expected, SessionFilter, SessionRecord, SessionStore, SessionSummary, Version};
pub use time::Timestamp;
