//! The stored data of a session, read back when nothing runs any more.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use singletree_durable::{
    FieldValue, ItemRange, Journal, JsonDocument, ListItemRow, SessionKey, StoredTurnKind, StoredWaitStatus,
    TurnRow, TurnRowQuery, WaitRowQuery,
};
use singletree_harness::{Chat, HISTORY, Result, TurnId};
use singletree_llm::{ChatMessage, Role};

use crate::end::AuditedOutcome;

/// The kind of input that a turn answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AuditedTurnKind {
    /// A message.
    Message,
    /// A signal or a deadline, with which its graph goes on.
    Resume,
    /// The end of a wait without going on.
    Close,
}

/// How far a wait is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AuditedWaitState {
    /// It waits.
    Pending,
    /// Its signal came.
    Consumed,
    /// It was given up.
    Cancelled,
    /// Its deadline passed.
    Expired,
}

/// A stored turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredTurn {
    /// Its number: the order of acceptance.
    pub no: u64,
    /// Its name.
    pub id: String,
    /// The invocation that it is part of.
    pub invocation: String,
    /// The kind of input that it answers.
    pub sort: AuditedTurnKind,
    /// The text of its message.
    pub text: Option<String>,
    /// Whether it retries a failed turn over the history, without a message of its own.
    #[serde(default)]
    pub over_history: bool,
    /// The wait that it ended.
    pub wait: Option<u64>,
    /// How it ended, if it has.
    pub end: Option<AuditedOutcome>,
}

/// A message of a session's history; its place in the list is its place in the history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredMessage {
    /// The number of the turn that made it, if that turn is stored.
    pub turn: Option<u64>,
    /// Whether it is the message that its turn answers.
    pub own: bool,
    /// The number of the turn that took it as one that steers, if one did and is stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taken_by: Option<u64>,
    /// Whose role it has.
    pub role: Role,
    /// The message, as [`AuditedOutcome::summarize_message`] writes it.
    pub brief: String,
    /// The tool calls that it makes.
    pub calls: Vec<String>,
    /// The tool call that it answers.
    pub answers: Option<String>,
}

/// A stored wait.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredWait {
    /// Its number.
    pub no: u64,
    /// The invocation that waits.
    pub invocation: String,
    /// The signal's id.
    pub signal: String,
    /// How far it is.
    pub state: AuditedWaitState,
    /// The number of the turn that its end started.
    pub ended_by: Option<u64>,
    /// The payload that ended it.
    pub answer: Option<Value>,
    /// Who gave it, when known.
    pub by: Option<String>,
}

/// A stored event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredEvent {
    /// Its sequence number.
    pub seq: u64,
    /// The number of the turn that it tells of.
    pub turn: u64,
    /// Its type.
    pub kind: String,
}

/// The stored data of a session.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredSession {
    /// The session's id.
    pub session: String,
    /// Its turns, by number.
    pub turns: Vec<StoredTurn>,
    /// Its history.
    pub messages: Vec<StoredMessage>,
    /// How many messages at the beginning came with an import or a fork, and belong to no turn of it.
    pub inherited: u64,
    /// Its waits, by number.
    pub waits: Vec<StoredWait>,
    /// Its events, by sequence number.
    pub events: Vec<StoredEvent>,
}

impl StoredSession {
    /// Reads a session back. Nothing may run in it. The outcomes of its turns come from the chat; everything else
    /// comes from the rows themselves. A session that does not exist is empty.
    ///
    /// # Errors
    /// `store_unavailable` and its kin; `store_corrupt` when a row cannot be read.
    ///
    /// # Cancellation
    /// Nothing is changed.
    pub async fn read_from_store(chat: &Chat, journal: &dyn Journal, key: &SessionKey) -> Result<Self> {
        let mut read = Self { session: key.session.to_string(), ..Self::default() };
        let rows = journal.read_turns(key, &TurnRowQuery::From { no: 0, limit: u64::MAX >> 1 }).await?;
        for row in &rows {
            read.turns.push(read_stored_turn(chat, journal, key, row).await?);
            if row.ordinal == 0 {
                let query = WaitRowQuery::Invocation(key.tenant.clone(), row.invocation.clone());
                read.waits.extend(journal.read_waits(&query).await?.into_iter().map(|(_, it)| StoredWait {
                    no: it.no,
                    invocation: it.invocation.to_string(),
                    signal: it.signal,
                    state: audited_wait_state(it.status),
                    ended_by: it.ended_by,
                    answer: it.answer.and_then(|answer| answer.decode().ok()),
                    by: it.answered_by,
                }));
            }
        }
        read.waits.sort_by_key(|wait| wait.no);
        let events = journal.read_events(key, 0, u64::MAX >> 1).await?;
        read.events = events
            .into_iter()
            .map(|event| StoredEvent { seq: event.seq, turn: event.turn, kind: event.kind })
            .collect();
        read.read_history(journal, key, &rows).await?;
        Ok(read)
    }

    async fn read_history(
        &mut self,
        journal: &dyn Journal,
        key: &SessionKey,
        rows: &[TurnRow],
    ) -> Result<()> {
        let Some(row) = journal.read_session(key).await? else { return Ok(()) };
        let history = row.fields.iter().find(|field| field.name == HISTORY).map(|field| &field.value);
        let Some(FieldValue::List { generation, len, .. }) = history else { return Ok(()) };
        let (field, generation) = (HISTORY.to_owned(), *generation);
        let range = ItemRange::List { field, generation, from: 0, limit: *len };
        let own: BTreeMap<u64, Option<u64>> = rows.iter().map(|row| (row.no, row.message)).collect();
        for item in journal.read_items(key, &range).await? {
            let message: ChatMessage =
                item.body.decode().map_err(|error| corrupt_row_error("a message", error))?;
            self.messages.push(StoredMessage {
                turn: own.contains_key(&item.turn).then_some(item.turn),
                own: own.get(&item.turn).is_some_and(|own| *own == Some(item.no)),
                taken_by: taking_turn_number(&item, rows)?,
                role: message.role,
                brief: AuditedOutcome::summarize_message(&message),
                calls: message.tool_calls.iter().map(|tool_call| tool_call.id.clone()).collect(),
                answers: message.tool_call_id.clone(),
            });
        }
        // An import has no parent, and gives its rows to a turn that is never made.
        let imported = || self.messages.iter().take_while(|message| message.turn.is_none()).count() as u64;
        self.inherited = match row.head.parent {
            // The results that close the calls open at the cut came with the fork, too.
            Some(parent) => {
                let own = self.messages.iter().skip(usize::try_from(parent.offset).unwrap_or(usize::MAX));
                let closings = own.take_while(|it| it.turn.is_none() && it.answers.is_some()).count();
                parent.offset + closings as u64
            }
            None if rows.iter().all(|row| row.no > 0) => imported(),
            None => 0,
        };
        Ok(())
    }

    /// Returns the turn of this number.
    #[must_use]
    pub fn turn_by_number(&self, no: u64) -> Option<&StoredTurn> {
        self.turns.iter().find(|turn| turn.no == no)
    }
}

async fn read_stored_turn(
    chat: &Chat,
    journal: &dyn Journal,
    key: &SessionKey,
    row: &TurnRow,
) -> Result<StoredTurn> {
    let id = TurnId::new(row.invocation.clone(), row.ordinal);
    let text = match row.message {
        None => None,
        Some(no) => {
            let items = journal.read_items(key, &ItemRange::Numbers { from: no, to: no + 1 }).await?;
            let message = items.first().map(|item| item.body.decode::<ChatMessage>()).transpose();
            message
                .map_err(|error| corrupt_row_error("a message", error))?
                .map(|message| message.text().into_owned())
        }
    };
    let end = match row.status.is_ended() {
        false => None,
        true => Some(chat.turn(&id).await?.outcome().await.as_ref().into()),
    };
    Ok(StoredTurn {
        no: row.no,
        id: id.to_string(),
        invocation: row.invocation.to_string(),
        sort: match row.kind {
            StoredTurnKind::Message => AuditedTurnKind::Message,
            StoredTurnKind::Resume => AuditedTurnKind::Resume,
            StoredTurnKind::Close => AuditedTurnKind::Close,
        },
        text,
        over_history: row.retries.is_some() && row.message.is_none(),
        wait: row.wait,
        end,
    })
}

/// Reads off a message's side record which turn took it.
fn taking_turn_number(item: &ListItemRow, rows: &[TurnRow]) -> Result<Option<u64>> {
    let side = item.side.as_ref().map(JsonDocument::decode::<Value>).transpose();
    let side = side.map_err(|error| corrupt_row_error("a side record", error))?.unwrap_or_default();
    let Some(name) = side["taken_by"].as_str() else { return Ok(None) };
    // An inherited message may name a turn of another session.
    let taker = rows.iter().find(|row| TurnId::new(row.invocation.clone(), row.ordinal).to_string() == name);
    Ok(taker.map(|taker| taker.no))
}

fn audited_wait_state(status: StoredWaitStatus) -> AuditedWaitState {
    match status {
        StoredWaitStatus::Pending => AuditedWaitState::Pending,
        StoredWaitStatus::Consumed => AuditedWaitState::Consumed,
        StoredWaitStatus::Cancelled => AuditedWaitState::Cancelled,
        StoredWaitStatus::Expired => AuditedWaitState::Expired,
    }
}

fn corrupt_row_error(what: &str, source: serde_json::Error) -> singletree_harness::Error {
    singletree_durable::Error::Corrupt { what: what.to_owned(), source: Some(source.into()) }.into()
}
