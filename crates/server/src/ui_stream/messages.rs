//! Reading a chat's messages, as a page begins with them.

use std::collections::HashSet;

use axum::Json;
use axum::extract::Path;
use serde::Deserialize;
use singletree_durable::InvocationId;
use singletree_harness::{Chat, Error, TranscriptEntry, TurnId, WaitSpan};
use singletree_protocol::ui_stream::{UiMessage, UiMessagePage};

use super::branch::session_of;
use super::project::{Origins, Waits, messages};
use crate::native::{Params, Telling};
use crate::problem::Problem;

/// How many messages of a history are read, the newest, unless fewer are asked for.
const NEWEST: u64 = 1000;

/// Which messages to read. What is not known is ignored.
#[derive(Debug, Default, Deserialize)]
pub(super) struct ListQuery {
    /// How many of the history's newest messages to read, at most; several make one of the page.
    limit: Option<u64>,
}

/// Answers with a chat's messages.
pub(super) async fn list(
    telling: Telling,
    Path(chat): Path<String>,
    Params(query): Params<ListQuery>,
) -> Result<Json<UiMessagePage>, Problem> {
    let limit = crate::native::limit(query.limit.or(Some(NEWEST)))?;
    let session_id = session_of(&telling, &chat).await?;
    let all = telling.chat();
    let read = async {
        let entries = newest(&all, &session_id, limit).await?;
        let waits = waits(&all, &session_id, &entries).await?;
        let origins = origins(&all, &session_id).await?;
        Ok::<_, Error>(messages(&session_id, &origins, &entries, &waits))
    };
    let messages = read.await.map_err(|it| Problem::of(&it))?;
    Ok(Json(UiMessagePage { messages, session_id }))
}

/// Reads the newest messages of a history.
async fn newest(chat: &Chat, session: &str, limit: u64) -> Result<Vec<TranscriptEntry>, Error> {
    Ok(chat.newest_messages(session, limit).await?.items)
}

/// How many forks of forks messages are followed through.
const GENERATIONS: usize = 64;

/// Finds the sessions that a session was forked from.
async fn origins(chat: &Chat, session: &str) -> Result<Origins, Error> {
    let mut origins = Origins::of(session);
    let mut at = session.to_owned();
    for _ in 0..GENERATIONS {
        let parent = match chat.session(&at).await {
            Ok(info) => info.parent,
            // It is gone; what was said there has its name all the same.
            Err(Error::SessionUnknown { .. }) => None,
            Err(error) => return Err(error),
        };
        let Some(parent) = parent else { break };
        origins.forked_from(&parent.session, parent.offset);
        at = parent.session;
    }
    Ok(origins)
}

/// Reads the waits of the invocations of some messages.
async fn waits(chat: &Chat, session: &str, entries: &[TranscriptEntry]) -> Result<Waits, Error> {
    let mut waits = Waits::default();
    for wait in chat.pending(Some(session), 1).await? {
        waits.pending.insert(wait.invocation.clone(), wait);
    }
    // Only what was suspended has turns that resume.
    let turns = entries.iter().filter_map(|it| it.id.as_ref().map(|it| &it.turn));
    let resumed: HashSet<_> = turns
        .filter(|it| it.ordinal > 0 || waits.pending.contains_key(&it.invocation))
        .map(|it| it.invocation.clone())
        .collect();
    for invocation in resumed {
        let ended = ended(chat, &invocation).await?;
        waits.ended.insert(invocation, ended);
    }
    Ok(waits)
}

/// Reads the waits of an invocation that have ended; none where its records are not kept any more.
async fn ended(chat: &Chat, invocation: &InvocationId) -> Result<Vec<WaitSpan>, Error> {
    match chat.timeline(&TurnId::new(invocation.clone(), 0)).await {
        Ok(timeline) => Ok(timeline.waits.into_iter().filter(|it| it.status != "pending").collect()),
        Err(Error::TurnUnknown { .. }) => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// Reads what the turns of an invocation before this one have said, as the beginning of its message.
pub(super) async fn before(chat: &Chat, session: &str, turn: &TurnId) -> Result<Option<UiMessage>, Error> {
    if turn.ordinal == 0 {
        return Ok(None);
    }
    let mut entries = newest(chat, session, NEWEST).await?;
    entries.retain(|it| {
        it.id
            .as_ref()
            .is_some_and(|it| it.turn.invocation == turn.invocation && it.turn.ordinal < turn.ordinal)
    });
    let mut ended = ended(chat, &turn.invocation).await?;
    ended.truncate(turn.ordinal as usize);
    let mut waits = Waits::default();
    waits.ended.insert(turn.invocation.clone(), ended);
    let id = turn.invocation.to_string();
    Ok(messages(session, &Origins::of(session), &entries, &waits).into_iter().find(|it| it.id == id))
}
