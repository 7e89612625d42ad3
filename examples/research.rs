//! An agent as a node of another graph: it works on messages of its own, and only its finding comes back.
//!
//! ```sh
//! cargo run -p singletree --example research
//! ```
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use singletree::engine::Projection;
use singletree::llm::{Script, ScriptedProvider};
use singletree::tools::Calculator;
use singletree::{
    Agent, Chat, ChatMessage, ChatTurnOutcome, Ctx, END, Graph, MemoryStore, Messages, NodeResult, State,
};

#[derive(State)]
struct Desk {
    #[state(append)]
    messages: Messages,
    // Begins anew with each message, so it does not append.
    notes: Messages,
}

async fn brief(cx: Ctx<Desk>) -> NodeResult<Desk> {
    let asked = cx.state().messages.last().map(|message| message.text().into_owned()).unwrap_or_default();
    Ok(Desk::update().notes([ChatMessage::user(format!("Find out: {asked}"))]))
}

async fn report(cx: Ctx<Desk>) -> NodeResult<Desk> {
    let found = cx.state().notes.last().map(|note| note.text().into_owned()).unwrap_or_default();
    Ok(Desk::update().messages([ChatMessage::assistant(format!("My colleague says: {found}"))]))
}

const SCRIPT: &str = r#"{
  "model": "script",
  "rules": [
    { "when": { "user": ["Find out: {a} times {b}?"] },
      "then": { "calls": [{ "tool": "calculator", "arguments": { "expression": "{a} * {b}" } }] } },
    { "when": { "user": ["*"], "results": [{ "tool": "calculator", "content": "{product}" }] },
      "then": { "reply": "it is {product}." } }
  ]
}"#;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let model = ScriptedProvider::new(Script::from_json(SCRIPT)?);
    let research = Agent::new("research", model).tool(Calculator::new).graph()?;

    let graph = Graph::<Desk>::builder()
        .node("brief", brief)
        .subgraph(
            "research",
            &research,
            Projection::by_name().inputs([("messages", "notes")]).outputs([("notes", "messages")]),
        )
        .node("report", report)
        .edge("brief", "research")
        .edge("research", "report")
        .edge("report", END)
        .entry("brief")
        .compile()?;
    let chat = Chat::new(graph, MemoryStore::new())?;

    let outcome = chat.session("conv-1").send("6 times 7?").await;
    let ChatTurnOutcome::Completed(turn) = outcome else { panic!("{outcome:?}") };
    turn.replies.iter().for_each(|reply| println!("{}", reply.text()));
    Ok(())
}
