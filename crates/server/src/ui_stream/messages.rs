//! Reads a chat's messages, with which a page begins.

use std::collections::HashSet;

use axum::Json;
use axum::extract::Path;
use serde::Deserialize;
use singletree_durable::InvocationId;
use singletree_harness::{Chat, Error, FailedTurnEntry, TranscriptEntry, TurnId, WaitSpan};
use singletree_protocol::ui_stream::{UiMessage, UiMessagePage};

use super::branch::find_current_session;
use super::project::{HistoryWaits, MessageOrigins, OpenTurn, UiSessionContent, convert_session_content};
use super::sdk::UiStreamFeatures;
use crate::native::{HandlerContext, StrictQuery};
use crate::problem::RequestProblem;

/// The default number of messages that are read from a history: the newest ones.
const NEWEST: u64 = 1000;

/// The messages to read. Unknown parameters are ignored.
#[derive(Debug, Default, Deserialize)]
pub(super) struct ListQuery {
    /// The maximum number of the history's messages to read, the newest ones; several of them make one message of the
    /// page.
    limit: Option<u64>,
}

/// Answers with a chat's messages.
pub(super) async fn list_messages(
    telling: HandlerContext,
    Path(chat): Path<String>,
    StrictQuery(query): StrictQuery<ListQuery>,
) -> Result<Json<UiMessagePage>, RequestProblem> {
    let limit = crate::native::resolve_page_limit(query.limit.or(Some(NEWEST)))?;
    let session_id = find_current_session(&telling, &chat).await?;
    let all = telling.caller_chat();
    let dialect = UiStreamFeatures::read_for_session(&telling, &session_id).await?;
    let read = async {
        let (open, entries) = read_open_and_newest(&all, &session_id, limit).await?;
        let failed = read_failed_turns(&all, &session_id, &entries).await?;
        let waits = read_history_waits(&all, &session_id, &entries).await?;
        let origins = find_fork_origins(&all, &session_id).await?;
        let (session, origins, waits) = (session_id.as_str(), &origins, &waits);
        let (entries, failed, open) = (&entries[..], &failed[..], &open[..]);
        let shown = UiSessionContent { session, origins, entries, waits, failed, open, dialect };
        Ok::<_, Error>(convert_session_content(&shown))
    };
    let messages = read.await.map_err(|error| RequestProblem::from_chat_error(&error))?;
    Ok(Json(UiMessagePage { messages, session_id }))
}

/// The maximum number of further reads because a turn has begun or ended meanwhile.
const ATTEMPTS: usize = 8;

/// Reads the messages of open turns, and the newest ones of the history as of the same moment: a turn that ends in
/// between would be in both or in neither.
async fn read_open_and_newest(
    chat: &Chat,
    session: &str,
    limit: u64,
) -> Result<(Vec<OpenTurn>, Vec<TranscriptEntry>), Error> {
    let (mut open, mut entries) =
        (read_open_turns(chat, session).await?, read_newest_messages(chat, session, limit).await?);
    for _ in 0..ATTEMPTS {
        let again = self::read_open_turns(chat, session).await?;
        if again.iter().map(|open| &open.turn).eq(open.iter().map(|open| &open.turn)) {
            break;
        }
        (open, entries) = (again, read_newest_messages(chat, session, limit).await?);
    }
    Ok((open, entries))
}

/// The maximum number of failed turns that are read, the newest ones.
const FAILED: usize = 100;

/// Reads the failed turns that belong among some messages of a history, or after them.
async fn read_failed_turns(
    chat: &Chat,
    session: &str,
    entries: &[TranscriptEntry],
) -> Result<Vec<FailedTurnEntry>, Error> {
    let first = entries.first().map_or(0, |entry| entry.seq);
    match chat.session(session).failed_turns(first..u64::MAX, FAILED).await {
        Err(Error::SessionUnknown { .. }) => Ok(Vec::new()),
        failed => failed,
    }
}

/// Reads the turns that have not ended, with their messages.
async fn read_open_turns(chat: &Chat, session: &str) -> Result<Vec<OpenTurn>, Error> {
    let turns = match chat.session(session).open_turns().await {
        Err(Error::SessionUnknown { .. }) => return Ok(Vec::new()),
        turns => turns?,
    };
    let mut open = Vec::new();
    for info in turns {
        let turn = match chat.turn(&info.id).await {
            Err(Error::TurnUnknown { .. }) => continue,
            turn => turn?,
        };
        open.push(OpenTurn { turn: info.id, message: turn.message().await? });
    }
    Ok(open)
}

/// Reads the newest messages of a history.
async fn read_newest_messages(chat: &Chat, session: &str, limit: u64) -> Result<Vec<TranscriptEntry>, Error> {
    Ok(chat.session(session).newest_messages(limit).await?.items)
}

/// The maximum number of forks of forks through which the origins of messages are followed.
const GENERATIONS: usize = 64;

/// Finds the sessions that a session was forked from.
async fn find_fork_origins(chat: &Chat, session: &str) -> Result<MessageOrigins, Error> {
    let mut origins = MessageOrigins::from_session(session);
    let mut at = session.to_owned();
    for _ in 0..GENERATIONS {
        let parent = match chat.session(&at).info().await {
            Ok(info) => info.parent,
            // The session was deleted; its messages keep its id.
            Err(Error::SessionUnknown { .. }) => None,
            Err(error) => return Err(error),
        };
        let Some(parent) = parent else { break };
        origins.add_parent_session(&parent.session, parent.offset);
        at = parent.session;
    }
    Ok(origins)
}

/// Reads the waits of the invocations of some messages.
async fn read_history_waits(
    chat: &Chat,
    session: &str,
    entries: &[TranscriptEntry],
) -> Result<HistoryWaits, Error> {
    let mut waits = HistoryWaits::default();
    for wait in chat.session(session).pending().await? {
        waits.pending.insert(wait.invocation.clone(), wait.wait().clone());
    }
    // Only turns of an invocation that was suspended resume.
    let turns = entries.iter().filter_map(|entry| entry.id.as_ref().map(|id| &id.turn));
    let resumed: HashSet<_> = turns
        .filter(|turn| turn.ordinal > 0 || waits.pending.contains_key(&turn.invocation))
        .map(|it| it.invocation.clone())
        .collect();
    for invocation in resumed {
        let ended = read_ended_waits(chat, &invocation).await?;
        waits.ended.insert(invocation, ended);
    }
    Ok(waits)
}

/// Reads the waits of an invocation that have ended; none if its records were deleted.
async fn read_ended_waits(chat: &Chat, invocation: &InvocationId) -> Result<Vec<WaitSpan>, Error> {
    match chat.timeline(&TurnId::new(invocation.clone(), 0)).await {
        Ok(timeline) => Ok(timeline.waits.into_iter().filter(|wait| wait.status != "pending").collect()),
        Err(Error::TurnUnknown { .. }) => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// Reads the earlier turns of an invocation as the beginning of its message, with the ids of the calls that needed an
/// approval.
pub(super) async fn read_message_beginning(
    chat: &Chat,
    (session, dialect): (&str, UiStreamFeatures),
    turn: &TurnId,
) -> Result<Option<(UiMessage, Vec<String>)>, Error> {
    if turn.ordinal == 0 {
        return Ok(None);
    }
    let mut entries = read_newest_messages(chat, session, NEWEST).await?;
    entries.retain(|entry| {
        entry
            .id
            .as_ref()
            .is_some_and(|id| id.turn.invocation == turn.invocation && id.turn.ordinal < turn.ordinal)
    });
    let mut ended = read_ended_waits(chat, &turn.invocation).await?;
    ended.truncate(turn.ordinal as usize);
    let asked = ended.iter().filter_map(|wait| wait.metadata.as_ref()?.get("call_id")?.as_str());
    let asked = asked.map(str::to_owned).collect();
    let mut waits = HistoryWaits::default();
    waits.ended.insert(turn.invocation.clone(), ended);
    let id = turn.invocation.to_string();
    let shown = UiSessionContent {
        session,
        origins: &MessageOrigins::from_session(session),
        entries: &entries,
        waits: &waits,
        failed: &[],
        open: &[],
        dialect,
    };
    let message = convert_session_content(&shown).into_iter().find(|message| message.id == id);
    Ok(message.map(|message| (message, asked)))
}
