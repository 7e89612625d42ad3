//! The rules of OpenAI's chat completions.

use std::collections::BTreeSet;

use serde_json::{Value, json};

/// Returns the faults for which the server would refuse a body.
pub(crate) fn faults(body: &Value) -> Vec<String> {
    let mut faults = Vec::new();
    let messages = body["messages"].as_array().map_or(&[][..], Vec::as_slice);
    if messages.is_empty() {
        faults.push("no messages".to_owned());
    }
    if !matches!(messages.last().and_then(|it| it["role"].as_str()), Some("user" | "tool")) {
        faults.push("the last message is not of user or tool".to_owned());
    }
    let mut open: BTreeSet<&str> = BTreeSet::new();
    for (at, message) in messages.iter().enumerate() {
        let role = message["role"].as_str().unwrap_or_default();
        if role != "tool" && !open.is_empty() {
            faults.push(format!("messages[{at}]: the calls {open:?} are not answered directly before"));
            open.clear();
        }
        let problem = match role {
            "system" if at > 0 => Some("a system message later than first".to_owned()),
            "system" => empty(&message["content"]),
            "user" => user(&message["content"]),
            "assistant" => assistant(message, &mut open),
            "tool" => {
                let id = message["tool_call_id"].as_str().unwrap_or_default();
                (!open.remove(id)).then(|| format!("{id:?} is no open call of the message before"))
            }
            other => Some(format!("{other:?} is no role")),
        };
        faults.extend(problem.map(|it| format!("messages[{at}]: {it}")));
    }
    if !open.is_empty() {
        faults.push(format!("the calls {open:?} are never answered"));
    }
    faults.extend(tools(body));
    faults
}

fn empty(content: &Value) -> Option<String> {
    content.as_str().is_none_or(str::is_empty).then(|| format!("{content} is no content"))
}

fn user(content: &Value) -> Option<String> {
    let Value::Array(parts) = content else { return empty(content) };
    let good = |part: &Value| match part["type"].as_str() {
        Some("text") => part["text"].as_str().is_some_and(|it| !it.is_empty()),
        Some("image_url") => part["image_url"]["url"].as_str().is_some_and(|it| !it.is_empty()),
        _ => false,
    };
    (parts.is_empty() || !parts.iter().all(good)).then(|| format!("{content} are no parts"))
}

fn assistant<'a>(message: &'a Value, open: &mut BTreeSet<&'a str>) -> Option<String> {
    let Some(calls) = message.get("tool_calls") else { return empty(&message["content"]) };
    let calls = calls.as_array().map_or(&[][..], Vec::as_slice);
    if calls.is_empty() {
        return Some("an empty list of calls".to_owned());
    }
    for call in calls {
        let id = call["id"].as_str().unwrap_or_default();
        if id.is_empty() || !open.insert(id) {
            return Some(format!("{id:?} is empty or there twice"));
        }
        let arguments = call["function"]["arguments"].as_str().unwrap_or_default();
        let object = serde_json::from_str::<Value>(arguments).is_ok_and(|it| it.is_object());
        let named = call["function"]["name"].as_str().is_some_and(|it| !it.is_empty());
        if call["type"] != "function" || !named || !object {
            return Some(format!("{call} is no call"));
        }
    }
    None
}

fn tools(body: &Value) -> Vec<String> {
    let Some(tools) = body.get("tools") else { return Vec::new() };
    let names: Vec<&str> =
        tools.as_array().into_iter().flatten().filter_map(|it| it["function"]["name"].as_str()).collect();
    let once = names.iter().collect::<BTreeSet<_>>().len() == names.len();
    if names.is_empty() || !once { vec![format!("{names:?} are no names of tools")] } else { Vec::new() }
}

#[test]
fn the_rules_of_openai_refuse_what_its_server_refuses() {
    let call =
        |id: &str| json!({ "id": id, "type": "function", "function": { "name": "f", "arguments": "{}" } });
    let calls = |ids: &[&str]| json!({ "role": "assistant", "content": null, "tool_calls": ids.iter().map(|it| call(it)).collect::<Vec<_>>() });
    let tool = |id: &str| json!({ "role": "tool", "content": "", "tool_call_id": id });
    let user = || json!({ "role": "user", "content": "a" });
    let of = |messages: &[Value]| faults(&json!({ "messages": messages })).len();
    assert_eq!(of(&[user(), calls(&["a", "b"]), tool("b"), tool("a"), user()]), 0);
    assert_eq!(of(&[user(), calls(&["a"]), tool("a"), calls(&["a"]), tool("a")]), 0);
    assert_eq!(of(&[]), 2);
    assert_eq!(of(&[user(), calls(&["a", "b"]), tool("a"), user()]), 1);
    assert_eq!(of(&[user(), calls(&["a"]), user(), tool("a")]), 2);
    assert_eq!(of(&[user(), calls(&["a", "a"]), tool("a")]), 1);
    assert_eq!(of(&[user(), calls(&["a"]), tool("a"), tool("a")]), 1);
    assert_eq!(of(&[user(), tool("a")]), 1);
    assert_eq!(of(&[user(), calls(&["a"])]), 2);
    assert_eq!(of(&[user(), json!({ "role": "assistant", "content": null }), user()]), 1);
    assert_eq!(of(&[json!({ "role": "user", "content": "" })]), 1);
    assert_eq!(of(&[user(), json!({ "role": "system", "content": "a" }), user()]), 1);
}
