//! Random conversations: front ends that come and go, break off, answer, give up, beside others in the same session.
//! Every stream keeps the order of events, and a front end that has read one to its end has the transcript.

use proptest::prelude::*;
use serde_json::{Value, json};
use singletree_llm::ChatMessage;

use super::{Front, Reader, transcript_with_failed};
use crate::support::Rig;
use crate::support::rig::within;

/// The next step of a front end.
#[derive(Debug, Clone)]
enum Step {
    /// Says something, and reads to the end.
    Say(&'static str),
    /// Says something, goes away after so many events, and comes again with the same run.
    Break(&'static str, usize),
    /// Answers the pending wait.
    Answer(bool),
    /// Gives up the pending wait.
    GiveUp,
    /// Runs with nothing new.
    Look,
    /// Opens the page anew: nothing is held.
    Reload,
    /// Another shell says something.
    Other(&'static str),
    /// Loses its messages from this index on.
    Forget(usize),
}

const TEXTS: [&str; 10] = [
    "say a b c",
    "look",
    "act",
    "both",
    "send",
    "sends",
    "think",
    "fail halfway",
    "fail correctable",
    "act and fail",
];

fn step() -> impl Strategy<Value = Step> {
    let text = || proptest::sample::select(&TEXTS[..]);
    prop_oneof![
        3 => text().prop_map(Step::Say),
        2 => (text(), 0..8_usize).prop_map(|(text, events)| Step::Break(text, events)),
        2 => any::<bool>().prop_map(Step::Answer),
        1 => Just(Step::GiveUp),
        1 => Just(Step::Look),
        1 => Just(Step::Reload),
        1 => text().prop_map(Step::Other),
        1 => (0..4_usize).prop_map(Step::Forget),
    ]
}

/// Asserts that the front end has the transcript, with messages of failed turns in their places, followed at most by one
/// user message without an answer.
async fn in_step(front: &Front, rig: &Rig, end: &str) {
    let truth = transcript_with_failed(&rig.chat, front).await;
    let (has, rest) = front.messages.split_at(truth.len().min(front.messages.len()));
    assert_eq!(has, truth, "{end}");
    let unsaid = rest.iter().all(|it| it["role"] == "user");
    assert!(rest.is_empty() || (rest.len() == 1 && unsaid && end != "success"), "{end}: {rest:?}");
}

async fn carry_out(rig: &Rig, front: &mut Front, step: Step, n: usize) {
    let id = format!("u{n}");
    let ran = match step {
        Step::Say(text) => front.send(&id, text).await,
        Step::Break(text, events) => {
            front.says(&id, text);
            let run = format!("broken-{n}");
            let mut stream = front.open(&front.input(&run)).await;
            let mut reader = Reader::default();
            for _ in 0..events {
                let Some(event) = within(stream.json()).await else { break };
                reader.take(front, &event);
            }
            drop(stream);
            front.post(front.input(&run)).await
        }
        Step::Answer(approved) if !front.interrupts.is_empty() => {
            front.resume("resolved", json!({ "approved": approved })).await
        }
        Step::GiveUp if !front.interrupts.is_empty() => front.resume("cancelled", Value::Null).await,
        Step::Look | Step::Answer(_) | Step::GiveUp => front.run().await,
        Step::Reload => {
            front.messages.clear();
            front.interrupts.clear();
            front.run().await
        }
        Step::Other(text) => {
            rig.chat.session(&front.thread).send(ChatMessage::user(text)).await;
            return;
        }
        Step::Forget(from) => {
            front.messages.truncate(from);
            front.run().await
        }
    };
    in_step(front, rig, ran.end()).await;
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if std::env::var_os("SINGLETREE_DEEP").is_some() { 1000 } else { 40 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn whatever_happens_a_front_end_that_has_read_to_the_end_has_the_transcript(
        steps in proptest::collection::vec(step(), 1..12)
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let rig = Rig::start().await;
            let mut front = Front::new(rig.client(), "t");
            for (n, step) in steps.into_iter().enumerate() {
                carry_out(&rig, &mut front, step, n).await;
            }
            rig.stop().await;
        });
    }
}

// The steps of a defect that random steps have found: the message moved to the end.
#[tokio::test]
async fn a_failed_message_keeps_its_position_when_an_answer_beside_it_is_refused() {
    let rig = Rig::start().await;
    let mut front = Front::new(rig.client(), "t");
    let steps = [
        Step::Say("send"),
        Step::Break("fail halfway", 0),
        Step::Answer(true),
        Step::Other("say a b c"),
        Step::Answer(false),
    ];
    for (n, step) in steps.into_iter().enumerate() {
        carry_out(&rig, &mut front, step, n).await;
    }
    rig.stop().await;
}
