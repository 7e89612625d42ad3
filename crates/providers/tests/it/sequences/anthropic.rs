//! The sequences of Anthropic's wire.

use serde_json::{Value, json};
use singletree_llm::ModelFinishReason;
use singletree_providers::Wire;

use super::{End, Sequence};

const INVALID: End = End::Failed("provider_invalid_response");

/// An answer at once.
fn atomic(content: Value, stop_reason: &str) -> Value {
    json!({
        "type": "message", "id": "m", "model": "test-model", "role": "assistant", "content": content,
        "stop_reason": stop_reason, "stop_sequence": null, "usage": { "input_tokens": 7, "output_tokens": 3 }
    })
}

fn start() -> Value {
    let mut message = atomic(json!([]), "");
    message["stop_reason"] = Value::Null;
    message["usage"]["output_tokens"] = json!(1);
    json!({ "type": "message_start", "message": message })
}

fn ends(stop_reason: &str) -> [Value; 2] {
    let delta = json!({ "stop_reason": stop_reason, "stop_sequence": null });
    [
        json!({ "type": "message_delta", "delta": delta, "usage": { "output_tokens": 3 } }),
        json!({ "type": "message_stop" }),
    ]
}

fn open(index: i64, block: Value) -> Value {
    json!({ "type": "content_block_start", "index": index, "content_block": block })
}

fn close(index: i64) -> Value {
    json!({ "type": "content_block_stop", "index": index })
}

fn delta(index: i64, kind: &str, field: &str, piece: &str) -> Value {
    json!({ "type": "content_block_delta", "index": index, "delta": { "type": kind, field: piece } })
}

fn says(index: i64, piece: &str) -> Value {
    delta(index, "text_delta", "text", piece)
}

fn thinks(index: i64, piece: &str) -> Value {
    delta(index, "thinking_delta", "thinking", piece)
}

fn signs(index: i64, signature: &str) -> Value {
    delta(index, "signature_delta", "signature", signature)
}

fn argues(index: i64, piece: &str) -> Value {
    delta(index, "input_json_delta", "partial_json", piece)
}

fn text(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

fn thinking(text: &str, signature: &str) -> Value {
    json!({ "type": "thinking", "thinking": text, "signature": signature })
}

fn call(id: &str, name: &str, input: Value) -> Value {
    json!({ "type": "tool_use", "id": id, "name": name, "input": input })
}

fn ping() -> Value {
    json!({ "type": "ping" })
}

fn events(all: &[Value]) -> String {
    all.iter().map(|it| format!("event: {}\ndata: {it}\n\n", it["type"].as_str().unwrap_or("odd"))).collect()
}

/// Streams blocks between the beginning and the end of a message.
fn sequence(name: &'static str, content: Value, stop_reason: &str, blocks: &[Value], end: End) -> Sequence {
    let all = [&[start()], blocks, &ends(stop_reason)].concat();
    let atomic = atomic(content, stop_reason);
    Sequence {
        name,
        wire: Wire::Anthropic,
        atomic,
        events: events(&all),
        last: "message_stop",
        tools: true,
        end,
    }
}

pub(super) fn table() -> Vec<Sequence> {
    let rows = [texts(), odd_texts(), thoughts(), calling(), odd_calling(), framing(), failing()];
    rows.into_iter().flatten().collect()
}

fn texts() -> Vec<Sequence> {
    let stop = End::Finished(ModelFinishReason::Stop);
    let hello = || json!([text("Grüße, 世界 😀")]);
    let pieces = || vec![open(0, text("")), says(0, "Grüße"), says(0, ", 世界 😀"), close(0)];
    let of = |name, stop_reason, end| sequence(name, hello(), stop_reason, &pieces(), end);
    vec![
        of("text", "end_turn", stop),
        of("a stop sequence", "stop_sequence", stop),
        of("a paused turn", "pause_turn", stop),
        of("cut by the budget", "max_tokens", End::Finished(ModelFinishReason::Length)),
        of("filtered", "refusal", End::Finished(ModelFinishReason::ContentFilter)),
        of("an unknown reason", "tired", End::Finished(ModelFinishReason::Error)),
    ]
}

fn odd_texts() -> Vec<Sequence> {
    let stop = End::Finished(ModelFinishReason::Stop);
    let hello = || json!([text("Grüße, 世界 😀")]);
    let search =
        json!({ "type": "server_tool_use", "id": "s", "name": "web_search", "input": { "query": "q" } });
    let found = json!({ "type": "web_search_tool_result", "tool_use_id": "s", "content": [] });
    let mut searching = search.clone();
    searching["input"] = json!({});
    vec![
        sequence(
            "empty deltas and pings",
            hello(),
            "end_turn",
            &[
                vec![ping(), open(0, text("")), says(0, ""), ping(), says(0, "Grüße"), says(0, "")],
                vec![says(0, ", 世界 😀"), says(0, ""), close(0), ping()],
            ]
            .concat(),
            stop,
        ),
        sequence(
            "text that begins its block",
            hello(),
            "end_turn",
            &[open(0, text("Grüße")), says(0, ", 世界 😀"), close(0)],
            stop,
        ),
        sequence(
            "a block that nobody closed",
            hello(),
            "end_turn",
            &[open(0, text("")), says(0, "Grüße, 世界 😀")],
            stop,
        ),
        sequence(
            "two texts",
            json!([text("Grüße"), text(", 世界 😀")]),
            "end_turn",
            &[
                open(0, text("")),
                says(0, "Grüße"),
                close(0),
                open(1, text("")),
                says(1, ", 世界 😀"),
                close(1),
            ],
            stop,
        ),
        sequence(
            "blocks that we do not know",
            json!([search, found, text("Found.")]),
            "end_turn",
            &[
                vec![open(0, searching), argues(0, "{\"query\":"), argues(0, "\"q\"}"), close(0)],
                vec![open(1, found.clone()), close(1), open(2, text("")), says(2, "Found."), close(2)],
            ]
            .concat(),
            stop,
        ),
        sequence("finish without content", json!([]), "end_turn", &[], INVALID),
        sequence(
            "an empty text",
            json!([text("")]),
            "end_turn",
            &[open(0, text("")), says(0, ""), close(0)],
            INVALID,
        ),
    ]
}

fn thoughts() -> Vec<Sequence> {
    let stop = End::Finished(ModelFinishReason::Stop);
    let redacted = json!({ "type": "redacted_thinking", "data": "blob" });
    let answer = |index| vec![open(index, text("")), says(index, "42"), close(index)];
    let opened = |index| open(index, thinking("", ""));
    vec![
        sequence(
            "thinking",
            json!([thinking("Hm, so.", "sig"), text("42")]),
            "end_turn",
            &[vec![opened(0), thinks(0, "Hm"), thinks(0, ", so."), signs(0, "sig"), close(0)], answer(1)]
                .concat(),
            stop,
        ),
        sequence(
            "thinking twice, then redacted",
            json!([thinking("Hm,", "s1"), thinking(" so.", "s2"), redacted, text("42")]),
            "end_turn",
            &[
                vec![opened(0), thinks(0, "Hm,"), signs(0, "s1"), close(0)],
                vec![
                    opened(1),
                    thinks(1, " so."),
                    signs(1, "s2"),
                    close(1),
                    open(2, redacted.clone()),
                    close(2),
                ],
                answer(3),
            ]
            .concat(),
            stop,
        ),
        sequence(
            "cut while thinking",
            json!([thinking("Hm, so.", "sig")]),
            "max_tokens",
            &[opened(0), thinks(0, "Hm, so."), signs(0, "sig"), close(0)],
            End::Finished(ModelFinishReason::Length),
        ),
        sequence(
            "thinking whose text is withheld",
            json!([thinking("", "sig"), text("42")]),
            "end_turn",
            &[vec![opened(0), signs(0, "sig"), close(0)], answer(1)].concat(),
            stop,
        ),
        sequence(
            "thinking without a signature",
            json!([{ "type": "thinking", "thinking": "Hm, so." }, text("42")]),
            "end_turn",
            &[
                vec![open(0, json!({ "type": "thinking", "thinking": "" })), thinks(0, "Hm, so."), close(0)],
                answer(1),
            ]
            .concat(),
            stop,
        ),
    ]
}

fn calling() -> Vec<Sequence> {
    let end = End::Finished(ModelFinishReason::ToolCalls);
    let weather = || call("a", "weather", json!({ "city": "Köln" }));
    let two = || json!([text("Let me look."), weather(), call("b", "time", json!({ "city": "Oslo" }))]);
    let said = || vec![open(0, text("")), says(0, "Let me look."), close(0)];
    let (first, second) =
        (|| open(1, call("a", "weather", json!({}))), || open(2, call("b", "time", json!({}))));
    let of =
        |name, content, blocks: &[Vec<Value>]| sequence(name, content, "tool_use", &blocks.concat(), end);
    let alone = |name, pieces: &[Value]| {
        let blocks = [&[open(0, call("a", "weather", json!({})))], pieces, &[close(0)]].concat();
        sequence(name, json!([weather()]), "tool_use", &blocks, end)
    };
    vec![
        alone("a call", &[argues(0, ""), argues(0, "{\"city\":"), argues(0, "\"Köln\"}")]),
        alone("a call in one piece", &[argues(0, "{\"city\": \"Köln\"}")]),
        alone(
            "a call with empty pieces",
            &[argues(0, ""), argues(0, "{\"city\":\"Köln\""), argues(0, ""), argues(0, "}")],
        ),
        of("input that comes with the block", json!([weather()]), &[vec![open(0, weather()), close(0)]]),
        of(
            "a call without input",
            json!([call("a", "time", json!({}))]),
            &[vec![open(0, call("a", "time", json!({}))), close(0)]],
        ),
        of(
            "two calls one after the other",
            two(),
            &[
                said(),
                vec![first(), argues(1, "{\"city\":\"Köln\"}"), close(1)],
                vec![second(), argues(2, "{\"city\":\"Oslo\"}"), close(2)],
            ],
        ),
        of(
            "two calls interleaved",
            two(),
            &[
                said(),
                vec![
                    first(),
                    second(),
                    argues(2, "{\"ci"),
                    argues(1, "{\"city\":"),
                    argues(2, "ty\":\"Oslo\""),
                ],
                vec![argues(1, "\"Köln\"}"), close(1), argues(2, "}"), close(2)],
            ],
        ),
        of(
            "blank text before a call",
            json!([text("\n\n"), weather()]),
            &[
                vec![open(0, text("")), says(0, "\n\n"), close(0)],
                vec![open(1, call("a", "weather", json!({}))), argues(1, "{\"city\":\"Köln\"}"), close(1)],
            ],
        ),
        of(
            "text after a call",
            json!([weather(), text("So.")]),
            &[
                vec![open(0, call("a", "weather", json!({}))), argues(0, "{\"city\":\"Köln\"}"), close(0)],
                vec![open(1, text("")), says(1, "So."), close(1)],
            ],
        ),
    ]
}

fn odd_calling() -> Vec<Sequence> {
    let of = |name, calls: &[Value], json: &[&str], end| {
        let blocks = (0..).zip(calls).zip(json).flat_map(|((at, it), json)| {
            let mut first = it.clone();
            first["input"] = json!({});
            [open(at, first), argues(at, json), close(at)]
        });
        sequence(name, calls.into(), "tool_use", &blocks.collect::<Vec<Value>>(), end)
    };
    let time = |id: &str, input: Value| call(id, "time", input);
    vec![
        of("duplicate ids", &[time("a", json!({})), time("a", json!({}))], &["{}", "{}"], INVALID),
        of("a tool that was not offered", &[call("a", "launch", json!({}))], &["{}"], INVALID),
        of("input that is no object", &[time("a", json!([1]))], &["[1]"], INVALID),
        of("input that is no JSON", &[time("a", json!("{\"ci"))], &["{\"ci"], INVALID),
        of("input that does not fit", &[time("a", json!({ "city": 1 }))], &["{\"city\":1}"], INVALID),
        of("an empty id", &[time("", json!({}))], &["{}"], INVALID),
        of("an empty name", &[call("a", "", json!({}))], &["{}"], INVALID),
        sequence(
            "a call without an id",
            json!([{ "type": "tool_use", "name": "time" }]),
            "tool_use",
            &[open(0, json!({ "type": "tool_use", "name": "time" }))],
            INVALID,
        ),
    ]
}

/// The same answer in other dress.
fn framing() -> Vec<Sequence> {
    let blocks = [open(0, text("")), says(0, "Hi."), close(0)];
    let plain =
        || sequence("", json!([text("Hi.")]), "end_turn", &blocks, End::Finished(ModelFinishReason::Stop));
    let of = |name, events: String| Sequence { name, events, ..plain() };
    let written = plain().events;
    let mut counted = [&[start()], &blocks[..], &ends("end_turn")].concat();
    counted[4]["usage"] = json!({ "input_tokens": 7, "output_tokens": 3 });
    let unnamed: String =
        written.lines().filter(|it| !it.starts_with("event")).map(|it| format!("{it}\n")).collect();
    vec![
        of("comments between events", written.replace("event: ", ": ping\n\nevent: ")),
        of("events without names", unnamed),
        of("no space after the colon", written.replace("data: ", "data:")),
        of("a byte order mark", format!("\u{feff}{written}")),
        of("data on several lines", written.replace(",\"type\"", ",\ndata: \"type\"")),
        of("all counters at the end", events(&counted)),
        of("more after the end", format!("{written}data: {{\"no\": 1}}\n\ndata: nonsense\n\n")),
        of(
            "events of a later version",
            written.replace(
                "event: message_delta",
                "event: news\ndata: {\"type\":\"news\"}\n\nevent: message_delta",
            ),
        ),
    ]
}

fn failing() -> Vec<Sequence> {
    let of = |name, kind: &str, category| {
        let body = json!({ "type": "error", "error": { "type": kind, "message": "Oh." }, "request_id": "r" });
        let all = [start(), open(0, text("")), says(0, "Half an ans"), body.clone()];
        let end = End::Failed(category);
        Sequence {
            name,
            wire: Wire::Anthropic,
            atomic: body,
            events: events(&all),
            last: "message_stop",
            tools: false,
            end,
        }
    };
    vec![
        of("overloaded on the way", "overloaded_error", "provider_unavailable"),
        of("an error of unknown kind", "new_error", "provider_unavailable"),
        of("too many calls", "rate_limit_error", "provider_rate_limit"),
        of("a key that is over", "authentication_error", "provider_authentication"),
        of("a request too long", "invalid_request_error", "provider_invalid_request"),
        of("a model that is not there", "not_found_error", "provider_invalid_model"),
    ]
}
