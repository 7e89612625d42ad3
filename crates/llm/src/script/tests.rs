//! Scripts that are refused, and scripts that answer.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

use super::*;
use crate::{
    BoxFuture, ChatMessage, InstantTimer, Map, ModelFinishReason, Provider, Request, ResponseDelta,
    ResponseLimits, Timer, ToolCall, ToolDefinition, complete_streaming,
};

const SCRIPT: &str = r#"{
  "model": "demo",
  "rules": [
    {"when": {"user": ["add {a} and {b}"]},
     "then": {"reply": "One moment.", "calls": [
        {"tool": "calculator", "arguments": {"expression": "{a} + {b}", "deep": [{"x": "{b}"}]}},
        {"tool": "clock", "arguments": {}}]}},
    {"when": {"user": ["add *"], "results": [
        {"tool": "calculator", "content": "{sum}"}, {"tool": "clock"}]},
     "then": {"reply": "That makes {sum}, in turn {turn}."}},
    {"when": {"user": ["who am i"], "earlier_user": ["i am {name}"]}, "then": {"reply": "You are {name}."}},
    {"when": {"user": ["hello"], "system": ["*pirate*"]}, "then": {"reply": "Ahoy!"}},
    {"when": {"user": ["hello"]}, "then": {"thinking": "A greeting.", "reply": "Hello there.", "delay_ms": 5}},
    {"when": {"user": ["fail"]}, "then": {"reply": "I was about", "error":
        {"category": "provider_rate_limit", "message": "slow down", "retry_after_ms": 1500}}},
    {"when": {"user": ["stammer"]}, "then": {"calls": [{"tool": "clock", "raw_arguments": "{\"a"}]}},
    {"when": {"user": ["break"]}, "then": {"finish": "error", "calls": [{"tool": "clock", "raw_arguments": "{\"a"}]}}
  ],
  "fallback": {"reply": "I know only {{rules}."}
}"#;

#[derive(Debug, Default)]
struct Recorded(Mutex<Vec<Duration>>);

impl Timer for Recorded {
    fn sleep_for(&self, length: Duration) -> BoxFuture<'_, ()> {
        self.0.lock().expect("no panic holds it").push(length);
        InstantTimer.sleep_for(length)
    }
}

fn model() -> ScriptedProvider {
    ScriptedProvider::new(Script::from_json(SCRIPT).expect("the script reads"))
}

fn request(messages: impl IntoIterator<Item = ChatMessage>) -> Request {
    let tool = |name| ToolDefinition::new(name, "", json!({"type": "object"})).expect("valid");
    Request::new(messages.into_iter().map(Arc::new).collect()).with_tools([tool("calculator"), tool("clock")])
}

/// Asks both ways, and checks that they agree.
async fn ask(messages: impl IntoIterator<Item = ChatMessage>) -> Result<(ChatMessage, ModelFinishReason)> {
    let (model, request) = (model(), request(messages));
    let whole = model.complete(&request).await;
    let streamed = complete_streaming(&model, &request, ResponseLimits::standard(), |_| ()).await;
    match (whole, streamed) {
        (Ok(whole), Ok(streamed)) => {
            assert_eq!(whole, streamed);
            assert_eq!(whole.raw["model"], "demo");
            Ok((whole.message, whole.finish_reason))
        }
        (Err(whole), Err(streamed)) => {
            assert_eq!(whole.to_string(), streamed.to_string());
            Err(whole)
        }
        (whole, streamed) => panic!("{whole:?} is not {streamed:?}"),
    }
}

async fn says(messages: impl IntoIterator<Item = ChatMessage>, expected: &str) {
    let (message, reason) = ask(messages).await.expect("answers");
    assert_eq!((message.text().as_ref(), reason), (expected, ModelFinishReason::Stop));
}

fn object(value: Value) -> Map {
    value.as_object().expect("an object").clone()
}

#[tokio::test]
async fn a_rule_calls_tools_and_a_changed_result_changes_the_reply() {
    let asked = ChatMessage::user("Add 2 and 3");
    let (calling, reason) = ask([asked.clone()]).await.expect("answers");
    let calls = [
        ToolCall::new("call_1_0", "calculator", object(json!({"expression": "2 + 3", "deep": [{"x": "3"}]}))),
        ToolCall::new("call_1_1", "clock", Map::new()),
    ];
    assert_eq!(calling, ChatMessage::assistant("One moment.").with_tool_calls(calls));
    assert_eq!(reason, ModelFinishReason::ToolCalls);

    for (sum, reply) in [("5", "That makes 5, in turn 1."), ("six {a}", "That makes six {a}, in turn 1.")] {
        let results = [ChatMessage::tool("call_1_0", sum), ChatMessage::tool("call_1_1", "noon")];
        says([asked.clone(), calling.clone()].into_iter().chain(results), reply).await;
    }
    let other_order = [ChatMessage::tool("call_1_1", "noon"), ChatMessage::tool("call_1_0", "5")];
    says([asked, calling].into_iter().chain(other_order), "I know only {rules}.").await;
}

// INV-6: ids repeat in a history; a result belongs to the message right before it.
#[tokio::test]
async fn only_results_after_the_last_user_message_count() {
    let asked = ChatMessage::user("add 2 and 3");
    let (calling, _) = ask([asked.clone()]).await.expect("answers");
    let results = [ChatMessage::tool("call_1_0", "5"), ChatMessage::tool("call_1_1", "noon")];
    let first: Vec<ChatMessage> = [asked.clone(), calling].into_iter().chain(results).collect();
    let again = first.iter().cloned().chain([ChatMessage::assistant("That makes 5."), asked]);
    let (message, reason) = ask(again.clone()).await.expect("answers");
    let ids: Vec<&str> = message.tool_calls.iter().map(|it| it.id.as_str()).collect();
    assert_eq!((ids, reason), (vec!["call_6_0", "call_6_1"], ModelFinishReason::ToolCalls));

    let swapped = ChatMessage::assistant("").with_tool_calls([
        ToolCall::new("call_1_1", "calculator", Map::new()),
        ToolCall::new("call_1_0", "clock", Map::new()),
    ]);
    let results = [ChatMessage::tool("call_1_1", "7"), ChatMessage::tool("call_1_0", "noon")];
    let history = again.chain([swapped]).chain(results);
    says(history, "That makes 7, in turn 2.").await;
}

#[tokio::test]
async fn rules_look_at_system_text_and_earlier_messages() {
    let user = ChatMessage::user;
    says([ChatMessage::system("Be a pirate."), user("hello")], "Ahoy!").await;
    says([user("who am i")], "I know only {rules}.").await;
    let history = [user("I am Ada"), user("I am Bob"), ChatMessage::assistant("ok")];
    says(history.into_iter().chain([user("who am I")]), "You are Bob.").await;
}

#[tokio::test]
async fn errors_and_malformed_calls_come_out_by_category() {
    let user = |text: &str| [ChatMessage::user(text)];
    let error = ask(user("fail")).await.expect_err("fails");
    assert_eq!(error.category(), "provider_rate_limit");
    assert_eq!(error.to_string(), "slow down");
    assert_eq!(error.retry_after(), Some(Duration::from_millis(1500)));
    assert!(error.is_transient());
    let error = ask(user("stammer")).await.expect_err("fails");
    assert_eq!(error.category(), "provider_invalid_response");
    let (message, reason) = ask(user("break")).await.expect("a degraded response passes");
    assert_eq!((message.tool_calls[0].arguments.clone(), reason), (None, ModelFinishReason::Error));
}

#[tokio::test]
async fn it_streams_word_by_word_with_a_pause_before_each_delta() {
    let pace = Arc::new(Recorded::default());
    let (model, request) = (model().with_pace(pace.clone()), request([ChatMessage::user("hello")]));
    let mut shown = Vec::new();
    let limits = ResponseLimits::standard();
    complete_streaming(&model, &request, limits, |it| shown.push(it.clone())).await.expect("answers");
    let end = shown.pop();
    assert!(matches!(end, Some(ResponseDelta::Finish { .. })), "{end:?}");
    let words = [
        ResponseDelta::from_thinking("A "),
        ResponseDelta::from_thinking("greeting."),
        ResponseDelta::from_text("Hello "),
    ];
    assert_eq!(shown, words.into_iter().chain([ResponseDelta::from_text("there.")]).collect::<Vec<_>>());
    let pauses = pace.0.lock().expect("no panic holds it").clone();
    assert_eq!(pauses, vec![Duration::from_millis(5); 5]);
}

#[tokio::test]
async fn a_list_of_replies_is_a_script_too() {
    let model = ScriptedProvider::new(Script::replies(["one {x}", "two"]));
    let mut messages = Vec::new();
    for expected in ["one {x}", "two"] {
        messages.push(ChatMessage::user("go on"));
        let response = model.complete(&request(messages.clone())).await.expect("answers");
        assert_eq!(response.message.text(), expected);
        messages.push(response.message);
    }
    messages.push(ChatMessage::user("go on"));
    let error = model.complete(&request(messages)).await.expect_err("no rule is left");
    assert_eq!(error.to_string(), "no rule of the script fits \"go on\"");
    assert_eq!(error.category(), "provider_invalid_request");
}

#[test]
fn a_script_that_cannot_be_carried_out_is_refused() {
    for (rule, expected) in [
        (r#"{"when": {}, "then": {}}"#, "rules[0].then: needs a reply, calls or an error"),
        (r#"{"when": {}, "then": {"reply": "{a}"}}"#, "rules[0].then: {a} is kept by no pattern"),
        (
            r#"{"when": {"user": ["{a}", "x"]}, "then": {"reply": "y"}}"#,
            "rules[0].when.user: all patterns of a list must keep the same names",
        ),
        (
            r#"{"when": {"user": ["{a}"], "earlier_user": ["{a}"]}, "then": {"reply": "y"}}"#,
            "rules[0].when.earlier_user: {a} is kept twice",
        ),
        (
            r#"{"when": {}, "then": {"calls": [{"tool": "t"}]}}"#,
            "rules[0].then.calls[0]: needs either arguments or raw_arguments",
        ),
        (
            r#"{"when": {"users": []}, "then": {"reply": "y"}}"#,
            "the script does not read at line 1, column 42",
        ),
    ] {
        let text = format!(r#"{{"model": "m", "rules": [{rule}]}}"#);
        let error = Script::from_json(&text).expect_err(rule);
        assert_eq!((error.category(), error.to_string().as_str()), ("script_invalid", expected));
    }
}

const REFERENCE: &str = include_str!("../../../../docs/script.md");

#[test]
fn the_scripts_of_the_reference_are_read() {
    let blocks = REFERENCE.split("```json\n").skip(1).filter_map(|it| it.split("```").next());
    let read: Vec<_> =
        blocks.map(|it| Script::from_json(it).map(drop).map_err(|it| it.to_string())).collect();
    assert_eq!(read, [Ok(()), Ok(())]);
}

#[test]
fn the_reference_has_every_key_and_every_word_that_a_script_may_have() {
    let rule =
        |when: &str, then: &str| format!(r#"{{"model":"m","rules":[{{"when":{when},"then":{then}}}]}}"#);
    let mut seen = 0;
    for script in [
        r#"{"?":1}"#.to_owned(),
        r#"{"model":"m","rules":[{"?":1}]}"#.to_owned(),
        rule(r#"{"?":1}"#, "{}"),
        rule(r#"{"results":[{"?":1}]}"#, "{}"),
        rule("{}", r#"{"?":1}"#),
        rule("{}", r#"{"calls":[{"?":1}]}"#),
        rule("{}", r#"{"error":{"?":1}}"#),
        rule("{}", r#"{"error":{"category":"?"}}"#),
        rule("{}", r#"{"finish":"?"}"#),
    ] {
        // The parser's error lists the words that it expected.
        let refused =
            std::error::Error::source(&Script::from_json(&script).unwrap_err()).unwrap().to_string();
        let wanted = refused.split_once("expected ").expect("it is about a word").1;
        for word in wanted.split('`').skip(1).step_by(2) {
            assert!(
                REFERENCE.contains(&format!("`{word}`")) || REFERENCE.contains(&format!("\"{word}\"")),
                "{word}"
            );
            seen += 1;
        }
    }
    assert_eq!(seen, 37);
}
