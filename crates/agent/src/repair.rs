//! Answers of a model that do not fit the request, and how the loop goes on with them (D30).

use std::collections::BTreeSet;

use singletree_llm::{Error, ProviderErrorDetail, Request, Response, Role, ToolCall};

use crate::state::UnreadCall;

/// How many answers in a row may need a repair, unless something else is said.
pub(crate) const REPAIRS_MAX: u64 = 3;

/// An answer that the loop can go on with.
#[derive(Debug)]
pub(crate) struct UsableResponse {
    pub(crate) response: Response,
    /// The argument texts of calls whose arguments could not be read.
    pub(crate) unread: Vec<UnreadCall>,
    /// The fault of the answer, where the model has to be told of it.
    pub(crate) problem: Option<Error>,
}

/// Accepts the result of a call of the model, if the loop can go on with it.
///
/// # Errors
/// The call's own, where it has no response, or one whose mistake the model cannot mend by reading the results of its
/// calls.
pub(crate) fn accept_response(
    answered: Result<Response, Error>,
    request: &Request,
) -> Result<UsableResponse, Error> {
    let (response, refused) = match answered {
        Ok(response) => (response, None),
        Err(error) => match error.refused_response() {
            Some(response) => (response.clone(), Some(error)),
            None => return Err(error),
        },
    };
    if is_empty_response(&response) {
        return Ok(UsableResponse { response, unread: Vec::new(), problem: None });
    }
    let mut response = response;
    let unread = remove_unusable_arguments(&mut response);
    assign_call_ids(&mut response.message.tool_calls);
    let is_message = response.message.role == Role::Assistant && response.message.validate().is_ok();
    match refused {
        Some(error) if !is_message || response.message.tool_calls.is_empty() => Err(error),
        None if !is_message => Err(malformed_message_error(&response)),
        // A response that finished with `error` was not checked against the request.
        refused => {
            let problem = refused.or_else(|| find_call_fault(&response, request));
            Ok(UsableResponse { response, unread, problem })
        }
    }
}

/// Tells whether an answer says nothing and asks for nothing.
pub(crate) fn is_empty_response(response: &Response) -> bool {
    response.message.role == Role::Assistant
        && response.message.tool_calls.is_empty()
        && response.message.text().trim().is_empty()
}

/// Returns the first fault of a message's calls, if there is one.
fn find_call_fault(response: &Response, request: &Request) -> Option<Error> {
    let calls = response.message.tool_calls.iter();
    let problem = calls.filter_map(|call| {
        let Some(tool) = request.tools.iter().find(|tool| tool.name() == call.name) else {
            return Some(format!("{:?} is not a tool of this request", call.name));
        };
        let Some(arguments) = &call.arguments else {
            return Some(format!("the arguments of {:?} are no JSON object", call.name));
        };
        let mismatch = tool.schema().check_arguments(arguments).err()?;
        Some(format!("the arguments of {:?} do not fit: {mismatch}", call.name))
    });
    let detail = problem.map(ProviderErrorDetail::new).next()?;
    Some(Error::InvalidResponse(detail))
}

fn malformed_message_error(response: &Response) -> Error {
    let problem = response.message.validate().err();
    let detail = ProviderErrorDetail::new("the provider's message is malformed");
    Error::InvalidResponse(match problem {
        Some(problem) => detail.with_source(problem),
        None => detail,
    })
}

/// Removes arguments that are nested deeper than a chat can keep, and returns the argument texts of all calls without
/// readable arguments.
fn remove_unusable_arguments(response: &mut Response) -> Vec<UnreadCall> {
    let mut unread = Vec::new();
    for (index, call) in response.message.tool_calls.iter_mut().enumerate() {
        let too_deep = call.arguments.take_if(|arguments| singletree_llm::is_too_deep(arguments));
        let text = match too_deep {
            Some(arguments) => Some(cut_arguments(&serde_json::Value::Object(arguments).to_string())),
            None => response.unread_arguments.get(&index).cloned(),
        };
        if let (None, Some(text)) = (&call.arguments, text) {
            unread.push(UnreadCall { call: index as u64, text });
        }
    }
    unread
}

fn cut_arguments(text: &str) -> String {
    let end = (0..=singletree_llm::UNREAD_ARGUMENTS_MAX.min(text.len()))
        .rev()
        .find(|at| text.is_char_boundary(*at));
    text[..end.unwrap_or(0)].to_owned()
}

/// Gives each call an id of its own: results find their calls by it.
fn assign_call_ids(calls: &mut [ToolCall]) {
    let mut taken: BTreeSet<String> = BTreeSet::new();
    for index in 0..calls.len() {
        let is_taken = calls[index].id.is_empty() || taken.contains(&calls[index].id);
        if is_taken {
            let others: BTreeSet<&str> = calls.iter().map(|call| call.id.as_str()).collect();
            let fresh = (index..).map(|at| format!("call_{at}"));
            let fresh = fresh.into_iter().find(|id| !others.contains(id.as_str()) && !taken.contains(id));
            calls[index].id = fresh.unwrap_or_default();
        }
        taken.insert(calls[index].id.clone());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, json};
    use singletree_llm::{ChatMessage, ModelFinishReason, TokenUsage};

    use super::*;

    fn calling(ids: &[&str]) -> Response {
        let calls = ids.iter().map(|id| ToolCall::new(*id, "t", Map::new()));
        let message = ChatMessage::assistant("").with_tool_calls(calls);
        Response::new(message, ModelFinishReason::ToolCalls, TokenUsage::default(), json!({}))
    }

    #[test]
    fn calls_of_one_id_get_ids_of_their_own() {
        let mut calls = calling(&["a", "a", "", "call_1", "a"]).message.tool_calls;
        assign_call_ids(&mut calls);
        let ids: Vec<&str> = calls.iter().map(|call| call.id.as_str()).collect();
        assert_eq!(ids, ["a", "call_2", "call_3", "call_1", "call_4"]);
    }
}
