//! Turns that are cancelled while they wait in the queue.

use super::*;

// D10
#[test]
fn a_turn_that_is_being_cancelled_is_found_until_that_is_recorded_and_returns_when_it_is_not() {
    let mut state = loaded();
    accept_all(&mut state, 0..3);
    let taken = state.take_queued_turn(&row(1).turn_id()).unwrap();
    assert_eq!(state.find_turn(&row(1).turn_id()), Some(caller(1)));
    assert!(!state.is_queue_settled(), "a deletion waits for it");
    state.record_cancel_end(&caller(1), Some(taken));
    assert_eq!((run(&mut state), state.release_turn_slot()), (Some(0), ()));
    assert_eq!((run(&mut state), state.release_turn_slot()), (Some(1), ()), "it has its place again");
    state.take_queued_turn(&row(2).turn_id()).unwrap();
    state.record_cancel_end(&caller(2), None);
    assert_eq!(state.find_turn(&row(2).turn_id()), None);
    assert!(state.is_queue_settled());
}

// INV-1
#[test]
fn a_message_does_not_overtake_one_whose_cancelling_may_fail() {
    let mut state = loaded();
    accept_all(&mut state, 0..3);
    let first = state.take_queued_turn(&row(0).turn_id()).unwrap();
    assert_eq!(run(&mut state), None);
    state.record_cancel_end(&caller(0), Some(first));
    state.take_queued_turn(&row(2).turn_id()).unwrap();
    assert_eq!((run(&mut state), state.release_turn_slot()), (Some(0), ()), "a later one holds nothing up");
    assert_eq!(run(&mut state), Some(1));
}

// INV-1: the turn that resumes a wait has a higher number than the messages that were parked behind the wait.
#[test]
fn a_parked_message_does_not_overtake_a_resumed_turn_whose_cancelling_may_fail() {
    let mut state = loaded();
    accept_all(&mut state, 0..2);
    let resumed = TurnRow { kind: StoredTurnKind::Resume, ..row(2) };
    let work = QueuedWork::Recover { row: resumed, has_run: true };
    state.put_before_messages(QueuedTurn { handle: caller(2), work });
    let taken = state.take_queued_turn(&row(2).turn_id()).unwrap();
    assert_eq!(run(&mut state), None, "its end changes the history");
    state.record_cancel_end(&caller(2), Some(taken));
    assert_eq!((run(&mut state), state.release_turn_slot()), (Some(2), ()), "it has its place again");
    assert_eq!(run(&mut state), Some(0));
}

#[test]
fn a_message_on_its_way_is_not_taken_to_be_cancelled_before_its_row_is_there() {
    let mut state = loaded();
    state.append_turn(message(0, false));
    assert!(state.take_next_accepted().is_none());
    // By its id it can be taken: whoever knows the id has read the row.
    let taken = state.take_queued_turn(&row(0).turn_id()).unwrap();
    assert!(matches!(taken.work, QueuedWork::Message { committed: true, .. }));
}
