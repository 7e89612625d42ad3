//! Lists of messages.

use super::*;
use crate::Map;

fn call(id: &str) -> ToolCall {
    ToolCall::new(id, "t", Map::new())
}

fn asking(ids: &[&str]) -> ChatMessage {
    ChatMessage::assistant("").with_tool_calls(ids.iter().map(|it| call(it)))
}

// spec: llm-provider §3, §5
#[test]
fn a_list_is_refused_by_the_message_that_breaks_it() {
    let (user, assistant) = (ChatMessage::user("u"), ChatMessage::assistant("a"));
    let (system, result) = (ChatMessage::system("s"), ChatMessage::tool("x", ""));
    for (messages, expected) in [
        (vec![], Some("messages: must not be empty")),
        (vec![user.clone()], None),
        (vec![system.clone(), user.clone(), asking(&["x"]), result.clone()], None),
        (vec![system.clone()], Some("messages[0]: the last message must be of user or tool, not of system")),
        (
            vec![user.clone(), assistant.clone()],
            Some("messages[1]: the last message must be of user or tool, not of assistant"),
        ),
        (
            vec![assistant.clone(), user.clone()],
            Some("messages[0].role: a conversation cannot begin with assistant"),
        ),
        (vec![user.clone(), system], Some("messages[1].role: a system message can only come first")),
        (
            vec![user.clone(), result.clone(), asking(&["x"])],
            Some("messages[1].tool_call_id: \"x\" is no call of an earlier assistant message"),
        ),
        (
            vec![user.clone(), ChatMessage::assistant(""), user],
            Some("messages[1].content: must not be empty on an assistant message without tool calls"),
        ),
    ] {
        let found = validate_messages(&messages).map_err(|it| it.to_string());
        assert_eq!(found.err().as_deref(), expected, "{messages:?}");
    }
}

// INV-6
#[test]
fn a_call_is_open_until_its_own_message_is_answered() {
    let first = asking(&["x", "y", "z"]);
    let following = [
        ChatMessage::tool("y", "1"),
        ChatMessage::user("meanwhile"),
        ChatMessage::tool("z", "2"),
        asking(&["x"]),
        ChatMessage::tool("x", "3"),
    ];
    assert_eq!(find_open_calls(&first, &following), [&call("x")]);
    assert_eq!(find_open_calls(&following[3], &following[4..]), Vec::<&ToolCall>::new());
    assert_eq!(find_open_calls::<ChatMessage>(&asking(&["x"]), &[]), [&call("x")]);
}
