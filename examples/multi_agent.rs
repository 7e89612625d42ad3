//! Several agents in one conversation: each message has one owner, and a hand-off is a tool.
//!
//! ```sh
//! cargo run -p singletree --example multi_agent
//! ```
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::sync::Arc;

use singletree::agent::{AgentLoop, AgentLoopBuilder, ChatAgent, Team};
use singletree::llm::{Script, ScriptedProvider};
use singletree::{Chat, MemoryStore};

/// An agent whose model says who it is, and hands over messages about the other agent's topic.
fn member(
    id: &str,
    other: &str,
    topic: &str,
) -> Result<(ChatAgent, AgentLoopBuilder), Box<dyn std::error::Error>> {
    let record = ChatAgent {
        description: Some(format!("Knows everything but {topic}.")),
        role_prompt: Some(format!("You are {id}.")),
        ..ChatAgent::new(id, id, "2026-01-01T00:00:00Z")
    };
    let script = serde_json::json!({ "model": "script", "rules": [
        { "when": { "user": [format!("*{topic}*")] }, "then": { "calls": [
            { "tool": format!("transfer_to_{other}"), "arguments": { "reason": format!("it is about {topic}") } } ] } },
        { "when": { "user": ["*"], "results": "any" }, "then": { "reply": format!("{id} here: done.") } },
        { "when": { "user": ["*"] }, "then": { "reply": format!("{id} here: done.") } },
    ]});
    let model = ScriptedProvider::new(Script::from_json(&script.to_string())?);
    Ok((record, AgentLoop::builder(Arc::new(model))))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (help, answers) = member("help", "billing", "money")?;
    let (billing, counts) = member("billing", "help", "bugs")?;
    let team = Team::builder()
        .member(help, answers)
        .member(billing, counts)
        .hands_off("help", ["billing"])
        .hands_off("billing", ["help"]);
    let chat = Chat::builder().agent(team.agent("support")?).open(MemoryStore::new())?;

    for said in ["Hello", "I want my money back", "Thanks", "Now about those bugs"] {
        println!("> {said}");
        let outcome = chat.session("conv-1").send(said).await;
        assert_eq!(outcome.as_str(), "completed", "{outcome:?}");
    }
    // The agent of each message is recorded beside the messages, never in them.
    for entry in chat.session("conv-1").history(0..100).await? {
        let owner = entry.side.as_ref().and_then(|side| side["agent"].as_str()).unwrap_or("-");
        println!("{owner:8} {}: {}", entry.message.role.as_str(), entry.message.text());
    }
    Ok(())
}
