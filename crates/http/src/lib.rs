//! The one HTTP client: limits, secrets, server-sent events, and where a call may go.
//!
//! # Vocabulary
//!
//! A *transport* carries one request to a server and brings the answer back, body piece by piece; it is the seam behind
//! which tests put a server of their own. A *secret* is text that is never printed. *Egress* is where a call may go.
//!
//! This crate knows no model, no tool and no protocol above HTTP. Nothing here retries, and nothing follows a redirect
//! unless it was told to.

mod error;

mod secret;
mod transport;

pub use error::{BoxError, Error, Result};
pub use secret::Secret;
pub use transport::{BoxFuture, BoxStream, HttpRequest, HttpResponse, Method, Transport};
