//! Decides whether a chat kept its promises: it compares the answers that clients received with the stored data.
//!
//! A history is the clients' own log: each call before it is made, each answer when it has come ([`Record`]). The
//! stored data is read back when nothing runs any more ([`StoredSession`]). [`audit`] compares the two and reports
//! each contradiction in one line: each session must be a list to which calls appended one after the other, in an
//! order that agrees with real time (per-session linearizable append), and every outcome that was told must be the
//! stored outcome.
//!
//! # Use Clients in this process call through a [`Client`], which keeps the log; others write [`Record`]s, one JSON
//! object a line, in the order in which they happened. [`StoredSession::read`] reads a session back; [`audit`]
//! returns a [`Report`].
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

pub use client::Client;
pub use end::End;
pub use history::{Deed, Record, Recorder, What};
pub use report::Report;
pub use rule::{Rule, Violation};
pub use rules::audit;
pub use stored::{StoredEvent, StoredMessage, StoredSession, StoredTurn, StoredWait, TurnSort, WaitState};
pub use tally::Tally;
