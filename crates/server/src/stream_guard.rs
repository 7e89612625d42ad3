//! Ends a stream with its credentials (a key that is revoked or expires, a token, a sign-in) and with the server.
//!
//! The credentials are checked again by the rules of any request: immediately when a key or a sign-in changes in this
//! process, at the end of the caller's credentials, and otherwise at each heartbeat, for changes by other processes
//! or in files.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, BodyDataStream, Bytes};
use axum::extract::Request;
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE, COOKIE, HOST, HeaderName, ORIGIN};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::Response;
use futures_util::StreamExt;
use singletree_durable::{BoxError, Timestamp};
use singletree_env::TraceHeaders;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};

use crate::caller::Caller;
use crate::problem::RequestProblem;
use crate::quota::QuotaUsePermit;
use crate::section::{RequestContext, StreamFailure};
use crate::shared::ServerState;
use crate::sse::StreamShutdownMode;

/// The maximum time between two checks of a stream's credentials.
const CHECKED_EVERY: Duration = Duration::from_secs(15);

/// The time limit of one check. A store that does not answer ends no stream.
const CHECK_TIME: Duration = Duration::from_secs(5);

/// The time for which a stream may be silent after the server stops, before it counts as one whose turn goes on: the
/// last frames of a turn that has just ended are still being read.
const SETTLING: Duration = Duration::from_millis(100);

/// The total time for which a stream may go on after the server stops.
const LEAVING: Duration = Duration::from_millis(500);

/// The credentials in a request.
#[derive(Clone)]
pub(crate) struct Credentials {
    uri: Uri,
    headers: HeaderMap,
}

impl Credentials {
    /// Copies the credentials of a request.
    pub(crate) fn from_request(request: &Request) -> Self {
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

/// Checks whether a response is a stream of events.
fn is_event_stream(response: &Response) -> bool {
    let kind = response.headers().get(CONTENT_TYPE);
    kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"))
}

/// A stream ends within a frame.
#[derive(Debug)]
struct CutOff;

impl fmt::Display for CutOff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the stream ends within a frame")
    }
}

impl std::error::Error for CutOff {}

/// The end of each frame.
const END_OF_FRAME: [u8; 2] = *b"\n\n";

/// The next bytes of a stream, with the rest of it.
type NextBytes = Option<(Result<Bytes, axum::Error>, Option<GuardedStream>)>;

/// Checks the credentials of one stream.
pub(crate) struct StreamGuard {
    pub(crate) shared: Arc<ServerState>,
    pub(crate) caller: Caller,
    pub(crate) credentials: Credentials,
    /// The permit for the stream, from the quota of its caller.
    pub(crate) permit: Option<QuotaUsePermit>,
    /// Converts a failure for the protocol of the stream.
    pub(crate) stream_failure: StreamFailure,
    pub(crate) asked: RequestContext,
    /// The trace of the request, in which the stream is made.
    pub(crate) trace: Option<Arc<TraceHeaders>>,
}

/// A stream with its guard.
struct GuardedStream {
    frames: BodyDataStream,
    guard: StreamGuard,
    changes: watch::Receiver<u64>,
    check_at: Instant,
    /// Becomes true when the server stops.
    closing: watch::Receiver<bool>,
    /// The end of the stream's time, once the server stops.
    leave_by: Option<Instant>,
    end_at_stop: StreamShutdownMode,
    /// The end of the bytes that were passed on.
    passed: [u8; 2],
}

impl StreamGuard {
    /// Returns the response; if it is a stream, the guard watches it.
    ///
    /// # Errors
    /// `server_quota_exceeded` if the caller has the maximum number of streams, and no permit was taken for this one.
    pub(crate) fn guard_response(mut self, response: Response) -> Result<Response, RequestProblem> {
        if !is_event_stream(&response) {
            return Ok(response);
        }
        if self.permit.is_none() {
            let permit = self.shared.quotas.open_stream(&self.caller);
            self.permit = permit.map_err(|error| RequestProblem::quota_exceeded(&error))?;
        }
        let (mut parts, body) = response.into_parts();
        let end_at_stop =
            parts.extensions.remove::<StreamShutdownMode>().unwrap_or(StreamShutdownMode::Failure);
        let changes = self.shared.access.keyring().subscribe_changes();
        let (check_at, closing) = (self.next_check_time(), self.shared.closing.subscribe());
        let (frames, trace) = (body.into_data_stream(), self.trace.clone());
        let begin = Some(GuardedStream {
            frames,
            guard: self,
            changes,
            check_at,
            closing,
            leave_by: None,
            end_at_stop,
            passed: END_OF_FRAME,
        });
        let frames = futures_util::stream::unfold(begin, move |guarded| {
            TraceHeaders::scope(trace.clone(), async move { guarded?.next_bytes().await })
        });
        Ok(Response::from_parts(parts, Body::from_stream(frames)))
    }

    #[expect(clippy::disallowed_methods, reason = "time limits of connections are those of the runtime")]
    fn next_check_time(&self) -> Instant {
        let every = self.shared.limits.heartbeat.min(CHECKED_EVERY);
        Instant::now() + time_to_check(self.shared.now(), self.caller.valid_until, every)
    }

    /// Checks the credentials again. Returns the reason why the stream has to end.
    async fn check_credentials(&self) -> Option<RequestProblem> {
        let Credentials { uri, headers } = &self.credentials;
        match timeout(CHECK_TIME, self.shared.access.authenticate_request(uri, headers)).await {
            Ok(Ok(caller)) if caller.is_same_caller(&self.caller) => None,
            Ok(Ok(_)) => Some(RequestProblem::unauthorized()),
            Ok(Err(problem)) if is_refusal(problem.status) => Some(problem),
            Ok(Err(_)) | Err(_) => None,
        }
    }
}

impl GuardedStream {
    /// Returns the next bytes of the stream; none after a failure. An error closes the connection.
    #[expect(clippy::disallowed_methods, reason = "time limits of connections are those of the runtime")]
    async fn next_bytes(mut self) -> NextBytes {
        loop {
            let leave_by = self.leave_by;
            tokio::select! {
                biased;
                changed = self.changes.changed() => {
                    if changed.is_err() {
                        return None;
                    }
                }
                () = sleep_until(self.check_at) => {}
                // Frames that are ready go before the end.
                frame = self.frames.next() => {
                    return match frame? {
                        Ok(frame) => {
                            self.note_passed(&frame);
                            Some((Ok(frame), Some(self)))
                        }
                        Err(error) => self.end_at_break(error),
                    };
                }
                () = wait_for_stop(&mut self.closing, leave_by) => match (self.end_at_stop, leave_by) {
                    (StreamShutdownMode::Failure, None) => {
                        self.leave_by = Some(Instant::now() + LEAVING);
                        continue;
                    }
                    (StreamShutdownMode::Failure, Some(_)) | (StreamShutdownMode::Retry, _) => return self.end_at_shutdown(),
                },
            }
            if let Some(problem) = self.guard.check_credentials().await {
                let last = self.guard.encode_failure(&problem);
                return self.end_with(last, CutOff);
            }
            self.check_at = self.guard.next_check_time();
        }
    }

    /// Ends the stream of a turn that goes on after the next start of the server (D33).
    fn end_at_shutdown(self) -> NextBytes {
        let why = "the server has stopped; what it was asked for goes on after its next start";
        self.end_with(self.encode_end(why), CutOff)
    }

    /// Ends a stream whose server broke off. A clean end would look like a complete answer: where nothing can be said in the
    /// stream's own protocol, the connection is closed within the answer.
    fn end_at_break(self, error: axum::Error) -> NextBytes {
        let why = "the server that owns the session broke off; what it was asked for goes on at another one";
        match self.encode_end(why) {
            Some(last) => self.end_with(Some(last), error),
            None => Some((Err(error), None)),
        }
    }

    /// Ends a stream with these frames. Within a frame that another server has sent in part nobody would understand them: then
    /// the connection is closed.
    fn end_with(&self, last: Option<Bytes>, error: impl Into<BoxError>) -> NextBytes {
        if self.passed == END_OF_FRAME {
            return last.map(|last| (Ok(last), None));
        }
        Some((Err(axum::Error::new(error)), None))
    }

    /// Writes the last frames of a stream whose turn goes on elsewhere or later; none if its protocol has none.
    fn encode_end(&self, message: &str) -> Option<Bytes> {
        if let Some(hint) = self.end_at_stop.reconnect_hint() {
            return Some(hint.encode_frame());
        }
        let problem = RequestProblem::from_chat_error(&singletree_harness::Error::ShuttingDown);
        self.guard.encode_failure(&RequestProblem { message: message.to_owned(), ..problem })
    }

    fn note_passed(&mut self, bytes: &[u8]) {
        for byte in &bytes[bytes.len().saturating_sub(END_OF_FRAME.len())..] {
            self.passed = [self.passed[1], *byte];
        }
    }
}

impl StreamGuard {
    /// Writes a failure as the last frames of the stream; none if its protocol has no failure.
    fn encode_failure(&self, problem: &RequestProblem) -> Option<Bytes> {
        let frames = (self.stream_failure)(problem, &self.asked);
        let last: Vec<u8> = frames.iter().flat_map(|frame| frame.encode_frame()).collect();
        (!last.is_empty()).then(|| last.into())
    }
}

/// Waits until the server stops; after that, until a stream has been silent for long enough, or has used up its time.
#[expect(clippy::disallowed_methods, reason = "time limits of connections are those of the runtime")]
async fn wait_for_stop(closing: &mut watch::Receiver<bool>, leave_by: Option<Instant>) {
    match leave_by {
        None => drop(closing.wait_for(|closing| *closing).await),
        Some(leave_by) => sleep_until(leave_by.min(Instant::now() + SETTLING)).await,
    }
}

/// Checks whether a status refuses the caller, as opposed to an error of the check.
fn is_refusal(status: StatusCode) -> bool {
    status == StatusCode::UNAUTHORIZED || status == StatusCode::FORBIDDEN
}

/// Returns the time until the next check: until the end of the caller's credentials, and no longer than `every`.
fn time_to_check(now: Timestamp, valid_until: Option<Timestamp>, every: Duration) -> Duration {
    valid_until.map_or(every, |end| end.duration_since(now).min(every))
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
