//! Reads requests. Of all that a page posts the server takes only the newest message of the user: the messages before
//! it are the page's copy of the stored ones (D16).

use serde_json::Value;
use singletree_harness::{Chat, Error, TurnId};
use singletree_llm::{ChatMessage, ContentBlock, ImageContentSource, MessageContent, Role};
use singletree_protocol::ui_stream::{GivenAnswer, GivenMessage, GivenPart, Posted, Trigger};

use super::approvals::APPROVAL_PREFIX;
use super::failed::find_newest_failed_turn;
use super::project::user_message_id;
use crate::named_wait::NamedWait;
use crate::native::HandlerContext;
use crate::pictures;
use crate::problem::RequestProblem;

/// The number of the newest messages that are searched for the message to edit or to answer again.
const LOOKED_AT: u64 = 2000;

/// The number of messages in one read.
const WINDOW: u64 = 200;

/// The operation that a page asks for.
pub(super) enum UiOperation {
    /// Sends a new message.
    Send(UiUserMessage),
    /// Sends a message again whose turn has failed: such a message is not in the history.
    Again(UiUserMessage),
    /// Replaces the user's message at this position.
    Otherwise(u64, UiUserMessage),
    /// Retries the newest turn, which has failed.
    Retry(TurnId),
    /// Answers the named message again, or the last message without a name.
    Regenerate(Option<UiMessageTarget>),
    /// Answers the pending wait.
    Answer(GivenAnswer),
    /// Answers the pending wait with the library's own parts: the approvals of calls in the last message.
    Approvals(Vec<GivenApproval>),
}

/// An approval or a denial of a call by a person.
#[derive(Debug)]
pub(super) struct GivenApproval {
    /// The wait that it answers.
    pub(super) named: NamedWait,
    pub(super) approved: bool,
    pub(super) reason: Option<String>,
}

/// The name of a message.
pub(super) enum UiMessageTarget {
    /// A user's message, by its position.
    Place(u64),
    /// An assistant's message, by its id in the page.
    Invocation(String),
}

/// The user's message.
pub(super) struct UiUserMessage {
    pub(super) message: ChatMessage,
    /// The client's id of the message.
    pub(super) id: Option<String>,
}

/// Finds out which operation the request asks for.
pub(super) async fn read_operation(
    telling: &HandlerContext,
    session: &str,
    posted: Posted,
) -> Result<UiOperation, RequestProblem> {
    if let Some(answer) = posted.answer {
        return Ok(UiOperation::Answer(answer));
    }
    let newest = posted.message.or_else(|| posted.messages.into_iter().next_back());
    if posted.trigger == Trigger::SubmitMessage
        && let Some(last) = newest.as_ref().filter(|message| message.role == "assistant")
    {
        let approvals: Vec<_> = last.parts.iter().filter_map(read_approval).collect();
        if !approvals.is_empty() {
            return Ok(UiOperation::Approvals(approvals));
        }
    }
    let newest = newest.filter(|newest| newest.role == "user");
    let chat = telling.caller_chat();
    match (posted.trigger, newest) {
        (Trigger::SubmitMessage, None) => {
            Err(RequestProblem::invalid_request("the last message is not the user's: nothing is said")
                .with_hint("to answer what waits, post it as `answer`")
                .with_field("messages"))
        }
        (Trigger::SubmitMessage, Some(newest)) => {
            let known = match &posted.message_id {
                Some(id) => find_user_message(&chat, session, id).await?,
                None => None,
            };
            let said = read_user_message(telling, session, newest).await?;
            Ok(match (known, posted.message_id) {
                (Some(place), _) => UiOperation::Otherwise(place, said),
                // The message to replace is not in the history, so it was never answered.
                (None, Some(_)) => UiOperation::Again(said),
                (None, None) => UiOperation::Send(said),
            })
        }
        (Trigger::RegenerateMessage, newest) => {
            read_regenerate_request(telling, session, newest, posted.message_id).await
        }
    }
}

/// Finds out how a message is answered again: the newest turn is retried if it has failed, in its session; an answered
/// message is answered in a fork.
async fn read_regenerate_request(
    telling: &HandlerContext,
    session: &str,
    newest: Option<GivenMessage>,
    message_id: Option<String>,
) -> Result<UiOperation, RequestProblem> {
    let chat = telling.caller_chat();
    let newest = newest.and_then(|GivenMessage { id, role, parts }| Some((id?, role, parts)));
    let id = newest.as_ref().map(|(id, ..)| id.clone()).or(message_id);
    let place = match &id {
        Some(id) => find_user_message(&chat, session, id).await?,
        None => None,
    };
    // The failed message may be another caller's: only readers learn of it.
    if telling.caller.can_read_messages()
        && let Some(failed) = find_newest_failed_turn(&chat, session, id.as_deref()).await?
        // A turn that was stopped while it ran has its message in the history: it is answered anew.
        && (!failed.is_cancelled || (newest.is_some() && place.is_none()))
    {
        return Ok(UiOperation::Retry(failed.turn));
    }
    match (place, newest, id) {
        (Some(place), ..) => Ok(UiOperation::Regenerate(Some(UiMessageTarget::Place(place)))),
        (None, Some((id, role, parts)), _) => {
            read_user_message(telling, session, GivenMessage { id: Some(id), role, parts })
                .await
                .map(UiOperation::Again)
        }
        (None, None, Some(id)) => Ok(UiOperation::Regenerate(Some(UiMessageTarget::Invocation(id)))),
        (None, None, None) => Ok(UiOperation::Regenerate(None)),
    }
}

/// Reads the approval of a call; `None` if the part has none, or if its id is not one of this server.
fn read_approval(part: &GivenPart) -> Option<GivenApproval> {
    let is_call = part.kind == "dynamic-tool" || part.kind.starts_with("tool-");
    if !is_call || part.state.as_deref() != Some("approval-responded") {
        return None;
    }
    let approval = part.approval.as_ref()?;
    let named = NamedWait::decode_wait_id(APPROVAL_PREFIX, approval.get("id")?.as_str()?)?;
    let reason = approval.get("reason").and_then(Value::as_str).map(str::to_owned);
    Some(GivenApproval { named, approved: approval.get("approved")?.as_bool()?, reason })
}

/// Finds a user's message of the history by its id in the page.
async fn find_user_message(chat: &Chat, session: &str, id: &str) -> Result<Option<u64>, RequestProblem> {
    let len = match chat.session(session).info().await {
        Ok(info) => info.messages,
        Err(Error::SessionUnknown { .. }) => 0,
        Err(error) => return Err(RequestProblem::from_chat_error(&error)),
    };
    let mut to = len;
    while to > len.saturating_sub(LOOKED_AT) {
        let part = chat
            .session(session)
            .messages_before(to, WINDOW)
            .await
            .map_err(|error| RequestProblem::from_chat_error(&error))?;
        let from = part.items.first().map_or(0, |items| items.seq);
        let found = part
            .items
            .iter()
            .rev()
            .find(|item| item.message.role == Role::User && user_message_id(session, item) == id);
        if let Some(found) = found {
            return Ok(Some(found.seq));
        }
        to = from;
    }
    Ok(None)
}

/// Reads a user's message.
async fn read_user_message(
    telling: &HandlerContext,
    session: &str,
    given: GivenMessage,
) -> Result<UiUserMessage, RequestProblem> {
    let mut blocks = Vec::new();
    for (at, part) in given.parts.into_iter().enumerate() {
        blocks.extend(
            read_message_part(part).map_err(|problem| problem.with_field(format!("message.parts[{at}]")))?,
        );
    }
    let content = match blocks.as_mut_slice() {
        [] => {
            return Err(RequestProblem::invalid_request("there is nothing said").with_field("message.parts"));
        }
        [ContentBlock::Text { text, .. }] => MessageContent::Text(std::mem::take(text)),
        _ => MessageContent::from_blocks(blocks),
    };
    let message = pictures::store_pictures(&telling.caller_chat(), session, ChatMessage::user(content)).await;
    let message = message.map_err(|problem| match problem.field {
        None => problem.with_field("message.parts"),
        Some(_) => problem,
    })?;
    Ok(UiUserMessage { message, id: given.id })
}

/// Reads a part; `None` for a part that belongs to the page alone, and for an empty text.
fn read_message_part(part: GivenPart) -> Result<Option<ContentBlock>, RequestProblem> {
    let is_picture = part.media_type.as_ref().is_some_and(|media_type| media_type.starts_with("image/"));
    match (part.kind.as_str(), part.text, part.url) {
        ("text", Some(text), _) => Ok((!text.is_empty()).then(|| ContentBlock::from_text(text))),
        ("file", _, Some(url)) if is_picture => {
            let source = ImageContentSource::Url { url };
            Ok(Some(ContentBlock::Image { source, media_type: part.media_type, detail: None }))
        }
        ("text" | "file", _, _) => Err(RequestProblem::invalid_request(
            "a part is a `text` with its `text`, or a `file` that is a picture, with its `url`",
        )),
        _ => Ok(None),
    }
}
