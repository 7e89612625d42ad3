//! The README's example. The code between the marks is the README's, checked to be equal.

use std::path::Path;

use singletree::{Answer, Chat, ChatTurnOutcome, SignalAddress, SqliteStore};

// README block 1
use singletree::{ChatMessage, Ctx, END, Graph, Messages, NodeResult, Signal, State};

#[derive(State)]
struct Support {
    #[state(append)]
    messages: Messages,
    approved: bool,
}

async fn gate(cx: Ctx<Support>) -> NodeResult<Support> {
    cx.suspend(Signal::new("approval").with("action", "send_email")).await // goes on after this node, days later
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
// end of block 1

/// The README's second block; the file and what is asserted are the test's.
async fn block_2(path: &Path) -> Result<(Chat, [ChatTurnOutcome; 2]), Box<dyn std::error::Error>> {
    let chat = Chat::new(support()?, SqliteStore::open(path).await?)?;
    let first = chat.send("conv-1", ChatMessage::user("Send it.")).await; // suspended
    let answer = Answer::new(serde_json::from_str(r#"{"approved": true}"#)?);
    let turn =
        chat.answer(SignalAddress::Signal("approval".into()), answer).await?;
    let second = turn.outcome().await; // completed: "Sent."
    Ok((chat, [first, second.as_ref().clone()]))
}

// spec: harness-chat §5, §8, suspension §3, §7
#[tokio::test]
async fn the_readme_suspends_is_approved_and_asks_again() {
    let folder = tempfile::tempdir().unwrap();
    let (chat, [first, second]) = block_2(&folder.path().join("chat.db")).await.unwrap();
    let ChatTurnOutcome::Suspended(paused) = first else { panic!("{first:?}") };
    assert_eq!(paused.signal_descriptor.signal_id, "approval");
    let ChatTurnOutcome::Completed(done) = second else { panic!("{second:?}") };
    assert_eq!(done.replies.iter().map(|it| it.text().into_owned()).collect::<Vec<_>>(), ["Sent."]);
    let again = chat.send("conv-1", ChatMessage::user("Send it.")).await;
    assert_eq!(again.as_str(), "suspended", "the approval did not outlive its turn: {again:?}");
}

/// Code without layout: what stays when white space goes.
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
    assert_eq!(blocks.len(), 2);
    let between = |from: &str, to: &str| source.split(from).nth(1).unwrap().split(to).next().unwrap();
    let (one, start) = (between("// README block 1\n", "// end of block 1"), "#[derive(State)]");
    let body = |code: &str| squeezed(code.split(start).nth(1).unwrap());
    assert_eq!(body(blocks[0]), body(one));
    for line in blocks[1].lines().filter(|it| it.starts_with("let chat") || it.starts_with("let answer")) {
        let wanted = squeezed(line).replace("\"chat.db\"", "path");
        assert!(squeezed(source).contains(&wanted), "{line}");
    }
}
