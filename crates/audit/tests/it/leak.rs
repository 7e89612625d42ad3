//! A chat that was shut down and dropped is gone.

use std::sync::Arc;
use std::time::Duration;

use singletree_durable::MemoryStore;
use singletree_engine::Signal;
use singletree_harness::{Agent, Chat, ChatTurnOutcome};
use singletree_llm::ChatMessage;

use crate::meet::PATIENCE;
use crate::rig::{Effects, HandClock, asking, echo};

#[tokio::test]
async fn a_chat_that_was_shut_down_and_dropped_is_gone() {
    let signal = Signal::new("ok").expires_in(Duration::from_secs(60));
    let effects = Effects { log: Arc::default(), session: "s".into() };
    for (graph, end) in [(echo(), "completed"), (asking(signal, effects), "suspended")] {
        for sweeps in [false, true] {
            let clock = HandClock::new();
            let builder = Chat::builder().agent(Agent::new("a", &graph)).clock(clock.clone());
            let chat = builder.open(MemoryStore::new()).unwrap();
            if sweeps {
                chat.sweep().await.unwrap();
            }
            let outcome: ChatTurnOutcome = chat.send("s", ChatMessage::user("m")).await;
            assert_eq!(outcome.as_str(), end);
            assert!(chat.shutdown(PATIENCE).await);
            drop((chat, outcome));
            assert_eq!(Arc::strong_count(&clock), 1, "{end}, swept: {sweeps}");
        }
    }
}
