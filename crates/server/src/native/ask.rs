//! The inputs of a request besides its body: query parameters, and the form of the response.

use std::time::Duration;

use axum::extract::{FromRequestParts, Query};
use axum::http::header::ACCEPT;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName};
use serde::de::DeserializeOwned;
use singletree_durable::SessionId;

use crate::problem::RequestProblem;

/// The parameters of the query, read strictly: an unknown one is refused.
pub(crate) struct StrictQuery<T>(pub(crate) T);

impl<S: Sync, T: DeserializeOwned> FromRequestParts<S> for StrictQuery<T> {
    type Rejection = RequestProblem;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, RequestProblem> {
        let wrong = |it: &dyn std::fmt::Display| {
            RequestProblem::invalid_request(format!("the query is not what is expected: {it}"))
        };
        match Query::try_from_uri(&parts.uri) {
            Ok(Query(it)) => Ok(Self(it)),
            Err(error) => Err(match std::error::Error::source(&error) {
                Some(source) => wrong(source),
                None => wrong(&error),
            }),
        }
    }
}

/// Checks a session id that is not passed to the chat, which would check it itself.
///
/// # Errors
/// `harness_session_id_unresolved`.
pub(crate) fn check_session_id(session: &str) -> Result<(), RequestProblem> {
    let checked = SessionId::parse(session);
    checked.map(drop).map_err(|error| {
        RequestProblem::from_chat_error(&singletree_harness::Error::SessionId { why: error.to_string() })
    })
}

/// The number of entries on a page by default.
const PAGE: u64 = 100;

/// The maximum number of entries on a page.
const PAGE_MAX: u64 = 1000;

/// Returns the number of entries on a page.
pub(crate) fn resolve_page_limit(asked: Option<u64>) -> Result<u64, RequestProblem> {
    match asked {
        None => Ok(PAGE),
        Some(limit) if (1..=PAGE_MAX).contains(&limit) => Ok(limit),
        Some(_) => Err(RequestProblem::invalid_request(format!("limit has to be from 1 to {PAGE_MAX}"))
            .with_field("limit")),
    }
}

/// The form of the response to a request that starts a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TurnResponseMode {
    /// The outcome, as JSON.
    Outcome,
    /// The events of the turn, as they happen (`Accept: text/event-stream`).
    Events,
    /// The accepted turn, if it has not ended within this time (`Prefer: respond-async`, RFC 7240).
    Accepted(Duration),
}

/// The header with which a client chooses the form of the response.
const PREFER: HeaderName = HeaderName::from_static("prefer");

impl TurnResponseMode {
    /// Reads the headers.
    pub(crate) fn from_headers(headers: &HeaderMap) -> Self {
        if wants_events(headers) {
            return Self::Events;
        }
        let mut wait = None;
        let mut is_async = false;
        let texts = headers.get_all(PREFER).iter().filter_map(|item| item.to_str().ok());
        for preference in texts.flat_map(|text| text.split(',')) {
            let preference = preference.split(';').next().unwrap_or_default().trim();
            let (name, value) = preference.split_once('=').unwrap_or((preference, ""));
            match name.trim().to_ascii_lowercase().as_str() {
                "respond-async" => is_async = true,
                "wait" => wait = value.trim().trim_matches('"').parse().ok(),
                _ => {}
            }
        }
        match is_async {
            true => Self::Accepted(Duration::from_secs(wait.unwrap_or_default())),
            false => Self::Outcome,
        }
    }
}

/// Returns the time that a request waits for an outcome: `Prefer: wait=SECONDS` (RFC 7240).
pub(crate) fn read_preferred_wait(headers: &HeaderMap) -> Option<Duration> {
    let texts = headers.get_all(PREFER).iter().filter_map(|text| text.to_str().ok());
    let mut preferences =
        texts.flat_map(|text| text.split(',')).filter_map(|text| text.split(';').next()?.split_once('='));
    let (_, seconds) = preferences.find(|(name, _)| name.trim().eq_ignore_ascii_case("wait"))?;
    seconds.trim().trim_matches('"').parse().ok().map(Duration::from_secs)
}

/// Checks whether a request wants server-sent events: it names them and gives JSON no greater weight (RFC 9110
/// 12.4.2).
pub(crate) fn wants_events(headers: &HeaderMap) -> bool {
    let events = media_type_weight(headers, "text/event-stream");
    events.is_some_and(|events| {
        events > 0 && media_type_weight(headers, "application/json").is_none_or(|json| events >= json)
    })
}

/// Returns the weight of a media type in `Accept`, in thousandths; none if it is not named.
fn media_type_weight(headers: &HeaderMap, kind: &str) -> Option<u16> {
    let accepted = headers.get_all(ACCEPT).iter().filter_map(|text| text.to_str().ok());
    let weight = |range: &str| {
        let mut parts = range.split(';').map(str::trim);
        let is_named = parts.next().is_some_and(|text| text.eq_ignore_ascii_case(kind));
        let weight = parts
            .filter_map(|text| text.split_once('='))
            .find(|(name, _)| name.trim().eq_ignore_ascii_case("q"));
        let weight = weight.map_or(Some(1000), |(_, value)| parse_weight(value.trim()));
        is_named.then(|| weight.unwrap_or(1000))
    };
    accepted.flat_map(|text| text.split(',')).filter_map(weight).max()
}

/// Reads a weight such as `0.9`.
fn parse_weight(value: &str) -> Option<u16> {
    let (whole, part) = value.split_once('.').unwrap_or((value, ""));
    let whole: u16 = whole.parse().ok().filter(|whole| *whole <= 1)?;
    let part: u16 = format!("{part:0<3}").get(..3)?.parse().ok()?;
    Some((whole * 1000 + part).min(1000))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(of: &[(&str, &str)]) -> HeaderMap {
        of.iter().map(|(name, value)| (name.parse::<HeaderName>().unwrap(), value.parse().unwrap())).collect()
    }

    #[test]
    fn the_manner_is_read_from_accept_and_prefer() {
        let check = |of: &[(&str, &str)], manner| {
            assert_eq!(TurnResponseMode::from_headers(&headers(of)), manner, "{of:?}")
        };
        let at_once = TurnResponseMode::Accepted(Duration::ZERO);
        check(&[], TurnResponseMode::Outcome);
        check(&[("accept", "*/*")], TurnResponseMode::Outcome);
        check(&[("accept", "application/json")], TurnResponseMode::Outcome);
        check(&[("accept", "application/json, Text/Event-Stream")], TurnResponseMode::Events);
        check(&[("accept", "application/json, text/event-stream;q=0.9")], TurnResponseMode::Outcome);
        check(&[("accept", "application/json;q=0.5, text/event-stream;q=0.9")], TurnResponseMode::Events);
        check(&[("accept", "*/*, text/event-stream;q=0.9")], TurnResponseMode::Events);
        check(&[("accept", "text/event-stream;q=0")], TurnResponseMode::Outcome);
        check(&[("accept", "text/event-stream;q=0.000, application/json;q=0")], TurnResponseMode::Outcome);
        check(&[("accept", "text/event-stream; charset=utf-8; Q=1.0")], TurnResponseMode::Events);
        check(&[("accept", "text/event-stream"), ("prefer", "respond-async")], TurnResponseMode::Events);
        check(&[("prefer", "respond-async")], at_once);
        check(&[("prefer", "return=minimal, Respond-Async; foo=bar")], at_once);
        check(&[("prefer", "respond-async, wait=10")], TurnResponseMode::Accepted(Duration::from_secs(10)));
        check(
            &[("prefer", "wait=\"3\""), ("prefer", "respond-async")],
            TurnResponseMode::Accepted(Duration::from_secs(3)),
        );
        check(&[("prefer", "wait=10")], TurnResponseMode::Outcome);
        check(&[("prefer", "respond-asynchronously")], TurnResponseMode::Outcome);
    }
}
