//! The process dies at every write of a turn that is steered, before and after it lands; the message that steers is in
//! the conversation once, and has one outcome (INV-2, INV-3, INV-8).

use std::sync::Arc;
use std::time::Duration;

use singletree_engine::{Ctx, Graph};
use singletree_harness::{Chat, Durability};
use singletree_store_testing::{FailedWriteEffect, FaultInjectingStore};
use singletree_test_store::TestStore;

use crate::bench::{Log, Talk, agent, category, chain, check_rows, history, key, line, says, user};
use crate::doctor::sound;
use crate::steer::hear;

/// Waits a while for messages that steer, then listens twice.
fn patient(log: &Log) -> Graph<Talk> {
    let mut builder = Graph::<Talk>::builder().node("wait", |_: Ctx<Talk>| async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        Ok(says("wait"))
    });
    for name in ["hear", "again"] {
        let log = log.clone();
        builder = builder.node(name, move |cx: Ctx<Talk>| {
            log.note(name);
            async move { Ok(hear(&cx, name)) }
        });
    }
    chain(builder, &["wait", "hear", "again"])
}

/// Sends one message and steers with another, however often that was done before.
async fn talk(chat: &Chat) -> Vec<String> {
    let Ok(turn) = chat.session("s").submit(user("m"), key("m")).await else { return Vec::new() };
    let Ok(steered) = chat.session("s").steer(user("left"), key("left")).await else { return Vec::new() };
    vec![line(turn.outcome().await.as_ref()), line(steered.outcome().await.as_ref())]
}

async fn dying_at(
    n: u64,
    land: FailedWriteEffect,
    durability: Durability,
) -> (Vec<String>, Vec<String>, bool) {
    let (store, log) = (TestStore::new(), Log::default());
    let failing = Arc::new(FaultInjectingStore::new(Arc::new(store.clone()), n, land));
    let builder = || Chat::builder().agent(agent(&patient(&log), durability));
    let dying = builder().open_shared(failing.clone(), failing.clone()).unwrap();
    dying.sweep().await.unwrap();
    drop(tokio::time::timeout(Duration::from_secs(600), talk(&dying)).await);
    let after = store.reopen();
    dying.shutdown(Duration::from_secs(5)).await;
    let chat = builder().open(after.clone()).unwrap();
    for turn in chat.sweep().await.unwrap() {
        turn.outcome().await;
    }
    let told = talk(&chat).await;
    check_rows(&after, "s").await;
    sound(&after).await;
    let said = history(&chat, "s").await;
    // Beside the message stands that it was taken, if it was (D17).
    let kept = chat.session("s").history(0..100).await.unwrap();
    let taken: Vec<_> = kept.iter().filter(|it| it.side.is_some()).map(|it| it.message.text()).collect();
    let inside = said.iter().position(|it| it == "u:left") == Some(2);
    assert_eq!(taken, ["left"][..usize::from(inside)], "{said:?}");
    (told, said, failing.fired())
}

#[tokio::test(start_paused = true)]
async fn a_message_that_steers_is_neither_lost_nor_doubled_wherever_the_process_dies() {
    for durability in [Durability::Turn, Durability::Step] {
        let (told, whole, _) = dying_at(u64::MAX, FailedWriteEffect::Before, durability).await;
        assert_eq!(whole, ["u:m", "a:wait", "u:left", "a:hear", "a:again"]);
        assert_eq!(
            told,
            ["completed 3.1 [a:wait, u:left, a:hear, a:again]", "completed 3.2 [a:hear, a:again]"]
        );
        let (mut reached, mut taken) = (0, 0);
        for n in 1.. {
            let mut fired = false;
            for land in [FailedWriteEffect::Before, FailedWriteEffect::After] {
                let (told, said, it_fired) = dying_at(n, land, durability).await;
                fired |= it_fired;
                let place = format!("{durability:?}, write {n}, {land:?}: {said:?} {told:?}");
                let next = ["u:m", "a:wait", "a:hear", "a:again", "u:left", "a:wait", "a:hear", "a:again"];
                assert!(said == whole || said == next, "{place}");
                assert!(told.len() == 2 && told.iter().all(|it| it.starts_with("completed")), "{place}");
                taken += usize::from(said == whole);
            }
            if !fired {
                break;
            }
            reached = n;
        }
        assert!(reached >= 3 && taken > 0, "{reached} writes, {taken} times taken");
    }
}

// D24: a turn that dies too often ends the messages that it has taken.
#[tokio::test(start_paused = true)]
async fn a_turn_that_is_given_up_ends_what_it_has_taken() {
    let (store, log) = (TestStore::new(), Log::default());
    // Two messages, two nodes.
    let failing = Arc::new(FaultInjectingStore::new(Arc::new(store.clone()), 5, FailedWriteEffect::Before));
    let limits = singletree_harness::Limits { deaths: 1, ..singletree_harness::Limits::default() };
    let builder = || Chat::builder().agent(agent(&patient(&log), Durability::Step)).limits(limits.clone());
    let dying = builder().open_shared(failing.clone(), failing.clone()).unwrap();
    drop(tokio::time::timeout(Duration::from_secs(600), talk(&dying)).await);
    assert!(failing.fired());
    let after = store.reopen();
    dying.shutdown(Duration::ZERO).await;
    let chat = builder().open(after.clone()).unwrap();
    let mut ends = Vec::new();
    for turn in chat.sweep().await.unwrap() {
        ends.push(category(turn.outcome().await.as_ref().clone()));
    }
    assert_eq!(ends, ["chat_turn_crashed", "chat_turn_crashed"]);
    assert_eq!(history(&chat, "s").await, Vec::<String>::new());
    check_rows(&after, "s").await;
    sound(&after).await;
}
