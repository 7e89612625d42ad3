//! Several agents in one conversation.

use std::collections::BTreeSet;

use singletree_engine::Graph;
use singletree_harness::{GraphAgent, IntoAgent};

use crate::agent::{Agent, MODEL_CALLS_MAX, build_graph_agent};
use crate::chat_settings::ChatSettings;
use crate::compaction::Compaction;
use crate::error::{Error, Result};
use crate::graph::build_graph;
use crate::hand_off::HandOffTool;
use crate::parts::AgentLoopParts;
use crate::profile::{AgentProfile, list_active_agents};
use crate::state::AgentState;

/// Several agents in one conversation. It belongs to one of them at a time, at first to the first. When the model of
/// that agent calls `transfer_to_NAME`, the conversation is handed to another agent, who answers at once and answers
/// every message of the user from then on, also after a restart. An agent's messages and the results of its tools are
/// marked with its id in the messages' side records under `agent` (D17).
///
/// A chat takes it in the place of an agent. Its settings never fail, as those of an [`Agent`].
#[derive(Debug)]
#[must_use]
pub struct Team {
    name: String,
    members: Vec<Agent>,
    hand_offs: Vec<(String, Vec<String>)>,
    compaction: Option<Compaction>,
    model_calls_max: u64,
    settings: ChatSettings,
}

impl Team {
    /// Makes a team without members. The name is stored with its sessions.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            members: Vec::new(),
            hand_offs: Vec::new(),
            compaction: None,
            model_calls_max: MODEL_CALLS_MAX,
            settings: ChatSettings::default(),
        }
    }

    /// Adds an agent; the user meets the first one. The limit of model calls, the compaction and the settings that a
    /// chat applies are those of the team, not of the agent.
    pub fn member(mut self, agent: Agent) -> Self {
        self.members.push(agent);
        self
    }

    /// Says to whom an agent may hand the conversation, by ids; to every other one that is not put away, otherwise.
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
    pub fn max_model_calls(mut self, calls: u64) -> Self {
        self.model_calls_max = calls;
        self
    }

    /// Summarises the beginning of long conversations for the models (D27); never otherwise.
    pub fn compaction(mut self, compaction: Compaction) -> Self {
        self.compaction = Some(compaction);
        self
    }

    /// Lists the agents for anybody to see: in their order, without prompts, without those that are put away.
    #[must_use]
    pub fn list_public_agents(&self) -> Vec<AgentProfile> {
        list_active_agents(self.members.iter().map(Agent::profile))
            .into_iter()
            .map(AgentProfile::without_prompts)
            .collect()
    }

    /// Makes the graph of its loop, for use as a node of another graph.
    ///
    /// # Errors
    /// `agent_team_invalid` when there is nobody, when two have one id or one name to hand over to, when a hand-off
    /// names nobody; the error of a tool that cannot be made or is there twice; the categories of
    /// [`singletree_engine::GraphBuilder::compile`].
    pub fn graph(self) -> Result<Graph<AgentState>> {
        build_graph(self.into_loop_parts()?)
    }

    /// Builds the team in the form in which a chat serves it, to find its errors early. A chat does the same. With more
    /// than one member it runs at [`Durability::Step`](singletree_harness::Durability::Step): a hand-off is a call, and
    /// no committed one is made again (D26).
    ///
    /// # Errors
    /// As [`Team::graph`].
    pub fn build(self) -> Result<GraphAgent> {
        let (name, settings) = (self.name.clone(), self.settings.clone());
        Ok(settings.apply_to(build_graph_agent(name, self.into_loop_parts()?)?))
    }

    fn into_loop_parts(self) -> Result<AgentLoopParts> {
        self.check_members()?;
        let env = self.members.iter().find_map(Agent::environment).cloned();
        let profiles: Vec<AgentProfile> = self.members.iter().map(|agent| agent.profile().clone()).collect();
        let mut members = Vec::new();
        for agent in self.members {
            let profile = agent.profile().clone();
            let mut member = agent.into_member()?;
            let targets = match self.hand_offs.iter().rev().find(|(from, _)| *from == profile.id) {
                Some((_, to)) => profiles.iter().filter(|target| to.contains(&target.id)).collect::<Vec<_>>(),
                None => {
                    let others = profiles.iter().filter(|other| other.id != profile.id);
                    others.filter(|other| other.is_archived != Some(true)).collect()
                }
            };
            member.hand_offs = targets.into_iter().map(HandOffTool::for_agent).collect::<Result<_>>()?;
            member.id = Some(profile.id);
            members.push(member);
        }
        let nobody = || Error::Team { why: "there is nobody".into() };
        let mut members = members.into_iter();
        let first = members.next().ok_or_else(nobody)?;
        let (others, compaction) = (members.collect(), self.compaction);
        let model_calls_max = self.model_calls_max;
        Ok(AgentLoopParts { first, others, compaction, model_calls_max, stateless: false, env })
    }

    fn check_members(&self) -> Result<()> {
        let mut ids = BTreeSet::new();
        let mut tools = BTreeSet::new();
        for record in self.members.iter().map(Agent::profile) {
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

crate::chat_settings::chat_settings!(Team);

impl IntoAgent for Team {
    fn into_agent(self) -> Result<GraphAgent, singletree_harness::Error> {
        let team = self.name.clone();
        self.build().map_err(|error| error.for_agent(team))
    }
}
