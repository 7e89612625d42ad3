//! A recorded call is played unchanged.

use std::sync::Arc;

use futures_util::{FutureExt, StreamExt};
use serde_json::json;

use super::request::{digest_request, request_to_json};
use super::*;
use crate::{
    ChatMessage, ContentBlock, Error, ModelFinishReason, Provider, Request, Response, ResponseDelta,
    ResponseLimits, RuntimeConfig, Schema, Script, ScriptedProvider, ToolChoicePolicy, ToolDefinition,
    complete_streaming,
};

const SCRIPT: &str = r#"{
  "model": "demo",
  "rules": [
    {"when": {"user": ["hello"]}, "then": {"thinking": "A greeting.", "reply": "Hello there."}},
    {"when": {"user": ["clock"]}, "then": {"calls": [{"tool": "clock", "arguments": {"zone": "UTC"}}]}},
    {"when": {"user": ["fail"]}, "then": {"reply": "I was about", "error":
        {"category": "provider_rate_limit", "message": "slow down", "retry_after_ms": 1500}}},
    {"when": {"user": ["person"]}, "then": {"reply": "no JSON"}}
  ]
}"#;

fn now<T>(future: impl Future<Output = T>) -> T {
    future.now_or_never().expect("nothing here waits")
}

fn demo() -> CassetteRecorder<ScriptedProvider> {
    CassetteRecorder::new(ScriptedProvider::new(Script::from_json(SCRIPT).unwrap()))
}

fn user(text: &str) -> Request {
    Request::new(vec![Arc::new(ChatMessage::user(text))])
}

fn clock() -> Request {
    let tool = ToolDefinition::new("clock", "Tells the time.", json!({"type": "object"})).unwrap();
    user("clock").with_tools(vec![tool]).with_tool_choice(ToolChoicePolicy::Required)
}

fn person() -> Request {
    user("person").with_response_schema(Arc::new(Schema::compile(json!({"type": "object"})).unwrap()))
}

type Heard = (Vec<ResponseDelta>, Result<Response, String>);

/// Everything that can be told of an error.
fn told(error: &Error) -> String {
    let more = match error {
        Error::StructuredOutputInvalid(it) => {
            format!("{:?} {} {}", it, it.output_content, it.response_schema)
        }
        _ => String::new(),
    };
    format!("{} {error} {:?} {:?} {more}", error.category(), error.http_status(), error.retry_after())
}

fn ask(provider: &dyn Provider, request: &Request) -> Heard {
    (Vec::new(), now(provider.complete(request)).map_err(|it| told(&it)))
}

fn listen(provider: &dyn Provider, request: &Request) -> Heard {
    let mut deltas = Vec::new();
    let limits = ResponseLimits::standard();
    let ended = now(complete_streaming(provider, request, limits, |it| deltas.push(it.clone())));
    (deltas, ended.map_err(|it| told(&it)))
}

#[test]
fn each_call_is_played_as_it_was_recorded_whole_and_streamed() {
    for request in [user("hello"), clock(), user("fail"), person()] {
        for how in [ask, listen] {
            let recorder = demo();
            let recorded = how(&recorder, &request);
            let replayer = CassetteReplayer::from_cassette_text(&recorder.cassette_text()).unwrap();
            assert_eq!((replayer.model_name(), replayer.can_stream()), ("demo", true));
            assert_eq!(how(&replayer, &request), recorded);
            assert_eq!((replayer.count_played_calls(), replayer.count_unplayed_calls()), (1, 0));
        }
    }
}

#[test]
fn a_streamed_call_can_be_asked_whole_and_not_the_other_way() {
    let recorder = demo();
    let (_, recorded) = listen(&recorder, &user("hello"));
    ask(&recorder, &clock()).1.unwrap();
    let replayer = CassetteReplayer::from_cassette_text(&recorder.cassette_text()).unwrap();
    assert_eq!(ask(&replayer, &user("hello")).1, recorded);
    let error = now(replayer.stream_deltas(&clock())).err().unwrap();
    assert_eq!(error.category(), "provider_invalid_request");
    assert_eq!(replayer.count_unplayed_calls(), 1);
}

#[test]
fn the_same_request_is_answered_in_order_and_then_as_at_last() {
    let head = r#"{"cassette":1,"model":"m","streams":false}"#;
    let said = |text: &str| {
        let message = json!({"role": "assistant", "content": text});
        let answer = json!({"response": {"message": message, "finish_reason": "stop"}});
        json!({"request": request_to_json(&user("x")), "ended": answer}).to_string()
    };
    let down = json!({"request": request_to_json(&user("x")), "ended": {"error": {"category": "provider_unavailable"}}});
    let replayer = CassetteReplayer::from_cassette_text(
        &[head, &down.to_string(), &said("a"), "", &said("b")].join("\n"),
    )
    .unwrap();
    assert_eq!(replayer.count_unplayed_calls(), 3);
    let heard: Vec<_> =
        (0..4).map(|_| ask(&replayer, &user("x")).1.map(|it| it.message.text().into_owned())).collect();
    assert!(heard[0].as_ref().unwrap_err().starts_with("provider_unavailable"));
    assert_eq!(heard[1..], [Ok("a".into()), Ok("b".into()), Ok("b".into())]);
    assert_eq!((replayer.count_played_calls(), replayer.count_unplayed_calls()), (4, 0));
}

#[test]
fn a_request_that_was_not_recorded_is_told_from_the_nearest() {
    let recorder = demo();
    ask(&recorder, &user("hello")).1.unwrap();
    ask(&recorder, &clock()).1.unwrap();
    let replayer = CassetteReplayer::from_cassette_text(&recorder.cassette_text()).unwrap();
    let config = RuntimeConfig { seed: Some(1), ..RuntimeConfig::default() };
    let longer = Request::new(
        [ChatMessage::user("hello"), ChatMessage::assistant("?"), ChatMessage::user("secret words")]
            .map(Arc::new)
            .to_vec(),
    );
    for (request, what) in [
        (user("hello").with_config(config), "call 1, differs in config"),
        (longer, "call 1, differs at messages[1]"),
        (user("clock"), "call 2, differs in tools"),
        (user("other"), "call 1, differs at messages[0]"),
    ] {
        let error = now(replayer.complete(&request)).unwrap_err();
        assert_eq!((error.category(), error.is_transient()), ("provider_invalid_request", false));
        assert!(error.to_string().ends_with(what), "{error}");
        assert!(!error.to_string().contains("secret"), "{error}");
    }
    let empty =
        CassetteReplayer::from_cassette_text(r#"{"cassette":1,"model":"m","streams":false}"#).unwrap();
    assert!(now(empty.complete(&user("x"))).unwrap_err().to_string().ends_with("no calls"));
}

#[test]
fn a_digest_names_what_is_said_and_not_how_the_keys_stand() {
    let schema = |text: &str| serde_json::from_str(text).unwrap();
    let with = |it| user("x").with_tools(vec![ToolDefinition::new("t", "d", it).unwrap()]);
    let one = request_to_json(&with(schema(r#"{"type": "object", "properties": {"a": {}, "b": {}}}"#)));
    let same = request_to_json(&with(schema(r#"{"properties": {"b": {}, "a": {}}, "type": "object"}"#)));
    let other = request_to_json(&with(schema(r#"{"type": "object", "properties": {"a": {}}}"#)));
    assert_eq!(digest_request(&one), digest_request(&same));
    assert_ne!(digest_request(&one), digest_request(&other));
    // SHA-256 of {"messages":[{"content":"x","role":"user"}]}
    assert_eq!(digest_request(&request_to_json(&user("x"))), "af99da294f3b3e25");
}

#[test]
fn every_part_of_a_request_is_part_of_its_digest() {
    let extras = json!({"k": 1}).as_object().unwrap().clone();
    let with = |config: RuntimeConfig| user("x").with_config(config);
    let base = RuntimeConfig::default;
    let all = [
        user("x"),
        user("y"),
        clock(),
        clock().with_tool_choice(ToolChoicePolicy::Auto),
        clock().with_tool_choice(ToolChoicePolicy::Tool("clock".into())),
        person(),
        with(RuntimeConfig { temperature: Some(0.5), ..base() }),
        with(RuntimeConfig { max_tokens: Some(1), ..base() }),
        with(RuntimeConfig { top_p: Some(0.5), ..base() }),
        with(RuntimeConfig { seed: Some(1), ..base() }),
        with(RuntimeConfig { frequency_penalty: Some(0.5), ..base() }),
        with(RuntimeConfig { presence_penalty: Some(0.5), ..base() }),
        with(RuntimeConfig { stop_sequences: Some(vec!["s".into()]), ..base() }),
        with(RuntimeConfig { extras, ..base() }),
    ];
    let digests: std::collections::BTreeSet<String> =
        all.iter().map(|it| digest_request(&request_to_json(it))).collect();
    assert_eq!(digests.len(), all.len());
}

#[test]
fn a_malformed_cassette_is_refused_with_its_line() {
    let head = r#"{"cassette":1,"model":"m","streams":false}"#;
    let entry = |rest: &str| format!("{head}\n{{\"request\":{{\"messages\":[]}}{rest}}}");
    for (text, line) in [
        (String::new(), "line 1"),
        ("{".into(), "line 1"),
        (head.replace('1', "2"), "line 1"),
        (entry(""), "line 2"),
        (entry(r#","digest":"0000000000000000","deltas":[]"#), "line 2"),
        (entry(r#","ended":{"error":{"category":"nonsense"}}"#), "line 2"),
        (entry(r#","ended":{"error":{"category":"structured_output_invalid"}}"#), "line 2"),
        (entry(r#","deltas":[{"text":{"words":"x"}}]"#), "line 2"),
        (entry(r#","unknown":1"#), "line 2"),
    ] {
        let error = CassetteReplayer::from_cassette_text(&text).unwrap_err();
        assert_eq!(error.category(), "cassette_invalid", "{text}");
        assert!(error.to_string().contains(line), "{error}");
    }
}

// Answers from a file are checked as answers from a server are.
#[test]
fn a_malformed_answer_on_a_cassette_is_an_invalid_response() {
    let message = json!({"role": "assistant", "tool_calls": [{"id": "1", "name": "rm", "arguments": {}}]});
    let answer = json!({"response": {"message": message, "finish_reason": "tool_calls"}});
    let head = r#"{"cassette":1,"model":"m","streams":false}"#;
    let call = json!({"request": request_to_json(&user("x")), "ended": answer});
    let replayer = CassetteReplayer::from_cassette_text(&format!("{head}\n{call}")).unwrap();
    assert!(ask(&replayer, &user("x")).1.unwrap_err().starts_with("provider_invalid_response"));
}

#[test]
fn every_kind_of_delta_goes_there_and_back() {
    let signature = || Some("s".to_owned());
    let deltas = [
        ResponseDelta::Thinking { text: "t".into(), signature: signature() },
        ResponseDelta::RedactedThinking { data: "d".into() },
        ResponseDelta::Text { text: "x".into(), signature: signature() },
        ResponseDelta::ToolCall {
            index: 1,
            id: Some("i".into()),
            name: Some("n".into()),
            arguments: Some("{}".into()),
            signature: signature(),
        },
        ResponseDelta::Finish {
            reason: ModelFinishReason::ToolCalls,
            usage: crate::TokenUsage {
                total_tokens: Some(3),
                cached_tokens: Some(0),
                ..crate::TokenUsage::default()
            },
            raw: json!({"any": ["thing"]}),
        },
    ];
    for delta in deltas {
        let piece: super::entry::RecordedDelta = delta.clone().into();
        let text = serde_json::to_string(&piece).unwrap();
        let back: super::entry::RecordedDelta = serde_json::from_str(&text).unwrap();
        assert_eq!(ResponseDelta::from(back), delta, "{text}");
    }
}

#[test]
fn a_dropped_call_is_not_kept_and_a_stream_is_kept_once() {
    let recorder = demo();
    drop(recorder.complete(&user("hello")));
    let request = user("hello");
    let mut stream = now(recorder.stream_deltas(&request)).unwrap();
    assert!(now(stream.next()).is_some());
    drop(stream);
    assert_eq!(recorder.cassette_text().lines().count(), 1);
    let all: Vec<_> = now(now(recorder.stream_deltas(&request)).unwrap().collect());
    assert!(all.len() > 2);
    assert_eq!(recorder.cassette_text().lines().count(), 2);
    let mut written = Vec::new();
    recorder.write_cassette_to(&mut written).unwrap();
    assert_eq!(written, recorder.cassette_text().into_bytes());
}

#[test]
fn blocks_of_a_message_are_kept_as_blocks() {
    let recorder = demo();
    let (_, recorded) = ask(&recorder, &user("hello"));
    let replayer = CassetteReplayer::from_cassette_text(&recorder.cassette_text()).unwrap();
    let message = ask(&replayer, &user("hello")).1.unwrap().message;
    assert!(matches!(message.content.blocks()[0], ContentBlock::Thinking { .. }));
    assert_eq!(message, recorded.unwrap().message);
}
