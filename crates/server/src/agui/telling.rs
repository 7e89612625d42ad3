//! Pieces of messages as AG-UI events.

use singletree_harness::ChatEvent;
use singletree_protocol::agui::{Event, Message, ReasoningRole, TextRole, ToolRole};

use super::view;
use crate::fold::{ProjectionPiece, ThinkingProjection, ToolAnswer, agent_from_side};

/// The state of the events of one turn.
#[derive(Debug, Default)]
pub(super) struct AguiTurnProjection {
    /// The messages in progress.
    texts: Vec<OpenTextMessage>,
    /// The messages of the turn that are recorded and were sent to the client.
    pub(super) told: Vec<Message>,
    /// The number of recorded messages of the turn.
    pub(super) recorded: u64,
    /// Whether the client was sent text that is void: it then needs a new snapshot.
    pub(super) stale: bool,
    thoughts: ThinkingProjection,
    /// The id of the thinking that is open.
    thinking: Option<String>,
}

#[derive(Debug)]
struct OpenTextMessage {
    id: String,
    agent: Option<String>,
    begun: bool,
}

impl AguiTurnProjection {
    /// Returns the events that show new thinking of the model, which is no part of the transcript.
    pub(super) fn project_thinking(&mut self, event: &ChatEvent) -> Vec<Event> {
        let Some(thought) = self.thoughts.apply_event(event) else { return Vec::new() };
        let message_id = thought.thinking_id();
        let mut events = Vec::new();
        if self.thinking.as_ref() != Some(&message_id) {
            events.extend(self.end_thinking());
            let role = ReasoningRole::Reasoning;
            events.push(Event::ReasoningStart { message_id: message_id.clone() });
            events.push(Event::ReasoningMessageStart { message_id: message_id.clone(), role });
            self.thinking = Some(message_id.clone());
        }
        events.push(Event::ReasoningMessageContent { message_id, delta: thought.delta });
        events
    }

    fn end_thinking(&mut self) -> Vec<Event> {
        let Some(message_id) = self.thinking.take() else { return Vec::new() };
        vec![
            Event::ReasoningMessageEnd { message_id: message_id.clone() },
            Event::ReasoningEnd { message_id },
        ]
    }

    /// Returns the events for a piece. The beginnings and ends of turns are handled elsewhere.
    pub(super) fn project_piece(&mut self, piece: ProjectionPiece) -> Vec<Event> {
        let mut events = match &piece {
            // Thinking ends where text, a call or the end of the message begins.
            ProjectionPiece::Text { .. }
            | ProjectionPiece::Call { .. }
            | ProjectionPiece::End { .. }
            | ProjectionPiece::Retract { .. } => self.end_thinking(),
            _ => Vec::new(),
        };
        events.extend(self.convert_piece(piece));
        events
    }

    fn convert_piece(&mut self, piece: ProjectionPiece) -> Vec<Event> {
        match piece {
            // A message that is tried again keeps its id here: the void text is removed before the message begins
            // again.
            ProjectionPiece::Begin { showing, agent } => {
                self.texts.push(OpenTextMessage { id: showing.message.to_string(), agent, begun: false });
                Vec::new()
            }
            ProjectionPiece::Text { showing, delta } => self.append_text(showing.message.to_string(), delta),
            ProjectionPiece::Call { message, id, name, arguments } => {
                let parent_message_id = message.to_string();
                let mut events = self.end_text_message(&parent_message_id);
                let delta = serde_json::Value::Object(arguments).to_string();
                events.extend([
                    Event::ToolCallStart {
                        tool_call_id: id.clone(),
                        tool_call_name: name,
                        parent_message_id,
                    },
                    Event::ToolCallArgs { tool_call_id: id.clone(), delta },
                    Event::ToolCallEnd { tool_call_id: id },
                ]);
                events
            }
            ProjectionPiece::End { showing, message, side } => {
                let id = showing.message.to_string();
                let mut events = Vec::new();
                if message.tool_calls.is_empty() {
                    // A message without text is a message, too.
                    events.extend(self.begin_text_message(&id));
                }
                events.extend(self.end_text_message(&id));
                self.record_message(view::convert_message(id, &message, agent_from_side(side.as_ref())));
                events
            }
            ProjectionPiece::Retract { showing } => {
                self.stale = true;
                self.end_text_message(&showing.message.to_string())
            }
            ProjectionPiece::Answer(answer) | ProjectionPiece::Recorded(answer) => {
                self.project_tool_result(answer)
            }
            ProjectionPiece::User { id, message, side } => {
                let id = view::client_message_id(side.as_ref()).map_or_else(|| id.to_string(), str::to_owned);
                let told = view::convert_message(id.clone(), &message, None);
                self.record_message(told);
                user_message_events(id, message.text().into_owned())
            }
            ProjectionPiece::RetractUser { .. } => {
                self.stale = true;
                Vec::new()
            }
            ProjectionPiece::TurnBegin { .. }
            | ProjectionPiece::Signal { .. }
            | ProjectionPiece::TurnEnd { .. } => Vec::new(),
        }
    }

    fn record_message(&mut self, message: Option<Message>) {
        self.recorded += 1;
        self.told.extend(message);
    }

    fn append_text(&mut self, message_id: String, delta: String) -> Vec<Event> {
        let mut events: Vec<_> = self.begin_text_message(&message_id).into_iter().collect();
        events.push(Event::TextMessageContent { message_id, delta });
        events
    }

    /// Begins the text of a message in progress, unless it has begun.
    fn begin_text_message(&mut self, id: &str) -> Option<Event> {
        let text = self.texts.iter_mut().find(|text| text.id == id && !text.begun)?;
        text.begun = true;
        let (message_id, name) = (text.id.clone(), text.agent.clone());
        Some(Event::TextMessageStart { message_id, role: TextRole::Assistant, name })
    }

    /// Ends the text of a message, if it is open.
    fn end_text_message(&mut self, id: &str) -> Vec<Event> {
        let ended = self.texts.extract_if(.., |texts| texts.id == id).filter(|text| text.begun);
        ended.map(|ended| Event::TextMessageEnd { message_id: ended.id }).collect()
    }

    /// Ends the thinking and the texts that are open.
    pub(super) fn end_open_content(&mut self) -> Vec<Event> {
        let mut events = self.end_thinking();
        let open = self.texts.drain(..).filter(|text| text.begun);
        events.extend(open.map(|open| Event::TextMessageEnd { message_id: open.id }));
        events
    }

    /// Returns the events for the result of a call. The result needs the id of its message, so nothing is sent before
    /// that is known.
    fn project_tool_result(&mut self, answer: ToolAnswer) -> Vec<Event> {
        let ToolAnswer { call, content, message: Some(message), .. } = answer else { return Vec::new() };
        let (id, tool_call_id) = (message.to_string(), call);
        let told =
            Message::Tool { id: id.clone(), tool_call_id: tool_call_id.clone(), content: content.clone() };
        self.record_message(Some(told));
        vec![Event::ToolCallResult { message_id: id, tool_call_id, content, role: ToolRole::Tool }]
    }
}

/// Returns the events that show a user's message.
pub(super) fn user_message_events(id: String, text: String) -> Vec<Event> {
    let begin = Event::TextMessageStart { message_id: id.clone(), role: TextRole::User, name: None };
    let said = (!text.is_empty()).then(|| Event::TextMessageContent { message_id: id.clone(), delta: text });
    [Some(begin), said, Some(Event::TextMessageEnd { message_id: id })].into_iter().flatten().collect()
}

/// Returns the id of the message that a client makes from this event, if it makes one.
pub(super) fn created_message_id(event: &Event) -> Option<&str> {
    match event {
        Event::TextMessageStart { message_id, .. } | Event::ToolCallResult { message_id, .. } => {
            Some(message_id)
        }
        Event::ToolCallStart { parent_message_id, .. } => Some(parent_message_id),
        Event::RunStarted { .. }
        | Event::TextMessageContent { .. }
        | Event::TextMessageEnd { .. }
        | Event::ReasoningStart { .. }
        | Event::ReasoningMessageStart { .. }
        | Event::ReasoningMessageContent { .. }
        | Event::ReasoningMessageEnd { .. }
        | Event::ReasoningEnd { .. }
        | Event::ToolCallArgs { .. }
        | Event::ToolCallEnd { .. }
        | Event::MessagesSnapshot { .. }
        | Event::Custom { .. }
        | Event::RunFinished { .. }
        | Event::RunError { .. } => None,
    }
}
