//! A controller over a chat to test with, and a person who decides everything.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use singletree_agent::{Agent, AgentResources, ApprovalPolicy};
use singletree_campaign::{
    CampaignBoard, CampaignLogEntry, CampaignStatus, CampaignStep, CampaignWait, PauseReason, PersonCommand,
};
use singletree_controller::demo::DemoCampaignModel;
use singletree_controller::{CampaignCaller, Controller, ControllerBuilder, NewCampaign};
use singletree_durable::{DocumentStore, Journal, JournalMaintenance, MemoryStore, TenantId};
use singletree_env::{Clock, Env, IdGenerator, Timestamp};
use singletree_harness::{Chat, GraphAgent};
use singletree_llm::Provider;
use singletree_tools::{Effect, Recovery};

use crate::world::{World, WorldTool, silent_model};

/// A clock that passes with the time of the test's runtime.
#[derive(Debug)]
pub(crate) struct RuntimeClock(tokio::time::Instant);

impl Clock for RuntimeClock {
    #[expect(clippy::disallowed_methods, reason = "the paused time of the runtime is the clock")]
    fn now(&self) -> Timestamp {
        let passed = tokio::time::Instant::now().duration_since(self.0);
        Timestamp::from_millis(1_767_225_600_000).saturating_add(passed)
    }
}

/// Identifiers that are counted.
#[derive(Debug, Default)]
pub(crate) struct CountedIds(AtomicU64);

impl IdGenerator for CountedIds {
    fn generate_uuid(&self) -> String {
        format!("00000000-0000-4000-8000-{:012}", self.0.fetch_add(1, Ordering::Relaxed))
    }
}

/// An environment whose time is that of the test's runtime, and whose identifiers begin at `first`.
#[expect(clippy::disallowed_methods, reason = "the paused time of the runtime is the clock")]
pub(crate) fn env_from(first: u64) -> Env {
    Env {
        clock: Arc::new(RuntimeClock(tokio::time::Instant::now())),
        ids: Arc::new(CountedIds(AtomicU64::new(first))),
        ..Env::from_system()
    }
}

pub(crate) fn tenant() -> TenantId {
    TenantId::single()
}

pub(crate) fn ann() -> CampaignCaller {
    CampaignCaller::with_all_scopes("Ann")
}

/// The plan of the story: a report that a person approves, a note, and a message that a person approves.
pub(crate) fn story_plan() -> Value {
    json!([
        { "id": "report", "description": "Write the report.", "proof": [
            { "type": "artifact_approved", "kind": "report", "key": "spring" },
        ] },
        { "id": "note", "description": "Note that it is there.", "needs": ["report"], "proof": [
            { "type": "tool_succeeded", "tool": "note", "args": { "to": "file" } },
        ] },
        { "id": "send", "description": "Send it.", "needs": ["note"], "proof": [
            { "type": "tool_succeeded", "tool": "send", "args": { "to": "Ann" } },
            { "type": "user_confirmed", "question": "Did it arrive?" },
        ] },
    ])
}

/// The model of the story.
pub(crate) fn story_model() -> DemoCampaignModel {
    DemoCampaignModel::with_plan(silent_model(), story_plan())
}

/// An agent with three tools: `note` changes something, `send` needs approval, `look` reads.
pub(crate) fn agent(
    model: impl Provider + 'static,
    world: &World,
    recovery: Recovery,
) -> (GraphAgent, AgentResources) {
    let agent =
        Agent::new("writer", model).instructions("Be brief.").ask_before(ApprovalPolicy::default()).tools([
            WorldTool::shared("note", Effect::SafeWrite, recovery, world),
            WorldTool::shared("send", Effect::Destructive, recovery, world),
            WorldTool::shared("look", Effect::Read, Recovery::Rerun, world),
            WorldTool::of_server("crm__read", "crm", "{\"state\":\"paid\"}"),
        ]);
    agent.build_with_resources().unwrap()
}

/// Opens a controller over a store for documents and one for sessions.
pub(crate) fn open_with(
    (graph, resources): (GraphAgent, AgentResources),
    (documents, journal): (Arc<dyn DocumentStore>, impl Journal + JournalMaintenance + 'static),
    env: Env,
    configure: impl FnOnce(ControllerBuilder) -> ControllerBuilder,
) -> (Controller, Chat) {
    let builder = Controller::builder(documents).agent(resources).env(env.clone());
    let parts = configure(builder).build().unwrap();
    let chat = Chat::builder().agent(graph).agent(parts.cycle_agent()).env(env).open(journal).unwrap();
    (parts.with_chat(chat.clone()), chat)
}

/// A controller in memory.
pub(crate) struct Rig {
    pub(crate) controller: Controller,
    pub(crate) chat: Chat,
    pub(crate) store: MemoryStore,
    pub(crate) world: World,
}

impl Rig {
    pub(crate) fn with_model(model: impl Provider + 'static) -> Self {
        Self::configured(model, |builder| builder)
    }

    pub(crate) fn configured(
        model: impl Provider + 'static,
        configure: impl FnOnce(ControllerBuilder) -> ControllerBuilder,
    ) -> Self {
        let (store, world) = (MemoryStore::new(), World::default());
        let agent = agent(model, &world, Recovery::Rerun);
        let documents: Arc<dyn DocumentStore> = Arc::new(store.clone());
        let (controller, chat) = open_with(agent, (documents, store.clone()), env_from(0), configure);
        Self { controller, chat, store, world }
    }

    pub(crate) async fn create(&self) -> String {
        let new = NewCampaign::with_goal("Tell Ann.");
        self.controller.create(&tenant(), new, &ann()).await.unwrap().campaign.id
    }

    pub(crate) async fn board(&self, id: &str) -> CampaignBoard {
        self.controller.get(&tenant(), id).await.unwrap()
    }

    pub(crate) async fn settle(&self, id: &str) -> CampaignBoard {
        self.controller.run_until_settled(&tenant(), id).await.unwrap()
    }

    pub(crate) async fn command(&self, id: &str, command: PersonCommand) -> CampaignBoard {
        self.controller.command(&tenant(), id, command, &ann()).await.unwrap()
    }

    /// Opens another controller over other stores.
    pub(crate) fn over(documents: Arc<dyn DocumentStore>, model: impl Provider + 'static) -> Self {
        let (store, world) = (MemoryStore::new(), World::default());
        let agent = agent(model, &world, Recovery::Rerun);
        let (controller, chat) = open_with(agent, (documents, store.clone()), env_from(0), |builder| builder);
        Self { controller, chat, store, world }
    }

    pub(crate) async fn log(&self, id: &str) -> Vec<CampaignLogEntry> {
        whole_log(&self.controller, id).await
    }

    /// Runs a campaign whose plan is these tasks until it is settled, with the plan approved.
    pub(crate) async fn begin_with_plan(&self, tasks: Value) -> String {
        let tasks = serde_json::from_value(tasks).unwrap();
        let new = NewCampaign { tasks, ..NewCampaign::with_goal("Tell Ann.") };
        let board = self.controller.create(&tenant(), new, &ann()).await.unwrap();
        let id = board.campaign.id.clone();
        self.command(&id, approve_plan(&board)).await;
        id
    }
}

pub(crate) fn approve_plan(board: &CampaignBoard) -> PersonCommand {
    let plan = board.plan.as_ref().unwrap();
    PersonCommand::ApprovePlan { version: plan.version, digest: plan.digest.clone() }
}

pub(crate) async fn whole_log(controller: &Controller, id: &str) -> Vec<CampaignLogEntry> {
    let mut log = Vec::new();
    loop {
        let page = controller.log(&tenant(), id, (log.len() as u64, 500)).await.unwrap();
        if page.is_empty() {
            return log;
        }
        log.extend(page);
    }
}

/// Says what a person does about a campaign that waits: approves whatever is proposed, confirms whatever is asked.
/// Returns false when there is nothing to do.
pub(crate) async fn decide_as_person(
    controller: &Controller,
    board: &CampaignBoard,
) -> Result<bool, singletree_controller::Error> {
    let (tenant, id, ann) = (tenant(), board.campaign.id.as_str(), ann());
    let command = match (&board.wait, &board.action) {
        (Some(CampaignWait::Plan), _) => approve_plan(board),
        (Some(CampaignWait::Action), Some(open)) => {
            let digest = open.action.digest.clone();
            PersonCommand::DecideAction { digest, approved: true, reason: None }
        }
        (Some(CampaignWait::Question { question, .. }), _) => {
            PersonCommand::Answer { question: question.clone(), answer: json!("yes") }
        }
        _ if board.pause == Some(PauseReason::NothingToPropose) => {
            for artifact in controller.artifacts(&tenant, id).await? {
                if artifact.approved_by.is_none() {
                    let named = (&artifact.name, artifact.digest.as_str());
                    controller.approve_artifact(&tenant, id, named, &ann).await?;
                    return Ok(true);
                }
            }
            let task = board.task_in_hand().map(|progress| progress.task.clone());
            PersonCommand::Confirm { task: task.unwrap_or_default(), question: "Did it arrive?".to_owned() }
        }
        _ => return Ok(false),
    };
    controller.command(&tenant, id, command, &ann).await.map(|_| true)
}

/// Plays the whole story in one campaign: the agent proposes, a person decides, until it is over, or `alive` says that
/// the process has died.
pub(crate) async fn play(controller: &Controller, id: &str, alive: impl Fn() -> bool) {
    for _ in 0..100 {
        let Ok(board) = controller.run_until_settled(&tenant(), id).await else { return };
        if !alive() || board.status.is_over() {
            return;
        }
        if let CampaignStep::Sleep(until) = board.next_step() {
            let now = board.updated_at;
            tokio::time::sleep(until.duration_since(now) + Duration::from_millis(1)).await;
            continue;
        }
        if board.status == CampaignStatus::Error {
            return;
        }
        match decide_as_person(controller, &board).await {
            Ok(true) => {}
            Ok(false) | Err(_) => return,
        }
    }
    panic!("the story does not end");
}

/// Returns the log as JSON without times, without the id of the campaign, and without digests, which depend on it.
pub(crate) async fn plain_log(controller: &Controller, id: &str) -> Vec<Value> {
    let log = whole_log(controller, id).await;
    let plain = |entry: &CampaignLogEntry| {
        let text = serde_json::to_string(&entry.event).unwrap().replace(id, "cmp");
        let mut event: Value = serde_json::from_str(&text).unwrap();
        remove_volatile(&mut event);
        event
    };
    log.iter().map(plain).collect()
}

fn remove_volatile(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for name in ["digest", "created_at", "until", "time_ms"] {
                fields.remove(name);
            }
            fields.values_mut().for_each(remove_volatile);
        }
        Value::Array(items) => items.iter_mut().for_each(remove_volatile),
        _ => {}
    }
}
