//! Memory that loaded sessions take: bounded by bytes, not only by number (INV-12).

use singletree_engine::Signal;
use singletree_harness::{ChatTurnOutcome, ForkOptions, Limits, LoadedSessions, SendOptions};
use singletree_test_store::TestStore;

use crate::bench::{Log, asking, chat_of, history, line, plain, user};
use crate::sky::Sky;

const BYTES: usize = 300_000;

// INV-12
#[tokio::test]
async fn loaded_sessions_stay_within_their_bytes() {
    let limit = 25 << 20;
    let limits = Limits { loaded_bytes: limit, ..Limits::default() };
    let sky = Sky::over(TestStore::new());
    let chat = chat_of(&plain(&Log::default())).limits(limits).open(sky.clone()).unwrap();
    assert_eq!(chat.loaded(), LoadedSessions::default());
    let mut most = 0;
    for no in 0..150 {
        chat.session(format!("s{no}")).send(user(&"x".repeat(BYTES))).await;
        most = most.max(chat.loaded().bytes);
    }
    let loaded = chat.loaded();
    assert_eq!(loaded.sessions, 150);
    assert!(most <= limit, "{most} bytes are held, and {limit} may be");
    assert!(most > limit / 2, "the limit is used: {most}");
    // The one that was used last is still there, the first one is read again.
    for (session, is_held) in [("s149", true), ("s0", false)] {
        let before = sky.calls() - sky.applies();
        assert_eq!(line(&chat.session(session).send(user("n")).await), "completed 3.2 [a:hello]");
        let has_read = sky.calls() - sky.applies() > before;
        assert_eq!(!has_read, is_held, "{session}");
        assert_eq!(history(&chat, session).await.len(), 4);
    }
}

// INV-12: the counters go with the session.
#[tokio::test]
async fn what_is_not_loaded_any_more_is_not_counted() {
    let limits = Limits { hot_sessions: 2, ..Limits::default() };
    let chat = chat_of(&plain(&Log::default())).limits(limits).open(TestStore::new()).unwrap();
    chat.session("s").send(user(&"x".repeat(BYTES))).await;
    let held = chat.loaded().bytes;
    assert!(held >= BYTES as u64, "{held}");
    chat.session("s").delete(None).await.unwrap();
    assert_eq!(chat.loaded().bytes, 0);
    chat.session("s").send(user(&"x".repeat(BYTES))).await;
    assert_eq!(chat.loaded().bytes, held);
    for session in ["t", "u", "v"] {
        chat.session(session).send(user("m")).await;
    }
    assert!(chat.loaded().bytes < held, "{:?}", chat.loaded());
}

// INV-12: found by the simulation, seed 1103. The end of a wait reads the state, and no turn runs.
#[tokio::test]
async fn a_session_whose_wait_was_given_up_stays_within_the_bytes_too() {
    let limits = Limits { loaded_bytes: 1, ..Limits::default() };
    let graph = asking(&Log::default(), Signal::new("approval"));
    let chat = chat_of(&graph).limits(limits).open(TestStore::new()).unwrap();
    let turn = chat.session("s").submit(user("m"), SendOptions::new()).await.unwrap();
    assert!(matches!(turn.outcome().await.as_ref(), ChatTurnOutcome::Suspended(_)));
    chat.cancel(turn.id()).await.unwrap().outcome().await;
    let loaded = chat.loaded();
    assert!(loaded.sessions > 0 && loaded.bytes <= 1, "{loaded:?}");
}

// INV-12: a session that is only read.
#[tokio::test]
async fn a_session_that_is_only_read_stays_within_the_bytes_too() {
    let store = TestStore::new();
    let before = chat_of(&plain(&Log::default())).open(store.clone()).unwrap();
    before.session("s").send(user("m")).await;
    let limits = Limits { loaded_bytes: 1, ..Limits::default() };
    let chat = chat_of(&plain(&Log::default())).limits(limits).open(store.reopen()).unwrap();
    let fork = chat.session("s").fork(ForkOptions::new().session("t")).await.unwrap();
    assert_eq!(fork.id(), "t");
    let loaded = chat.loaded();
    assert!(loaded.sessions > 0 && loaded.bytes <= 1, "{loaded:?}");
}
