//! The limits of a turn of the loop (D13).

use std::sync::Arc;

use serde_json::json;
use singletree_durable::MemoryStore;
use singletree_harness::Budget;
use singletree_llm::{
    BoxFuture, BoxStream, ChatMessage, Provider, Request, Response, ResponseDelta, ScriptedProvider,
    TokenUsage,
};
use singletree_tools::Recovery;

use crate::probe::World;
use crate::rig::{completed, decide, errored, open, script, send, small, small_with, suspended, transcript};

/// A provider that reports the usage of its answers.
#[derive(Debug)]
struct Metered(ScriptedProvider, TokenUsage);

impl Provider for Metered {
    fn model_name(&self) -> &str {
        self.0.model_name()
    }

    fn ready(&self) -> BoxFuture<'_, singletree_llm::Result<()>> {
        self.0.ready()
    }

    fn can_stream(&self) -> bool {
        false
    }

    fn stream_deltas<'a>(
        &'a self,
        request: &'a Request,
    ) -> BoxFuture<'a, singletree_llm::Result<BoxStream<'a, singletree_llm::Result<ResponseDelta>>>> {
        self.0.stream_deltas(request)
    }

    fn complete<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, singletree_llm::Result<Response>> {
        Box::pin(async move {
            let mut response = self.0.complete(request).await?;
            response.usage = self.1;
            Ok(response)
        })
    }
}

#[tokio::test]
async fn tokens_are_what_the_provider_says_in_all_or_in_parts() {
    let whole = TokenUsage { total_tokens: Some(10), ..TokenUsage::default() };
    let parts = TokenUsage { prompt_tokens: Some(6), completion_tokens: Some(4), ..TokenUsage::default() };
    for (usage, used) in [(whole, 20), (parts, 20), (TokenUsage::default(), 0)] {
        for max in [19, 20] {
            let provider = Arc::new(Metered(ScriptedProvider::new(script()), usage));
            let agent = small_with(provider, &World::default(), Recovery::Report).build().unwrap();
            let budget = Budget { tokens: Some(max), ..Budget::default() };
            let chat = open(agent.budget(budget), MemoryStore::new());
            let outcome = send(&chat, "look").await;
            if used <= max {
                completed(&outcome);
            } else {
                let error = errored(&outcome);
                assert_eq!(error.error_category, "chat_budget_exhausted");
                let told = "the budget tokens of 19 is exhausted: the turn came to 20";
                assert!(error.diagnostic.contains(told), "{error:?}");
            }
        }
    }
}

// D8, D13
#[tokio::test]
async fn of_calls_that_are_too_many_none_is_made_and_all_are_closed() {
    let world = World::default();
    let budget = Budget { tool_calls: Some(2), ..Budget::default() };
    let chat = open(small(&world, Recovery::Report).budget(budget), MemoryStore::new());
    suspended(&send(&chat, "sends").await);
    suspended(&decide(&chat, json!({ "approved": true })).await);
    let outcome = decide(&chat, json!({ "approved": true })).await;
    let error = errored(&outcome);
    assert_eq!(error.error_category, "chat_budget_exhausted");
    assert!(error.diagnostic.contains("tool_calls of 2 is exhausted: the turn came to 3"), "{error:?}");
    assert_eq!(world.whats(), Vec::<String>::new());
    let closed = r#"tool: {"reason":"chat_budget_exhausted","status":"failed"}"#;
    assert_eq!(transcript(&chat).await[2..], [closed, closed, closed]);
    // The next message has a budget of its own.
    completed(&chat.session(crate::rig::SESSION).send(ChatMessage::user("acts")).await);
}
