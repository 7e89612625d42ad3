//! The sequences of OpenAI's wire.

use serde_json::{Value, json};
use singletree_llm::FinishReason;
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

fn call(index: u32, id: &str, name: &str, arguments: &str) -> Value {
    json!({ "index": index, "id": id, "type": "function", "function": { "name": name, "arguments": arguments } })
}

fn more(index: u32, arguments: &str) -> Value {
    json!({ "index": index, "function": { "arguments": arguments } })
}

fn calls(calls: Value) -> Value {
    delta(json!({ "tool_calls": calls }))
}

fn whole_call(id: &str, name: &str, arguments: &str) -> Value {
    json!({ "id": id, "type": "function", "function": { "name": name, "arguments": arguments } })
}

fn events(chunks: &[Value]) -> String {
    let chunks: String = chunks.iter().map(|it| format!("data: {it}\n\n")).collect();
    format!("{chunks}data: [DONE]\n\n")
}

fn sequence(name: &'static str, message: Value, reason: &str, chunks: &[Value], end: End) -> Sequence {
    let atomic = atomic(message, json!(reason), counted());
    Sequence { name, wire: Wire::OpenAi, atomic, events: events(chunks), last: "[DONE]", tools: true, end }
}

pub(super) fn table() -> Vec<Sequence> {
    let mut table = texts();
    table.extend(calling());
    table.extend(odd_calling());
    table.extend(framing());
    table.extend(failing());
    table
}

fn texts() -> Vec<Sequence> {
    let stop = End::Finished(FinishReason::Stop);
    let said = |content: &str| json!({ "role": "assistant", "content": content });
    let hello = || json!({ "role": "assistant", "content": "Grüße, 世界 😀" });
    let pieces = [
        delta(json!({ "role": "assistant", "content": "" })),
        delta(json!({ "content": "Grüße" })),
        delta(json!({ "content": ", 世界 😀" })),
    ];
    let [role, one, two] = pieces;
    let thinking = json!({ "role": "assistant", "reasoning_content": "Hm, so.", "content": "42" });
    let other = json!({ "role": "assistant", "reasoning": "Hm, so.", "content": "42" });
    let refusal = json!({ "role": "assistant", "content": null, "refusal": "I can't." });
    let reason = |name: &str, text: &str| delta(json!({ name: text }));
    vec![
        sequence(
            "text",
            hello(),
            "stop",
            &[role.clone(), one.clone(), two.clone(), finish("stop"), last()],
            stop,
        ),
        sequence(
            "empty and null deltas",
            hello(),
            "stop",
            &[
                role.clone(),
                delta(json!({ "content": null })),
                delta(json!({})),
                one.clone(),
                delta(json!({ "content": "", "tool_calls": null })),
                delta(Value::Null),
                chunk(json!([])),
                two.clone(),
                delta(json!({ "tool_calls": [], "refusal": null })),
                finish("stop"),
                last(),
            ],
            stop,
        ),
        sequence(
            "finish with the last text",
            hello(),
            "stop",
            &[
                one.clone(),
                chunk(json!([{ "index": 0, "delta": { "content": ", 世界 😀" }, "finish_reason": "stop" }])),
                last(),
            ],
            stop,
        ),
        sequence(
            "cut by the budget",
            hello(),
            "length",
            &[one.clone(), two.clone(), finish("length"), last()],
            End::Finished(FinishReason::Length),
        ),
        sequence(
            "filtered",
            hello(),
            "content_filter",
            &[one.clone(), two.clone(), finish("content_filter"), last()],
            End::Finished(FinishReason::ContentFilter),
        ),
        sequence(
            "an unknown reason",
            hello(),
            "tired",
            &[one.clone(), two.clone(), finish("tired"), last()],
            End::Finished(FinishReason::Error),
        ),
        sequence(
            "finish without content",
            said(""),
            "stop",
            &[role, finish("stop"), last()],
            End::Failed("provider_invalid_response"),
        ),
        sequence(
            "nothing at all",
            json!({ "role": "assistant", "content": null }),
            "stop",
            &[finish("stop"), last()],
            End::Failed("provider_invalid_response"),
        ),
        sequence(
            "thinking",
            thinking,
            "stop",
            &[
                reason("reasoning_content", "Hm"),
                reason("reasoning_content", ", so."),
                delta(json!({ "content": "42" })),
                finish("stop"),
                last(),
            ],
            stop,
        ),
        sequence(
            "thinking by the other name",
            other,
            "stop",
            &[
                reason("reasoning", "Hm"),
                reason("reasoning", ", so."),
                delta(json!({ "content": "42" })),
                finish("stop"),
                last(),
            ],
            stop,
        ),
        sequence(
            "a refusal",
            refusal,
            "stop",
            &[
                delta(json!({ "refusal": "I " })),
                delta(json!({ "refusal": "can't." })),
                finish("stop"),
                last(),
            ],
            End::Finished(FinishReason::ContentFilter),
        ),
    ]
}

fn calling() -> Vec<Sequence> {
    let end = End::Finished(FinishReason::ToolCalls);
    let one = || json!({ "role": "assistant", "content": null, "tool_calls": [whole_call("a", "weather", "{\"city\":\"Köln\"}")] });
    let two = || {
        let calls = json!([
            whole_call("a", "weather", "{\"city\":\"Köln\"}"),
            whole_call("b", "time", "{\"city\": \"Oslo\"}")
        ]);
        json!({ "role": "assistant", "content": "Let me look.", "tool_calls": calls })
    };
    let text = delta(json!({ "content": "Let me look." }));
    let done = || [finish("tool_calls"), last()];
    let of = |name, message, chunks: &[Value]| {
        sequence(name, message, "tool_calls", &[chunks, &done()].concat(), end)
    };
    vec![
        of(
            "a call",
            one(),
            &[
                calls(json!([call(0, "a", "weather", "")])),
                calls(json!([more(0, "{\"city\":")])),
                calls(json!([more(0, "\"Köln\"}")])),
            ],
        ),
        of("a call in one piece", one(), &[calls(json!([call(0, "a", "weather", "{\"city\":\"Köln\"}")]))]),
        of(
            "two calls one after the other",
            two(),
            &[
                text.clone(),
                calls(json!([call(0, "a", "weather", "")])),
                calls(json!([more(0, "{\"city\":\"Köln\"}")])),
                calls(json!([call(1, "b", "time", "")])),
                calls(json!([more(1, "{\"city\": \"Oslo\"}")])),
            ],
        ),
        of(
            "two calls interleaved",
            two(),
            &[
                text.clone(),
                calls(json!([call(0, "a", "weather", ""), call(1, "b", "time", "")])),
                calls(json!([more(0, "{\"ci")])),
                calls(json!([more(1, "{\"city\": ")])),
                calls(json!([more(0, "ty\":\"Köln\"}"), more(1, "\"Oslo\"}")])),
            ],
        ),
        of(
            "two calls under one index",
            two(),
            &[
                text.clone(),
                calls(json!([call(0, "a", "weather", "{\"city\":\"Köln\"}")])),
                calls(json!([call(0, "b", "time", "{\"city\":")])),
                calls(json!([more(0, " \"Oslo\"}")])),
            ],
        ),
        of(
            "an id and a name that are repeated",
            one(),
            &[
                calls(json!([call(0, "a", "weather", "")])),
                calls(json!([call(0, "a", "weather", "{\"city\":")])),
                calls(json!([call(0, "", "", "\"Köln\"}")])),
            ],
        ),
        of(
            "indexes with holes",
            two(),
            &[
                text,
                calls(json!([call(3, "a", "weather", "{\"city\":\"Köln\"}")])),
                calls(json!([call(7, "b", "time", "{\"city\": \"Oslo\"}")])),
            ],
        ),
        of(
            "empty fragments",
            one(),
            &[
                calls(json!([call(0, "a", "weather", "")])),
                calls(json!([more(0, "")])),
                calls(json!([{ "index": 0 }])),
                calls(json!([more(0, "{\"city\":\"Köln\"}")])),
                calls(json!([{ "index": 0, "function": null }])),
            ],
        ),
    ]
}

fn odd_calling() -> Vec<Sequence> {
    let end = End::Finished(FinishReason::ToolCalls);
    let invalid = End::Failed("provider_invalid_response");
    let of = |name, tool_calls: Value, chunks: &[Value], end| {
        let message = json!({ "role": "assistant", "content": null, "tool_calls": tool_calls });
        sequence(name, message, "tool_calls", &[chunks, &[finish("tool_calls"), last()]].concat(), end)
    };
    vec![
        of(
            "a call without arguments",
            json!([whole_call("a", "time", "")]),
            &[calls(json!([call(0, "a", "time", "")]))],
            end,
        ),
        of(
            "calls without ids",
            json!([whole_call("", "time", "{}"), { "function": { "name": "weather", "arguments": "{}" } }]),
            &[
                calls(json!([call(0, "", "time", "{}")])),
                calls(json!([{ "index": 1, "function": { "name": "weather", "arguments": "{}" } }])),
            ],
            end,
        ),
        of(
            "arguments that are an object",
            json!([{ "id": "a", "function": { "name": "time", "arguments": { "city": "Oslo" } } }]),
            &[calls(
                json!([{ "index": 0, "id": "a", "function": { "name": "time", "arguments": { "city": "Oslo" } } }]),
            )],
            end,
        ),
        of(
            "calls without an index",
            json!([whole_call("a", "time", "{}"), whole_call("b", "time", "{}")]),
            &[calls(json!([whole_call("a", "time", "{}"), whole_call("b", "time", "{}")]))],
            end,
        ),
        of(
            "duplicate ids",
            json!([whole_call("a", "time", "{}"), whole_call("a", "weather", "{}")]),
            &[calls(json!([call(0, "a", "time", "{}"), call(1, "a", "weather", "{}")]))],
            invalid,
        ),
        of(
            "a tool that was not offered",
            json!([whole_call("a", "launch", "{}")]),
            &[calls(json!([call(0, "a", "launch", "{}")]))],
            invalid,
        ),
        of(
            "arguments that are no JSON",
            json!([whole_call("a", "time", "{\"ci")]),
            &[calls(json!([call(0, "a", "time", "{\"ci")]))],
            invalid,
        ),
        of(
            "arguments that are no object",
            json!([whole_call("a", "time", "[1]")]),
            &[calls(json!([call(0, "a", "time", "[1]")]))],
            invalid,
        ),
        of(
            "arguments that do not fit",
            json!([whole_call("a", "time", "{\"city\":1}")]),
            &[calls(json!([call(0, "a", "time", "{\"city\":1}")]))],
            invalid,
        ),
        of(
            "a call without a name",
            json!([whole_call("a", "", "{}")]),
            &[calls(json!([call(0, "a", "", "{}")]))],
            invalid,
        ),
    ]
}

/// The same answer in other dress.
fn framing() -> Vec<Sequence> {
    let message = || json!({ "role": "assistant", "content": "Hi." });
    let chunks = [delta(json!({ "content": "Hi." })), finish("stop"), last()];
    let plain = || sequence("", message(), "stop", &chunks, End::Finished(FinishReason::Stop));
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
