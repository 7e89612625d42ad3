//! The agent of the load: a scripted model that follows the message's first word.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use singletree_agent::{Agent, Result};
use singletree_harness::GraphAgent;
use singletree_llm::{Script, ScriptedProvider, Timer};

use super::effects::{LoadTool, LoadToolKind};

/// How long an approval waits.
const EXPIRES: Duration = Duration::from_millis(1_500);

const SCRIPT: &str = include_str!("script.json");

pub(super) fn build_agent(log: PathBuf, pace: Arc<dyn Timer>) -> Result<GraphAgent> {
    let tools = LoadToolKind::ALL.into_iter().map(|kind| {
        let log = log.clone();
        move || LoadTool::new(kind, log)
    });
    let provider = ScriptedProvider::new(Script::from_json(SCRIPT)?).with_pace(pace);
    Agent::new("torture", provider).tools(tools).approval_expires_in(EXPIRES).build()
}
