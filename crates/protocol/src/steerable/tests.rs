//! The shapes of Steerable chat, held against its schemas.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::*;

/// Returns where the specification is, or says that a test is not run.
fn spec(test: &str) -> Option<PathBuf> {
    let beside = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/spec");
    let spec = std::env::var_os("SINGLETREE_SPEC").map_or_else(|| PathBuf::from(beside), PathBuf::from);
    let spec = spec.join("steerable");
    if spec.is_dir() {
        return Some(spec);
    }
    writeln!(std::io::stderr(), "not run: {test}: no specification found").unwrap();
    None
}

fn read(path: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

const SCHEMAS: [&str; 6] = [
    "chat/ChatMessage",
    "chat/ChatAgent",
    "events/SSEEvent",
    "tools/ToolCall",
    "tools/ToolResult",
    "runtime/AgentSession",
];

/// Tells what of a document a schema does not allow.
fn mistakes(spec: &Path, schema: &str, document: &Value) -> Vec<String> {
    let mut registry = jsonschema::Registry::new();
    for name in SCHEMAS {
        let path = format!("{name}.schema.json");
        let id = format!("https://steerable.dev/spec/{path}");
        registry = registry.add(id, read(&spec.join(path))).unwrap();
    }
    let registry = registry.prepare().unwrap();
    let schema = json!({ "$ref": format!("https://steerable.dev/spec/{schema}.schema.json") });
    let validator =
        jsonschema::options().with_registry(&registry).should_validate_formats(true).build(&schema).unwrap();
    validator.iter_errors(document).map(|it| it.to_string()).collect()
}

fn message() -> ChatMessage {
    ChatMessage {
        id: "t/1".into(),
        role: Role::Assistant,
        content: String::new(),
        created_at: "2026-01-01T00:00:00.000Z".into(),
        chat_id: Some("s".into()),
        agent_id: Some("a".into()),
        tool_calls: vec![ToolCall { id: "c".into(), name: "look".into(), arguments: Default::default() }],
        tool_result: Some(result()),
        tool_call_id: Some("c".into()),
        updated_at: Some("2026-01-01T00:00:00.000Z".into()),
        parts: vec![ContentPart {
            kind: "image".into(),
            text: None,
            url: Some("blob:0".into()),
            media_type: Some("image/png".into()),
        }],
        other: Default::default(),
    }
}

fn result() -> ToolResult {
    ToolResult {
        success: false,
        terminal: Some(false),
        needs_followup: Some(true),
        next_action: Some("again".into()),
        message: Some("no".into()),
        error: Some("no".into()),
        data: Some(Default::default()),
        call_id: Some("c".into()),
        other: Default::default(),
    }
}

fn event(kind: EventType) -> SseEvent {
    SseEvent {
        event: Some("e".into()),
        content: Some("c".into()),
        hint: Some("h".into()),
        message: Some("m".into()),
        code: Some("x".into()),
        orchestration_group_id: Some("g".into()),
        task_id: Some("t".into()),
        message_id: Some("m".into()),
        agent_id: Some("a".into()),
        payload: Some(Default::default()),
        ..SseEvent::new(kind)
    }
}

fn session() -> AgentSession {
    AgentSession {
        id: Some("i".into()),
        session_id: "s".into(),
        user_id: "u".into(),
        project_id: Some("p".into()),
        chat_id: "s".into(),
        current_stage: "idle".into(),
        next_stage: Some("n".into()),
        scenario: "scripted".into(),
        stage_data: Some(Default::default()),
        is_active: true,
        created_at: "2026-01-01T00:00:00.000Z".into(),
        updated_at: "2026-01-01T00:00:00.000Z".into(),
    }
}

// spec: steerable chat, events, tools, runtime
#[test]
fn every_shape_is_what_its_schema_allows() {
    let Some(spec) = spec("every_shape_is_what_its_schema_allows") else { return };
    let check = |schema: &str, document: Value| {
        assert_eq!(mistakes(&spec, schema, &document), Vec::<String>::new(), "{document}");
    };
    check("chat/ChatMessage", serde_json::to_value(message()).unwrap());
    check("tools/ToolResult", serde_json::to_value(result()).unwrap());
    check("runtime/AgentSession", serde_json::to_value(session()).unwrap());
    let agent = ChatAgent {
        id: "a".into(),
        name: "A".into(),
        sort_order: Some(1),
        created_at: "2026-01-01T00:00:00Z".into(),
        updated_at: "2026-01-01T00:00:00Z".into(),
        ..ChatAgent::default()
    };
    check("chat/ChatAgent", serde_json::to_value(agent).unwrap());
    let kinds = [
        EventType::Content,
        EventType::Error,
        EventType::Agent,
        EventType::Orchestration,
        EventType::LoaderHint,
        EventType::Keepalive,
        EventType::Done,
        EventType::BudgetExhausted,
        EventType::ToolCall,
        EventType::ToolResult,
    ];
    for kind in kinds {
        check("events/SSEEvent", serde_json::to_value(event(kind)).unwrap());
    }
    // The list of types is the schema's, all of it.
    let named: Vec<Value> = kinds.iter().map(|it| serde_json::to_value(it).unwrap()).collect();
    let mut listed = read(&spec.join("events/SSEEvent.schema.json"))["properties"]["type"]["enum"].clone();
    listed.as_array_mut().unwrap().sort_by_key(|it| named.iter().position(|of| of == it));
    assert_eq!(Value::from(named), listed);
    // The judge sees what is wrong.
    for (schema, document) in [
        ("chat/ChatMessage", json!({ "id": "m", "role": "user", "content": "hi" })),
        ("events/SSEEvent", json!({ "type": "text" })),
        ("runtime/AgentSession", json!({ "sessionId": "s" })),
        (
            "chat/ChatMessage",
            json!({
                "id": "m", "role": "assistant", "content": "", "createdAt": "2026-01-01T00:00:00Z",
                "toolCalls": [{ "id": "c", "name": "n", "arguments": {}, "callId": "c" }],
            }),
        ),
    ] {
        assert_ne!(mistakes(&spec, schema, &document), Vec::<String>::new(), "{document}");
    }
}

// spec: steerable tools, Completion semantics
#[test]
fn a_result_ends_the_run_as_the_golden_decisions_say() {
    let Some(spec) = spec("a_result_ends_the_run_as_the_golden_decisions_say") else { return };
    let decisions = read(&spec.join("golden/completion_decisions.json"));
    let decisions = decisions.as_array().unwrap();
    assert_eq!(decisions.len(), 7);
    for case in decisions {
        // What says nothing of success is none of ours: it is no ToolResult at all.
        let result = serde_json::from_value::<ToolResult>(case["input"].clone());
        let terminal = match result {
            Ok(it) => it.is_terminal(),
            Err(_) => case["input"]["terminal"] == true,
        };
        assert_eq!(terminal, case["is_terminal"] == true, "{case}");
    }
}

#[test]
fn what_is_not_known_is_kept_and_what_is_closed_refuses_it() {
    let check = |text: Value| {
        let message: ChatMessage = serde_json::from_value(text.clone()).unwrap();
        assert_eq!(serde_json::to_value(message).unwrap(), text);
    };
    check(
        json!({ "id": "m", "role": "user", "content": "hi", "createdAt": "2026-01-01T00:00:00Z", "mood": 1 }),
    );
    check(json!({
        "id": "m2", "role": "assistant", "agentId": "r", "content": "Sure", "createdAt": "2026-01-01T00:00:00Z",
        "toolCalls": [{ "id": "c1", "name": "look", "arguments": { "q": "x" } }],
        "toolResult": { "success": true, "data": { "results": [] }, "cost": 2 },
    }));
    let call = json!({ "id": "c", "name": "n", "arguments": {}, "callId": "c" });
    assert!(serde_json::from_value::<ToolCall>(call).is_err());
    let mut session = serde_json::to_value(session()).unwrap();
    session["mood"] = 1.into();
    assert!(serde_json::from_value::<AgentSession>(session).is_err());
    // Variants are the page's own (spec: steerable chat, Variants).
    let text = serde_json::to_string(&message()).unwrap();
    assert!(!text.contains("activeVariantId") && !text.contains("variantsCount"), "{text}");
}

#[test]
fn a_body_has_its_text_under_either_name() {
    let check = |body: Value, text: Option<&str>| {
        let body: SendBody = serde_json::from_value(body).unwrap();
        let said = match body.message {
            Some(SentMessage::Text(text)) => Some(text),
            Some(SentMessage::Message { content, .. }) => content,
            None => body.content,
        };
        assert_eq!(said.as_deref(), text);
    };
    check(json!({ "content": "hi", "metadata": { "a": 1 } }), Some("hi"));
    check(json!({ "message": "hi" }), Some("hi"));
    check(json!({ "message": { "id": "m", "role": "user", "content": "hi" } }), Some("hi"));
    check(json!({ "message": { "parts": [{ "type": "text", "text": "hi" }] } }), None);
}
