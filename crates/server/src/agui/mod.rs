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
use crate::disconnect::read_disconnect_policy;
use crate::forward::is_refused_for_now;
use crate::problem::RequestProblem;
use crate::running;
use crate::section::{ApiRoute, ProtocolSection};
use crate::shared::ServerState;
use crate::sse;

/// Returns the AG-UI section.
pub(crate) fn build_section() -> ProtocolSection {
    let routes = vec![
        ApiRoute::post("/v1/agui", start_run).with_required_scope(Scope::Write).with_event_stream(),
        ApiRoute::post("/v1/agui/{agent}", start_agent_run)
            .with_required_scope(Scope::Write)
            .with_event_stream(),
        ApiRoute::delete("/v1/agui/threads/{session}/run", cancel_running_turn)
            .with_required_scope(Scope::Write),
    ];
    ProtocolSection::new("agui", problem::render_problem, routes)
        .with_stream_failure(problem::render_stream_failure)
}

async fn start_run(
    State(shared): State<Arc<ServerState>>,
    RequestCaller(caller): RequestCaller,
    headers: HeaderMap,
    JsonPayload(input): JsonPayload<RunAgentInput>,
) -> Result<Response, RequestProblem> {
    stream_run_response(shared, caller, (None, read_disconnect_policy(&headers)?), input).await
}

async fn start_agent_run(
    State(shared): State<Arc<ServerState>>,
    RequestCaller(caller): RequestCaller,
    Path(agent): Path<String>,
    headers: HeaderMap,
    JsonPayload(input): JsonPayload<RunAgentInput>,
) -> Result<Response, RequestProblem> {
    stream_run_response(shared, caller, (Some(agent), read_disconnect_policy(&headers)?), input).await
}

/// Answers with the stream of a run. An error in the request itself is the response instead of a stream.
async fn stream_run_response(
    shared: Arc<ServerState>,
    caller: Caller,
    (agent, on_disconnect): (Option<String>, Option<OnDisconnect>),
    input: RunAgentInput,
) -> Result<Response, RequestProblem> {
    let asked = said::read_run_request(&caller, agent, input)?;
    if asked.user.is_none() && asked.answers.is_empty() {
        caller.require_scope(Scope::Read)?;
    }
    // Once the stream has begun, the response has no status left to report this.
    shared.quotas.check_turn_quota(&caller).map_err(|error| RequestProblem::quota_exceeded(&error))?;
    if shared.is_store_shared && (asked.user.is_some() || !asked.answers.is_empty()) {
        // A session that another server owns, or will own soon, is noticed before the stream begins: the request is then sent to
        // that server. All other failures are told by the run.
        let acquired = shared.chat_of_caller(&caller).session(&asked.thread).acquire().await;
        let problem = acquired.err().map(|error| RequestProblem::from_chat_error(&error));
        if let Some(problem) = problem.filter(is_refused_for_now) {
            return Err(problem);
        }
    }
    let frames = run::stream_run_frames(shared.clone(), caller, asked, on_disconnect);
    Ok(sse::stream_response(&shared, frames))
}

/// Cancels the turn that runs in a thread, if one does.
async fn cancel_running_turn(
    State(shared): State<Arc<ServerState>>,
    RequestCaller(caller): RequestCaller,
    Path(thread): Path<String>,
) -> Result<StatusCode, RequestProblem> {
    running::cancel_running_turn(&shared.chat_of_caller(&caller), &thread).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Puts a value under the key of this project in the metadata of an event.
fn wrap_own_metadata(value: serde_json::Value) -> serde_json::Map<String, serde_json::Value> {
    serde_json::Map::from_iter([(OURS.to_owned(), value)])
}
