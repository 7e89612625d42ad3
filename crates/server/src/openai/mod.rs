//! OpenAI's chat completions at `/v1/chat/completions`, and the agents as models at `/v1/models`.
//!
//! A request without a session is answered once and not stored: its list of messages is the whole conversation, the
//! agent's tools with effects are off, and the client runs the tools that it brings (D16). A request that names a
//! session, by `X-Session-ID` or `metadata.session_id`, is a turn of that session: the server takes only the last
//! message, which must be the user's.
//!
//! `asked` reads requests and refuses parameters that it must not ignore; `conversation` reads messages; `answer`
//! builds the response, as a whole or as chunks.

mod answer;
mod asked;
mod call_options;
mod conversation;
mod models;
mod problem;
mod reasoning;
mod running;
mod speech;
mod tools;

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use singletree_protocol::openai::CompletionRequest;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::body::JsonPayload;
use crate::caller::{RequestCaller, Scope};
use crate::disconnect::read_disconnect_policy;
use crate::problem::RequestProblem;
use crate::section::{ApiRoute, ProtocolSection};
use crate::shared::ServerState;

/// The time limit for reading a request. Known costs are bounded to some milliseconds; this limit covers unforeseen
/// ones.
const READ_TIME: Duration = Duration::from_secs(5);

/// Paths of OpenAI's API that are not served here.
const UNSERVED: &[&str] = &[
    "/v1/assistants",
    "/v1/audio",
    "/v1/batches",
    "/v1/completions",
    "/v1/conversations",
    "/v1/embeddings",
    "/v1/files",
    "/v1/fine_tuning",
    "/v1/images",
    "/v1/moderations",
    "/v1/responses",
    "/v1/threads",
    "/v1/uploads",
    "/v1/vector_stores",
];

/// Returns the OpenAI section.
pub(crate) fn build_section() -> ProtocolSection {
    let mut routes = vec![
        ApiRoute::post("/v1/chat/completions", create_completion)
            .with_required_scope(Scope::Write)
            .with_event_stream(),
    ];
    routes.extend(models::model_routes());
    ProtocolSection::new("openai", problem::render_problem, routes)
        .with_stream_failure(problem::render_stream_failure)
        .with_unserved_prefixes(UNSERVED)
}

async fn create_completion(
    State(shared): State<Arc<ServerState>>,
    RequestCaller(caller): RequestCaller,
    headers: HeaderMap,
    JsonPayload(request): JsonPayload<CompletionRequest>,
) -> Result<Response, RequestProblem> {
    let on_disconnect = read_disconnect_policy(&headers)?;
    // Runs outside of the async runtime: compiling the schemas of clients takes time, however small they are.
    let reading = spawn_blocking(move || asked::read_completion_request(&headers, request));
    let too_long = |_| {
        RequestProblem::invalid_request("the schemas of `tools` take too long to compile").with_field("tools")
    };
    let asked = timeout(READ_TIME, reading).await.map_err(too_long)?;
    let asked =
        asked.map_err(|_panicked| RequestProblem::invalid_request("the request cannot be read"))??;
    let chat = shared.chat_of_caller(&caller);
    let running = running::begin_completion(&shared, &chat, asked, on_disconnect).await?;
    running.answer_request(&shared).await
}
