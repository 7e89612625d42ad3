//! The request of a client, and the parts of it that the server takes.

use serde_json::{Map, Value};
use singletree_llm::{ChatMessage, ContentBlock, ImageContentSource, MessageContent};
use singletree_protocol::agui::{
    self, Held, KnownPart, Part, PartSource, ResumeEntry, ResumeStatus, RunAgentInput,
};

use super::interrupt;
use crate::caller::{Caller, Scope};
use crate::named_wait::NamedWait;
use crate::problem::RequestProblem;

/// The most bytes that a client's id for a run or a message may have.
const ID_BYTES: usize = 256;

/// The content of a request.
#[derive(Debug)]
pub(super) struct AguiRunRequest {
    pub(super) thread: String,
    pub(super) run: String,
    pub(super) parent: Option<String>,
    /// The agent for a new session.
    pub(super) agent: Option<String>,
    /// The conversation as the client has it.
    pub(super) held: Vec<Held>,
    /// The last message of the user.
    pub(super) user: Option<AguiUserMessage>,
    /// The answers to the interrupts of an earlier run.
    pub(super) answers: Vec<InterruptAnswer>,
    /// Whether the client knows the outcome `cancelled`: versions of the protocol before 1.0 do not.
    pub(super) knows_cancelled: bool,
}

/// A message of the user, under the client's id.
#[derive(Debug, Clone)]
pub(super) struct AguiUserMessage {
    pub(super) id: String,
    pub(super) message: ChatMessage,
}

/// An answer to an interrupt.
#[derive(Debug)]
pub(super) struct InterruptAnswer {
    /// The wait that it answers; `None` if the id is not an interrupt of this server.
    pub(super) named: Option<NamedWait>,
    /// The payload; `None` if the interrupt is given up.
    pub(super) payload: Option<Value>,
}

/// Reads the request.
///
/// # Errors
/// `server_request_invalid`, `server_forbidden`.
pub(super) fn read_run_request(
    caller: &Caller,
    agent: Option<String>,
    input: RunAgentInput,
) -> Result<AguiRunRequest, RequestProblem> {
    let RunAgentInput {
        thread_id,
        run_id,
        parent_run_id,
        messages,
        resume,
        forwarded_props,
        protocol_version,
    } = input;
    check_id_length("runId", &run_id)?;
    let answers: Vec<_> = resume.unwrap_or_default().into_iter().map(read_interrupt_answer).collect();
    if !answers.is_empty() {
        caller.require_scope(Scope::Approve)?;
    }
    let named = forwarded_props.get("agent").and_then(Value::as_str).map(str::to_owned);
    let user = find_last_user_message(&messages)?;
    let (thread, run, parent) = (thread_id, run_id, parent_run_id);
    let knows_cancelled = protocol_version.is_some_and(|version| is_version_one_or_later(&version));
    Ok(AguiRunRequest {
        thread,
        run,
        parent,
        agent: agent.or(named),
        held: messages,
        user,
        answers,
        knows_cancelled,
    })
}

fn is_version_one_or_later(version: &str) -> bool {
    version.split('.').next().and_then(|major| major.parse::<u32>().ok()).is_some_and(|major| major >= 1)
}

fn check_id_length(name: &str, id: &str) -> Result<(), RequestProblem> {
    if id.is_empty() || id.len() > ID_BYTES {
        return Err(RequestProblem::invalid_request(format!("{name} must have 1 to {ID_BYTES} bytes"))
            .with_field(name));
    }
    Ok(())
}

fn read_interrupt_answer(entry: ResumeEntry) -> InterruptAnswer {
    let payload = match entry.status {
        ResumeStatus::Resolved => Some(entry.payload),
        ResumeStatus::Cancelled => None,
    };
    InterruptAnswer { named: interrupt::parse_interrupt_id(&entry.interrupt_id), payload }
}

/// Finds the last message of the user. The server takes no other message from the client (D16).
fn find_last_user_message(held: &[Held]) -> Result<Option<AguiUserMessage>, RequestProblem> {
    let last = held.iter().enumerate().rev().find(|(_, it)| it.role() == Some("user"));
    let Some((at, held)) = last else { return Ok(None) };
    let field = |name: &str| format!("messages[{at}].{name}");
    let id = held.id().unwrap_or_default();
    check_id_length(&field("id"), id)?;
    let content = held.0.get("content").cloned().unwrap_or_default();
    let content: agui::Content = serde_json::from_value(content).map_err(|_| {
        RequestProblem::invalid_request("what the user says is text, or a list of parts")
            .with_field(field("content"))
    })?;
    let message = ChatMessage::user(read_user_content(content, &field("content"))?);
    Ok(Some(AguiUserMessage { id: id.to_owned(), message }))
}

/// Converts the content of a user's message to content that models can read.
fn read_user_content(content: agui::Content, field: &str) -> Result<MessageContent, RequestProblem> {
    let parts = match content {
        agui::Content::Text(text) => return Ok(MessageContent::Text(text)),
        agui::Content::Parts(parts) => parts,
    };
    let mut blocks = Vec::with_capacity(parts.len());
    for (at, part) in parts.into_iter().enumerate() {
        let wrong =
            |why: String| Err(RequestProblem::invalid_request(why).with_field(format!("{field}[{at}]")));
        blocks.push(match part {
            Part::Known(KnownPart::Text { text }) => ContentBlock::from_text(text),
            Part::Known(KnownPart::Image { source: PartSource::Url { value, mime_type } }) => {
                let source = ImageContentSource::Url { url: value };
                ContentBlock::Image { source, media_type: mime_type, detail: None }
            }
            Part::Known(KnownPart::Image { source: PartSource::Data { value, mime_type } }) => {
                let source = ImageContentSource::Inline { base64_data: value };
                ContentBlock::Image { source, media_type: Some(mime_type), detail: None }
            }
            Part::Unknown(it) => return wrong(format!("a part of the kind `{}` is not taken here", it.kind)),
        });
    }
    Ok(MessageContent::from_blocks(blocks))
}

/// Returns a payload as an object, the form that waits take.
pub(super) fn payload_to_object(payload: Value) -> Option<Map<String, Value>> {
    match payload {
        Value::Object(map) => Some(map),
        Value::Null => Some(Map::new()),
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => None,
    }
}
