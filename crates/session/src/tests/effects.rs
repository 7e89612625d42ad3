//! Turns that end early: whatever a turn did stays in the history, and a turn with an effect is not sent again.

use singletree_durable::FieldValue;
use singletree_llm::ChatMessage;

use super::turns::*;
use super::*;
use crate::apply::{cancel, close, fail, step};
use crate::codec::record::StoredOutcome;
use crate::outcome::ErroredTurn;
use crate::stopped_run::KeptPart;

/// The outcome that a batch stores for a turn.
fn stored_outcome(writing: &crate::batch::BatchBuilder, no: u64) -> StoredOutcome {
    StoredOutcome::from_turn_row(&written_turn(writing, no).unwrap()).unwrap().unwrap()
}

// INV-6, D29, finding C1: the call was executed, and the history says so.
#[test]
fn a_turn_that_fails_behind_an_effect_keeps_the_call_and_its_result() {
    let stopped = stopped_at(&history(called()));
    let mut writing = begin_batch();
    let mut turn = turn_with_effects();
    fail::fail_turn(
        &mut writing,
        &mut turn,
        (Some(&stopped), KeptPart::Session),
        failure("provider_unavailable"),
    )
    .unwrap();
    let texts = [(0, "pay".to_owned()), (1, String::new()), (2, "paid".to_owned())];
    assert_eq!(written_history(&writing), texts);
    assert_eq!(turn.committed_history().len(), 3);
}

// INV-6, D10
#[test]
fn a_turn_that_is_cancelled_behind_an_effect_keeps_the_call_its_result_and_the_shown_text() {
    let mut stopped = stopped_at(&history(called()));
    stopped.shown = Some("It is".into());
    let mut writing = begin_batch();
    let part = (&stopped, KeptPart::Session);
    cancel::cancel_running_turn(&mut writing, &mut turn_with_effects(), part, errored()).unwrap();
    let texts: Vec<_> = written_history(&writing).into_iter().map(|(_, text)| text).collect();
    assert_eq!(texts, ["pay", "", "paid", "It is"]);
}

// D8: a turn without effects leaves nothing in the history, but closes the calls that it had committed.
#[test]
fn a_turn_without_effects_leaves_no_message_and_no_open_call() {
    let stopped = stopped_at(&history([ChatMessage::user("m"), ChatMessage::assistant("a")]));
    let mut writing = begin_batch();
    let part = (Some(&stopped), KeptPart::Session);
    fail::fail_turn(&mut writing, &mut turn_on(0, &history([])), part, failure("x")).unwrap();
    assert_eq!(written_history(&writing), []);

    let mut writing = begin_batch();
    let mut turn = turn_on(1, &history(called()));
    turn.marks.first = 0;
    fail::fail_turn(&mut writing, &mut turn, (None, KeptPart::Nothing), failure("x")).unwrap();
    assert_eq!(written_history(&writing), [(2, r#"{"reason":"x","status":"failed"}"#.to_owned())]);
}

// D3, D29, finding C2: the message of a turn with an effect is not sent again by itself, and its key is not free.
#[test]
fn a_turn_with_an_effect_is_not_safe_to_retry_however_it_ends() {
    let stopped = stopped_at(&history(called()));
    type End =
        fn(&mut crate::batch::BatchBuilder, &mut crate::turn::TurnState, &crate::StoppedRun, ErroredTurn);
    let ends: [(&str, End); 3] = [
        ("fail", |writing, turn, stopped, errored| {
            drop(fail::fail_turn(writing, turn, (Some(stopped), KeptPart::Session), errored).unwrap());
        }),
        ("cancel", |writing, turn, stopped, errored| {
            drop(cancel::cancel_running_turn(writing, turn, (stopped, KeptPart::Session), errored).unwrap());
        }),
        ("close", |writing, turn, stopped, errored| {
            drop(close::close_wait(writing, turn, (wait(3), stopped), errored).unwrap());
        }),
    ];
    for (name, end) in ends {
        for (mut turn, is_safe) in [(turn_on(0, &history([])), true), (turn_with_effects(), false)] {
            let mut writing = begin_batch();
            end(&mut writing, &mut turn, &stopped, failure("provider_unavailable"));
            let told = writing.events.iter().rev().find_map(|event| event.what.outcome().cloned()).unwrap();
            let crate::ChatTurnOutcome::Errored(told) = told.as_ref() else { panic!("{told:?}") };
            let permits = stored_outcome(&writing, 0).recorded.permits_resend();
            assert_eq!((told.retry_safe, permits), (is_safe, is_safe), "{name}");
        }
    }
}

// D7: a record of a call that changes something is an intent from its commit on.
#[test]
fn a_recorded_call_is_an_effect_and_its_position_is_stored_with_it() {
    let mut writing = begin_batch();
    let mut turn = turn_on(0, &history([]));
    let (name, fact) = crate::ToolCallLog::intent_record(1, 0);
    let progress = progress_of(&history(called()));
    step::record_fact(&mut writing, &mut turn, (&name, &fact), Some(&progress)).unwrap();
    assert!(turn.effects.is_intended() && turn.positioned && turn.stands);
    assert_eq!(written_records(&writing).iter().map(|record| record.turn).collect::<Vec<_>>(), [0]);
    let positions = writing.batch.puts.iter().filter(|put| matches!(put, RowMutation::Position(_))).count();
    assert_eq!(positions, 1, "a run that began anew would not look for records");
}

/// Writes a list field of a session whose stored fields are given, and returns the generation and the length.
fn write_list(before: &crate::StoredFields, version: u64, items: u64) -> (u64, u64) {
    let list = history((0..items).map(|no| ChatMessage::user(no.to_string())));
    let mut turn = turn_on(0, &history([]));
    turn.stored.clone_from(before);
    turn.head.version = version;
    turn.rows = Arc::new(["notes".to_owned()].into());
    let mut writing = begin_batch();
    let fields = [("notes".into(), singletree_graph::FieldContent::Many(list))];
    turn.write_state_fields(&mut writing, &fields).unwrap();
    let written = writing.batch.puts.iter().find_map(|put| match put {
        RowMutation::Field(field) => match field.value {
            FieldValue::List { generation, len, .. } => Some((generation, len)),
            FieldValue::Value(_) => None,
        },
        _ => None,
    });
    written.unwrap()
}

// INV-4, finding C6: rows of a list that an earlier version of the state had may still be there.
#[test]
fn a_list_that_comes_back_begins_a_generation_that_was_never_given() {
    assert_eq!(write_list(&Vec::new(), 0, 2), (0, 2), "a new session has no rows");
    assert_eq!(write_list(&Vec::new(), 5, 2), (6, 2), "above every generation of the versions before");
    let value = crate::StoredField {
        name: "notes".into(),
        slot: singletree_graph::FieldContent::One(Item::from_json(1.into())),
        kept: crate::FieldStorage::Value,
        bytes: 1,
    };
    assert_eq!(write_list(&vec![value], 5, 2), (6, 2), "also where it was a value before");
}

// D13, INV-12
#[test]
fn what_exceeds_its_limit_is_refused_by_category_and_nothing_of_it_is_in_the_batch() {
    let mut turn = turn_on(0, &history([]));
    let limits = crate::Limits { messages: 1, item_bytes: 64, ..crate::Limits::default() };
    turn.bounds = crate::EffectiveBudget::from_limits(&limits, &crate::Budget::default());
    let said = history([ChatMessage::user("m"), ChatMessage::assistant("a")]);
    let mut writing = begin_batch();
    let saved = turn.clone().write_session(&mut writing, &slice_of(&said));
    assert_eq!(saved.unwrap_err().category(), "chat_budget_exhausted");
    let mut writing = begin_batch().with_limits(&limits);
    let long = Item::from_json("x".repeat(100).into());
    let written = writing.write_new_item(
        &turn.turn_identity(),
        &long,
        crate::batch::ItemMetadata::default(),
        &mut turn.numbers,
    );
    assert_eq!(written.unwrap_err().category(), "chat_budget_exhausted");
    assert_eq!((writing.batch.puts, turn.numbers.find_number(&long)), (Vec::new(), None));
}
