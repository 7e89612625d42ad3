//! The HTTP server: every protocol is a view of the same durable sessions.
//!
//! # Vocabulary
//! A *section* is one protocol: its routes, and its form of errors. A *caller* is the sender of a request: a tenant,
//! a name and scopes. A *problem* is the reason why a request fails: a category, a status and a hint. A *frame* is
//! one server-sent event.
//!
//! # Inside
//! `server` puts sections together and serves them; `caller` defines the callers; `problem` is the one type of
//! errors, which each section converts to its own protocol; `sse` writes streams. Each protocol is a folder of its
//! own: it converts requests to calls of [`singletree_harness::Chat`], and chat events to its own frames. Decisions
//! of the harness are not repeated here.
//!
//! # Invariants
//! INV-9, INV-12, INV-14, INV-15, INV-16 (see ARCHITECTURE.md).

mod arriving;
mod body;
mod caller;
mod compression;
mod correlation;
mod disconnect;
mod docs;
mod door;
mod error;
mod fold;
mod forward;
mod frame;
mod named_wait;
mod patient;
mod pictures;
mod problem;
mod quota;
mod request_id;
mod retry_chain;
mod running;
mod section;
mod server;
mod settings;
mod shared;
mod sse;
mod store_health;
mod stream_guard;
mod system;
mod telemetry;
mod told;
mod trace;
mod upkeep;

mod agui;
mod campaigns;
mod keys;
mod narration;
mod native;
mod nodes;
mod notify;
mod openai;
mod openharness;
mod page;
mod steerable;
mod ui_stream;

pub use caller::{Caller, Scope, parse_tenant_name};
pub use error::{Error, Result};
pub use forward::{note_session_owners, spawn_for_requests};
pub use keys::{AccessPolicy, Keyring, NewKey, RevocationLog, TokenPolicy, erase_tenant, tenants_with_keys};
pub use narration::{NarrationLimits, NarrationLog};
pub use nodes::NodeDirectory;
pub use notify::Webhook;
pub use openharness::Environments;
pub use quota::{KeyQuotas, Quotas, TenantQuotas};
pub use server::{Server, ServerBuilder};
pub use settings::ServerLimits;
pub use system::{SystemProbe, SystemUsage};
pub use telemetry::{LogSink, Telemetry};
