//! The conversion of requests to admitted requests.

use serde_json::json;

use super::*;

fn admitted(request: Value) -> Result<AdmittedShellRequest, Malformed> {
    let raw = json!({"protocol_version": "1.0.0", "request": request});
    admit_request(&RequestMessage::from_json_bytes(raw.to_string().as_bytes()).unwrap(), &raw)
}

fn wish(context: Value) -> RequestPurpose {
    admitted(json!({ "context": context })).unwrap().wish
}

// spec: OpenHarness §9, §9.2
#[test]
fn a_token_decides_a_text_says_and_a_bare_run_is_shown() {
    let token = json!({"continuation_token": "t", "run_id": "r"});
    let decide = RequestPurpose::Decide { token: "t".into(), run_id: Some("r".into()) };
    assert_eq!(wish(json!({"continuation": token, "user_intent": "no"})), decide);
    let say = |sop: Option<&str>| {
        let sop_id = sop.map(ToOwned::to_owned);
        RequestPurpose::Say(PersonMessageContent { intent: "Hello".into(), sop_id, attachments: Vec::new() })
    };
    assert_eq!(wish(json!({"user_intent": "Hello", "continuation": {"run_id": "r"}})), say(None));
    assert_eq!(wish(json!({"user_intent": "Hello", "task_hint": {"sop_id": "s"}})), say(Some("s")));
    assert_eq!(wish(json!({"user_intent": "Hello", "continuation": {"sop_id": "s"}})), say(Some("s")));
    assert_eq!(
        wish(json!({"user_intent": " ", "continuation": {"run_id": "r"}})),
        RequestPurpose::Show { run_id: "r".into() }
    );
}

// F12, spec: OpenHarness §9: an intent is recommended
#[test]
fn without_an_intent_a_procedure_starts_and_pictures_are_said() {
    let say = |context: Value| match wish(context) {
        RequestPurpose::Say(saying) => saying.intent,
        other => panic!("{other:?}"),
    };
    assert_eq!(say(json!({"task_hint": {"sop_id": "a"}})), "Start the procedure `a`.");
    let keyed = json!({"task_hint": {"sop_id": "a", "business_key": "7"}, "user_intent": " "});
    assert_eq!(say(keyed), "Start the procedure `a` for `7`.");
    assert_eq!(say(json!({"attachments": [{"ref_id": "a"}]})), "");
}

#[test]
fn what_does_not_fit_together_is_refused_with_its_place() {
    let check = |request: Value, field: &str| {
        assert_eq!(admitted(request.clone()).unwrap_err().field.as_deref(), Some(field), "{request}");
    };
    check(json!({}), "context.user_intent");
    check(json!({"context": {"user_intent": "", "continuation": {}}}), "context.user_intent");
    let both = json!({"auth": {"session_id": "a"}, "context": {"session_id": "b", "user_intent": "x"}});
    check(both, "auth.session_id");
    check(json!({"context": {"session_id": "", "user_intent": "x"}}), "context.session_id");
    check(json!({"context": {"session_id": "a\nb", "user_intent": "x"}}), "context.session_id");
    check(
        json!({"context": {"conversation_id": "x".repeat(600), "user_intent": "x"}}),
        "context.conversation_id",
    );
    let long = json!({"session_id": "a".repeat(300), "conversation_id": "b".repeat(300), "user_intent": "x"});
    check(json!({ "context": long }), "context.session_id");
    check(
        json!({"context": {"user_intent": "x", "attachments": [{"ref_id": "a"}, {"uri": ""}]}}),
        "context.attachments[1]",
    );
    let many = vec![json!({"ref_id": "a"}); 17];
    check(json!({"context": {"user_intent": "x", "attachments": many}}), "context.attachments");
    let data = json!([{"ref_id": "a", "data": "aGVsbG8gd29ybGQ="}]);
    check(json!({"context": {"user_intent": "x", "attachments": data}}), "context.attachments[0].data");
    let sops = json!({"user_intent": "x", "task_hint": {"sop_id": "a"}, "continuation": {"sop_id": "b"}});
    check(json!({ "context": sops }), "context.continuation.sop_id");
}

#[test]
fn a_place_is_one_session_and_a_session_one_place() {
    let check = |session: &str, conversation: Option<&str>, expected: &str| {
        let conversation_id = conversation.map(ToOwned::to_owned);
        let place = ShellThreadRef { session_id: Some(session.into()), conversation_id };
        assert_eq!(place.to_session_id().as_deref(), Some(expected));
        assert_eq!(ShellThreadRef::from_session_id(expected), place);
    };
    check("s", None, "s");
    check("s", Some("t"), "s#t");
    check("s#t", None, "s%23t");
    check("a%23#", Some("#%"), "a%2523%23#%23%25");
    assert_eq!(ShellThreadRef { session_id: None, conversation_id: Some("t".into()) }.to_session_id(), None);
}

// spec: OpenHarness §8
#[test]
fn of_the_devices_state_only_what_is_public_is_kept_and_what_is_secret_goes_nowhere() {
    let check = |tier: Option<&str>, kept: bool, seen: bool| {
        let mut state = json!({"screen": "canary"});
        if let Some(tier) = tier {
            state["privacy_tier"] = tier.into();
        }
        let context = json!({"user_intent": "x", "environment_state": state});
        let admitted = admitted(json!({ "context": context })).unwrap();
        assert_eq!(admitted.text.contains("canary"), kept, "{tier:?}");
        assert_eq!(admitted.environment.is_some(), seen, "{tier:?}");
    };
    check(Some("public"), true, true);
    check(Some("restricted"), false, true);
    check(None, false, true);
    check(Some("secret"), false, false);
}

#[test]
fn equal_requests_are_equal_texts() {
    let one = admitted(json!({"auth": {"tenant_id": "t"}, "context": {"user_intent": "x"}})).unwrap();
    let other = admitted(json!({"context": {"user_intent": "x"}, "auth": {"tenant_id": "t"}})).unwrap();
    assert_eq!(one.text, other.text);
    assert_ne!(one.text, admitted(json!({"context": {"user_intent": "y"}})).unwrap().text);
}
