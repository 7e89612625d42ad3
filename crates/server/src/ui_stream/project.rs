//! Converts a history to the messages of a page: the same that a client gets from all its streams.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::{Value, json};
use singletree_durable::InvocationId;
use singletree_harness::{
    ErroredTurn, FailedTurnEntry, MessageId, PendingWait, TranscriptEntry, TurnId, WaitSpan,
};
use singletree_llm as llm;
use singletree_protocol::native::Wait;
use singletree_protocol::ui_stream::{MessageStatus, Metadata, UiMessage, UiPart, UiRole};

use super::approvals::mark_approvals;
use super::sdk::UiStreamFeatures;
use crate::fold::has_call_succeeded;
use crate::native::convert_bucket;

/// The waits of the invocations of a history.
#[derive(Debug, Default)]
pub(super) struct HistoryWaits {
    /// The ended waits, in order.
    pub(super) ended: HashMap<InvocationId, Vec<WaitSpan>>,
    /// The pending waits.
    pub(super) pending: HashMap<InvocationId, PendingWait>,
}

/// The sessions in which the messages of a history were sent: the first messages of a fork come from its parent.
#[derive(Debug)]
pub(super) struct MessageOrigins {
    /// The session, its parent, and so on, each with the position of its first message.
    line: Vec<(String, u64)>,
}

impl MessageOrigins {
    /// Begins with a session that is not known to be a fork.
    pub(super) fn from_session(session: &str) -> Self {
        Self { line: vec![(session.to_owned(), 0)] }
    }

    /// Adds the parent of the last session, of which that one has this number of messages.
    pub(super) fn add_parent_session(&mut self, session: &str, offset: u64) {
        if let Some(last) = self.line.last_mut() {
            last.1 = offset;
        }
        self.line.push((session.to_owned(), 0));
    }

    fn find_session_at(&self, seq: u64) -> &str {
        let origin = self.line.iter().find(|(_, first)| seq >= *first);
        origin.map_or("", |(session, _)| session)
    }
}

/// The content of a session for a page.
pub(super) struct UiSessionContent<'a> {
    pub(super) session: &'a str,
    pub(super) origins: &'a MessageOrigins,
    pub(super) entries: &'a [TranscriptEntry],
    pub(super) waits: &'a HistoryWaits,
    /// The failed turns that belong among the entries.
    pub(super) failed: &'a [FailedTurnEntry],
    /// The turns that have not ended, in the order of acceptance.
    pub(super) open: &'a [OpenTurn],
    pub(super) dialect: UiStreamFeatures,
}

/// A turn that has not ended.
#[derive(Debug)]
pub(super) struct OpenTurn {
    pub(super) turn: TurnId,
    /// The message that it answers, with its side record; `None` for a turn that resumes after a wait.
    pub(super) message: Option<(Arc<llm::ChatMessage>, Option<Value>)>,
}

impl OpenTurn {
    fn client_message_id(&self) -> Option<&str> {
        self.message.as_ref().and_then(|(_, side)| client_message_id(side.as_ref()))
    }
}

/// Converts the messages of a session.
pub(super) struct UiMessageProjection<'a> {
    session: &'a str,
    origins: &'a MessageOrigins,
    /// The session in which the last message was sent.
    origin: &'a str,
    waits: &'a HistoryWaits,
    thinking: bool,
    messages: Vec<UiMessage>,
    /// The invocation of the last message, if it has one, and the number of its waits that were added.
    last: Option<(InvocationId, usize)>,
}

/// Converts a history with its failed turns and the messages that have no answer yet.
pub(super) fn convert_session_content(shown: &UiSessionContent<'_>) -> Vec<UiMessage> {
    let UiSessionContent { session, origins, entries, waits, .. } = *shown;
    let (messages, last, thinking) = (Vec::new(), None, shown.dialect.thinking);
    let mut projection =
        UiMessageProjection { session, origins, origin: session, waits, thinking, messages, last };
    let mut failed = shown.failed.iter().filter(|failed| is_failure_shown(failed, shown)).peekable();
    for entry in entries {
        // An invocation that goes on after a wait stays one message: turns that failed meanwhile come after it.
        let goes_on = projection.is_of_last_invocation(entry);
        while let Some(failed) = failed.next_if(|failed| !goes_on && failed.place <= entry.seq) {
            projection.add_failed_turn(failed);
        }
        projection.add_transcript_entry(entry);
    }
    failed.for_each(|failed| projection.add_failed_turn(failed));
    projection.add_waits_of_turns(usize::MAX);
    let mut messages = projection.messages;
    // An invocation that waits before it has any text is a message, too.
    for (invocation, wait) in &waits.pending {
        let id = invocation.to_string();
        if messages.iter().all(|message| message.id != id) {
            let metadata = Some(build_metadata(session, Some(&TurnId::new(invocation.clone(), 0))));
            messages.push(UiMessage {
                id,
                role: UiRole::Assistant,
                metadata,
                parts: vec![pending_wait_part(wait)],
            });
        }
    }
    for open in shown.open {
        mark_open_message(session, open, &mut messages);
    }
    if let Some(running) = shown.open.last() {
        // The stream of the turn begins at its first message: a page with some of its messages would show these
        // twice.
        let id = running.turn.invocation.to_string();
        messages.retain(|message| message.id != id);
    }
    if shown.dialect.approvals {
        messages.iter_mut().for_each(|message| mark_approvals(message, waits));
    }
    messages
}

/// Checks whether a page shows a failed turn: not if its message was sent again, under its id or by a retry.
fn is_failure_shown(failed: &FailedTurnEntry, shown: &UiSessionContent<'_>) -> bool {
    let said_again = |id: &str| {
        let in_history = shown.entries.iter().any(|entry| client_message_id(entry.side.as_ref()) == Some(id));
        let open = shown.open.iter().any(|open| open.client_message_id() == Some(id));
        let later = shown.failed.iter().any(|other| {
            let other_id = other.message.as_ref().and_then(|(_, side)| client_message_id(side.as_ref()));
            other.turn.no > failed.turn.no && other_id == Some(id)
        });
        in_history || open || later
    };
    let id = failed.message.as_ref().and_then(|(_, side)| client_message_id(side.as_ref()));
    failed.retried_by.is_none() && !id.is_some_and(said_again)
}

/// Marks the message of an open turn, which is part of the history once a step of the turn is committed.
fn mark_open_message(session: &str, open: &OpenTurn, messages: &mut Vec<UiMessage>) {
    let Some((message, _)) = &open.message else { return };
    let id = open.client_message_id().map_or_else(|| first_message_id(&open.turn), str::to_owned);
    let marked = Metadata { status: Some(MessageStatus::Open), ..build_metadata(session, Some(&open.turn)) };
    match messages.iter_mut().rev().find(|message| message.role == UiRole::User && message.id == id) {
        Some(known) => known.metadata = Some(marked),
        None => {
            let (role, parts) = (UiRole::User, convert_user_message(message));
            messages.push(UiMessage { id, role, metadata: Some(marked), parts });
        }
    }
}

impl UiMessageProjection<'_> {
    fn add_transcript_entry(&mut self, entry: &TranscriptEntry) {
        let side = entry.side.as_ref();
        match entry.message.role {
            llm::Role::User if side.and_then(|side| side.get("taken_by")).is_some() => {
                self.add_entry_part(entry, steered_part(entry));
            }
            llm::Role::User => {
                self.add_waits_of_turns(usize::MAX);
                self.last = None;
                let (parts, metadata) = (convert_user_message(&entry.message), None);
                self.messages.push(UiMessage {
                    id: user_message_id(self.session, entry),
                    role: UiRole::User,
                    metadata,
                    parts,
                });
            }
            llm::Role::Assistant => {
                for part in convert_model_message(&entry.message, self.thinking) {
                    self.add_entry_part(entry, part);
                }
            }
            llm::Role::Tool => {
                self.enter_invocation(entry);
                if let Some(message) = self.messages.last_mut() {
                    set_call_result(&mut message.parts, &entry.message, side);
                }
            }
            llm::Role::System => {}
        }
    }

    /// Checks whether an entry belongs to the invocation of the last message.
    fn is_of_last_invocation(&self, entry: &TranscriptEntry) -> bool {
        let last = self.last.as_ref().map(|(invocation, _)| invocation);
        last.is_some() && last == entry.id.as_ref().map(|id| &id.turn.invocation)
    }

    /// Adds a turn that failed: its message, its answer so far and the reason of the failure.
    fn add_failed_turn(&mut self, failed: &FailedTurnEntry) {
        self.add_waits_of_turns(usize::MAX);
        self.last = None;
        let turn = &failed.turn.id;
        let marked =
            Metadata { status: Some(MessageStatus::Failed), ..build_metadata(self.session, Some(turn)) };
        let id = turn.invocation.to_string();
        if let Some((message, side)) = &failed.message {
            let id = client_message_id(side.as_ref()).map_or_else(|| first_message_id(turn), str::to_owned);
            let (metadata, parts) = (Some(marked.clone()), convert_user_message(message));
            self.messages.push(UiMessage { id, role: UiRole::User, metadata, parts });
        }
        let known = self.messages.iter().rposition(|message| message.id == id);
        let at = known.unwrap_or_else(|| {
            let (metadata, parts) = (None, Vec::new());
            self.messages.push(UiMessage { id: id.clone(), role: UiRole::Assistant, metadata, parts });
            self.messages.len() - 1
        });
        let message = &mut self.messages[at];
        for (made, side) in &failed.made {
            match made.role {
                llm::Role::Assistant => message.parts.extend(convert_model_message(made, self.thinking)),
                llm::Role::Tool => set_call_result(&mut message.parts, made, side.as_ref()),
                llm::Role::User | llm::Role::System => {}
            }
        }
        message.metadata = Some(marked);
        let mut data = turn_error_data(&failed.error, turn);
        data["message"] = failed.error.reply.text().into();
        message.parts.push(UiPart::DataError { id: turn.to_string(), data });
    }

    /// Adds a part to the message of the entry's invocation.
    fn add_entry_part(&mut self, entry: &TranscriptEntry, part: UiPart) {
        self.enter_invocation(entry);
        if let Some(message) = self.messages.last_mut() {
            message.parts.push(part);
        }
    }

    /// Continues the message of the entry's invocation, or begins it.
    fn enter_invocation(&mut self, entry: &TranscriptEntry) {
        let turn = entry.id.as_ref().map(|id| &id.turn);
        let ours = match (&self.last, turn) {
            (Some((last, _)), Some(turn)) => *last == turn.invocation,
            // Without the records of their turns, adjacent messages of the assistant belong together.
            (None, None) => self.messages.last().is_some_and(|messages| messages.role == UiRole::Assistant),
            (Some(_), None) | (None, Some(_)) => false,
        };
        if !ours {
            self.add_waits_of_turns(usize::MAX);
            self.last = turn.map(|turn| (turn.invocation.clone(), 0));
            let id = turn.map_or_else(
                || positional_message_id(self.session, entry.seq),
                |turn| turn.invocation.to_string(),
            );
            let (role, parts) = (UiRole::Assistant, Vec::new());
            self.messages.push(UiMessage { id, role, metadata: None, parts });
        }
        if let Some(turn) = turn {
            // The wait of each earlier turn comes before the messages of this one.
            self.add_waits_of_turns(turn.ordinal as usize);
        }
        self.origin = self.origins.find_session_at(entry.seq);
        if let Some(message) = self.messages.last_mut() {
            message.metadata = Some(build_metadata(self.origin, turn));
        }
    }

    /// Adds the waits of the last invocation that ended its first turns, up to this number of turns.
    fn add_waits_of_turns(&mut self, turns: usize) {
        let (Some((invocation, told)), Some(message)) = (&mut self.last, self.messages.last_mut()) else {
            return;
        };
        let ended = self.waits.ended.get(invocation).map_or(&[][..], Vec::as_slice);
        while *told < turns.min(ended.len()) {
            let wait = &ended[*told];
            message.parts.push(ended_wait_part(invocation, wait.wait, &wait.signal, wait.status));
            *told += 1;
            // The signal that ended the wait began the next turn, even if that has no message yet.
            let next = TurnId::new(invocation.clone(), u32::try_from(*told).unwrap_or(u32::MAX));
            message.metadata = Some(build_metadata(self.origin, Some(&next)));
        }
        if turns > ended.len()
            && *told == ended.len()
            && let Some(wait) = self.waits.pending.get(invocation)
        {
            message.parts.push(pending_wait_part(wait));
            *told += 1;
        }
    }
}

/// Writes the result of a call into the call's part: the last of its id in the message.
fn set_call_result(parts: &mut [UiPart], message: &llm::ChatMessage, side: Option<&Value>) {
    let call = message.tool_call_id.as_deref().unwrap_or_default();
    let answer = UiToolOutcome::from_content(has_call_succeeded(message, side), &message.text());
    for part in parts.iter_mut().rev() {
        if let UiPart::DynamicTool { tool_call_id, state, output, error_text, .. } = part
            && tool_call_id == call
        {
            match answer {
                UiToolOutcome::Gave(value) => (*state, *output) = ("output-available".into(), Some(value)),
                UiToolOutcome::Failed(why) => (*state, *error_text) = ("output-error".into(), Some(why)),
            }
            return;
        }
    }
}

/// Returns the parts of a message of the model.
fn convert_model_message(message: &llm::ChatMessage, thinking: bool) -> Vec<UiPart> {
    let mut parts = vec![UiPart::StepStart];
    let thoughts = message.content.blocks().iter().filter(|_| thinking).filter_map(|block| match block {
        llm::ContentBlock::Thinking { text, .. } if !text.is_empty() => Some(text),
        _ => None,
    });
    parts.extend(
        thoughts.map(|text| UiPart::Reasoning { text: text.clone(), state: Some("done".to_owned()) }),
    );
    let text = message.text();
    if !text.is_empty() {
        parts.push(finished_text_part(&text));
    }
    parts.extend(message.tool_calls.iter().map(tool_call_part));
    parts
}

/// Returns the failure of a turn for programs.
pub(super) fn turn_error_data(errored: &ErroredTurn, turn: &TurnId) -> Value {
    json!({
        "category": errored.error_category,
        "bucket": convert_bucket(errored.error_bucket),
        "retrySafe": errored.retry_safe,
        "turnId": turn.to_string(),
    })
}

/// Returns the id that a client gave to its message.
pub(super) fn client_message_id(side: Option<&Value>) -> Option<&str> {
    side?.get("client_id")?.as_str()
}

/// Returns the id of a turn's first message.
pub(super) fn first_message_id(turn: &TurnId) -> String {
    MessageId { turn: turn.clone(), k: 0 }.to_string()
}

/// The result of a call.
pub(super) enum UiToolOutcome {
    Gave(Value),
    Failed(String),
}

impl UiToolOutcome {
    /// Reads the content of a tool message: as JSON if it is an object or a list, otherwise as text.
    pub(super) fn from_content(success: bool, content: &str) -> Self {
        if !success {
            return Self::Failed(content.to_owned());
        }
        let value = serde_json::from_str(content).ok().filter(|it: &Value| it.is_object() || it.is_array());
        Self::Gave(value.unwrap_or_else(|| content.into()))
    }
}

/// Returns the id of a user's message: the client's own, if it gave one.
pub(super) fn user_message_id(session: &str, entry: &TranscriptEntry) -> String {
    let given = client_message_id(entry.side.as_ref());
    let ours =
        || entry.id.as_ref().map_or_else(|| positional_message_id(session, entry.seq), ToString::to_string);
    given.map_or_else(ours, str::to_owned)
}

fn positional_message_id(session: &str, seq: u64) -> String {
    format!("{session}:{seq}")
}

pub(super) fn build_metadata(session: &str, turn: Option<&TurnId>) -> Metadata {
    let turn_id = turn.map(ToString::to_string);
    Metadata { session_id: Some(session.to_owned()), turn_id, status: None }
}

fn finished_text_part(text: &str) -> UiPart {
    UiPart::Text { text: text.to_owned(), state: Some("done".to_owned()) }
}

fn tool_call_part(call: &llm::ToolCall) -> UiPart {
    UiPart::DynamicTool {
        tool_name: call.name.clone(),
        tool_call_id: call.id.clone(),
        state: "input-available".to_owned(),
        input: Value::Object(call.arguments.clone().unwrap_or_default()),
        output: None,
        error_text: None,
        approval: None,
        provider_executed: true,
    }
}

fn steered_part(entry: &TranscriptEntry) -> UiPart {
    let (id, data) = steered_data(entry.id.as_ref(), &entry.message, entry.side.as_ref());
    UiPart::DataSteered { id, data }
}

/// Returns the id and the data of the part for a message that the running turn has taken.
pub(super) fn steered_data(
    id: Option<&MessageId>,
    message: &llm::ChatMessage,
    side: Option<&Value>,
) -> (String, Value) {
    let id = id.map(ToString::to_string).unwrap_or_default();
    let given = client_message_id(side).unwrap_or(&id).to_owned();
    (id, json!({ "id": given, "role": "user", "parts": convert_user_message(message) }))
}

/// Returns the parts of a user's message.
fn convert_user_message(message: &llm::ChatMessage) -> Vec<UiPart> {
    let text = |text: &str| UiPart::Text { text: text.to_owned(), state: None };
    let blocks = message.content.blocks();
    if blocks.is_empty() {
        return vec![text(&message.text())];
    }
    let part = |block: &llm::ContentBlock| match block {
        llm::ContentBlock::Text { text: it, .. } => Some(text(it)),
        llm::ContentBlock::Image { source: llm::ImageContentSource::Url { url }, media_type, .. } => {
            let media_type = media_type.clone().unwrap_or_else(|| "image/*".to_owned());
            Some(UiPart::File { media_type, url: url.clone() })
        }
        // The bytes of a picture are not sent back.
        llm::ContentBlock::Image { source: llm::ImageContentSource::Inline { .. }, .. }
        | llm::ContentBlock::Thinking { .. }
        | llm::ContentBlock::RedactedThinking { .. } => None,
    };
    blocks.iter().filter_map(part).collect()
}

/// Returns the id of the part for a wait.
pub(super) fn wait_part_id(invocation: &InvocationId, wait: u64) -> String {
    format!("{invocation}:{wait}")
}

/// Returns the id and the data of the part for a pending wait, with everything that an answer needs.
pub(super) fn pending_wait_data(wait: &Wait) -> (String, Value) {
    let id = format!("{}:{}", wait.invocation, wait.number);
    let mut data = serde_json::to_value(wait).expect("a wait is JSON");
    data["status"] = "pending".into();
    (id, data)
}

fn pending_wait_part(wait: &PendingWait) -> UiPart {
    let (id, data) = pending_wait_data(&Wait { since: None, ..crate::native::convert_pending_wait(wait) });
    UiPart::DataSuspended { id, data }
}

/// Returns the data of the part for an ended wait, with the name of its end in events and records.
pub(super) fn ended_wait_data(wait: u64, signal: &str, how: &str) -> Value {
    let status = if how == "consumed" { "answered" } else { how };
    json!({ "status": status, "number": wait, "signal": signal })
}

fn ended_wait_part(invocation: &InvocationId, wait: u64, signal: &str, how: &str) -> UiPart {
    UiPart::DataSuspended { id: wait_part_id(invocation, wait), data: ended_wait_data(wait, signal, how) }
}
