//! The messages of an agent as one text: OpenAI's clients expect one message for each answer.

use std::sync::Arc;

use singletree_harness::ChatTurnOutcome;
use singletree_llm::ToolCall;
use singletree_protocol::openai::FinishReason;

use crate::fold::{DisplayedMessageId, ProjectionPiece};

/// Separates two messages of one answer.
pub(super) const BETWEEN: &str = "\n\n";

/// The text so far.
#[derive(Debug, Default)]
pub(super) struct CompletionText {
    said: Vec<ShownMessageText>,
    /// The finish reason of the last message, if it is not the usual one.
    reason: Option<FinishReason>,
    /// The calls of the last message.
    calls: Vec<ToolCall>,
    /// Whether any text was sent, void or not.
    has_sent: bool,
    /// Whether text that was sent is void.
    pub(super) is_void: bool,
}

#[derive(Debug)]
struct ShownMessageText {
    showing: DisplayedMessageId,
    text: String,
}

/// The addition that a piece makes to the answer.
#[derive(Debug)]
pub(super) enum CompletionDelta {
    /// Nothing for the client.
    Nothing,
    /// A sign of activity without content for the client.
    Life,
    /// More text.
    Text(String),
    /// More of the model's thinking.
    Thought(String),
    /// The end.
    End(Arc<ChatTurnOutcome>),
}

impl CompletionText {
    /// Takes the next piece.
    pub(super) fn apply_piece(&mut self, piece: ProjectionPiece) -> CompletionDelta {
        match piece {
            ProjectionPiece::Text { showing, delta } => {
                let known = self.said.last().is_some_and(|said| said.showing == showing);
                // Void text stays with the client: the text that replaces it does not go on with its line.
                let begins = !known && self.has_sent;
                self.has_sent = true;
                if !known {
                    self.said.push(ShownMessageText { showing, text: String::new() });
                }
                if let Some(said) = self.said.last_mut() {
                    said.text.push_str(&delta);
                }
                CompletionDelta::Text(if begins { format!("{BETWEEN}{delta}") } else { delta })
            }
            ProjectionPiece::Retract { showing } => {
                let before = self.said.len();
                self.said.retain(|it| it.showing != showing);
                self.is_void |= self.said.len() < before;
                CompletionDelta::Nothing
            }
            ProjectionPiece::End { message, side, .. } => {
                let reason = side.as_ref().and_then(|side| side.get("finish_reason")?.as_str());
                self.reason = match reason {
                    Some("length") => Some(FinishReason::Length),
                    Some("content_filter") => Some(FinishReason::ContentFilter),
                    Some(_) | None => None,
                };
                self.calls.clone_from(&message.tool_calls);
                CompletionDelta::Life
            }
            ProjectionPiece::TurnEnd { outcome, .. } => CompletionDelta::End(outcome),
            ProjectionPiece::TurnBegin { .. } => CompletionDelta::Nothing,
            ProjectionPiece::Begin { .. }
            | ProjectionPiece::Call { .. }
            | ProjectionPiece::Answer(_)
            | ProjectionPiece::Recorded(_)
            | ProjectionPiece::User { .. }
            | ProjectionPiece::RetractUser { .. }
            | ProjectionPiece::Signal { .. } => CompletionDelta::Life,
        }
    }

    /// Returns all text that is not void.
    pub(super) fn joined_text(&self) -> String {
        self.said.iter().map(|it| it.text.as_str()).collect::<Vec<_>>().join(BETWEEN)
    }

    /// Returns the finish reason of the answer.
    pub(super) fn finish_reason(&self) -> FinishReason {
        self.reason.unwrap_or(FinishReason::Stop)
    }

    /// Returns the calls of the last message.
    pub(super) fn last_tool_calls(&self) -> &[ToolCall] {
        &self.calls
    }

    /// Returns a note of this server, separated from the text before it.
    pub(super) fn format_note(&self, note: &str) -> String {
        if !self.has_sent { note.to_owned() } else { format!("{BETWEEN}{note}") }
    }
}
