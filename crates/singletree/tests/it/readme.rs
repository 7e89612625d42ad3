//! The README's programs. The code between the marks is the README's, checked to be equal.
#![expect(clippy::print_stdout, reason = "the program shows what it does")]

use std::path::Path;

use singletree::ChatTurnOutcome;

// the README's agent
use singletree::llm::{Script, ScriptedProvider};
use singletree::{Agent, Chat, SqliteStore, ToolContext, tool};

/// Pays money back to a customer.
#[tool(destructive)]
async fn refund(order: String, euros: u32, cx: ToolContext) -> singletree::tools::Result<String> {
    // A service that is given the key pays once, however often a crash makes this call run again.
    Ok(format!("{euros} euros for order {order}, under a key of {} letters", cx.key.as_str().len()))
}

// A model made of data, so that the program needs no key: it calls the tool, and then repeats the result.
const SCRIPT: &str = r#"{ "model": "script", "rules": [
    { "when": { "user": ["*order {order}"] },
      "then": { "calls": [{ "tool": "refund", "arguments": { "order": "{order}", "euros": 40 } }] } },
    { "when": { "user": ["*"], "results": [{ "tool": "refund", "content": "{told}" }] },
      "then": { "reply": "Done: {told}." } } ] }"#;

async fn run(path: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let model = ScriptedProvider::new(Script::from_json(SCRIPT)?);
    let clerk = Agent::new("clerk", model).instructions("You help the customers of a bookshop.").tool(refund);
    let chat = Chat::new(clerk, SqliteStore::open(path).await?)?;

    let session = chat.session("customer-1");
    let outcome = session.send("Please refund order 4711").await;
    println!("{}", outcome.as_str()); // suspended: a person must approve what cannot be undone

    // Now or in a year, here or in another process. The answer names the wait and the exact action.
    for wait in session.pending().await? {
        println!("{}", wait.approve().await?.as_str()); // completed: "Done: 40 euros for order 4711 …"
    }
    Ok(())
}
// end of the agent

/// The README's graph.
mod graph {
    // the README's graph
    use singletree::{Chat, ChatMessage, Ctx, END, Graph, MemoryStore, Messages, NodeResult, State};

    #[derive(State)]
    struct Echo {
        #[state(append)]
        messages: Messages,
    }

    async fn reply(cx: Ctx<Echo>) -> NodeResult<Echo> {
        let message =
            cx.state().messages.last().map(|message| message.text().into_owned()).unwrap_or_default();
        Ok(Echo::update().messages([ChatMessage::assistant(format!("You said: {message}"))]))
    }

    fn echo() -> Result<Chat, Box<dyn std::error::Error>> {
        let graph =
            Graph::<Echo>::builder().node("reply", reply).edge("reply", END).entry("reply").compile()?;
        Ok(Chat::new(graph, MemoryStore::new())?)
    }
    // end of the graph

    #[tokio::test]
    async fn the_readmes_graph_answers() {
        let outcome = echo().unwrap().session("conv-1").send("Hello").await;
        let singletree::ChatTurnOutcome::Completed(turn) = outcome else { panic!("{outcome:?}") };
        assert_eq!(turn.reply_text(), "You said: Hello");
    }
}

// spec: harness-chat §5, §8, suspension §3, §7
#[tokio::test]
async fn the_readme_suspends_is_approved_and_asks_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("chat.db");
    run(&path).await.unwrap();
    let model = ScriptedProvider::new(Script::from_json(SCRIPT).unwrap());
    let clerk = Agent::new("clerk", model).tool(refund);
    let chat = Chat::new(clerk, SqliteStore::open(&path).await.unwrap()).unwrap();
    let session = chat.session("customer-1");
    let history = session.history(0..10).await.unwrap();
    let said: Vec<_> = history.iter().map(|entry| entry.message.text().into_owned()).collect();
    let told = "40 euros for order 4711, under a key of 64 letters";
    assert_eq!(said, ["Please refund order 4711", "", told, &format!("Done: {told}.")]);
    let again = session.send("Please refund order 4711").await;
    let ChatTurnOutcome::Suspended(paused) = again else {
        panic!("the approval outlived its turn: {again:?}")
    };
    assert!(paused.signal_descriptor.signal_id.starts_with("apr-"), "{paused:?}");
    let metadata = paused.signal_descriptor.metadata.unwrap();
    assert_eq!(metadata["arguments"], serde_json::json!({ "order": "4711", "euros": 40 }));
    assert!(paused.wait.action.is_some(), "it is bound to the action");
    // An answer that names another action, or none, is refused.
    let wait = session.pending().await.unwrap().pop().unwrap();
    let wait = wait.wait();
    let other = wait.answer([("approved", true)]).to(wait.wait.no, "another");
    let refused = chat.answer(wait.address(), other).await.unwrap_err();
    assert_eq!(refused.category(), "chat_signal_mismatch");
    let bare = singletree::Answer::new(serde_json::from_str(r#"{"approved": true}"#).unwrap());
    assert_eq!(chat.answer(wait.address(), bare).await.unwrap_err().category(), "chat_signal_mismatch");
}

/// Returns code without its white space.
fn squeezed(code: &str) -> String {
    code.split_whitespace().collect()
}

#[test]
fn the_readme_says_what_this_test_runs() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let readme = std::fs::read_to_string(root.join("README.md")).unwrap();
    let source = include_str!("readme.rs");
    let blocks: Vec<&str> =
        readme.split("```rust\n").skip(1).filter_map(|block| block.split("```").next()).collect();
    let between = |from: &str, to: &str| {
        squeezed(source.split(from).nth(1).unwrap().split(to).next().unwrap()).replace(",)", ")")
    };
    let main = squeezed("#[tokio::main(flavor = \"current_thread\")] async fn main()");
    let agent = between("// the README's agent\n", "// end of the agent")
        .replace("asyncfnrun(path:&Path)", &main)
        .replace("SqliteStore::open(path)", "SqliteStore::open(\"chat.db\")");
    let graph = between("// the README's graph\n", "// end of the graph");
    assert_eq!(blocks.iter().map(|block| squeezed(block)).collect::<Vec<_>>(), [agent, graph]);
}
