//! Decides whether a chat kept its promises: it compares the answers that clients received with the stored data.
//!
//! A history is the clients' own log: each call before it is made, each answer when it has come ([`HistoryRecord`]).
//! The stored data is read back when nothing runs any more ([`StoredSession`]). [`audit_sessions`] compares the two and
//! reports each contradiction in one line: each session must be a list to which calls appended one after the other, in
//! an order that agrees with real time (per-session linearizable append), and every outcome that was told must be the
//! stored outcome.
//!
//! # Use
//! Clients in this process call through an [`AuditedClient`], which keeps the log; others write [`HistoryRecord`]s, one
//! JSON object a line, in the order in which they happened. [`StoredSession::read_from_store`] reads a session back;
//! [`audit_sessions`] returns an [`AuditReport`].
//!
//! # Inside
//! `history` and `stored` are the two sides; `rules/` compares them, one concern a file, without I/O.
//!
//! # Invariants
//! It checks INV-1, INV-2, INV-3, INV-6, INV-7, INV-8 (see ARCHITECTURE.md).

mod client;
mod end;
mod history;
mod report;
mod rule;
mod rules;
mod stored;
mod tally;

pub use client::AuditedClient;
pub use end::AuditedOutcome;
pub use history::{ClientOperation, HistoryEvent, HistoryRecord, HistoryRecorder};
pub use report::AuditReport;
pub use rule::{AuditRule, RuleViolation};
pub use rules::audit_sessions;
pub use stored::{
    AuditedTurnKind, AuditedWaitState, StoredEvent, StoredMessage, StoredSession, StoredTurn, StoredWait,
};
pub use tally::RaceStatistics;
