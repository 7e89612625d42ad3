//! Reads the outcome of an ended turn back: its messages by their places, its wait by its number.

use std::sync::Arc;

use singletree_durable::{ItemRange, Journal, SessionKey, TurnRow, TurnRowQuery, WaitRow, WaitRowQuery};
use singletree_engine::Item;
use singletree_llm::ChatMessage;
use singletree_session::{
    ChatTurnOutcome, CompletedTurn, DispatchPath, ErroredTurn, HISTORY, OutcomeRecord, ReplyRange,
    StoredOutcome, SuspendedTurn, TurnId, TurnRowExt, decode_message, decode_wait_descriptor,
    decode_wait_terms,
};

use crate::Error;
use crate::error::store_corrupt_error;

/// Reads the outcome of an ended turn back.
pub(crate) async fn read_outcome(
    journal: &dyn Journal,
    key: &SessionKey,
    row: &TurnRow,
) -> Result<Option<ChatTurnOutcome>, Error> {
    let Some(ended) = StoredOutcome::from_turn_row(row)? else { return Ok(None) };
    let turn = row.turn_id();
    let path = |tail: ReplyRange| match (row.wait, tail.existing) {
        (Some(_), _) => DispatchPath::SignalResume,
        (None, true) => DispatchPath::ExistingSession,
        (None, false) => DispatchPath::NewSession,
    };
    Ok(Some(match ended.recorded {
        OutcomeRecord::Completed(tail) => ChatTurnOutcome::Completed(CompletedTurn {
            turn,
            replies: read_reply_messages(journal, (key, row), tail).await?,
            final_state: None,
            path: path(tail),
            answer: tail.answer,
        }),
        OutcomeRecord::Suspended { tail, wait } => {
            let waits = WaitRowQuery::Invocation(key.tenant.clone(), row.invocation.clone());
            let waits = journal.read_waits(&waits).await?;
            let wait = waits.into_iter().map(|(_, it)| it).find(|it| it.no == wait);
            let wait = wait.ok_or_else(|| {
                store_corrupt_error(format!("the wait of turn {} is missing", row.no), None)
            })?;
            ChatTurnOutcome::Suspended(SuspendedTurn {
                turn,
                signal_descriptor: decode_wait_descriptor(&wait)?,
                pending_messages: read_reply_messages(journal, (key, row), tail).await?,
                invocation_id: row.invocation.clone(),
                resumed_by: read_resuming_turn(journal, key, &wait).await?,
                wait: decode_wait_terms(&wait)?,
                path: path(tail),
            })
        }
        OutcomeRecord::Errored { bucket, category, reply, diagnostic, retry_safe, .. } => {
            ChatTurnOutcome::Errored(ErroredTurn {
                turn: Some(turn),
                error_bucket: bucket,
                error_category: category,
                reply: ChatMessage::system(reply),
                diagnostic,
                retry_safe,
                recorded: true,
                retry_after: None,
            })
        }
    }))
}

async fn read_resuming_turn(
    journal: &dyn Journal,
    key: &SessionKey,
    wait: &WaitRow,
) -> Result<Option<TurnId>, Error> {
    let Some(no) = wait.ended_by else { return Ok(None) };
    let rows = journal.read_turns(key, &TurnRowQuery::No(no)).await?;
    Ok(rows.first().map(TurnRowExt::turn_id))
}

/// Reads the messages of a turn's reply.
///
/// # Errors
/// `chat_turn_unknown` when the turn was deleted after its row was read: half of it would look like all of it.
async fn read_reply_messages(
    journal: &dyn Journal,
    (key, row): (&SessionKey, &TurnRow),
    tail: ReplyRange,
) -> Result<Vec<Arc<ChatMessage>>, Error> {
    let (field, generation) = (HISTORY.to_owned(), tail.generation);
    let limit = tail.to.saturating_sub(tail.from);
    if limit == 0 {
        return Ok(Vec::new());
    }
    let rows =
        journal.read_items(key, &ItemRange::List { field, generation, from: tail.from, limit }).await?;
    if rows.len() as u64 != limit {
        let turns = journal.read_turns(key, &TurnRowQuery::No(row.no)).await?;
        if turns.iter().all(|turn| turn.invocation != row.invocation) {
            return Err(Error::TurnUnknown { turn: row.turn_id().to_string() });
        }
    }
    rows.iter().map(|row| Ok(decode_message(&Item::from_text(row.body.as_str()))?)).collect()
}
