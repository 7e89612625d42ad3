//! The rules of Anthropic's messages.

use std::collections::BTreeSet;

use serde_json::{Value, json};

/// Returns the faults for which the server would refuse a body. It takes messages of one role that follow each other
/// for one message.
pub(super) fn faults(body: &Value) -> Vec<String> {
    let mut faults = Vec::new();
    if body["max_tokens"].as_u64().is_none_or(|it| it == 0) || !body["model"].is_string() {
        faults.push("no model or no max_tokens".to_owned());
    }
    if body.get("system").is_some_and(|it| it.as_str().is_none_or(str::is_empty)) {
        faults.push("an empty system".to_owned());
    }
    let messages = joined(body["messages"].as_array().map_or(&[][..], Vec::as_slice));
    if messages.first().is_none_or(|(role, _)| role != "user") {
        faults.push("the first message is not of user".to_owned());
    }
    if messages.last().is_none_or(|(role, _)| role != "user") {
        faults.push("the last message is not of user".to_owned());
    }
    let mut open = BTreeSet::new();
    for (at, (role, blocks)) in messages.iter().enumerate() {
        let problem = match role.as_str() {
            "user" => user(blocks, &mut open),
            "assistant" => assistant(blocks, &mut open),
            other => Some(format!("{other:?} is no role")),
        };
        faults.extend(problem.map(|it| format!("messages[{at}]: {it}")));
    }
    faults.extend(tools(body));
    faults
}

fn joined(messages: &[Value]) -> Vec<(String, Vec<Value>)> {
    let mut out: Vec<(String, Vec<Value>)> = Vec::new();
    for message in messages {
        let role = message["role"].as_str().unwrap_or_default().to_owned();
        let blocks = match &message["content"] {
            Value::Array(blocks) => blocks.clone(),
            content => vec![json!({ "type": "text", "text": content })],
        };
        match out.last_mut() {
            // Nothing stands for nothing: an empty list is refused wherever it is.
            Some((known, all)) if *known == role && !blocks.is_empty() => all.extend(blocks),
            _ => out.push((role, blocks)),
        }
    }
    out
}

fn user(blocks: &[Value], open: &mut BTreeSet<String>) -> Option<String> {
    let is_result = |block: &&Value| block["type"] == "tool_result";
    for result in blocks.iter().take_while(is_result) {
        let id = result["tool_use_id"].as_str().unwrap_or_default();
        if !open.remove(id) {
            return Some(format!("{id:?} is no open call of the message before"));
        }
        if !result["content"].is_string() {
            return Some(format!("{result} has no text"));
        }
    }
    if !open.is_empty() {
        return Some(format!("the calls {:?} are not answered first", std::mem::take(open)));
    }
    let good = |block: &Value| match block["type"].as_str() {
        Some("text") => is_said(&block["text"]),
        Some("image") => ["url", "base64"].iter().any(|it| block["source"]["type"] == *it),
        _ => false,
    };
    let rest: Vec<&Value> = blocks.iter().skip_while(is_result).collect();
    (blocks.is_empty() || !rest.into_iter().all(good)).then(|| format!("{blocks:?} are no blocks of a user"))
}

fn assistant(blocks: &[Value], open: &mut BTreeSet<String>) -> Option<String> {
    for call in blocks.iter().filter(|it| it["type"] == "tool_use") {
        let id = call["id"].as_str().unwrap_or_default();
        let plain = |it: char| it.is_ascii_alphanumeric() || it == '_' || it == '-';
        if id.is_empty() || !id.chars().all(plain) || !open.insert(id.to_owned()) {
            return Some(format!("{id:?} is no id, or there twice"));
        }
    }
    let good = |block: &Value| match block["type"].as_str() {
        Some("text") => is_said(&block["text"]),
        Some("tool_use") => block["input"].is_object() && is_said(&block["name"]),
        Some("thinking") => block["thinking"].is_string() && is_said(&block["signature"]),
        Some("redacted_thinking") => is_said(&block["data"]),
        _ => false,
    };
    let last_thinks =
        blocks.last().is_none_or(|it| it["type"] == "thinking" || it["type"] == "redacted_thinking");
    (last_thinks || !blocks.iter().all(good)).then(|| format!("{blocks:?} are no blocks of the model"))
}

fn is_said(text: &Value) -> bool {
    text.as_str().is_some_and(|it| !it.trim().is_empty())
}

fn tools(body: &Value) -> Option<String> {
    let tools = body.get("tools")?.as_array().map_or(&[][..], Vec::as_slice);
    let names: BTreeSet<&str> = tools.iter().filter_map(|it| it["name"].as_str()).collect();
    let shaped = tools.iter().all(|it| it["input_schema"]["type"] == "object");
    (tools.is_empty() || names.len() != tools.len() || !shaped).then(|| format!("{tools:?} are no tools"))
}

#[test]
fn the_rules_of_anthropic_refuse_what_its_server_refuses() {
    let of = |messages: Value| faults(&json!({ "model": "m", "max_tokens": 1, "messages": messages })).len();
    let user = |content: Value| json!({ "role": "user", "content": content });
    let said = || user(json!("a"));
    let model = |content: Value| json!({ "role": "assistant", "content": content });
    let call = |id: &str| json!({ "type": "tool_use", "id": id, "name": "f", "input": {} });
    let result = |id: &str| json!({ "type": "tool_result", "tool_use_id": id, "content": "" });
    let text = |text: &str| json!({ "type": "text", "text": text });
    let thinking = || json!({ "type": "thinking", "thinking": "", "signature": "s" });
    let calls = |ids: &[&str]| model(ids.iter().map(|it| call(it)).collect());
    let results = |ids: &[&str]| user(ids.iter().map(|it| result(it)).collect());

    assert_eq!(of(json!([said(), calls(&["a", "b"]), results(&["b", "a"]), said()])), 0);
    assert_eq!(of(json!([said(), said(), model(json!([thinking(), text("b")])), said()])), 0);
    assert_eq!(of(json!([said(), calls(&["a"]), user(json!([result("a"), text("b")]))])), 0);
    assert_eq!(faults(&json!({ "messages": [said()] })).len(), 1);
    assert_eq!(of(json!([])), 2);
    assert_eq!(of(json!([model(json!("b")), said()])), 1);
    assert_eq!(of(json!([said(), model(json!("b"))])), 1);
    for wrong in [
        json!([said(), calls(&["a", "b"]), results(&["a"]), said()]),
        json!([said(), calls(&["a"]), said()]),
        json!([said(), calls(&["a"]), user(json!([text("b"), result("a")]))]),
        json!([said(), calls(&["a", "a"]), results(&["a"])]),
        json!([said(), calls(&["a.b"]), results(&["a.b"])]),
        json!([said(), calls(&["a"]), results(&["a", "a"])]),
        json!([said(), results(&["a"])]),
        json!([user(json!(""))]),
        json!([user(json!([]))]),
        json!([said(), model(json!([])), said()]),
        json!([said(), model(json!("\n")), said()]),
        json!([said(), model(json!([text("b"), thinking()])), said()]),
        json!([said(), model(json!([{ "type": "thinking", "thinking": "h" }, text("b")])), said()]),
        json!([said(), { "role": "system", "content": "a" }, said()]),
    ] {
        assert_ne!(of(wrong.clone()), 0, "{wrong}");
    }
}
