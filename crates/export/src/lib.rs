//! Exports the traces of ended turns, each until a receiver has taken it.
//!
//! # Vocabulary
//!
//! The commit that ends a turn also writes a *note* that its trace is to be exported
//! ([`UnsentTurn`](singletree_harness::UnsentTurn)). A [`TraceExporter`] reads the notes, renders the *spans* of the turns
//! from their stored records, sends them to a [`SpanReceiver`](singletree_telemetry::SpanReceiver), and removes the notes.
//! The notes of a tenant that wait are its *backlog*.
//!
//! No span is sent of something that is not stored, and a process that dies, or a receiver that is away, loses none: the
//! notes are in the store. After a crash a turn may be sent twice, with the same ids. A turn is never slower since its trace
//! is exported: that happens after its end, and by reads of the log.
//!
//! A *backfill* sends turns of a time that is over once more ([`TraceExporter::backfill`]).
//!
//! # Bounds
//!
//! Turns that a receiver takes for none of [`ExportLimits`]' time and bytes are given up, the oldest first, and counted
//! ([`ExportCounts`]). Their records stay with their sessions.

mod backfill;
mod backlog;
mod claim;
mod counts;
mod error;
mod exporter;
mod limits;
mod sending;

pub use backfill::{BackfillRange, BackfillReport};
pub use backlog::TenantBacklog;
pub use counts::{ExportCounts, ExportProblem, SkipReason};
pub use error::{Error, Result};
pub use exporter::{OnExportProblem, RedactText, TraceExporter};
pub use limits::ExportLimits;
pub use singletree_telemetry::TraceSampling;
