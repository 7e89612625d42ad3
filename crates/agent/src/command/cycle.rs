//! One cycle of a command: the prompt of the model, and whether its proposal may be carried out.

use serde_json::json;
use singletree_durable::SessionKey;
use singletree_engine::{Ctx, NodeError};
use singletree_harness::{TurnContext, TurnPromptPolicy};
use singletree_llm::{ChatMessage, Timer};

use super::action::CommandActions;
use super::prompt::CommandPrompt;
use super::snapshot::{self, READ_TIME};
use crate::kit::AgentToolbox;
use crate::member::AgentMember;
use crate::state::AgentState;

/// The data of a command for a request to a model: every part of the state that may be in a prompt, and not the
/// conversation.
#[derive(Debug)]
pub(crate) struct CommandCycle<'a> {
    command: &'a str,
    /// Which cycle it is, from 1.
    number: u64,
    done: &'a CommandActions,
    session: SessionKey,
}

/// The kind of a message of the model, which decides how the loop continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProposalVerdict {
    /// It proposes one action that can be carried out.
    Proposal,
    /// It asks for one action that nobody can carry out; the tool's answer says why.
    Unfit,
    /// It asks for several actions: none is carried out.
    Several,
    /// It asks for none: it is the answer.
    Answer,
}

/// Tells whether the running session is one of commands.
pub(crate) fn is_command_session(cx: &Ctx<AgentState>) -> bool {
    TurnContext::of(cx).and_then(|turn| turn.prompt_policy()) == Some(TurnPromptPolicy::Command)
}

impl<'a> CommandCycle<'a> {
    /// Looks at the state, where the session is one of commands.
    ///
    /// # Errors
    /// `chat_policy_unsupported` when it is, and nothing holds the command: the loop runs inside of a graph that keeps
    /// it to itself.
    pub(crate) fn from_context(cx: &'a Ctx<AgentState>) -> Result<Option<Self>, NodeError> {
        if !is_command_session(cx) {
            return Ok(None);
        }
        let state = cx.state();
        let session = TurnContext::of(cx).and_then(|turn| turn.session().cloned());
        let command = state.current_command.as_deref();
        let Some((command, session)) = command.zip(session) else {
            let what = "the session takes commands, and this agent is told of none";
            return Err(NodeError::new(what).with_category("chat_policy_unsupported"));
        };
        let (number, session) = (state.answers + 1, session.clone());
        Ok(Some(Self { command, number, done: &state.actions.0, session }))
    }

    /// Makes the prompt: everything is read anew, with a time limit for each read.
    pub(crate) async fn build_prompt(
        &self,
        member: &AgentMember,
        timer: &dyn Timer,
    ) -> Result<CommandPrompt, NodeError> {
        let state = snapshot::read_session_state(member.snapshots.as_ref(), &self.session, timer).await?;
        let snapshot = json!({ "cycle": self.number, "done": self.done, "state": state });
        let prompt = CommandPrompt::new(self.command, snapshot);
        let prompt = match &member.system {
            Some(system) => prompt.rules(system.text()),
            None => prompt,
        };
        let Some(artifacts) = &member.artifacts else { return Ok(prompt) };
        let read = timer.run_with_timeout(READ_TIME, artifacts.list_approved(&self.session)).await;
        let read = read.map_err(|_| {
            let what = format!("the artifacts were not read within {} s", READ_TIME.as_secs());
            NodeError::new(what).with_category("store_unavailable")
        })?;
        Ok(prompt.artifacts(read.map_err(|error| {
            let category = error.category();
            NodeError::new("the approved artifacts could not be read")
                .with_category(category)
                .with_cause(error)
        })?))
    }
}

impl ProposalVerdict {
    /// Judges a message of the model: one proposal a cycle.
    pub(crate) fn judge_message(message: &ChatMessage, kit: &AgentToolbox<'_>) -> Self {
        match message.tool_calls.as_slice() {
            [] => Self::Answer,
            [call] if kit.find_runnable_tool(call).is_some() || kit.find_hand_off(call).is_some() => {
                Self::Proposal
            }
            [_] => Self::Unfit,
            [..] => Self::Several,
        }
    }

    /// Returns the answer to each call of the message that is not carried out.
    pub(crate) fn rejection_reason(self) -> Option<&'static str> {
        match self {
            Self::Several => Some("one action at a time; none of these was carried out"),
            Self::Proposal | Self::Unfit | Self::Answer => None,
        }
    }
}
