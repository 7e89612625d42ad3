//! Messages of failed turns, which front ends keep and post with the others (D29).

use std::sync::Arc;

use serde_json::json;
use singletree_durable::TenantId;
use singletree_harness::{ChatTurnOutcome, SendOptions, TurnInfo};
use singletree_llm::{ChatMessage, Timer};
use singletree_server::AccessPolicy;

use super::{Front, in_step, transcript, transcript_with_failed};
use crate::support::Rig;

async fn turns(rig: &Rig) -> Vec<TurnInfo> {
    rig.chat.session("t").turns(0, 20).await.unwrap().items
}

fn ids(front: &Front) -> Vec<&str> {
    front.messages.iter().map(|message| message["id"].as_str().unwrap()).collect()
}

fn snapshots(ran: &super::front::Ran) -> usize {
    ran.types().iter().filter(|kind| **kind == "MESSAGES_SNAPSHOT").count()
}

#[tokio::test]
async fn a_failed_message_that_a_front_end_holds_stays_in_its_place() {
    let rig = Rig::start().await;
    let mut front = Front::new(rig.client(), "t");
    front.send("u1", "say a").await;
    assert_eq!(front.send("u2", "fail correctable").await.end(), "provider_invalid_request");
    assert_eq!(front.send("u3", "fail terminating").await.end(), "provider_model_not_loaded");
    let ran = front.send("u4", "say b").await;
    // It counts as seen: nothing has to be corrected, and it is not said again.
    assert_eq!((ran.end(), snapshots(&ran)), ("success", 0));
    let held = ids(&front);
    assert_eq!((held[2], held[3], held[4], held.len()), ("u2", "u3", "u4", 6));
    assert_eq!(turns(&rig).await.len(), 4);
    // Where the transcript is told anew, it keeps its place.
    rig.chat.session("t").send(ChatMessage::user("say c")).await;
    let ran = front.send("u5", "say d").await;
    assert!(snapshots(&ran) > 0);
    assert_eq!(front.messages, transcript_with_failed(&rig.chat, &front).await);
    assert_eq!((ids(&front)[2], front.messages.len()), ("u2", 10));
    // A front end that does not hold it is not sent it: nothing would mark it as failed.
    let mut other = Front::new(rig.client(), "t");
    other.look().await;
    assert_eq!(other.messages, transcript(&rig.chat, "t").await);
    rig.stop().await;
}

#[tokio::test]
async fn another_run_with_the_newest_failed_message_retries_its_turn() {
    let rig = Rig::start().await;
    let mut front = Front::new(rig.client(), "t");
    front.send("u1", "say a").await;
    for (text, run) in [("fail correctable", "correctable"), ("fail retryable", "retryable")] {
        let before = turns(&rig).await.len();
        let id = format!("u-{run}");
        front.send(&id, text).await;
        for _ in 0..2 {
            front.run().await;
            assert_eq!(ids(&front).iter().filter(|held| **held == id).count(), 1);
        }
        let turns = turns(&rig).await;
        assert_eq!(turns.len(), before + 3, "{text}");
        for pair in turns[before..].windows(2) {
            assert_eq!(pair[1].retries.as_ref(), Some(&pair[0].id), "{text}");
        }
    }
    rig.stop().await;
}

// The effects of a failed turn are in the transcript once, and a retry does not repeat them.
#[tokio::test]
async fn another_run_after_an_effect_goes_on_from_it() {
    let rig = Rig::start().await;
    let mut front = Front::new(rig.client(), "t");
    assert_eq!(front.send("u1", "act and fail").await.end(), "provider_unavailable");
    in_step(&front, &rig.chat).await;
    assert_eq!(front.messages.len(), 3);
    // The run that was told of the failure is told of it again.
    assert_eq!(front.post(front.input("run-1")).await.end(), "provider_unavailable");
    assert_eq!(turns(&rig).await.len(), 1);
    for _ in 0..2 {
        assert_eq!(front.run().await.end(), "provider_unavailable");
        in_step(&front, &rig.chat).await;
    }
    assert_eq!(rig.world.done(), ["act and fail"]);
    let turns = turns(&rig).await;
    assert_eq!(
        (turns[1].retries.as_ref(), turns[2].retries.as_ref()),
        (Some(&turns[0].id), Some(&turns[1].id))
    );
    rig.stop().await;
}

// A key that may not read cannot retry, and its message does not repeat an effect either.
#[tokio::test]
async fn a_key_that_may_only_write_repeats_no_effect() {
    let rig = Rig::asking().await;
    let made = rig.operator().post("/v1/keys", &json!({ "tenant": "a", "scopes": ["write"] })).await;
    let mut front = Front::new(rig.client().bearer(made.json()["secret"].as_str().unwrap()), "t");
    for _ in 0..2 {
        front.messages.clear();
        assert_eq!(front.send("u1", "act and fail").await.end(), "provider_unavailable");
    }
    assert_eq!(rig.world.done(), ["act and fail"]);
    rig.stop().await;
}

// D29: nor does it repeat an answer that a retry has made.
#[tokio::test]
async fn a_key_that_may_only_write_repeats_no_answer() {
    let failing = |_: &Arc<dyn Timer>| {
        let answer = json!({ "reply": "Recovered." });
        crate::support::agents::recovering_from("provider_invalid_request", answer, None)
    };
    let policy = AccessPolicy { required: true, ..AccessPolicy::default() };
    let rig = Rig::builder().server(|it| it.access_policy(policy)).also(failing).start().await;
    let made = rig.operator().post("/v1/keys", &json!({ "tenant": "a", "scopes": ["write"] })).await;
    let mut front = Front::new(rig.client().bearer(made.json()["secret"].as_str().unwrap()), "t");
    front.path = format!("/v1/agui/{}", crate::support::agents::RECOVERING);
    let chat = rig.chat.of(TenantId::parse("a").unwrap());
    let turns = async || chat.session("t").turns(0, 9).await.unwrap().items;
    assert_eq!(front.send("u1", "fail once").await.end(), "provider_invalid_request");
    let failed = turns().await[0].id.clone();
    let retried = chat.retry(&failed, SendOptions::new()).await.unwrap();
    assert!(matches!(retried.outcome().await.as_ref(), ChatTurnOutcome::Completed(_)));
    // It is told of the failure that it knows, and nothing is answered twice.
    front.messages.clear();
    assert_eq!(front.send("u1", "fail once").await.end(), "provider_invalid_request");
    assert_eq!(turns().await.len(), 2);
    rig.stop().await;
}

// D31, D9: the stream of a retry breaks off, and its run comes again while the turn goes on.
#[tokio::test]
async fn the_run_of_a_retry_finds_its_turn_again() {
    let rig = Rig::builder().also(|_| crate::support::agents::recovering()).start().await;
    let mut front = Front::new(rig.client(), "t");
    front.path = format!("/v1/agui/{}", crate::support::agents::RECOVERING);
    assert_eq!(front.send("u1", "fail once").await.end(), "provider_unavailable");
    drop(front.open(&front.input("again")).await);
    let ran = front.post(front.input("again")).await;
    assert_eq!((ran.end(), front.messages[1]["content"].clone()), ("success", json!("Recovered.")));
    in_step(&front, &rig.chat).await;
    assert_eq!(turns(&rig).await.len(), 2);
    rig.stop().await;
}

// D29: a turn is retried once; the other requests follow the retry.
#[tokio::test]
async fn runs_that_retry_a_turn_at_the_same_time_get_one_answer() {
    let path = format!("/v1/agui/{}", crate::support::agents::RECOVERING);
    for round in 0..5 {
        let rig = Rig::builder().also(|_| crate::support::agents::recovering()).start().await;
        let mut first = Front::new(rig.client(), "t");
        first.path.clone_from(&path);
        assert_eq!(first.send("u1", "fail once").await.end(), "provider_unavailable");
        let runs = (0..8).map(|run| {
            let mut front = Front::new(rig.client(), "t");
            front.path.clone_from(&path);
            front.messages.clone_from(&first.messages);
            async move {
                let input = front.input(&format!("run-{run}"));
                let ran = front.post(input).await;
                (ran.end().to_owned(), front.messages)
            }
        });
        for (end, messages) in futures_util::future::join_all(runs).await {
            assert_eq!(
                (end.as_str(), &messages[1]["content"]),
                ("success", &json!("Recovered.")),
                "round {round}"
            );
        }
        assert_eq!(turns(&rig).await.len(), 2, "round {round}");
        rig.stop().await;
    }
}
