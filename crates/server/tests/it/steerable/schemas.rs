//! The specification's schemas.

use std::path::PathBuf;
use std::sync::OnceLock;

use serde_json::{Value, json};

const SCHEMAS: [&str; 5] =
    ["chat/ChatMessage", "events/SSEEvent", "tools/ToolCall", "tools/ToolResult", "runtime/AgentSession"];

fn registry() -> Option<&'static jsonschema::Registry<'static>> {
    static REGISTRY: OnceLock<Option<jsonschema::Registry<'static>>> = OnceLock::new();
    let made = REGISTRY.get_or_init(|| {
        let beside = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/spec");
        let spec = std::env::var_os("SINGLETREE_SPEC").map_or_else(|| PathBuf::from(beside), PathBuf::from);
        let spec = spec.join("steerable");
        if !spec.is_dir() {
            eprintln!("not run: the schemas of Steerable chat: no specification found");
            return None;
        }
        let mut registry = jsonschema::Registry::new();
        for name in SCHEMAS {
            let path = format!("{name}.schema.json");
            let schema: Value =
                serde_json::from_str(&std::fs::read_to_string(spec.join(&path)).unwrap()).unwrap();
            registry = registry.add(format!("https://steerable.dev/spec/{path}"), schema).unwrap();
        }
        Some(registry.prepare().unwrap())
    });
    made.as_ref()
}

/// Holds a document against a schema.
pub(super) fn check(schema: &str, document: &Value) {
    let Some(registry) = registry() else { return };
    let schema = json!({ "$ref": format!("https://steerable.dev/spec/{schema}.schema.json") });
    let options = jsonschema::options().with_registry(registry).should_validate_formats(true);
    let validator = options.build(&schema).unwrap();
    let mistakes: Vec<String> = validator.iter_errors(document).map(|it| it.to_string()).collect();
    assert_eq!(mistakes, Vec::<String>::new(), "{document}");
}

/// Checks an event of the stream against its schema, and its payload against the payload's schema.
pub(super) fn check_event(event: &Value) {
    check("events/SSEEvent", event);
    match event["type"].as_str() {
        Some("tool_call") => check("tools/ToolCall", &event["payload"]),
        Some("tool_result") => check("tools/ToolResult", &event["payload"]),
        _ => {}
    }
}
