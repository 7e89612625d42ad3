//! The routes of narration, in the native API's words.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt;
use singletree_narration::{NarrationKind, Speaker, Whose};
use singletree_protocol::native;

use super::view::Told;
use crate::caller::{By, Scope};
use crate::native::{Params, is_session_id, render, time, wants_events};
use crate::problem::Problem;
use crate::section::{Operation, Route, Section};
use crate::shared::Shared;
use crate::sse::{self, Frame};

/// The header in which browsers send the id of the last event that they received.
const LAST_EVENT_ID: &str = "last-event-id";

/// Returns the section of narration.
pub(crate) fn section() -> Section {
    let read = Operation::new("readNarration", "Reads what was narrated")
        .about(
            "Status, explanations, questions, progress and errors, told for people. It is held for a while and not for ever, is \
             empty after a restart, and may be empty at any time: nothing depends on it, and what counts is read elsewhere \
             (messages, turns, pending waits). With `Accept: text/event-stream` what is said follows, as it is said. A session \
             that is not there has no narration.",
        )
        .tag("narration")
        .header("Last-Event-ID", "The id of the last piece that was seen; as `after`.")
        .query::<native::NarrationQuery>()
        .answers::<native::NarrationList>(200, "What is held.")
        .streams::<native::Narration>(200, "What is held, then what is said, until either side ends the stream.")
        .found_or_not();
    let delete = Operation::new("deleteNarration", "Deletes what was narrated")
        .about("At any time, as often as one likes. Nothing else changes by it.")
        .tag("narration")
        .answers_nothing(204, "Nothing is held of it any more.")
        .found_or_not();
    let path = "/v1/sessions/{session}/narration";
    let routes = vec![
        Route::get(path, look).needs(Scope::Read).documented(read),
        Route::delete(path, forget).needs(Scope::Write).documented(delete),
    ];
    Section::new("narration", render, routes)
}

async fn look(
    State(shared): State<Arc<Shared>>,
    By(caller): By,
    Path(session): Path<String>,
    Params(query): Params<native::NarrationQuery>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    is_session_id(&session)?;
    let view = shared.narration_of(&caller.tenant, &session);
    let seen =
        headers.get(LAST_EVENT_ID).map(|header| String::from_utf8_lossy(header.as_bytes()).into_owned());
    let after = seen.or(query.after);
    if wants_events(&headers) {
        let frames = view.follow(after.as_deref()).map(|follow| frame(&follow));
        return Ok(sse::resumable_stream(&shared, frames));
    }
    let items = view.held(after.as_deref()).iter().map(written).collect();
    Ok(Json(native::NarrationList { items, enabled: shared.narration.is_on() }).into_response())
}

async fn forget(
    State(shared): State<Arc<Shared>>,
    By(caller): By,
    Path(session): Path<String>,
) -> Result<StatusCode, Problem> {
    is_session_id(&session)?;
    shared.narration.forget(Whose { tenant: caller.tenant.as_str(), session: &session });
    Ok(StatusCode::NO_CONTENT)
}

fn frame(told: &Told) -> Frame {
    let data = serde_json::to_string(&written(told)).unwrap_or_default();
    Frame { id: Some(told.id.clone()), ..Frame::data(data) }
}

/// Writes a piece as the wire has it.
fn written(told: &Told) -> native::Narration {
    let narration = &told.narration;
    native::Narration {
        id: told.id.clone(),
        timestamp: time(narration.timestamp.into()),
        role: match narration.role {
            Speaker::System => native::NarrationRole::System,
            Speaker::Agent => native::NarrationRole::Agent,
            Speaker::User => native::NarrationRole::User,
        },
        kind: match narration.kind {
            NarrationKind::Status => native::NarrationKind::Status,
            NarrationKind::Explanation => native::NarrationKind::Explanation,
            NarrationKind::Ask => native::NarrationKind::Ask,
            NarrationKind::Progress => native::NarrationKind::Progress,
            NarrationKind::Error => native::NarrationKind::Error,
        },
        content: narration.content.clone(),
    }
}
