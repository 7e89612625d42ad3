//! A time limit for the bodies of requests, so that a client that sends a byte now and then cannot hold resources for
//! long.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::Request;
use futures_util::StreamExt;
use tokio::time::{Instant, timeout_at};

/// The number of bytes for which a body gets one more second: a large body may take its time, at this rate at least.
const BYTES_PER_SECOND: u64 = 64 << 10;

/// Whether a body arrived in time.
#[derive(Debug, Clone, Default)]
pub(crate) struct BodyArrival {
    late: Arc<AtomicBool>,
}

impl BodyArrival {
    /// Checks whether the body was too late.
    pub(crate) fn is_late(&self) -> bool {
        self.late.load(Ordering::Acquire)
    }
}

/// The reason why a body ends early.
#[derive(Debug, thiserror::Error)]
enum BodyReadError {
    #[error("the body took too long to arrive")]
    Late,
    #[error("the body broke off")]
    Broken(#[source] axum::Error),
}

/// Bounds the time in which the body of a request arrives: `time`, and one second more for each 64 KiB received.
#[expect(clippy::disallowed_methods, reason = "time limits of connections are those of the runtime")]
pub(crate) fn limit_arrival_time(request: Request, time: Duration) -> (Request, BodyArrival) {
    let arrival = BodyArrival::default();
    if request.body().is_end_stream() {
        return (request, arrival);
    }
    let (parts, body) = request.into_parts();
    let late = arrival.late.clone();
    let begin = Some((body.into_data_stream(), Instant::now() + time, late));
    let pieces = futures_util::stream::unfold(begin, |going| async move {
        let (mut body, deadline, late) = going?;
        Some(match timeout_at(deadline, body.next()).await {
            Ok(None) => return None,
            Ok(Some(Ok(piece))) => {
                let more = Duration::from_micros(piece.len() as u64 * 1_000_000 / BYTES_PER_SECOND);
                (Ok::<Bytes, BodyReadError>(piece), Some((body, deadline + more, late)))
            }
            Ok(Some(Err(error))) => (Err(BodyReadError::Broken(error)), None),
            Err(_) => {
                late.store(true, Ordering::Release);
                (Err(BodyReadError::Late), None)
            }
        })
    });
    (Request::from_parts(parts, Body::from_stream(pieces)), arrival)
}
