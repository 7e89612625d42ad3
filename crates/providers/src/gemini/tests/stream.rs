//! Answers that come chunk by chunk.

use proptest::prelude::*;
use serde_json::{Value, json};
use singletree_llm::{ChatMessage, Response, Result};

use super::{GeminiMapping, STREAMED, WHOLE, WireMapping, asked, compose, parts, play};

fn played(chunks: &[Value]) -> Result<Response> {
    play(&compose(&asked(), STREAMED).unwrap(), chunks)
}

fn chunk(parts: &[Value]) -> Value {
    json!({
        "candidates": [{"content": {"role": "model", "parts": parts}}],
        "usageMetadata": {"promptTokenCount": 5},
    })
}

/// Cuts a part as a server may: text in pieces, its signature with the last one or after it; everything else whole.
fn pieces(part: &Value, size: usize, signature_after: bool) -> Vec<Value> {
    let Some(text) = part["text"].as_str() else { return vec![part.clone()] };
    let all: Vec<char> = text.chars().collect();
    let mut out: Vec<Value> = Vec::new();
    for piece in all.chunks(size.max(1)) {
        let mut next = part.clone();
        next["text"] = piece.iter().collect::<String>().into();
        next.as_object_mut().unwrap().remove("thoughtSignature");
        out.push(next);
    }
    if let Some(signature) = part.get("thoughtSignature") {
        match out.last_mut().filter(|_| !signature_after) {
            Some(last) => last["thoughtSignature"] = signature.clone(),
            None => out.push(json!({"text": "", "thoughtSignature": signature})),
        }
    }
    out
}

fn stream(
    content: &[Value],
    finish: &str,
    size: usize,
    together: usize,
    signature_after: bool,
) -> Vec<Value> {
    let all: Vec<Value> = content.iter().flat_map(|it| pieces(it, size, signature_after)).collect();
    let last = parts(json!([]), finish);
    all.chunks(together.max(1)).map(chunk).chain([last]).collect()
}

#[test]
fn the_end_of_the_body_is_the_end_only_after_a_finish_reason() {
    let chunks = stream(&[json!({"text": "abc"})], "STOP", 1, 1, false);
    for end in 0..chunks.len() {
        assert_eq!(played(&chunks[..end]).unwrap_err().category(), "provider_unavailable", "{end}");
    }
    assert_eq!(played(&chunks).unwrap().message, ChatMessage::assistant("abc"));
}

#[test]
fn usage_and_more_may_follow_the_finish() {
    let mut chunks = stream(&[json!({"text": "abc"})], "STOP", 2, 1, false);
    chunks.push(
        json!({"usageMetadata": {"promptTokenCount": 6, "candidatesTokenCount": "x"}, "responseId": "r"}),
    );
    // Null unsays nothing.
    chunks.push(json!({"candidates": [{"finishReason": null, "index": 0}], "usageMetadata": null}));
    let response = played(&chunks).unwrap();
    assert_eq!((response.usage.prompt_tokens, response.usage.completion_tokens), (Some(6), None));
    assert_eq!(response.raw["usageMetadata"]["candidatesTokenCount"], json!("x"));
    assert_eq!(response.raw["responseId"], json!("r"));
}

#[test]
fn a_blocked_prompt_and_an_answer_without_content_end_too() {
    let blocked = json!({"promptFeedback": {"blockReason": "SAFETY"}});
    let silent = json!({"candidates": [{"finishReason": "SAFETY", "index": 0}]});
    let composed = compose(&asked(), WHOLE).unwrap();
    for body in [blocked, silent] {
        assert_eq!(
            played(std::slice::from_ref(&body)).unwrap(),
            GeminiMapping.read_response(body, &composed).unwrap()
        );
    }
}

#[test]
fn other_candidates_are_kept_on_raw_and_not_mixed_in() {
    let say = |index: usize, text: &str| json!({"index": index, "content": {"parts": [{"text": text}]}});
    let end = json!({"index": 1, "finishReason": "STOP"});
    let first = json!({"candidates": [say(0, "a"), say(1, "x")]});
    let second = json!({"candidates": [say(1, "y"), end, say(0, "b")]});
    let chunks = [first, second];
    assert_eq!(played(&chunks).unwrap_err().category(), "provider_unavailable");
    let over = json!({"candidates": [{"index": 0, "finishReason": "STOP"}]});
    let response = played(&[&chunks[..], &[over]].concat()).unwrap();
    assert_eq!(response.message, ChatMessage::assistant("ab"));
    assert_eq!(response.raw["candidates"][1]["content"]["parts"], json!([{"text": "xy"}]));
}

#[test]
fn calls_of_one_id_are_two_calls_and_no_message() {
    let call = json!({"functionCall": {"name": "t", "id": "a", "args": {}}});
    let response = played(&stream(&[call.clone(), call], "STOP", 1, 1, false)).unwrap();
    assert_eq!(response.message.tool_calls.len(), 2);
    assert_eq!(response.validate_against(&asked()).unwrap_err().category(), "provider_invalid_response");
}

fn any_part() -> impl Strategy<Value = Value> {
    let number = prop_oneof![any::<i64>().prop_map(Value::from), (-1e6..1e6_f64).prop_map(Value::from)];
    prop_oneof![
        ".{1,12}".prop_map(|it| json!({"text": it})),
        (".{1,12}", "[a-z]{1,6}").prop_map(|(it, sig)| json!({"text": it, "thoughtSignature": sig})),
        ".{1,12}".prop_map(|it| json!({"text": it, "thought": true})),
        (".{0,9}", number)
            .prop_map(|(text, n)| json!({"functionCall": {"name": "t", "args": {"s": text, "n": n}}})),
        ("[a-z]{1,6}", "[a-z]{1,6}")
            .prop_map(|(id, sig)| json!({"functionCall": {"name": "t", "id": id}, "thoughtSignature": sig})),
        Just(json!({"executableCode": {"code": "1"}})),
    ]
}

fn any_json() -> impl Strategy<Value = Value> {
    let word = prop::sample::select(vec![
        "candidates",
        "content",
        "parts",
        "text",
        "thought",
        "thoughtSignature",
        "functionCall",
        "name",
        "id",
        "args",
        "finishReason",
        "STOP",
        "usageMetadata",
        "promptFeedback",
        "blockReason",
        "error",
        "code",
        "status",
        "message",
        "details",
        "index",
        "retryDelay",
    ]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-1_i64..600).prop_map(Value::from),
        word.clone().prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 50, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((word.clone(), inner), 0..6)
                .prop_map(|all| all.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()),
        ]
    })
}

/// Puts text parts of one kind together, as an answer that comes whole has them.
fn whole(content: Vec<Value>) -> Vec<Value> {
    let mut out: Vec<Value> = Vec::new();
    for part in content {
        match out.last_mut() {
            Some(last)
                if last.get("text").is_some()
                    && part.get("text").is_some()
                    && last.get("thought") == part.get("thought")
                    && last.get("thoughtSignature").is_none() =>
            {
                let text = format!("{}{}", last["text"].as_str().unwrap(), part["text"].as_str().unwrap());
                last["text"] = text.into();
                if let Some(signature) = part.get("thoughtSignature") {
                    last["thoughtSignature"] = signature.clone();
                }
            }
            _ => out.push(part),
        }
    }
    out
}

proptest! {
    // spec: llm-provider §6 (structural identity)
    #[test]
    fn a_streamed_answer_equals_the_whole_one(
        content in prop::collection::vec(any_part(), 0..6).prop_map(whole),
        finish in prop::sample::select(vec!["STOP", "MAX_TOKENS", "SAFETY", "NEW"]),
        (size, together, signature_after) in (1..5_usize, 1..4_usize, any::<bool>()),
    ) {
        let body = serde_json::from_str(&parts(content.clone().into(), finish).to_string()).unwrap();
        let atomic = GeminiMapping.read_response(body, &compose(&asked(), WHOLE).unwrap()).unwrap();
        prop_assert_eq!(played(&stream(&content, finish, size, together, signature_after)).unwrap(), atomic);
    }

    #[test]
    fn no_json_and_no_sequence_of_chunks_makes_a_decoder_panic(
        body in any_json(), chunks in prop::collection::vec(any_json(), 0..6), data in ".{0,20}",
    ) {
        let composed = compose(&asked(), WHOLE).unwrap();
        drop(GeminiMapping.read_response(body.clone(), &composed));
        drop(GeminiMapping.read_probe("m", &body));
        drop(played(&chunks));
        drop(GeminiMapping.stream_decoder(&composed).decode_event(None, &data, &mut Vec::new()));
    }
}
