//! The list of agents.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use singletree_agent::{AgentProfile, list_active_agents};
use singletree_protocol::native;

use crate::caller::Scope;
use crate::section::{ApiOperation, ApiRoute};
use crate::shared::ServerState;

/// Returns the routes about agents.
pub(super) fn agent_routes() -> Vec<ApiRoute> {
    let list = ApiOperation::new("listAgents", "Lists the agents")
        .with_description(
            "As `ChatAgent`s of the Steerable chat specification, without what is said to their models.",
        )
        .with_tag("agents")
        .with_json_response::<native::AgentList>(200, "The agents, in the order in which people pick them.");
    vec![ApiRoute::get("/v1/agents", list_agents).with_required_scope(Scope::Read).with_operation(list)]
}

/// The creation time of an agent without a record: only its name is known.
const UNKNOWN: &str = "1970-01-01T00:00:00Z";

async fn list_agents(State(shared): State<Arc<ServerState>>) -> Json<native::AgentList> {
    let bare = shared.chat.agents().filter(|name| shared.agents.iter().all(|agent| agent.id != *name));
    let bare: Vec<_> = bare.map(|name| AgentProfile::new(name, name, UNKNOWN)).collect();
    let items =
        list_active_agents(shared.agents.iter().chain(&bare)).into_iter().map(convert_agent).collect();
    Json(native::AgentList { items })
}

/// Returns the public fields of an agent.
fn convert_agent(agent: &AgentProfile) -> native::Agent {
    let AgentProfile {
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
    } = agent.without_prompts();
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
