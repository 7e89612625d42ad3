//! The sequences of Gemini's wire.

use serde_json::{Value, json};
use singletree_llm::ModelFinishReason;
use singletree_providers::Wire;

use super::{End, Sequence};

const INVALID: End = End::Failed("provider_invalid_response");

fn counted() -> Value {
    json!({ "promptTokenCount": 7, "candidatesTokenCount": 3, "totalTokenCount": 10, "cachedContentTokenCount": 0 })
}

/// An answer at once.
fn atomic(parts: Value, finish_reason: &str) -> Value {
    let candidate =
        json!({ "content": { "role": "model", "parts": parts }, "finishReason": finish_reason, "index": 0 });
    json!({ "candidates": [candidate], "usageMetadata": counted(), "modelVersion": "test-model", "responseId": "r" })
}

fn chunk(parts: Value) -> Value {
    let mut chunk = atomic(parts, "");
    chunk["usageMetadata"] = json!({ "promptTokenCount": 7, "totalTokenCount": 7 });
    if let Some(candidate) = chunk["candidates"][0].as_object_mut() {
        candidate.remove("finishReason");
    }
    chunk
}

fn text(text: &str) -> Value {
    json!({ "text": text })
}

fn thought(text: &str) -> Value {
    json!({ "text": text, "thought": true })
}

fn signed(mut part: Value, signature: &str) -> Value {
    part["thoughtSignature"] = json!(signature);
    part
}

fn call(id: &str, name: &str, args: Value) -> Value {
    json!({ "functionCall": { "id": id, "name": name, "args": args } })
}

fn events(chunks: &[Value]) -> String {
    chunks.iter().map(|it| format!("data: {it}\n\n")).collect()
}

/// Streams lists of parts, each as a chunk; the last chunk has the finish reason.
fn sequence(name: &'static str, parts: Value, reason: &str, chunks: &[Value], end: End) -> Sequence {
    let (last, before) = chunks.split_last().expect("an answer has a chunk");
    let chunks = before.iter().cloned().map(chunk).chain([atomic(last.clone(), reason)]);
    let chunks: Vec<Value> = chunks.collect();
    let atomic = atomic(parts, reason);
    Sequence {
        name,
        wire: Wire::Gemini,
        atomic,
        events: events(&chunks),
        last: "finishReason",
        tools: true,
        end,
    }
}

pub(super) fn table() -> Vec<Sequence> {
    [texts(), thoughts(), calling(), framing(), blocked(), failing()].into_iter().flatten().collect()
}

fn texts() -> Vec<Sequence> {
    let stop = End::Finished(ModelFinishReason::Stop);
    let hello = || json!([text("Grüße, 世界 😀")]);
    let first = || json!([text("Grüße")]);
    let of = |name, reason, end| sequence(name, hello(), reason, &[first(), json!([text(", 世界 😀")])], end);
    let other = json!({ "executableCode": { "language": "PYTHON", "code": "1" } });
    vec![
        of("text", "STOP", stop),
        of("cut by the budget", "MAX_TOKENS", End::Finished(ModelFinishReason::Length)),
        of("filtered", "SAFETY", End::Finished(ModelFinishReason::ContentFilter)),
        of("recited", "RECITATION", End::Finished(ModelFinishReason::ContentFilter)),
        of("a malformed call", "MALFORMED_FUNCTION_CALL", End::Finished(ModelFinishReason::Error)),
        of("an unknown reason", "TIRED", End::Finished(ModelFinishReason::Error)),
        sequence("text in one chunk", hello(), "STOP", &[hello()], stop),
        sequence(
            "empty parts",
            hello(),
            "STOP",
            &[json!([]), json!([text("")]), first(), json!([text(""), text(", 世界 😀")]), json!([text("")])],
            stop,
        ),
        sequence(
            "parts that we do not know",
            json!([other, text("1")]),
            "STOP",
            &[json!([other]), json!([text("1")])],
            stop,
        ),
        sequence("finish without content", json!([]), "STOP", &[json!([])], INVALID),
        sequence("an empty text", json!([text("")]), "STOP", &[json!([text("")]), json!([])], INVALID),
    ]
}

fn thoughts() -> Vec<Sequence> {
    let stop = End::Finished(ModelFinishReason::Stop);
    vec![
        sequence(
            "thinking",
            json!([thought("Hm, so."), text("42")]),
            "STOP",
            &[json!([thought("Hm")]), json!([thought(", so.")]), json!([text("42")])],
            stop,
        ),
        sequence(
            "cut while thinking",
            json!([thought("Hm, so.")]),
            "MAX_TOKENS",
            &[json!([thought("Hm")]), json!([thought(", so.")])],
            End::Finished(ModelFinishReason::Length),
        ),
        sequence(
            "a signature with the last piece",
            json!([signed(text("Forty-two."), "sig")]),
            "STOP",
            &[json!([text("Forty")]), json!([text("-two")]), json!([signed(text("."), "sig")])],
            stop,
        ),
        sequence(
            "a signature of its own",
            json!([signed(text("Forty-two."), "sig")]),
            "STOP",
            &[json!([text("Forty-two.")]), json!([signed(text(""), "sig")])],
            stop,
        ),
        sequence(
            "text after a signature",
            json!([signed(text("Forty"), "sig"), text("-two.")]),
            "STOP",
            &[json!([signed(text("Forty"), "sig")]), json!([text("-two")]), json!([text(".")])],
            stop,
        ),
    ]
}

fn calling() -> Vec<Sequence> {
    let end = End::Finished(ModelFinishReason::ToolCalls);
    let weather = || signed(call("a", "weather", json!({ "city": "Köln" })), "sig");
    let time = |id: &str| call(id, "time", json!({ "city": "Oslo" }));
    let of = |name, parts: &[Value], end| {
        let chunks: Vec<Value> = parts.iter().map(|it| json!([it])).collect();
        sequence(name, parts.into(), "STOP", &chunks, end)
    };
    let nameless = json!({ "functionCall": { "args": {} } });
    let bare = json!({ "functionCall": { "name": "time" } });
    vec![
        of("a call", &[weather()], end),
        of("two calls", &[text("Let me look."), weather(), time("b")], end),
        of("calls without ids", &[time(""), bare], end),
        of("text after a call", &[weather(), text("So.")], end),
        sequence(
            "calls before the finish",
            json!([weather(), time("b")]),
            "STOP",
            &[json!([weather(), time("b")]), json!([])],
            end,
        ),
        of("duplicate ids", &[time("a"), time("a")], INVALID),
        of("a tool that was not offered", &[call("a", "launch", json!({}))], INVALID),
        of("arguments that are no object", &[call("a", "time", json!([1]))], INVALID),
        of("arguments that do not fit", &[call("a", "time", json!({ "city": 1 }))], INVALID),
        of("a call without a name", &[nameless], INVALID),
    ]
}

/// The same answer in other dress.
fn framing() -> Vec<Sequence> {
    let plain = || {
        let stop = End::Finished(ModelFinishReason::Stop);
        sequence("", json!([text("Hi.")]), "STOP", &[json!([text("Hi")]), json!([text(".")])], stop)
    };
    let of = |name, events: String| Sequence { name, events, ..plain() };
    let written = plain().events;
    let mut early = atomic(json!([text(".")]), "STOP");
    early["usageMetadata"] = Value::Null;
    let late = [chunk(json!([text("Hi")])), early, json!({ "usageMetadata": counted() })];
    let mut beside = plain();
    let other = json!({ "index": 1, "content": { "parts": [text("No.")] } });
    beside.name = "another candidate beside it";
    beside.events =
        written.replacen("\n\n", &format!("\n\ndata: {}\n\n", json!({ "candidates": [other] })), 1);
    if let Some(candidates) = beside.atomic["candidates"].as_array_mut() {
        candidates.push(other);
    }
    vec![
        of("usage after the finish", events(&late)),
        beside,
        of("comments between events", written.replace("data: {", ": ping\n\ndata: {")),
        of("no space after the colon", written.replace("data: ", "data:")),
        of("a byte order mark", format!("\u{feff}{written}")),
        of("data on several lines", written.replace(",\"modelVersion\"", ",\ndata: \"modelVersion\"")),
    ]
}

/// Answers that have no candidate, or one that says nothing.
fn blocked() -> Vec<Sequence> {
    let of = |name, atomic: Value, last| {
        let events = events(std::slice::from_ref(&atomic));
        Sequence { name, wire: Wire::Gemini, atomic, events, last, tools: false, end: INVALID }
    };
    let prompt = json!({ "promptFeedback": { "blockReason": "SAFETY" }, "usageMetadata": counted() });
    let silent = json!({ "candidates": [{ "finishReason": "SAFETY" }], "usageMetadata": counted() });
    vec![of("a blocked prompt", prompt, "blockReason"), of("a blocked answer", silent, "finishReason")]
}

fn failing() -> Vec<Sequence> {
    let of = |name, error: Value, category| {
        let body = json!({ "error": error });
        let events = events(&[chunk(json!([text("Half an ans")])), body.clone()]);
        let end = End::Failed(category);
        Sequence { name, wire: Wire::Gemini, atomic: body, events, last: "finishReason", tools: false, end }
    };
    let told = |code: u16, status: &str| json!({ "code": code, "message": "Oh.", "status": status });
    vec![
        of("overloaded on the way", told(503, "UNAVAILABLE"), "provider_unavailable"),
        of("an error of unknown kind", json!({ "message": "Oh." }), "provider_unavailable"),
        of("too many calls", told(429, "RESOURCE_EXHAUSTED"), "provider_rate_limit"),
        of("too many calls, in words", json!({ "status": "RESOURCE_EXHAUSTED" }), "provider_rate_limit"),
        of("a key that is over", told(403, "PERMISSION_DENIED"), "provider_authentication"),
        of("a request too long", told(400, "INVALID_ARGUMENT"), "provider_invalid_request"),
        of("a model that is not there", told(404, "NOT_FOUND"), "provider_invalid_model"),
    ]
}
