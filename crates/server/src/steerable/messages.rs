//! Reading a chat's messages.

use axum::Json;
use axum::extract::Path;
use serde::Deserialize;
use singletree_harness::FailedTurnEntry;
use singletree_protocol::steerable::MessagePage;

use super::project::SteerableProjection;
use crate::native::{HandlerContext, StrictQuery, resolve_page_limit};
use crate::problem::RequestProblem;

fn is_in_history(turn: &FailedTurnEntry) -> bool {
    turn.error.error_category == "chat_turn_cancelled" && turn.message.is_none() && turn.made.is_empty()
}

/// The maximum number of failed turns on a page.
const FAILED_TURNS: usize = 100;

/// The messages to read. Unknown parameters are ignored.
#[derive(Debug, Default, Deserialize)]
pub(super) struct PageQuery {
    /// The first position: the `next` of the page before.
    from: Option<u64>,
    /// The maximum number of messages.
    limit: Option<u64>,
}

/// Answers with a page of a chat's messages, with which clients fill their view at first.
pub(super) async fn list_message_page(
    telling: HandlerContext,
    Path(chat): Path<String>,
    StrictQuery(query): StrictQuery<PageQuery>,
) -> Result<Json<MessagePage>, RequestProblem> {
    let limit = resolve_page_limit(query.limit)?;
    let from = query.from.unwrap_or_default();
    let all = telling.caller_chat();
    let session = all.session(&chat).info().await.map_err(|error| RequestProblem::from_chat_error(&error))?;
    let part = all
        .session(&chat)
        .transcript(from, limit)
        .await
        .map_err(|error| RequestProblem::from_chat_error(&error))?;
    let mut projection = SteerableProjection::new(&chat, session.created_at);
    // The message before the page gives the time at which the page begins, at the earliest.
    if from > 0 {
        let before = all
            .session(&chat)
            .messages_before(from, 1)
            .await
            .map_err(|error| RequestProblem::from_chat_error(&error))?;
        before.items.iter().for_each(|item| drop(projection.convert_entry(item)));
    }
    let failed = all.session(&chat).failed_turns(from..part.next.unwrap_or(u64::MAX), FAILED_TURNS).await;
    let failed = failed.map_err(|error| RequestProblem::from_chat_error(&error))?;
    // The history has the shown part of a cancelled turn, with a mark (D10).
    let mut failed = failed.into_iter().filter(|turn| !is_in_history(turn)).peekable();
    let mut messages = Vec::new();
    for entry in &part.items {
        while let Some(turn) = failed.next_if(|turn| turn.place <= entry.seq) {
            messages.extend(projection.convert_failed_turn(&turn));
        }
        messages.extend(projection.convert_entry(entry));
    }
    messages.extend(failed.flat_map(|turn| projection.convert_failed_turn(&turn)));
    for message in messages.iter_mut().filter(|message| message.other.contains_key("error")) {
        message.content = telling.shared.redactor.redact(&message.content).into_owned();
    }
    Ok(Json(MessagePage {
        messages,
        next: part.next,
        last_event_id: part.last_event.as_ref().map(ToString::to_string),
    }))
}
