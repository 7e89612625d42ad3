//! An action that cannot be undone waits for a person, who approves or rejects the exact call.
//!
//! ```sh
//! cargo run -p singletree --example approval
//! ```
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};
use singletree::agent::AgentLoop;
use singletree::llm::{Script, ScriptedProvider};
use singletree::tools::{CallContext, Effect, ToolLimits, Toolbox, TypedTool};
use singletree::{Answer, Chat, ChatMessage, ChatTurnOutcome, MemoryStore, SignalAddress};

#[derive(Deserialize, JsonSchema)]
struct Refund {
    /// In euros.
    amount: u32,
}

async fn refund(asked: Refund, call: CallContext) -> singletree::tools::Result<String> {
    // The key is the same however often this call is run again: the bank sees it, and pays once.
    let key = call.key.as_str();
    Ok(format!("refunded {} euros under a key of {} digits", asked.amount, key.len()))
}

const SCRIPT: &str = r#"{
  "model": "script",
  "rules": [
    { "when": { "user": ["*refund*"] },
      "then": { "calls": [{ "tool": "refund", "raw_arguments": "{\"amount\": 40}" }] } },
    { "when": { "user": ["*"], "results": [{ "tool": "refund", "content": "{told}" }] },
      "then": { "reply": "{told}" } }
  ]
}"#;

fn approved(yes: bool) -> Answer {
    Answer::new(Map::from_iter([("approved".to_owned(), Value::Bool(yes))])).from("alice")
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let refund = TypedTool::new("refund", "Pays money back.", Effect::Destructive, refund)?;
    let toolbox = Toolbox::new([Arc::new(refund) as _], ToolLimits::standard())?;
    let model = ScriptedProvider::new(Script::from_json(SCRIPT)?);
    let agent = AgentLoop::builder(Arc::new(model)).toolbox(toolbox).agent("support")?;
    let chat = Chat::builder().agent(agent).open(MemoryStore::new())?;

    for (session, yes) in [("conv-1", true), ("conv-2", false)] {
        let outcome = chat.send(session, ChatMessage::user("Please refund 40 euros.")).await;
        let ChatTurnOutcome::Suspended(turn) = outcome else { panic!("{outcome:?}") };
        let action = turn.wait.action.expect("an approval is bound to its action");
        println!("{session} waits: {}", turn.signal_descriptor.metadata.unwrap_or_default());

        let address =
            SignalAddress::Session { session: session.to_owned(), signal: turn.signal_descriptor.signal_id };
        let resumed = chat.answer(address, approved(yes).to(turn.wait.no, action)).await;
        let outcome = resumed?.outcome().await;
        let ChatTurnOutcome::Completed(turn) = outcome.as_ref() else { panic!("{outcome:?}") };
        println!("{}", turn.replies.last().map(|reply| reply.text()).unwrap_or_default());
    }
    Ok(())
}
