//! Unknown fields change nothing, at whatever object they stand (spec: OpenHarness §4).

use proptest::prelude::{Strategy, any};
use proptest::prop_oneof;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Map, Value, json};

use super::asking::{Shell, option, saying};
use crate::support::Rig;

/// A message with every object that the protocol names.
fn message() -> Value {
    json!({
        "protocol_version": "1.0.0", "request_id": "r", "capabilities": {"openharness.ui.rich_cards": true},
        "request": {
            "auth": {"tenant_id": "default"},
            "context": {
                "session_id": "s", "user_intent": "both", "task_hint": {"plugin_id": "p"}, "continuation": {},
                "shell": {"shell_kind": "tv"}, "attachments": [{"asset_id": "x"}, {"ref_id": "y"}],
                "environment_state": {"privacy_tier": "public", "window": {"title": "x"}},
                "extensions": {"com.example": {"a": 1}},
            },
            "extensions": {"com.example": {}},
        },
    })
}

/// Any value, also one that looks like a field of the protocol.
fn anything() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        proptest::strategy::Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[ -~ä]{0,12}".prop_map(Value::from),
        proptest::strategy::Just(message()),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            proptest::collection::vec(("[a-z_.]{0,8}", inner), 0..3)
                .prop_map(|it| Value::Object(it.into_iter().collect())),
        ]
    })
}

/// Fields that no version of the protocol has: one for each object, in the order in which they are met.
fn fields() -> impl Strategy<Value = Vec<(String, Value)>> {
    let name = "[a-zA-Z.é ]{0,10}".prop_map(|it| format!("{it}?"));
    proptest::collection::vec((name, anything()), 40)
}

/// Puts a field into every object of a value.
fn strewn(value: &Value, fields: &mut impl Iterator<Item = (String, Value)>) -> Value {
    match value {
        Value::Array(items) => items.iter().map(|it| strewn(it, fields)).collect(),
        Value::Object(members) => {
            let mut members: Map<_, _> =
                members.iter().map(|(name, it)| (name.clone(), strewn(it, fields))).collect();
            members.extend(fields.next());
            Value::Object(members)
        }
        other => other.clone(),
    }
}

/// Sends these messages and a decision on a question to a new engine, all with the unknown fields added; returns all
/// its answers. Generated ids are counters, so equal engines give equal bytes.
async fn answers(asked: &[Value], fields: &[(String, Value)]) -> Vec<Value> {
    let rig = Rig::start().await;
    let shell = Shell::of(&rig);
    let mut answers = Vec::new();
    for message in asked {
        answers.push(shell.ask(&strewn(message, &mut fields.iter().cloned())).await);
    }
    let waiting = shell.say("waiting", "send").await;
    let decided = super::asking::message(json!({"continuation": option(&waiting, "approve")}));
    answers.push(shell.ask(&strewn(&decided, &mut fields.iter().rev().cloned())).await);
    answers.push(json!(rig.world.done()));
    rig.stop().await;
    answers
}

#[test]
fn fields_that_nobody_knows_change_no_answer() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut plain = message();
    plain["request_id"] = "plain".into();
    plain["request"]["context"].as_object_mut().unwrap().remove("attachments");
    // One that works, one with an error of its own, one that is wrong.
    let mut wrong = message();
    wrong["request"]["context"]["shell"]["shell_kind"] = "".into();
    let asked = [plain, message(), wrong, saying("t", "say a")];
    let expected = runtime.block_on(answers(&asked, &[]));
    assert_eq!(expected[0]["response"]["status"], "success");
    assert_eq!(expected[1]["response"]["error"]["code"], "attachment_unresolvable");
    assert_eq!(expected[2]["response"]["error"]["details"]["field"], "context.shell.shell_kind");
    let mut runner = TestRunner::new(Config { cases: 48, failure_persistence: None, ..Config::default() });
    let checked = runner.run(&fields(), |fields| {
        assert_eq!(runtime.block_on(answers(&asked, &fields)), expected);
        Ok(())
    });
    checked.unwrap();
}
