//! The parts of a request that a rule can see.

use std::borrow::Cow;

use crate::message::{ChatMessage, Role};
use crate::request::Request;

/// A request, as rules look at it.
#[derive(Debug)]
pub(super) struct RuleRequestView<'a> {
    pub(super) system: Option<Cow<'a, str>>,
    /// The texts of the user messages, in order; the last is the current one.
    pub(super) users: Vec<Cow<'a, str>>,
    /// The results after the last user message.
    pub(super) results: Vec<ToolResultView<'a>>,
    pub(super) answered: usize,
}

/// One tool result.
#[derive(Debug)]
pub(super) struct ToolResultView<'a> {
    /// The tool, found by the assistant message right before the result.
    pub(super) tool: &'a str,
    pub(super) content: Cow<'a, str>,
}

impl<'a> RuleRequestView<'a> {
    /// Looks at a request that was checked.
    pub(super) fn from_request(request: &'a Request) -> Self {
        let mut situation = Self { system: None, users: Vec::new(), results: Vec::new(), answered: 0 };
        let mut asking: Option<&ChatMessage> = None;
        for message in &request.messages {
            match message.role {
                Role::System => situation.system = Some(message.text()),
                Role::User => {
                    situation.users.push(message.text());
                    situation.results.clear();
                }
                Role::Assistant => {
                    situation.answered += 1;
                    asking = Some(message);
                }
                Role::Tool => {
                    let called = asking.and_then(|asking| {
                        let id = message.tool_call_id.as_deref();
                        asking.tool_calls.iter().find(|call| Some(call.id.as_str()) == id)
                    });
                    let tool = called.map_or("", |called| called.name.as_str());
                    situation.results.push(ToolResultView { tool, content: message.text() });
                }
            }
        }
        situation
    }
}
