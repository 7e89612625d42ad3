//! Runs 1,000 active campaigns over a SQLite file, checks that their cycles are shared out in turn, and prints the memory
//! that they need: `cargo run -p singletree-controller --example thousand_campaigns`. Linux only.
#![expect(clippy::print_stdout, reason = "the figures are what it is run for")]

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use singletree_agent::Agent;
use singletree_campaign::PersonCommand;
use singletree_controller::{CampaignCaller, Controller, NewCampaign};
use singletree_durable::TenantId;
use singletree_harness::Chat;
use singletree_llm::{
    BoxFuture, BoxStream, ChatMessage, Error as ModelError, ModelFinishReason, Provider, ProviderErrorDetail,
    Request, Response, ResponseDelta, TokenUsage, ToolCall,
};
use singletree_store_sqlite::SqliteStore;
use singletree_tools::{Effect, Output, TypedTool};
use tokio::sync::Notify;

const CAMPAIGNS: usize = 1_000;
const ROUNDS: usize = 11;

/// A model that works on its task for ever, and counts whose cycle each request is.
#[derive(Debug, Default)]
struct EndlessModel {
    asked: Mutex<Vec<u16>>,
    done: Notify,
}

impl Provider for EndlessModel {
    fn model_name(&self) -> &str {
        "endless"
    }

    fn ready(&self) -> BoxFuture<'_, Result<(), ModelError>> {
        Box::pin(async { Ok(()) })
    }

    fn complete<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<Response, ModelError>> {
        let text = request.messages.last().map(|message| message.text().into_owned()).unwrap_or_default();
        let state = text.strip_prefix("# State\n").and_then(|rest| rest.lines().next()).unwrap_or_default();
        let state: Value = serde_json::from_str(state).unwrap_or_default();
        if let (Ok(mut asked), Some(name)) = (self.asked.lock(), state["campaign"]["name"].as_str()) {
            asked.push(name.parse().unwrap_or_default());
            if asked.len() >= CAMPAIGNS * ROUNDS {
                self.done.notify_one();
            }
        }
        let proposal = match state["task"].is_null() {
            true => json!({ "action": "select_task", "task": "a" }),
            false => json!({ "action": "execute_tool", "task": "a", "tool": "look", "args": {} }),
        };
        let call = ToolCall::new("c", "propose", proposal.as_object().cloned().unwrap_or_default());
        let message = ChatMessage::assistant("").with_tool_calls([call]);
        let finish = ModelFinishReason::ToolCalls;
        Box::pin(async move { Ok(Response::new(message, finish, TokenUsage::default(), json!({}))) })
    }

    fn can_stream(&self) -> bool {
        false
    }

    fn stream_deltas<'a>(
        &'a self,
        _request: &'a Request,
    ) -> BoxFuture<'a, Result<BoxStream<'a, Result<ResponseDelta, ModelError>>, ModelError>> {
        Box::pin(async { Err(ModelError::Unavailable(ProviderErrorDetail::new("it does not stream"))) })
    }
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Nothing {}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let store = SqliteStore::open(folder.path().join("campaigns.db")).await?;
    let model = Arc::new(EndlessModel::default());
    let agent = Agent::new("worker", model.clone()).tool(|| {
        TypedTool::new("look", "Looks.", Effect::Read, async |_: Nothing, _| Ok(Output::text("nothing new")))
    });
    let (agent, resources) = agent.build_with_resources()?;
    let parts = Controller::builder(Arc::new(store.clone())).agent(resources).build()?;
    let chat = Chat::builder().agent(agent).agent(parts.cycle_agent()).open(store)?;
    let controller = parts.with_chat(chat.clone());
    let idle = resident_megabytes()?;
    let (tenant, person) = (TenantId::single(), CampaignCaller::with_all_scopes("Ann"));
    let tasks = json!([{ "id": "a", "description": "Go on.", "proof": [
        { "type": "user_confirmed", "question": "Enough?" },
    ] }]);
    let mut ids = Vec::new();
    for at in 0..CAMPAIGNS {
        let new = NewCampaign {
            name: Some(at.to_string()),
            tasks: serde_json::from_value(tasks.clone())?,
            ..NewCampaign::with_goal("Go on.")
        };
        let board = controller.create(&tenant, new, &person).await?;
        let Some(plan) = board.plan else { continue };
        let approve = PersonCommand::ApprovePlan { version: plan.version, digest: plan.digest };
        controller.command(&tenant, &board.campaign.id, approve, &person).await?;
        ids.push(board.campaign.id);
    }
    controller.run(model.done.notified()).await;
    let active = resident_megabytes()?;
    let asked = model.asked.lock().map(|asked| asked.clone()).unwrap_or_default();
    let mut spread = (usize::MAX, 0);
    for window in asked.windows(CAMPAIGNS * 10).step_by(97) {
        let mut cycles = BTreeMap::<u16, usize>::new();
        for campaign in window {
            *cycles.entry(*campaign).or_default() += 1;
        }
        let least = if cycles.len() < CAMPAIGNS { 0 } else { cycles.values().copied().min().unwrap_or(0) };
        spread = (spread.0.min(least), spread.1.max(cycles.values().copied().max().unwrap_or(0)));
    }
    let loaded = chat.loaded().sessions;
    for id in &ids {
        controller.command(&tenant, id, PersonCommand::Pause, &person).await?;
    }
    println!("cycles of a campaign in any ten rounds: {} to {}", spread.0, spread.1);
    println!(
        "resident: {idle:.1} MB idle, {active:.1} MB with {CAMPAIGNS} active campaigns ({loaded} loaded sessions)"
    );
    Ok(())
}

fn resident_megabytes() -> Result<f64, Box<dyn Error>> {
    let statm = std::fs::read_to_string("/proc/self/statm")?;
    let pages: f64 = statm.split(' ').nth(1).unwrap_or_default().parse()?;
    Ok(pages * 4_096.0 / 1_000_000.0)
}
