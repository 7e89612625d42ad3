//! Reads timelines from stored rows. Nothing is written and no turn is changed: it works beside another process.

use std::collections::BTreeSet;

use serde_json::Value;
use singletree_durable::{
    EventRow, ItemRange, JsonDocument, SessionKey, StoredTurnKind, StoredTurnStatus, StoredWaitStatus,
    TurnRow, TurnRowQuery, WaitRow, WaitRowQuery,
};
use singletree_engine::{CursorFrame, FramePosition as Place, Item};
use singletree_llm::{ChatMessage, Role};
use singletree_session::{
    ChatEventKind, OutcomeRecord, Records, StoredOutcome, StoredPosition, ToolCallLog, TurnId, TurnRowExt,
    decode_message, event_kinds,
};

use crate::api::chat::Chat;
use crate::api::chat_session::Session;
use crate::api::replay::EventReplay;
use crate::api::timeline::{
    CallSpan, InvocationPosition, KeptEvents, NodeProvenance, OpenCall, OpenCallState, SpanStatus, Timeline,
    TimelineEntry, TimelineEntryKind, TurnCause, TurnError, TurnSpan, WaitSpan,
};
use crate::error::store_corrupt_error;
use crate::runtime::call_status::classify_call_status;
use crate::{Error, Result};

/// How many rows are read at once.
const PAGE: u64 = 256;

impl Session {
    /// Returns the names of the last turns of a session that are kept, at most so many, the last one last.
    ///
    /// # Errors
    /// `chat_session_unknown`, `harness_session_id_unresolved`, `store_unavailable` and its kin.
    pub async fn last_turns(&self, count: u64) -> Result<Vec<TurnId>> {
        let row = self.chat.read_session_row(&self.id).await?;
        let mut no = row.counters.turns.saturating_sub(count);
        let mut ids = Vec::new();
        loop {
            let page = TurnRowQuery::From { no, limit: PAGE };
            let rows =
                self.chat.inner.await_store_read(self.chat.inner.journal.read_turns(&row.key, &page)).await?;
            ids.extend(rows.iter().map(TurnRowExt::turn_id));
            match rows.last() {
                Some(last) if rows.len() as u64 == PAGE => no = last.no + 1,
                _ => return Ok(ids),
            }
        }
    }
}

impl Chat {
    /// Reads the stored timeline of an invocation, identified by one of its turns: the recorded events with their
    /// times, as far as they are kept. It reads the session's log up to the end of the last turn.
    ///
    /// # Errors
    /// `chat_turn_unknown` when there is no such turn, or its record was forgotten; `store_corrupt`,
    /// `store_unavailable` and its kin.
    ///
    /// # Cancellation
    /// Dropping the future changes nothing.
    pub async fn timeline(&self, turn: &TurnId) -> Result<Timeline> {
        let unknown = || Error::TurnUnknown { turn: turn.to_string() };
        let inner = &self.inner;
        let key = inner
            .await_store_read(
                inner.journal.find_session_of_invocation(self.served_tenant()?, &turn.invocation),
            )
            .await?;
        let key = key.ok_or_else(unknown)?;
        let mut rows = inner
            .await_store_read(
                inner.journal.read_turns(&key, &TurnRowQuery::Invocation(turn.invocation.clone())),
            )
            .await?;
        rows.sort_by_key(|row| (row.ordinal, row.no));
        let agent = rows.iter().find(|row| row.ordinal == turn.ordinal).ok_or_else(unknown)?.agent.clone();
        let query = WaitRowQuery::Invocation(key.tenant.clone(), turn.invocation.clone());
        let waits = inner.await_store_read(inner.journal.read_waits(&query)).await?;
        let mut waits: Vec<WaitRow> =
            waits.into_iter().filter(|wait| wait.0 == key).map(|wait| wait.1).collect();
        waits.sort_by_key(|wait| wait.no);
        let mut chronicle = TimelineBuilder { chat: self, key: &key, open: Vec::new() };
        let mut turns = rows.iter().map(make_turn_span).collect::<Result<Vec<_>>>()?;
        chronicle.add_logged_events(&rows, &mut turns).await?;
        let stands = chronicle.read_position(&rows).await?;
        let waits = waits.iter().map(make_wait_span).collect::<Result<_>>()?;
        let (session, invocation) = (key.session.to_string(), turn.invocation.clone());
        Ok(Timeline { session, agent, invocation, turns, waits, stands })
    }
}

/// An invocation while it is read.
struct TimelineBuilder<'a> {
    chat: &'a Chat,
    key: &'a SessionKey,
    /// Calls without an answer so far, with the index in their message.
    open: Vec<(u64, CallSpan)>,
}

impl TimelineBuilder<'_> {
    /// Reads the log and adds its events to the spans of their turns.
    async fn add_logged_events(&mut self, rows: &[TurnRow], turns: &mut [TurnSpan]) -> Result<()> {
        let inner = &self.chat.inner;
        let mut told: BTreeSet<u64> = rows.iter().filter_map(|row| row.message).collect();
        let mut running: BTreeSet<u64> = rows.iter().map(|row| row.no).collect();
        let mut replay = EventReplay::new(self.chat, self.key);
        let mut from = 0;
        while !running.is_empty() {
            let events = inner.await_store_read(inner.journal.read_events(self.key, from, PAGE)).await?;
            let Some(last) = events.last() else { break };
            from = last.seq + 1;
            for event in events {
                let Some(at) = rows.iter().position(|row| row.no == event.turn) else { continue };
                told.extend(event.item);
                if matches!(
                    event.kind.as_str(),
                    event_kinds::SUSPENDED | event_kinds::COMPLETED | event_kinds::ERRORED
                ) {
                    running.remove(&event.turn);
                    turns[at].ended_in = read_provenance(&event)?;
                    mark_kept_events(&mut turns[at], false);
                    continue;
                }
                let made_by = read_provenance(&event)?;
                let event = replay.replay_event(event).await?;
                mark_kept_events(&mut turns[at], event.what.begins_turn());
                if let Some(what) = self.make_timeline_entry(event.what, event.at) {
                    turns[at].entries.push(TimelineEntry { at: event.at, made_by, what });
                }
            }
        }
        for (row, turn) in rows.iter().zip(turns) {
            if let (StoredTurnStatus::Errored, Some(at)) = (row.status, row.ended_at) {
                self.add_discarded_messages(row, &told, (at, turn)).await?;
            }
        }
        Ok(())
    }

    fn make_timeline_entry(
        &mut self,
        what: ChatEventKind,
        at: singletree_durable::Timestamp,
    ) -> Option<TimelineEntryKind> {
        Some(match what {
            ChatEventKind::TurnAccepted { message } => {
                TimelineEntryKind::Accepted { text: message.map(|message| message.text().into_owned()) }
            }
            ChatEventKind::SignalReceived { wait, signal, how, from } => {
                TimelineEntryKind::Signal { wait, signal, how, from }
            }
            ChatEventKind::MessageAppended { message, side, .. } => match message.role {
                Role::Tool => self.make_tool_result(&message, side.as_ref()),
                Role::User | Role::System | Role::Assistant => {
                    let calls = message.tool_calls.iter().map(|tool_call| CallSpan {
                        call: tool_call.id.clone(),
                        tool: tool_call.name.clone(),
                        arguments: tool_call.arguments.clone().unwrap_or_default(),
                        asked_at: Some(at),
                    });
                    self.open.extend((0..).zip(calls));
                    TimelineEntryKind::Message {
                        role: message.role.as_str(),
                        text: message.text().into_owned(),
                        calls: list_tool_names(&message),
                        interrupted: side.is_some_and(|side| side["interrupted"] == true),
                    }
                }
            },
            // Provisional ones are not stored; ends are told by the turn; a fork tells of no turn of this session.
            ChatEventKind::TurnStarted
            | ChatEventKind::TurnRestarted
            | ChatEventKind::TurnRetrying { .. }
            | ChatEventKind::ThinkingDelta { .. }
            | ChatEventKind::MessageTaken { .. }
            | ChatEventKind::Delta { .. }
            | ChatEventKind::ToolStarted { .. }
            | ChatEventKind::ToolFinished { .. }
            | ChatEventKind::TurnSuspended { .. }
            | ChatEventKind::TurnCompleted { .. }
            | ChatEventKind::TurnErrored { .. }
            | ChatEventKind::SessionForked { .. } => return None,
        })
    }

    fn make_tool_result(&mut self, message: &ChatMessage, side: Option<&Value>) -> TimelineEntryKind {
        let id = message.tool_call_id.clone().unwrap_or_default();
        let open = self.open.iter().position(|(_, it)| it.call == id);
        let call = open.map(|at| self.open.remove(at).1).unwrap_or_else(|| CallSpan {
            call: id,
            tool: String::new(),
            arguments: serde_json::Map::new(),
            asked_at: None,
        });
        let text = message.text().into_owned();
        TimelineEntryKind::ToolResult { call, status: classify_call_status(&text, side), text }
    }

    /// Adds the messages of a failed turn that no event contains.
    async fn add_discarded_messages(
        &self,
        row: &TurnRow,
        told: &BTreeSet<u64>,
        (at, turn): (singletree_durable::Timestamp, &mut TurnSpan),
    ) -> Result<()> {
        let inner = &self.chat.inner;
        let items =
            inner.await_store_read(inner.journal.read_items(self.key, &ItemRange::Turn(row.no))).await?;
        for item in items.iter().filter(|item| item.placement.is_none() && !told.contains(&item.no)) {
            // Items of other lists than the history are no messages.
            let Ok(message) = decode_message(&Item::from_text(item.body.as_str())) else { continue };
            let (role, text, calls) =
                (message.role.as_str(), message.text().into_owned(), list_tool_names(&message));
            let what = TimelineEntryKind::Discarded { role, text, calls };
            turn.entries.push(TimelineEntry { at, made_by: None, what });
        }
        Ok(())
    }

    /// Reads where the invocation stands, when it is not over.
    async fn read_position(&self, rows: &[TurnRow]) -> Result<Option<InvocationPosition>> {
        let inner = &self.chat.inner;
        let Some(row) = rows.last() else { return Ok(None) };
        let Some(position) =
            inner.await_store_read(inner.journal.read_position(self.key, &row.invocation)).await?
        else {
            return Ok(None);
        };
        let position: StoredPosition = position
            .body
            .decode()
            .map_err(|error| store_corrupt_error("a position".into(), Some(error.into())))?;
        let records = inner.await_store_read(inner.journal.read_turn_records(self.key, row.no)).await?;
        let records: Records =
            records.into_iter().map(|record| (record.name, Item::from_text(record.body.as_str()))).collect();
        // All calls that are open are of one message, the last one, and so are the records.
        let log = records.keys().find_map(|it| ToolCallLog::message_of_record(it));
        let log = log.map(|log| ToolCallLog::from_records(&records, log)).transpose()?.unwrap_or_default();
        let mut open_calls = Vec::with_capacity(self.open.len());
        for (index, call) in &self.open {
            let state = match (log.find_result(*index), log.is_in_doubt(*index)) {
                (Some(_), _) => OpenCallState::Gave,
                (None, true) => OpenCallState::Begun,
                (None, false) => OpenCallState::Asked,
            };
            open_calls.push(OpenCall { call: call.clone(), state });
        }
        let frames = &position.cursor.frames;
        let attempt = |it: &CursorFrame| (it.at == Place::Before).then_some(it.attempt);
        let at = frames
            .iter()
            .map(|frame| NodeProvenance { node: frame.node.clone(), attempt: attempt(frame) })
            .collect();
        let place = match frames.last().map(|frame| frame.at) {
            Some(Place::Inside) => "inside",
            Some(Place::After) => "after",
            Some(Place::Before) | None => "before",
        };
        Ok(Some(InvocationPosition { at, place, open_calls }))
    }
}

/// Notes that an event of a turn is kept: the first one shows whether it is the turn's first.
fn mark_kept_events(turn: &mut TurnSpan, begins: bool) {
    if turn.kept == KeptEvents::Nothing {
        turn.kept = if begins { KeptEvents::Whole } else { KeptEvents::Partly };
    }
}

fn make_turn_span(row: &TurnRow) -> Result<TurnSpan> {
    let error = match StoredOutcome::from_turn_row(row)?.map(|it| it.recorded) {
        Some(OutcomeRecord::Errored { bucket, category, diagnostic, retry_safe, .. }) => {
            Some(TurnError { category, bucket, diagnostic, retry_safe })
        }
        Some(OutcomeRecord::Completed(_) | OutcomeRecord::Suspended { .. }) | None => None,
    };
    Ok(TurnSpan {
        turn: row.turn_id(),
        answers: match row.kind {
            StoredTurnKind::Message => TurnCause::Message,
            StoredTurnKind::Resume => TurnCause::Signal,
            StoredTurnKind::Close => TurnCause::Close,
        },
        status: match row.status {
            StoredTurnStatus::Accepted => SpanStatus::Open,
            StoredTurnStatus::Suspended => SpanStatus::Suspended,
            StoredTurnStatus::Completed => SpanStatus::Completed,
            StoredTurnStatus::Errored => SpanStatus::Errored,
        },
        accepted_at: row.accepted_at,
        ended_at: row.ended_at,
        deaths: row.deaths,
        kept: KeptEvents::Nothing,
        entries: Vec::new(),
        ended_in: None,
        error,
    })
}

fn make_wait_span(row: &WaitRow) -> Result<WaitSpan> {
    let metadata = row.metadata.as_ref().map(JsonDocument::decode).transpose();
    let metadata = metadata.map_err(|error| {
        store_corrupt_error(format!("the metadata of wait {}", row.no), Some(error.into()))
    })?;
    Ok(WaitSpan {
        wait: row.no,
        signal: row.signal.clone(),
        status: match row.status {
            StoredWaitStatus::Pending => "pending",
            StoredWaitStatus::Consumed => "consumed",
            StoredWaitStatus::Cancelled => "cancelled",
            StoredWaitStatus::Expired => "expired",
        },
        metadata,
        since: row.created_at,
        deadline: row.deadline,
        ended_at: row.ended_at,
        answered_by: row.answered_by.clone(),
    })
}

/// Reads off an event which node it tells of.
fn read_provenance(event: &EventRow) -> Result<Option<NodeProvenance>> {
    let unreadable =
        |it: serde_json::Error| store_corrupt_error(format!("event {}", event.seq), Some(it.into()));
    let body: Option<Value> =
        event.body.as_ref().map(JsonDocument::decode).transpose().map_err(unreadable)?;
    let Some(body) = body else { return Ok(None) };
    let attempt = body["attempt"].as_u64().and_then(|number| u32::try_from(number).ok());
    Ok(body["node"].as_str().map(|node| NodeProvenance { node: node.to_owned(), attempt }))
}

fn list_tool_names(message: &ChatMessage) -> Vec<String> {
    message.tool_calls.iter().map(|tool_call| tool_call.name.clone()).collect()
}
