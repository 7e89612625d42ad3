//! Answers that come event by event.

use proptest::prelude::*;
use serde_json::{Value, json};
use singletree_llm::{ChatMessage, Response, Result};

use super::{AnthropicMapping, OLD, STREAMED, WireMapping, asked, compose, play, schema};

fn start() -> Value {
    json!({"type": "message_start", "message": {
        "type": "message", "id": "m", "model": "claude-test", "role": "assistant", "content": [],
        "stop_reason": null, "stop_sequence": null, "usage": {"input_tokens": 12, "output_tokens": 1},
    }})
}

fn open(index: usize, block: Value) -> Value {
    json!({"type": "content_block_start", "index": index, "content_block": block})
}

fn delta(index: usize, delta: Value) -> Value {
    json!({"type": "content_block_delta", "index": index, "delta": delta})
}

fn close(index: usize) -> Value {
    json!({"type": "content_block_stop", "index": index})
}

fn ends(stop_reason: &str) -> [Value; 2] {
    let delta = json!({"stop_reason": stop_reason, "stop_sequence": null});
    [
        json!({"type": "message_delta", "delta": delta, "usage": {"output_tokens": 3}}),
        json!({"type": "message_stop"}),
    ]
}

fn whole(content: &[Value], stop_reason: &str) -> Value {
    json!({
        "type": "message", "id": "m", "model": "claude-test", "role": "assistant", "content": content,
        "stop_reason": stop_reason, "stop_sequence": null, "usage": {"input_tokens": 12, "output_tokens": 3},
    })
}

/// Cuts a text at characters; the first piece is empty, as servers send it.
fn pieces(text: &str, size: usize) -> Vec<String> {
    let all: Vec<char> = text.chars().collect();
    let rest = all.chunks(size.max(1)).map(|it| it.iter().collect());
    std::iter::once(String::new()).chain(rest).collect()
}

/// Streams a whole block in pieces of some characters.
fn streamed(index: usize, block: &Value, size: usize) -> Vec<Value> {
    let piece = |kind: &str, field: &str, text: &str| {
        let all = pieces(text, size).into_iter().map(|it| delta(index, json!({"type": kind, field: it})));
        all.collect::<Vec<Value>>()
    };
    let text = |field: &str| block[field].as_str().unwrap_or_default().to_owned();
    let mut first = block.clone();
    let deltas = match text("type").as_str() {
        "text" => {
            first["text"] = json!("");
            piece("text_delta", "text", &text("text"))
        }
        "thinking" => {
            first["thinking"] = json!("");
            first["signature"] = json!("");
            let mut all = piece("thinking_delta", "thinking", &text("thinking"));
            all.push(delta(index, json!({"type": "signature_delta", "signature": text("signature")})));
            all
        }
        "tool_use" => {
            first["input"] = json!({});
            piece("input_json_delta", "partial_json", &block["input"].to_string())
        }
        _ => Vec::new(),
    };
    [vec![open(index, first)], deltas, vec![close(index)]].concat()
}

fn stream(content: &[Value], stop_reason: &str, size: usize) -> Vec<Value> {
    let blocks = content.iter().enumerate().flat_map(|(at, it)| streamed(at, it, size));
    std::iter::once(start()).chain(blocks).chain(ends(stop_reason)).collect()
}

fn played(events: &[Value]) -> Result<Response> {
    play(&compose(&asked(), STREAMED).unwrap(), events)
}

#[track_caller]
fn check_invalid(events: Vec<Value>) {
    let all: Vec<Value> = std::iter::once(start()).chain(events).chain(ends("end_turn")).collect();
    assert_eq!(played(&all).unwrap_err().category(), "provider_invalid_response");
}

fn text() -> Value {
    json!({"type": "text", "text": ""})
}

fn call(id: &str) -> Value {
    json!({"type": "tool_use", "id": id, "name": "t", "input": {}})
}

fn says(index: usize, text: &str) -> Value {
    delta(index, json!({"type": "text_delta", "text": text}))
}

fn argues(index: usize, json: &str) -> Value {
    delta(index, json!({"type": "input_json_delta", "partial_json": json}))
}

#[test]
fn calls_may_come_interleaved_and_pings_and_news_are_passed_over() {
    let events = [
        vec![start(), json!({"type": "ping"}), open(0, call("a")), open(1, call("b"))],
        vec![argues(1, "{\"y\":"), argues(0, ""), argues(0, "{\"x\":1"), argues(1, "2}"), argues(0, "}")],
        vec![delta(0, json!({"type": "news_delta"})), json!({"type": "news"}), close(0), close(1)],
        ends("tool_use").to_vec(),
    ]
    .concat();
    let mut content = [call("a"), call("b")];
    content[0]["input"] = json!({"x": 1});
    content[1]["input"] = json!({"y": 2});
    let composed = compose(&asked(), STREAMED).unwrap();
    assert_eq!(
        played(&events).unwrap(),
        AnthropicMapping.read_response(whole(&content, "tool_use"), &composed).unwrap()
    );
}

#[test]
fn input_that_came_with_the_block_counts_where_none_is_streamed() {
    let mut whole_call = call("a");
    whole_call["input"] = json!({"x": 1});
    let events = [vec![start(), open(0, whole_call.clone()), close(0)], ends("tool_use").to_vec()].concat();
    let composed = compose(&asked(), STREAMED).unwrap();
    assert_eq!(
        played(&events).unwrap(),
        AnthropicMapping.read_response(whole(&[whole_call], "tool_use"), &composed).unwrap()
    );
}

#[test]
fn citations_are_collected_on_raw() {
    let cites = delta(0, json!({"type": "citations_delta", "citation": {"title": "t"}}));
    let events =
        [vec![start(), open(0, text()), says(0, "x"), cites, close(0)], ends("end_turn").to_vec()].concat();
    let content = json!([{"type": "text", "text": "x", "citations": [{"title": "t"}]}]);
    assert_eq!(played(&events).unwrap().raw["content"], content);
}

#[test]
fn blocks_that_nobody_closed_are_closed_by_the_end() {
    let events = [vec![start(), open(0, text()), says(0, "x")], ends("end_turn").to_vec()].concat();
    assert_eq!(played(&events).unwrap().message, ChatMessage::assistant("x"));
}

#[test]
fn nulls_at_the_end_say_nothing_and_malformed_counters_are_kept() {
    let mut events = stream(&[json!({"type": "text", "text": "x"})], "end_turn", 1);
    let at = events.len() - 2;
    events[at]["usage"] = json!({"input_tokens": null, "output_tokens": "many"});
    events[0]["message"]["container"] = json!({"id": "c"});
    events[at]["delta"]["container"] = Value::Null;
    let response = played(&events).unwrap();
    assert_eq!(response.raw["container"], json!({"id": "c"}));
    assert_eq!(response.raw["usage"], json!({"input_tokens": 12, "output_tokens": "many"}));
    assert_eq!((response.usage.prompt_tokens, response.usage.completion_tokens), (Some(12), None));
    assert_eq!(response.usage.total_tokens, None);
}

#[test]
fn a_stream_out_of_order_is_an_invalid_response_and_never_another_message() {
    check_invalid(vec![start()]);
    check_invalid(vec![says(0, "x")]);
    check_invalid(vec![open(0, text()), close(0), says(0, "x")]);
    check_invalid(vec![open(0, text()), close(0), close(0)]);
    check_invalid(vec![open(0, text()), open(0, text())]);
    check_invalid(vec![open(1, text()), close(1), open(0, text())]);
    check_invalid(vec![open(0, text()), open(1, text())]);
    check_invalid(vec![open(0, text()), argues(0, "{}")]);
    check_invalid(vec![open(0, call("a")), says(0, "x")]);
    check_invalid(vec![open(0, json!("text"))]);
    check_invalid(vec![json!({"type": "content_block_stop"})]);
    check_invalid(vec![json!({"type": "content_block_stop", "index": -1})]);
    check_invalid(vec![json!([])]);
    for events in
        [vec![json!({"type": "message_stop"})], vec![json!({"type": "message_start"})], vec![open(0, text())]]
    {
        assert_eq!(played(&events).unwrap_err().category(), "provider_invalid_response");
    }
    let without_reason = [start(), json!({"type": "message_stop"})];
    assert_eq!(played(&without_reason).unwrap_err().category(), "provider_invalid_response");
}

#[test]
fn a_stream_that_ends_early_broke_off() {
    let events = stream(&[json!({"type": "text", "text": "abc"}), call("a")], "tool_use", 1);
    for end in 0..events.len() {
        assert_eq!(played(&events[..end]).unwrap_err().category(), "provider_unavailable", "{end}");
    }
    assert!(played(&events).is_ok());
}

// spec: llm-provider §8.2.5.1
#[test]
fn the_structured_answer_is_the_same_whole_or_in_pieces() {
    let request = asked().with_response_schema(schema());
    let composed = compose(&request, OLD).unwrap();
    let answer = json!({"type": "tool_use", "id": "t", "name": "structured_answer", "input": {"value": 42}});
    for content in [vec![answer.clone()], vec![json!({"type": "text", "text": "So:"}), answer]] {
        let response = play(&composed, &stream(&content, "tool_use", 2)).unwrap();
        assert_eq!(response, AnthropicMapping.read_response(whole(&content, "tool_use"), &composed).unwrap());
        assert_eq!(response.validate_against(&request).unwrap().parsed, Some(json!({"value": 42})));
    }
    let spaced =
        [vec![start(), open(0, content_of_answer())], vec![argues(0, "{ \"value\" : 42 }"), close(0)]]
            .concat();
    let response = play(&composed, &[spaced, ends("tool_use").to_vec()].concat()).unwrap();
    assert_eq!(response.message, ChatMessage::assistant(r#"{"value":42}"#));
    let cut = [vec![start(), open(0, content_of_answer())], vec![argues(0, "{\"val"), close(0)]].concat();
    let response = play(&composed, &[cut, ends("max_tokens").to_vec()].concat()).unwrap();
    assert_eq!(response.message, ChatMessage::assistant("{\"val"));
    assert_eq!(response.validate_against(&request).unwrap_err().category(), "structured_output_invalid");
}

fn content_of_answer() -> Value {
    json!({"type": "tool_use", "id": "t", "name": "structured_answer", "input": {}})
}

fn any_block() -> impl Strategy<Value = Value> {
    let number = prop_oneof![any::<i64>().prop_map(Value::from), (-1e6..1e6_f64).prop_map(Value::from)];
    prop_oneof![
        ".{0,12}".prop_map(|it| json!({"type": "text", "text": it})),
        (".{0,12}", "[a-z]{0,6}")
            .prop_map(|(it, sig)| json!({"type": "thinking", "thinking": it, "signature": sig})),
        "[a-z]{1,6}".prop_map(|it| json!({"type": "redacted_thinking", "data": it})),
        ("[a-z]{1,6}", ".{0,9}", number).prop_map(
            |(id, text, n)| json!({"type": "tool_use", "id": id, "name": "t", "input": {"s": text, "n": n}})
        ),
        Just(json!({"type": "web_search_tool_result", "tool_use_id": "s", "content": [{"a": 1}]})),
    ]
}

fn any_json() -> impl Strategy<Value = Value> {
    let word = prop::sample::select(vec![
        "type",
        "index",
        "delta",
        "content_block",
        "message",
        "usage",
        "text",
        "thinking",
        "signature",
        "input",
        "partial_json",
        "content",
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
        "error",
        "tool_use",
        "text_delta",
        "input_json_delta",
        "signature_delta",
        "id",
        "name",
        "stop_reason",
        "data",
        "redacted_thinking",
    ]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-1_i64..3).prop_map(Value::from),
        word.clone().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((word.clone(), inner), 0..6)
                .prop_map(|all| all.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()),
        ]
    })
}

proptest! {
    // spec: llm-provider §6 (structural identity)
    #[test]
    fn a_streamed_answer_equals_the_whole_one(
        content in prop::collection::vec(any_block(), 0..6),
        stop_reason in prop::sample::select(vec!["end_turn", "tool_use", "max_tokens", "refusal", "new"]),
        size in 1..5_usize,
    ) {
        let composed = compose(&asked(), STREAMED).unwrap();
        let body = serde_json::from_str(&whole(&content, stop_reason).to_string()).unwrap();
        let atomic = AnthropicMapping.read_response(body, &composed).unwrap();
        prop_assert_eq!(played(&stream(&content, stop_reason, size)).unwrap(), atomic);
    }

    #[test]
    fn no_json_and_no_sequence_of_events_makes_a_decoder_panic(
        body in any_json(), events in prop::collection::vec(any_json(), 0..6), data in ".{0,20}",
    ) {
        let composed = compose(&asked().with_response_schema(schema()), OLD).unwrap();
        drop(AnthropicMapping.read_response(body.clone(), &composed));
        drop(AnthropicMapping.read_probe("m", &body));
        drop(played(&events));
        drop(played(&[vec![start()], events, ends("end_turn").to_vec()].concat()));
        drop(AnthropicMapping.stream_decoder(&composed).decode_event(None, &data, &mut Vec::new()));
    }
}
