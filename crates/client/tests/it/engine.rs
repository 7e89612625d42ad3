//! A conversation with an engine that answers from a list: requests, actions and retries.

use serde_json::{Value, json};

use crate::scripted::{Decider, Engine, Happened, Reply, error, question, say, success};
use singletree_client::DirectiveNote;

fn happened(person: &Decider) -> Vec<Happened> {
    person.happened.lock().unwrap().clone()
}

fn continuations(engine: &Engine) -> Vec<Value> {
    engine
        .asked()
        .iter()
        .map(|it| it["request"]["context"]["continuation"]["continuation_token"].clone())
        .collect()
}

#[tokio::test]
async fn a_decision_is_the_next_request_and_each_request_has_an_id_of_its_own() {
    let engine = Engine::of([
        success(json!([{"action_type": "render_message", "payload": {"text": "hm"}}, question("one")])),
        success(json!([question("two")])),
        success(json!([])),
    ]);
    let mut person = Decider { choices: [Some(0), Some(1)].into(), ..Decider::default() };
    let ended = say(&engine, &mut person, 1).await.unwrap();
    assert_eq!(ended, Default::default());
    assert_eq!(continuations(&engine), [Value::Null, json!("one-approve"), json!("two-reject")]);
    let ids: Vec<_> = engine.asked().iter().map(|it| it["request_id"].clone()).collect();
    assert_eq!(ids, ["req-1", "req-2", "req-3"]);
    let asked = |name: &str| Happened::Asked(name.into());
    assert_eq!(happened(&person), [Happened::Shown("hm".into()), asked("one"), asked("two")]);
}

#[tokio::test]
async fn what_a_person_leaves_open_stays_open() {
    let engine = Engine::of([success(json!([question("one")]))]);
    let ended = say(&engine, &mut Decider::default(), 1).await.unwrap();
    assert_eq!(ended.open.len(), 1);
    assert_eq!(engine.asked().len(), 1);
}

#[tokio::test]
async fn hands_do_what_is_confirmed_in_time_and_nothing_else() {
    let act = |name: &str, more: Value| {
        let mut act = json!({"action_type": format!("com.example.{name}"), "risk_tier": "safe"});
        act.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
        act
    };
    let engine = Engine::of([success(json!([
        act("open", json!({})),
        act("open", json!({"deadline_ms": 500})),
        act("pay", json!({"requires_user_approval": true})),
        act("pay", json!({"risk_tier": "dangerous"})),
        act("broken", json!({})),
        act("open", json!({"deadline_ms": 60_000})),
    ]))]);
    let mut person = Decider { confirms: [true, false].into(), ..Decider::default() };
    say(&engine, &mut person, 1).await.unwrap();
    let (performed, confirmed) =
        (|it: &str| Happened::Performed(it.into()), |it: &str| Happened::Confirmed(it.into()));
    let expected = [
        performed("com.example.open"),
        Happened::Noted(DirectiveNote::TooLate("com.example.open".into())),
        confirmed("com.example.pay"),
        performed("com.example.pay"),
        confirmed("com.example.pay"),
        Happened::Noted(DirectiveNote::Declined("com.example.pay".into())),
        performed("com.example.broken"),
        Happened::Noted(DirectiveNote::Failed("it is broken".into())),
        performed("com.example.open"),
    ];
    assert_eq!(happened(&person), expected);
}

#[tokio::test]
async fn a_text_that_a_person_declines_is_not_shown_and_said_so() {
    let text = |text: &str| json!({"action_type": "render_message", "requires_user_approval": true, "payload": {"text": text}});
    let engine = Engine::of([success(json!([text("one"), text("two")]))]);
    let mut person = Decider { confirms: [false, true].into(), ..Decider::default() };
    say(&engine, &mut person, 1).await.unwrap();
    let confirmed = || Happened::Confirmed("render_message".into());
    let declined = Happened::Noted(DirectiveNote::Declined("render_message".into()));
    assert_eq!(happened(&person), [confirmed(), declined, confirmed(), Happened::Shown("two".into())]);
}

// spec: OpenHarness §10, deadline_ms. The clock of the test goes on by a second with each look at it: of a directive with
// a deadline of two seconds the answer is late, and the question is not.
#[tokio::test]
async fn a_decision_that_comes_too_late_does_nothing() {
    let late = |mut directive: Value| {
        directive["deadline_ms"] = json!(2_000);
        directive
    };
    let engine = Engine::of([success(json!([late(question("one"))]))]);
    let mut person = Decider { choices: [Some(0)].into(), ..Decider::default() };
    let ended = say(&engine, &mut person, 1).await.unwrap();
    assert_eq!((engine.asked().len(), ended.open.len()), (1, 0));
    let too_late = |name: &str| Happened::Noted(DirectiveNote::TooLate(name.into()));
    assert_eq!(happened(&person), [Happened::Asked("one".into()), too_late("send")]);

    let confirmed = |name: &str| Happened::Confirmed(name.into());
    let text =
        json!({"action_type": "render_message", "requires_user_approval": true, "payload": {"text": "t"}});
    let act = json!({"action_type": "com.example.pay", "risk_tier": "dangerous"});
    let engine = Engine::of([success(json!([late(act), late(text)]))]);
    let mut person = Decider { confirms: [true, true].into(), ..Decider::default() };
    say(&engine, &mut person, 1).await.unwrap();
    let (paid, shown) = ("com.example.pay", "render_message");
    let expected = [confirmed(paid), Happened::Performed(paid.into()), confirmed(shown), too_late(shown)];
    assert_eq!(happened(&person), expected);
}

// spec: OpenHarness §13
#[tokio::test]
async fn what_may_go_well_the_next_time_is_asked_again_with_the_same_id() {
    let engine = Engine::of([error("rate_limited", true), Reply::Gone, success(json!([]))]);
    let ended = say(&engine, &mut Decider::default(), 3).await.unwrap();
    assert_eq!(ended.failed, None);
    let asked = engine.asked();
    assert_eq!([&asked[0], &asked[1]], [&asked[1], &asked[2]]);

    let engine = Engine::of([error("engine_unavailable", true), error("engine_unavailable", true)]);
    let mut person = Decider::default();
    assert_eq!(say(&engine, &mut person, 2).await.unwrap().failed.as_deref(), Some("engine_unavailable"));
    assert_eq!(happened(&person), [Happened::Shown("told".into())]);

    let engine = Engine::of([error("invalid_request", false)]);
    assert_eq!(
        say(&engine, &mut Decider::default(), 3).await.unwrap().failed.as_deref(),
        Some("invalid_request")
    );
}

#[tokio::test]
async fn an_answer_that_is_none_to_the_request_does_nothing() {
    let check = async |reply: Reply, category: &str| {
        let mut person = Decider { confirms: [true].into(), ..Decider::default() };
        let failed = say(&Engine::of([reply.clone()]), &mut person, 1).await.unwrap_err();
        assert_eq!(failed.category(), category, "{reply:?}");
        assert_eq!(happened(&person), []);
    };
    let act = json!([{"action_type": "com.example.open", "risk_tier": "safe"}]);
    let with = |field: &str, value: Value| {
        let Reply::Message(status, mut message) = success(act.clone()) else { unreachable!() };
        message[field] = value;
        Reply::Message(status, message)
    };
    check(with("request_id", json!("another")), "client_answer_invalid").await;
    check(with("protocol_version", json!("2.0.0")), "client_answer_invalid").await;
    check(with("response", json!([])), "client_answer_invalid").await;
    check(Reply::Bytes(200, "<html>"), "client_answer_invalid").await;
    check(Reply::Bytes(502, ""), "client_answer_invalid").await;
    check(Reply::Gone, "http_unreachable").await;
    // W12: the id may be left out; the connection ties the answer to the request.
    let Reply::Message(status, mut unnamed) = success(json!([])) else { unreachable!() };
    unnamed.as_object_mut().unwrap().remove("request_id");
    let engine = Engine::of([Reply::Message(status, unnamed)]);
    let ended = say(&engine, &mut Decider::default(), 1).await.unwrap();
    assert_eq!(ended.failed, None);
    // Who refuses before the message is read cannot bring its id back.
    let refusal =
        r#"{"protocol_version":"1.0.0","response":{"status":"error","error":{"code":"unauthorized"}}}"#;
    let ended = say(&Engine::of([Reply::Bytes(401, refusal)]), &mut Decider::default(), 1).await.unwrap();
    assert_eq!(ended.failed.as_deref(), Some("unauthorized"));
}
