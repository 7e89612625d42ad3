//! Requests before they are sent.

use serde_json::json;

use super::*;

fn tool(name: &str) -> ToolDefinition {
    ToolDefinition::new(name, "a tool", json!({"type": "object"})).expect("valid")
}

// spec: llm-provider §5, §7
#[test]
fn tools_and_the_choice_among_them_are_checked() {
    let plain = || Request::new(vec![Arc::new(ChatMessage::user("u"))]);
    let two = || plain().with_tools([tool("a"), tool("b")]);
    for (request, expected) in [
        (plain().with_tool_choice(ToolChoicePolicy::Auto), None),
        (plain().with_tool_choice(ToolChoicePolicy::None), None),
        (two().with_tool_choice(ToolChoicePolicy::Required), None),
        (two().with_tool_choice(ToolChoicePolicy::Tool("b".to_owned())), None),
        (plain().with_tools([tool("a"), tool("a")]), Some("tools[1].name: the tool \"a\" is there twice")),
        (
            plain().with_tool_choice(ToolChoicePolicy::Required),
            Some("tool_choice: a forced call needs tools"),
        ),
        (
            plain().with_tool_choice(ToolChoicePolicy::Tool("a".to_owned())),
            Some("tool_choice: a forced call needs tools"),
        ),
        (
            two().with_tool_choice(ToolChoicePolicy::Tool("c".to_owned())),
            Some("tool_choice: \"c\" is none of the tools of this request"),
        ),
        (
            plain().with_response_schema(Arc::new(Schema::compile(json!({})).expect("compiles"))),
            Some("response_schema.type: must be object"),
        ),
    ] {
        assert_eq!(request.check().map_err(|it| it.to_string()).err().as_deref(), expected);
    }
}

// spec: llm-provider §4
#[test]
fn a_tool_needs_a_name_and_a_schema_of_an_object() {
    for (name, parameters) in [
        ("", json!({"type": "object"})),
        ("t", json!([])),
        ("t", json!({"type": "string"})),
        ("t", json!({"type": "object", "properties": 3})),
        ("t", json!({"type": "object", "$ref": "https://example.com/schema"})),
    ] {
        let error = ToolDefinition::new(name, "", parameters.clone()).expect_err("refused");
        assert_eq!(error.category(), "provider_invalid_request", "{parameters}");
    }
}
