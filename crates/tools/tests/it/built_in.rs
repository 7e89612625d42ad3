//! The built-in tools, through a toolbox.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use serde_json::{Value, json};
use singletree_llm::Schema;
use singletree_tools::{
    Calculator, Clock, Effect, HttpGet, Notes, Outbox, Output, Recovery, Tool, ToolLimits, Toolbox,
};

use crate::{call, key};

fn toolbox(folder: &Path, seconds: u64) -> Toolbox {
    let now = move || UNIX_EPOCH + Duration::from_secs(seconds);
    let mut tools: Vec<Arc<dyn Tool>> = vec![
        Arc::new(Clock::new(now).expect("valid")),
        Arc::new(Calculator::new().expect("valid")),
        Arc::new(HttpGet::new().expect("valid")),
        Arc::new(Outbox::new(folder.join("outbox")).expect("valid")),
    ];
    tools.extend(Notes::new(folder.join("notes/notes.txt")).tools().expect("valid"));
    Toolbox::new(tools, ToolLimits::standard()).expect("no duplicate")
}

async fn check(toolbox: &Toolbox, name: &str, arguments: Value, expected: &str) {
    let output = toolbox.call(&call(name, arguments.clone()), &key(0)).await;
    assert_eq!(output.text, expected, "{name} {arguments}");
    assert_eq!(output.success, output.category.is_none(), "{name} {arguments}");
}

// spec: llm-provider §4: schemas that are part of the program are compiled late, and are right all the same.
#[test]
fn each_tool_has_a_schema_that_compiles() {
    let folder = tempfile::tempdir().expect("a folder");
    for definition in toolbox(folder.path(), 0).definitions().iter() {
        let compiled = Schema::compile(definition.parameters().clone());
        assert!(compiled.is_ok(), "{}: {compiled:?}", definition.name());
    }
}

#[test]
fn each_tool_says_what_it_may_change_and_how_it_recovers() {
    let folder = tempfile::tempdir().expect("a folder");
    let toolbox = toolbox(folder.path(), 0);
    let said: Vec<(String, Effect, Recovery)> = toolbox
        .definitions()
        .iter()
        .map(|it| {
            let tool = toolbox.get(it.name()).expect("it is defined");
            (it.name().to_owned(), tool.effect(), tool.on_unknown_outcome())
        })
        .collect();
    let expected = [
        ("clock", Effect::Read, Recovery::Rerun),
        ("calculator", Effect::Read, Recovery::Rerun),
        ("http_get", Effect::Read, Recovery::Rerun),
        ("send_message", Effect::Destructive, Recovery::Rerun),
        ("notes_add", Effect::Local, Recovery::Report),
        ("notes_list", Effect::Read, Recovery::Rerun),
        ("notes_search", Effect::Read, Recovery::Rerun),
    ];
    let expected = expected.map(|(name, effect, recovery)| (name.to_owned(), effect, recovery));
    assert_eq!(said, expected);
}

#[tokio::test]
async fn clock_and_calculator_answer_or_say_why_not() {
    let folder = tempfile::tempdir().expect("a folder");
    let box_of = |seconds| toolbox(folder.path(), seconds);
    check(&box_of(1_700_000_000), "clock", json!({}), "2023-11-14T22:13:20Z").await;
    let far = "error: the clock stands outside the years 1970 to 9999";
    check(&box_of(253_402_300_800), "clock", json!({}), far).await;
    let toolbox = box_of(0);
    check(&toolbox, "calculator", json!({"expression": "2 * (3 + 4)"}), "14").await;
    check(&toolbox, "calculator", json!({"expression": "1 / 0"}), "error: division by zero").await;
    let missing =
        "error: the arguments do not fit the schema: at the root: \"expression\" is a required property";
    check(&toolbox, "calculator", json!({}), missing).await;
}

#[tokio::test]
async fn notes_are_lines_that_survive_a_torn_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let toolbox = toolbox(folder.path(), 0);
    check(&toolbox, "notes_list", json!({}), "There are no such notes.").await;
    check(&toolbox, "notes_add", json!({"text": "Buy\n milk "}), "Noted: Buy milk").await;
    let path = folder.path().join("notes/notes.txt");
    fs::write(&path, "Buy milk\nCall A").expect("writes");
    check(&toolbox, "notes_add", json!({"text": "Sell MILK"}), "Noted: Sell MILK").await;
    assert_eq!(fs::read_to_string(&path).expect("reads"), "Buy milk\nCall A\nSell MILK\n");
    check(&toolbox, "notes_list", json!({}), "Buy milk\nCall A\nSell MILK").await;
    check(&toolbox, "notes_search", json!({"text": "milk"}), "Buy milk\nSell MILK").await;
    let empty = "error: the arguments cannot be used: a note must not be empty";
    check(&toolbox, "notes_add", json!({"text": " \n"}), empty).await;
}

// D7
#[tokio::test]
async fn a_message_that_is_sent_again_under_its_key_is_sent_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let outbox = folder.path().join("outbox");
    fs::create_dir_all(&outbox).expect("a folder");
    // What a crash between draft and rename leaves behind.
    fs::write(outbox.join(format!(".{}.tmp", key(0))), "torn and longer than the message is; ".repeat(9))
        .expect("writes");
    let toolbox = toolbox(folder.path(), 0);
    let message = json!({"to": "ada@example.com", "body": "Hello"});
    for _ in 0..2 {
        let output = toolbox.call(&call("send_message", message.clone()), &key(0)).await;
        assert_eq!(output, Output::text("Sent to ada@example.com."));
    }
    let other = json!({"to": "bob", "subject": "Re", "body": "Changed"});
    toolbox.call(&call("send_message", other.clone()), &key(0)).await;
    toolbox.call(&call("send_message", other.clone()), &key(1)).await;

    let mut names: Vec<String> = fs::read_dir(&outbox)
        .expect("a folder")
        .map(|it| it.expect("an entry").file_name().into_string().expect("text"))
        .collect();
    names.sort();
    let mut expected = [0, 1].map(|it| format!("{}.json", key(it)));
    expected.sort();
    assert_eq!(names, expected);
    for (index, expected) in [(0, message), (1, other)] {
        let text = fs::read_to_string(outbox.join(format!("{}.json", key(index)))).expect("reads");
        assert_eq!(serde_json::from_str::<Value>(&text).expect("JSON"), expected);
    }
    let problem = "error: the arguments cannot be used: `to` must be one line of text";
    check(&toolbox, "send_message", json!({"to": "a\nb", "body": ""}), problem).await;
}
