//! Streams that break off, runs that are posted again, sessions that others use, too (D3, D9).

use serde_json::json;

use super::{Front, Reader, in_step};
use crate::support::Rig;
use crate::support::rig::within;

/// Takes events until this many pieces of text have come.
async fn some(front: &mut Front, events: &mut crate::support::Events, pieces: usize) {
    let mut reader = Reader::default();
    let mut seen = 0;
    while seen < pieces {
        let event = within(events.json()).await.unwrap();
        seen += usize::from(event["type"] == "TEXT_MESSAGE_CONTENT");
        reader.take(front, &event);
    }
}

// D9: who goes away stops nothing.
#[tokio::test]
async fn a_stream_that_breaks_off_stops_nothing_and_the_same_run_again_finds_its_turn() {
    let rig = Rig::start().await;
    let mut front = Front::new(rig.client(), "t");
    front.says("u1", "slow one two three four");
    let input = front.input("r");
    let mut events = front.open(&input).await;
    rig.pace.pass(3);
    some(&mut front, &mut events, 3).await;
    drop(events);
    assert_eq!(front.messages.len(), 2, "a piece of the answer is there");
    // It comes again with its messages, including half of an answer.
    let again = front.input("r");
    let mut events = front.open(&again).await;
    some(&mut front, &mut events, 1).await;
    assert_eq!(front.messages[1]["content"].as_str().unwrap().trim_end(), "You said: one");
    drop(events);
    rig.pace.run_free();
    let ran = front.post(front.input("r")).await;
    assert_eq!(ran.end(), "success");
    assert_eq!(front.messages[1]["content"], "You said: one two three four");
    in_step(&front, &rig.chat).await;
    assert_eq!(rig.chat.session("t").turns(0, 9).await.unwrap().items.len(), 1);
    // And once more, when all is over.
    let over = front.clone();
    assert_eq!(front.post(front.input("r")).await.end(), "success");
    assert_eq!(front.messages, over.messages);
    rig.stop().await;
}

#[tokio::test]
async fn a_front_end_that_was_opened_anew_joins_the_turn_that_runs() {
    let rig = Rig::start().await;
    let mut front = Front::new(rig.client(), "t");
    front.send("u1", "say a").await;
    front.says("u2", "slow one two");
    let mut events = front.open(&front.input("r")).await;
    rig.pace.pass(2);
    some(&mut front, &mut events, 2).await;

    let reading = async {
        let mut other = Front::new(rig.client(), "t");
        let ran = other.run().await;
        assert_eq!(ran.end(), "success");
        other
    };
    let going = async {
        tokio::task::yield_now().await;
        rig.pace.run_free();
    };
    let (other, ()) = tokio::join!(reading, going);
    in_step(&other, &rig.chat).await;
    assert_eq!(other.messages[2]["id"], "u2");
    rig.stop().await;
}

#[tokio::test]
async fn what_others_said_meanwhile_is_told_in_its_place() {
    let rig = Rig::start().await;
    let mut front = Front::new(rig.client(), "t");
    front.send("u1", "say a").await;
    rig.chat.session("t").send(singletree_llm::ChatMessage::user("say b")).await;
    let ran = front.send("u2", "say c").await;
    assert_eq!(ran.types().iter().filter(|it| **it == "MESSAGES_SNAPSHOT").count(), 2);
    in_step(&front, &rig.chat).await;
    assert_eq!(front.messages.len(), 6);
    // In step, nothing is told anew.
    let ran = front.send("u3", "say d").await;
    assert!(!ran.types().contains(&"MESSAGES_SNAPSHOT"));
    rig.stop().await;
}

// INV-1: a turn that waits its place behind another one.
#[tokio::test]
async fn what_another_turn_says_before_ones_own_is_there_in_the_end() {
    let rig = Rig::start().await;
    let slow =
        rig.chat.session("t").submit("slow one", singletree_harness::SendOptions::new()).await.unwrap();
    let mut front = Front::new(rig.client(), "t");
    front.says("u1", "say a");
    let mut events = front.open(&front.input("r")).await;
    let mut reader = Reader::default();
    reader.take(&mut front, &within(events.json()).await.unwrap());
    rig.pace.run_free();
    slow.outcome().await;
    while !reader.over {
        reader.take(&mut front, &within(events.json()).await.unwrap());
    }
    in_step(&front, &rig.chat).await;
    assert_eq!(front.messages.len(), 4);
    rig.stop().await;
}

// D10
#[tokio::test]
async fn a_turn_that_somebody_cancels_ends_cancelled_with_what_was_shown() {
    let rig = Rig::start().await;
    let mut front = Front::new(rig.client(), "t");
    front.says("u1", "slow one two three");
    let mut events = front.open(&front.input("r")).await;
    rig.pace.pass(2);
    let mut reader = Reader::default();
    let mut pieces = 0;
    while pieces < 2 {
        let event = within(events.json()).await.unwrap();
        pieces += usize::from(event["type"] == "TEXT_MESSAGE_CONTENT");
        reader.take(&mut front, &event);
    }
    let turn = rig.chat.session("t").open_turns().await.unwrap()[0].id.clone();
    rig.chat.cancel(&turn).await.unwrap();
    let mut last = json!(null);
    while !reader.over {
        last = within(events.json()).await.unwrap();
        reader.take(&mut front, &last);
    }
    assert_eq!(last["outcome"], json!({ "type": "cancelled" }));
    in_step(&front, &rig.chat).await;
    assert_eq!(front.messages.len(), 2);
    // The same message is known now: it is not said again.
    assert_eq!(front.run().await.end(), "success");
    assert_eq!(rig.chat.session("t").turns(0, 9).await.unwrap().items.len(), 1);
    rig.stop().await;
}

// W6: versions before 1.0 have no outcome `cancelled`, and their clients fail at an unknown one.
#[tokio::test]
async fn a_client_of_an_older_version_is_told_of_no_outcome_that_it_does_not_know() {
    let rig = Rig::start().await;
    let mut front = Front::new(rig.client(), "t");
    front.send("u1", "send").await;
    let mut input = front.input("given-up");
    input.as_object_mut().unwrap().remove("protocolVersion");
    input["resume"] = json!([{ "interruptId": front.interrupts[0]["id"], "status": "cancelled" }]);
    let ran = front.post(input).await;
    assert_eq!((&ran.last()["type"], ran.last().get("outcome")), (&json!("RUN_FINISHED"), None));
    in_step(&front, &rig.chat).await;
    rig.stop().await;
}

// W4
#[tokio::test]
async fn a_run_is_stopped_by_its_thread_and_what_was_shown_is_kept() {
    let rig = Rig::start().await;
    let mut front = Front::new(rig.client(), "t");
    let stop = "/v1/agui/threads/t/run";
    assert_eq!(rig.client().delete(stop).await.status, 204, "nothing runs");
    front.says("u1", "slow one two three");
    let mut events = front.open(&front.input("r")).await;
    rig.pace.pass(2);
    let mut reader = Reader::default();
    let mut pieces = 0;
    while pieces < 2 {
        let event = within(events.json()).await.unwrap();
        pieces += usize::from(event["type"] == "TEXT_MESSAGE_CONTENT");
        reader.take(&mut front, &event);
    }
    assert_eq!(rig.client().delete(stop).await.status, 204);
    while !reader.over {
        let event = within(events.json()).await.unwrap();
        reader.take(&mut front, &event);
    }
    in_step(&front, &rig.chat).await;
    assert_eq!(front.messages.len(), 2);
    rig.stop().await;
}

// D1: a message that is kept behind a wait.
#[tokio::test]
async fn a_message_that_the_session_keeps_behind_a_wait_is_answered_after_it_once() {
    let rig = Rig::builder()
        .each_agent(|it| it.while_suspended(singletree_harness::WhileSuspended::Queue))
        .start()
        .await;
    let mut front = Front::new(rig.client(), "t");
    front.send("u1", "send").await;
    front.interrupts.clear();
    assert_eq!(front.send("u2", "say later").await.end(), "interrupt");
    assert_eq!(front.run().await.end(), "interrupt", "it is not sent twice");
    let ran = front.resume("resolved", json!({ "approved": true })).await;
    assert_eq!(ran.end(), "success");
    in_step(&front, &rig.chat).await;
    assert_eq!(front.messages.last().unwrap()["content"], "You said: later");
    assert_eq!(rig.chat.session("t").turns(0, 9).await.unwrap().items.len(), 3);
    rig.stop().await;
}
