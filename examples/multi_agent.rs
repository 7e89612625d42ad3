//! Several agents in one conversation: each message has one owner, and a hand-off is a tool.
//!
//! ```sh
//! cargo run -p singletree --example multi_agent
//! ```
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use singletree::llm::{Script, ScriptedProvider};
use singletree::{Agent, Chat, MemoryStore, Team};

/// An agent whose model says who it is, and hands over messages about the other agent's topic.
fn member(id: &str, other: &str, topic: &str) -> Result<Agent, Box<dyn std::error::Error>> {
    let script = serde_json::json!({ "model": "script", "rules": [
        { "when": { "user": [format!("*{topic}*")] }, "then": { "calls": [
            { "tool": format!("transfer_to_{other}"), "arguments": { "reason": format!("it is about {topic}") } } ] } },
        { "when": { "user": ["*"], "results": "any" }, "then": { "reply": format!("{id} here: done.") } },
        { "when": { "user": ["*"] }, "then": { "reply": format!("{id} here: done.") } },
    ]});
    let model = ScriptedProvider::new(Script::from_json(&script.to_string())?);
    Ok(Agent::new(id, model)
        .description(format!("Knows everything but {topic}."))
        .instructions(format!("You are {id}.")))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let team = Team::new("support")
        .member(member("help", "billing", "money")?)
        .member(member("billing", "help", "bugs")?)
        .hands_off("help", ["billing"])
        .hands_off("billing", ["help"]);
    let chat = Chat::new(team, MemoryStore::new())?;

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
