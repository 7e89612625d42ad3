//! Tests of the session state without a store and without tasks: fixed inputs, and random inputs against a model.

mod cancels;
mod effects;
mod inputs;
mod random;
mod reads;
mod sessions;
mod store_model;
mod turns;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use singletree_durable::{
    AcquiredSession, Batch, Counters, EarlySignalRow, FencingToken, InvocationId, JsonDocument, RowMutation,
    SessionHead, SessionId, SessionKey, SessionSnapshot, StoredTurnKind, StoredTurnStatus, StoredWaitStatus,
    TenantId, Timestamp, TurnRow, WaitRow,
};
use singletree_graph::Item;

use super::landed::{LandedChange, WaitChange};
use super::queue::{CallerHandle, PendingAnswer, QueueDecision, QueuedTurn, QueuedWork};
use super::state::SessionState;
use crate::agent::WhileSuspended;
use crate::apply::steer::SteeredMessage;
use crate::codec::record::TurnRowExt;
use crate::turn_id::TurnId;

/// The handle of the callers of a turn.
#[derive(Debug, Clone, PartialEq)]
struct Caller {
    number: u64,
    turn: Option<TurnId>,
    key: Option<(String, String)>,
}

impl CallerHandle for Caller {
    fn is_same_turn(&self, other: &Self) -> bool {
        self.number == other.number
    }

    fn turn_id(&self) -> Option<TurnId> {
        self.turn.clone()
    }

    fn idempotency_key(&self) -> Option<&(String, String)> {
        self.key.as_ref()
    }
}

fn caller(number: u64) -> Caller {
    let key = Some((format!("key {number}"), String::new()));
    Caller { number, turn: Some(row(number).turn_id()), key }
}

fn row(no: u64) -> TurnRow {
    TurnRow {
        no,
        invocation: InvocationId::parse(format!("00000000-0000-4000-8000-{no:012x}")).unwrap(),
        ordinal: 0,
        kind: StoredTurnKind::Message,
        status: StoredTurnStatus::Accepted,
        fence: FencingToken(1),
        deaths: 0,
        agent: "agent".into(),
        graph: "graph".into(),
        message: Some(no),
        wait: None,
        key: None,
        digest: None,
        accepted_at: Timestamp::from_millis(0),
        ended_at: None,
        outcome: None,
        retries: None,
    }
}

fn wait(no: u64) -> WaitRow {
    WaitRow {
        no,
        signal: "signal".into(),
        invocation: row(0).invocation,
        turn: 0,
        status: StoredWaitStatus::Pending,
        metadata: None,
        action: None,
        deadline: None,
        payload_schema: None,
        on_deadline: None,
        created_at: Timestamp::from_millis(0),
        ended_by: None,
        answer: None,
        answered_by: None,
        ended_at: None,
    }
}

fn early_signal(signal: &str, at: i64) -> EarlySignalRow {
    let payload = JsonDocument::from_text("{}");
    EarlySignalRow { signal: signal.into(), payload, from: None, at: Timestamp::from_millis(at) }
}

fn head(version: u64) -> SessionHead {
    SessionHead {
        agent: "agent".into(),
        graph: "graph".into(),
        schema_version: String::new(),
        version,
        prompt_policy: "conversation".into(),
        parent: None,
        subject: None,
        created_at: Timestamp::from_millis(0),
        updated_at: Timestamp::from_millis(0),
    }
}

fn message(no: u64, steers: bool) -> QueuedTurn<Caller> {
    let message = Item::from_json(serde_json::json!({ "role": "user", "content": no.to_string() }));
    let work = QueuedWork::Message { row: row(no), message, committed: false, steers, side: None };
    QueuedTurn { handle: caller(no), work }
}

fn answer(wait: u64) -> PendingAnswer {
    PendingAnswer { wait, payload: serde_json::Map::new(), from: None, expired: false }
}

fn batch(puts: impl IntoIterator<Item = RowMutation>) -> Batch {
    let key = SessionKey { tenant: TenantId::parse("t").unwrap(), session: SessionId::parse("s").unwrap() };
    let mut batch = Batch::new(key, FencingToken(1));
    batch.puts.extend(puts);
    batch
}

fn stored(pending: Option<WaitRow>) -> SessionSnapshot {
    SessionSnapshot {
        session: None,
        numbers: Counters::default(),
        pending: pending.into_iter().collect(),
        mail: Vec::new(),
        open: Vec::new(),
        paused: None,
    }
}

/// The rows of a session, as its owner gets them.
fn acquired(snapshot: SessionSnapshot) -> AcquiredSession {
    AcquiredSession { fence: FencingToken(1), snapshot }
}

/// A state that was acquired in an empty store.
fn loaded() -> SessionState<Caller> {
    let mut state = SessionState::new(&Arc::default());
    state.hold_session(acquired(stored(None)), 0, true);
    assert!(state.is_known());
    state
}

/// Accepts messages, and lets their commits land.
fn accept_all(state: &mut SessionState<Caller>, numbers: impl IntoIterator<Item = u64>) {
    for no in numbers {
        state.append_turn(message(no, false));
        assert_eq!(state.settle_message(&row(no), true), Some(caller(no)));
    }
}

fn next(state: &mut SessionState<Caller>, policy: WhileSuspended) -> QueueDecision<Caller> {
    state.decide_next_turn(|_| policy)
}

/// Runs the next turn, and returns its number.
fn run(state: &mut SessionState<Caller>) -> Option<u64> {
    match next(state, WhileSuspended::Queue) {
        QueueDecision::Run(queued) => Some(queued.handle.number),
        _ => None,
    }
}

fn land(state: &mut SessionState<Caller>, wait: WaitChange) {
    let counters = state.next_numbers();
    state.begin_commit(&batch([]), counters, true);
    let change = LandedChange { invalidates: true, wait, ..LandedChange::default() };
    assert!(state.commit_landed(change).ended.is_empty());
}

// INV-1
#[test]
fn messages_run_one_at_a_time_in_the_order_of_acceptance_once_they_are_durable() {
    let mut state = loaded();
    (0..3).for_each(|no| state.append_turn(message(no, false)));
    // The second one is durable first: it does not overtake.
    state.settle_message(&row(1), true);
    assert_eq!(run(&mut state), None);
    state.settle_message(&row(0), true);
    assert_eq!(run(&mut state), Some(0));
    assert_eq!(run(&mut state), None, "one runs");
    state.release_turn_slot();
    assert_eq!(run(&mut state), Some(1));
    state.release_turn_slot();
    assert_eq!(run(&mut state), None, "the third one is not durable");
}

// INV-2
#[test]
fn a_message_that_was_not_accepted_leaves_the_queue_and_frees_its_key() {
    let mut state = loaded();
    state.append_turn(message(0, false));
    assert_eq!(state.find_turn_by_key("key 0"), Some(caller(0)));
    assert_eq!(state.settle_message(&row(0), false), Some(caller(0)));
    assert_eq!((state.find_turn_by_key("key 0"), state.count_waiting_turns()), (None, 0));
    assert_eq!(state.settle_message(&row(0), true), None);
}

// INV-1, D1
#[test]
fn the_end_of_a_wait_goes_before_the_messages_behind_it_and_is_taken_once() {
    let mut state = loaded();
    land(&mut state, WaitChange::Begins(wait(3).into()));
    accept_all(&mut state, 0..2);
    assert_eq!(state.queue_answer(caller(8), answer(3)), None);
    assert_eq!(state.queue_answer(caller(9), answer(3)), Some(caller(8)), "the first one wins");
    assert_eq!(run(&mut state), Some(8));
    assert_eq!(state.begin_answer(3).map(|wait| wait.no), Some(3));
    assert_eq!(state.queue_answer(caller(9), answer(3)), Some(caller(8)), "also while it runs");
    land(&mut state, WaitChange::Ends);
    assert_eq!(state.begin_answer(3), None);
    state.release_turn_slot();
    assert_eq!((run(&mut state), state.release_turn_slot()), (Some(0), ()));
    assert_eq!(run(&mut state), Some(1));
}

// D1
#[test]
fn a_message_behind_a_wait_is_queued_refused_or_supersedes_it_as_its_agent_says() {
    let check = |policy, expect: &str, left: usize| {
        let mut state = loaded();
        land(&mut state, WaitChange::Begins(wait(0).into()));
        accept_all(&mut state, [0]);
        let decided = next(&mut state, policy);
        assert!(format!("{decided:?}").starts_with(expect), "{decided:?}");
        assert_eq!(state.count_waiting_turns(), left, "{expect}");
    };
    check(WhileSuspended::Queue, "Nothing", 1);
    check(WhileSuspended::Reject, "Refuse", 0);
    // It stays at the front until the wait is closed.
    check(WhileSuspended::Supersede, "Supersede", 1);
}

// D20
#[test]
fn after_a_failed_commit_nothing_is_decided_before_the_store_was_read() {
    let mut state = loaded();
    accept_all(&mut state, [0]);
    state.commit_failed();
    assert!(matches!(next(&mut state, WhileSuspended::Queue), QueueDecision::Load));
    let changes = state.change_count();
    assert!(state.load_snapshot(stored(None), changes, true));
    assert_eq!(run(&mut state), Some(0));
}

// C3 of docs/findings.md
#[test]
fn a_read_that_began_before_a_commit_was_sent_or_has_landed_is_stale() {
    let mut state = loaded();
    let before = state.change_count();
    let counters = Counters { events: 4, ..Counters::default() };
    assert!(state.begin_commit(&batch([RowMutation::Delete]), counters, true), "it changes the state");
    state.begin_deletion();
    assert!(state.has_commits_in_flight());
    assert!(!state.load_snapshot(stored(Some(wait(0))), before, true));
    assert_eq!((state.session_head(), state.pending_wait()), (None, None));
    state.commit_settled();
    assert!(!state.has_commits_in_flight());
    // Data that was read before the commit is not held.
    assert!(!state.hold_fields_read(Vec::new(), before));
    assert!(state.held_fields().is_none());
    let now = state.change_count();
    assert!(state.hold_fields_read(Vec::new(), now));
    assert_eq!(state.next_numbers().events, 4);
    assert!(state.load_snapshot(stored(None), now, true));
    assert_eq!(state.next_numbers().events, 4, "numbers never fall");
}

// INV-1: another process owns the session from then on, and everything that was accepted in it.
#[test]
fn a_lost_lease_stops_the_running_turn_and_leaves_the_queue_to_the_other_owner() {
    let mut state = loaded();
    state.record_takeover_end(FencingToken(1), true);
    accept_all(&mut state, 0..3);
    assert_eq!(run(&mut state), Some(0));
    state.append_turn(message(3, false));
    assert_eq!(
        state.lose_lease(FencingToken(7)),
        None,
        "a batch of an earlier lease says nothing of this one"
    );
    assert_eq!((state.batch_fence(), state.can_accept_messages()), (FencingToken(1), true));
    assert_eq!(state.lose_lease(FencingToken(1)), Some(caller(0)));
    assert!(state.has_lost_running_turn() && !state.can_accept_messages());
    assert_eq!(state.batch_fence(), FencingToken(0), "the store refuses what is still sent");
    assert_eq!([1, 2, 3].map(|no| state.find_turn(&row(no).turn_id())), [None, None, Some(caller(3))]);
    state.release_turn_slot();
    let rows = SessionSnapshot { open: vec![row(1)], ..stored(None) };
    state.hold_session(
        AcquiredSession { fence: FencingToken(9), snapshot: rows },
        state.change_count(),
        true,
    );
    state.record_takeover_end(FencingToken(1), true);
    assert!(!state.is_taken_over(), "a new owner takes the turns over first");
    assert_eq!((state.batch_fence(), state.end_lease()), (FencingToken(9), true));
}

// INV-1: found by the simulation (seed 3213 with three processes). The earlier message was dropped with the lease and is
// taken over; the later one was on its way and must not come before it.
#[test]
fn a_message_that_lands_under_a_lease_that_was_lost_is_taken_over_in_its_place() {
    let mut state = loaded();
    accept_all(&mut state, [0]);
    (1..3).for_each(|no| state.append_turn(message(no, false)));
    state.lose_lease(FencingToken(1));
    assert_eq!(state.settle_message(&row(1), true), Some(caller(1)), "it is the other owner's");
    assert_eq!(state.find_turn(&row(1).turn_id()), None);

    let open = [row(0), row(1), row(2)];
    let rows = SessionSnapshot { open: open.to_vec(), ..stored(None) };
    let acquired = AcquiredSession { fence: FencingToken(9), snapshot: rows };
    state.hold_session(acquired, state.change_count(), true);
    assert_eq!(state.take_messages_of_former_lease(&open[..2]), []);
    assert_eq!(state.take_messages_of_former_lease(&open), [caller(2)]);
    assert_eq!(state.settle_message(&row(2), true), None);
    assert!(!state.has_queued_turns());
}

// INV-3
#[test]
fn each_commit_that_changes_the_session_makes_earlier_reads_stale_when_it_is_sent() {
    let field = singletree_durable::FieldRow {
        name: "field".into(),
        value: singletree_durable::FieldValue::Value(JsonDocument::from_text("1")),
    };
    let changes = [
        RowMutation::Head(head(2)),
        RowMutation::Field(field),
        RowMutation::DropField("field".into()),
        RowMutation::Wait(wait(0)),
        RowMutation::Mail(early_signal("signal", 0)),
        RowMutation::DropMail("signal".into()),
        RowMutation::Delete,
    ];
    for change in changes {
        let mut state = loaded();
        let (before, counters) = (state.change_count(), state.next_numbers());
        assert!(state.begin_commit(&batch([change.clone()]), counters, true), "{change:?}");
        assert!(!state.hold_fields_read(Vec::new(), before), "{change:?}");
        assert!(!state.load_snapshot(stored(None), before, true), "{change:?}");
        assert!(state.has_commits_in_flight(), "{change:?}");
    }
}

#[test]
fn a_turn_that_is_accepted_changes_no_state_that_is_read() {
    let mut state = loaded();
    let before = state.change_count();
    let counters = Counters { turns: 1, ..Counters::default() };
    assert!(!state.begin_commit(&batch([RowMutation::Turn(row(0))]), counters, true));
    assert_eq!(state.commit_landed(LandedChange::default()).resumes, None);
    assert_eq!((state.change_count(), state.has_commits_in_flight()), (before, false));
    assert_eq!(state.next_numbers(), counters);
}

#[test]
fn messages_that_steer_are_offered_taken_by_a_commit_and_returned_when_it_fails() {
    let mut state = loaded();
    accept_all(&mut state, [0]);
    for no in 1..4 {
        state.append_turn(message(no, no < 3));
        state.settle_message(&row(no), true);
    }
    assert_eq!(run(&mut state), Some(0));
    let numbers = |offers: Vec<crate::apply::steer::OfferedMessage>| -> Vec<u64> {
        offers.into_iter().map(|offer| offer.row.no).collect()
    };
    assert!(numbers(state.offer_steering("another agent").0).is_empty());
    assert_eq!(numbers(state.offer_steering("agent").0), [1, 2]);
    assert_eq!(state.count_waiting_turns(), 3, "they count until they are taken");
    let steered = |no| SteeredMessage { row: row(no), position: 5, side: None };
    assert_eq!(state.take_steering(&[steered(2)]), [caller(2)]);
    assert_eq!(
        state.find_cancellable_turn(&row(2).turn_id()),
        Some(caller(0)),
        "it ends with the turn that took it"
    );
    state.return_steering(&[steered(2)]);
    assert_eq!(numbers(state.offered_messages()), [1, 2]);
    assert_eq!(state.take_steering(&[steered(1)]), [caller(1)]);
    assert_eq!(state.offer_steering("agent").1, 6, "places behind the last one that was taken");
    let outcome = Arc::new(crate::outcome::ChatTurnOutcome::Errored(errored()));
    let change = LandedChange { ended: vec![(1, outcome.clone())], ..LandedChange::default() };
    assert_eq!(state.commit_landed(change).ended, [(caller(1), outcome)]);
    state.release_turn_slot();
    assert_eq!((run(&mut state), state.release_turn_slot()), (Some(2), ()), "what was not taken has a turn");
    assert_eq!(run(&mut state), Some(3));
}

fn errored() -> crate::outcome::ErroredTurn {
    crate::outcome::ErroredTurn {
        turn: Some(row(0).turn_id()),
        error_bucket: crate::bucket::FailureBucket::UserCorrectable,
        error_category: "chat_turn_cancelled".into(),
        reply: singletree_llm::ChatMessage::system("Cancelled."),
        diagnostic: "the turn was cancelled".into(),
        retry_safe: false,
        recorded: true,
        retry_after: None,
    }
}

// D33
#[test]
fn a_process_that_stops_leaves_accepted_turns_and_keeps_those_whose_acceptance_is_open() {
    let mut state = loaded();
    accept_all(&mut state, [0]);
    state.append_turn(message(1, false));
    state.leave_queued_turns();
    assert_eq!(
        (state.find_turn(&row(0).turn_id()), state.find_turn(&row(1).turn_id())),
        (None, Some(caller(1)))
    );
    assert!(state.has_unfinished_turns());
}

#[test]
fn memory_is_freed_only_while_no_turn_waits_or_runs() {
    let held = Arc::new(AtomicU64::new(0));
    let mut state: SessionState<Caller> = SessionState::new(&held);
    let mut snapshot = stored(None);
    let value =
        singletree_durable::FieldValue::Value(singletree_durable::JsonDocument::from_text("\"text\""));
    snapshot.session = Some(singletree_durable::SessionRow {
        key: batch([]).key,
        head: head(1),
        fields: vec![singletree_durable::FieldRow { name: "field".into(), value }],
        counters: Counters::default(),
    });
    state.hold_session(acquired(snapshot), 0, true);
    assert!(held.load(Ordering::Relaxed) > 0);
    accept_all(&mut state, [0]);
    state.free_cached_rows();
    assert!(held.load(Ordering::Relaxed) > 0);
    assert_eq!(run(&mut state), Some(0));
    state.release_turn_slot();
    state.free_cached_rows();
    assert_eq!(held.load(Ordering::Relaxed), 0);
    assert_eq!(state.session_head().map(|head| head.version), Some(1), "the head stays");
}
