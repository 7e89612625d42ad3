//! What a turn needed while it ran goes when it is over; a chat that is dropped goes whole.

use std::sync::Arc;
use std::time::Duration;

use singletree_durable::MemoryStore;
use singletree_engine::Signal;
use singletree_harness::Chat;

use crate::bench::{Log, TokioClock, approve, asking, at, chat_of, line, plain, user};

// INV-12: the clock is held by whatever still lives of a turn.
#[tokio::test]
async fn turns_that_are_over_hold_nothing() {
    let clock = TokioClock::new();
    let signal = Signal::new("ok").expires_in(Duration::from_secs(60));
    for (graph, suspends) in [(plain(&Log::default()), false), (asking(&Log::default(), signal), true)] {
        let chat: Chat = chat_of(&graph).clock(clock.clone()).open(MemoryStore::new()).unwrap();
        chat.sweep().await.unwrap();
        let mut held = Vec::new();
        for n in 0..4 {
            let path = if n == 0 { "3.1" } else { "3.2" };
            let outcome = chat.send("s", user("m")).await;
            if suspends {
                assert_eq!(line(&outcome), format!("suspended {path} ok [a:ask]"));
                let turn = chat.answer(at("s", "ok"), approve(true)).await.unwrap();
                turn.outcome().await;
            } else {
                assert_eq!(line(&outcome), format!("completed {path} [a:hello]"));
            }
            tokio::task::yield_now().await;
            held.push(Arc::strong_count(&clock));
        }
        assert_eq!(held[3], held[0], "{held:?}");
        assert!(chat.shutdown(Duration::from_secs(5)).await);
        drop(chat);
        assert_eq!(Arc::strong_count(&clock), 1, "suspends: {suspends}");
    }
}
