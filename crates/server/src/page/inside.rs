//! The data of the inspector: the graph of an agent, and the timeline of a turn.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use singletree_draw::GraphPicture;
use singletree_harness::{Timeline, TurnId};

use crate::caller::{RequestCaller, Scope};
use crate::native::StrictQuery;
use crate::problem::RequestProblem;
use crate::section::ApiRoute;
use crate::shared::ServerState;

/// Returns the routes of the inspector.
pub(super) fn inspector_routes() -> Vec<ApiRoute> {
    vec![
        ApiRoute::get("/page/agents/{agent}/graph.svg", draw_agent_graph).with_required_scope(Scope::Read),
        ApiRoute::get("/page/sessions/{session}/turns/{turn}/timeline", show_timeline)
            .with_required_scope(Scope::Read),
    ]
}

/// The options of a graph's picture.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct GraphPictureOptions {
    /// The node to light.
    #[serde(default)]
    live: Option<String>,
}

async fn draw_agent_graph(
    State(shared): State<Arc<ServerState>>,
    Path(agent): Path<String>,
    StrictQuery(drawn): StrictQuery<GraphPictureOptions>,
) -> Result<Response, RequestProblem> {
    let outline = shared.chat.outline(&agent).map_err(|error| RequestProblem::from_chat_error(&error))?;
    let picture = GraphPicture::new(&agent, &outline).with_live_node(drawn.live.as_deref());
    let about = [
        (CONTENT_TYPE, "image/svg+xml"),
        (CACHE_CONTROL, "private, max-age=300"),
        // A picture has its own styles, and nothing else.
        (CONTENT_SECURITY_POLICY, "default-src 'none'; style-src 'unsafe-inline'; sandbox"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    Ok((about, picture.render_svg()).into_response())
}

async fn show_timeline(
    State(shared): State<Arc<ServerState>>,
    RequestCaller(caller): RequestCaller,
    Path((session, turn)): Path<(String, String)>,
) -> Result<Json<Timeline>, RequestProblem> {
    let chat = shared.chat_of_caller(&caller);
    let turn = turn.parse::<TurnId>().map_err(|error| RequestProblem::from_chat_error(&error.into()))?;
    // A turn of another session is answered as one that is not there.
    chat.session(&session).turn_info(&turn).await.map_err(|error| RequestProblem::from_chat_error(&error))?;
    chat.timeline(&turn).await.map(Json).map_err(|error| RequestProblem::from_chat_error(&error))
}
