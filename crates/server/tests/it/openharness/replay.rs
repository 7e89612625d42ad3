//! The same request again (spec: OpenHarness §5.1; D3).

use singletree_test_store::TestStore;
use std::time::Duration;

use serde_json::json;

use super::asking::{PATH, Shell, error, message, option, saying, texts, with_id};
use crate::support::Rig;

#[tokio::test]
async fn the_same_request_gets_the_same_bytes() {
    let rig = Rig::start().await;
    let shell = Shell::of(&rig);
    for (id, intent) in [("a", "say a"), ("b", "send"), ("c", "fail terminating")] {
        let mut asked = with_id(saying(id, intent), id);
        asked["correlation_id"] = "corr".into();
        let first = shell.post(&asked).await;
        rig.clock.advance(Duration::from_secs(60));
        let again = shell.post(&asked).await;
        assert_eq!(again.body, first.body);
        assert_eq!(again.header("x-correlation-id"), "corr");
    }
    assert_eq!(rig.chat.session("a").history(0..10).await.unwrap().len(), 2);
    rig.stop().await;
}

#[tokio::test]
async fn the_same_id_with_another_request_is_a_conflict_and_in_another_session_is_another() {
    let rig = Rig::start().await;
    let shell = Shell::of(&rig);
    shell.ask(&with_id(saying("s", "say a"), "r")).await;
    let other = shell.ask(&with_id(saying("s", "say b"), "r")).await;
    assert_eq!(error(&other), ("idempotency_conflict".into(), Some("request_id".into())));
    assert_eq!(other["request_id"], "r");
    assert_eq!(texts(&shell.ask(&with_id(saying("t", "say b"), "r")).await), ["You said: b"]);
    rig.stop().await;
}

#[tokio::test]
async fn a_request_without_a_session_gets_one_session_however_often_it_comes() {
    let rig = Rig::start().await;
    let shell = Shell::of(&rig);
    let asked = with_id(message(json!({"user_intent": "say a"})), "r");
    let first = shell.post(&asked).await;
    assert_eq!(shell.post(&asked).await.body, first.body);
    assert_eq!(rig.chat.sessions(None, 10).await.unwrap().items.len(), 1);
    rig.stop().await;
}

#[tokio::test]
async fn a_request_that_comes_while_it_is_answered_waits_for_the_one_answer() {
    let rig = Rig::start().await;
    let shell = Shell::of(&rig);
    for asked in [saying("s", "slow a b"), message(json!({"user_intent": "slow a b"}))] {
        let asked = with_id(asked, "r");
        let asking = (0..4).map(|_| {
            let (shell, asked) = (shell.clone(), asked.clone());
            tokio::spawn(async move { shell.post(&asked).await.body })
        });
        let asking: Vec<_> = asking.collect();
        rig.pace.run_free();
        let mut answers = Vec::new();
        for answer in asking {
            answers.push(answer.await.unwrap());
        }
        assert!(answers.iter().all(|it| *it == answers[0]), "{answers:?}");
    }
    assert_eq!(rig.chat.sessions(None, 10).await.unwrap().items.len(), 2);
    assert_eq!(rig.chat.session("s").history(0..10).await.unwrap().len(), 2);
    rig.stop().await;
}

// A server that ends refuses all requests, also a repetition of one that it is answering: that one gets its answer, once.
#[tokio::test]
async fn a_request_that_is_refused_while_it_is_answered_takes_nothing_from_its_answer() {
    let rig = Rig::start().await;
    let shell = Shell::of(&rig);
    let asked = with_id(message(json!({"user_intent": "slow a b"})), "r");
    let first = tokio::spawn({
        let (shell, asked) = (shell.clone(), asked.clone());
        async move { shell.ask(&asked).await }
    });
    while !rig.pace.waiting() {
        tokio::task::yield_now().await;
    }
    let chat = rig.chat.clone();
    let ending = tokio::spawn(async move { chat.shutdown(Duration::from_mins(1)).await });
    tokio::task::yield_now().await;
    let refused = shell.ask(&asked).await;
    assert_eq!(refused["response"]["error"]["details"]["error_category"], "chat_shutting_down");
    rig.pace.run_free();
    assert_eq!(texts(&first.await.unwrap()), ["You said: a b"]);
    assert!(ending.await.unwrap());
    assert_eq!(texts(&shell.ask(&asked).await), ["You said: a b"]);
    assert_eq!(rig.chat.sessions(None, 10).await.unwrap().items.len(), 1);
    rig.stop().await;
}

#[tokio::test]
async fn what_can_be_tried_again_is_tried_again_under_the_same_id() {
    let rig = Rig::start().await;
    let shell = Shell::of(&rig);
    let asked = with_id(saying("s", "fail retryable"), "r");
    let turn = async || shell.ask(&asked).await["response"]["error"]["details"]["turn_id"].clone();
    assert_ne!(turn().await, turn().await);
    rig.stop().await;
}

#[tokio::test]
async fn after_its_time_the_answer_is_forgotten_and_the_harness_still_knows_the_turn() {
    let rig = Rig::start().await;
    let shell = Shell::of(&rig);
    let asked = with_id(saying("s", "say a"), "r");
    let first = shell.ask(&asked).await;
    rig.clock.advance(Duration::from_hours(24));
    let again = shell.ask(&asked).await;
    assert_eq!(again["response"]["extensions"], first["response"]["extensions"]);
    assert_eq!(rig.chat.session("s").history(0..10).await.unwrap().len(), 2);
    rig.stop().await;
}

#[tokio::test]
async fn after_a_restart_the_same_request_and_the_same_token_get_the_same() {
    let store = TestStore::new();
    let rig = Rig::builder().start_on(store.clone()).await;
    let asked = with_id(saying("s", "send"), "r");
    let first = Shell::of(&rig).0.post(PATH, &asked).await;
    let approve = option(&first.json(), "approve");
    let builder = Rig::builder().after(&rig);
    rig.stop().await;

    let rig = builder.start_on(store.clone()).await;
    let shell = Shell::of(&rig);
    assert_eq!(shell.post(&asked).await.body, first.body);
    let done = shell.decide(&approve).await;
    assert_eq!(texts(&done), ["All done."]);
    let builder = Rig::builder().after(&rig);
    rig.stop().await;

    let rig = builder.start_on(store).await;
    assert_eq!(Shell::of(&rig).decide(&approve).await["response"], done["response"]);
    assert_eq!(rig.world.done(), ["send a"]);
    rig.stop().await;
}
