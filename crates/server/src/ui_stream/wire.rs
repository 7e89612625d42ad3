//! Pieces as parts of the stream of one invocation: one message of a page.

use std::collections::HashSet;
use std::sync::Arc;

use serde_json::{Value, json};
use singletree_harness::{ChatTurnOutcome, TurnId};
use singletree_protocol::ui_stream::{Cause, Metadata, StreamPart, UiMessage, UiPart};

use super::project::{Answer, ended_data, metadata, pending_data, steered_data, wait_id};
use crate::fold::{Piece, Showing, ToolAnswer};
use crate::native::suspended;
use crate::shared::Shared;

/// Makes parts of pieces.
pub(super) struct Wire {
    shared: Arc<Shared>,
    session: String,
    turn: TurnId,
    begun: bool,
    /// Whether a step is open.
    stepping: bool,
    /// The text that is open.
    text: Option<String>,
    /// The calls that the page knows: what another one gave would break it.
    calls: HashSet<String>,
}

impl Wire {
    /// Begins the message of a turn's invocation.
    pub(super) fn new(shared: Arc<Shared>, session: impl Into<String>, turn: TurnId) -> Self {
        let (session, calls) = (session.into(), HashSet::new());
        Self { shared, session, turn, begun: false, stepping: false, text: None, calls }
    }

    /// Goes on with a message that the page has.
    pub(super) fn going_on(mut self, before: &UiMessage) -> Self {
        self.know(before);
        self
    }

    /// Tells a message that the page may not have, as the beginning of this one.
    pub(super) fn replay(&mut self, before: UiMessage) -> Vec<StreamPart> {
        self.know(&before);
        let mut parts = self.begin();
        for (at, part) in before.parts.into_iter().enumerate() {
            self.replay_part(at, part, &mut parts);
        }
        parts
    }

    fn know(&mut self, before: &UiMessage) {
        self.calls.extend(before.parts.iter().filter_map(|it| match it {
            UiPart::DynamicTool { tool_call_id, .. } => Some(tool_call_id.clone()),
            UiPart::StepStart
            | UiPart::Text { .. }
            | UiPart::File { .. }
            | UiPart::DataSuspended { .. }
            | UiPart::DataSteered { .. } => None,
        }));
    }

    fn replay_part(&mut self, at: usize, part: UiPart, parts: &mut Vec<StreamPart>) {
        match part {
            UiPart::StepStart => self.step(parts),
            UiPart::Text { text: delta, .. } => {
                let id = format!("{}#{at}", self.turn.invocation);
                parts.push(StreamPart::TextStart { id: id.clone() });
                parts.push(StreamPart::TextDelta { id: id.clone(), delta });
                parts.push(StreamPart::TextEnd { id, provider_metadata: None });
            }
            UiPart::DynamicTool { tool_name, tool_call_id, input, output, error_text, .. } => {
                parts.push(call(&tool_call_id, tool_name, input));
                let answer = output.map(Answer::Gave).or_else(|| error_text.map(Answer::Failed));
                parts.extend(answer.map(|it| answered(&tool_call_id, it)));
            }
            UiPart::DataSuspended { id, data } => parts.push(StreamPart::DataSuspended { id, data }),
            UiPart::DataSteered { id, data } => parts.push(StreamPart::DataSteered { id, data }),
            // The assistant sends no files.
            UiPart::File { .. } => {}
        }
    }

    /// Returns the parts of a piece.
    pub(super) fn piece(&mut self, piece: Piece) -> Vec<StreamPart> {
        let mut parts = match piece {
            Piece::TurnBegin { .. } | Piece::End { .. } | Piece::Recorded(_) => return Vec::new(),
            Piece::TurnEnd { ref turn, .. } if *turn != self.turn => return Vec::new(),
            Piece::Begin { .. }
            | Piece::Text { .. }
            | Piece::Call { .. }
            | Piece::Retract { .. }
            | Piece::Answer(_)
            | Piece::User { .. }
            | Piece::Signal { .. }
            | Piece::TurnEnd { .. } => self.begin(),
        };
        match piece {
            Piece::Begin { showing, .. } => {
                // What is shown again is the same step.
                if showing.attempt == 1 {
                    self.step(&mut parts);
                }
            }
            Piece::Text { showing, delta } => self.say(&showing, delta, &mut parts),
            Piece::Call { id, name, arguments, .. } => {
                self.close(None, &mut parts);
                self.calls.insert(id.clone());
                parts.push(call(&id, name, Value::Object(arguments)));
            }
            Piece::Retract { showing } => {
                if self.text.as_ref() == Some(&showing.to_string()) {
                    self.close(Some(json!({ "singletree": { "retracted": true } })), &mut parts);
                }
            }
            Piece::Answer(ToolAnswer { call, success, content, .. }) => {
                if self.calls.contains(&call) {
                    parts.push(answered(&call, Answer::of(success, &content)));
                }
            }
            Piece::User { id, message, side } => {
                self.close(None, &mut parts);
                let (id, data) = steered_data(Some(&id), &message, side.as_ref());
                parts.push(StreamPart::DataSteered { id, data });
            }
            Piece::Signal { turn, signal, wait, how } => {
                if how != "refused" {
                    let (id, data) = (wait_id(&turn.invocation, wait), ended_data(wait, &signal, how));
                    parts.push(StreamPart::DataSuspended { id, data });
                }
            }
            Piece::TurnEnd { outcome, .. } => self.end(&outcome, &mut parts),
            Piece::TurnBegin { .. } | Piece::End { .. } | Piece::Recorded(_) => {}
        }
        parts
    }

    /// Tells that the stream itself broke.
    pub(super) fn broken(&mut self, error: &singletree_harness::Error) -> Vec<StreamPart> {
        let mut parts = self.begin();
        self.close(None, &mut parts);
        let error_text = self.shared.redactor.redact(&error.to_string()).into_owned();
        parts.push(StreamPart::Error { error_text });
        parts
    }

    fn begin(&mut self) -> Vec<StreamPart> {
        if std::mem::replace(&mut self.begun, true) {
            return Vec::new();
        }
        let message_id = Some(self.turn.invocation.to_string());
        let message_metadata = Some(metadata(&self.session, Some(&self.turn)));
        vec![StreamPart::Start { message_id, message_metadata }]
    }

    fn step(&mut self, parts: &mut Vec<StreamPart>) {
        self.leave_step(parts);
        self.stepping = true;
        parts.push(StreamPart::StartStep);
    }

    fn leave_step(&mut self, parts: &mut Vec<StreamPart>) {
        self.close(None, parts);
        if std::mem::take(&mut self.stepping) {
            parts.push(StreamPart::FinishStep);
        }
    }

    fn say(&mut self, showing: &Showing, delta: String, parts: &mut Vec<StreamPart>) {
        let id = showing.to_string();
        if self.text.as_ref() != Some(&id) {
            self.close(None, parts);
            parts.push(StreamPart::TextStart { id: id.clone() });
            self.text = Some(id.clone());
        }
        parts.push(StreamPart::TextDelta { id, delta });
    }

    /// Ends the text that is open.
    fn close(&mut self, provider_metadata: Option<Value>, parts: &mut Vec<StreamPart>) {
        if let Some(id) = self.text.take() {
            parts.push(StreamPart::TextEnd { id, provider_metadata });
        }
    }

    fn end(&mut self, outcome: &ChatTurnOutcome, parts: &mut Vec<StreamPart>) {
        self.leave_step(parts);
        let cause = match outcome {
            ChatTurnOutcome::Completed(_) => Cause::Stop,
            ChatTurnOutcome::Suspended(it) => {
                let (id, data) = pending_data(&suspended(&self.session, it));
                parts.push(StreamPart::DataSuspended { id, data });
                Cause::ToolCalls
            }
            ChatTurnOutcome::Errored(it) => {
                let category = Some(it.error_category.clone());
                let message_metadata = Metadata { category, ..Metadata::default() };
                // Before the error: a page reads nothing behind it.
                parts.push(StreamPart::MessageMetadata { message_metadata });
                let error_text = self.shared.redactor.redact(&it.reply.text()).into_owned();
                parts.push(StreamPart::Error { error_text });
                Cause::Error
            }
        };
        parts.push(StreamPart::Finish { finish_reason: Some(cause), message_metadata: None });
    }
}

fn call(id: &str, tool_name: String, input: Value) -> StreamPart {
    let (provider_executed, dynamic) = (true, true);
    StreamPart::ToolInputAvailable {
        tool_call_id: id.to_owned(),
        tool_name,
        input,
        provider_executed,
        dynamic,
    }
}

fn answered(id: &str, answer: Answer) -> StreamPart {
    let (tool_call_id, provider_executed, dynamic) = (id.to_owned(), true, true);
    match answer {
        Answer::Gave(output) => {
            StreamPart::ToolOutputAvailable { tool_call_id, output, provider_executed, dynamic }
        }
        Answer::Failed(error_text) => {
            StreamPart::ToolOutputError { tool_call_id, error_text, provider_executed, dynamic }
        }
    }
}
