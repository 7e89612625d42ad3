//! The shortest agent: a model, a name, a conversation.
//!
//! ```sh
//! cargo run -p singletree --example hello
//! ```
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use singletree::llm::{Script, ScriptedProvider};
use singletree::{Agent, Chat, ChatTurnOutcome, MemoryStore};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // A model made of data: no key, no network. `HttpProvider` is one that thinks.
    let model = ScriptedProvider::new(Script::replies(["Hello.", "Hello again."]));
    let greeter = Agent::new("greeter", model).instructions("Be brief.");
    let chat = Chat::new(greeter, MemoryStore::new())?;

    for said in ["Hi!", "Hi again!"] {
        match chat.session("conv-1").send(said).await {
            ChatTurnOutcome::Completed(turn) => {
                turn.replies.iter().for_each(|reply| println!("{}", reply.text()))
            }
            other => println!("{}", other.as_str()),
        }
    }
    Ok(())
}
