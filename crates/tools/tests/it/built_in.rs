//! The built-in tools, through a toolbox.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use singletree_env::{Clock, RuntimeTimer, Timestamp};
use singletree_llm::{BoxFuture, Schema};
use singletree_tools::{
    Calculator, CallOrigin, ClockTool, Effect, HttpGet, IdempotencyKey, NoteStore, Notes, OutboxMessage,
    OutboxStore, OutboxTool, Output, Recovery, Result, Tool, ToolLimits, Toolbox, UnavailableStore,
};

use crate::{call, key};

/// Keeps notes and messages in memory.
#[derive(Debug, Default)]
struct MemoryToolStore {
    notes: Mutex<BTreeMap<(String, String), Vec<String>>>,
    messages: Mutex<BTreeMap<String, OutboxMessage>>,
}

fn owner(origin: &CallOrigin) -> (String, String) {
    (origin.tenant.clone(), origin.session.clone())
}

impl NoteStore for MemoryToolStore {
    fn add_note<'a>(&'a self, origin: &'a CallOrigin, text: &'a str) -> BoxFuture<'a, Result<()>> {
        self.notes.lock().expect("whole").entry(owner(origin)).or_default().push(text.to_owned());
        Box::pin(async { Ok(()) })
    }

    fn list_notes<'a>(&'a self, origin: &'a CallOrigin) -> BoxFuture<'a, Result<Vec<String>>> {
        let notes = self.notes.lock().expect("whole").get(&owner(origin)).cloned().unwrap_or_default();
        Box::pin(async { Ok(notes) })
    }
}

impl OutboxStore for MemoryToolStore {
    fn put_message<'a>(
        &'a self,
        _: &'a CallOrigin,
        key: &'a IdempotencyKey,
        message: &'a OutboxMessage,
    ) -> BoxFuture<'a, Result<()>> {
        let mut messages = self.messages.lock().expect("whole");
        messages.entry(key.to_string()).or_insert_with(|| message.clone());
        Box::pin(async { Ok(()) })
    }
}

#[derive(Debug)]
struct StoppedClock(Timestamp);

impl Clock for StoppedClock {
    fn now(&self) -> Timestamp {
        self.0
    }
}

fn toolbox_over<S: NoteStore + OutboxStore + 'static>(store: &Arc<S>, seconds: u64) -> Toolbox {
    let clock = Arc::new(StoppedClock(Timestamp::from_millis(i64::try_from(seconds * 1000).expect("fits"))));
    let mut tools: Vec<Arc<dyn Tool>> = vec![
        Arc::new(ClockTool::new(clock).expect("valid")),
        Arc::new(Calculator::new().expect("valid")),
        Arc::new(HttpGet::new().expect("valid")),
        Arc::new(OutboxTool::new(store.clone()).expect("valid")),
    ];
    tools.extend(Notes::new(store.clone()).build_tools().expect("valid"));
    Toolbox::new(tools, ToolLimits::standard()).expect("no duplicate")
}

fn toolbox(seconds: u64) -> Toolbox {
    toolbox_over(&Arc::new(MemoryToolStore::default()), seconds)
}

async fn check(toolbox: &Toolbox, name: &str, arguments: Value, expected: &str) {
    check_in(&CallOrigin::new("a", "s"), toolbox, name, arguments, expected).await;
}

async fn check_in(origin: &CallOrigin, toolbox: &Toolbox, name: &str, arguments: Value, expected: &str) {
    let output =
        toolbox.call_with_origin(&call(name, arguments.clone()), &key(0), Some(origin), &RuntimeTimer).await;
    assert_eq!(output.text, expected, "{name} {arguments}");
    assert_eq!(output.success, output.category.is_none(), "{name} {arguments}");
}

// spec: llm-provider §4: schemas that are part of the program are compiled late, and are right all the same.
#[test]
fn each_tool_has_a_schema_that_compiles() {
    for definition in toolbox(0).definitions().iter() {
        let compiled = Schema::compile(definition.parameters().clone());
        assert!(compiled.is_ok(), "{}: {compiled:?}", definition.name());
    }
}

#[test]
fn each_tool_says_what_it_may_change_and_how_it_recovers() {
    let toolbox = toolbox(0);
    let said: Vec<(String, Effect, Recovery)> = toolbox
        .definitions()
        .iter()
        .map(|it| {
            let tool = toolbox.find_tool(it.name()).expect("it is defined");
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
    let box_of = toolbox;
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

// INV-14
#[tokio::test]
async fn notes_are_lines_of_one_conversation() {
    let toolbox = toolbox(0);
    check(&toolbox, "notes_list", json!({}), "There are no such notes.").await;
    check(&toolbox, "notes_add", json!({"text": "Buy\n milk "}), "Noted: Buy milk").await;
    check(&toolbox, "notes_add", json!({"text": "Call A"}), "Noted: Call A").await;
    check(&toolbox, "notes_add", json!({"text": "Sell MILK"}), "Noted: Sell MILK").await;
    check(&toolbox, "notes_list", json!({}), "Buy milk\nCall A\nSell MILK").await;
    check(&toolbox, "notes_search", json!({"text": "milk"}), "Buy milk\nSell MILK").await;
    let empty = "error: the arguments cannot be used: a note must not be empty";
    check(&toolbox, "notes_add", json!({"text": " \n"}), empty).await;
    for other in [CallOrigin::new("b", "s"), CallOrigin::new("a", "t")] {
        check_in(&other, &toolbox, "notes_list", json!({}), "There are no such notes.").await;
        check_in(&other, &toolbox, "notes_search", json!({"text": "milk"}), "There are no such notes.").await;
    }
}

// INV-14: data that belongs to no conversation would belong to all of them.
#[tokio::test]
async fn outside_of_a_conversation_nothing_is_kept_or_told() {
    let store = Arc::new(MemoryToolStore::default());
    let toolbox = toolbox_over(&store, 0);
    for (name, arguments) in [
        ("notes_add", json!({"text": "x"})),
        ("notes_list", json!({})),
        ("notes_search", json!({"text": "x"})),
        ("send_message", json!({"to": "Bob", "body": "x"})),
    ] {
        let output = toolbox.call(&call(name, arguments), &key(0)).await;
        let refused = "error: this tool works in a conversation only; nothing was done";
        assert_eq!((output.text.as_str(), output.success), (refused, false), "{name}");
    }
    assert!(
        store.notes.lock().expect("whole").is_empty() && store.messages.lock().expect("whole").is_empty()
    );
}

#[tokio::test]
async fn without_a_store_the_tools_say_so() {
    let toolbox = toolbox_over(&Arc::new(UnavailableStore), 0);
    let gone = "error: this agent has no store for its tools; nothing was done";
    check(&toolbox, "notes_add", json!({"text": "x"}), gone).await;
    check(&toolbox, "notes_list", json!({}), gone).await;
    check(&toolbox, "send_message", json!({"to": "Bob", "body": "x"}), gone).await;
}

// D7
#[tokio::test]
async fn a_message_is_handed_to_the_store_under_the_key_of_its_call() {
    let store = Arc::new(MemoryToolStore::default());
    let toolbox = toolbox_over(&store, 0);
    let origin = CallOrigin::new("a", "s");
    let message = json!({"to": "ada@example.com", "body": "Hello"});
    let other = json!({"to": "bob", "subject": "Re", "body": "Changed"});
    for (index, message) in [(0, &message), (0, &message), (0, &other), (1, &other)] {
        let output = toolbox
            .call_with_origin(
                &call("send_message", message.clone()),
                &key(index),
                Some(&origin),
                &RuntimeTimer,
            )
            .await;
        assert_eq!(output, Output::text(format!("Sent to {}.", message["to"].as_str().expect("text"))));
    }
    let kept = store.messages.lock().expect("whole").clone();
    let kept: BTreeMap<_, _> =
        kept.into_iter().map(|(key, it)| (key, serde_json::to_value(it).expect("JSON"))).collect();
    assert_eq!(kept, BTreeMap::from([(key(0).to_string(), message), (key(1).to_string(), other)]));
    let problem = "error: the arguments cannot be used: `to` must be one line of text";
    check(&toolbox, "send_message", json!({"to": "a\nb", "body": ""}), problem).await;
}
