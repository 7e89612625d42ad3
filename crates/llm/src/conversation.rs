//! The rules of a list of messages.

use std::borrow::Borrow;
use std::collections::BTreeSet;

use crate::error::Result;
use crate::fault::InvalidField;
use crate::message::{ChatMessage, Role, ToolCall};

/// Checks that a list of messages may be sent to a model (spec: llm-provider §3, §5).
///
/// Every message is valid; a system message comes only first, else a user message begins; every
/// tool message answers a call of an earlier assistant message; the last message is one that a
/// model can answer.
///
/// # Errors
///
/// `provider_invalid_request`, naming the message by its index.
pub fn validate_messages<M: Borrow<ChatMessage>>(messages: &[M]) -> Result<()> {
    check_messages(messages).map_err(InvalidField::into_request_error)
}

fn check_messages<M: Borrow<ChatMessage>>(messages: &[M]) -> Result<(), InvalidField> {
    let Some(last) = messages.last() else {
        return Err(InvalidField::at_path("messages", "must not be empty"));
    };
    let mut called = BTreeSet::new();
    for (index, message) in messages.iter().enumerate() {
        let message = message.borrow();
        let place = || format!("messages[{index}]");
        if let Some(fault) = message.find_invalid_field() {
            return Err(fault.nest_under(&place()));
        }
        check_role_position(index, message.role).map_err(|error| error.nest_under(&place()))?;
        called.extend(message.tool_calls.iter().map(|tool_call| tool_call.id.as_str()));
        if let Some(id) = &message.tool_call_id
            && !called.contains(id.as_str())
        {
            let problem = format!("{id:?} is no call of an earlier assistant message");
            return Err(InvalidField::at_path("tool_call_id", problem).nest_under(&place()));
        }
    }
    match last.borrow().role {
        Role::User | Role::Tool => Ok(()),
        role @ (Role::System | Role::Assistant) => Err(InvalidField::at_path(
            format!("messages[{}]", messages.len() - 1),
            format!("the last message must be of user or tool, not of {role}"),
        )),
    }
}

fn check_role_position(index: usize, role: Role) -> Result<(), InvalidField> {
    match (index, role) {
        (0, Role::System | Role::User) => Ok(()),
        (0, Role::Assistant | Role::Tool) => {
            Err(InvalidField::at_path("role", format!("a conversation cannot begin with {role}")))
        }
        (_, Role::System) => Err(InvalidField::at_path("role", "a system message can only come first")),
        (_, Role::User | Role::Assistant | Role::Tool) => Ok(()),
    }
}

/// Returns the calls of one assistant message that nothing after it answers, in call order.
///
/// `following` has the messages after that message. Only tool messages before the next assistant message count: ids
/// are unique within a message, not within a history (INV-6).
pub fn find_open_calls<'a, M: Borrow<ChatMessage>>(
    assistant: &'a ChatMessage,
    following: &[M],
) -> Vec<&'a ToolCall> {
    let answered: BTreeSet<&str> = following
        .iter()
        .map(Borrow::borrow)
        .take_while(|it| it.role != Role::Assistant)
        .filter(|it| it.role == Role::Tool)
        .filter_map(|it| it.tool_call_id.as_deref())
        .collect();
    assistant.tool_calls.iter().filter(|tool_call| !answered.contains(tool_call.id.as_str())).collect()
}

#[cfg(test)]
mod tests;
