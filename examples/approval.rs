//! An action that cannot be undone waits for a person, who approves or rejects the exact call.
//!
//! ```sh
//! cargo run -p singletree --example approval
//! ```
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use singletree::llm::{Script, ScriptedProvider};
use singletree::{Agent, Chat, ChatTurnOutcome, MemoryStore, ToolContext, tool};

/// Pays money back.
#[tool(destructive)]
async fn refund(
    /// In euros.
    amount: u32,
    cx: ToolContext,
) -> singletree::tools::Result<String> {
    // The key is the same however often this call is run again: the bank sees it, and pays once.
    let key = cx.key.as_str();
    Ok(format!("refunded {amount} euros under a key of {} digits", key.len()))
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

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let model = ScriptedProvider::new(Script::from_json(SCRIPT)?);
    let chat = Chat::new(Agent::new("support", model).tool(refund), MemoryStore::new())?;

    for (session, yes) in [("conv-1", true), ("conv-2", false)] {
        let session = chat.session(session);
        session.send("Please refund 40 euros.").await;
        for wait in session.pending().await? {
            let metadata = wait.wait().descriptor.metadata.clone();
            println!("{} waits: {}", session.id(), metadata.unwrap_or_default());
            // The answer names the wait and the digest of the exact action.
            let outcome = if yes { wait.approve().await? } else { wait.reject("too much").await? };
            let ChatTurnOutcome::Completed(turn) = outcome else { panic!("{outcome:?}") };
            println!("{}", turn.replies.last().map(|reply| reply.text()).unwrap_or_default());
        }
    }
    Ok(())
}
