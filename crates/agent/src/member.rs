//! One agent: its model, its tools, its permissions.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use singletree_llm::{ChatMessage, ModelRetryPolicy, Provider, RuntimeConfig, Schema};
use singletree_tools::LiveToolbox;

use crate::approval_policy::ApprovalPolicy;
use crate::command::{Artifacts, SnapshotSource};
use crate::hand_off::HandOffTool;
use crate::kit::AgentToolbox;

/// One agent: its model, its tools, its permissions.
#[derive(Debug, Clone)]
pub(crate) struct AgentMember {
    /// Its id; none where it is the only agent of its graph.
    pub(crate) id: Option<String>,
    pub(crate) provider: Arc<dyn Provider>,
    pub(crate) sampling: RuntimeConfig,
    pub(crate) system: Option<Arc<ChatMessage>>,
    pub(crate) window: Option<u64>,
    pub(crate) tools: Option<LiveToolbox>,
    /// The names of the tools that it may use; all of them when nothing is said.
    pub(crate) allowed: Option<BTreeSet<String>>,
    pub(crate) hand_offs: Vec<HandOffTool>,
    /// Where the state comes from that is shown with a command.
    pub(crate) snapshots: Option<Arc<dyn SnapshotSource>>,
    /// Where approved artifacts come from.
    pub(crate) artifacts: Option<Arc<Artifacts>>,
    pub(crate) approval: ApprovalPolicy,
    pub(crate) approval_expires_in: Option<Duration>,
    pub(crate) model_time_max: Duration,
    /// How failed calls of the model are made again; never without it.
    pub(crate) retry: Option<ModelRetryPolicy>,
    pub(crate) reply_schema: Option<Arc<Schema>>,
    /// How many answers in a row may need a repair (D30).
    pub(crate) repairs_max: u64,
    /// Whether people are shown the thinking of its model (D19).
    pub(crate) shows_thinking: bool,
}

impl AgentMember {
    /// Returns its tools as they are now. Each node asks once and works with the answer.
    pub(crate) async fn current_toolbox(&self) -> AgentToolbox<'_> {
        let toolbox = match &self.tools {
            Some(tools) => Some(tools.current_toolbox().await),
            None => None,
        };
        AgentToolbox::new(self, toolbox)
    }
}
