//! Several agents in one conversation.

use std::collections::BTreeSet;
use std::sync::Arc;

use singletree_engine::Graph;
use singletree_harness::Agent;
use singletree_llm::ChatMessage;

use crate::agent_loop::{AgentLoopBuilder, MODEL_CALLS_MAX, build_agent};
use crate::chat_agent::{ChatAgent, list_active_agents};
use crate::compaction::Compaction;
use crate::error::{Error, Result};
use crate::graph::build_graph;
use crate::hand_off::HandOffTool;
use crate::parts::AgentLoopParts;
use crate::state::AgentState;

/// Several agents in one conversation. It belongs to one of them at a time, at first to the first. When the model of
/// that agent calls `transfer_to_NAME`, the conversation is handed to another agent, who answers at once and answers
/// every message of the user from then on, also after a restart. An agent's messages and the results of its tools are
/// marked with its id in the messages' side records under `agent` (D17).
#[derive(Debug, Clone, Copy)]
pub struct Team;

/// Collects the agents of a team.
#[derive(Debug)]
pub struct TeamBuilder {
    members: Vec<(ChatAgent, AgentLoopBuilder)>,
    hand_offs: Vec<(String, Vec<String>)>,
    compaction: Option<Compaction>,
    model_calls_max: u64,
}

impl Team {
    /// Starts a team without anybody.
    #[must_use]
    pub fn builder() -> TeamBuilder {
        let (members, hand_offs) = (Vec::new(), Vec::new());
        TeamBuilder { members, hand_offs, compaction: None, model_calls_max: MODEL_CALLS_MAX }
    }
}

impl TeamBuilder {
    /// Adds an agent; the user meets the first one. Of the loop, its model, tools, prompt, policy and times count; the
    /// limit of model calls and the compaction are the team's. The record determines the additions to the prompt and
    /// the tools that the agent may use.
    #[must_use]
    pub fn member(mut self, record: ChatAgent, agent: AgentLoopBuilder) -> Self {
        self.members.push((record, agent));
        self
    }

    /// Says to whom an agent may hand the conversation, by ids; to every other one that is not put away, otherwise.
    #[must_use]
    pub fn hands_off(
        mut self,
        from: impl Into<String>,
        to: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        self.hand_offs.push((from.into(), to.into_iter().map(Into::into).collect()));
        self
    }

    /// Bounds how often models are asked for one message of the user, all agents together; 32 otherwise. It bounds
    /// hand-offs, too. One more is `chat_budget_exhausted` (D13).
    #[must_use]
    pub fn max_model_calls(mut self, calls: u64) -> Self {
        self.model_calls_max = calls;
        self
    }

    /// Summarises the beginning of long conversations for the models (D27); never otherwise.
    #[must_use]
    pub fn compaction(mut self, compaction: Compaction) -> Self {
        self.compaction = Some(compaction);
        self
    }

    /// Lists the agents for anybody to see: in their order, without prompts, without those that are put away.
    #[must_use]
    pub fn list_public_agents(&self) -> Vec<ChatAgent> {
        list_active_agents(self.members.iter().map(|(record, _)| record))
            .into_iter()
            .map(ChatAgent::without_prompts)
            .collect()
    }

    /// Makes the graph.
    ///
    /// # Errors
    /// `agent_team_invalid` when there is nobody, when two have one id or one name to hand over to, when a hand-off
    /// names nobody; the error of a tool that cannot be made or is there twice; the categories of [`singletree_engine::GraphBuilder::compile`].
    pub fn graph(self) -> Result<Graph<AgentState>> {
        build_graph(self.into_loop_parts()?)
    }

    /// Makes the agent of a chat that answers as this team. With more than one member it runs at
    /// [`Durability::Step`](singletree_harness::Durability::Step): a hand-off is a call, and no committed one is made
    /// again (D26).
    ///
    /// # Errors
    /// As [`TeamBuilder::graph`].
    pub fn agent(self, name: impl Into<String>) -> Result<Agent> {
        build_agent(name, self.into_loop_parts()?)
    }

    fn into_loop_parts(self) -> Result<AgentLoopParts> {
        self.check_members()?;
        let records: Vec<ChatAgent> = self.members.iter().map(|(record, _)| record.clone()).collect();
        let mut members = Vec::new();
        for (record, agent) in self.members {
            let mut member = agent.into_member()?;
            let targets = match self.hand_offs.iter().rev().find(|(from, _)| *from == record.id) {
                Some((_, to)) => records.iter().filter(|record| to.contains(&record.id)).collect::<Vec<_>>(),
                None => {
                    let others = records.iter().filter(|it| it.id != record.id);
                    others.filter(|other| other.is_archived != Some(true)).collect()
                }
            };
            member.hand_offs = targets.into_iter().map(HandOffTool::for_agent).collect::<Result<_>>()?;
            if let Some(listed) = record.allowed_tools() {
                let listed: BTreeSet<String> = listed.map(str::to_owned).collect();
                // Of two lists both hold.
                member.allowed = Some(match member.allowed {
                    Some(allowed) => allowed.intersection(&listed).cloned().collect(),
                    None => listed,
                });
            }
            if let Some(prompt) = record.build_prompt() {
                let own = member.system.map(|system| system.text().into_owned());
                let text = own.into_iter().chain([prompt]).collect::<Vec<_>>().join("\n\n");
                member.system = Some(Arc::new(ChatMessage::system(text)));
            }
            member.id = Some(record.id);
            members.push(member);
        }
        let nobody = || Error::Team { why: "there is nobody".into() };
        let mut members = members.into_iter();
        let first = members.next().ok_or_else(nobody)?;
        let (others, compaction) = (members.collect(), self.compaction);
        let model_calls_max = self.model_calls_max;
        Ok(AgentLoopParts { first, others, compaction, model_calls_max, stateless: false })
    }

    fn check_members(&self) -> Result<()> {
        let mut ids = BTreeSet::new();
        let mut tools = BTreeSet::new();
        for (record, _) in &self.members {
            if !ids.insert(record.id.as_str()) {
                return Err(Error::Team { why: format!("two agents have the id '{}'", record.id) });
            }
            let hand_off = HandOffTool::for_agent(record)?;
            if !tools.insert(hand_off.definition.name().to_owned()) {
                let why = format!("two agents are called by '{}'", hand_off.definition.name());
                return Err(Error::Team { why });
            }
        }
        let named = self.hand_offs.iter().flat_map(|(from, to)| to.iter().chain([from]));
        match named.into_iter().find(|item| !ids.contains(item.as_str())) {
            Some(id) => Err(Error::Team { why: format!("a hand-off names '{id}', who is not there") }),
            None => Ok(()),
        }
    }
}
