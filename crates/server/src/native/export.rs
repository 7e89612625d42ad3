//! The parts that are removed from an exported session.

use serde_json::Value;

/// Removes the thinking of models from the lists of an export (D19).
pub(super) fn remove_thinking(document: &mut Value) {
    let Some(lists) = document.get_mut("lists").and_then(Value::as_object_mut) else { return };
    for item in lists.values_mut().filter_map(Value::as_array_mut).flatten() {
        if let Some(content) = item.pointer_mut("/body/content") {
            remove_thinking_blocks(content);
        }
    }
}

fn remove_thinking_blocks(content: &mut Value) {
    let Some(blocks) = content.as_array_mut() else { return };
    blocks.retain(|block| !matches!(block["type"].as_str(), Some("thinking" | "redacted_thinking")));
    if blocks.is_empty() {
        *content = Value::String(String::new());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn thoughts_are_taken_out_and_nothing_else() {
        let text = json!({ "type": "text", "text": "said", "signature": "s" });
        let mut document = json!({ "kind": "singletree.session", "lists": {
            "messages": [
                { "body": { "role": "user", "content": "hello" } },
                { "body": { "role": "assistant", "content": [
                    { "type": "thinking", "text": "hm", "signature": "x" }, text,
                    { "type": "redacted_thinking", "data": "y" }] } },
                { "body": { "role": "assistant", "content": [{ "type": "thinking", "text": "hm" }],
                    "tool_calls": [{ "id": "1", "name": "look", "arguments": {} }] }, "side": { "agent": "a" } },
            ],
            "other": [{ "body": 7 }],
        } });
        remove_thinking(&mut document);
        let expected = json!({ "kind": "singletree.session", "lists": {
            "messages": [
                { "body": { "role": "user", "content": "hello" } },
                { "body": { "role": "assistant", "content": [text] } },
                { "body": { "role": "assistant", "content": "",
                    "tool_calls": [{ "id": "1", "name": "look", "arguments": {} }] }, "side": { "agent": "a" } },
            ],
            "other": [{ "body": 7 }],
        } });
        assert_eq!(document, expected);
    }
}
