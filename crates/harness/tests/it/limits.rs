//! Everything that grows has a limit, and whoever is refused is told which (INV-12).

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use singletree_engine::{Ctx, Graph};
use singletree_harness::{
    Chat, ChatTurnOutcome, Durability, ErroredTurn, FailureBucket, Limits, SendOptions,
};
use singletree_llm::ChatMessage;
use singletree_store_testing::{FailedWriteEffect, FaultInjectingStore};
use singletree_test_store::TestStore;

use crate::bench::{Door, Log, Talk, agent, category, chain, chat_of, history, key, plain, user, waiting_at};

fn refused_for_now(errored: &ErroredTurn, category: &str) {
    let told = (errored.error_category.as_str(), errored.error_bucket, errored.retry_safe);
    assert_eq!(told, (category, FailureBucket::RetryableTransient, true));
    assert!(errored.turn.is_none());
}

#[tokio::test]
async fn as_many_sessions_are_busy_as_may_be_and_others_are_told_to_come_again() {
    let door = Door::shut();
    let limits = Limits { busy_sessions: 2, hot_sessions: 1, ..Limits::default() };
    let chat = chat_of(&waiting_at(&door)).limits(limits).open(TestStore::new()).unwrap();
    let mut turns = Vec::new();
    for session in ["s1", "s2"] {
        turns.push(chat.session(session).submit(user("m"), SendOptions::new()).await.unwrap());
        door.somebody().await;
    }
    refused_for_now(
        &chat.session("s3").submit(user("m"), key("k")).await.unwrap_err().into_errored_turn(),
        "chat_sessions_full",
    );
    assert_eq!(chat.session("s3").subscribe(|_| {}).unwrap_err().category(), "chat_sessions_full");
    assert_eq!(chat.session("s3").info().await.unwrap_err().category(), "chat_session_unknown");
    // Those that are there go on.
    turns.push(chat.session("s2").submit(user("n"), SendOptions::new()).await.unwrap());
    door.open();
    for turn in turns {
        assert_eq!(category(turn.outcome().await), "completed");
    }
    // A session whose outcome is told counts as busy for a moment more.
    let sent = loop {
        match chat.session("s3").submit(user("m"), key("k")).await {
            Ok(turn) => break turn.outcome().await,
            Err(errored) => refused_for_now(&errored.into_errored_turn(), "chat_sessions_full"),
        }
        tokio::task::yield_now().await;
    };
    assert_eq!(category(sent), "completed");
}

// INV-2, INV-8: a start with more to take over than may be busy takes over all of it.
#[tokio::test]
async fn a_sweep_of_more_sessions_than_may_be_busy_waits_for_room() {
    for (swept, returned) in [(10, 5), (3, 3)] {
        let (store, graph) = (TestStore::new(), plain(&Log::default()));
        for n in 0..5 {
            let dying =
                Arc::new(FaultInjectingStore::new(Arc::new(store.clone()), 1, FailedWriteEffect::After));
            let limits = Limits { record_retry: Duration::from_millis(1), ..Limits::default() };
            let chat = chat_of(&graph).limits(limits).open_shared(dying.clone(), dying).unwrap();
            chat.session(format!("s{n}")).submit(user("m"), SendOptions::new()).await.unwrap();
            chat.shutdown(Duration::ZERO).await;
        }
        let limits = Limits { busy_sessions: 2, swept, ..Limits::default() };
        let chat = chat_of(&graph).limits(limits).open(store.reopen()).unwrap();
        let turns = chat.sweep().await.unwrap();
        assert_eq!(turns.len(), returned);
        for turn in turns {
            assert_eq!(category(turn.outcome().await), "completed");
        }
        // Those that are not named run all the same.
        for session in ["s0", "s1", "s2", "s3", "s4"] {
            let ended = async {
                while history(&chat, session).await != ["u:m", "a:hello"] {
                    tokio::task::yield_now().await;
                }
            };
            tokio::time::timeout(Duration::from_secs(30), ended).await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_session_has_as_many_listeners_as_it_may() {
    let limits = Limits { subscriptions: 2, ..Limits::default() };
    let chat = chat_of(&plain(&Log::default())).limits(limits).open(TestStore::new()).unwrap();
    let full = "chat_subscriptions_full";
    let one = chat.session("s").subscribe(|_| {}).unwrap();
    let _two = chat.session("s").subscribe(|_| {}).unwrap();
    assert_eq!(chat.session("s").subscribe(|_| {}).unwrap_err().category(), full);
    drop((one, chat.session("other").subscribe(|_| {}).unwrap()));
    let _three = chat.session("s").subscribe(|_| {}).unwrap();

    // Streams are counted by themselves.
    let first = chat.session("s").events().stream().await.unwrap();
    let second = chat.session("s").resumed(None).await.unwrap();
    assert_eq!(chat.session("s").events().stream().await.map(drop).unwrap_err().category(), full);
    let listening = || SendOptions::new().listen();
    refused_for_now(
        &chat.session("s").submit(user("m"), listening()).await.unwrap_err().into_errored_turn(),
        full,
    );
    assert_eq!(
        chat.session("s").info().await.unwrap_err().category(),
        "chat_session_unknown",
        "nothing is stored"
    );
    let turn = chat.session("s").submit(user("m"), SendOptions::new()).await.unwrap();
    let told: Vec<_> =
        turn.events().map(|it| it.map(|_| ()).map_err(|it| it.category().to_owned())).collect().await;
    assert_eq!(told, [Err(full.to_owned())]);
    assert_eq!(category(turn.outcome().await), "completed", "who listens is no part of it");
    drop(first);
    let told = turn.events().map(|it| it.unwrap().what.as_str()).collect::<Vec<_>>().await;
    assert_eq!(told, ["turn.accepted", "message.appended", "turn.completed"]);
    drop(second);
}

/// A graph that records the user's texts, in a list beside the history.
fn noting() -> Graph<Talk> {
    let builder = Graph::builder().node("n", |cx: Ctx<Talk>| async move {
        let text = cx.state().messages.last().unwrap().text().into_owned();
        Ok(Talk::update().notes([text]).messages([ChatMessage::assistant("noted")]))
    });
    chain(builder, &["n"])
}

fn exhausted(outcome: &ChatTurnOutcome) -> String {
    let ChatTurnOutcome::Errored(errored) = outcome else { panic!("{outcome:?}") };
    assert_eq!(errored.error_category, "chat_budget_exhausted");
    errored.diagnostic.split("the budget ").nth(1).unwrap().to_owned()
}

// D13
#[tokio::test]
async fn lists_beside_the_history_and_their_items_have_bounds() {
    let defaults = Limits::default;
    // A note of n letters has n + 2 bytes; the longest message around it is that of the user.
    for (limits, texts, told) in [
        (Limits { item_bytes: 60, ..defaults() }, [20, 20], None),
        (
            Limits { item_bytes: 60, ..defaults() },
            [20, 59],
            Some("item_bytes of 60 is exhausted: the turn came to 61"),
        ),
        (Limits { list_items: 2, ..defaults() }, [1, 1], None),
        (
            Limits { list_items: 1, ..defaults() },
            [1, 1],
            Some("list_items of 1 is exhausted: the turn came to 2"),
        ),
        (Limits { list_bytes: 8, ..defaults() }, [1, 3], None),
        (
            Limits { list_bytes: 8, ..defaults() },
            [1, 4],
            Some("list_bytes of 8 is exhausted: the turn came to 9"),
        ),
    ] {
        for durability in [Durability::Turn, Durability::Step] {
            let builder = Chat::builder().agent(agent(&noting(), durability)).limits(limits.clone());
            let chat = builder.open(TestStore::new()).unwrap();
            let text = |n: usize| user(&"x".repeat(n));
            assert_eq!(category(chat.session("s").send(text(texts[0])).await), "completed");
            let before = chat.session("s").export().await.unwrap();
            let outcome = chat.session("s").send(text(texts[1])).await;
            match told {
                None => assert_eq!(category(outcome), "completed"),
                Some(told) => {
                    assert_eq!(exhausted(&outcome), told);
                    assert_eq!(chat.session("s").export().await.unwrap(), before, "{told}");
                }
            }
        }
    }
}

// An import is held to the limits that a chat applies piece by piece.
#[tokio::test]
async fn an_import_is_held_to_the_same_bounds() {
    let chat = chat_of(&noting()).open(TestStore::new()).unwrap();
    for text in ["one", "two"] {
        chat.session("s").send(user(text)).await;
    }
    let export = chat.session("s").export().await.unwrap();
    for (limits, told) in [
        (Limits { item_bytes: 20, ..Limits::default() }, "item_bytes"),
        (Limits { list_items: 1, ..Limits::default() }, "list_items"),
        (Limits { list_bytes: 9, ..Limits::default() }, "list_bytes"),
        (Limits { field_bytes: 1, ..Limits::default() }, "field_bytes"),
    ] {
        let strict = chat_of(&noting()).limits(limits).open(TestStore::new()).unwrap();
        let refused = strict.import_session(export.clone(), None).await.unwrap_err();
        assert_eq!(refused.category(), "chat_budget_exhausted");
        assert!(refused.to_string().contains(told), "{told}: {refused}");
        assert_eq!(
            strict.session("s").info().await.unwrap_err().category(),
            "chat_session_unknown",
            "{told}"
        );
    }
}
