//! The rules of Gemini's contents.

use serde_json::{Value, json};

/// Returns the faults for which the server would refuse a body.
pub(super) fn faults(body: &Value) -> Vec<String> {
    let mut faults = Vec::new();
    let contents = body["contents"].as_array().map_or(&[][..], Vec::as_slice);
    for (at, role) in [("first", contents.first()), ("last", contents.last())] {
        if role.is_none_or(|it| it["role"] != "user") {
            faults.push(format!("the {at} content is not of user"));
        }
    }
    // The names of the function calls of the content before, which must be answered now, in whatever order.
    let mut open: Vec<String> = Vec::new();
    for (at, content) in contents.iter().enumerate() {
        let parts = content["parts"].as_array().map_or(&[][..], Vec::as_slice);
        let answers = named(parts, "functionResponse");
        let mut problem = None;
        if answers != open {
            problem = Some(format!("{open:?} is answered by {answers:?}"));
        }
        open = named(parts, "functionCall");
        let role = content["role"].as_str().unwrap_or_default();
        if parts.is_empty() || !parts.iter().all(|it| is_part(role, it)) {
            problem = Some(format!("{parts:?} are no parts of {role:?}"));
        }
        if !answers.is_empty() && answers.len() != parts.len() {
            problem = Some("results stand beside something else".to_owned());
        }
        faults.extend(problem.map(|it| format!("contents[{at}]: {it}")));
    }
    if !open.is_empty() {
        faults.push(format!("{open:?} is never answered"));
    }
    if body.get("systemInstruction").is_some_and(|it| !is_said(&it["parts"][0]["text"])) {
        faults.push("an empty system instruction".to_owned());
    }
    faults.extend(tools(body));
    faults
}

fn named(parts: &[Value], field: &str) -> Vec<String> {
    let found = parts.iter().filter_map(|it| it.get(field));
    let mut named: Vec<String> = found.map(|it| format!("{} {}", it["id"], it["name"])).collect();
    named.sort();
    named
}

fn is_part(role: &str, part: &Value) -> bool {
    let kinds = ["text", "inlineData", "fileData", "functionCall", "functionResponse"];
    let mut has = kinds.into_iter().filter(|it| part.get(*it).is_some());
    let (kind, alone) = (has.next(), has.next().is_none());
    let signed = part.get("thoughtSignature").is_none_or(|it| role == "model" && is_said(it));
    let thought = part.get("thought").is_none_or(|it| role == "model" && *it == true);
    let good = match (role, kind) {
        ("user" | "model", Some("text")) => is_said(&part["text"]),
        ("user", Some("inlineData")) => is_said(&part["inlineData"]["data"]),
        ("user", Some("fileData")) => is_said(&part["fileData"]["fileUri"]),
        ("user", Some("functionResponse")) => {
            is_said(&part["functionResponse"]["name"]) && part["functionResponse"]["response"].is_object()
        }
        ("model", Some("functionCall")) => {
            is_said(&part["functionCall"]["name"]) && part["functionCall"]["args"].is_object()
        }
        _ => false,
    };
    good && alone && signed && thought
}

fn is_said(text: &Value) -> bool {
    text.as_str().is_some_and(|it| !it.is_empty())
}

fn tools(body: &Value) -> Option<String> {
    let declared = &body.get("tools")?[0]["functionDeclarations"];
    let all = declared.as_array().map_or(&[][..], Vec::as_slice);
    let good = |it: &Value| {
        is_said(&it["name"]) && (it.get("parameters").is_some() != it.get("parametersJsonSchema").is_some())
    };
    (all.is_empty() || !all.iter().all(good)).then(|| format!("{declared} are no declarations"))
}

#[test]
fn the_rules_of_gemini_refuse_what_its_server_refuses() {
    let of = |contents: Value| faults(&json!({ "contents": contents })).len();
    let user = |parts: Value| json!({ "role": "user", "parts": parts });
    let model = |parts: Value| json!({ "role": "model", "parts": parts });
    let said = || user(json!([{ "text": "a" }]));
    let call = |id: &str| json!({ "functionCall": { "id": id, "name": "f", "args": {} } });
    let result =
        |id: &str| json!({ "functionResponse": { "id": id, "name": "f", "response": { "result": "" } } });
    let calls = |ids: &[&str]| model(ids.iter().map(|it| call(it)).collect());
    let results = |ids: &[&str]| user(ids.iter().map(|it| result(it)).collect());

    assert_eq!(of(json!([said(), calls(&["a", "b"]), results(&["b", "a"]), said()])), 0);
    assert_eq!(
        of(json!([said(), model(json!([{ "text": "h", "thought": true }, { "text": "b" }])), said()])),
        0
    );
    assert_eq!(of(json!([])), 2);
    assert_eq!(of(json!([model(json!([{ "text": "b" }])), said()])), 1);
    for wrong in [
        json!([said(), model(json!([{ "text": "b" }]))]),
        json!([said(), calls(&["a", "b"]), results(&["a"]), said()]),
        json!([said(), calls(&["a"]), said()]),
        json!([said(), calls(&["a"]), said(), results(&["a"])]),
        json!([said(), calls(&["a"]), user(json!([result("a"), { "text": "b" }]))]),
        json!([said(), results(&["a"])]),
        json!([said(), calls(&["a"])]),
        json!([user(json!([]))]),
        json!([user(json!([{ "text": "" }]))]),
        json!([user(json!([{ "text": "a", "thought": true }]))]),
        json!([user(json!([{ "text": "a", "inlineData": { "data": "b" } }]))]),
        json!([said(), model(json!([{ "text": "b", "thoughtSignature": "" }])), said()]),
        json!([said(), model(json!([{ "functionCall": { "name": "f" } }])), said()]),
        json!([{ "role": "assistant", "parts": [{ "text": "a" }] }]),
    ] {
        assert_ne!(of(wrong.clone()), 0, "{wrong}");
    }
}
