//! The plans of a shell for responses.

use std::time::Duration;

use serde_json::{Value, json};
use singletree_protocol::openharness::{
    AttachmentRef, Capability, Decision, EnvironmentState, PrivacyTier, ResponseMessage, RiskTier,
};

use super::*;

fn shell() -> ShellSession {
    let profile =
        ShellProfile::for_text_shell("test", "1").with_action("com.example.open").with_action("render_ui");
    ShellSession::new(profile, Some("s".into()))
}

fn answer(directives: Value) -> ResponseMessage {
    let response = json!({"status": "success", "action_directives": directives});
    let message = json!({"protocol_version": "1.0.0", "response": response});
    ResponseMessage::from_json_bytes(message.to_string().as_bytes()).unwrap()
}

/// Describes the steps of a plan, each in a few words.
fn words(plan: &ResponsePlan) -> Vec<String> {
    let word = |step: &ResponseStep| match step {
        ResponseStep::Show { text, confirm: None, .. } => format!("show {text}"),
        ResponseStep::Show { text, confirm: Some(_), .. } => format!("confirm, show {text}"),
        ResponseStep::Ask { question, .. } => format!("ask {}", question.signal_id),
        ResponseStep::Perform(it) => {
            let confirm = if it.confirm.is_some() { "confirm, " } else { "" };
            format!("{confirm}perform {}", it.directive.action_type)
        }
    };
    plan.steps.iter().map(word).collect()
}

fn check(directive: Value, expected: &[&str], note: Option<DirectiveNote>) {
    let plan = shell().plan_response(&answer(json!([directive])));
    assert_eq!(words(&plan), expected, "{directive}");
    assert_eq!(plan.notes, Vec::from_iter(note), "{directive}");
}

fn unknown(name: &str) -> Option<DirectiveNote> {
    Some(DirectiveNote::UnknownActionType(name.to_owned()))
}

// spec: OpenHarness §11
#[test]
fn for_what_is_not_known_nothing_is_done_whatever_it_says_of_itself() {
    let safe = json!({"action_type": "simulate_action", "risk_tier": "safe", "requires_user_approval": false,
        "payload": {"macro": "cmd+c", "text": "not said in words"}});
    check(safe, &[], unknown("simulate_action"));
    check(json!({"action_type": "com.example.pay"}), &[], unknown("com.example.pay"));
    let told = json!({"action_type": "x", "payload": {"fallback_message": "a\u{1b}[2J", "message": "b"}});
    check(told, &["show b"], unknown("x"));
    let told = json!({"action_type": "x", "payload": {"fallback_message": "a\u{1b}[2J"}});
    check(told, &["show a"], unknown("x"));
    check(json!({"action_type": "Render_Message", "payload": {"text": "t"}}), &[], unknown("Render_Message"));
}

// spec: OpenHarness §10
#[test]
fn a_person_is_asked_before_what_the_engine_says_and_what_is_risky() {
    let act = |more: Value| {
        let mut act = json!({"action_type": "com.example.open"});
        act.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
        act
    };
    const ASKED: &[&str] = &["confirm, perform com.example.open"];
    const DONE: &[&str] = &["perform com.example.open"];
    check(act(json!({"risk_tier": "safe"})), DONE, None);
    check(act(json!({"risk_tier": "safe", "requires_user_approval": true})), ASKED, None);
    check(act(json!({"risk_tier": "caution"})), ASKED, None);
    check(act(json!({"risk_tier": "dangerous", "requires_user_approval": false})), ASKED, None);
    check(act(json!({"risk_tier": "whatever"})), ASKED, None);
    check(act(json!({})), ASKED, None);
    let text =
        json!({"action_type": "render_message", "requires_user_approval": true, "payload": {"text": "t"}});
    check(text, &["confirm, show t"], None);
    let bold = ShellProfile { confirm_from: RiskTier::Dangerous, ..shell().profile().clone() };
    let plan =
        ShellSession::new(bold, None).plan_response(&answer(json!([act(json!({"risk_tier": "caution"}))])));
    assert_eq!(words(&plan), DONE);
}

#[test]
fn what_is_known_is_shown_asked_or_passed_over() {
    check(json!({"action_type": "noop"}), &[], None);
    check(json!({"action_type": "render_message", "payload": {"text": "t"}}), &["show t"], None);
    check(json!({"action_type": "render_message", "payload": {"message": "m"}}), &["show m"], None);
    let malformed = |name: &str| Some(DirectiveNote::Malformed(name.to_owned()));
    check(json!({"action_type": "render_message"}), &[], malformed("render_message"));
    let broken =
        json!({"action_type": "request_approval", "payload": {"fallback_message": "f", "options": [[]]}});
    check(broken, &["show f"], malformed("request_approval"));
}

fn question(options: Value) -> Value {
    json!({"action_type": "request_approval", "risk_tier": "dangerous", "deadline_ms": 1000, "payload": {
        "signal_id": "apr", "run_id": "r", "title": "\u{202e}T", "prompt": "P\u{7}",
        "action": {"name": "send", "params_summary": "to: \u{1b}[8mEve", "params_sha256": "d"},
        "options": options, "fallback_message": "f",
    }})
}

#[test]
fn a_question_has_the_answers_that_carry_something_and_words_that_hide_nothing() {
    let options = json!([
        {"id": "approve", "label": "Y", "continuation": {"run_id": "r", "continuation_token": "a"}},
        {"id": "reject", "label": "N", "continuation": {"run_id": "r"}},
    ]);
    let plan = shell().plan_response(&answer(json!([question(options)])));
    let [ResponseStep::Ask { question, deadline }] = plan.steps.as_slice() else { panic!("{plan:?}") };
    assert_eq!(*deadline, Some(Duration::from_secs(1)));
    assert_eq!((question.title.as_str(), question.prompt.as_str()), ("T", "P"));
    assert_eq!((question.arguments.as_str(), question.risk), ("to: Eve", RiskTier::Dangerous));
    assert_eq!(question.options.len(), 1);
    let continuation = question.continuation_for(Decision::Approve).unwrap();
    assert_eq!(question.continuation_for(Decision::Reject), None);
    // The next request carries the continuation and no text of the response.
    let sent = serde_json::to_value(shell().request_for_decision(continuation, "id".into())).unwrap();
    let context = json!({
        "session_id": "s", "continuation": {"run_id": "r", "continuation_token": "a"},
        "shell": {"shell_kind": "test", "shell_version": "1"},
    });
    assert_eq!(sent["request"], json!({ "context": context }));
}

// spec: OpenHarness §5.3
#[test]
fn what_was_denied_is_not_done_also_in_later_answers() {
    let card =
        json!([{"action_type": "render_ui", "risk_tier": "safe", "payload": {"fallback_message": "f"}}]);
    let mut shell = shell();
    assert_eq!(words(&shell.plan_response(&answer(card.clone()))), ["perform render_ui"]);
    let mut denying = answer(card.clone());
    let denial = json!([{"capability": "openharness.ui.rich_cards", "code": "not_supported"}]);
    denying.capability_denials = serde_json::from_value(denial).unwrap();
    let denied = ResponsePlan {
        steps: vec![ResponseStep::Show { text: "f".into(), confirm: None, deadline: None }],
        notes: vec![DirectiveNote::Denied("render_ui".into())],
        ..ResponsePlan::default()
    };
    assert_eq!(shell.plan_response(&denying), denied);
    shell.apply_response(&denying);
    assert_eq!(shell.plan_response(&answer(card.clone())), denied);
    // An answer that speaks of features again counts.
    let mut granting = answer(card.clone());
    granting.capability_denials = Some(Vec::new());
    assert_eq!(words(&shell.plan_response(&granting)), ["perform render_ui"]);

    let approvals = json!([{"capability": Capability::Approval.as_str()}]);
    let mut no_questions = answer(json!([question(json!([]))]));
    no_questions.capability_denials = serde_json::from_value(approvals).unwrap();
    assert_eq!(words(&shell.plan_response(&no_questions)), ["show f"]);
}

// spec: OpenHarness §13
#[test]
fn the_status_says_what_counts() {
    let directive = json!([{"action_type": "com.example.open", "risk_tier": "safe"}]);
    let read = |response: Value| {
        let message = json!({"protocol_version": "1.0.0", "response": response});
        shell().plan_response(&ResponseMessage::from_json_bytes(message.to_string().as_bytes()).unwrap())
    };
    let error = json!({"code": "x", "message": "m\u{1b}c"});
    let failed = ResponsePlan { failed: Some(("x".into(), "m".into())), ..ResponsePlan::default() };
    assert_eq!(read(json!({"status": "error", "error": error, "action_directives": directive})), failed);
    let nameless =
        ResponsePlan { failed: Some(("unknown".into(), String::new())), ..ResponsePlan::default() };
    assert_eq!(read(json!({"status": "error"})), nameless);
    let done = read(json!({"status": "success", "error": error, "action_directives": directive}));
    assert_eq!((done.failed.as_ref(), words(&done)), (None, vec!["perform com.example.open".to_owned()]));
    assert_eq!(read(json!({"status": "success"})), ResponsePlan::default());
}

#[test]
fn no_answer_is_so_long_that_it_crowds_out_a_question() {
    let texts = (0..300).map(|_| json!({"action_type": "render_message", "payload": {"text": "t"}}));
    let mut directives: Vec<_> = texts.collect();
    directives.push(question(json!([])));
    let plan = shell().plan_response(&answer(Value::from(directives)));
    assert_eq!(plan.steps.len(), 257);
    assert!(matches!(plan.steps.last(), Some(ResponseStep::Ask { .. })));
    assert_eq!(plan.notes, [DirectiveNote::TooMany(44)]);
}

// spec: OpenHarness §8, §9.1
#[test]
fn a_shell_sends_references_and_labels_what_the_device_says() {
    let say = |attachments: Value, environment: Option<Value>| {
        let attachments: Vec<AttachmentRef> = serde_json::from_value(attachments).unwrap();
        let environment: Option<EnvironmentState> = environment.map(|it| serde_json::from_value(it).unwrap());
        shell().request_with_attachments("look", attachments, environment, "id".into())
    };
    let sent = say(json!([{"ref_id": "a"}]), Some(json!({"os": "x"}))).unwrap();
    let context = sent.request.context.unwrap();
    assert_eq!(context.environment_state.unwrap().privacy_tier, Some(PrivacyTier::Restricted));
    let place = |it: Result<_, singletree_protocol::openharness::Malformed>| it.unwrap_err().field.unwrap();
    assert_eq!(place(say(json!([{"mime_type": "x"}]), None)), "context.attachments[0]");
    assert_eq!(place(say(json!([{"uri": "data:,x"}]), None)), "context.attachments[0].uri");
    let screen = json!({"screen": "QUJD".repeat(200)});
    assert_eq!(place(say(json!([]), Some(screen))), "context.environment_state.screen");
    let mut denied = shell();
    let mut answer = answer(json!([]));
    let denial = json!([{"capability": "openharness.attachments.upload"}]);
    answer.capability_denials = serde_json::from_value(denial).unwrap();
    denied.apply_response(&answer);
    let attachment = vec![AttachmentRef { ref_id: Some("a".into()), ..AttachmentRef::default() }];
    assert_eq!(
        place(denied.request_with_attachments("look", attachment, None, "id".into())),
        "context.attachments"
    );
}

#[test]
fn a_shell_without_a_session_goes_on_in_the_one_that_it_was_given() {
    let mut shell =
        ShellSession::new(ShellProfile::for_text_shell("test", "1"), None).conversation("tab").sop("onboard");
    let mut answer = answer(json!([]));
    answer.response.extensions = json!({"dev.singletree": {"session_id": "new"}}).as_object().cloned();
    shell.apply_response(&answer);
    let context = shell.request_for_intent("hello", "id".into()).request.context.unwrap();
    assert_eq!(context.session_id.as_deref(), Some("new"));
    assert_eq!(context.conversation_id.as_deref(), Some("tab"));
    assert_eq!(context.task_hint.unwrap().sop_id.as_deref(), Some("onboard"));
    // The one that it has stays.
    answer.response.extensions = json!({"dev.singletree": {"session_id": "other"}}).as_object().cloned();
    shell.apply_response(&answer);
    assert_eq!(shell.session_id(), Some("new"));
}
