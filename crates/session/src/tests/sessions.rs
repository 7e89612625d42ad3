//! Inputs that make, copy, import and delete sessions, keep early signals, or forget the past: each with the states that
//! refuse it.

use singletree_durable::{BatchPrecondition, EventRow, SessionRow};

use super::inputs::accepted_message;
use super::turns::*;
use super::*;
use crate::agent::AgentVersion;
use crate::apply::accept::ReusableKey;
use crate::apply::accept::{
    AcceptanceRefusal, AcceptedMessage, MessageToQueue, accept_into_queue, check_acceptable,
};
use crate::apply::delete::{DeletionRefusal, delete_session};
use crate::apply::forget::{RecordsInUse, RetentionBounds};
use crate::apply::import::{ImportedSession, import_session};
use crate::apply::keep_signal::{KeepRefusal, SignalToKeep, keep_signal};
use crate::apply::{create, fork};
use crate::limit::Limits;
use crate::policy::TurnPromptPolicy;

/// A session that was read from the store.
fn existing() -> SessionState<Caller> {
    let mut snapshot = stored(None);
    let (key, counters) = (batch([]).key, Counters::default());
    snapshot.session = Some(SessionRow { key, head: head(1), fields: Vec::new(), counters });
    let mut state = SessionState::new(&Arc::default());
    state.hold_session(acquired(snapshot), 0, true);
    state
}

/// What a decision about an existing session, and about an absent one, gives.
fn on_both<T>(decide: impl Fn(&mut SessionState<Caller>) -> T) -> [T; 2] {
    [decide(&mut existing()), decide(&mut loaded())]
}

fn agent() -> AgentVersion<'static> {
    accepted_message(0).agent
}

fn imported(text: &str) -> ImportedSession {
    let message = serde_json::json!({ "role": "user", "content": text });
    ImportedSession {
        agent: "agent".into(),
        graph: "graph".into(),
        schema_version: "1".into(),
        policy: TurnPromptPolicy::Conversation,
        created_at: Timestamp::from_millis(0),
        subject: None,
        values: serde_json::Map::from_iter([("field".to_owned(), 1.into())]),
        lists: [(crate::HISTORY.to_owned(), vec![(message, None)])].into(),
    }
}

// INV-2: what makes a session makes it once, and says so to those that are decided behind it.
#[test]
fn a_session_is_made_once_by_whichever_input() {
    let made = on_both(|state| {
        let mut writing = begin_batch_at(state, NOW);
        let made = create::create_session(state, &mut writing, agent(), TurnPromptPolicy::Command, None);
        (made.map_err(|error| error.category()), state.session_head().map(|head| head.prompt_policy.clone()))
    });
    let kept = Some("conversation".to_owned());
    assert_eq!(made, [(Err("chat_session_exists"), kept), (Ok(()), Some("command".to_owned()))]);

    let made = on_both(|state| {
        let mut writing = begin_batch_at(state, NOW);
        let made = import_session(state, &mut writing, imported("m"), &bounds());
        (made.map_err(|error| error.category()), writing.batch.requires)
    });
    assert_eq!(
        made,
        [(Err("chat_session_exists"), vec![]), (Ok(()), vec![BatchPrecondition::SessionAbsent])]
    );

    let source =
        SessionRow { key: batch([]).key, head: head(4), fields: Vec::new(), counters: Counters::default() };
    let made = on_both(|state| {
        let mut writing = begin_batch_at(state, NOW);
        let name = row(9).invocation;
        let forking = fork::ForkSource { source: &source, offset: 0, bytes: 0, closings: Vec::new(), name };
        let made = fork::fork_session(state, &mut writing, forking);
        (made.map_err(|error| error.category()), state.session_head().map(|head| head.version))
    });
    assert_eq!(made, [(Err("chat_session_exists"), Some(1)), (Ok(()), Some(5))]);
}

// INV-12: a document is input.
#[test]
fn an_import_has_the_limits_of_a_session_and_takes_new_numbers() {
    let import = |text: &str, limits: &Limits| {
        let (mut state, mut writing) = (loaded(), begin_batch());
        let bounds = crate::EffectiveBudget::from_limits(limits, &crate::Budget::default());
        let made = import_session(&mut state, &mut writing, imported(text), &bounds);
        (made.map_err(|error| error.category()), writing.counters.turns, writing.counters.items)
    };
    let limits = Limits { item_bytes: 64, ..Limits::default() };
    assert_eq!(import("m", &limits), (Ok(()), 1, 1));
    assert_eq!(import(&"m".repeat(99), &limits).0, Err("chat_budget_exhausted"));
    let none = Limits { messages: 0, ..Limits::default() };
    assert_eq!(import("m", &none).0, Err("chat_budget_exhausted"));
    let (mut state, mut writing) = (loaded(), begin_batch());
    let broken = ImportedSession {
        lists: [(crate::HISTORY.to_owned(), vec![(serde_json::json!({ "role": "nobody" }), None)])].into(),
        ..imported("m")
    };
    let made = import_session(&mut state, &mut writing, broken, &bounds());
    assert_eq!(made.unwrap_err().category(), "chat_message_shape_invalid");
    assert!(state.session_head().is_none(), "nothing is decided on what was not made");
}

// INV-1, INV-2, D25, finding C3: nothing is deleted beside a turn, and nothing that was read before is taken after it.
#[test]
fn a_deletion_waits_for_turns_waits_and_cancellations_and_makes_reads_stale() {
    let delete = |state: &mut SessionState<Caller>, keeps_blobs: bool| {
        let mut writing = begin_batch_at(state, NOW);
        delete_session(state, &mut writing, keeps_blobs, Some("alice")).map(|began| (began, writing))
    };
    let refused = |state: &mut SessionState<Caller>| delete(state, true).err();
    let mut state = existing();
    accept_all(&mut state, [0]);
    assert_eq!(refused(&mut state), Some(DeletionRefusal::Busy), "a turn is queued");
    let queued = state.take_next_accepted().unwrap();
    assert_eq!(refused(&mut state), Some(DeletionRefusal::Busy), "its cancelling is not recorded yet");
    state.record_cancel_end(&queued.handle, None);
    land(&mut state, WaitChange::Begins(wait(0).into()));
    assert_eq!(refused(&mut state), Some(DeletionRefusal::Busy), "it waits");
    land(&mut state, WaitChange::Ends);
    state.commit_failed();
    assert_eq!(refused(&mut state), Some(DeletionRefusal::Busy), "its state is not known");

    assert_eq!(delete(&mut loaded(), false).err(), Some(DeletionRefusal::Absent));
    assert!(!delete(&mut loaded(), true).unwrap().0, "blobs may be kept for it");

    let mut state = existing();
    let before = state.change_count();
    let (began, writing) = delete(&mut state, true).unwrap();
    let audited =
        writing.batch.puts.iter().any(|put| matches!(put, RowMutation::Audit(row) if row.by.is_some()));
    assert!(began && audited && state.session_head().is_none());
    let counters = writing.counters;
    assert!(state.begin_commit(&writing.batch, counters, true), "the store is not read meanwhile");
    assert!(state.has_commits_in_flight());
    assert!(!state.hold_fields_read(Vec::new(), before), "what a cancel had read is not held");
    assert!(!state.load_snapshot(stored(None), before, true), "nor is a head that was read before");
    let sent = state.change_count();
    state.commit_landed(LandedChange::default());
    state.commit_settled();
    assert_eq!(state.change_count(), sent);
}

// INV-2, INV-12, D3
#[test]
fn a_message_is_accepted_only_into_a_known_session_with_room_and_a_free_key() {
    let check =
        |state: &SessionState<Caller>, accepted: AcceptedMessage<'_>, max: usize| match check_acceptable(
            state, max, &accepted, None,
        ) {
            Ok(_) => "accepted",
            Err(AcceptanceRefusal::Again) => "again",
            Err(AcceptanceRefusal::QueueFull(_)) => "full",
            Err(AcceptanceRefusal::Refused(error)) => error.category(),
        };
    let mut state = existing();
    assert_eq!(check(&state, accepted_message(0), 1), "again", "turns of a former owner come first");
    state.record_takeover_end(FencingToken(1), true);
    assert_eq!(check(&state, accepted_message(0), 1), "accepted");
    let mut writing = begin_batch_at(&state, NOW);
    let item = Item::from_json(serde_json::Value::Null);
    let queued = MessageToQueue { handle: caller(0), message: item, steers: false, side: None };
    let accepted = AcceptedMessage { exists: false, ..accepted_message(0) };
    let row = accept_into_queue(&mut state, &mut writing, accepted, queued);
    assert_eq!(writing.batch.requires, [BatchPrecondition::KeyFree("key 0".into())], "the session exists");
    assert_eq!(
        (state.find_turn_by_number(row.no), run(&mut state)),
        (Some(caller(0)), None),
        "it is not durable"
    );
    assert_eq!(check(&state, accepted_message(0), 9), "again", "its key is taken");
    assert_eq!(check(&state, accepted_message(1), 1), "full");
    let command = AgentVersion { takes_commands: false, ..agent() };
    let accepted =
        || AcceptedMessage { agent: command, policy: TurnPromptPolicy::Command, ..accepted_message(1) };
    assert_eq!(check(&state, accepted(), 9), "accepted", "the session's policy counts");
    let mut absent = loaded();
    absent.record_takeover_end(FencingToken(1), true);
    assert_eq!(check(&absent, accepted(), 9), "chat_policy_unsupported");
    let taken_over = |newest| Some(ReusableKey { holder: 0, newest });
    let reused = |newest| AcceptedMessage { reusable: taken_over(newest), key: None, ..accepted_message(1) };
    assert_eq!([check(&state, reused(None), 9), check(&state, reused(Some(7)), 9)], ["accepted", "again"]);
    state.commit_failed();
    assert_eq!(check(&state, accepted_message(1), 9), "again", "its state is not known");
}

// INV-7, INV-12, D2
#[test]
fn an_early_signal_is_kept_once_within_its_limits_and_not_beside_its_wait() {
    let keep_seen = |state: &SessionState<Caller>,
                     signal: &str,
                     payload: serde_json::Value,
                     limits: &Limits,
                     waits_seen: u64| {
        let mut writing = begin_batch_at(state, NOW);
        let payload = payload.as_object().unwrap().clone();
        let early = SignalToKeep {
            signal,
            payload: &payload,
            from: None,
            names_action: signal == "approve",
            waits_seen,
        };
        match keep_signal(state, &mut writing, early, limits) {
            Ok(until) => {
                assert!(writing.landed.invalidates);
                assert!(until > writing.now);
                "kept"
            }
            Err(KeepRefusal::Again) => "again",
            Err(KeepRefusal::Later) => "later",
            Err(KeepRefusal::Refused(error)) => error.category(),
        }
    };
    let keep = |state: &SessionState<Caller>, signal: &str, payload: serde_json::Value, limits: &Limits| {
        keep_seen(state, signal, payload, limits, 0)
    };
    let limits = Limits { mail: 1, ..Limits::default() };
    let empty = || serde_json::json!({});
    let mut state = existing();
    assert_eq!(keep(&state, "signal", empty(), &limits), "kept");
    assert_eq!(keep(&state, "approve", empty(), &limits), "chat_signal_mismatch");
    assert_eq!(keep(&state, &"s".repeat(9_999), empty(), &limits), "harness_signal_correlation_failed");
    assert_eq!(
        keep(&state, "signal", serde_json::json!({ "messages": [] }), &limits),
        "suspension_resume_payload_invalid"
    );
    let mail = batch([RowMutation::Mail(early_signal("signal", NOW))]);
    state.begin_commit(&mail, Counters::default(), true);
    assert_eq!(keep(&state, "signal", empty(), &limits), "kept", "the same again");
    assert_eq!(keep(&state, "signal", serde_json::json!({ "a": 1 }), &limits), "chat_signal_conflict");
    assert_eq!(keep(&state, "other", empty(), &limits), "chat_mailbox_full");
    let mut suspending = existing();
    suspending.begin_commit(&batch([]), Counters { waits: 1, ..Counters::default() }, true);
    assert_eq!(keep(&suspending, "signal", empty(), &limits), "later");
    suspending
        .commit_landed(LandedChange { wait: WaitChange::Begins(wait(0).into()), ..LandedChange::default() });
    assert_eq!(keep(&suspending, "signal", empty(), &limits), "again", "a wait has begun since");
    assert_eq!(
        keep_seen(&suspending, "signal", empty(), &limits, 1),
        "again",
        "that wait is answered instead"
    );
}

// INV-2, INV-12: data that is in use is not forgotten, and the log has no gap.
#[test]
fn only_the_beginning_of_the_log_is_forgotten_and_nothing_in_use() {
    let event = |seq: u64, turn: u64| {
        let at = Timestamp::from_millis(0);
        EventRow { seq, turn, kind: "turn.accepted".into(), item: None, at, body: None }
    };
    let log: Vec<_> = (0..6).map(|seq| event(seq, seq / 2)).collect();
    let now = Counters { turns: 3, items: 0, events: 6, waits: 0 };
    let bounds = |events| RetentionBounds::new(now, Timestamp::from_millis(NOW), (None, Some(events)), None);
    let none = RecordsInUse::default();
    let open = |turn| RecordsInUse { open: [turn].into(), ..RecordsInUse::default() };
    let counts = [
        bounds(2).count_expired_events(&log, &none, None),
        bounds(2).count_expired_events(&log, &none, Some(3)),
        bounds(0).count_expired_events(&log, &open(1), None),
        bounds(9).count_expired_events(&log, &none, None),
    ];
    assert_eq!(counts, [4, 3, 2, 0]);
    let ended = |no| TurnRow { status: StoredTurnStatus::Completed, ..row(no) };
    let turns = RetentionBounds::new(now, Timestamp::from_millis(NOW), (Some(1), None), None);
    let in_use = RecordsInUse { turns: [1].into(), ..RecordsInUse::default() };
    assert_eq!(turns.expired_turns(&[ended(0), ended(1), ended(2), row(0)], &in_use), [0]);
}

// INV-1: recovery is in this order, whatever the numbers are.
#[test]
fn turns_that_end_a_wait_are_taken_over_before_the_messages_behind_it() {
    let of = |no, kind| TurnRow { kind, ..row(no) };
    let mut open = vec![
        of(1, StoredTurnKind::Message),
        of(4, StoredTurnKind::Resume),
        of(0, StoredTurnKind::Message),
        of(3, StoredTurnKind::Close),
    ];
    crate::apply::take_over::order_open_turns(&mut open);
    assert_eq!(open.iter().map(|row| row.no).collect::<Vec<_>>(), [3, 4, 0, 1]);
}
