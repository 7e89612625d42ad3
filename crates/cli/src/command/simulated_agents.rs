//! `singletree sim --config`: the agents of a file in the simulated world, and what is found about their tools.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use serde::Serialize;
use singletree::GraphAgent;
use singletree::config::{AgentDependencies, Config, ReplacedParts};
use singletree::env::{BoxError, Env};
use singletree::harness::Limits;
use singletree::tools::ToolTraits;
use singletree_simulation::{
    DoubtfulEffect, EffectDoubt, RunPlan, RunReport, ShrunkFailure, SimulatedAgentParts, SimulatedAgents,
    ToolTally, run_seed, shrink_run,
};

use crate::error::Result;
use crate::print::{TerminalOutput, TextStyle};
use crate::who;

/// The agents of a file, with the properties of their tools.
#[derive(Debug)]
struct ConfiguredAgents {
    config: Config,
    tools: BTreeMap<String, Vec<ToolTraits>>,
    limits: Limits,
}

/// Reads the file of the agents and asks MCP servers for their tools. No tool is called.
pub(crate) async fn load_simulated_agents(file: &Path) -> Result<Arc<dyn SimulatedAgents>> {
    let config = who::load_config(file).await?;
    let means = agent_dependencies(Env::from_system());
    let tools = config.describe_tools(&means).await?;
    let limits = config.build(&means)?.limits;
    Ok(Arc::new(ConfiguredAgents { config, tools, limits }))
}

fn agent_dependencies(env: Env) -> AgentDependencies {
    AgentDependencies {
        tool_documents: None,
        definition_pins: None,
        env,
        snapshots: None,
        artifacts: None,
        unoffered: None,
    }
}

impl SimulatedAgents for ConfiguredAgents {
    fn agent_names(&self) -> Vec<String> {
        self.config.agent_names().into_iter().map(str::to_owned).collect()
    }

    fn limits(&self) -> Limits {
        self.limits.clone()
    }

    fn build_agents(&self, parts: &SimulatedAgentParts) -> Result<Vec<GraphAgent>, BoxError> {
        let make = |traits: &Vec<ToolTraits>| traits.iter().map(|traits| parts.make_tool(traits)).collect();
        let tools = self.tools.iter().map(|(agent, traits)| (agent.clone(), make(traits))).collect();
        let replaced = ReplacedParts { model: parts.model(), tools };
        Ok(self.config.build_with_parts(&agent_dependencies(parts.env()), &replaced)?.agents)
    }
}

/// What runs found about the tools of a user's agents.
#[derive(Debug, Default)]
pub(crate) struct ToolFindings {
    tallies: BTreeMap<String, ToolTally>,
    /// By tool and by what became of its effect.
    found: BTreeMap<(String, EffectDoubt), ToolFinding>,
}

/// Effects of one tool that stayed unknown, or that happened twice.
#[derive(Debug)]
struct ToolFinding {
    /// Under how many seeds.
    seeds: u64,
    /// The first of them.
    first: u64,
    effect: DoubtfulEffect,
}

impl ToolFindings {
    /// Tells whether nothing is to be reported.
    pub(crate) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// Adds the findings of a run.
    pub(crate) fn add_run(&mut self, report: &RunReport) {
        for (name, tally) in &report.tools {
            let known = self.tallies.entry(name.clone());
            known.and_modify(|known| known.calls += tally.calls).or_insert_with(|| tally.clone());
        }
        for effect in &report.doubtful {
            let known = self.found.entry((effect.tool.clone(), effect.doubt));
            known.and_modify(|known| known.seeds += 1).or_insert_with(|| ToolFinding {
                seeds: 1,
                first: report.seed,
                effect: effect.clone(),
            });
        }
    }

    /// Shrinks the first run of each finding to the least that still shows it.
    pub(crate) fn shrink_findings(&mut self, plan: &RunPlan) {
        for ((tool, doubt), finding) in &mut self.found {
            let shows = |effect: &&DoubtfulEffect| effect.tool == *tool && effect.doubt == *doubt;
            let plan = RunPlan { seed: finding.first, ..plan.clone() };
            let failed = run_seed(&plan);
            let ShrunkFailure { report, .. } =
                shrink_run(&plan, &failed, |report| report.doubtful.iter().any(|effect| shows(&effect)));
            if let Some(effect) = report.doubtful.iter().find(shows) {
                finding.effect = effect.clone();
            }
        }
    }

    fn find_of_tool(&self, name: &str, doubt: EffectDoubt) -> Option<&ToolFinding> {
        self.found.get(&(name.to_owned(), doubt))
    }

    /// Prints the histories of the findings, then one line for each tool.
    pub(crate) fn show_findings(&self, screen: &mut TerminalOutput) -> Result<()> {
        for ((tool, doubt), finding) in &self.found {
            let ToolFinding { first, effect, .. } = finding;
            let title =
                format!("{tool}: {}; seed {first}, session {}:", describe_doubt(*doubt), effect.session);
            screen.write_styled_line(TextStyle::Wrong, &title)?;
            effect.history.iter().try_for_each(|line| screen.write_line(&format!("    {line}")))?;
        }
        for (name, tally) in &self.tallies {
            screen.write_line(&self.describe_tool(name, tally))?;
        }
        Ok(())
    }

    fn describe_tool(&self, name: &str, tally: &ToolTally) -> String {
        let ToolTally { traits, calls } = tally;
        let begin =
            format!("tool {name} ({}, {}), {calls} calls: ", traits.effect, describe_recovery(traits));
        if *calls == 0 {
            return begin + "never called: no arguments were found that fit its schema";
        }
        let doubts = [EffectDoubt::Unknown, EffectDoubt::Repeated].into_iter();
        let found = doubts.filter_map(|doubt| {
            let ToolFinding { seeds, first, .. } = self.find_of_tool(name, doubt)?;
            Some(format!("{} under {seeds} seeds, first {first}", describe_doubt(doubt)))
        });
        let found: Vec<String> = found.collect();
        if found.is_empty() { begin + "nothing to report" } else { begin + &found.join("; ") }
    }

    /// Returns the tools as `--json` prints them.
    pub(crate) fn printed_tools(&self) -> Vec<PrintedTool<'_>> {
        let printed = |name, doubt| {
            self.find_of_tool(name, doubt).map(|finding: &ToolFinding| PrintedFinding {
                seeds: finding.seeds,
                seed: finding.first,
                session: &finding.effect.session,
                history: &finding.effect.history,
            })
        };
        let tools = self.tallies.iter().map(|(name, tally)| PrintedTool {
            tool: name,
            effect: tally.traits.effect.as_str(),
            may_stay_unknown: tally.traits.may_stay_unknown(),
            calls: tally.calls,
            unknown: printed(name, EffectDoubt::Unknown),
            repeated: printed(name, EffectDoubt::Repeated),
        });
        tools.collect()
    }
}

fn describe_recovery(traits: &ToolTraits) -> &'static str {
    match (traits.effect.has_side_effects(), traits.may_stay_unknown()) {
        (false, _) => "changes nothing",
        (true, false) => "idempotent",
        (true, true) => "not idempotent",
    }
}

fn describe_doubt(doubt: EffectDoubt) -> &'static str {
    match doubt {
        EffectDoubt::Unknown => "its effect stayed unknown",
        EffectDoubt::Repeated => "its effect happened twice",
    }
}

/// A tool in the output of `--json`.
#[derive(Debug, Serialize)]
pub(crate) struct PrintedTool<'a> {
    tool: &'a str,
    effect: &'static str,
    /// Whether it changes something and is not idempotent.
    may_stay_unknown: bool,
    calls: u64,
    /// Effects of which the history says that they are unknown.
    unknown: Option<PrintedFinding<'a>>,
    /// Effects that happened twice.
    repeated: Option<PrintedFinding<'a>>,
}

/// A finding about a tool in the output of `--json`.
#[derive(Debug, Serialize)]
struct PrintedFinding<'a> {
    /// Under how many seeds.
    seeds: u64,
    /// The first of them.
    seed: u64,
    session: &'a str,
    history: &'a [String],
}
