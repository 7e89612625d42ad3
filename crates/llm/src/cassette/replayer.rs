//! Answering from recorded calls.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use futures_util::{FutureExt, StreamExt, stream};
use serde_json::Value;
use singletree_env::BoxFuture;

use super::entry::{CassetteEntry, CassetteHeader, RecordedOutcome, VERSION};
use super::request::{digest_request, request_to_json};
use crate::assemble::{ResponseAssembler, ResponseLimits};
use crate::delta::ResponseDelta;
use crate::error::{Error, ProviderErrorDetail, Result};
use crate::provider::{BoxStream, Provider};
use crate::request::Request;
use crate::response::Response;

/// A provider that answers from a cassette ([`CassetteRecorder`](crate::CassetteRecorder)). Always ready; never waits.
///
/// A request is found by its content. If the same request was recorded several times, the answers are played in the
/// order of recording, and then the last one again and again. A recorded stream can be requested whole, too; a call
/// that was not streamed cannot be streamed. A request that was not recorded is `provider_invalid_request`, which is
/// not retried; the error names the difference from the nearest recorded request. Recorded answers are checked as a
/// provider's are: a cassette cannot bring a malformed answer into a history.
#[derive(Debug)]
pub struct CassetteReplayer {
    model: String,
    streams: bool,
    calls: Vec<ReplayedCall>,
    /// How often each request was played, by its digest.
    plays: Mutex<BTreeMap<String, usize>>,
}

#[derive(Debug)]
struct ReplayedCall {
    digest: String,
    entry: CassetteEntry,
}

impl CassetteReplayer {
    /// Reads a cassette.
    ///
    /// # Errors
    ///
    /// `cassette_invalid`, with the line: it is no JSON of this form or of this version, a digest does not fit its
    /// request, or a call has no end.
    pub fn from_cassette_text(text: &str) -> Result<Self> {
        let mut lines =
            text.lines().enumerate().map(|(at, it)| (at + 1, it)).filter(|(_, it)| !it.trim().is_empty());
        let (line, head) = lines.next().ok_or_else(|| invalid_line_error(1, "the cassette is empty"))?;
        let head: CassetteHeader =
            serde_json::from_str(head).map_err(|error| unreadable_line_error(line, error))?;
        if head.cassette != VERSION {
            return Err(invalid_line_error(line, &format!("version {} is not known", head.cassette)));
        }
        let calls = lines.map(|(line, it)| parse_call_line(line, it)).collect::<Result<_>>()?;
        Ok(Self { model: head.model, streams: head.streams, calls, plays: Mutex::default() })
    }

    /// Returns how many calls were played.
    #[must_use]
    pub fn count_played_calls(&self) -> usize {
        self.plays.lock().unwrap_or_else(PoisonError::into_inner).values().sum()
    }

    /// Returns how many kept calls were not played yet.
    #[must_use]
    pub fn count_unplayed_calls(&self) -> usize {
        let plays = self.plays.lock().unwrap_or_else(PoisonError::into_inner);
        let mut kept: BTreeMap<&str, usize> = BTreeMap::new();
        for call in &self.calls {
            *kept.entry(&call.digest).or_default() += 1;
        }
        let left =
            kept.into_iter().map(|(it, kept)| kept.saturating_sub(plays.get(it).copied().unwrap_or(0)));
        left.sum()
    }

    /// Finds the next call of a request, of those that can be asked so.
    fn find_next_entry(&self, request: &Request, streaming: bool) -> Result<&CassetteEntry> {
        request.check()?;
        let asked = request_to_json(request);
        let name = digest_request(&asked);
        let kept: Vec<&ReplayedCall> = self.calls.iter().filter(|call| call.digest == name).collect();
        let mut plays = self.plays.lock().unwrap_or_else(PoisonError::into_inner);
        let played = plays.get(&name).copied().unwrap_or(0);
        let Some(call) = kept.get(played).or(kept.last()) else {
            drop(plays);
            return Err(unplayable_request_error(format!(
                "request {name} is not on the cassette{}",
                self.describe_nearest_call(&asked)
            )));
        };
        if streaming && call.entry.deltas.is_none() {
            return Err(unplayable_request_error(format!(
                "request {name} was kept whole, and cannot be streamed"
            )));
        }
        plays.insert(name, played + 1);
        Ok(&call.entry)
    }

    /// Says where the kept request differs that goes on longest with the one that was asked.
    fn describe_nearest_call(&self, asked: &Value) -> String {
        let common = |it: &ReplayedCall| {
            let pairs = request_messages(asked).iter().zip(request_messages(&it.entry.request));
            pairs.take_while(|(a, b)| a == b).count()
        };
        let best = self.calls.iter().enumerate().rev().max_by_key(|(_, it)| common(it));
        let Some((at, call)) = best else { return ", which has no calls".into() };
        let alike = common(call);
        let (ours, theirs) = (request_messages(asked).len(), request_messages(&call.entry.request).len());
        let what = if alike < ours.max(theirs) {
            format!("at messages[{alike}]")
        } else {
            let keys = ["tools", "tool_choice", "config", "response_schema"];
            let differs = |key: &&str| asked.get(*key) != call.entry.request.get(*key);
            format!("in {}", keys.into_iter().find(differs).unwrap_or("something else"))
        };
        format!("; the nearest, call {}, differs {what}", at + 1)
    }
}

fn request_messages(request: &Value) -> &[Value] {
    request.get("messages").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn parse_call_line(line: usize, text: &str) -> Result<ReplayedCall> {
    let entry: CassetteEntry =
        serde_json::from_str(text).map_err(|error| unreadable_line_error(line, error))?;
    let name = digest_request(&entry.request);
    if let Some(told) = entry.digest.as_ref().filter(|digest| **digest != name) {
        return Err(invalid_line_error(
            line,
            &format!("the digest {told} is not that of the request, {name}"),
        ));
    }
    match (&entry.deltas, &entry.ended) {
        (None, None) => return Err(invalid_line_error(line, "the call has no end")),
        (Some(_), Some(RecordedOutcome::Response(_))) => {
            return Err(invalid_line_error(line, "the call was streamed, and has a response of its own"));
        }
        (_, Some(RecordedOutcome::Error(failure))) => {
            drop(failure.restore_error().map_err(|error| invalid_line_error(line, &error))?)
        }
        (None, Some(RecordedOutcome::Response(_))) | (Some(_), None) => {}
    }
    Ok(ReplayedCall { digest: name, entry })
}

fn unreadable_line_error(line: usize, error: serde_json::Error) -> Error {
    Error::Cassette(
        ProviderErrorDetail::new(format!("the cassette does not read in line {line}")).with_source(error),
    )
}

fn invalid_line_error(line: usize, problem: &str) -> Error {
    Error::Cassette(ProviderErrorDetail::new(format!("line {line} of the cassette: {problem}")))
}

fn unplayable_request_error(problem: String) -> Error {
    Error::InvalidRequest(ProviderErrorDetail::new(problem))
}

/// Returns the recorded items of a stream.
fn recorded_stream_items(entry: &CassetteEntry) -> Vec<Result<ResponseDelta>> {
    let deltas = entry.deltas.iter().flatten().cloned().map(|delta| Ok(delta.into()));
    deltas.chain(recorded_error(entry).map(Err)).collect()
}

/// Returns the error that a call ended with, if it did.
fn recorded_error(entry: &CassetteEntry) -> Option<Error> {
    match &entry.ended {
        Some(RecordedOutcome::Error(failure)) => Some(
            failure.restore_error().unwrap_or_else(|error| Error::Cassette(ProviderErrorDetail::new(error))),
        ),
        Some(RecordedOutcome::Response(_)) | None => None,
    }
}

fn replay_response(entry: &CassetteEntry, request: &Request) -> Result<Response> {
    if let Some(RecordedOutcome::Response(answer)) = &entry.ended {
        return answer.restore_response().validate_against(request);
    }
    let mut assembler = ResponseAssembler::new(ResponseLimits::standard());
    for piece in recorded_stream_items(entry) {
        assembler.push_delta(piece?)?;
    }
    assembler.finish_response()?.validate_against(request)
}

impl Provider for CassetteReplayer {
    fn model_name(&self) -> &str {
        &self.model
    }

    fn ready(&self) -> BoxFuture<'_, Result<()>> {
        async { Ok(()) }.boxed()
    }

    fn complete<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<Response>> {
        async move { replay_response(self.find_next_entry(request, false)?, request) }.boxed()
    }

    fn can_stream(&self) -> bool {
        self.streams
    }

    fn stream_deltas<'a>(
        &'a self,
        request: &'a Request,
    ) -> BoxFuture<'a, Result<BoxStream<'a, Result<ResponseDelta>>>> {
        async move { Ok(stream::iter(recorded_stream_items(self.find_next_entry(request, true)?)).boxed()) }
            .boxed()
    }
}
