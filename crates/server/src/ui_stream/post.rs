//! Executes the requests of a page; the response is the stream of the turn.

use std::collections::VecDeque;

use axum::http::{HeaderName, HeaderValue};
use axum::response::Response;
use futures_core::Stream;
use futures_util::StreamExt;
use futures_util::stream::unfold;
use serde_json::Map;
use singletree_durable::InvocationId;
use singletree_harness::{
    Answer, Chat, ChatEvent, Error, MessageAddress, MessageId, SendOptions, SignalAddress, Turn, TurnId,
};
use singletree_protocol::ui_stream::{GivenAnswer, HEADER, Posted, StreamPart, VERSION};

use super::branch::{find_current_session, map_chat_to_session};
use super::messages::read_message_beginning;
use super::posted::{GivenApproval, UiMessageTarget, UiOperation, UiUserMessage, read_operation};
use super::sdk::{UiStreamFeatures, supports_approvals};
use super::wire::UiStreamEncoder;
use crate::body::JsonPayload;
use crate::caller::Scope;
use crate::disconnect::{DisconnectGuard, guard_stream};
use crate::fold::ChatProjection;
use crate::named_wait::NamedWait;
use crate::native::HandlerContext;
use crate::problem::RequestProblem;
use crate::sse::{self, ServerSentEvent};

/// Executes the request of a page, and streams its turn.
pub(super) async fn execute_page_request(
    telling: HandlerContext,
    JsonPayload(posted): JsonPayload<Posted>,
) -> Result<Response, RequestProblem> {
    let chat_id = posted.session_id.clone().or_else(|| posted.id.clone());
    let chat_id =
        chat_id.ok_or_else(|| RequestProblem::invalid_request("the body names no chat").with_field("id"))?;
    let session = find_current_session(&telling, &chat_id).await?;
    let agent = posted.agent.clone();
    let chat = telling.caller_chat();
    // An invalid request is refused before anything is accepted.
    supports_approvals(&telling.headers)?;
    let mut disconnect = DisconnectGuard::new(telling.shared.clone(), chat.clone(), telling.on_disconnect);
    let turn = match read_operation(&telling, &session, posted).await? {
        UiOperation::Send(said) => {
            let key = said.id.as_ref().map(|id| format!("ui:{id}"));
            let options = key.into_iter().fold(build_send_options(&said, agent), SendOptions::key);
            chat.session(&session).submit(said.message, options).await
        }
        UiOperation::Again(said) => {
            let options = build_send_options(&said, agent);
            chat.session(&session).submit(said.message, options).await
        }
        UiOperation::Otherwise(place, said) => chat.session(&session).edit(place, said.message).await,
        UiOperation::Retry(failed) => chat.retry(&failed, SendOptions::new().listen()).await,
        UiOperation::Regenerate(named) => {
            // The reply may belong to a message of another caller.
            telling.caller.require_scope(Scope::Read)?;
            chat.session(&session).regenerate(resolve_message_target(named)?).await
        }
        UiOperation::Answer(given) => {
            return answer_pending_wait(&telling, &session, given, disconnect).await;
        }
        UiOperation::Approvals(given) => {
            let given = select_pending_answer(&chat, &session, given).await?;
            return answer_pending_wait(&telling, &session, given, disconnect).await;
        }
    };
    let turn = turn.map_err(problem_from_refusal)?;
    if turn.is_new() {
        disconnect.guard_turn(&turn);
    }
    if turn.session() != session {
        map_chat_to_session(&telling, &chat_id, turn.session()).await?;
    }
    let dialect = UiStreamFeatures::read_for_session(&telling, turn.session()).await?;
    let wire = UiStreamEncoder::new(telling.shared.clone(), turn.session(), turn.id().clone())
        .with_features(dialect);
    Ok(stream_turn(&telling, &turn, wire, (Vec::new(), Some(disconnect))))
}

/// Returns the approval that answers the pending wait. If none does, returns the last one: the chat knows whether it
/// was taken before.
async fn select_pending_answer(
    chat: &Chat,
    session: &str,
    mut given: Vec<GivenApproval>,
) -> Result<GivenAnswer, RequestProblem> {
    let pending =
        chat.session(session).pending().await.map_err(|error| RequestProblem::from_chat_error(&error))?;
    let is_pending = |approval: &GivenApproval| pending.iter().any(|wait| approval.named.is_same_wait(wait));
    let at = given.iter().position(is_pending).unwrap_or(given.len().saturating_sub(1));
    let GivenApproval { named, approved, reason } = given.swap_remove(at);
    let mut payload = Map::from_iter([("approved".to_owned(), approved.into())]);
    payload.extend(reason.map(|reason| ("reason".to_owned(), reason.into())));
    let NamedWait { wait, action, signal } = named;
    Ok(GivenAnswer { signal, payload, wait: Some(wait), action: Some(action) })
}

fn problem_from_refusal(error: singletree_harness::Error) -> RequestProblem {
    RequestProblem::from_chat_error(&error)
}

fn build_send_options(said: &UiUserMessage, agent: Option<String>) -> SendOptions {
    let options = SendOptions::new().listen();
    let options = said.id.iter().fold(options, |options, id| options.note("client_id", id.as_str()));
    agent.into_iter().fold(options, SendOptions::agent)
}

/// Returns the message to answer again: the user's message of an invocation, or the named message of the user.
fn resolve_message_target(named: Option<UiMessageTarget>) -> Result<Option<MessageAddress>, RequestProblem> {
    Ok(match named {
        None => None,
        Some(UiMessageTarget::Place(place)) => Some(place.into()),
        Some(UiMessageTarget::Invocation(id)) => {
            let unknown = |_| RequestProblem::not_found("chat_message_unknown", "there is no such message");
            let invocation = InvocationId::parse(id).map_err(unknown)?;
            Some(MessageId { turn: TurnId::new(invocation, 0), k: 0 }.into())
        }
    })
}

/// Answers the pending wait: the page's message continues with the turn that resumes.
async fn answer_pending_wait(
    telling: &HandlerContext,
    session: &str,
    given: GivenAnswer,
    mut disconnect: DisconnectGuard,
) -> Result<Response, RequestProblem> {
    telling.caller.require_scope(Scope::Approve)?;
    let answer = Answer::new(given.payload).from(telling.caller.name.as_str());
    let answer = match (given.wait, given.action) {
        (Some(wait), Some(action)) => answer.to(wait, action),
        (None, None) => answer,
        (Some(_), None) | (None, Some(_)) => {
            return Err(RequestProblem::invalid_request("wait and action are said together, or neither is")
                .with_field("answer"));
        }
    };
    let chat = telling.caller_chat();
    let address = SignalAddress::Session { session: session.to_owned(), signal: given.signal };
    let turn = chat.answer(address, answer).await.map_err(problem_from_refusal)?;
    disconnect.guard_turn(&turn);
    let dialect = UiStreamFeatures::read_for_session(telling, session).await?;
    let before = read_message_beginning(&chat, (session, dialect), turn.id())
        .await
        .map_err(|error| RequestProblem::from_chat_error(&error))?;
    let wire =
        UiStreamEncoder::new(telling.shared.clone(), session, turn.id().clone()).with_features(dialect);
    let wire = before.iter().fold(wire, |wire, (message, asked)| wire.with_known_message(message, asked));
    Ok(stream_turn(telling, &turn, wire, (Vec::new(), Some(disconnect))))
}

/// Streams a turn up to its end, after these parts; the guard cancels it when its client goes away.
pub(super) fn stream_turn(
    telling: &HandlerContext,
    turn: &Turn,
    wire: UiStreamEncoder,
    (first, disconnect): (Vec<StreamPart>, Option<DisconnectGuard>),
) -> Response {
    let frames = guard_stream(encode_turn_frames(turn.events(), wire, first), disconnect)
        .chain(futures_util::stream::iter([ServerSentEvent::from_data("[DONE]")]));
    let mut response = sse::stream_response(&telling.shared, frames);
    let version = (HeaderName::from_static(HEADER), HeaderValue::from_static(VERSION));
    response.headers_mut().insert(version.0, version.1);
    response
}

fn encode_turn_frames(
    events: impl Stream<Item = Result<ChatEvent, Error>> + Send + 'static,
    wire: UiStreamEncoder,
    first: Vec<StreamPart>,
) -> impl Stream<Item = ServerSentEvent> + Send + 'static {
    let begin = (Box::pin(events), ChatProjection::default(), wire, VecDeque::from(first));
    unfold(begin, |(mut events, mut fold, mut wire, mut ready)| async move {
        while ready.is_empty() {
            match events.next().await? {
                Ok(event) => {
                    ready.extend(wire.encode_thinking(&event));
                    let pieces = fold.apply_event(&event);
                    ready.extend(
                        pieces.into_iter().flat_map(|piece| wire.encode_piece(piece)).collect::<Vec<_>>(),
                    );
                }
                Err(error) => ready.extend(wire.encode_stream_error(&error)),
            }
        }
        let part = ready.pop_front()?;
        let frame = ServerSentEvent::from_data(
            serde_json::to_string(&part).expect("a part of strings and JSON is JSON"),
        );
        Some((frame, (events, fold, wire, ready)))
    })
}
