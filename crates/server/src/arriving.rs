//! A body that has to arrive in time: who sends a byte now and then holds nothing for long.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::Request;
use futures_util::StreamExt;
use tokio::time::{Instant, timeout_at};

/// Bytes for which a body gets a second more: what is large may take its time, at no less than this pace.
const BYTES_PER_SECOND: u64 = 64 << 10;

/// What became of a body.
#[derive(Debug, Clone, Default)]
pub(crate) struct Arrival {
    late: Arc<AtomicBool>,
}

impl Arrival {
    /// Tells whether it did not arrive in time.
    pub(crate) fn is_late(&self) -> bool {
        self.late.load(Ordering::Acquire)
    }
}

/// Why a body ends before its end.
#[derive(Debug, thiserror::Error)]
enum Failed {
    #[error("the body took too long to arrive")]
    Late,
    #[error("the body broke off")]
    Broken(#[source] axum::Error),
}

/// Bounds how long the body of a request may take: the time, and a second for each 64 KiB that came.
pub(crate) fn arriving(request: Request, time: Duration) -> (Request, Arrival) {
    let arrival = Arrival::default();
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
                (Ok::<Bytes, Failed>(piece), Some((body, deadline + more, late)))
            }
            Ok(Some(Err(error))) => (Err(Failed::Broken(error)), None),
            Err(_) => {
                late.store(true, Ordering::Release);
                (Err(Failed::Late), None)
            }
        })
    });
    (Request::from_parts(parts, Body::from_stream(pieces)), arrival)
}
