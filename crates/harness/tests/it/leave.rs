//! Nothing stays behind: what a turn held is freed when it is over, and what a chat held when it is dropped (INV-12).

use std::sync::Arc;

use singletree_durable::MemoryStore;
use singletree_engine::{Ctx, Graph, NodeError, Signal};
use singletree_harness::{Chat, ChatTurnOutcome, Durability};

use crate::bench::{Log, Talk, TokioClock, agent, approve, asking, at, chain, line, plain, user};

const LEVELS: [Durability; 2] = [Durability::Turn, Durability::Step];

/// Turns of every kind of end, in a chat that is dropped; then nobody may hold the clock that all of it shared.
#[tokio::test]
async fn a_dropped_chat_leaves_nothing_of_any_turn_alive() {
    for durability in LEVELS {
        let clock = TokioClock::new();
        let failing = Graph::builder().node("fail", |_: Ctx<Talk>| async { Err(NodeError::new("it broke")) });
        let log = Log::default();
        let graphs = [plain(&log), asking(&log, Signal::new("ok")), chain(failing, &["fail"])];
        let mut ends = Vec::new();
        for graph in &graphs {
            let chat = Chat::builder().agent(agent(graph, durability)).clock(clock.clone());
            let chat = chat.open(MemoryStore::new()).unwrap();
            for session in ["s", "t"] {
                let outcome = chat.send(session, user("hi")).await;
                ends.push(line(&outcome));
                if let ChatTurnOutcome::Suspended(waiting) = outcome {
                    if session == "s" {
                        let turn = chat.answer(at(session, "ok"), approve(true)).await.unwrap();
                        ends.push(line(turn.outcome().await.as_ref()));
                    } else {
                        let turn = chat.cancel(&waiting.turn).await.unwrap();
                        ends.push(line(turn.outcome().await.as_ref()));
                    }
                }
            }
            // Lets the tasks of the last turns end, too.
            assert!(chat.shutdown(std::time::Duration::from_secs(60)).await);
        }
        assert_eq!(ends.len(), 8, "{ends:?}");
        drop(graphs);
        assert_eq!(Arc::strong_count(&clock), 1, "{durability:?}: something of {ends:?} is still held");
    }
}
