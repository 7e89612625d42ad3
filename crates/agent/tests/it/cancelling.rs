//! Cancelling a turn in the middle of a reply.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{FutureExt, StreamExt};
use serde_json::json;
use singletree_agent::Agent;
use singletree_durable::MemoryStore;
use singletree_harness::{ChatEventKind, SendOptions};
use singletree_llm::{BoxFuture, ChatMessage, Script, ScriptedProvider, Timer};
use tokio::sync::Semaphore;

use crate::rig::{SESSION, completed, errored, open, send};

/// A pace that goes on only as often as it is allowed to.
#[derive(Debug)]
struct Steps(Semaphore);

impl Timer for Steps {
    fn sleep_for(&self, _: Duration) -> BoxFuture<'_, ()> {
        async { self.0.acquire().await.unwrap().forget() }.boxed()
    }
}

// D10
#[tokio::test]
async fn what_was_shown_of_a_cancelled_reply_is_kept_and_marked() {
    let long =
        json!({ "model": "m", "rules": [], "fallback": { "reply": "one two three four", "delay_ms": 1 } });
    let pace = Arc::new(Steps(Semaphore::new(2)));
    let script = Script::from_json(&long.to_string()).unwrap();
    let provider = Arc::new(ScriptedProvider::new(script).with_pace(pace.clone()));
    let chat = open(Agent::new("a", provider).build().unwrap(), MemoryStore::new());
    let turn = chat.session(SESSION).submit(ChatMessage::user("go"), SendOptions::new()).await.unwrap();
    let mut events = std::pin::pin!(turn.events());
    let mut shown = String::new();
    while shown != "one two " {
        if let ChatEventKind::Delta { text, so_far, .. } = events.next().await.unwrap().unwrap().what {
            if so_far { shown = text } else { shown.push_str(&text) }
        }
    }
    let cancelled = chat.cancel(turn.id()).await.unwrap().outcome().await;
    assert_eq!(errored(&cancelled).error_category, "chat_turn_cancelled");
    let history = chat.session(SESSION).history(0..10).await.unwrap();
    let kept: Vec<_> = history.iter().map(|it| (it.message.text().into_owned(), it.side.clone())).collect();
    let expected = [("go".into(), None), ("one two ".into(), Some(json!({ "interrupted": true })))];
    assert_eq!(kept, expected);
    // The conversation goes on.
    pace.0.add_permits(10);
    assert_eq!(completed(&send(&chat, "again").await).replies[0].text(), "one two three four");
}
