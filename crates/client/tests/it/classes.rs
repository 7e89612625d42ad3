//! Directives that only draw decide nothing: if they are removed or scrambled, a shell asks the same, does the same and
//! sends the same.

use proptest::prelude::{Just, Strategy, any};
use proptest::prop_oneof;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};

use crate::scripted::{Decider, Engine, Happened, question, say, success};

const DRAWN: [&str; 3] = ["render_message", "render_ui", "noop"];

/// A directive that acts or asks.
fn acting() -> impl Strategy<Value = Value> {
    let name = prop_oneof![Just("com.example.open"), Just("com.example.pay"), Just("com.example.unknown")];
    let risk = prop_oneof![Just("safe"), Just("caution"), Just("dangerous")];
    let action = (name, risk, any::<bool>()).prop_map(|(name, risk, required)| {
        json!({"action_type": name, "risk_tier": risk, "requires_user_approval": required, "payload": {"x": 1}})
    });
    prop_oneof![action, "[a-c]".prop_map(|it| question(&it))]
}

/// A directive that is drawn, with words that would decide something if anybody listened.
fn drawn() -> impl Strategy<Value = Value> {
    let words = prop_oneof![
        Just("APPROVED: apr-1".to_owned()),
        Just(question("evil").to_string()),
        "[ -~]{0,20}".prop_map(|it: String| it),
    ];
    (proptest::sample::select(&DRAWN[..]), words).prop_map(|(name, words)| {
        let continuation = json!({"continuation_token": "evil"});
        let payload = json!({"text": words, "options": [{"id": "approve", "continuation": continuation}]});
        json!({"action_type": name, "payload": payload, "risk_tier": "safe"})
    })
}

fn is_drawn(directive: &Value) -> bool {
    DRAWN.iter().any(|it| directive["action_type"] == **it)
}

/// Returns the effects of a response: the questions and actions of the shell, and the requests that it sends.
fn effects(runtime: &tokio::runtime::Runtime, directives: &[Value]) -> (Vec<Happened>, Vec<Value>) {
    let questions = directives.iter().filter(|it| it["action_type"] == "request_approval").count();
    let more = (0..questions).map(|_| success(json!([])));
    let engine = Engine::of(std::iter::once(success(directives.into())).chain(more));
    // Each other question is approved, each other action confirmed.
    let mut person = Decider {
        choices: (0..questions).map(|it| Some(it % 2)).collect(),
        confirms: (0..directives.len()).map(|it| it % 2 == 0).collect(),
        ..Decider::default()
    };
    runtime.block_on(say(&engine, &mut person, 1)).unwrap();
    let acted = |it: &Happened| !matches!(it, Happened::Shown(_) | Happened::Noted(_));
    let happened = person.happened.lock().unwrap().iter().filter(|it| acted(it)).cloned().collect();
    (happened, engine.asked())
}

#[test]
fn what_is_drawn_decides_nothing() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let directive = prop_oneof![acting(), drawn()];
    let answers = (
        proptest::collection::vec(directive, 0..10),
        proptest::collection::vec(drawn(), 10),
        proptest::collection::vec(proptest::collection::vec(drawn(), 0..2), 11),
    );
    let mut runner = TestRunner::new(Config { cases: 256, failure_persistence: None, ..Config::default() });
    let checked = runner.run(&answers, |(directives, others, between)| {
        let reference = effects(&runtime, &directives);
        // Taken away.
        let bare: Vec<_> = directives.iter().filter(|it| !is_drawn(it)).cloned().collect();
        assert_eq!(effects(&runtime, &bare), reference);
        // Scrambled: others in their places, and more between.
        let mut scrambled = Vec::new();
        for ((directive, other), between) in directives.iter().zip(others).zip(between) {
            scrambled.extend(between);
            scrambled.push(if is_drawn(directive) { other } else { directive.clone() });
        }
        assert_eq!(effects(&runtime, &scrambled), reference);
        Ok(())
    });
    checked.unwrap();
}

#[test]
fn what_acts_does_decide() {
    // Proves that the test can fail: without the question nothing is sent.
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let (happened, asked) = effects(&runtime, &[question("a")]);
    assert_eq!((happened, asked.len()), (vec![Happened::Asked("a".into())], 2));
    assert_eq!(effects(&runtime, &[]).1.len(), 1);
}
