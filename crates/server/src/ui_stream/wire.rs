//! Converts pieces to the parts of the stream of one invocation: one message of a page.

use std::collections::HashSet;
use std::sync::Arc;

use serde_json::{Value, json};
use singletree_harness::{ChatEvent, ChatTurnOutcome, ErroredTurn, MessageId, TurnId};
use singletree_protocol::ui_stream::{Cause, StreamPart, ToolApproval, UiMessage, UiPart};

use super::approvals::{DENIED, approval_of_wait, is_denied_result};
use super::project::{
    UiToolOutcome, build_metadata, ended_wait_data, pending_wait_data, steered_data, turn_error_data,
    wait_part_id,
};
use super::sdk::UiStreamFeatures;
use crate::fold::{DisplayedMessageId, ProjectionPiece, ThinkingProjection, ToolAnswer};
use crate::native::convert_suspended_wait;
use crate::shared::ServerState;

/// Converts pieces to parts.
pub(super) struct UiStreamEncoder {
    shared: Arc<ServerState>,
    session: String,
    turn: TurnId,
    begun: bool,
    /// Whether a step is open.
    stepping: bool,
    /// The message whose step was begun last.
    stepped: Option<MessageId>,
    /// The id of the text that is open.
    text: Option<String>,
    thoughts: ThinkingProjection,
    /// The id of the thinking that is open.
    thinking: Option<String>,
    /// The calls that the page knows: the result of an unknown call would break the page.
    calls: HashSet<String>,
    /// The calls among them that needed an approval, if the dialect has approvals.
    asked: HashSet<String>,
    dialect: UiStreamFeatures,
    /// The finish reason of the last message of the model, if it is unusual.
    cause: Option<Cause>,
}

impl UiStreamEncoder {
    /// Begins the message of a turn's invocation.
    pub(super) fn new(shared: Arc<ServerState>, session: impl Into<String>, turn: TurnId) -> Self {
        let (session, calls, asked) = (session.into(), HashSet::new(), HashSet::new());
        Self {
            shared,
            session,
            turn,
            begun: false,
            stepping: false,
            stepped: None,
            text: None,
            thoughts: ThinkingProjection::default(),
            thinking: None,
            calls,
            asked,
            dialect: UiStreamFeatures::default(),
            cause: None,
        }
    }

    /// Sets the optional parts that the page knows.
    pub(super) fn with_features(mut self, dialect: UiStreamFeatures) -> Self {
        self.dialect = dialect;
        self
    }

    /// Continues a message that the page has; `asked` are its calls that needed an approval.
    pub(super) fn with_known_message(mut self, before: &UiMessage, asked: &[String]) -> Self {
        self.add_known_calls(before);
        if self.dialect.approvals {
            self.asked.extend(asked.iter().cloned());
        }
        self
    }

    /// Returns the parts of a message that the page may not have, as the beginning of this one.
    pub(super) fn replay_message(&mut self, before: UiMessage) -> Vec<StreamPart> {
        self.add_known_calls(&before);
        let mut parts = self.begin_message();
        for (at, part) in before.parts.into_iter().enumerate() {
            self.replay_part(at, part, &mut parts);
        }
        parts
    }

    fn add_known_calls(&mut self, before: &UiMessage) {
        for part in &before.parts {
            if let UiPart::DynamicTool { tool_call_id, approval, .. } = part {
                self.calls.insert(tool_call_id.clone());
                self.asked.extend(approval.as_ref().map(|_| tool_call_id.clone()));
            }
        }
    }

    fn replay_part(&mut self, at: usize, part: UiPart, parts: &mut Vec<StreamPart>) {
        match part {
            UiPart::StepStart => self.begin_step(parts),
            UiPart::Text { text: delta, .. } => {
                let id = format!("{}#{at}", self.turn.invocation);
                parts.push(StreamPart::TextStart { id: id.clone() });
                parts.push(StreamPart::TextDelta { id: id.clone(), delta });
                parts.push(StreamPart::TextEnd { id, provider_metadata: None });
            }
            UiPart::DynamicTool {
                tool_name,
                tool_call_id,
                state,
                input,
                output,
                error_text,
                approval,
                ..
            } => {
                parts.push(tool_input_part(&tool_call_id, tool_name, input));
                if let Some(ToolApproval { id: approval_id, .. }) = approval {
                    let tool_call_id = tool_call_id.clone();
                    parts.push(StreamPart::ToolApprovalRequest { approval_id, tool_call_id });
                }
                let answer =
                    output.map(UiToolOutcome::Gave).or_else(|| error_text.map(UiToolOutcome::Failed));
                match answer {
                    Some(answer) => parts.push(tool_output_part(&tool_call_id, answer)),
                    None if state == DENIED => parts.push(StreamPart::ToolOutputDenied { tool_call_id }),
                    None => {}
                }
            }
            UiPart::Reasoning { text: delta, .. } => {
                let id = format!("{}#{at}", self.turn.invocation);
                parts.push(StreamPart::ReasoningStart { id: id.clone() });
                parts.push(StreamPart::ReasoningDelta { id: id.clone(), delta });
                parts.push(StreamPart::ReasoningEnd { id });
            }
            UiPart::DataSuspended { id, data } => parts.push(StreamPart::DataSuspended { id, data }),
            UiPart::DataSteered { id, data } => parts.push(StreamPart::DataSteered { id, data }),
            // The assistant sends no files, and an invocation that goes on has not failed.
            UiPart::File { .. } | UiPart::DataError { .. } => {}
        }
    }

    /// Returns the parts for new thinking in an event. They go before the parts of its pieces.
    pub(super) fn encode_thinking(&mut self, event: &ChatEvent) -> Vec<StreamPart> {
        if !self.dialect.thinking || event.turn != self.turn {
            return Vec::new();
        }
        let Some(thought) = self.thoughts.apply_event(event) else { return Vec::new() };
        let mut parts = self.begin_message();
        self.begin_step_of_message(&thought.message, &mut parts);
        let id = thought.thinking_id();
        if self.thinking.as_ref() != Some(&id) {
            self.end_open_content(None, &mut parts);
            parts.push(StreamPart::ReasoningStart { id: id.clone() });
            self.thinking = Some(id.clone());
        }
        parts.push(StreamPart::ReasoningDelta { id, delta: thought.delta });
        parts
    }

    /// Returns the parts of a piece.
    pub(super) fn encode_piece(&mut self, piece: ProjectionPiece) -> Vec<StreamPart> {
        let mut parts = match piece {
            ProjectionPiece::End { ref side, .. } => {
                self.cause = read_finish_cause(side.as_ref());
                return Vec::new();
            }
            // Nothing takes a part back; the turn has failed, and its messages are read again.
            ProjectionPiece::TurnBegin { .. }
            | ProjectionPiece::Recorded(_)
            | ProjectionPiece::RetractUser { .. } => return Vec::new(),
            ProjectionPiece::TurnEnd { ref turn, .. } if *turn != self.turn => return Vec::new(),
            ProjectionPiece::Begin { .. }
            | ProjectionPiece::Text { .. }
            | ProjectionPiece::Call { .. }
            | ProjectionPiece::Retract { .. }
            | ProjectionPiece::Answer(_)
            | ProjectionPiece::User { .. }
            | ProjectionPiece::Signal { .. } => self.begin_message(),
            // A turn that fails before its first text leaves no message behind.
            ProjectionPiece::TurnEnd { ref outcome, .. } => match outcome.as_ref() {
                ChatTurnOutcome::Errored(_) => Vec::new(),
                ChatTurnOutcome::Completed(_) | ChatTurnOutcome::Suspended(_) => self.begin_message(),
            },
        };
        match piece {
            ProjectionPiece::Begin { showing, .. } => {
                // Text that is shown again belongs to the same step.
                if showing.attempt == 1 {
                    self.begin_step_of_message(&showing.message, &mut parts);
                }
            }
            ProjectionPiece::Text { showing, delta } => self.encode_text_delta(&showing, delta, &mut parts),
            ProjectionPiece::Call { id, name, arguments, .. } => {
                self.end_open_content(None, &mut parts);
                self.calls.insert(id.clone());
                parts.push(tool_input_part(&id, name, Value::Object(arguments)));
            }
            ProjectionPiece::Retract { showing } => {
                if self.text.as_ref() == Some(&showing.to_string()) {
                    self.end_open_content(Some(json!({ "singletree": { "retracted": true } })), &mut parts);
                }
            }
            ProjectionPiece::Answer(ToolAnswer { call, success, content, .. }) => {
                if self.asked.contains(&call) && is_denied_result(&content) {
                    parts.push(StreamPart::ToolOutputDenied { tool_call_id: call });
                } else if self.calls.contains(&call) {
                    parts.push(tool_output_part(&call, UiToolOutcome::from_content(success, &content)));
                }
            }
            ProjectionPiece::User { id, message, side } => {
                self.end_open_content(None, &mut parts);
                let (id, data) = steered_data(Some(&id), &message, side.as_ref());
                parts.push(StreamPart::DataSteered { id, data });
            }
            ProjectionPiece::Signal { turn, signal, wait, how } => {
                if how != "refused" {
                    let (id, data) =
                        (wait_part_id(&turn.invocation, wait), ended_wait_data(wait, &signal, how));
                    parts.push(StreamPart::DataSuspended { id, data });
                }
            }
            ProjectionPiece::TurnEnd { outcome, .. } => self.encode_turn_end(&outcome, &mut parts),
            ProjectionPiece::TurnBegin { .. }
            | ProjectionPiece::End { .. }
            | ProjectionPiece::RetractUser { .. }
            | ProjectionPiece::Recorded(_) => {}
        }
        parts
    }

    /// Returns the parts that report an error of the stream itself.
    pub(super) fn encode_stream_error(&mut self, error: &singletree_harness::Error) -> Vec<StreamPart> {
        let mut parts = Vec::new();
        self.end_open_content(None, &mut parts);
        let error_text = self.shared.redactor.redact(&error.to_string()).into_owned();
        parts.push(StreamPart::Error { error_text });
        parts
    }

    fn begin_message(&mut self) -> Vec<StreamPart> {
        if std::mem::replace(&mut self.begun, true) {
            return Vec::new();
        }
        let message_id = Some(self.turn.invocation.to_string());
        let message_metadata = Some(build_metadata(&self.session, Some(&self.turn)));
        vec![StreamPart::Start { message_id, message_metadata }]
    }

    /// Begins the step of a message, unless its thinking has begun it.
    fn begin_step_of_message(&mut self, message: &MessageId, parts: &mut Vec<StreamPart>) {
        if self.stepped.as_ref() != Some(message) {
            self.stepped = Some(message.clone());
            self.begin_step(parts);
        }
    }

    fn begin_step(&mut self, parts: &mut Vec<StreamPart>) {
        self.finish_open_step(parts);
        self.stepping = true;
        parts.push(StreamPart::StartStep);
    }

    fn finish_open_step(&mut self, parts: &mut Vec<StreamPart>) {
        self.end_open_content(None, parts);
        if std::mem::take(&mut self.stepping) {
            parts.push(StreamPart::FinishStep);
        }
    }

    fn encode_text_delta(
        &mut self,
        showing: &DisplayedMessageId,
        delta: String,
        parts: &mut Vec<StreamPart>,
    ) {
        let id = showing.to_string();
        if self.text.as_ref() != Some(&id) {
            self.end_open_content(None, parts);
            parts.push(StreamPart::TextStart { id: id.clone() });
            self.text = Some(id.clone());
        }
        parts.push(StreamPart::TextDelta { id, delta });
    }

    /// Ends the text or the thinking that is open.
    fn end_open_content(&mut self, provider_metadata: Option<Value>, parts: &mut Vec<StreamPart>) {
        if let Some(id) = self.thinking.take() {
            parts.push(StreamPart::ReasoningEnd { id });
        }
        if let Some(id) = self.text.take() {
            parts.push(StreamPart::TextEnd { id, provider_metadata });
        }
    }

    fn encode_turn_end(&mut self, outcome: &ChatTurnOutcome, parts: &mut Vec<StreamPart>) {
        self.finish_open_step(parts);
        let cause = match outcome {
            ChatTurnOutcome::Completed(_) => self.cause.unwrap_or(Cause::Stop),
            ChatTurnOutcome::Suspended(it) => {
                let asked =
                    approval_of_wait(&it.wait, &it.signal_descriptor).filter(|_| self.dialect.approvals);
                if let Some((tool_call_id, approval)) = asked.filter(|(call, _)| self.calls.contains(call)) {
                    self.asked.insert(tool_call_id.clone());
                    parts.push(StreamPart::ToolApprovalRequest { approval_id: approval.id, tool_call_id });
                }
                let (id, data) = pending_wait_data(&convert_suspended_wait(&self.session, it));
                parts.push(StreamPart::DataSuspended { id, data });
                Cause::ToolCalls
            }
            ChatTurnOutcome::Errored(it) => {
                parts.push(StreamPart::DataError { data: self.failure_data(it), transient: true });
                let error_text = self.shared.redactor.redact(&it.reply.text()).into_owned();
                parts.push(StreamPart::Error { error_text });
                Cause::Error
            }
        };
        parts.push(StreamPart::Finish { finish_reason: Some(cause), message_metadata: None });
    }
}

impl UiStreamEncoder {
    /// Returns the reason of the failure, for programs.
    fn failure_data(&self, turn: &ErroredTurn) -> Value {
        turn_error_data(turn, &self.turn)
    }
}

/// Reads the finish reason of a message of the model, if it is unusual.
fn read_finish_cause(side: Option<&Value>) -> Option<Cause> {
    match side?.get("finish_reason")?.as_str()? {
        "length" => Some(Cause::Length),
        "content_filter" => Some(Cause::ContentFilter),
        _ => None,
    }
}

fn tool_input_part(id: &str, tool_name: String, input: Value) -> StreamPart {
    let (provider_executed, dynamic) = (true, true);
    StreamPart::ToolInputAvailable {
        tool_call_id: id.to_owned(),
        tool_name,
        input,
        provider_executed,
        dynamic,
    }
}

fn tool_output_part(id: &str, answer: UiToolOutcome) -> StreamPart {
    let (tool_call_id, provider_executed, dynamic) = (id.to_owned(), true, true);
    match answer {
        UiToolOutcome::Gave(output) => {
            StreamPart::ToolOutputAvailable { tool_call_id, output, provider_executed, dynamic }
        }
        UiToolOutcome::Failed(error_text) => {
            StreamPart::ToolOutputError { tool_call_id, error_text, provider_executed, dynamic }
        }
    }
}
