//! The data of the inspector: the graph of an agent, and the timeline and the trace of an answer.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use singletree_draw::{GraphPicture, WaterfallPicture, WaterfallRow};
use singletree_harness::{Chat, Timeline, TurnId};
use singletree_telemetry::SpanSettings;

use crate::caller::{Caller, RequestCaller, Scope};
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
        ApiRoute::get("/page/sessions/{session}/turns/{turn}/trace", show_trace)
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
    let (chat, turn) = find_turn(&shared, &caller, (&session, &turn)).await?;
    chat.timeline(&turn).await.map(Json).map_err(|error| RequestProblem::from_chat_error(&error))
}

/// The trace of an answer: the turns of its invocation, with their spans.
#[derive(Debug, Serialize)]
struct AnswerTrace {
    /// The id of the trace.
    trace: String,
    /// Its last turns, in order.
    turns: Vec<TracedTurn>,
}

/// One turn of the invocation.
#[derive(Debug, Serialize)]
struct TracedTurn {
    turn: String,
    /// Whether it has ended: until then there are more spans later.
    is_ended: bool,
    /// Whether no records of it are kept.
    is_partial: bool,
    spans: Vec<TracedSpan>,
}

/// A span of a turn; times in milliseconds.
#[derive(Debug, Serialize)]
struct TracedSpan {
    depth: usize,
    kind: &'static str,
    name: String,
    /// Since the Unix epoch.
    started_at: i64,
    took: u64,
    is_failed: bool,
    note: String,
}

impl From<WaterfallRow> for TracedSpan {
    fn from(row: WaterfallRow) -> Self {
        Self {
            depth: row.depth,
            kind: row.kind.as_str(),
            name: row.name,
            started_at: row.started_at.as_millis(),
            took: u64::try_from(row.took.as_millis()).unwrap_or(u64::MAX),
            is_failed: row.is_failed,
            note: row.note,
        }
    }
}

/// How many turns of an invocation are shown, the last ones, and how many spans of each, the first ones.
const TURNS: usize = 50;
const SPANS: usize = 1000;

async fn show_trace(
    State(shared): State<Arc<ServerState>>,
    RequestCaller(caller): RequestCaller,
    Path((session, turn)): Path<(String, String)>,
) -> Result<Json<AnswerTrace>, RequestProblem> {
    let (chat, turn) = find_turn(&shared, &caller, (&session, &turn)).await?;
    let problem = |error| RequestProblem::from_chat_error(&error);
    let timeline = chat.timeline(&turn).await.map_err(problem)?;
    let settings = SpanSettings::new();
    let (mut trace, mut turns) = (String::new(), Vec::new());
    for span in timeline.turns.iter().rev().take(TURNS).rev() {
        let stored = chat.turn_trace(&span.turn).await.map_err(problem)?;
        trace = stored.trace_id(&settings).to_string();
        let spans = stored.render_spans(&settings);
        let rows = WaterfallPicture::new(&spans).to_rows();
        turns.push(TracedTurn {
            turn: span.turn.to_string(),
            is_ended: stored.is_ended,
            is_partial: stored.is_partial,
            spans: rows.into_iter().take(SPANS).map(TracedSpan::from).collect(),
        });
    }
    Ok(Json(AnswerTrace { trace, turns }))
}

/// Finds a turn of a session; one of another session is answered as one that is not there.
async fn find_turn(
    shared: &ServerState,
    caller: &Caller,
    (session, turn): (&str, &str),
) -> Result<(Chat, TurnId), RequestProblem> {
    let chat = shared.chat_of_caller(caller);
    let turn = turn.parse::<TurnId>().map_err(|error| RequestProblem::from_chat_error(&error.into()))?;
    chat.session(session).turn_info(&turn).await.map_err(|error| RequestProblem::from_chat_error(&error))?;
    Ok((chat, turn))
}
