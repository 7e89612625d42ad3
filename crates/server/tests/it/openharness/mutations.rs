//! Requests changed in one place: the verdict of the schema on each, and the reaction of the engine. Where the schema
//! and the text of the protocol differ, the text counts.

use serde_json::{Value, json};

use super::asking::{Shell, error};
use super::schema::takes_request;
use crate::support::Rig;

/// The reaction of the engine.
enum Does {
    /// Takes it.
    Takes,
    /// Refuses it as invalid, because of this field.
    Refuses(&'static str),
    /// Does not speak the version.
    Declines,
    /// Cannot get an attachment.
    Misses(&'static str),
}

use Does::{Declines, Misses, Refuses, Takes};

/// A value and the field that it is put into; `null` is put, too.
struct Mutation(&'static str, Value, bool, Does);

/// Takes a field away.
struct Without(&'static str, bool, Does);

fn full() -> Value {
    json!({
        "protocol_version": "1.0.0", "request_id": "r", "correlation_id": "c",
        "capabilities": {"openharness.ui.rich_cards": true},
        "request": {
            "auth": {"tenant_id": "default", "credential_ref": "k", "session_id": "s"},
            "context": {
                "session_id": "s", "conversation_id": "c", "user_intent": "say a",
                "task_hint": {"sop_id": "scripted", "plugin_id": "p", "business_key": "b"},
                "continuation": {"run_id": "run"},
                "shell": {"shell_kind": "tv", "shell_version": "1", "locale": "en", "timezone": "UTC"},
                "environment_state": {"privacy_tier": "public", "os": "x", "active_window": "y", "screen_hash": "z"},
                "extensions": {"com.example": {}},
            },
            "extensions": {},
        },
    })
}

fn with_attachment(attachment: Value) -> Value {
    let mut message = full();
    message["request"]["context"]["attachments"] = json!([attachment]);
    message
}

/// Puts a value where a path of dots leads.
fn put(message: &mut Value, path: &str, value: Option<Value>) {
    let (parent, name) = path.rsplit_once('.').unwrap_or(("", path));
    let pointer =
        parent.split('.').filter(|it| !it.is_empty()).map(|it| format!("/{it}")).collect::<String>();
    let parent = message.pointer_mut(&pointer).and_then(Value::as_object_mut).unwrap();
    match value {
        Some(value) => parent.insert(name.to_owned(), value),
        None => parent.remove(name),
    };
}

fn mutations() -> Vec<Mutation> {
    const CONTEXT: &str = "request.context";
    let invalid = |path: &'static str, value: Value| {
        let field = path.strip_prefix("request.").unwrap_or(path);
        Mutation(path, value, false, Refuses(field))
    };
    vec![
        // Versions.
        Mutation("protocol_version", json!("1.0.0-draft"), true, Takes),
        Mutation("protocol_version", json!("1.7.3+build"), true, Takes),
        Mutation("protocol_version", json!("9.0.0"), true, Declines),
        Mutation("protocol_version", json!("0.9.0"), true, Declines),
        Mutation("protocol_version", json!("01.0.0"), true, Refuses("protocol_version")),
        Mutation("protocol_version", json!("1.0.0-01"), true, Refuses("protocol_version")),
        invalid("protocol_version", json!("1.0")),
        invalid("protocol_version", json!("1.0.0\n")),
        invalid("protocol_version", json!("")),
        invalid("protocol_version", json!(1)),
        invalid("protocol_version", json!(null)),
        // Ids.
        invalid("request_id", json!("")),
        Mutation("request_id", json!(null), false, Takes),
        invalid("request_id", json!(7)),
        invalid("correlation_id", json!("")),
        Mutation("correlation_id", json!(null), false, Takes),
        // Capabilities.
        invalid("capabilities", json!([])),
        Mutation("capabilities", json!(null), false, Takes),
        Mutation("capabilities", json!({}), true, Takes),
        Mutation("capabilities", json!({"x": [1], "openharness.streaming": null}), true, Takes),
        // The payload.
        invalid("request", json!([])),
        invalid("request", json!(null)),
        Mutation("request", json!({}), true, Refuses("context.user_intent")),
        invalid("request.auth", json!("token")),
        invalid("request.auth.tenant_id", json!(1)),
        Mutation("request.auth.session_id", json!("t"), true, Refuses("auth.session_id")),
        invalid(CONTEXT, json!([])),
        invalid("request.context.user_intent", json!({"text": "say a"})),
        Mutation("request.context.user_intent", json!(r#"{"do":"this"}"#), true, Takes),
        Mutation("request.context.session_id", json!(null), false, Takes),
        Mutation("request.context.session_id", json!(""), true, Refuses("auth.session_id")),
        invalid("request.context.task_hint", json!("sop")),
        Mutation("request.context.task_hint", json!({}), true, Takes),
        Mutation(
            "request.context.task_hint.sop_id",
            json!("none"),
            true,
            Refuses("context.task_hint.sop_id"),
        ),
        invalid("request.context.continuation", json!([])),
        Mutation("request.context.continuation.continuation_token", json!(null), false, Takes),
        Mutation("request.context.continuation", json!({}), true, Takes),
        invalid("request.context.shell.shell_kind", json!("")),
        Mutation("request.context.shell.locale", json!("not a locale"), true, Takes),
        invalid("request.context.environment_state.privacy_tier", json!("internal")),
        Mutation("request.context.environment_state.privacy_tier", json!(null), false, Takes),
        invalid("request.context.environment_state.os", json!(["x"])),
        Mutation("request.context.environment_state", json!({"anything": [{"goes": null}]}), true, Takes),
        invalid("request.context.attachments", json!({})),
        Mutation("request.context.attachments", json!([]), true, Takes),
        invalid("request.context.extensions", json!([])),
        Mutation("request.extensions", json!(null), false, Takes),
        // A field that the protocol does not name may be anything.
        Mutation("extensions", json!("top"), true, Takes),
        Mutation("response", json!({"status": "success"}), true, Takes),
    ]
}

fn removals() -> Vec<Without> {
    vec![
        Without("protocol_version", false, Refuses("protocol_version")),
        Without("request", false, Refuses("request")),
        Without("request.context", true, Refuses("context.user_intent")),
        Without("request_id", true, Takes),
        Without("request.auth", true, Takes),
        Without("request.context.session_id", true, Takes),
    ]
}

fn attachments() -> Vec<(Value, bool, Does)> {
    const AT: &str = "context.attachments[0]";
    vec![
        (json!({}), true, Refuses(AT)),
        (json!({"mime_type": "image/png"}), true, Refuses(AT)),
        (json!({"ref_id": "a", "data": "aGVsbG8gd29ybGQ="}), true, Refuses("context.attachments[0].data")),
        (json!({"uri": "data:image/png;base64,AAAA"}), true, Refuses("context.attachments[0].uri")),
        (json!({"ref_id": "a", "size_bytes": 1.5}), false, Refuses("context.attachments[0].size_bytes")),
        (json!({"ref_id": null}), false, Refuses(AT)),
        (json!("a"), false, Refuses(AT)),
        (json!({"ref_id": "nothing"}), true, Misses(AT)),
        (json!({"asset_id": "nothing"}), true, Misses(AT)),
    ]
}

#[tokio::test]
async fn each_changed_request_is_taken_or_refused_with_its_place() {
    let rig = Rig::start().await;
    let shell = Shell::of(&rig);
    let mut table = Vec::new();
    for Mutation(path, value, valid, does) in mutations() {
        let mut message = full();
        put(&mut message, path, Some(value));
        table.push((message, valid, does));
    }
    for Without(path, valid, does) in removals() {
        let mut message = full();
        put(&mut message, path, None);
        table.push((message, valid, does));
    }
    for (attachment, valid, does) in attachments() {
        table.push((with_attachment(attachment), valid, does));
    }
    for (at, (mut message, valid, does)) in table.into_iter().enumerate() {
        assert_eq!(takes_request(&message).unwrap_or(valid), valid, "{message}");
        if message["request_id"] == "r" {
            message["request_id"] = format!("r{at}").into();
        }
        let answer = shell.ask(&message).await;
        let told = || (error(&answer).0, error(&answer).1);
        match does {
            Takes => {
                // The agent need not understand the text.
                let spoke = answer["response"]["extensions"]["dev.singletree"]["turn_id"].is_string();
                assert!(spoke, "{message} {answer}");
            }
            Refuses(field) => assert_eq!(told(), ("invalid_request".into(), Some(field.into())), "{message}"),
            Declines => assert_eq!(told(), ("protocol_version_unsupported".into(), None), "{message}"),
            Misses(field) => {
                assert_eq!(told(), ("attachment_unresolvable".into(), Some(field.into())), "{message}");
            }
        }
        let echoed = message["request_id"].as_str().filter(|it| !it.is_empty());
        assert_eq!(answer["request_id"].as_str(), echoed, "{message}");
    }
    rig.stop().await;
}
