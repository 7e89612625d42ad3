//! Pieces as events of the stream.
//!
//! The order of one turn is `agent? (content | tool_call | tool_result | agent | orchestration)* (error |
//! budget_exhausted)? done`. The `content`s of one `messageId`, joined, are exactly the text of the message, unless
//! an `orchestration` event `retracted` names that id.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use singletree_durable::Timestamp;
use singletree_harness::{ChatTurnOutcome, ErroredTurn, MessageId, TurnId};
use singletree_protocol::steerable::{EventType, SseEvent};

use super::project::{SteerableProjection, convert_tool_result};
use crate::fold::{ProjectionPiece, ToolAnswer};
use crate::native::convert_suspended_wait;
use crate::shared::ServerState;

/// Makes events from pieces.
pub(super) struct SteerableEncoder {
    shared: Arc<ServerState>,
    chat: String,
    /// The agent that was announced last.
    speaker: Option<String>,
    /// The agents of the messages that have begun: messages may be sent interleaved.
    owners: Vec<(MessageId, Option<String>)>,
    /// The messages that were recorded since a turn ended.
    recorded: Vec<MessageId>,
    /// Whether to send the user's messages: not to the client that has just sent them.
    pub(super) echo: bool,
}

impl SteerableEncoder {
    pub(super) fn new(shared: Arc<ServerState>, chat: impl Into<String>) -> Self {
        Self {
            shared,
            chat: chat.into(),
            speaker: None,
            owners: Vec::new(),
            recorded: Vec::new(),
            echo: false,
        }
    }

    /// Continues with this agent, which was announced to the reader before.
    pub(super) fn with_speaker(mut self, speaker: Option<String>) -> Self {
        self.speaker = speaker;
        self
    }

    /// Returns the agent that was announced last.
    pub(super) fn announced_agent(&self) -> Option<&str> {
        self.speaker.as_deref()
    }

    /// Returns the events of a piece that came at this time.
    pub(super) fn encode_piece(&mut self, piece: ProjectionPiece, at: Timestamp) -> Vec<SseEvent> {
        match piece {
            ProjectionPiece::TurnBegin { turn, message } => {
                let shown = message.filter(|_| self.echo).and_then(|message| {
                    // The user's own message is the turn's first.
                    let id = MessageId { turn: turn.clone(), k: 0 }.to_string();
                    SteerableProjection::new(&self.chat, at).convert_message(id, &message, None)
                });
                let mut payload = json!({ "turnId": turn.to_string() });
                if let Some(message) = shown {
                    payload["message"] = serde_json::to_value(message).expect("a message is JSON");
                }
                vec![orchestration_event("accepted", &turn, payload)]
            }
            ProjectionPiece::Begin { showing, agent } => {
                self.owners.push((showing.message, agent.clone()));
                self.announce_agent(agent).into_iter().collect()
            }
            ProjectionPiece::Text { showing, delta } => {
                let message_id = Some(showing.to_string());
                let text = SseEvent { content: Some(delta), message_id, ..SseEvent::new(EventType::Content) };
                self.prepend_announcement(&showing.message, text)
            }
            ProjectionPiece::Call { message, id, name, arguments } => {
                let payload = value_to_object(json!({ "id": id, "name": name, "arguments": arguments }));
                let message_id = Some(message.to_string());
                let call =
                    SseEvent { message_id, payload: Some(payload), ..SseEvent::new(EventType::ToolCall) };
                self.prepend_announcement(&message, call)
            }
            ProjectionPiece::End { showing, .. } => {
                self.owners.retain(|(id, _)| *id != showing.message);
                self.recorded.push(showing.message);
                Vec::new()
            }
            ProjectionPiece::Retract { showing } => {
                self.owners.retain(|(id, _)| *id != showing.message);
                vec![retraction_event(&showing.message.turn, showing.to_string())]
            }
            ProjectionPiece::Answer(answer) => {
                self.recorded.extend(answer.message.clone());
                vec![tool_result_event(&answer)]
            }
            ProjectionPiece::Recorded(answer) => {
                self.recorded.extend(answer.message);
                Vec::new()
            }
            ProjectionPiece::User { id, message, side } => {
                self.recorded.push(id.clone());
                let projection = SteerableProjection::new(&self.chat, at);
                let shown = projection.convert_message(id.to_string(), &message, side.as_ref());
                let payload = json!({ "message": shown });
                let event = orchestration_event("user_message", &id.turn, payload);
                vec![SseEvent { message_id: Some(id.to_string()), ..event }]
            }
            ProjectionPiece::RetractUser { id } => {
                self.recorded.retain(|recorded| *recorded != id);
                vec![retraction_event(&id.turn, id.to_string())]
            }
            ProjectionPiece::Signal { turn, signal, wait, how } => {
                let payload =
                    json!({ "turnId": turn.to_string(), "signal": signal, "wait": wait, "how": how });
                vec![orchestration_event("signal", &turn, payload)]
            }
            ProjectionPiece::TurnEnd { turn, outcome } => self.encode_turn_end(&turn, &outcome),
        }
    }

    /// Returns an event of a message, after the announcement of its agent unless that agent was announced last.
    fn prepend_announcement(&mut self, message: &MessageId, event: SseEvent) -> Vec<SseEvent> {
        let owner = self.owners.iter().find(|(id, _)| id == message).map(|(_, agent)| agent.clone());
        let speaks = owner.and_then(|owner| self.announce_agent(owner));
        speaks.into_iter().chain([event]).collect()
    }

    /// Announces an agent, unless it was announced last (spec: steerable chat, Conversational ownership).
    fn announce_agent(&mut self, agent: Option<String>) -> Option<SseEvent> {
        if self.speaker == agent {
            return None;
        }
        let known = agent.as_ref().and_then(|id| self.shared.agents.iter().find(|agent| agent.id == *id));
        let mut payload = json!({ "agentId": agent });
        if let Some(id) = &agent {
            payload["name"] = known.map_or(id.as_str(), |known| known.name.as_str()).into();
        }
        for (name, value) in [
            ("icon", known.and_then(|known| known.icon.as_ref())),
            ("color", known.and_then(|known| known.color.as_ref())),
        ] {
            if let Some(value) = value {
                payload[name] = value.as_str().into();
            }
        }
        self.speaker.clone_from(&agent);
        let payload = Some(value_to_object(payload));
        Some(SseEvent { agent_id: agent, payload, ..SseEvent::new(EventType::Agent) })
    }

    fn encode_turn_end(&mut self, turn: &TurnId, outcome: &ChatTurnOutcome) -> Vec<SseEvent> {
        let (own, others): (Vec<_>, _) =
            std::mem::take(&mut self.recorded).into_iter().partition(|it| it.turn == *turn);
        self.recorded = others;
        let mut own: Vec<String> = own.iter().map(ToString::to_string).collect();
        let mut done = json!({ "outcome": outcome.as_str(), "turnId": turn.to_string() });
        let mut events = Vec::new();
        match outcome {
            ChatTurnOutcome::Completed(_) => {}
            ChatTurnOutcome::Suspended(it) => {
                let wait =
                    serde_json::to_value(convert_suspended_wait(&self.chat, it)).expect("a wait is JSON");
                events.push(orchestration_event("suspended", turn, wait));
            }
            ChatTurnOutcome::Errored(it) => {
                // The messages of a failed turn are no part of the conversation; the shown part of a cancelled one is
                // (D10, D11).
                if it.error_category != "chat_turn_cancelled" {
                    own.clear();
                }
                done["category"] = it.error_category.as_str().into();
                done["retrySafe"] = it.retry_safe.into();
                events.push(self.encode_turn_failure(it));
            }
        }
        done["messageIds"] = own.into();
        events.push(SseEvent { payload: Some(value_to_object(done)), ..SseEvent::new(EventType::Done) });
        events
    }

    fn encode_turn_failure(&self, turn: &ErroredTurn) -> SseEvent {
        let text = self.shared.redactor.redact(&turn.reply.text()).into_owned();
        let bucket = json!({ "errorBucket": crate::native::convert_bucket(turn.error_bucket) });
        let (kind, code) = match turn.error_category.as_str() {
            "chat_budget_exhausted" => {
                (EventType::BudgetExhausted, budget_error_code(turn.exhausted_budget()))
            }
            category => (EventType::Error, category.to_owned()),
        };
        SseEvent {
            message: Some(text),
            code: Some(code),
            payload: Some(value_to_object(bucket)),
            ..SseEvent::new(kind)
        }
    }

    /// Reports that the stream itself failed, and ends it.
    pub(super) fn encode_stream_error(&self, error: &singletree_harness::Error) -> [SseEvent; 2] {
        let text = self.shared.redactor.redact(&error.to_string()).into_owned();
        let done = json!({ "outcome": "errored", "category": error.category(), "messageIds": [] });
        let code = Some(error.category().to_owned());
        [
            SseEvent { message: Some(text), code, ..SseEvent::new(EventType::Error) },
            SseEvent { payload: Some(value_to_object(done)), ..SseEvent::new(EventType::Done) },
        ]
    }
}

/// Returns the code of the exhausted budget, in the framework's form.
fn budget_error_code(budget: Option<&str>) -> String {
    match budget {
        Some(budget) => format!("E_BUDGET_{}", budget.to_uppercase()),
        None => "E_BUDGET".to_owned(),
    }
}

fn tool_result_event(answer: &ToolAnswer) -> SseEvent {
    let payload = convert_tool_result(&answer.call, answer.success, &answer.content);
    let payload = value_to_object(serde_json::to_value(payload).expect("a result is JSON"));
    let message_id = answer.of.as_ref().or(answer.message.as_ref()).map(ToString::to_string);
    SseEvent { message_id, payload: Some(payload), ..SseEvent::new(EventType::ToolResult) }
}

/// Returns the event that says that the text or the message shown under an id is void.
fn retraction_event(turn: &TurnId, id: String) -> SseEvent {
    let event = orchestration_event("retracted", turn, json!({ "messageId": id }));
    SseEvent { message_id: Some(id), ..event }
}

/// Returns an event about an invocation that is no part of its conversation.
fn orchestration_event(event: &str, turn: &TurnId, payload: Value) -> SseEvent {
    SseEvent {
        event: Some(event.to_owned()),
        task_id: Some(turn.invocation.to_string()),
        payload: Some(value_to_object(payload)),
        ..SseEvent::new(EventType::Orchestration)
    }
}

fn value_to_object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        other => Map::from_iter([("value".to_owned(), other)]),
    }
}
