//! Replies of a schema: a reply that does not fit is asked for again, and only a fitting reply is part of the
//! conversation.
//!
//! ```sh
//! cargo run -p singletree --example structured_output
//! ```
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use schemars::JsonSchema;
use serde::Deserialize;
use singletree::llm::{Script, ScriptedProvider};
use singletree::{Agent, Chat, ChatTurnOutcome, MemoryStore};

#[derive(Debug, Deserialize, JsonSchema)]
struct Ticket {
    /// What is broken, in a few words.
    title: String,
    /// From 1, a nuisance, to 5: nothing works.
    severity: u8,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // The first reply is no JSON, the second lacks a field, the third fits.
    let replies =
        ["It looks bad.", r#"{ "title": "login" }"#, r#"{ "title": "login fails", "severity": 4 }"#];
    let model = ScriptedProvider::new(Script::from_json(&script(&replies))?);
    let triage = Agent::new("triage", model).reply_type::<Ticket>();
    let chat = Chat::new(triage, MemoryStore::new())?;

    let outcome = chat.session("conv-1").send("I cannot log in!").await;
    let ChatTurnOutcome::Completed(turn) = outcome else { panic!("{outcome:?}") };
    let ticket: Ticket = turn.reply_as()?;
    println!("{} (severity {}), in {} message", ticket.title, ticket.severity, turn.replies.len());
    Ok(())
}

/// A model that gives these replies in turn.
fn script(replies: &[&str]) -> String {
    let rule = |(at, reply): (usize, &&str)| {
        let reply = reply.replace('{', "{{");
        serde_json::json!({ "when": { "answered": at, "results": "any" }, "then": { "reply": reply } })
    };
    let rules: Vec<_> = replies.iter().enumerate().map(rule).collect();
    serde_json::json!({ "model": "script", "rules": rules }).to_string()
}
