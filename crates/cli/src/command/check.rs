//! `singletree check`: reports the mistakes in a file of agents.

use serde::Serialize;
use singletree::config::{self, ConfigReport, InspectionDepth};

use crate::args::Check;
use crate::error::{Error, Result};
use crate::exit::{COMPLETED, ERRORED};
use crate::json;
use crate::print::TerminalOutput;
use crate::who;

/// The output of `--json`.
#[derive(Serialize)]
struct PrintedConfigCheck<'a> {
    /// The agents, when nothing is wrong.
    agents: Vec<&'a str>,
    #[serde(flatten)]
    report: &'a ConfigReport,
}

/// Runs the command. No model is asked, and an MCP server only where that is wanted.
pub(crate) async fn run_check_command(args: &Check) -> Result<u8> {
    let mut screen = TerminalOutput::standard_output();
    let depth = if args.connect { InspectionDepth::Servers } else { InspectionDepth::Programs };
    let (config, report) = match who::inspect_config(&args.file, depth).await {
        Ok(config) => (Some(config), None),
        Err(Error::Config(config::Error::Invalid(report))) => (None, Some(report)),
        Err(error) => return Err(error),
    };
    let agents = config.as_ref().map(config::Config::agent_names).unwrap_or_default();
    let sound = ConfigReport::without_mistakes(&args.file.display().to_string());
    let found = report.as_deref().unwrap_or(&sound);
    match (args.json, &report) {
        (true, _) => json::print_json(&mut screen, &PrintedConfigCheck { agents, report: found })?,
        (false, Some(report)) => screen.write_config_report("config_invalid", report)?,
        (false, None) => {
            screen.write_line(&format!("{}: nothing is wrong; agents: {}", found.file, agents.join(", ")))?
        }
    }
    Ok(if report.is_none() { COMPLETED } else { ERRORED })
}
