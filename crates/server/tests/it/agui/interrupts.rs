//! Interrupts: pending waits, and the runs that answer them (D1, D2).

use serde_json::json;
use singletree_test_store::TestStore;

use super::{Front, in_step};
use crate::support::Rig;

fn yes() -> serde_json::Value {
    json!({ "approved": true })
}

// D2
#[tokio::test]
async fn an_approval_interrupts_and_its_answer_goes_on() {
    let rig = Rig::start().await;
    let mut front = Front::new(rig.client(), "t");
    let ran = front.send("u1", "send").await;
    assert_eq!(ran.end(), "interrupt");
    let interrupt = front.interrupts[0].clone();
    assert_eq!(
        (&interrupt["reason"], &interrupt["message"]),
        (&json!("tool_call"), &json!("May the tool `send` be run?"))
    );
    assert_eq!(interrupt["toolCallId"], front.messages[1]["toolCalls"][0]["id"]);
    assert_eq!(interrupt["responseSchema"]["required"], json!(["approved"]));
    assert_eq!(interrupt["metadata"]["dev.singletree"]["metadata"]["arguments"], json!({ "what": "a" }));
    in_step(&front, &rig.chat).await;
    assert!(rig.world.done().is_empty());

    let ran = front.resume("resolved", yes()).await;
    assert_eq!(ran.types()[..2], ["RUN_STARTED", "TOOL_CALL_RESULT"]);
    assert_eq!(ran.end(), "success");
    assert!(front.interrupts.is_empty());
    assert_eq!(rig.world.done(), ["send a"]);
    in_step(&front, &rig.chat).await;
    rig.stop().await;
}

#[tokio::test]
async fn a_refusal_and_two_approvals_in_a_row() {
    let rig = Rig::start().await;
    let mut front = Front::new(rig.client(), "t");
    front.send("u1", "send").await;
    assert_eq!(front.resume("resolved", json!({ "approved": false, "reason": "no" })).await.end(), "success");
    assert_eq!(front.messages.last().unwrap()["content"], "Not done.");
    assert_eq!(front.send("u2", "sends").await.end(), "interrupt");
    let first = front.interrupts[0]["id"].clone();
    assert_eq!(front.resume("resolved", yes()).await.end(), "interrupt");
    assert_ne!(front.interrupts[0]["id"], first);
    assert_eq!(front.resume("resolved", yes()).await.end(), "success");
    assert_eq!(rig.world.done(), ["send a", "send b"]);
    in_step(&front, &rig.chat).await;
    rig.stop().await;
}

// D2: nothing is consumed by an answer to something else.
#[tokio::test]
async fn an_answer_that_is_unknown_stale_or_of_another_form_consumes_nothing() {
    let rig = Rig::start().await;
    let mut front = Front::new(rig.client(), "t");
    front.send("u1", "sends").await;
    let first = front.interrupts.clone();
    let check = async |front: &Front, id: serde_json::Value, payload: serde_json::Value, code: &str| {
        let mut front = front.clone();
        let mut input = front.input(&format!("check-{code}"));
        input["resume"] = json!([{ "interruptId": id, "status": "resolved", "payload": payload }]);
        assert_eq!(front.post(input).await.end(), code);
        assert_eq!(rig.chat.session("t").pending().await.unwrap().len(), 1);
    };
    let unknown = "harness_signal_correlation_failed";
    check(&front, json!("int_bm90aGluZw"), yes(), unknown).await;
    check(&front, json!("apr-1"), yes(), unknown).await;
    let unfit = "suspension_resume_payload_invalid";
    check(&front, first[0]["id"].clone(), json!(true), unfit).await;
    check(&front, first[0]["id"].clone(), json!({}), unfit).await;
    check(&front, first[0]["id"].clone(), json!({ "approved": true, "messages": [] }), unfit).await;
    let mut two = front.clone();
    let mut input = two.input("two");
    let one = json!({ "interruptId": first[0]["id"], "status": "resolved", "payload": yes() });
    input["resume"] = json!([one, one]);
    assert_eq!(two.post(input).await.end(), unknown);
    assert!(rig.world.done().is_empty());

    // The second wait is another one: the answer to the first does not apply to it.
    assert_eq!(front.resume("resolved", yes()).await.end(), "interrupt");
    assert_eq!(rig.world.done().len(), 0, "calls of one message run when all are decided");
    check(&front, first[0]["id"].clone(), json!({ "approved": false }), "chat_signal_conflict").await;
    front.resume("resolved", yes()).await;
    in_step(&front, &rig.chat).await;
    rig.stop().await;
}

// D2, D3
#[tokio::test]
async fn the_same_answer_again_is_told_the_same_turn() {
    let rig = Rig::start().await;
    let mut front = Front::new(rig.client(), "t");
    front.send("u1", "send").await;
    let mut again = front.clone();
    front.resume("resolved", yes()).await;
    let ran = again.resume("resolved", yes()).await;
    assert_eq!(ran.end(), "success");
    assert_eq!(again.messages, front.messages);
    assert_eq!(rig.world.done(), ["send a"]);
    rig.stop().await;
}

// D10
#[tokio::test]
async fn an_interrupt_that_is_given_up_cancels_the_turn_and_a_new_message_goes_on() {
    let rig = Rig::start().await;
    let mut front = Front::new(rig.client(), "t");
    front.send("u1", "send").await;
    assert_eq!(front.resume("cancelled", json!(null)).await.end(), "cancelled");
    assert!(rig.world.done().is_empty());
    in_step(&front, &rig.chat).await;
    assert_eq!(front.messages.last().unwrap()["role"], "tool", "the call is closed");

    front.send("u2", "send").await;
    front.says("u3", "say on");
    let ran = front.resume("cancelled", json!(null)).await;
    assert_eq!(ran.end(), "success");
    assert_eq!(front.messages.last().unwrap()["content"], "You said: on");
    in_step(&front, &rig.chat).await;
    rig.stop().await;
}

#[tokio::test]
async fn who_gives_up_what_is_over_is_told_what_there_is() {
    let rig = Rig::start().await;
    let mut front = Front::new(rig.client(), "t");
    front.send("u1", "send").await;
    // Somebody else has answered.
    let mut other = front.clone();
    other.resume("resolved", yes()).await;
    let ran = front.resume("cancelled", json!(null)).await;
    assert_eq!(ran.end(), "success");
    assert_eq!(front.messages, other.messages);
    rig.stop().await;
}

// D1
#[tokio::test]
async fn a_message_while_something_waits_is_kept_by_the_front_end_and_sent_with_the_answer() {
    let rig = Rig::start().await;
    let mut front = Front::new(rig.client(), "t");
    front.send("u1", "send").await;
    let interrupts = front.interrupts.clone();
    // The protocol demands it: a message that comes while an interrupt is open fails.
    let ran = front.send("u2", "say later").await;
    assert_eq!(ran.end(), "chat_session_suspended");
    assert_eq!(front.interrupts, interrupts);
    // A run without a message shows the interrupt again.
    assert_eq!(front.clone().look().await.end(), "interrupt");
    assert_eq!(front.messages.last().unwrap()["id"], "u2");
    let ran = front.resume("resolved", yes()).await;
    assert_eq!(ran.end(), "success");
    assert_eq!(front.messages.last().unwrap()["content"], "You said: later");
    in_step(&front, &rig.chat).await;
    rig.stop().await;
}

#[tokio::test]
async fn a_message_beside_an_answer_that_leads_to_another_question_is_kept() {
    let rig = Rig::start().await;
    let mut front = Front::new(rig.client(), "t");
    front.send("u1", "sends").await;
    front.says("u2", "say later");
    assert_eq!(front.resume("resolved", yes()).await.end(), "interrupt");
    assert_eq!(front.messages.last().unwrap()["id"], "u2");
    assert_eq!(front.resume("resolved", yes()).await.end(), "success");
    in_step(&front, &rig.chat).await;
    assert_eq!(front.messages.last().unwrap()["content"], "You said: later");
    rig.stop().await;
}

// INV-7: the wait, its number and the call that it approves survive a restart.
#[tokio::test]
async fn an_interrupt_is_answered_after_a_restart() {
    let store = TestStore::new();
    let rig = Rig::builder().start_on(store.clone()).await;
    let mut front = Front::new(rig.client(), "t");
    front.send("u1", "send").await;
    let later = Rig::builder().after(&rig);
    rig.stop().await;
    let store = store.reopen();
    let rig = later.start_on(store).await;
    let mut reloaded = Front::new(rig.client(), "t");
    assert_eq!(reloaded.run().await.end(), "interrupt");
    assert_eq!((&reloaded.interrupts, &reloaded.messages), (&front.interrupts, &front.messages));
    assert_eq!(reloaded.resume("resolved", yes()).await.end(), "success");
    in_step(&reloaded, &rig.chat).await;
    rig.stop().await;
}
