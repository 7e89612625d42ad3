//! The time limits of an agent pass by the timer of its chat (INV-11).

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use singletree_agent::Agent;
use singletree_durable::MemoryStore;
use singletree_env::{Env, Timer};
use singletree_harness::{Chat, ChatTurnOutcome, GraphAgent};
use singletree_llm::{
    BoxFuture, BoxStream, Provider, Request, Response, ResponseDelta, Result, Script, ScriptedProvider,
};
use singletree_tools::{Effect, Tool, ToolContext, ToolLimits, Toolbox, TypedTool};

use crate::rig::{completed, errored, send, transcript};

/// The limit of the test; no other wait of the chat is as long.
const LIMIT: Duration = Duration::from_secs(7_777);

/// A timer by which that span passes at once, and no other ever does.
#[derive(Debug)]
struct OneSpanTimer;

impl Timer for OneSpanTimer {
    fn sleep_for(&self, span: Duration) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            if span != LIMIT {
                std::future::pending::<()>().await;
            }
        })
    }
}

/// Opens a chat with that timer, and sends a message to its agent.
async fn ask(agent: GraphAgent, text: &str) -> (Chat, ChatTurnOutcome) {
    let env = Env { timer: Arc::new(OneSpanTimer), ..Env::from_system() };
    let chat = Chat::builder().agent(agent).env(env).open(MemoryStore::new()).unwrap();
    let outcome = tokio::time::timeout(Duration::from_secs(20), send(&chat, text)).await;
    (chat, outcome.expect("the time limit passes by the timer"))
}

/// A model that never answers.
#[derive(Debug)]
struct SilentModel;

impl Provider for SilentModel {
    fn model_name(&self) -> &str {
        "silent"
    }

    fn ready(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async { Ok(()) })
    }

    fn can_stream(&self) -> bool {
        false
    }

    fn complete<'a>(&'a self, _: &'a Request) -> BoxFuture<'a, Result<Response>> {
        Box::pin(std::future::pending())
    }

    fn stream_deltas<'a>(
        &'a self,
        _: &'a Request,
    ) -> BoxFuture<'a, Result<BoxStream<'a, Result<ResponseDelta>>>> {
        unreachable!("it does not stream")
    }
}

#[tokio::test]
async fn the_time_of_an_answer_passes_by_the_timer_of_the_chat() {
    let agent = Agent::new("a", SilentModel).model_time(LIMIT).build().unwrap();
    let (_, outcome) = ask(agent, "hello").await;
    assert_eq!(errored(&outcome).error_category, "provider_unavailable");
}

#[tokio::test]
async fn the_time_of_a_tool_passes_by_the_timer_of_the_chat() {
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Nothing {}
    let hang = |_: Nothing, _: ToolContext| {
        std::future::pending::<std::result::Result<String, singletree_tools::Error>>()
    };
    let tool = TypedTool::new("look", "Looks.", Effect::Read, hang).unwrap();
    let limits = ToolLimits { time: LIMIT, ..ToolLimits::standard() };
    let script = json!({ "model": "m", "rules": [
        { "when": { "user": ["look"] }, "then": { "calls": [{ "tool": "look", "arguments": {} }] } },
        { "when": { "results": [{ "tool": "look" }] }, "then": { "reply": "It took too long." } },
    ] });
    let provider = ScriptedProvider::new(Script::from_json(&script.to_string()).unwrap());
    let toolbox = Toolbox::new([Arc::new(tool) as Arc<dyn Tool>], limits).unwrap();
    let agent = Agent::new("a", provider).toolbox(toolbox).build().unwrap();
    let (chat, outcome) = ask(agent, "look").await;
    completed(&outcome);
    assert_eq!(transcript(&chat).await[2], "tool: error: the tool did not finish within 7777000 ms");
}
