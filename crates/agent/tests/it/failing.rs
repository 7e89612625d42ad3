//! Failures between an agent and its model, as a caller sees them.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use singletree_agent::Agent;
use singletree_durable::MemoryStore;
use singletree_harness::FailureBucket;
use singletree_llm::{BoxFuture, Script, ScriptedProvider, Timer};
use singletree_tools::Recovery;

use crate::probe::World;
use crate::rig::{chat, completed, errored, open, script, send, small_with, transcript};

// spec: harness-chat §10; llm-provider §7
#[tokio::test]
async fn a_providers_error_keeps_its_category_and_finds_its_bucket() {
    for (category, bucket, retry_safe) in [
        ("provider_unavailable", FailureBucket::RetryableTransient, true),
        ("provider_rate_limit", FailureBucket::RetryableTransient, true),
        ("provider_model_not_loaded", FailureBucket::RetryableTransient, true),
        ("provider_authentication", FailureBucket::UserCorrectable, false),
        ("provider_invalid_model", FailureBucket::UserCorrectable, false),
        ("provider_invalid_request", FailureBucket::UserCorrectable, false),
        ("provider_invalid_response", FailureBucket::UserCorrectable, false),
        ("provider_unsupported_content_block", FailureBucket::UserCorrectable, false),
    ] {
        let fails = json!({ "model": "m", "rules": [], "fallback": {
            "reply": "Shown, and void.", "error": { "category": category, "message": "said so" } } });
        let provider = Arc::new(ScriptedProvider::new(Script::from_json(&fails.to_string()).unwrap()));
        let chat = open(Agent::new("a", provider).build().unwrap(), MemoryStore::new());
        let outcome = send(&chat, "hello").await;
        let error = errored(&outcome);
        let told = (error.error_category.as_str(), error.error_bucket, error.retry_safe);
        assert_eq!(told, (category, bucket, retry_safe));
        assert!(error.diagnostic.contains("said so"), "{error:?}");
        // D11: a turn that failed is not part of the conversation.
        assert_eq!(transcript(&chat).await, Vec::<String>::new());
    }
}

#[tokio::test]
async fn half_an_answer_is_no_answer() {
    let (chat, _) = chat();
    assert_eq!(errored(&send(&chat, "cut").await).error_category, "provider_unavailable");
}

#[tokio::test]
async fn a_model_that_never_stops_calling_runs_into_its_budget() {
    let provider = Arc::new(ScriptedProvider::new(script()));
    let world = World::default();
    let agent = small_with(provider, &world, Recovery::Report).max_model_calls(3).build().unwrap();
    let chat = open(agent, MemoryStore::new());
    let outcome = send(&chat, "loop").await;
    let error = errored(&outcome);
    assert_eq!(error.error_category, "chat_budget_exhausted");
    assert_eq!(error.error_bucket, FailureBucket::UserCorrectable);
    assert!(error.diagnostic.contains("max_model_calls of 3"), "{error:?}");
    assert_eq!(world.whats().len(), 3);
    // The budget is that of a turn: the next one has its own.
    completed(&send(&chat, "look").await);
}

/// A pace at which nothing ever comes.
#[derive(Debug)]
struct Never;

impl Timer for Never {
    fn sleep_for(&self, _: Duration) -> BoxFuture<'_, ()> {
        Box::pin(std::future::pending())
    }
}

// D20
#[tokio::test(start_paused = true)]
async fn a_model_that_does_not_answer_is_unavailable() {
    let slow = json!({ "model": "m", "rules": [], "fallback": { "reply": "late", "delay_ms": 1 } });
    let script = Script::from_json(&slow.to_string()).unwrap();
    let provider = Arc::new(ScriptedProvider::new(script).with_pace(Arc::new(Never)));
    let agent = Agent::new("a", provider).model_time(Duration::from_secs(7)).build().unwrap();
    let chat = open(agent, MemoryStore::new());
    let outcome = send(&chat, "hello").await;
    let error = errored(&outcome);
    assert_eq!(error.error_category, "provider_unavailable");
    assert!(error.diagnostic.contains("within 7 s"), "{error:?}");
}
