//! Reads the requests of clients.

use axum::http::HeaderMap;
use serde_json::Value;
use singletree_agent::{CallOptions, ClientTools};
use singletree_llm::{ChatMessage, Role};
use singletree_protocol::openai::CompletionRequest;

use super::{call_options, conversation, tools};
use crate::problem::RequestProblem;

/// The header that names a session.
const SESSION_HEADER: &str = "x-session-id";

/// The header with the idempotency key of a message.
const KEY_HEADER: &str = "idempotency-key";

/// The header with the number of automatic retries of OpenAI's SDKs.
const RETRY_HEADER: &str = "x-stainless-retry-count";

/// A request.
#[derive(Debug)]
pub(super) struct ParsedCompletionRequest {
    /// The agent that answers; `None` for the default agent.
    pub(super) agent: Option<String>,
    pub(super) what: CompletionInput,
    /// Whether the answer is streamed.
    pub(super) streams: bool,
    /// Whether the last chunk reports the usage.
    pub(super) tells_usage: bool,
}

/// The input of a request.
#[derive(Debug)]
pub(super) enum CompletionInput {
    /// A conversation that belongs to no session.
    Conversation { messages: Vec<ChatMessage>, tools: Option<ClientTools>, options: CallOptions },
    /// A message in a session.
    Message {
        session: String,
        message: ChatMessage,
        key: Option<String>,
        /// Set if the client's SDK repeats a request that got no answer.
        retry: Option<SdkRetryAttempt>,
        /// The parameters that have no effect in a session.
        ignored: Vec<&'static str>,
    },
}

/// An automatic retry of an SDK.
#[derive(Debug)]
pub(super) struct SdkRetryAttempt {
    /// The text of the last but one message in the request.
    pub(super) before: Option<String>,
}

/// Reads a request.
///
/// # Errors
/// `server_request_invalid`, with the parameter that is not supported.
pub(super) fn read_completion_request(
    headers: &HeaderMap,
    request: CompletionRequest,
) -> Result<ParsedCompletionRequest, RequestProblem> {
    refuse_unsupported(&request)?;
    let session = read_session_id(headers, &request)?;
    let options = call_options::read_call_options(&request)?;
    let is_bounded = request.max_completion_tokens.or(request.max_tokens).is_some();
    let parameters = [
        ("max_tokens", is_bounded),
        ("response_format", call_options::asks_for_response_format(&request)),
        ("stop", request.stop.as_ref().is_some_and(|stop| !stop.is_empty())),
    ];
    let asked_for: Vec<&str> =
        parameters.into_iter().filter(|parameter| parameter.1).map(|parameter| parameter.0).collect();
    let tools = tools::read_client_tools(request.tools.unwrap_or_default(), request.tool_choice)?;
    let mut messages = conversation::read_conversation(request.messages)?;
    let what = match session {
        None => CompletionInput::Conversation { messages, tools, options },
        Some(_) if tools.is_some() => {
            let why = "in a session the agent runs its own tools: leave `tools` out, or the session";
            return Err(RequestProblem::invalid_request(why).with_field("tools"));
        }
        Some(session) => {
            let last = messages.pop().filter(|message| message.role == Role::User);
            let before = messages.last().map(|message| message.text().into_owned());
            let retry = is_sdk_retry(headers).then_some(SdkRetryAttempt { before });
            let message = last.ok_or_else(|| {
                let why = "in a session the last message is what the user says; no other one is taken";
                RequestProblem::invalid_request(why).with_field("messages")
            })?;
            if let Some(parameter) = asked_for.iter().find(|name| **name != "max_tokens") {
                let why = format!(
                    "in a session the answer is the agent's own: leave `{parameter}` out, or the session"
                );
                return Err(RequestProblem::invalid_request(why).with_field(*parameter));
            }
            CompletionInput::Message {
                session,
                message,
                key: read_idempotency_key(headers)?,
                retry,
                ignored: asked_for,
            }
        }
    };
    Ok(ParsedCompletionRequest {
        agent: request.model.filter(|model| !model.is_empty()),
        what,
        streams: request.stream.unwrap_or_default(),
        tells_usage: request.stream_options.and_then(|it| it.include_usage).unwrap_or_default(),
    })
}

/// Refuses parameters that change the meaning of the request if they are ignored. Sampling parameters belong to the
/// agent and are ignored.
fn refuse_unsupported(request: &CompletionRequest) -> Result<(), RequestProblem> {
    let refused = [
        (request.n.is_some_and(|it| it != 1), "n", "there is one answer"),
        (request.logprobs == Some(true), "logprobs", "there are no probabilities"),
        (
            request
                .modalities
                .as_ref()
                .is_some_and(|modalities| modalities.iter().any(|modality| modality != "text")),
            "modalities",
            "the answer is text",
        ),
        (
            request.functions.as_ref().is_some_and(|functions| !functions.is_null()),
            "functions",
            "functions are `tools`",
        ),
    ];
    match refused.into_iter().find(|(is_asked, _, _)| *is_asked) {
        Some((_, parameter, why)) => {
            Err(RequestProblem::invalid_request(format!("{why}: leave `{parameter}` out"))
                .with_field(parameter))
        }
        None => Ok(()),
    }
}

/// Finds the id of the session that the request names.
fn read_session_id(
    headers: &HeaderMap,
    request: &CompletionRequest,
) -> Result<Option<String>, RequestProblem> {
    let header = headers.get(SESSION_HEADER).map(|header| {
        header
            .to_str()
            .map(str::to_owned)
            .map_err(|_| RequestProblem::invalid_request("X-Session-ID has to be plain ASCII"))
    });
    let header = header.transpose()?;
    let said = request.metadata.as_ref().and_then(|metadata| metadata.get("session_id"));
    let said = match said {
        None | Some(Value::Null) => None,
        Some(Value::String(said)) => Some(said.clone()),
        Some(_) => {
            return Err(
                RequestProblem::invalid_request("a session's name is text").with_field("metadata.session_id")
            );
        }
    };
    match (header, said) {
        (Some(header), Some(said)) if header != said => {
            let why = "the header X-Session-ID names another session";
            Err(RequestProblem::invalid_request(why).with_field("metadata.session_id"))
        }
        (header, said) => Ok(header.or(said)),
    }
}

fn is_sdk_retry(headers: &HeaderMap) -> bool {
    let count = headers.get(RETRY_HEADER).and_then(|parameter| parameter.to_str().ok()?.parse::<u32>().ok());
    count.is_some_and(|count| count > 0)
}

fn read_idempotency_key(headers: &HeaderMap) -> Result<Option<String>, RequestProblem> {
    let key = headers.get(KEY_HEADER).map(|header| header.to_str().map(str::to_owned));
    key.transpose().map_err(|_| RequestProblem::invalid_request("Idempotency-Key has to be plain ASCII"))
}
