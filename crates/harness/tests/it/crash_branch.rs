//! The process dies at every write of forks, edits and regenerated replies, on both stores (D12, INV-2, INV-3, INV-8).

use singletree_engine::Signal;
use singletree_harness::{Chat, Durability, ForkOptions};

use crate::bench::{agent, approve, at, calling, key, user};
use crate::dying::{Kind, Round, Sweep, Views, is_swept};

const SESSIONS: [&str; 6] = ["s", "open", "short", "edited", "again", "of-fork"];

/// A tool call that waits: forked while it is open, then cut, said otherwise, asked again, and forked from the fork.
async fn branches(chat: &Chat) {
    let fork = async |of: &str, to: &str| chat.session(of).fork(ForkOptions::new().session(to)).await;
    if let Ok(turn) = chat.session("s").submit(user("m1"), key("m1")).await {
        turn.outcome().await;
    }
    drop(fork("s", "open").await);
    decide(chat, "s").await;
    drop(chat.session("s").fork(ForkOptions::new().at(1).session("short")).await);
    drop(fork("open", "of-fork").await);
    // One after the other: of several turns that run at once a crash lets each run its nodes again.
    if let Ok(turn) = chat.session("s").edit_into("edited", 0, user("other")).await {
        turn.outcome().await;
    }
    if let Ok(turn) = chat.session("s").regenerate_into("again", None).await {
        turn.outcome().await;
    }
    for session in ["edited", "again"] {
        decide(chat, session).await;
    }
    if let Ok(turn) = chat.session("open").submit(user("m2"), key("m2")).await {
        turn.outcome().await;
    }
}

async fn decide(chat: &Chat, session: &str) {
    if let Ok(turn) = chat.answer(at(session, "ok"), approve(true)).await {
        turn.outcome().await;
    }
}

/// A crash leaves nothing of a branch, or all of it; and never more than there would be without a crash.
fn whole_or_nothing(at: &str, found: &Views, whole: &Views) {
    for session in SESSIONS {
        let (Some(found), Some(whole)) = (&found[session], &whole[session]) else { continue };
        assert!(whole.history.starts_with(&found.history), "{at}: {session} {found:?}");
        assert!(whole.turns.starts_with(&found.turns), "{at}: {session} {found:?}");
        assert_eq!(found.parent, whole.parent, "{at}: {session}");
        // The fork's first message is there with the fork: no edit leaves a fork without a turn.
        assert!(
            !["edited", "again"].contains(&session) || !found.turns.is_empty(),
            "{at}: {session} {found:?}"
        );
    }
}

async fn sweep(kind: Kind) {
    for (durability, again) in
        [(Durability::Turn, 1), (Durability::Step, 1)].into_iter().filter(|(it, _)| is_swept(kind, *it))
    {
        let what = format!("branches at {durability:?}");
        let sweep = Sweep { what: &what, kind, sessions: &SESSIONS, again };
        let writes = sweep
            .run(
                Round {
                    prepare: async |_: &_| {},
                    builder: |log: &_| {
                        Chat::builder().agent(agent(&calling(log, Signal::new("ok")), durability))
                    },
                    drive: branches,
                },
                whole_or_nothing,
            )
            .await;
        assert!(writes > 15, "{what}: {writes} writes");
    }
}

#[tokio::test]
async fn a_branch_is_whole_or_not_there_wherever_a_process_over_memory_dies() {
    sweep(Kind::Memory).await;
}

#[tokio::test]
async fn a_branch_is_whole_or_not_there_wherever_a_process_over_a_file_dies() {
    sweep(Kind::File).await;
}
