//! The agent of the load: a scripted model that follows the message's first word.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use singletree_agent::{AgentLoop, Result};
use singletree_harness::Agent;
use singletree_llm::{Script, ScriptedProvider, Timer};
use singletree_tools::{Tool, ToolLimits, Toolbox};

use super::effects::{LoadTool, LoadToolKind};

/// How long an approval waits.
const EXPIRES: Duration = Duration::from_millis(1_500);

const SCRIPT: &str = include_str!("script.json");

pub(super) fn build_agent(log: PathBuf, pace: Arc<dyn Timer>) -> Result<Agent> {
    let tools = LoadToolKind::ALL
        .into_iter()
        .map(|item| LoadTool::new(item, log.clone()).map(|it| Arc::new(it) as Arc<dyn Tool>));
    let tools: Vec<_> = tools.collect::<singletree_tools::Result<_>>()?;
    let toolbox = Toolbox::new(tools, ToolLimits::standard())?;
    let provider = ScriptedProvider::new(Script::from_json(SCRIPT)?).with_pace(pace);
    let agent = AgentLoop::builder(Arc::new(provider)).toolbox(toolbox);
    agent.approval_expires_in(EXPIRES).agent("torture")
}
