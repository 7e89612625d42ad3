//! One run: everything that happens in it follows from its seed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use singletree_audit::{HistoryEvent, HistoryRecord};
use singletree_narration::NarrationSink;

use crate::campaign::SimulatedPerson;
use crate::client::SimulatedClient;
use crate::coverage::CoverageCounts;
use crate::executor::{SimulationExecutor, TaskOrder};
use crate::fault::{FaultKind, RunRestriction};
use crate::follower::{SimulatedFollower, draw_follower_count};
use crate::oracle::{DoubtfulEffect, RunJudgement, judge_run};
use crate::plant::{PlantEffect, PlantedFault, PlantingPoint};
use crate::random::SimulationRandom;
use crate::server::IdleRuntime;
use crate::store::{LandedWrite, LandingLog, LeaseFault};
use crate::subject::{SimulatedAgents, ToolTally};
use crate::world::SimulatedWorld;

/// The simulated time after which a run is over in any case.
const TIME_MAX: Duration = Duration::from_secs(7 * 24 * 3_600);

/// What to run.
#[derive(Debug, Clone, Default)]
pub struct RunPlan {
    /// The seed.
    pub seed: u64,
    /// Limits of the faults and operations; none to run the whole seed.
    pub restriction: RunRestriction,
    /// Whether the lines of the trace are kept.
    pub keeps_trace: bool,
    /// Where narration goes; nowhere otherwise (INV-9).
    pub narration: Option<Arc<dyn NarrationSink>>,
    /// A fault that is planted in the commits.
    pub planted: Option<PlantedFault>,
    /// Agents of a user, in the place of the simulation's own.
    pub agents: Option<Arc<dyn SimulatedAgents>>,
    /// Whether the batches are kept that arrived at the data.
    pub keeps_landings: bool,
    /// How many processes share the store; one at a time when it is 0 or 1.
    pub nodes: usize,
    /// A fault that is planted in the leases of several processes.
    pub lease_fault: Option<LeaseFault>,
}

/// The result of a run.
#[derive(Debug, Clone, Default)]
pub struct RunReport {
    /// The seed.
    pub seed: u64,
    /// The digest of everything that happened: equal for equal seeds.
    pub digest: u64,
    /// Turns that were accepted.
    pub turns: u64,
    /// Calls of clients.
    pub calls: u64,
    /// Operations that clients began, of those that the seed has.
    pub operations: u64,
    /// Commits of the store.
    pub commits: u64,
    /// Writes in these commits.
    pub writes: u64,
    /// How often a process died.
    pub deaths: u64,
    /// How often each fault happened.
    pub faults: BTreeMap<&'static str, u64>,
    /// How often each case happened.
    pub coverage: BTreeMap<&'static str, u64>,
    /// Simulated time in which work was open, without jumps of more than a minute.
    pub counted: Duration,
    /// The broken promises, one line each.
    pub violations: Vec<String>,
    /// The lines of the trace, when they are kept.
    pub trace: Vec<String>,
    /// What clients asked and were told.
    pub history: Vec<HistoryRecord>,
    /// The faults that could be planted in the commits of this run.
    pub plantable: BTreeSet<PlantedFault>,
    /// The effect of the planted fault.
    pub plant_effect: PlantEffect,
    /// What the data of the store went through, when it is kept.
    pub landings: Vec<LandedWrite>,
    /// The tools of a user's agents by name.
    pub tools: BTreeMap<String, ToolTally>,
    /// The effects of these tools that stayed unknown or happened twice.
    pub doubtful: Vec<DoubtfulEffect>,
}

/// Runs a seed in the calling thread, which must not be one of a runtime: the budgets of tokio would interrupt its tasks.
#[must_use]
pub fn run_seed(plan: &RunPlan) -> RunReport {
    let coverage = CoverageCounts::default();
    let random = SimulationRandom::from_name(plan.seed, "order");
    let orders = [TaskOrder::Random, TaskOrder::Random, TaskOrder::Oldest, TaskOrder::Newest];
    let order = random.draw_from(&orders).unwrap_or(TaskOrder::Random);
    let executor = SimulationExecutor::new(plan.seed, order, plan.keeps_trace);
    let landings = LandingLog::new(plan.keeps_landings);
    let points = (PlantingPoint::new(plan.planted), landings.clone());
    let runtime = match IdleRuntime::new() {
        Ok(runtime) => runtime,
        Err(error) => {
            let violations = vec![format!("stuck: there is no runtime: {error}")];
            return RunReport { seed: plan.seed, violations, ..RunReport::default() };
        }
    };
    let world = SimulatedWorld::new(plan, (executor.clone(), coverage), points, runtime);
    let root = run_world(world.clone());
    let judgement = executor.run_to_end(TIME_MAX, root).unwrap_or_else(|stop| RunJudgement {
        violations: vec![format!("stuck: {stop}")],
        doubtful: Vec::new(),
    });
    let RunJudgement { mut violations, doubtful } = judgement;
    violations.sort();
    violations.dedup();
    world.end_everything();
    RunReport { landings: landings.writes(), doubtful, ..make_report(plan.seed, &world, violations) }
}

/// Lets the clients ask, then lets everything end, then judges.
async fn run_world(world: Arc<SimulatedWorld>) -> RunJudgement {
    for slot in 0..world.nodes.count {
        world.spawn_in_world(world.clone().supervise_processes(slot));
    }
    for number in 0..world.settings.clients {
        world.spawn_in_world(SimulatedClient::new(world.clone(), number).run());
    }
    for number in 0..draw_follower_count(world.seed) {
        world.spawn_in_world(SimulatedFollower::new(world.clone(), number).run());
    }
    if let Some(campaigns) = &world.campaigns {
        for number in 0..campaigns.settings.people {
            world.spawn_in_world(SimulatedPerson::new(world.clone(), campaigns.clone(), number).run());
        }
    }
    while world.has_operations() || world.campaigns.as_ref().is_some_and(|campaigns| campaigns.has_calls()) {
        world.executor.sleep_for(Duration::from_secs(1)).await;
    }
    world.executor.trace_event(format_args!("faults are over"));
    world.swarm.stop_faults();
    world.settle().await;
    judge_run(&world).await
}

fn make_report(seed: u64, world: &Arc<SimulatedWorld>, violations: Vec<String>) -> RunReport {
    let history = world.history.records();
    let given: BTreeSet<&str> = history
        .iter()
        .filter_map(|record| match &record.what {
            HistoryEvent::Given { turn, .. } => Some(turn.as_str()),
            _ => None,
        })
        .collect();
    let turns = given.len() as u64;
    let calls = history.iter().filter(|record| matches!(record.what, HistoryEvent::Call { .. })).count();
    let (commits, writes) = world.store.commit_counts();
    let faults = world.swarm.happened_counts();
    RunReport {
        seed,
        digest: world.executor.digest(),
        turns,
        calls: calls as u64,
        operations: world.settings.operations,
        commits,
        writes,
        deaths: world.deaths.load(Ordering::Relaxed),
        faults: faults.into_iter().map(|(kind, count)| (FaultKind::as_str(kind), count)).collect(),
        coverage: world.coverage.counts(),
        counted: world.executor.counted_time(),
        violations,
        trace: world.executor.take_trace(),
        history,
        plantable: world.store.plantable_faults(),
        plant_effect: world.store.plant_effect(),
        landings: Vec::new(),
        tools: world.tools.tallies(),
        doubtful: Vec::new(),
    }
}
