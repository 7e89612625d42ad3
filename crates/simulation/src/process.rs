//! One simulated process: a chat over the store, in a group of tasks that dies as a whole.

use std::sync::Arc;
use std::time::Duration;

use singletree_controller::{Controller, ControllerLimits, ControllerParts};
use singletree_durable::TenantId;
use singletree_env::Env;
use singletree_harness::{Chat, GraphAgent, Limits, NoticeSettings, NoticeType};
use tokio::sync::oneshot;

use crate::agents::{build_agents, build_worker};
use crate::campaign::CampaignWorld;
use crate::environment::make_environment;
use crate::error::{Error, Result};
use crate::executor::TaskGroup;
use crate::model::{ModelAnswerSource, SimulatedModel};
use crate::server::SimulatedServer;
use crate::store::SimulatedJournal;
use crate::subject::SimulatedAgentParts;
use crate::tool::ToolWorld;
use crate::tool_server::ServerToolset;
use crate::world::SimulatedWorld;

/// How often one of several processes looks for turns of those that have died, as the server does.
const SWEEP_EVERY: Duration = Duration::from_millis(500);

/// A process that runs. A clone is the same process.
#[derive(Debug, Clone)]
pub(crate) struct SimulatedProcess {
    pub(crate) group: TaskGroup,
    pub(crate) chat: Chat,
    /// Its place: the next process there is started when this one has died.
    pub(crate) slot: usize,
    journal: Arc<SimulatedJournal>,
    /// Its controller, in a run with campaigns.
    pub(crate) controller: Option<Controller>,
    pub(crate) server: SimulatedServer,
}

/// The bounds of a simulated chat: so small that runs reach them.
pub(crate) fn small_limits(loaded_bytes: u64, hot_sessions: usize) -> Limits {
    Limits {
        queue: 6,
        steps: 60,
        tool_calls: 12,
        turn_time: Duration::from_secs(5 * 60),
        hot_sessions,
        loaded_bytes,
        feed_backlog: 16,
        mail: 4,
        ..Limits::default()
    }
}

/// Makes the agents of a process: those of the user, if there are some.
fn build_process_agents(world: &SimulatedWorld, env: &Env, tools: &ToolWorld) -> Result<Vec<GraphAgent>> {
    let Some(agents) = &world.agents else {
        let server = ServerToolset::new(world.tool_server.clone(), tools.clone(), world.coverage.clone());
        return Ok(build_agents(&world.settings.agents, world.release(), env, (tools, server))?.into());
    };
    let model = SimulatedModel::new(ModelAnswerSource::Drawn, tools);
    let parts = SimulatedAgentParts {
        env: env.clone(),
        model: Arc::new(model),
        world: tools.clone(),
        tools: world.tools.clone(),
    };
    agents.build_agents(&parts).map_err(|source| Error::Agents { source })
}

/// Makes the agent of campaigns, and the parts of their controller.
fn build_campaign_parts(
    (world, campaigns): (&SimulatedWorld, &CampaignWorld),
    env: &Env,
    (tools, journal): (&ToolWorld, &Arc<SimulatedJournal>),
) -> Result<(GraphAgent, ControllerParts)> {
    let (worker, resources) = build_worker(&campaigns.settings.plan, env, tools)?;
    let limits = ControllerLimits { cycles_at_once: 2, ..ControllerLimits::default() };
    let builder = Controller::builder(journal.clone()).agent(resources).env(env.clone()).limits(limits);
    let builder = match &world.narration {
        Some(sink) => builder.narration(sink.clone()),
        None => builder,
    };
    Ok((worker, builder.build()?))
}

impl SimulatedProcess {
    /// Opens the store and makes the chat of the n-th process. Nothing runs yet.
    ///
    /// # Errors
    /// `simulation_failed`.
    pub(crate) fn open(world: &SimulatedWorld, (slot, number): (usize, u32)) -> Result<Self> {
        // The groups of the world and of the store come first.
        let group = TaskGroup(number + 2);
        let env = make_environment(world.seed, (&world.executor, group), &world.clocks[slot], &world.swarm);
        let journal = Arc::new(world.store.open(slot));
        let (chat, parts) = Self::open_chat(world, &env, &journal)?;
        let controller = parts.map(|parts| parts.with_chat(chat.clone()));
        let server = SimulatedServer::new(
            (chat.clone(), journal.clone()),
            &env,
            (world.runtime.clone(), &world.receiver),
        )?;
        Ok(Self { group, chat, slot, journal, controller, server })
    }

    fn open_chat(
        world: &SimulatedWorld,
        env: &Env,
        journal: &Arc<SimulatedJournal>,
    ) -> Result<(Chat, Option<ControllerParts>)> {
        let tools = ToolWorld {
            executor: world.executor.clone(),
            swarm: world.swarm.clone(),
            ledger: world.ledger.clone(),
            random: world.random.clone(),
        };
        let mut agents = build_process_agents(world, env, &tools)?;
        let mut parts = None;
        if let Some(campaigns) = &world.campaigns {
            let (worker, built) = build_campaign_parts((world, campaigns), env, (&tools, journal))?;
            agents.extend([worker, built.cycle_agent()]);
            parts = Some(built);
        }
        let notices = NoticeSettings::new().with_tenant_types(TenantId::single(), NoticeType::ALL);
        let chat = Chat::builder().limits(world.settings.limits.clone()).env(env.clone()).notices(notices);
        let chat = match &world.narration {
            Some(sink) => chat.narration(sink.clone()),
            None => chat,
        };
        let chat = agents.into_iter().fold(chat, singletree_harness::ChatBuilder::agent);
        Ok((chat.open_shared(journal.clone(), journal.clone())?, parts))
    }

    /// Takes over the turns of the processes before it; false when it could not read the store, or was killed.
    pub(crate) async fn take_over_turns(&self, world: &SimulatedWorld) -> Option<usize> {
        let (answer, answered) = oneshot::channel();
        let chat = self.chat.clone();
        let sweeping = async move {
            let swept = chat.sweep().await.map(|turns| turns.len());
            // The world waits for the answer.
            drop(answer.send(swept));
        };
        world.executor.spawn_in_group(self.group, Box::pin(sweeping));
        answered.await.ok()?.ok()
    }

    /// Keeps the process among the owners of sessions alive, and takes over turns of those that have died, as long as it
    /// lives; nothing where there is one process.
    pub(crate) fn start_heartbeat(&self, world: &SimulatedWorld) {
        let Some(heartbeat) = self.journal.heartbeat() else { return };
        world.executor.spawn_in_group(self.group, Box::pin(heartbeat));
        let (chat, executor) = (self.chat.clone(), world.executor.clone());
        let sweeping = async move {
            loop {
                executor.sleep_for(SWEEP_EVERY).await;
                // A later sweep takes over the turns that this one could not.
                drop(chat.sweep().await);
            }
        };
        world.executor.spawn_in_group(self.group, Box::pin(sweeping));
    }

    /// Gives campaigns their cycles, as long as the process lives.
    pub(crate) fn start_campaigns(&self, world: &SimulatedWorld) {
        if let Some(controller) = self.controller.clone() {
            let running = async move { controller.run(std::future::pending()).await };
            world.executor.spawn_in_group(self.group, Box::pin(running));
        }
    }

    /// Delivers notices to webhooks, as long as the process lives.
    pub(crate) fn start_deliveries(&self, world: &SimulatedWorld) {
        let server = self.server.clone();
        let delivering = self.server.run_handler(async move { server.deliver_notices().await });
        world.executor.spawn_in_group(self.group, Box::pin(delivering));
    }

    /// Stops it in an orderly way, within a grace.
    pub(crate) async fn shut_down(&self, world: &SimulatedWorld, grace: Duration) {
        let (answer, answered) = oneshot::channel();
        self.journal.note_stop();
        let chat = self.chat.clone();
        let stopping = async move {
            let has_ended = chat.shutdown(grace).await;
            // The world waits for the answer.
            answer.send(has_ended).unwrap_or_default();
        };
        world.executor.spawn_in_group(self.group, Box::pin(stopping));
        drop(answered.await);
        self.journal.leave();
    }
}
