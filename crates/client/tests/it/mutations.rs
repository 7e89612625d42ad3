//! Responses changed in one place: the verdict of the schema on each, and the reaction of the shell.

use serde_json::{Value, json};
use singletree_client::{ShellProfile, ShellSession};
use singletree_protocol::openharness::ResponseMessage;

use crate::spec::validator;

/// The reaction of the shell: it refuses the whole message because of a field, or takes it and carries out some
/// actions.
enum Does {
    Refuses(&'static str),
    Takes { acts: usize, asks_first: bool },
}

use Does::{Refuses, Takes};

fn full() -> Value {
    json!({
        "protocol_version": "1.0.0", "request_id": "r", "correlation_id": "c", "supported_protocol_versions": ["1.0.0"],
        "supported_capabilities": {}, "capability_denials": [{"capability": "x", "code": "y", "message": "z"}],
        "response": {
            "status": "success", "engine_latency_ms": 1.5,
            "action_directives": [{
                "action_type": "com.example.open", "priority": "high", "execution": "parallel", "risk_tier": "safe",
                "requires_user_approval": false, "deadline_ms": 5, "payload": {"a": 1}, "extensions": {},
            }],
        },
    })
}

fn mutations() -> Vec<(&'static str, Value, bool, Does)> {
    const ACTION: &str = "/response/action_directives/0";
    let invalid =
        |path: &'static str, value: Value, field: &'static str| (path, value, false, Refuses(field));
    let acts = |asks_first: bool| Takes { acts: 1, asks_first };
    let action = |field: &'static str| -> &'static str { Box::leak(format!("{ACTION}/{field}").into()) };
    vec![
        ("/protocol_version", json!("1.9.9-rc.1"), true, acts(false)),
        ("/protocol_version", json!("01.0.0"), true, Refuses("protocol_version")),
        invalid("/protocol_version", json!("one"), "protocol_version"),
        invalid("/protocol_version", json!(null), "protocol_version"),
        invalid("/request_id", json!(""), "request_id"),
        // Some engines write null for an absent field.
        ("/request_id", json!(null), false, acts(false)),
        invalid("/correlation_id", json!([]), "correlation_id"),
        invalid("/supported_protocol_versions", json!("1.0.0"), "supported_protocol_versions"),
        invalid("/supported_protocol_versions/0", json!("1"), "supported_protocol_versions[0]"),
        invalid("/supported_capabilities", json!([]), "supported_capabilities"),
        ("/capability_denials", json!(null), false, acts(false)),
        invalid("/capability_denials/0", json!("x"), "capability_denials[0]"),
        invalid("/capability_denials/0/capability", json!(""), "capability_denials[0].capability"),
        ("/capability_denials/0/code", json!(null), false, acts(false)),
        invalid("/response", json!([]), "response"),
        invalid("/response", json!({}), "status"),
        invalid("/response/status", json!("maybe"), "status"),
        invalid("/response/status", json!({"success": null}), "status"),
        invalid("/response/engine_latency_ms", json!(-1), "engine_latency_ms"),
        invalid("/response/action_directives", json!({}), "action_directives"),
        ("/response/action_directives", json!(null), false, Takes { acts: 0, asks_first: false }),
        invalid(ACTION, json!(["com.example.open"]), "action_directives[0]"),
        invalid(ACTION, json!({}), "action_directives[0].action_type"),
        invalid(action("action_type"), json!(""), "action_directives[0].action_type"),
        // Hints are open words in the text, and closed ones in the schema: here the text counts, on the side of safety.
        (action("priority"), json!("urgent"), false, acts(false)),
        (action("execution"), json!("whenever"), false, acts(false)),
        (action("risk_tier"), json!("mostly harmless"), false, acts(true)),
        invalid(action("priority"), json!(1), "action_directives[0].priority"),
        (action("risk_tier"), json!(null), false, acts(true)),
        invalid(
            action("requires_user_approval"),
            json!("yes"),
            "action_directives[0].requires_user_approval",
        ),
        (action("requires_user_approval"), json!(true), true, acts(true)),
        invalid(action("deadline_ms"), json!(1.5), "action_directives[0].deadline_ms"),
        invalid(action("deadline_ms"), json!(-1), "action_directives[0].deadline_ms"),
        (action("deadline_ms"), json!(5.0), true, acts(false)),
        (action("payload"), json!(null), false, acts(false)),
        invalid(action("payload"), json!([]), "action_directives[0].payload"),
        invalid(action("extensions"), json!("x"), "action_directives[0].extensions"),
        // The status counts, whatever stands beside it.
        ("/response/status", json!("error"), true, Takes { acts: 0, asks_first: false }),
        ("/response/error", json!({"code": "x"}), true, acts(false)),
        invalid("/response/error", json!({}), "error.code"),
        invalid("/response/error", json!({"code": ""}), "error.code"),
        invalid("/response/error", json!({"code": "x", "retryable": "yes"}), "error.retryable"),
        invalid("/response/error", json!({"code": "x", "details": []}), "error.details"),
        // Fields that the protocol does not name may be anything.
        ("/extensions", json!("top"), true, acts(false)),
        ("/response/extensions", json!([7]), true, acts(false)),
        ("/request", json!({"context": 7}), true, acts(false)),
    ]
}

#[test]
fn each_changed_response_is_refused_whole_or_done_as_safely_as_it_says() {
    let validator = validator("responseMessage");
    let shell =
        ShellSession::new(ShellProfile::for_text_shell("test", "1").with_action("com.example.open"), None);
    for (path, value, valid, does) in mutations() {
        let mut message = full();
        let (parent, name) = path.rsplit_once('/').unwrap();
        match message.pointer_mut(parent).unwrap() {
            Value::Array(items) => items[name.parse::<usize>().unwrap()] = value,
            Value::Object(fields) => drop(fields.insert(name.to_owned(), value)),
            other => panic!("{other}"),
        }
        let told = validator.as_ref().map_or(valid, |it| it.is_valid(&message));
        assert_eq!(told, valid, "{path} {message}");
        match (ResponseMessage::from_json_bytes(message.to_string().as_bytes()), does) {
            (Err(malformed), Refuses(field)) => {
                assert_eq!(malformed.field.as_deref(), Some(field), "{message}")
            }
            (Ok(answer), Takes { acts, asks_first }) => {
                let plan = shell.plan_response(&answer);
                assert_eq!(plan.steps.len(), acts, "{message}");
                let asks = plan.steps.iter().any(|it| match it {
                    singletree_client::ResponseStep::Perform(it) => it.confirm.is_some(),
                    _ => false,
                });
                assert_eq!(asks, asks_first, "{message}");
            }
            (Ok(_), Refuses(_)) => panic!("taken: {message}"),
            (Err(malformed), Takes { .. }) => panic!("{malformed}: {message}"),
        }
    }
}
