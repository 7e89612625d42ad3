//! Tools that whoever asks brings along, and runs itself.

use std::collections::BTreeSet;
use std::sync::Arc;

use singletree_llm::{Request, ToolCall, ToolChoicePolicy, ToolDefinition};

use crate::error::{Error, Result};

/// Tools of a caller's own, for an answer in no session: handed to
/// [`Chat::stateless`](singletree_harness::Chat::stateless) as an extension. The model is told of them beside those of
/// the agent that only read; the run ends with the message that calls one, and the caller runs it and asks again with
/// its answer. In sessions they are not looked at.
#[derive(Debug, Clone, Default)]
pub struct ClientTools {
    definitions: Arc<[ToolDefinition]>,
    choice: Option<ToolChoicePolicy>,
}

impl ClientTools {
    /// Takes the tools. One that has the name of a tool of the agent stands in its place.
    ///
    /// # Errors
    /// `tool_duplicate` when two have one name.
    pub fn new(definitions: impl IntoIterator<Item = ToolDefinition>) -> Result<Self> {
        let definitions: Arc<[ToolDefinition]> = definitions.into_iter().collect();
        let mut names = BTreeSet::new();
        match definitions.iter().find(|definition| !names.insert(definition.name())) {
            Some(twice) => {
                let name = twice.name().to_owned();
                Err(Error::from(singletree_tools::Error::Duplicate { name }))
            }
            None => Ok(Self { definitions, choice: None }),
        }
    }

    /// Sets how freely the model may choose in its first answer; later ones are free.
    #[must_use]
    pub fn with_tool_choice(mut self, choice: ToolChoicePolicy) -> Self {
        self.choice = Some(choice);
        self
    }

    /// Tells whether a call is the caller's to run.
    #[must_use]
    pub fn is_client_call(&self, call: &ToolCall) -> bool {
        self.has_tool(&call.name)
    }

    fn has_tool(&self, name: &str) -> bool {
        self.definitions.iter().any(|definition| definition.name() == name)
    }

    /// Adds them to a request.
    pub(crate) fn add_to_request(&self, request: Request, is_first: bool) -> Request {
        let agents = request.tools.iter().filter(|tool| !self.has_tool(tool.name())).cloned();
        let tools: Arc<[ToolDefinition]> = agents.chain(self.definitions.iter().cloned()).collect();
        if tools.is_empty() {
            return request;
        }
        let request = request.with_tools(tools);
        match self.choice.clone().filter(|_| is_first) {
            Some(choice) => request.with_tool_choice(choice),
            None => request,
        }
    }
}
