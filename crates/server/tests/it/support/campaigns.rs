//! Campaigns behind the test's server: an agent that proposes a plan, and then whatever its tasks lack.

use std::sync::Arc;

use serde_json::Value;
use singletree_agent::Agent;
use singletree_controller::demo::DemoCampaignModel;
use singletree_controller::{CampaignTemplate, Controller, ControllerParts, NewSchedule};
use singletree_durable::DocumentStore;
use singletree_env::Env;
use singletree_harness::GraphAgent;
use singletree_llm::ScriptedProvider;
use singletree_narration::NarrationSink;
use singletree_tools::{Effect, ToolLimits, Toolbox};

use super::agents::{self, World};
use super::inputs::{CountingIds, HandClock};

/// The agent of campaigns.
pub(crate) const CAMPAIGNER: &str = "campaigner";
/// A template, whose campaigns begin with the plan of the rig.
pub(crate) const TEMPLATE: &str = "letters";

/// Makes the agent and the parts of the controller.
pub(super) fn build_parts(
    (world, plan): (&World, &Value),
    (documents, narration): (Arc<dyn DocumentStore>, Arc<dyn NarrationSink>),
    clock: Arc<HandClock>,
) -> (GraphAgent, ControllerParts) {
    let others = Arc::new(ScriptedProvider::new(agents::script()));
    let tools = vec![
        agents::tool("look", Effect::Read, world),
        agents::tool("act", Effect::SafeWrite, world),
        agents::tool("send", Effect::Destructive, world),
    ];
    let toolbox = Toolbox::new(tools, ToolLimits::standard()).unwrap();
    let agent = Agent::new(CAMPAIGNER, DemoCampaignModel::with_plan(others, plan.clone())).toolbox(toolbox);
    let (graph, resources) = agent.build_with_resources().unwrap();
    // Ids of its own, so that campaigns do not shift the other ids.
    let env = Env { clock, ids: Arc::new(CountingIds::default()), ..Env::from_system() };
    let template = CampaignTemplate {
        name: TEMPLATE.into(),
        description: Some("Letters to customers.".into()),
        goal: Some("Send the letters.".into()),
        agent: None,
        budget: singletree_campaign::CampaignBudget { cycles: Some(100), ..Default::default() },
        tasks: serde_json::from_value(plan.clone()).unwrap(),
        schedules: Vec::<NewSchedule>::new(),
    };
    let builder = Controller::builder(documents).agent(resources).env(env).narration(narration);
    (graph, builder.template(template).build().unwrap())
}
