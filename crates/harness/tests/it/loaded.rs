//! Memory that loaded sessions take: bounded by bytes, not only by number (INV-12).

use singletree_durable::MemoryStore;
use singletree_harness::{Limits, LoadedSessions};

use crate::bench::{Log, chat_of, history, line, plain, user};
use crate::sky::Sky;

const BYTES: usize = 300_000;

// INV-12
#[tokio::test]
async fn loaded_sessions_stay_within_their_bytes() {
    let limit = 25 << 20;
    let limits = Limits { loaded_bytes: limit, ..Limits::default() };
    let sky = Sky::over(MemoryStore::new());
    let chat = chat_of(&plain(&Log::default())).limits(limits).open(sky.clone()).unwrap();
    assert_eq!(chat.loaded(), LoadedSessions::default());
    let mut most = 0;
    for no in 0..150 {
        chat.send(&format!("s{no}"), user(&"x".repeat(BYTES))).await;
        most = most.max(chat.loaded().bytes);
    }
    let loaded = chat.loaded();
    assert_eq!(loaded.sessions, 150);
    assert!(most <= limit, "{most} bytes are held, and {limit} may be");
    assert!(most > limit / 2, "the limit is used: {most}");
    // The one that was used last is still there, the first one is read again.
    for (session, is_held) in [("s149", true), ("s0", false)] {
        let before = sky.calls() - sky.applies();
        assert_eq!(line(&chat.send(session, user("n")).await), "completed 3.2 [a:hello]");
        let has_read = sky.calls() - sky.applies() > before;
        assert_eq!(!has_read, is_held, "{session}");
        assert_eq!(history(&chat, session).await.len(), 4);
    }
}

// INV-12: the counters go with the session.
#[tokio::test]
async fn what_is_not_loaded_any_more_is_not_counted() {
    let limits = Limits { hot_sessions: 2, ..Limits::default() };
    let chat = chat_of(&plain(&Log::default())).limits(limits).open(MemoryStore::new()).unwrap();
    chat.send("s", user(&"x".repeat(BYTES))).await;
    let held = chat.loaded().bytes;
    assert!(held >= BYTES as u64, "{held}");
    chat.delete_session("s", None).await.unwrap();
    assert_eq!(chat.loaded().bytes, 0);
    chat.send("s", user(&"x".repeat(BYTES))).await;
    assert_eq!(chat.loaded().bytes, held);
    for session in ["t", "u", "v"] {
        chat.send(session, user("m")).await;
    }
    assert!(chat.loaded().bytes < held, "{:?}", chat.loaded());
}
