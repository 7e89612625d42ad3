//! Random turns, in every order of events in which a stream may deliver them.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use proptest::prelude::*;
use serde_json::json;
use singletree_harness::{ChatEvent, ChatEventKind, MessageId};
use singletree_llm::{ChatMessage, Role, ToolCall};

use super::tests::{completed, errored, event, turn};
use super::*;

/// One message of the transcript.
#[derive(Debug, Clone)]
struct RandomMessage {
    text: String,
    calls: usize,
    agent: Option<&'static str>,
    /// The earlier runs of the message, each as a text and the number of its characters that are sent.
    before: Vec<(String, usize)>,
    /// The length of a piece, in characters.
    cut: usize,
    noise: RandomPieceFault,
}

/// The fault in the pieces of one message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RandomPieceFault {
    Nothing,
    /// No piece is sent.
    Silent,
    /// A piece is lost.
    Hole,
    /// All pieces come twice.
    Twice,
    /// The beginning is sent as one piece.
    SoFar,
    /// The agent is known only from the record.
    Unnamed,
}

fn said() -> impl Strategy<Value = RandomMessage> {
    let noise = prop_oneof![
        3 => Just(RandomPieceFault::Nothing), 1 => Just(RandomPieceFault::Silent), 1 => Just(RandomPieceFault::Hole), 1 => Just(RandomPieceFault::Twice),
        1 => Just(RandomPieceFault::SoFar), 1 => Just(RandomPieceFault::Unnamed),
    ];
    let before = proptest::collection::vec(("[ab]{1,6}", 1_usize..6), 0..3);
    let agent = prop_oneof![Just(None), Just(Some("x")), Just(Some("y"))];
    ("[ab]{0,8}", 0_usize..3, agent, before, 1_usize..4, noise).prop_map(
        |(text, calls, agent, before, cut, noise)| RandomMessage { text, calls, agent, before, cut, noise },
    )
}

/// All events of one turn, up to its end, in any order in which a stream may deliver them.
pub(crate) fn a_turn() -> impl Strategy<Value = Vec<ChatEvent>> {
    let messages = proptest::collection::vec(said(), 0..5);
    let end = prop_oneof![3 => Just(0), 1 => Just(1), 1 => Just(2)];
    (messages, any::<bool>(), end).prop_map(|(messages, steps, end)| {
        let mut telling = RandomTurnEvents::new(steps);
        telling.tell(true, ChatEventKind::TurnAccepted { message: Some(Arc::new(ChatMessage::user("m"))) });
        messages.iter().for_each(|message| telling.message(message));
        telling.record();
        let outcome = match end {
            0 => completed(turn("t")),
            1 => errored(turn("t"), "provider_unavailable"),
            _ => errored(turn("t"), "chat_budget_exhausted"),
        };
        telling.tell(true, outcome);
        telling.events
    })
}

/// Collects the events of one turn.
struct RandomTurnEvents {
    events: Vec<ChatEvent>,
    at: u64,
    k: u64,
    /// Whether each node is recorded when it completes, or all of them at the end.
    steps: bool,
    unrecorded: Vec<ChatEventKind>,
}

impl RandomTurnEvents {
    fn new(steps: bool) -> Self {
        Self { events: Vec::new(), at: 0, k: 1, steps, unrecorded: Vec::new() }
    }

    /// Records the messages of a node.
    fn complete(&mut self) {
        if self.steps {
            self.record();
        }
    }

    fn record(&mut self) {
        for record in std::mem::take(&mut self.unrecorded) {
            self.tell(true, record);
        }
    }

    fn tell(&mut self, durable: bool, what: ChatEventKind) {
        self.at += 1;
        self.events.push(event(self.at, durable, turn("t"), what));
    }

    fn id(&self) -> MessageId {
        MessageId { turn: turn("t"), k: self.k }
    }

    fn pieces(&mut self, said: &RandomMessage) {
        if said.noise == RandomPieceFault::Silent {
            return;
        }
        let unrecorded = self.unrecorded.len() as u64;
        let last = (said.text.clone(), said.text.len());
        for (run, (text, len)) in (1..).zip(said.before.iter().chain([&last])) {
            let text: Vec<char> = text.chars().take(*len).collect();
            let chunks: Vec<String> = text.chunks(said.cut).map(|chunk| chunk.iter().collect()).collect();
            for (n, text) in (0..).zip(&chunks) {
                let side = said
                    .agent
                    .filter(|_| said.noise != RandomPieceFault::Unnamed)
                    .map(|agent| json!({ "agent": agent }));
                let (id, so_far) = (self.id(), false);
                let delta = ChatEventKind::Delta {
                    id,
                    run,
                    n,
                    text: text.clone(),
                    so_far,
                    side: side.clone(),
                    unrecorded,
                };
                let is_second = n == 1;
                match said.noise {
                    RandomPieceFault::Hole if is_second => continue,
                    RandomPieceFault::Twice => self.tell(false, delta.clone()),
                    RandomPieceFault::SoFar if n == 0 => continue,
                    RandomPieceFault::SoFar if is_second => {
                        let (id, text) = (self.id(), chunks[..2].concat());
                        let so_far =
                            ChatEventKind::Delta { id, run, n, text, so_far: true, side, unrecorded };
                        self.tell(false, so_far);
                        continue;
                    }
                    RandomPieceFault::Nothing
                    | RandomPieceFault::Silent
                    | RandomPieceFault::Hole
                    | RandomPieceFault::SoFar
                    | RandomPieceFault::Unnamed => {}
                }
                // The first piece of a run marks a new beginning; a duplicate of it would be another one.
                if n > 0 || said.noise != RandomPieceFault::Twice {
                    self.tell(false, delta);
                }
            }
        }
    }

    fn message(&mut self, said: &RandomMessage) {
        self.pieces(said);
        let call = |at: usize| ToolCall::new(format!("c{at}"), "look", serde_json::Map::new());
        let text = if said.text.is_empty() && said.calls == 0 { "-" } else { &said.text };
        let message = ChatMessage::assistant(text).with_tool_calls((0..said.calls).map(call));
        let side = said.agent.map(|agent| json!({ "agent": agent }));
        let record = ChatEventKind::MessageAppended { id: self.id(), message: Arc::new(message), side };
        self.unrecorded.push(record);
        self.k += 1;
        self.complete();
        for at in 0..said.calls {
            let (call, name) = (format!("c{at}"), "look".to_owned());
            self.tell(false, ChatEventKind::ToolStarted { call, name, arguments: json!({}) });
        }
        for at in (0..said.calls).rev() {
            let (call, name, content) = (format!("c{at}"), "look".to_owned(), at.to_string());
            self.tell(false, ChatEventKind::ToolFinished { call, name, success: true, content });
        }
        for at in 0..said.calls {
            let message = Arc::new(ChatMessage::tool(format!("c{at}"), at.to_string()));
            self.unrecorded.push(ChatEventKind::MessageAppended { id: self.id(), message, side: None });
            self.k += 1;
        }
        self.complete();
    }
}

/// Checks the order that protocols rely on, and returns the final text of each message.
fn shown(pieces: &[ProjectionPiece]) -> HashMap<MessageId, String> {
    let mut open: HashMap<String, String> = HashMap::new();
    let mut texts = HashMap::new();
    let mut void = HashSet::new();
    let mut calls: HashMap<(MessageId, String), bool> = HashMap::new();
    let mut last = 0;
    for piece in pieces {
        match piece {
            ProjectionPiece::Begin { showing, .. } => {
                let name = showing.to_string();
                assert!(
                    !void.contains(&name) && !texts.contains_key(&showing.message),
                    "{name} begins again"
                );
                assert!(open.insert(name, String::new()).is_none());
                // Only text that replaces void text may come after later messages.
                assert!(showing.attempt > 1 || showing.message.k > last, "messages begin in their order");
                last = last.max(showing.message.k);
            }
            ProjectionPiece::Text { showing, delta } => {
                assert!(!delta.is_empty());
                open.get_mut(&showing.to_string()).expect("a message begins before its text").push_str(delta);
            }
            ProjectionPiece::Retract { showing } => {
                open.remove(&showing.to_string()).expect("only what was shown is void");
                void.insert(showing.to_string());
            }
            ProjectionPiece::End { showing, .. } => {
                let text = open.remove(&showing.to_string()).expect("only what was shown ends");
                assert!(texts.insert(showing.message.clone(), text).is_none());
            }
            ProjectionPiece::Call { message, id, .. } => {
                assert!(calls.insert((message.clone(), id.clone()), false).is_none(), "a call is told once");
            }
            ProjectionPiece::Answer(answer) | ProjectionPiece::Recorded(answer) => {
                let called = calls.iter_mut().filter(|((_, id), over)| *id == answer.call && !**over).count();
                assert!(called > 0, "a call is told before what it gave");
                if answer.message.is_some() {
                    let mut open: Vec<_> =
                        calls.iter_mut().filter(|((_, id), over)| *id == answer.call && !**over).collect();
                    open.sort_by(|a, b| a.0.cmp(b.0));
                    *open.pop().expect("counted above").1 = true;
                }
            }
            ProjectionPiece::TurnBegin { .. }
            | ProjectionPiece::User { .. }
            | ProjectionPiece::RetractUser { .. }
            | ProjectionPiece::Signal { .. } => {}
            ProjectionPiece::TurnEnd { .. } => {
                assert!(open.is_empty(), "nothing is open when a turn has ended: {open:?}")
            }
        }
    }
    texts
}

/// Returns the first event of a stream that is opened after these events: the text so far of the message in progress.
fn so_far(told: &[ChatEvent]) -> Option<ChatEvent> {
    let last = told.iter().rev().find_map(|item| match &item.what {
        ChatEventKind::Delta { id, run, .. } => Some(Some((id.clone(), *run))),
        ChatEventKind::MessageAppended { .. } => Some(None),
        _ => None,
    });
    let (of, in_run) = last.flatten()?;
    let (mut all, mut last) = (String::new(), 0);
    for event in told {
        if let ChatEventKind::Delta { id, run, n, text, so_far, .. } = &event.what
            && (id, run) == (&of, &in_run)
        {
            if *so_far {
                all.clone_from(text)
            } else {
                all.push_str(text)
            }
            last = *n;
        }
    }
    let what = ChatEventKind::Delta {
        id: of.clone(),
        run: in_run,
        n: last,
        text: all,
        so_far: true,
        side: None,
        unrecorded: 0,
    };
    Some(event(u64::MAX >> 16, false, of.turn, what))
}

proptest! {
    // A stream that is lost at any point and resumed at any later one shows the same as an uninterrupted stream.
    #[test]
    fn what_two_streams_show_is_what_is_recorded(
        messages in proptest::collection::vec(said(), 1..5),
        lost in 0_usize..60,
        gone in 0_usize..20,
    ) {
        let quiet = |it: &RandomMessage| RandomMessage { noise: RandomPieceFault::Nothing, ..it.clone() };
        let mut telling = RandomTurnEvents::new(true);
        messages.iter().for_each(|message| telling.message(&quiet(message)));
        telling.tell(true, completed(turn("t")));
        let events = telling.events;
        let lost = lost.min(events.len());
        let back = (lost + gone).min(events.len());
        let mut fold = ChatProjection::default();
        let mut pieces: Vec<ProjectionPiece> = events[..lost].iter().flat_map(|event| fold.apply_event(event)).collect();
        let mut fold = ChatProjection::resume_from_positions(fold.stream_positions());
        let missed = events[lost..back].iter().filter(|event| event.id.is_some()).cloned();
        let rest: Vec<ChatEvent> = missed.chain(so_far(&events[..back])).chain(events[back..].iter().cloned()).collect();
        // A result of a call may be shown twice around the gap, with equal content: ignores results.
        pieces.extend(rest.iter().flat_map(|item| fold.apply_event(item)).filter(|it| !matches!(it, ProjectionPiece::Answer(_))));
        pieces.retain(|piece| !matches!(piece, ProjectionPiece::Answer(_) | ProjectionPiece::Recorded(_)));
        let recorded: HashMap<MessageId, String> = events.iter().filter_map(|event| match &event.what {
            ChatEventKind::MessageAppended { id, message, .. } if message.role == Role::Assistant => {
                Some((id.clone(), message.text().into_owned()))
            }
            _ => None,
        }).collect();
        prop_assert_eq!(shown(&pieces), recorded);
    }

    #[test]
    fn what_is_shown_is_what_is_recorded(
        messages in proptest::collection::vec(said(), 0..5),
        steps in any::<bool>(),
        dropped in 0_usize..40,
        from in 0_usize..4,
    ) {
        let mut telling = RandomTurnEvents::new(steps);
        messages.iter().for_each(|message| telling.message(message));
        telling.record();
        telling.tell(true, completed(turn("t")));
        // A listener that misses a provisional event and the events before it began.
        let events: Vec<_> = telling.events.iter().enumerate()
            .filter(|(at, it)| it.id.is_some() || (*at != dropped && *at >= from))
            .map(|(_, it)| it.clone()).collect();
        let mut fold = ChatProjection::default();
        let pieces: Vec<ProjectionPiece> = events.iter().flat_map(|event| fold.apply_event(event)).collect();
        let texts = shown(&pieces);
        let recorded: HashMap<MessageId, String> = events.iter().filter_map(|event| match &event.what {
            ChatEventKind::MessageAppended { id, message, .. } if message.role == Role::Assistant => {
                Some((id.clone(), message.text().into_owned()))
            }
            _ => None,
        }).collect();
        prop_assert_eq!(texts, recorded);
        let owners: Vec<_> = pieces.iter().filter_map(|piece| match piece {
            ProjectionPiece::Begin { showing, agent } => Some((showing.to_string(), agent.clone())),
            _ => None,
        }).collect();
        for piece in &pieces {
            if let ProjectionPiece::End { showing, side, .. } = piece {
                let agent = owners.iter().find(|owner| owner.0 == showing.to_string()).and_then(|owner| owner.1.clone());
                prop_assert_eq!(agent.as_deref(), agent_from_side(side.as_ref()));
            }
        }
    }
}
