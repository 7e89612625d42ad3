//! A tool is an async function with typed arguments. The model reads their docs.
//!
//! ```sh
//! cargo run -p singletree --example tools
//! ```
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use singletree::llm::{Script, ScriptedProvider};
use singletree::tools::{Error, Result};
use singletree::{Agent, Chat, ChatTurnOutcome, MemoryStore, tool};

/// Tells the weather of a city, now.
#[tool(read)]
async fn weather(
    /// The name of a city, in English.
    city: String,
) -> Result<String> {
    match city.as_str() {
        "Paris" => Ok("18 degrees, light rain".to_owned()),
        // The model reads the text and may try something else.
        other => Err(Error::failed(format!("there is no station in {other}"))),
    }
}

/// The script of a model: it asks for the tool, then reports the result.
const SCRIPT: &str = r#"{
  "model": "script",
  "rules": [
    { "when": { "user": ["*weather in {city}?"] },
      "then": { "calls": [{ "tool": "weather", "arguments": { "city": "{city}" } }] } },
    { "when": { "user": ["*"], "results": [{ "tool": "weather", "content": "{told}" }] },
      "then": { "reply": "The station says: {told}." } }
  ]
}"#;

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let model = ScriptedProvider::new(Script::from_json(SCRIPT)?);
    let chat = Chat::new(Agent::new("meteorologist", model).tool(weather), MemoryStore::new())?;

    for said in ["How is the weather in Paris?", "And the weather in Atlantis?"] {
        let outcome = chat.session("conv-1").send(said).await;
        let ChatTurnOutcome::Completed(turn) = outcome else { panic!("{outcome:?}") };
        // The call, its result, the reply: a turn is all of it.
        for message in &turn.replies {
            println!("{}: {}", message.role.as_str(), message.text());
        }
    }
    Ok(())
}
