//! A history as a page keeps it: what its client would have of all its streams.

use std::collections::HashMap;

use serde_json::{Value, json};
use singletree_durable::InvocationId;
use singletree_harness::{MessageId, PendingWait, TranscriptEntry, TurnId, WaitSpan};
use singletree_llm as llm;
use singletree_protocol::native::Wait;
use singletree_protocol::ui_stream::{Metadata, UiMessage, UiPart, UiRole};

use crate::fold::success;

/// The waits of the invocations of a history.
#[derive(Debug, Default)]
pub(super) struct Waits {
    /// Those that ended, in order.
    pub(super) ended: HashMap<InvocationId, Vec<WaitSpan>>,
    /// Those that nobody has ended.
    pub(super) pending: HashMap<InvocationId, PendingWait>,
}

/// In which sessions the messages of a history were said: of a fork the first ones in the session that it was made of.
#[derive(Debug)]
pub(super) struct Origins {
    /// The session, the one that it was forked from, and so on, each with the place of its first message.
    line: Vec<(String, u64)>,
}

impl Origins {
    /// Begins with a session of which it is not known that it is a fork.
    pub(super) fn of(session: &str) -> Self {
        Self { line: vec![(session.to_owned(), 0)] }
    }

    /// Says that the last one was forked from another, of which it has so many messages.
    pub(super) fn forked_from(&mut self, session: &str, offset: u64) {
        if let Some(last) = self.line.last_mut() {
            last.1 = offset;
        }
        self.line.push((session.to_owned(), 0));
    }

    fn at(&self, seq: u64) -> &str {
        let origin = self.line.iter().find(|(_, first)| seq >= *first);
        origin.map_or("", |(session, _)| session)
    }
}

/// Writes the messages of a session.
pub(super) struct Projection<'a> {
    session: &'a str,
    origins: &'a Origins,
    /// Where the last message was said.
    origin: &'a str,
    waits: &'a Waits,
    messages: Vec<UiMessage>,
    /// The invocation that the last message is, if it is one's, and how many of its waits were told.
    last: Option<(InvocationId, usize)>,
}

/// Writes a history.
pub(super) fn messages(
    session: &str,
    origins: &Origins,
    entries: &[TranscriptEntry],
    waits: &Waits,
) -> Vec<UiMessage> {
    let (messages, last) = (Vec::new(), None);
    let mut projection = Projection { session, origins, origin: session, waits, messages, last };
    entries.iter().for_each(|it| projection.entry(it));
    projection.tell_waits(usize::MAX);
    let mut messages = projection.messages;
    // One that waits before it has said anything is a message, too.
    for (invocation, wait) in &waits.pending {
        let id = invocation.to_string();
        if messages.iter().all(|it| it.id != id) {
            let metadata = Some(metadata(session, Some(&TurnId::new(invocation.clone(), 0))));
            messages.push(UiMessage {
                id,
                role: UiRole::Assistant,
                metadata,
                parts: vec![pending_part(wait)],
            });
        }
    }
    messages
}

impl Projection<'_> {
    fn entry(&mut self, entry: &TranscriptEntry) {
        let side = entry.side.as_ref();
        match entry.message.role {
            llm::Role::User if side.and_then(|it| it.get("taken_by")).is_some() => {
                self.part(entry, steered(entry));
            }
            llm::Role::User => {
                self.tell_waits(usize::MAX);
                self.last = None;
                let (parts, metadata) = (said(&entry.message), None);
                self.messages.push(UiMessage {
                    id: id_of(self.session, entry),
                    role: UiRole::User,
                    metadata,
                    parts,
                });
            }
            llm::Role::Assistant => {
                self.part(entry, UiPart::StepStart);
                let text = entry.message.text();
                if !text.is_empty() {
                    self.part(entry, text_part(&text));
                }
                for call in &entry.message.tool_calls {
                    self.part(entry, call_part(call));
                }
            }
            llm::Role::Tool => self.answer(entry),
            llm::Role::System => {}
        }
    }

    /// Adds a part to the message of the entry's invocation.
    fn part(&mut self, entry: &TranscriptEntry, part: UiPart) {
        self.enter(entry);
        if let Some(message) = self.messages.last_mut() {
            message.parts.push(part);
        }
    }

    /// Goes on with the message of the entry's invocation, or begins it.
    fn enter(&mut self, entry: &TranscriptEntry) {
        let turn = entry.id.as_ref().map(|it| &it.turn);
        let ours = match (&self.last, turn) {
            (Some((last, _)), Some(turn)) => *last == turn.invocation,
            // Without the records of their turns, what stands together is together.
            (None, None) => self.messages.last().is_some_and(|it| it.role == UiRole::Assistant),
            (Some(_), None) | (None, Some(_)) => false,
        };
        if !ours {
            self.tell_waits(usize::MAX);
            self.last = turn.map(|it| (it.invocation.clone(), 0));
            let id = turn.map_or_else(|| place(self.session, entry.seq), |it| it.invocation.to_string());
            let (role, parts) = (UiRole::Assistant, Vec::new());
            self.messages.push(UiMessage { id, role, metadata: None, parts });
        }
        if let Some(turn) = turn {
            // The wait of each earlier turn stands before what this one says.
            self.tell_waits(turn.ordinal as usize);
        }
        self.origin = self.origins.at(entry.seq);
        if let Some(message) = self.messages.last_mut() {
            message.metadata = Some(metadata(self.origin, turn));
        }
    }

    /// Tells the waits of the last invocation that ended its first so many turns.
    fn tell_waits(&mut self, turns: usize) {
        let (Some((invocation, told)), Some(message)) = (&mut self.last, self.messages.last_mut()) else {
            return;
        };
        let ended = self.waits.ended.get(invocation).map_or(&[][..], Vec::as_slice);
        while *told < turns.min(ended.len()) {
            let wait = &ended[*told];
            message.parts.push(ended_part(invocation, wait.wait, &wait.signal, wait.status));
            *told += 1;
            // What ended it began the next turn, whether that has said anything or not.
            let next = TurnId::new(invocation.clone(), u32::try_from(*told).unwrap_or(u32::MAX));
            message.metadata = Some(metadata(self.origin, Some(&next)));
        }
        if turns > ended.len()
            && *told == ended.len()
            && let Some(wait) = self.waits.pending.get(invocation)
        {
            message.parts.push(pending_part(wait));
            *told += 1;
        }
    }

    /// Writes what a call gave into the call's part: the last of its id in the message.
    fn answer(&mut self, entry: &TranscriptEntry) {
        self.enter(entry);
        let call = entry.message.tool_call_id.as_deref().unwrap_or_default();
        let answer = Answer::of(success(&entry.message, entry.side.as_ref()), &entry.message.text());
        let Some(message) = self.messages.last_mut() else { return };
        for part in message.parts.iter_mut().rev() {
            if let UiPart::DynamicTool { tool_call_id, state, output, error_text, .. } = part
                && tool_call_id == call
            {
                match answer {
                    Answer::Gave(value) => (*state, *output) = ("output-available".into(), Some(value)),
                    Answer::Failed(why) => (*state, *error_text) = ("output-error".into(), Some(why)),
                }
                return;
            }
        }
    }
}

/// What a call gave.
pub(super) enum Answer {
    Gave(Value),
    Failed(String),
}

impl Answer {
    /// Reads what a tool message says: JSON where it is an object or a list, else text.
    pub(super) fn of(success: bool, content: &str) -> Self {
        if !success {
            return Self::Failed(content.to_owned());
        }
        let value = serde_json::from_str(content).ok().filter(|it: &Value| it.is_object() || it.is_array());
        Self::Gave(value.unwrap_or_else(|| content.into()))
    }
}

/// Returns the id of a user's message: the client's own where it gave one.
pub(super) fn id_of(session: &str, entry: &TranscriptEntry) -> String {
    let given = entry.side.as_ref().and_then(|it| it.get("client_id")).and_then(Value::as_str);
    let ours = || entry.id.as_ref().map_or_else(|| place(session, entry.seq), ToString::to_string);
    given.map_or_else(ours, str::to_owned)
}

fn place(session: &str, seq: u64) -> String {
    format!("{session}:{seq}")
}

pub(super) fn metadata(session: &str, turn: Option<&TurnId>) -> Metadata {
    let turn_id = turn.map(ToString::to_string);
    Metadata { session_id: Some(session.to_owned()), turn_id }
}

fn text_part(text: &str) -> UiPart {
    UiPart::Text { text: text.to_owned(), state: Some("done".to_owned()) }
}

fn call_part(call: &llm::ToolCall) -> UiPart {
    UiPart::DynamicTool {
        tool_name: call.name.clone(),
        tool_call_id: call.id.clone(),
        state: "input-available".to_owned(),
        input: Value::Object(call.arguments.clone().unwrap_or_default()),
        output: None,
        error_text: None,
        provider_executed: true,
    }
}

fn steered(entry: &TranscriptEntry) -> UiPart {
    let (id, data) = steered_data(entry.id.as_ref(), &entry.message, entry.side.as_ref());
    UiPart::DataSteered { id, data }
}

/// Tells a message that the running turn has taken.
pub(super) fn steered_data(
    id: Option<&MessageId>,
    message: &llm::ChatMessage,
    side: Option<&Value>,
) -> (String, Value) {
    let id = id.map(ToString::to_string).unwrap_or_default();
    let given = side.and_then(|it| it.get("client_id")).and_then(Value::as_str).unwrap_or(&id).to_owned();
    (id, json!({ "id": given, "role": "user", "parts": said(message) }))
}

/// Returns the parts of what a user says.
fn said(message: &llm::ChatMessage) -> Vec<UiPart> {
    let text = |text: &str| UiPart::Text { text: text.to_owned(), state: None };
    let blocks = message.content.blocks();
    if blocks.is_empty() {
        return vec![text(&message.text())];
    }
    let part = |block: &llm::ContentBlock| match block {
        llm::ContentBlock::Text { text: it, .. } => Some(text(it)),
        llm::ContentBlock::Image { source: llm::ImageSource::Url { url }, media_type, .. } => {
            let media_type = media_type.clone().unwrap_or_else(|| "image/*".to_owned());
            Some(UiPart::File { media_type, url: url.clone() })
        }
        // The bytes of a picture are not sent back.
        llm::ContentBlock::Image { source: llm::ImageSource::Inline { .. }, .. }
        | llm::ContentBlock::Thinking { .. }
        | llm::ContentBlock::RedactedThinking { .. } => None,
    };
    blocks.iter().filter_map(part).collect()
}

/// Names the part that tells a wait.
pub(super) fn wait_id(invocation: &InvocationId, wait: u64) -> String {
    format!("{invocation}:{wait}")
}

/// Tells a wait that nobody has ended, with all that an answer needs.
pub(super) fn pending_data(wait: &Wait) -> (String, Value) {
    let id = format!("{}:{}", wait.invocation, wait.number);
    let mut data = serde_json::to_value(wait).expect("a wait is JSON");
    data["status"] = "pending".into();
    (id, data)
}

fn pending_part(wait: &PendingWait) -> UiPart {
    let (id, data) = pending_data(&Wait { since: None, ..crate::native::wait(wait) });
    UiPart::DataSuspended { id, data }
}

/// Tells how a wait ended, as events and records name it.
pub(super) fn ended_data(wait: u64, signal: &str, how: &str) -> Value {
    let status = if how == "consumed" { "answered" } else { how };
    json!({ "status": status, "number": wait, "signal": signal })
}

fn ended_part(invocation: &InvocationId, wait: u64, signal: &str, how: &str) -> UiPart {
    UiPart::DataSuspended { id: wait_id(invocation, wait), data: ended_data(wait, signal, how) }
}
