//! Shared data of the nodes of one graph: its agents, and the limits of a turn.

use singletree_engine::{Ctx, END, NodeError, Target};
use singletree_env::Env;

use crate::asking::ToolCallMessage;
use crate::command::is_command_session;
use crate::compaction::Compaction;
use crate::hand_off;
use crate::kit::AgentToolbox;
use crate::member::AgentMember;
use crate::state::AgentState;

pub(crate) const COMPACT: &str = "compact";
pub(crate) const MODEL: &str = "model";
pub(crate) const GATE: &str = "gate";
pub(crate) const TOOLS: &str = "tools";

/// The shared data of the nodes of one graph.
#[derive(Debug, Clone)]
pub(crate) struct AgentLoopParts {
    /// The first one answers until the conversation is another one's.
    pub(crate) first: AgentMember,
    pub(crate) others: Vec<AgentMember>,
    pub(crate) compaction: Option<Compaction>,
    pub(crate) model_calls_max: u64,
    /// Whether it answers in no session: nothing is changed then, and nobody asked (D16).
    pub(crate) stateless: bool,
    /// The environment of the graph; the real one without.
    pub(crate) env: Option<Env>,
}

impl AgentLoopParts {
    /// Returns the agent that a conversation belongs to. At the beginning of a turn the conversation itself says so, as
    /// far as it is held: a turn that was cancelled after a hand-off, and a fork behind one, have kept nothing else.
    /// Then it is noted in the state.
    ///
    /// # Errors
    /// `chat_agent_unknown` when that is none of these: agents were changed, and who would answer now is not guessed.
    pub(crate) fn find_owner(&self, cx: &Ctx<AgentState>) -> Result<&AgentMember, NodeError> {
        let state = cx.state();
        // The messages of a command session do not decide which agent answers.
        let looks_back = self.is_team() && state.answers == 0 && !is_command_session(cx);
        let handed = if looks_back { hand_off::find_last_hand_off(&state.messages) } else { None };
        let Some(id) = handed.or_else(|| state.agent.clone()) else { return Ok(&self.first) };
        let owner = self.all_members().find(|member| member.id.as_ref() == Some(&id));
        owner.ok_or_else(|| {
            let what = format!("the conversation belongs to the agent '{id}', which is not there");
            NodeError::new(what).with_category("chat_agent_unknown")
        })
    }

    pub(crate) fn all_members(&self) -> impl Iterator<Item = &AgentMember> {
        std::iter::once(&self.first).chain(&self.others)
    }

    /// Returns the same agents as they answer in no session: from the beginning each time, with the tools that only
    /// read.
    pub(crate) fn to_stateless(&self) -> Self {
        Self { compaction: None, stateless: true, ..self.clone() }
    }

    /// Returns an agent's tools as they are now. Each node asks once and works with the answer.
    pub(crate) async fn current_toolbox_of<'a>(&self, member: &'a AgentMember) -> AgentToolbox<'a> {
        let kit = member.current_toolbox().await;
        if self.stateless { kit.into_read_only() } else { kit }
    }

    /// Tells whether the conversation can be handed over.
    pub(crate) fn is_team(&self) -> bool {
        !self.others.is_empty()
    }

    /// Returns the next node after an answer of the model where there is no gate: a call that is held back ends the
    /// loop.
    pub(crate) fn choose_next_stateless_node(state: &AgentState) -> Target {
        match ToolCallMessage::from_agent_state(state) {
            Some(asking) if state.decisions.0.find_undecided_call(asking.position).is_none() => TOOLS.into(),
            Some(_) | None => END.into(),
        }
    }

    /// Says where the loop goes after an answer of the model, and after the gate.
    pub(crate) fn choose_next_node(state: &AgentState) -> Target {
        let Some(asking) = ToolCallMessage::from_agent_state(state) else { return END.into() };
        // An answer that came with the resume is taken down by the gate first.
        if state.approved.is_some() || state.decisions.0.find_undecided_call(asking.position).is_some() {
            GATE.into()
        } else {
            TOOLS.into()
        }
    }
}
