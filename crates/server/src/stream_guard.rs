//! A stream ends with what it was opened by: a key that is revoked or expires, a token, a sign-in.
//!
//! Who asks is settled anew, by the rules of any request: at once when a key or a sign-in changes in this process, at the moment
//! at which the caller's time is over, and otherwise at each heartbeat, for what other processes or files decide.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, BodyDataStream, Bytes};
use axum::extract::Request;
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE, COOKIE, HOST, HeaderName, ORIGIN};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::Response;
use futures_util::StreamExt;
use singletree_durable::Timestamp;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};

use crate::caller::Caller;
use crate::problem::Problem;
use crate::quota::UsePermit;
use crate::section::{Asked, StreamFailure};
use crate::shared::Shared;

/// The longest time between two looks at who a stream is for.
const CHECKED_EVERY: Duration = Duration::from_secs(15);

/// How long one look may take. A store that does not answer ends no stream.
const CHECK_TIME: Duration = Duration::from_secs(5);

/// What a request showed of who asks.
#[derive(Clone)]
pub(crate) struct Credentials {
    uri: Uri,
    headers: HeaderMap,
}

impl Credentials {
    /// Takes down what a request shows.
    pub(crate) fn of(request: &Request) -> Self {
        let shown = [AUTHORIZATION, COOKIE, HOST, ORIGIN, HeaderName::from_static("sec-fetch-site")];
        let mut headers = HeaderMap::new();
        for name in shown {
            for value in request.headers().get_all(&name) {
                headers.append(name.clone(), value.clone());
            }
        }
        Self { uri: request.uri().clone(), headers }
    }
}

/// Tells whether a response is a stream of events.
fn is_stream(response: &Response) -> bool {
    let kind = response.headers().get(CONTENT_TYPE);
    kind.is_some_and(|it| it.as_bytes().starts_with(b"text/event-stream"))
}

/// Looks after one stream.
pub(crate) struct StreamGuard {
    pub(crate) shared: Arc<Shared>,
    pub(crate) caller: Caller,
    pub(crate) credentials: Credentials,
    /// The place of the stream among those of its caller.
    pub(crate) permit: Option<UsePermit>,
    /// How its protocol words a failure.
    pub(crate) stream_failure: StreamFailure,
    pub(crate) asked: Asked,
}

/// A stream that is looked after.
struct Guarded {
    frames: BodyDataStream,
    guard: StreamGuard,
    changes: watch::Receiver<u64>,
    check_at: Instant,
}

impl StreamGuard {
    /// Returns the answer, with its stream looked after if it is one.
    ///
    /// # Errors
    /// The caller has as many streams as it may, where no place was taken for this one.
    pub(crate) fn look_after(mut self, response: Response) -> Result<Response, Problem> {
        if !is_stream(&response) {
            return Ok(response);
        }
        if self.permit.is_none() {
            let permit = self.shared.quotas.open_stream(&self.caller);
            self.permit = permit.map_err(|it| Problem::quota_exceeded(&it))?;
        }
        let (parts, body) = response.into_parts();
        let changes = self.shared.access.keyring().changes();
        let check_at = self.next_check();
        let begin = Some(Guarded { frames: body.into_data_stream(), guard: self, changes, check_at });
        let frames = futures_util::stream::unfold(begin, |guarded| async move { guarded?.next().await });
        Ok(Response::from_parts(parts, Body::from_stream(frames.map(Ok::<_, Infallible>))))
    }

    fn next_check(&self) -> Instant {
        let every = self.shared.limits.heartbeat.min(CHECKED_EVERY);
        Instant::now() + time_to_check(self.shared.now(), self.caller.valid_until, every)
    }

    /// Settles anew who asks. Returns why the stream has to end.
    async fn check(&self) -> Option<Problem> {
        let Credentials { uri, headers } = &self.credentials;
        match timeout(CHECK_TIME, self.shared.access.caller(uri, headers)).await {
            Ok(Ok(caller)) if caller.is_same(&self.caller) => None,
            Ok(Ok(_)) => Some(Problem::unauthorized()),
            Ok(Err(problem)) if is_refusal(problem.status) => Some(problem),
            Ok(Err(_)) | Err(_) => None,
        }
    }
}

impl Guarded {
    /// Returns what comes next; after a failure, nothing does.
    async fn next(mut self) -> Option<(Bytes, Option<Self>)> {
        loop {
            tokio::select! {
                biased;
                changed = self.changes.changed() => {
                    if changed.is_err() {
                        return None;
                    }
                }
                () = sleep_until(self.check_at) => {}
                frame = self.frames.next() => {
                    // A stream of ours does not fail.
                    let frame = frame?.ok()?;
                    return Some((frame, Some(self)));
                }
            }
            if let Some(problem) = self.guard.check().await {
                let last = (self.guard.stream_failure)(&problem, &self.guard.asked);
                let last: Vec<u8> = last.iter().flat_map(|frame| frame.bytes()).collect();
                return (!last.is_empty()).then(|| (last.into(), None));
            }
            self.check_at = self.guard.next_check();
        }
    }
}

/// Tells whether a status says that the caller may not ask, and not that nobody knows.
fn is_refusal(status: StatusCode) -> bool {
    status == StatusCode::UNAUTHORIZED || status == StatusCode::FORBIDDEN
}

/// Returns how long to wait before the next look: until the caller's time is over, and no longer than `every`.
fn time_to_check(now: Timestamp, valid_until: Option<Timestamp>, every: Duration) -> Duration {
    valid_until.map_or(every, |end| end.since(now).min(every))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_look_is_at_the_end_of_the_callers_time_and_no_later_than_a_heartbeat() {
        let (now, every) = (Timestamp::from_millis(1_000), Duration::from_secs(15));
        let check = |end: Option<i64>, millis: u64| {
            let wait = time_to_check(now, end.map(Timestamp::from_millis), every);
            assert_eq!(wait, Duration::from_millis(millis), "{end:?}");
        };
        check(None, 15_000);
        check(Some(60_000), 15_000);
        check(Some(1_250), 250);
        check(Some(1_000), 0);
        check(Some(10), 0);
    }
}
