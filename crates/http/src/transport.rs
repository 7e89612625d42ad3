//! The seam: one request out, one answer back, its body piece by piece.

use std::fmt;
use std::pin::Pin;

use bytes::Bytes;
use futures_core::Stream;
use futures_util::StreamExt;
use singletree_env::BoxFuture;

use crate::error::{Error, Result};

/// A boxed stream.
pub type BoxStream<'a, T> = Pin<Box<dyn Stream<Item = T> + Send + 'a>>;

/// The method of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// Reads.
    Get,
    /// Sends.
    Post,
    /// Replaces.
    Put,
    /// Removes.
    Delete,
}

/// One request. `Debug` shows neither header values nor the body: keys and conversations stand there.
#[derive(Clone)]
pub struct HttpRequest {
    /// The method.
    pub method: Method,
    /// The whole address, `http` or `https`.
    pub url: String,
    /// Names in lower case, and their values.
    pub headers: Vec<(String, String)>,
    /// The body; empty is none.
    pub body: Bytes,
}

impl fmt::Debug for HttpRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("HttpRequest")
            .field("method", &self.method)
            .field("headers", &names)
            .field("body_bytes", &self.body.len())
            .finish_non_exhaustive()
    }
}

/// The answer to a request, as soon as its head is there.
pub struct HttpResponse {
    /// The status, 100 to 599.
    pub status: u16,
    /// Names in lower case, and their values, those that are text.
    pub headers: Vec<(String, String)>,
    /// The body, as it arrives. Ends after an error.
    pub body: BoxStream<'static, Result<Bytes>>,
}

impl HttpResponse {
    /// Returns the first value of a header; its name in lower case.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(it, _)| it == name).map(|(_, value)| value.as_str())
    }
}

impl fmt::Debug for HttpResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpResponse").field("status", &self.status).finish_non_exhaustive()
    }
}

/// Carries requests to servers.
///
/// # Contract
///
/// - Sends a request once: nothing is retried.
/// - Follows no redirect: the caller gets the 3xx answer.
/// - Every wait has a limit, the time between two pieces of a body too (D20).
///
/// # Cancellation
///
/// Dropping the future or the body ends the call and closes its connection.
pub trait Transport: fmt::Debug + Send + Sync {
    /// Sends one request. Returns when the head of the answer is there, whatever its status.
    ///
    /// # Errors
    ///
    /// Any category of [`Error`](crate::Error), here or in the body.
    fn send(&self, request: HttpRequest) -> BoxFuture<'_, Result<HttpResponse>>;
}

/// Reads a body to its end, up to so many bytes, whatever the transport's own limit is.
///
/// # Errors
///
/// Any category of [`Error`] that the body brings; `http_too_large` beyond the limit, where `host` names the server.
///
/// # Cancellation
///
/// Dropping the future ends the call.
pub async fn read_body(mut body: BoxStream<'static, Result<Bytes>>, limit: u64, host: &str) -> Result<Bytes> {
    let mut whole = Vec::new();
    while let Some(piece) = body.next().await {
        let piece = piece?;
        if (whole.len() + piece.len()) as u64 > limit {
            return Err(Error::TooLarge { host: host.to_owned(), limit });
        }
        whole.extend_from_slice(&piece);
    }
    Ok(whole.into())
}
