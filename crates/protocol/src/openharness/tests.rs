//! The shapes of OpenHarness.

use serde_json::{Value, json};

use super::*;

fn request(value: &Value) -> Result<RequestMessage, Malformed> {
    RequestMessage::from_json_bytes(value.to_string().as_bytes())
}

fn response(value: &Value) -> Result<ResponseMessage, Malformed> {
    ResponseMessage::from_json_bytes(value.to_string().as_bytes())
}

fn asking(context: Value) -> Value {
    json!({"protocol_version": "1.0.0", "request": {"context": context}})
}

// spec: OpenHarness §13: an error echoes nothing of the message
#[test]
fn a_mistake_is_told_with_its_place_and_without_what_stands_there() {
    let check = |value: Value, field: Option<&str>, why: &str| {
        let told = request(&value).unwrap_err();
        assert_eq!((told.field.as_deref(), told.why.as_str()), (field, why), "{value}");
        assert!(!told.to_string().contains("canary"), "{told}");
    };
    check(asking(json!({"user_intent": {"canary": 1}})), Some("context.user_intent"), "expected a string");
    check(asking(json!({"session_id": 7})), Some("context.session_id"), "expected a string");
    check(
        asking(json!({"environment_state": {"privacy_tier": "canary, expected x"}})),
        Some("context.environment_state.privacy_tier"),
        "expected one of `public`, `restricted`, `secret`",
    );
    check(
        asking(json!({"environment_state": {"os": []}})),
        Some("context.environment_state.os"),
        "expected a string",
    );
    check(
        asking(json!({"attachments": [{"ref_id": "a"}, {"size_bytes": -1}]})),
        Some("context.attachments[1].size_bytes"),
        "expected a whole number of at least 0",
    );
    check(
        asking(json!({"attachments": "canary, expected y"})),
        Some("context.attachments"),
        "expected a sequence",
    );
    check(json!({"protocol_version": "1.0.0"}), Some("request"), "is missing");
    check(
        json!({"protocol_version": "canary", "request": {}}),
        Some("protocol_version"),
        "expected a semantic version",
    );
    check(
        json!({"protocol_version": "1.0.0", "request_id": "", "request": {}}),
        Some("request_id"),
        "expected a text that is not empty",
    );
    check(json!(["canary"]), None, "expected an object");
    check(json!({"protocol_version": "1.0.0", "request": []}), Some("request"), "expected an object");
    check(asking(json!(["canary"])), Some("context"), "expected an object");
    check(asking(json!({"attachments": [["canary"]]})), Some("context.attachments[0]"), "expected an object");
    check(
        asking(json!({"environment_state": {"privacy_tier": {"public": null}}})),
        Some("context.environment_state.privacy_tier"),
        "expected a string",
    );
    let twice = br#"{"protocol_version":"1.0.0","request":{},"request":{"context":{}}}"#;
    assert_eq!(
        RequestMessage::from_json_bytes(twice).unwrap_err(),
        Malformed::at_field("request", "is there twice")
    );
    for broken in [&b"{\"canary"[..], b"", b"{} {}", b"nul", b"\xff"] {
        assert_eq!(
            RequestMessage::from_json_bytes(broken).unwrap_err().field.filter(|it| it != "protocol_version"),
            None
        );
    }
}

// F12
#[test]
fn a_field_that_need_not_be_there_may_be_null_in_its_place() {
    let named = json!({
        "session_id": null, "conversation_id": null, "user_intent": null, "task_hint": null, "continuation": null,
        "environment_state": null, "attachments": null, "shell": null, "extensions": null,
    });
    assert_eq!(request(&asking(named)).unwrap(), request(&asking(json!({}))).unwrap());
    let inner = json!({
        "task_hint": {"sop_id": null}, "continuation": {"continuation_token": null}, "shell": {"shell_kind": null},
        "attachments": [{"ref_id": "a", "size_bytes": null}], "environment_state": {"privacy_tier": null, "os": null},
    });
    let context = request(&asking(inner)).unwrap().request.context.unwrap();
    assert_eq!(context.task_hint, Some(TaskHint::default()));
    assert_eq!(context.shell, Some(ShellIdentity::default()));
    assert_eq!(context.attachments.unwrap()[0].size_bytes, None);
    assert_eq!(context.environment_state.unwrap().privacy_tier(), PrivacyTier::Restricted);
    let outer = json!({"protocol_version": "1.0.0", "request_id": null, "correlation_id": null, "capabilities": null,
        "request": {"auth": null, "context": null, "extensions": null}});
    assert_eq!(
        request(&outer).unwrap(),
        request(&json!({"protocol_version": "1.0.0", "request": {}})).unwrap()
    );
    for needed in [
        json!({"protocol_version": null, "request": {}}),
        json!({"protocol_version": "1.0.0", "request": null}),
    ] {
        assert!(request(&needed).is_err(), "{needed}");
    }
}

// spec: OpenHarness §10: hints are open words; what is not known is read as what is safe
#[test]
fn words_that_are_not_known_are_read_as_what_is_safe() {
    let directive = json!({
        "action_type": "x", "priority": "urgent", "execution": "whenever", "risk_tier": "mostly harmless",
        "deadline_ms": 5000.0, "payload": {"a": 1}, "more": 1,
    });
    let answer = json!({
        "protocol_version": "1.2.3", "response": {"status": "success", "action_directives": [directive], "extensions": 7},
        "extensions": [1],
    });
    let read = response(&answer).unwrap();
    let expected = ActionDirective {
        priority: Some(Priority::Normal),
        execution: Some(Execution::Sequential),
        risk_tier: Some(RiskTier::Dangerous),
        deadline_ms: Some(5000),
        payload: json!({"a": 1}).as_object().cloned(),
        ..ActionDirective::new("x")
    };
    assert_eq!(read.response.action_directives, Some(vec![expected]));
    assert_eq!((read.extensions, read.response.extensions), (None, None));
}

#[test]
fn what_is_written_is_read_as_it_was() {
    let mut asked = RequestMessage::new(RequestPayload::default());
    asked.request_id = Some("r".into());
    let environment = json!({"privacy_tier": "secret", "pin": "1234", "os": "x"});
    asked.request.context = Some(Context {
        environment_state: Some(serde_json::from_value(environment.clone()).unwrap()),
        continuation: Some(Continuation {
            continuation_token: Some("canary".into()),
            ..Continuation::default()
        }),
        ..Context::default()
    });
    let written = serde_json::to_value(&asked).unwrap();
    assert_eq!(written["request"]["context"]["environment_state"], environment);
    assert_eq!(request(&written).unwrap(), asked);
    let shown = format!("{asked:?}");
    assert!(!shown.contains("1234") && !shown.contains("canary"), "{shown}");
}

#[test]
fn every_name_is_its_own() {
    let all = ErrorCode::ALL.iter().map(|it| it.as_str()).chain(ActionType::ALL.iter().map(|it| it.as_str()));
    let all: Vec<_> = all.chain(Capability::ALL.iter().map(|it| it.as_str())).collect();
    let unique: std::collections::BTreeSet<_> = all.iter().collect();
    assert_eq!(unique.len(), all.len());
    assert_eq!(ErrorCode::from_name("rate_limited"), Some(ErrorCode::RateLimited));
    assert_eq!(ActionType::from_name("open_door"), None);
    assert!(ActionType::EMITTED.iter().all(|it| ActionType::from_name(it.as_str()) == Some(*it)));
}
