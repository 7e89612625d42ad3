//! The sequences of OpenAI's wire.

use serde_json::{Value, json};
use singletree_llm::ModelFinishReason;
use singletree_providers::Wire;

use super::{End, Sequence};

/// An answer at once.
fn atomic(message: Value, finish_reason: Value, usage: Value) -> Value {
    json!({
        "id": "c", "object": "chat.completion", "created": 1, "model": "test-model",
        "choices": [{ "index": 0, "message": message, "finish_reason": finish_reason }], "usage": usage
    })
}

fn chunk(choices: Value) -> Value {
    json!({ "id": "c", "object": "chat.completion.chunk", "created": 1, "model": "test-model", "choices": choices })
}

fn delta(delta: Value) -> Value {
    chunk(json!([{ "index": 0, "delta": delta, "finish_reason": null }]))
}

fn finish(reason: &str) -> Value {
    chunk(json!([{ "index": 0, "delta": {}, "finish_reason": reason }]))
}

fn counted() -> Value {
    json!({ "prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10, "prompt_tokens_details": { "cached_tokens": 0 } })
}

fn last() -> Value {
    let mut chunk = chunk(json!([]));
    chunk["usage"] = counted();
    chunk
}

fn events(chunks: &[Value]) -> String {
    let chunks: String = chunks.iter().map(|it| format!("data: {it}\n\n")).collect();
    format!("{chunks}data: [DONE]\n\n")
}

fn sequence(name: &'static str, message: &str, reason: &str, chunks: &[Value], end: End) -> Sequence {
    let atomic = atomic(read(message), json!(reason), counted());
    Sequence { name, wire: Wire::OpenAi, atomic, events: events(chunks), last: "[DONE]", tools: true, end }
}

fn read(text: &str) -> Value {
    serde_json::from_str(text).expect("the table is JSON")
}

/// Makes a sequence of deltas, one a line, with finish and usage behind them.
fn of(name: &'static str, message: &str, reason: &str, deltas: &str, end: End) -> Sequence {
    let deltas = deltas.lines().map(str::trim).filter(|it| !it.is_empty());
    let chunks: Vec<Value> = deltas.map(|it| delta(read(it))).chain([finish(reason), last()]).collect();
    sequence(name, message, reason, &chunks, end)
}

pub(super) fn table() -> Vec<Sequence> {
    let mut table = texts();
    table.extend(thoughts());
    table.extend(calls());
    table.extend(mixed_calls());
    table.extend(odd_calls());
    table.extend(invalid_calls());
    table.extend(framing());
    table.extend(failing());
    table
}

const STOP: End = End::Finished(ModelFinishReason::Stop);
const CALLS: End = End::Finished(ModelFinishReason::ToolCalls);
const INVALID: End = End::Failed("provider_invalid_response");

fn texts() -> Vec<Sequence> {
    let hello = r#"{"role":"assistant","content":"Grüße, 世界 😀"}"#;
    let deltas = r#"
        {"role":"assistant","content":""}
        {"content":"Grüße"}
        {"content":", 世界 😀"}"#;
    let empty = r#"
        {"role":"assistant","content":""}
        {"content":null}
        {}
        {"content":"Grüße"}
        {"content":"","tool_calls":null}
        null
        {"content":", 世界 😀"}
        {"tool_calls":[],"refusal":null}"#;
    let with_text =
        chunk(json!([{ "index": 0, "delta": { "content": ", 世界 😀" }, "finish_reason": "stop" }]));
    let together = [delta(json!({ "content": "Grüße" })), chunk(json!([])), with_text, last()];
    let nothing = r#"{"role":"assistant","content":null}"#;
    let finished = End::Finished;
    vec![
        of("text", hello, "stop", deltas, STOP),
        of("empty and null deltas", hello, "stop", empty, STOP),
        sequence("finish with the last text", hello, "stop", &together, STOP),
        of("cut by the budget", hello, "length", deltas, finished(ModelFinishReason::Length)),
        of("filtered", hello, "content_filter", deltas, finished(ModelFinishReason::ContentFilter)),
        of("an unknown reason", hello, "tired", deltas, finished(ModelFinishReason::Error)),
        of(
            "finish without content",
            r#"{"content":""}"#,
            "stop",
            r#"{"role":"assistant","content":""}"#,
            INVALID,
        ),
        of("nothing at all", nothing, "stop", "", INVALID),
    ]
}

fn thoughts() -> Vec<Sequence> {
    let one = r#"{"role":"assistant","reasoning_content":"Hm, so.","content":"42"}"#;
    let one_deltas = r#"
        {"reasoning_content":"Hm"}
        {"reasoning_content":", so."}
        {"content":"42"}"#;
    let both = r#"{"role":"assistant","reasoning_content":"Hm, so.","reasoning":"Hm, so.","content":"42"}"#;
    let both_deltas = r#"
        {"reasoning_content":"Hm","reasoning":"Hm"}
        {"reasoning_content":", so.","reasoning":", so."}
        {"content":"42"}"#;
    let refusal = r#"{"role":"assistant","content":null,"refusal":"I can't."}"#;
    let refused = r#"
        {"refusal":"I "}
        {"refusal":"can't."}"#;
    let (other, other_deltas) = (one.replace("_content\"", "\""), one_deltas.replace("_content\"", "\""));
    vec![
        of("thinking", one, "stop", one_deltas, STOP),
        of("thinking by the other name", &other, "stop", &other_deltas, STOP),
        of("thinking by both names", both, "stop", both_deltas, STOP),
        of("a refusal", refusal, "stop", refused, End::Finished(ModelFinishReason::ContentFilter)),
    ]
}

const ONE: &str = r#"{"role":"assistant","content":null,"tool_calls":[
    {"id":"a","type":"function","function":{"name":"weather","arguments":"{\"city\":\"Köln\"}"}}]}"#;

const TWO: &str = r#"{"role":"assistant","content":"Let me look.","tool_calls":[
    {"id":"a","type":"function","function":{"name":"weather","arguments":"{\"city\":\"Köln\"}"}},
    {"id":"b","type":"function","function":{"name":"time","arguments":"{\"city\": \"Oslo\"}"}}]}"#;

fn calls() -> Vec<Sequence> {
    let pieces = r#"
        {"tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"weather","arguments":""}}]}
        {"tool_calls":[{"index":0,"function":{"arguments":"{\"city\":"}}]}
        {"tool_calls":[{"index":0,"function":{"arguments":"\"Köln\"}"}}]}"#;
    let at_once = r#"
        {"tool_calls":[{"index":0,"id":"a","function":{"name":"weather","arguments":"{\"city\":\"Köln\"}"}}]}"#;
    let repeated = r#"
        {"tool_calls":[{"index":0,"id":"a","function":{"name":"weather","arguments":""}}]}
        {"tool_calls":[{"index":0,"id":"a","function":{"name":"weather","arguments":"{\"city\":"}}]}
        {"tool_calls":[{"index":0,"id":"","function":{"name":"","arguments":"\"Köln\"}"}}]}"#;
    let empty = r#"
        {"tool_calls":[{"index":0,"id":"a","function":{"name":"weather","arguments":""}}]}
        {"tool_calls":[{"index":0,"function":{"arguments":""}}]}
        {"tool_calls":[{"index":0}]}
        {"tool_calls":[{"index":0,"function":{"arguments":"{\"city\":\"Köln\"}"}}]}
        {"tool_calls":[{"index":0,"function":null}]}"#;
    vec![
        of("a call", ONE, "tool_calls", pieces, CALLS),
        of("a call in one piece", ONE, "tool_calls", at_once, CALLS),
        of("an id and a name that are repeated", ONE, "tool_calls", repeated, CALLS),
        of("empty fragments", ONE, "tool_calls", empty, CALLS),
        of("the old name of the reason", ONE, "function_call", pieces, CALLS),
        of("a call that finishes with stop", ONE, "stop", pieces, STOP),
    ]
}

fn mixed_calls() -> Vec<Sequence> {
    let in_turn = r#"
        {"content":"Let me look."}
        {"tool_calls":[{"index":0,"id":"a","function":{"name":"weather","arguments":""}}]}
        {"tool_calls":[{"index":0,"function":{"arguments":"{\"city\":\"Köln\"}"}}]}
        {"tool_calls":[{"index":1,"id":"b","function":{"name":"time","arguments":""}}]}
        {"tool_calls":[{"index":1,"function":{"arguments":"{\"city\": \"Oslo\"}"}}]}"#;
    let interleaved = r#"
        {"content":"Let me look."}
        {"tool_calls":[{"index":0,"id":"a","function":{"name":"weather"}},{"index":1,"id":"b","function":{"name":"time"}}]}
        {"tool_calls":[{"index":0,"function":{"arguments":"{\"ci"}}]}
        {"tool_calls":[{"index":1,"function":{"arguments":"{\"city\": "}}]}
        {"tool_calls":[{"index":0,"function":{"arguments":"ty\":\"Köln\"}"}},{"index":1,"function":{"arguments":"\"Oslo\"}"}}]}"#;
    let text_between = r#"
        {"tool_calls":[{"index":0,"id":"a","function":{"name":"weather","arguments":"{\"city\":\"Köln\"}"}}]}
        {"content":"Let me "}
        {"tool_calls":[{"index":1,"id":"b","function":{"name":"time","arguments":"{\"city\": \"Oslo\"}"}}]}
        {"content":"look."}"#;
    let one_index = r#"
        {"content":"Let me look."}
        {"tool_calls":[{"index":0,"id":"a","function":{"name":"weather","arguments":"{\"city\":\"Köln\"}"}}]}
        {"tool_calls":[{"index":0,"id":"b","function":{"name":"time","arguments":"{\"city\":"}}]}
        {"tool_calls":[{"index":0,"function":{"arguments":" \"Oslo\"}"}}]}"#;
    let holes = r#"
        {"content":"Let me look."}
        {"tool_calls":[{"index":3,"id":"a","function":{"name":"weather","arguments":"{\"city\":\"Köln\"}"}}]}
        {"tool_calls":[{"index":7,"id":"b","function":{"name":"time","arguments":"{\"city\": \"Oslo\"}"}}]}"#;
    vec![
        of("two calls one after the other", TWO, "tool_calls", in_turn, CALLS),
        of("two calls interleaved", TWO, "tool_calls", interleaved, CALLS),
        of("text between calls", TWO, "tool_calls", text_between, CALLS),
        of("two calls under one index", TWO, "tool_calls", one_index, CALLS),
        of("indexes with holes", TWO, "tool_calls", holes, CALLS),
    ]
}

/// Makes a sequence of calls that come in one piece; `calls` is their list as it is at once.
fn of_calls(name: &'static str, calls: &str, end: End) -> Sequence {
    let message = format!(r#"{{"role":"assistant","content":null,"tool_calls":{calls}}}"#);
    let mut streamed = read(calls);
    for (index, call) in streamed.as_array_mut().into_iter().flatten().enumerate() {
        call["index"] = index.into();
    }
    of(name, &message, "tool_calls", &json!({ "tool_calls": streamed }).to_string(), end)
}

fn odd_calls() -> Vec<Sequence> {
    let no_arguments = r#"[{"id":"a","function":{"name":"time","arguments":""}}]"#;
    let no_ids = r#"[{"id":"","function":{"name":"time","arguments":"{}"}},{"function":{"name":"weather","arguments":"{}"}}]"#;
    let object = r#"[{"id":"a","function":{"name":"time","arguments":{"city":"Oslo"}}}]"#;
    let two = r#"[{"id":"a","function":{"name":"time","arguments":"{}"}},{"id":"b","function":{"name":"time","arguments":"{}"}}]"#;
    let message = format!(r#"{{"content":null,"tool_calls":{two}}}"#);
    let no_index = format!(r#"{{"tool_calls":{two}}}"#);
    vec![
        of_calls("a call without arguments", no_arguments, CALLS),
        of_calls("calls without ids", no_ids, CALLS),
        of_calls("arguments that are an object", object, CALLS),
        of("calls without an index", &message, "tool_calls", &no_index, CALLS),
    ]
}

fn invalid_calls() -> Vec<Sequence> {
    let duplicate = r#"[{"id":"a","function":{"name":"time","arguments":"{}"}},{"id":"a","function":{"name":"weather","arguments":"{}"}}]"#;
    let unknown = r#"[{"id":"a","function":{"name":"launch","arguments":"{}"}}]"#;
    let no_json = r#"[{"id":"a","function":{"name":"time","arguments":"{\"ci"}}]"#;
    let no_object = r#"[{"id":"a","function":{"name":"time","arguments":"[1]"}}]"#;
    let no_fit = r#"[{"id":"a","function":{"name":"time","arguments":"{\"city\":1}"}}]"#;
    let nameless = r#"[{"id":"a","function":{"name":"","arguments":"{}"}}]"#;
    vec![
        of_calls("duplicate ids", duplicate, INVALID),
        of_calls("a tool that was not offered", unknown, INVALID),
        of_calls("arguments that are no JSON", no_json, INVALID),
        of_calls("arguments that are no object", no_object, INVALID),
        of_calls("arguments that do not fit", no_fit, INVALID),
        of_calls("a call without a name", nameless, INVALID),
    ]
}

/// The same answer in other dress.
fn framing() -> Vec<Sequence> {
    let message = r#"{"role":"assistant","content":"Hi."}"#;
    let chunks = [delta(json!({ "content": "Hi." })), finish("stop"), last()];
    let plain = || sequence("", message, "stop", &chunks, End::Finished(ModelFinishReason::Stop));
    let of = |name, events: String| Sequence { name, events, ..plain() };
    let text = plain().events;
    let usage_with_finish = {
        let mut end = finish("stop");
        end["usage"] = counted();
        [delta(json!({ "content": "Hi." })), end]
    };
    let usage_everywhere = chunks.clone().map(|mut it| {
        let early = json!({ "prompt_tokens": 7, "completion_tokens": 1, "total_tokens": 8 });
        if it["usage"].is_null() {
            it["usage"] = early;
        }
        it
    });
    let usage_null = chunks.clone().map(|mut it| {
        if it["usage"].is_null() {
            it["usage"] = Value::Null;
        }
        it
    });
    let others = [
        chunk(json!([{ "index": 1, "delta": { "content": "No." }, "finish_reason": "length" }])),
        chunks[0].clone(),
        chunks[1].clone(),
        chunks[2].clone(),
    ];
    vec![
        of("usage with the finish", events(&usage_with_finish)),
        of("usage in every chunk", events(&usage_everywhere)),
        of("usage null until the end", events(&usage_null)),
        of("another choice beside it", events(&others)),
        of("comments between events", text.replace("data: {", ": ping\n\ndata: {")),
        of("names and ids of events", text.replace("data: {", "event: chunk\nid: 7\ndata: {")),
        of("no space after the colon", text.replace("data: ", "data:")),
        of("a byte order mark", format!("\u{feff}{text}")),
        of("data on several lines", text.replace(",\"created\"", ",\ndata: \"created\"")),
        of("more after the end", format!("{text}data: {{\"no\": 1}}\n\ndata: nonsense\n\n")),
        of(
            "text as parts",
            text.replace("\"content\":\"Hi.\"", "\"content\":[{\"type\":\"text\",\"text\":\"Hi.\"}]"),
        ),
    ]
}

fn failing() -> Vec<Sequence> {
    let of = |name, error: Value, category| {
        let body = json!({ "error": error });
        let events = events(&[delta(json!({ "content": "Half an ans" })), body.clone()]);
        Sequence {
            name,
            wire: Wire::OpenAi,
            atomic: body,
            events,
            last: "[DONE]",
            tools: false,
            end: End::Failed(category),
        }
    };
    vec![
        of(
            "overloaded on the way",
            json!({ "message": "Overloaded", "type": "server_error" }),
            "provider_unavailable",
        ),
        of("an error of unknown kind", json!({ "message": "Oh" }), "provider_unavailable"),
        of("an error that is a string", json!("Oh"), "provider_unavailable"),
        of("too many calls", json!({ "message": "Slow down", "code": 429 }), "provider_rate_limit"),
        of(
            "too many calls, in words",
            json!({ "message": "Slow down", "type": "rate_limit_exceeded" }),
            "provider_rate_limit",
        ),
        of(
            "a key that is over",
            json!({ "message": "No", "code": "invalid_api_key" }),
            "provider_authentication",
        ),
        of(
            "a request too long",
            json!({ "message": "Too long", "type": "invalid_request_error", "code": "context_length_exceeded" }),
            "provider_invalid_request",
        ),
        of(
            "a model that went away",
            json!({ "message": "loading model", "code": 503 }),
            "provider_model_not_loaded",
        ),
        of(
            "a model that is not there",
            json!({ "message": "no such model", "code": "model_not_found" }),
            "provider_invalid_model",
        ),
    ]
}
