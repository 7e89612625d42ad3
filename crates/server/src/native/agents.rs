//! The list of agents.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use singletree_agent::{ChatAgent, listed};
use singletree_protocol::native;

use crate::caller::Scope;
use crate::section::{ApiOperation, ApiRoute};
use crate::shared::ServerState;

/// Returns the routes about agents.
pub(super) fn routes() -> Vec<ApiRoute> {
    let list = ApiOperation::new("listAgents", "Lists the agents")
        .about("As `ChatAgent`s of the Steerable chat specification, without what is said to their models.")
        .tag("agents")
        .answers::<native::AgentList>(200, "The agents, in the order in which people pick them.");
    vec![ApiRoute::get("/v1/agents", list_all).needs(Scope::Read).documented(list)]
}

/// The creation time of an agent without a record: only its name is known.
const UNKNOWN: &str = "1970-01-01T00:00:00Z";

async fn list_all(State(shared): State<Arc<ServerState>>) -> Json<native::AgentList> {
    let bare = shared.chat.agents().filter(|name| shared.agents.iter().all(|agent| agent.id != *name));
    let bare: Vec<_> = bare.map(|name| ChatAgent::new(name, name, UNKNOWN)).collect();
    let items = listed(shared.agents.iter().chain(&bare)).into_iter().map(public).collect();
    Json(native::AgentList { items })
}

/// Returns the public fields of an agent.
fn public(agent: &ChatAgent) -> native::Agent {
    let ChatAgent {
        id,
        name,
        slug,
        description,
        role_prompt: _,
        forbidden_prompt: _,
        skill_ids,
        allow_external_skills,
        is_builtin,
        is_archived,
        sort_order,
        icon,
        color,
        created_at,
        updated_at,
        other,
    } = agent.public();
    native::Agent {
        id,
        name,
        slug,
        description,
        skill_ids,
        allow_external_skills,
        is_builtin,
        is_archived,
        sort_order,
        icon,
        color,
        created_at,
        updated_at,
        other,
    }
}
