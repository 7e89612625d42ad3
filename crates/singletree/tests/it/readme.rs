//! The README's program. The code between the marks is the README's, checked to be equal.
#![expect(clippy::print_stdout, reason = "the program shows what it does")]

use std::path::Path;

use singletree::ChatTurnOutcome;

// the README's program
use singletree::{Chat, ChatMessage, Ctx, END, Graph, Messages, NodeResult, Signal, SqliteStore, State};

#[derive(State)]
struct Support {
    #[state(append)]
    messages: Messages,
    approved: bool,
}

async fn gate(cx: Ctx<Support>) -> NodeResult<Support> {
    cx.suspend(Signal::new("approval").approving("send_email")).await // goes on after this node, days later
}

async fn send(cx: Ctx<Support>) -> NodeResult<Support> {
    let reply = if cx.state().approved { "Sent." } else { "Not sent." };
    // An approval never outlives its turn.
    Ok(Support::update().approved(false).messages([ChatMessage::assistant(reply)]))
}

fn support() -> Result<Graph<Support>, singletree::engine::Error> {
    Graph::<Support>::builder()
        .node("gate", gate)
        .node("send", send)
        .edge("gate", "send")
        .edge("send", END)
        .entry("gate")
        .compile() // every structural error, by category
}

async fn run(path: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let chat = Chat::new(support()?, SqliteStore::open(path).await?)?;
    let session = chat.session("conv-1");
    let outcome = session.send("Send it.").await;
    println!("{}", outcome.as_str()); // suspended

    // Now or in a year, here or in another process. The answer names the wait and the exact action.
    for wait in session.pending().await? {
        println!("{}", wait.approve().await?.as_str()); // completed: "Sent."
    }
    Ok(())
}
// end of the program

// spec: harness-chat §5, §8, suspension §3, §7
#[tokio::test]
async fn the_readme_suspends_is_approved_and_asks_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("chat.db");
    run(&path).await.unwrap();
    let chat = Chat::new(support().unwrap(), SqliteStore::open(&path).await.unwrap()).unwrap();
    let session = chat.session("conv-1");
    let history = session.history(0..10).await.unwrap();
    let said: Vec<_> = history.iter().map(|it| it.message.text().into_owned()).collect();
    assert_eq!(said, ["Send it.", "Sent."]);
    let again = session.send("Send it.").await;
    let ChatTurnOutcome::Suspended(paused) = again else {
        panic!("the approval outlived its turn: {again:?}")
    };
    assert_eq!(paused.signal_descriptor.signal_id, "approval");
    assert_eq!(paused.signal_descriptor.metadata, Some(serde_json::json!({ "action": "send_email" })));
    assert!(paused.wait.action.is_some(), "it is bound to the action");
    // An answer that names another action, or none, is refused.
    let wait = session.pending().await.unwrap().pop().unwrap();
    let wait = wait.wait();
    let other = wait.answer([("approved", true)]).to(wait.wait.no, "another");
    let refused = chat.answer(wait.address(), other).await.unwrap_err();
    assert_eq!(refused.error_category, "chat_signal_mismatch");
    let bare = singletree::Answer::new(serde_json::from_str(r#"{"approved": true}"#).unwrap());
    assert_eq!(chat.answer(wait.address(), bare).await.unwrap_err().error_category, "chat_signal_mismatch");
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
        readme.split("```rust\n").skip(1).filter_map(|it| it.split("```").next()).collect();
    let between = |from: &str, to: &str| source.split(from).nth(1).unwrap().split(to).next().unwrap();
    let run = squeezed(between("// the README's program\n", "// end of the program"));
    let main = squeezed("#[tokio::main(flavor = \"current_thread\")] async fn main()");
    let run = run
        .replace("asyncfnrun(path:&Path)", &main)
        .replace("SqliteStore::open(path)", "SqliteStore::open(\"chat.db\")");
    assert_eq!(blocks.iter().map(|it| squeezed(it)).collect::<Vec<_>>(), [run]);
}
