//! Calls that wait for a person.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use singletree_agent::ApprovalPolicy;
use singletree_durable::{MemoryStore, Timestamp};
use singletree_engine::Clock;
use singletree_harness::{Answer, Chat, PendingWait, SignalAddress};
use singletree_llm::{Script, ScriptedProvider};
use singletree_tools::{Effect, Recovery};

use crate::probe::World;
use crate::rig::{
    SESSION, answer, chat, completed, decide, errored, open, payload, script, send, small_with, suspended,
    transcript, waiting,
};

#[tokio::test]
async fn an_approved_call_runs_once_and_the_next_turn_asks_again() {
    let (chat, world) = chat();
    let outcome = send(&chat, "send").await;
    let paused = suspended(&outcome);
    assert_eq!(paused.pending_messages.len(), 1, "the call that waits is shown");
    assert_eq!(world.whats(), Vec::<String>::new());
    completed(&decide(&chat, json!({ "approved": true })).await);
    assert_eq!(world.whats(), ["send a"]);
    let said = ["user: send", "assistant: [send{\"what\":\"a\"}]", "tool: did a", "assistant: All done."];
    assert_eq!(transcript(&chat).await, said);
    // An approval never outlives its turn.
    suspended(&send(&chat, "send").await);
    completed(&decide(&chat, json!({ "approved": true })).await);
    assert_eq!(world.whats(), ["send a", "send a"]);
    assert_eq!(world.by_key().len(), 2, "another turn is another action");
}

#[tokio::test]
async fn a_denied_call_does_not_run_and_the_model_reads_why() {
    let (chat, world) = chat();
    suspended(&send(&chat, "send").await);
    completed(&decide(&chat, json!({ "approved": false, "reason": "not now" })).await);
    assert_eq!(world.whats(), Vec::<String>::new());
    let denied = "tool: {\"reason\":\"not now\",\"status\":\"denied\"}";
    assert_eq!(transcript(&chat).await[2..], [denied, "assistant: All done."]);
    // Without a reason there is one of the house.
    suspended(&send(&chat, "send").await);
    completed(&decide(&chat, json!({ "approved": false })).await);
    let denied = "tool: {\"reason\":\"a person said no; nothing was done\",\"status\":\"denied\"}";
    assert_eq!(transcript(&chat).await[6..], [denied, "assistant: All done."]);
}

// D2: an approval is bound to its wait and to the exact action.
#[tokio::test]
async fn an_answer_that_names_another_action_or_says_more_than_it_may_changes_nothing() {
    let (chat, world) = chat();
    suspended(&send(&chat, "send").await);
    let wait = waiting(&chat).await;
    let (no, action) = (wait.wait.no, wait.wait.action.clone().unwrap());
    let yes = || Answer::new(payload(json!({ "approved": true })));
    let with = |value| Answer::new(payload(value)).to(no, action.clone());
    let refused = [
        (yes(), "chat_signal_mismatch"),
        (yes().to(no, "0000"), "chat_signal_mismatch"),
        (yes().to(no + 1, action.clone()), "chat_signal_mismatch"),
        (with(json!({})), "suspension_resume_payload_invalid"),
        (with(json!({ "approved": "yes" })), "suspension_resume_payload_invalid"),
        (with(json!({ "approved": true, "messages": [] })), "suspension_resume_payload_invalid"),
        (
            with(json!({ "approved": true, "decisions": { "message": 1, "calls": [] } })),
            "suspension_resume_payload_invalid",
        ),
    ];
    for (answer, category) in refused {
        let signal = wait.descriptor.signal_id.clone();
        let address = SignalAddress::Session { session: SESSION.into(), signal };
        let error = chat.answer(address, answer.clone()).await.unwrap_err().into_errored_turn();
        assert_eq!(error.error_category, category, "{answer:?}");
    }
    assert_eq!(world.whats(), Vec::<String>::new());
    completed(&decide(&chat, json!({ "approved": true })).await);
    assert_eq!(world.whats(), ["send a"]);
}

#[tokio::test]
async fn two_approvals_of_one_message_are_asked_one_after_the_other() {
    for (first, second, expected) in [
        (true, true, vec!["send a", "act m", "send b"]),
        (true, false, vec!["send a", "act m"]),
        (false, true, vec!["act m", "send b"]),
        (false, false, vec!["act m"]),
    ] {
        let (chat, world) = chat();
        suspended(&send(&chat, "sends").await);
        let one = waiting(&chat).await;
        suspended(&decide(&chat, json!({ "approved": first })).await);
        let two = waiting(&chat).await;
        assert_ne!(one.descriptor.signal_id, two.descriptor.signal_id);
        assert_ne!(one.wait.action, two.wait.action);
        // Finding U5: only calls that are asked about count.
        let place = |wait: &PendingWait| wait.descriptor.metadata.as_ref().unwrap()["place"].clone();
        assert_eq!([place(&one), place(&two)], [1, 2].map(|nth| json!({ "nth": nth, "of": 2 })));
        // The decision about the first call is no decision about the second.
        assert_eq!(world.whats(), Vec::<String>::new(), "nothing runs before everything is decided");
        completed(&decide(&chat, json!({ "approved": second })).await);
        assert_eq!(world.whats(), expected);
    }
}

#[tokio::test]
async fn a_wait_says_what_would_be_done_and_what_an_answer_may_be() {
    let (chat, _) = chat();
    suspended(&send(&chat, "send").await);
    let wait = waiting(&chat).await;
    let said = json!({ "kind": "approval", "tool": "send", "server": "mail", "call_id": "call_2_0",
        "arguments": { "what": "a" }, "effect": "destructive", "description": "Does something." });
    assert_eq!(wait.descriptor.metadata, Some(said));
    let signal = &wait.descriptor.signal_id;
    assert!(signal.starts_with("apr-") && signal.len() == 14, "{signal}");
    let schema = wait.wait.payload_schema.unwrap();
    assert_eq!(schema["required"], json!(["approved"]));
    assert_eq!(wait.wait.deadline, None);
}

#[tokio::test]
async fn the_same_action_elsewhere_has_another_digest() {
    let mut digests = BTreeSet::new();
    for _ in 0..2 {
        let (chat, _) = chat();
        for _ in 0..2 {
            suspended(&send(&chat, "send").await);
            digests.insert(waiting(&chat).await.wait.action.unwrap());
            completed(&decide(&chat, json!({ "approved": false })).await);
        }
    }
    assert_eq!(digests.len(), 4);
}

#[tokio::test]
async fn a_policy_says_which_effects_are_asked_about() {
    for (policy, text, asks) in [
        (ApprovalPolicy::default(), "act", false),
        (ApprovalPolicy::default(), "send", true),
        (ApprovalPolicy::changes(), "act", true),
        (ApprovalPolicy::changes(), "look", false),
        (ApprovalPolicy::nothing(), "send", false),
        (ApprovalPolicy::effects([Effect::Read]), "look", true),
    ] {
        let provider = Arc::new(ScriptedProvider::new(script()));
        let agent = small_with(provider, &World::default(), Recovery::Report).ask_before(policy.clone());
        let chat = open(agent.build().unwrap(), MemoryStore::new());
        let outcome = send(&chat, text).await;
        assert_eq!(outcome.as_str(), if asks { "suspended" } else { "completed" }, "{policy:?} {text}");
    }
}

/// A clock that stands still.
#[derive(Debug)]
struct Noon;

impl Clock for Noon {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(43_200_000)
    }
}

#[tokio::test]
async fn an_approval_may_expire() {
    let provider = Arc::new(ScriptedProvider::new(script()));
    let agent = small_with(provider, &World::default(), Recovery::Report);
    let agent = agent.approval_expires_in(Duration::from_secs(60)).build().unwrap();
    let chat = Chat::builder().agent(agent).clock(Arc::new(Noon)).open(MemoryStore::new()).unwrap();
    let outcome = send(&chat, "send").await;
    assert_eq!(suspended(&outcome).wait.deadline, Some(Timestamp::from_millis(43_260_000)));
}

// D10, D8: an approval from before a turn was cancelled does not count after it.
#[tokio::test]
async fn a_cancelled_approval_takes_the_earlier_ones_with_it() {
    let (chat, world) = chat();
    let outcome = send(&chat, "sends").await;
    let first = suspended(&outcome).turn.clone();
    let outcome = decide(&chat, json!({ "approved": true })).await;
    let closed = chat.cancel(&suspended(&outcome).turn).await.unwrap();
    assert_eq!(errored(closed.outcome().await.as_ref()).error_category, "chat_turn_cancelled");
    assert_eq!(first.invocation, closed.id().invocation);
    // Its calls are answered, so that the conversation goes on; nothing of them has run.
    assert_eq!(world.whats(), Vec::<String>::new());
    suspended(&send(&chat, "sends").await);
    assert_eq!(world.whats(), Vec::<String>::new());
    let wait = waiting(&chat).await;
    assert_eq!(wait.descriptor.metadata.as_ref().unwrap()["arguments"], json!({ "what": "a" }));
    suspended(answer(&chat, &wait, json!({ "approved": true })).await.unwrap().outcome().await.as_ref());
}

// No call of a message runs before all of its calls are decided, not even calls that only read.
#[tokio::test]
async fn while_one_call_of_a_message_waits_none_of_the_others_runs() {
    let world = World::default();
    let both = json!([
        { "tool": "look", "arguments": { "what": "1" } },
        { "tool": "send", "arguments": { "what": "a" } },
        { "tool": "act", "arguments": { "what": "2" } },
    ]);
    let rules = json!([
        { "when": { "user": ["go"], "results": [] }, "then": { "calls": both } },
        { "when": { "results": "any" }, "then": { "reply": "All done." } },
    ]);
    let script = Script::from_json(&json!({ "model": "test", "rules": rules }).to_string()).unwrap();
    let agent = small_with(Arc::new(ScriptedProvider::new(script)), &world, Recovery::Report).build();
    let chat = open(agent.unwrap(), MemoryStore::new());
    suspended(&send(&chat, "go").await);
    assert_eq!(world.whats(), Vec::<String>::new());
    completed(&decide(&chat, json!({ "approved": false })).await);
    assert_eq!(world.whats(), ["look 1", "act 2"]);
}

// The decision is also in the side record of the call's answer: readers of histories need not parse texts (D17).
#[tokio::test]
async fn a_denied_call_is_marked_as_denied_beside_its_answer() {
    let (chat, _) = chat();
    suspended(&send(&chat, "send").await);
    completed(&decide(&chat, json!({ "approved": false, "reason": "not now" })).await);
    let history = chat.session(SESSION).history(0..10).await.unwrap();
    let sides: Vec<_> = history.iter().map(|it| it.side.clone()).collect();
    assert_eq!(sides, [None, None, Some(json!({ "denied": "not now" })), None]);
}
