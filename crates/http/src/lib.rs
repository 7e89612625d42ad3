//! The one HTTP client: limits, secrets, server-sent events, and where a call may go.
//!
//! # Vocabulary
//!
//! A *transport* carries one request to a server and brings the answer back, body piece by piece; it is the seam behind
//! which tests put a server of their own. A *secret* is text that is never printed. *Egress* is where a call may go; a
//! *reserved* address is one that is not of the public network. An *event* is one of a stream of server-sent events.
//!
//! This crate knows no model, no tool and no protocol above HTTP. Nothing here retries, and nothing follows a redirect
//! unless it was told to.

mod error;

mod limits;
mod redactor;
mod secret;

mod address;
mod egress;
mod resolver;

mod client;
mod follow;
mod retry_after;
mod sse;
mod transport;

pub use address::is_this_machine;
pub use client::HttpClient;
pub use egress::reserved_address_kind;
pub use error::{Error, Result};
pub use follow::get_following;
pub use limits::HttpLimits;
pub use redactor::Redactor;
pub use resolver::{Resolver, SystemResolver};
pub use retry_after::retry_after;
pub use secret::Secret;
pub use singletree_env::{BoxError, BoxFuture, TraceHeaders};
pub use sse::{EventReader, ReceivedEvent};
pub use transport::{BoxStream, HttpRequest, HttpResponse, Method, Transport, read_body};
