//! `singletree sim`: runs the whole harness in a simulated world, under many seeds.

use std::fs;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use serde::Serialize;
use singletree_simulation::{
    RunPlan, RunReport, ShrunkFailure, SimulatedAgents, SimulationSummary, collect_plantable_faults,
    hunt_planted_fault, run_seed, shrink_failure,
};

use super::simulated_agents::{PrintedTool, ToolFindings, load_simulated_agents};
use crate::args::Sim;
use crate::error::{Error, Result};
use crate::exit::{COMPLETED, ERRORED};
use crate::json;
use crate::print::{TerminalOutput, TextStyle};

/// So many seeds have to reach every fault and every case.
const SEEDS_FOR_ALL_CASES: u64 = 1_000;

/// How often it says how far it is, in seeds.
const EVERY: u64 = 100;

/// Runs the command.
pub(crate) async fn run_sim_command(args: Sim) -> Result<u8> {
    let agents = match &args.config {
        Some(file) => Some(load_simulated_agents(file).await?),
        None => None,
    };
    match (args.seed, args.plant) {
        (Some(seed), _) => run_one_seed(&args, seed, agents),
        (None, Some(seeds)) => hunt_planted_faults(&args, seeds),
        (None, None) => run_many_seeds(&args, agents),
    }
}

fn run_one_seed(args: &Sim, seed: u64, agents: Option<Arc<dyn SimulatedAgents>>) -> Result<u8> {
    let plan =
        RunPlan { seed, keeps_trace: args.trace, agents, nodes: args.nodes.into(), ..RunPlan::default() };
    let (report, tools) = run_apart(move || {
        let mut tools = ToolFindings::default();
        let report = run_seed(&plan);
        tools.add_run(&report);
        tools.shrink_findings(&plan);
        (report, tools)
    })?;
    let mut screen = TerminalOutput::standard_output();
    let mut summary = SimulationSummary::of_processes(args.nodes.into());
    summary.add_run(&report);
    if args.json {
        let printed = PrintedSimulation {
            summary: &summary,
            cpu_seconds: None,
            failures: vec![PrintedFailure::from(&report)],
            tools: tools.printed_tools(),
        };
        json::print_json(&mut screen, &printed)?;
    } else {
        report.trace.iter().try_for_each(|line| screen.write_line(line))?;
        report.violations.iter().try_for_each(|line| screen.write_line(line))?;
        tools.show_findings(&mut screen)?;
        screen.write_line(&describe_summary(&summary, args))?;
    }
    Ok(if report.violations.is_empty() && tools.is_empty() { COMPLETED } else { ERRORED })
}

/// Describes the figures. Which cases were never reached is said of the simulation's own agents only.
fn describe_summary(summary: &SimulationSummary, args: &Sim) -> String {
    let text = summary.to_string();
    match args.config {
        Some(_) => text.lines().take(2).collect::<Vec<_>>().join("\n"),
        None => text,
    }
}

fn run_many_seeds(args: &Sim, agents: Option<Arc<dyn SimulatedAgents>>) -> Result<u8> {
    let (sender, progress) = channel();
    let is_own = agents.is_none();
    let plan = ManyRunsPlan {
        from: args.from,
        seeds: args.seeds,
        hours: args.hours,
        first: args.first,
        nodes: args.nodes.into(),
        agents,
    };
    let running = thread::Builder::new()
        .name("simulation".to_owned())
        .spawn(move || run_seeds(&plan, &sender))
        .map_err(|source| Error::Input { source })?;
    show_progress(&progress);
    let run = running.join().unwrap_or_else(|panic| resume_unwind(panic));
    let mut screen = TerminalOutput::standard_output();
    let misses = is_own && run.summary.seeds >= SEEDS_FOR_ALL_CASES && !run.summary.missed_cases().is_empty();
    if args.json {
        let failures = run.failed.iter().map(PrintedFailure::from).collect();
        let printed = PrintedSimulation {
            summary: &run.summary,
            cpu_seconds: run.cpu.map(|cpu| cpu.as_secs_f64()),
            failures,
            tools: run.tools.printed_tools(),
        };
        json::print_json(&mut screen, &printed)?;
    } else {
        show_failures(&run, &mut screen)?;
        run.tools.show_findings(&mut screen)?;
        screen.write_line(&describe_summary(&run.summary, args))?;
        if let Some(cpu) = run.cpu.map(|cpu| cpu.as_secs_f64()).filter(|cpu| *cpu > 0.0) {
            let (turns, hours) = (run.summary.turns as f64 / cpu, run.summary.counted_seconds / cpu);
            screen.write_line(&format!(
                "{cpu:.1} CPU-seconds: {turns:.0} turns and {hours:.0} simulated seconds in each"
            ))?;
        }
    }
    Ok(if run.failed.is_empty() && run.tools.is_empty() && !misses { COMPLETED } else { ERRORED })
}

/// The result of many runs.
struct ManyRuns {
    summary: SimulationSummary,
    failed: Vec<RunReport>,
    /// The first failure, shrunk.
    shrunk: Option<ShrunkFailure>,
    /// The findings about the tools of a user's agents.
    tools: ToolFindings,
    cpu: Option<Duration>,
}

/// Which seeds to run.
struct ManyRunsPlan {
    from: u64,
    seeds: u64,
    hours: Option<f64>,
    /// Whether the first failure is the end.
    first: bool,
    /// How many processes share the store.
    nodes: usize,
    agents: Option<Arc<dyn SimulatedAgents>>,
}

impl ManyRunsPlan {
    fn plan_of_seed(&self, seed: u64) -> RunPlan {
        RunPlan { seed, agents: self.agents.clone(), nodes: self.nodes, ..RunPlan::default() }
    }
}

fn run_seeds(plan: &ManyRunsPlan, progress: &Sender<u64>) -> ManyRuns {
    let mut summary = SimulationSummary::of_processes(plan.nodes);
    let (mut failed, mut tools) = (Vec::new(), ToolFindings::default());
    for seed in plan.from.. {
        let is_over = match plan.hours {
            Some(hours) => summary.counted_seconds >= hours * 3_600.0,
            None => summary.seeds >= plan.seeds,
        };
        if is_over || (plan.first && !(failed.is_empty() && tools.is_empty())) {
            break;
        }
        let report = run_seed(&plan.plan_of_seed(seed));
        summary.add_run(&report);
        tools.add_run(&report);
        if !report.violations.is_empty() {
            failed.push(report);
        }
        // Whoever shows it may be gone.
        progress.send(summary.seeds).unwrap_or_default();
    }
    let cpu = read_thread_time();
    let shrunk = failed.first().map(|first| shrink_failure(&plan.plan_of_seed(first.seed), first));
    tools.shrink_findings(&plan.plan_of_seed(plan.from));
    ManyRuns { summary, failed, shrunk, tools, cpu }
}

/// Returns the processor time of this thread, where the system says so.
fn read_thread_time() -> Option<Duration> {
    let text = fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split_whitespace().next()?.parse().ok().map(Duration::from_nanos)
}

/// Plants every fault that can be planted in the commits of some seeds.
fn hunt_planted_faults(args: &Sim, most: u64) -> Result<u8> {
    let seeds = args.from..args.from.saturating_add(most);
    let collected = args.from..args.from.saturating_add(SEEDS_TO_COLLECT);
    let faults = run_apart(move || collect_plantable_faults(collected))?;
    let mut screen = TerminalOutput::standard_output();
    let (mut found, all) = (Vec::new(), faults.len());
    for fault in faults {
        let seeds = seeds.clone();
        let verdict = run_apart(move || hunt_planted_fault(fault, seeds))?;
        if !args.json {
            screen.write_line(&match &verdict.found {
                Some((seed, violation)) => format!("found by seed {seed}: {fault}: {violation}"),
                None => format!("not found: {fault}"),
            })?;
        }
        found.push(PrintedPlant { fault: fault.to_string(), seed: verdict.found.map(|(seed, _)| seed) });
    }
    let count = found.iter().filter(|plant| plant.seed.is_some()).count();
    match args.json {
        true => json::print_json(&mut screen, &found)?,
        false => screen.write_line(&format!("{count} of {all} planted faults found"))?,
    }
    Ok(COMPLETED)
}

/// How many seeds say which faults can be planted.
const SEEDS_TO_COLLECT: u64 = 50;

/// A planted fault in the output of `--json`.
#[derive(Serialize)]
struct PrintedPlant {
    fault: String,
    /// The first seed that found it; none when no seed did.
    seed: Option<u64>,
}

/// Runs something in a thread of its own: what reaches for the runtime of the command fails there.
fn run_apart<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
    let running = thread::Builder::new().name("simulation".to_owned()).spawn(work);
    let running = running.map_err(|source| Error::Input { source })?;
    Ok(running.join().unwrap_or_else(|panic| resume_unwind(panic)))
}

fn show_progress(progress: &Receiver<u64>) {
    let mut screen = TerminalOutput::standard_error();
    while let Ok(seeds) = progress.recv() {
        if seeds.is_multiple_of(EVERY) {
            // Only how far it is: when nobody reads it, it goes on.
            screen.write_styled_line(TextStyle::Dim, &format!("{seeds} seeds")).unwrap_or_default();
        }
    }
}

fn show_failures(run: &ManyRuns, screen: &mut TerminalOutput) -> Result<()> {
    if let Some(ShrunkFailure { restriction, report }) = &run.shrunk {
        screen.write_line(&format!("seed {}, shrunk to:", report.seed))?;
        report.trace.iter().try_for_each(|line| screen.write_line(line))?;
        screen.write_line(&format!("{restriction:?}"))?;
        report.violations.iter().try_for_each(|line| screen.write_line(line))?;
    }
    for report in &run.failed {
        let found = report.violations.join("\n  ");
        screen.write_line(&format!(
            "seed {} (singletree sim --seed {} --trace):\n  {found}",
            report.seed, report.seed
        ))?;
    }
    Ok(())
}

/// The output of `--json`.
#[derive(Serialize)]
struct PrintedSimulation<'a> {
    #[serde(flatten)]
    summary: &'a SimulationSummary,
    cpu_seconds: Option<f64>,
    failures: Vec<PrintedFailure<'a>>,
    /// The tools of a user's agents.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<PrintedTool<'a>>,
}

#[derive(Serialize)]
struct PrintedFailure<'a> {
    seed: u64,
    violations: &'a [String],
    trace: &'a [String],
}

impl<'a> From<&'a RunReport> for PrintedFailure<'a> {
    fn from(report: &'a RunReport) -> Self {
        Self { seed: report.seed, violations: &report.violations, trace: &report.trace }
    }
}
