//! AG-UI 1.0 at `/v1/agui`: a thread is a session, a run is a turn, an interrupt is a wait.
//!
//! The messages, the state and the tools that a client posts are its own view and not authoritative (D16). The server
//! takes only the last message of the user, if the session does not have it, and corrects the client where its other
//! messages differ from the transcript. `said` reads the request, `run` executes it, `telling` turns events into
//! AG-UI events, `mirror` tracks the messages that the client holds.
//!
//! | case | events for the client |
//! |---|---|
//! | any run | `RUN_STARTED`; `MESSAGES_SNAPSHOT` if the client's messages differ from the transcript |
//! | completed | the messages, `RUN_FINISHED` |
//! | suspended | `RUN_FINISHED` with an interrupt, which the next run's `resume` answers |
//! | a message while the session is suspended | `RUN_ERROR`: the interrupt is answered first, or along with it |
//! | cancelled | `RUN_FINISHED`, cancelled; without an outcome where the client speaks a version before 1.0 |
//! | errored | the transcript and the unanswered message, `RUN_ERROR` |
//! | the message of the newest turn, which has failed, in another run | as any run: the turn is retried (D29) |
//!
//! Messages of failed turns that a client holds are no part of the transcript; they stay in their place.

mod failed;
mod interrupt;
mod mirror;
mod problem;
mod run;
mod said;
mod telling;
mod truth;
mod turns;
mod unanswered;
mod view;

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use singletree_harness::OnDisconnect;
use singletree_protocol::agui::{OURS, RunAgentInput};

use crate::body::JsonPayload;
use crate::caller::{Caller, RequestCaller, Scope};
use crate::disconnect::on_disconnect;
use crate::problem::RequestProblem;
use crate::running;
use crate::section::{ApiRoute, ProtocolSection};
use crate::shared::ServerState;
use crate::sse;

/// Returns the AG-UI section.
pub(crate) fn section() -> ProtocolSection {
    let routes = vec![
        ApiRoute::post("/v1/agui", any).needs(Scope::Write).streams(),
        ApiRoute::post("/v1/agui/{agent}", named).needs(Scope::Write).streams(),
        ApiRoute::delete("/v1/agui/threads/{session}/run", stop).needs(Scope::Write),
    ];
    ProtocolSection::new("agui", problem::render, routes).failing_streams(problem::stream_failure)
}

async fn any(
    State(shared): State<Arc<ServerState>>,
    RequestCaller(caller): RequestCaller,
    headers: HeaderMap,
    JsonPayload(input): JsonPayload<RunAgentInput>,
) -> Result<Response, RequestProblem> {
    answer(shared, caller, (None, on_disconnect(&headers)?), input)
}

async fn named(
    State(shared): State<Arc<ServerState>>,
    RequestCaller(caller): RequestCaller,
    Path(agent): Path<String>,
    headers: HeaderMap,
    JsonPayload(input): JsonPayload<RunAgentInput>,
) -> Result<Response, RequestProblem> {
    answer(shared, caller, (Some(agent), on_disconnect(&headers)?), input)
}

/// Answers with the stream of a run. An error in the request itself is the response instead of a stream.
fn answer(
    shared: Arc<ServerState>,
    caller: Caller,
    (agent, on_disconnect): (Option<String>, Option<OnDisconnect>),
    input: RunAgentInput,
) -> Result<Response, RequestProblem> {
    let asked = said::read(&caller, agent, input)?;
    if asked.user.is_none() && asked.answers.is_empty() {
        caller.may(Scope::Read)?;
    }
    // Once the stream has begun, the response has no status left to report this.
    shared.quotas.check_turns(&caller).map_err(|error| RequestProblem::quota_exceeded(&error))?;
    let frames = run::frames(shared.clone(), caller, asked, on_disconnect);
    Ok(sse::stream(&shared, frames))
}

/// Cancels the turn that runs in a thread, if one does.
async fn stop(
    State(shared): State<Arc<ServerState>>,
    RequestCaller(caller): RequestCaller,
    Path(thread): Path<String>,
) -> Result<StatusCode, RequestProblem> {
    running::cancel(&shared.chat(&caller), &thread).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Puts a value under the key of this project in the metadata of an event.
fn ours(value: serde_json::Value) -> serde_json::Map<String, serde_json::Value> {
    serde_json::Map::from_iter([(OURS.to_owned(), value)])
}
