//! What the nodes of one agent share.

use std::sync::Arc;
use std::time::Duration;

use singletree_engine::{END, Target};
use singletree_harness::Messages;
use singletree_llm::{ChatMessage, Provider, Request, RuntimeConfig, ToolCall};
use singletree_tools::{Recovery, Tool, Toolbox};

use crate::approve::Approve;
use crate::asking::Asking;
use crate::state::AgentState;

pub(crate) const MODEL: &str = "model";
pub(crate) const GATE: &str = "gate";
pub(crate) const TOOLS: &str = "tools";

/// What the nodes of one agent share.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) provider: Arc<dyn Provider>,
    pub(crate) sampling: RuntimeConfig,
    pub(crate) system: Option<Arc<ChatMessage>>,
    pub(crate) window: Option<u64>,
    pub(crate) toolbox: Option<Toolbox>,
    pub(crate) approve: Approve,
    pub(crate) approval_expires_in: Option<Duration>,
    pub(crate) model_calls_max: u64,
    pub(crate) model_time_max: Duration,
}

impl Parts {
    /// Makes the request for the next answer. Messages are shared with the state, not copied.
    pub(crate) fn request(&self, messages: &Messages) -> Request {
        let system = self.system.iter().cloned();
        let request = Request::new(match self.window {
            Some(window) => system.chain(messages.window(window)).collect(),
            None => system.chain(messages.iter()).collect(),
        })
        .with_config(self.sampling.clone());
        match &self.toolbox {
            Some(toolbox) => request.with_tools(toolbox.definitions()),
            None => request,
        }
    }

    /// Returns the tool that a call would run: none when it is not there or its arguments do not fit.
    pub(crate) fn runnable(&self, call: &ToolCall) -> Option<&dyn Tool> {
        let toolbox = self.toolbox.as_ref()?;
        toolbox.check(call).ok()?;
        toolbox.get(&call.name)
    }

    /// Says what to do with a call that was begun and not recorded, if running it can change something.
    pub(crate) fn changes(&self, call: &ToolCall) -> Option<Recovery> {
        self.runnable(call).filter(|it| it.effect().changes()).map(Tool::on_unknown_outcome)
    }

    /// Finds the next call that a person has to decide about.
    pub(crate) fn undecided<'a>(
        &self,
        state: &AgentState,
        asking: &'a Asking,
    ) -> Option<(u64, &'a ToolCall)> {
        asking.calls().find(|(index, call)| {
            let held_back = self.runnable(call).is_some_and(|it| self.approve.needs(&call.name, it.effect()));
            held_back && state.decisions.0.about(asking.position, *index).is_none()
        })
    }

    /// Says where the loop goes after an answer of the model, and after the gate.
    pub(crate) fn next(&self, state: &AgentState) -> Target {
        let Some(asking) = Asking::of(&state.messages) else { return END.into() };
        // An answer that came with the resume is taken down by the gate first.
        if state.approved.is_some() || self.undecided(state, &asking).is_some() {
            GATE.into()
        } else {
            TOOLS.into()
        }
    }
}
