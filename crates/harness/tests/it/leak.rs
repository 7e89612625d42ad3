//! The memory that a turn needed while it ran is freed when the turn is over; a chat that is dropped is freed whole.

use std::sync::Arc;
use std::time::Duration;

use singletree_engine::{Ctx, Graph, NodeError, Signal};
use singletree_harness::{Chat, ChatTurnOutcome, Durability};
use singletree_test_store::TestStore;

use crate::bench::{Log, Talk, TokioClock, agent, approve, asking, at, chain, chat_of, line, plain, user};

// INV-12: the clock is held by whatever still lives of a turn.
#[tokio::test]
async fn turns_that_are_over_hold_nothing() {
    let clock = TokioClock::new();
    let signal = Signal::new("ok").expires_in(Duration::from_secs(60));
    for (graph, suspends) in [(plain(&Log::default()), false), (asking(&Log::default(), signal), true)] {
        let chat: Chat = chat_of(&graph).clock(clock.clone()).open(TestStore::new()).unwrap();
        chat.sweep().await.unwrap();
        let mut held = Vec::new();
        for n in 0..4 {
            let path = if n == 0 { "3.1" } else { "3.2" };
            let outcome = chat.session("s").send(user("m")).await;
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

const LEVELS: [Durability; 2] = [Durability::Turn, Durability::Step];

// INV-12: turns of every kind of end.
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
            let chat = chat.open(TestStore::new()).unwrap();
            for session in ["s", "t"] {
                let outcome = chat.session(session).send(user("hi")).await;
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
            assert!(chat.shutdown(Duration::from_secs(60)).await);
        }
        assert_eq!(ends.len(), 8, "{ends:?}");
        drop(graphs);
        assert_eq!(Arc::strong_count(&clock), 1, "{durability:?}: something of {ends:?} is still held");
    }
}
