//! The order of a UI message stream, over random events.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use proptest::prelude::*;
use singletree_agent::Agent;
use singletree_durable::MemoryStore;
use singletree_harness::{Chat, ChatEvent, ChatEventKind};
use singletree_llm::{Role, Script, ScriptedProvider};
use singletree_protocol::ui_stream::StreamPart;

use super::wire::UiStreamEncoder;
use crate::Server;
use crate::fold::random::a_turn;
use crate::fold::{ChatProjection, ProjectionPiece};
use crate::shared::ServerState;

fn shared() -> Arc<ServerState> {
    let script = Script::from_json(r#"{ "model": "m", "rules": [] }"#).unwrap();
    let agent = Agent::new("a", ScriptedProvider::new(script)).build().unwrap();
    let store = MemoryStore::new();
    let chat = Chat::builder().agent(agent).open(store.clone()).unwrap();
    Server::builder(chat, Arc::new(store)).build().unwrap().shared()
}

/// The state of a client after reading a stream; it fails on a stream that it cannot read.
#[derive(Debug, Default)]
struct Page {
    started: bool,
    stepping: bool,
    texts: Vec<(String, String)>,
    void: HashSet<usize>,
    open: HashMap<String, usize>,
    calls: HashSet<String>,
    answered: HashSet<String>,
    finished: usize,
    errors: usize,
}

impl Page {
    fn read(&mut self, part: &StreamPart) {
        assert_eq!(self.finished, 0, "nothing comes behind the end");
        let failed = |it: &StreamPart| {
            matches!(it, StreamPart::DataError { .. } | StreamPart::Error { .. } | StreamPart::Finish { .. })
        };
        let begins = self.started || matches!(part, StreamPart::Start { .. }) || failed(part);
        assert!(begins, "the message begins first, if there is one");
        match part {
            StreamPart::Start { message_id, .. } => {
                assert!(!std::mem::replace(&mut self.started, true) && message_id.is_some());
            }
            StreamPart::StartStep => assert!(!std::mem::replace(&mut self.stepping, true)),
            StreamPart::FinishStep => {
                assert!(std::mem::replace(&mut self.stepping, false) && self.open.is_empty());
            }
            StreamPart::TextStart { id } => {
                assert!(self.open.insert(id.clone(), self.texts.len()).is_none());
                self.texts.push((id.clone(), String::new()));
            }
            StreamPart::TextDelta { id, delta } => self.texts[self.open[id]].1 += delta,
            StreamPart::TextEnd { id, provider_metadata } => {
                let at = self.open.remove(id).expect("a text begins before it ends");
                self.void.extend(provider_metadata.as_ref().map(|_| at));
            }
            StreamPart::ToolInputAvailable { tool_call_id, .. } => {
                self.calls.insert(tool_call_id.clone());
            }
            StreamPart::ToolOutputAvailable { tool_call_id, .. }
            | StreamPart::ToolOutputError { tool_call_id, .. } => {
                assert!(self.calls.contains(tool_call_id), "a call comes before what it gave");
                self.answered.insert(tool_call_id.clone());
            }
            StreamPart::DataSuspended { .. }
            | StreamPart::DataSteered { .. }
            | StreamPart::DataError { .. } => {}
            StreamPart::ToolApprovalRequest { .. }
            | StreamPart::ToolOutputDenied { .. }
            | StreamPart::ReasoningStart { .. }
            | StreamPart::ReasoningDelta { .. }
            | StreamPart::ReasoningEnd { .. } => panic!("the page was not said to know {part:?}"),
            StreamPart::Error { .. } => self.errors += 1,
            StreamPart::Finish { .. } => self.finished += 1,
        }
    }

    /// Returns the texts that are not void, by their messages.
    fn said(&self) -> HashMap<String, String> {
        let mut said = HashMap::<String, String>::new();
        for (at, (id, text)) in self.texts.iter().enumerate() {
            if !self.void.contains(&at) {
                let message = id.split('~').next().unwrap();
                *said.entry(message.to_owned()).or_default() += text;
            }
        }
        said
    }
}

proptest! {
    // A client reads every stream to its end, and then has the recorded messages.
    #[test]
    fn a_page_reads_every_turn_and_has_what_is_kept(events in a_turn()) {
        let turn = events[0].turn.clone();
        let (mut fold, mut wire) = (ChatProjection::default(), UiStreamEncoder::new(shared(), "s", turn));
        let mut page = Page::default();
        let mut too_late = false;
        for event in &events {
            for piece in fold.apply_event(event) {
                // A text that another part has closed cannot be marked as void any more.
                too_late |= matches!(&piece, ProjectionPiece::Retract { showing }
                    if page.said().contains_key(&showing.message.to_string()) && !page.open.contains_key(&showing.to_string()));
                wire.encode_piece(piece).iter().for_each(|it| page.read(it));
            }
        }
        prop_assert!(page.finished == 1 && !page.stepping && page.open.is_empty());
        let errored = matches!(events.last().unwrap().what, ChatEventKind::TurnErrored { .. });
        prop_assert_eq!(page.errors, usize::from(errored));
        let kept = |it: &ChatEvent| match &it.what {
            ChatEventKind::MessageAppended { id, message, .. } if message.role == Role::Assistant => {
                let text = message.text().into_owned();
                (!text.is_empty()).then(|| (id.to_string(), text))
            }
            _ => None,
        };
        let kept: HashMap<String, String> = events.iter().filter_map(kept).collect();
        let said = page.said();
        if too_late {
            prop_assert!(kept.iter().all(|(id, text)| said[id].ends_with(text.as_str())), "{:?} {:?}", said, kept);
        } else {
            prop_assert_eq!(said, kept);
        }
        prop_assert_eq!(page.calls, page.answered);
    }
}
