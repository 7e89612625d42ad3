//! The parts of a message that are streamed before it is complete.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use singletree_durable::MemoryStore;
use singletree_harness::{ChatEvent, ChatEventKind};
use singletree_llm::{
    BoxFuture, BoxStream, ChatMessage, Provider, Request, Response, ResponseDelta, Result, ScriptedProvider,
};
use singletree_tools::Recovery;

use crate::probe::World;
use crate::rig::{SESSION, completed, open, script, send, small, small_with, watched};

/// Returns the streamed text of each message and its final text, by the message's name.
fn shown(events: &[ChatEvent]) -> (BTreeMap<String, String>, BTreeMap<String, String>) {
    let (mut deltas, mut messages) = (BTreeMap::<String, String>::new(), BTreeMap::new());
    for event in events {
        match &event.what {
            ChatEventKind::Delta { id, text, .. } => {
                deltas.entry(id.to_string()).or_default().push_str(text);
            }
            ChatEventKind::MessageAppended { id, message, .. } => {
                messages.insert(id.to_string(), message.text().into_owned());
            }
            _ => {}
        }
    }
    (deltas, messages)
}

#[tokio::test]
async fn the_pieces_that_were_shown_make_the_message_that_is_kept() {
    let world = World::default();
    let chat = open(small(&world, Recovery::Report), MemoryStore::new());
    let told = watched(&chat, "say one two three", &[]).await;
    let (deltas, messages) = shown(&told);
    assert_eq!(deltas.values().collect::<Vec<_>>(), ["You said: one two three"]);
    assert_eq!(deltas, messages);
    // Again, after messages that are history, and after a message that only calls: that one has nothing to show.
    let (deltas, messages) = shown(&watched(&chat, "act", &told).await);
    assert_eq!(deltas.values().collect::<Vec<_>>(), ["All done."]);
    assert_eq!(messages.values().collect::<Vec<_>>(), ["", "did a", "All done."]);
    assert!(deltas.iter().all(|(id, text)| messages.get(id) == Some(text)), "{deltas:?} {messages:?}");
}

// D19
#[tokio::test]
async fn thinking_is_kept_and_never_shown() {
    let world = World::default();
    let chat = open(small(&world, Recovery::Report), MemoryStore::new());
    let (deltas, _) = shown(&watched(&chat, "think", &[]).await);
    assert_eq!(deltas.values().collect::<Vec<_>>(), ["I have thought."]);
    let kept = chat.session(SESSION).history(1..2).await.unwrap();
    let kinds: Vec<_> = kept[0].message.content.blocks().iter().map(|it| it.wire_type_name()).collect();
    assert_eq!(kinds, ["thinking", "text"]);
}

/// A provider that answers whole.
#[derive(Debug)]
struct Whole(ScriptedProvider);

impl Provider for Whole {
    fn model_name(&self) -> &str {
        self.0.model_name()
    }
    fn ready(&self) -> BoxFuture<'_, Result<()>> {
        self.0.ready()
    }
    fn complete<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<Response>> {
        self.0.complete(request)
    }
    fn can_stream(&self) -> bool {
        false
    }
    fn stream_deltas<'a>(
        &'a self,
        _: &'a Request,
    ) -> BoxFuture<'a, Result<BoxStream<'a, Result<ResponseDelta>>>> {
        panic!("it does not stream, and says so")
    }
}

#[tokio::test]
async fn a_provider_that_does_not_stream_is_asked_for_the_whole_answer() {
    let provider = Arc::new(Whole(ScriptedProvider::new(script())));
    let agent = small_with(provider, &World::default(), Recovery::Report).build().unwrap();
    let chat = open(agent, MemoryStore::new());
    let (deltas, messages) = shown(&watched(&chat, "say it", &[]).await);
    assert_eq!(deltas, BTreeMap::new());
    assert_eq!(messages.values().collect::<Vec<_>>(), ["You said: it"]);
    completed(&send(&chat, "act").await);
}

// D9
#[tokio::test]
async fn what_send_streaming_returns_ends_with_the_outcome() {
    let world = World::default();
    let chat = open(small(&world, Recovery::Report), MemoryStore::new());
    let events = chat.session(SESSION).stream(ChatMessage::user("say it")).await.unwrap();
    let ended = tokio::time::timeout(Duration::from_secs(5), events.collect::<Vec<_>>()).await.unwrap();
    let outcomes: Vec<_> = ended.iter().filter_map(|it| it.as_ref().unwrap().what.outcome()).collect();
    assert_eq!(outcomes.len(), 1);
    assert!(ended.last().unwrap().as_ref().unwrap().what.outcome().is_some());
}

// D9: who sends with streaming hears every piece, however quick the turn was.
#[tokio::test]
async fn what_send_streaming_returns_misses_no_piece() {
    let world = World::default();
    let chat = open(small(&world, Recovery::Report), MemoryStore::new());
    let events = chat.session(SESSION).stream(ChatMessage::user("say one two three")).await.unwrap();
    // The turn is over before anybody looks.
    while chat.session(SESSION).info().await.unwrap().messages < 2 {
        tokio::task::yield_now().await;
    }
    let heard: Vec<_> = events.map(|it| it.unwrap().what).collect().await;
    let pieces: Vec<_> = heard
        .iter()
        .filter_map(|it| match it {
            ChatEventKind::Delta { n, text, so_far, .. } => Some((*n, text.as_str(), *so_far)),
            _ => None,
        })
        .collect();
    assert!(pieces.len() > 1, "{heard:?}");
    assert!(pieces.iter().zip(0..).all(|((n, _, so_far), expected)| *n == expected && !so_far), "{pieces:?}");
    assert_eq!(pieces.iter().map(|(_, text, _)| *text).collect::<String>(), "You said: one two three");
}
