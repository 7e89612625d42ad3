//! The agents, listed as models.

use std::sync::Arc;
use std::time::UNIX_EPOCH;

use axum::Json;
use axum::extract::{Path, State};
use singletree_agent::AgentProfile;
use singletree_protocol::openai::{Model, ModelList, ModelObject};

use crate::caller::Scope;
use crate::problem::RequestProblem;
use crate::section::ApiRoute;
use crate::shared::ServerState;

/// The owner of all agents.
const OWNER: &str = "singletree";

/// Returns the routes about models.
pub(super) fn model_routes() -> Vec<ApiRoute> {
    vec![
        ApiRoute::get("/v1/models", list_models).with_required_scope(Scope::Read),
        ApiRoute::get("/v1/models/{model}", show_model).with_required_scope(Scope::Read),
    ]
}

async fn list_models(State(shared): State<Arc<ServerState>>) -> Json<ModelList> {
    Json(ModelList { object: ModelObject::List, data: list_selectable_models(&shared).collect() })
}

async fn show_model(
    State(shared): State<Arc<ServerState>>,
    Path(model): Path<String>,
) -> Result<Json<Model>, RequestProblem> {
    let found = list_selectable_models(&shared).find(|item| item.id == model);
    found.map(Json).ok_or_else(|| unknown_model_problem(&model))
}

/// Returns the problem of an unknown agent.
pub(super) fn unknown_model_problem(model: &str) -> RequestProblem {
    RequestProblem::not_found("chat_agent_unknown", format!("there is no agent `{model}`"))
        .with_field("model")
}

/// Returns the agents that people can choose: neither archived nor built in.
fn list_selectable_models(shared: &ServerState) -> impl Iterator<Item = Model> {
    shared.chat.agents().filter_map(|name| {
        let record = shared.agents.iter().find(|agent| agent.id == name);
        let is_hidden = |it: &AgentProfile| it.is_archived == Some(true) || it.is_builtin == Some(true);
        if record.is_some_and(is_hidden) {
            return None;
        }
        let created = record.and_then(|record| humantime::parse_rfc3339_weak(&record.created_at).ok());
        let created = created.and_then(|created| created.duration_since(UNIX_EPOCH).ok());
        let created = created.and_then(|created| i64::try_from(created.as_secs()).ok()).unwrap_or_default();
        let (id, owned_by) = (name.to_owned(), OWNER.to_owned());
        let name = record.map(|agent| agent.name.clone()).filter(|name| *name != id);
        Some(Model { id, object: ModelObject::Model, created, owned_by, name })
    })
}
