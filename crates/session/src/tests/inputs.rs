//! One table over the transitions: what each of them requires of the store, so that two processes or two tasks cannot
//! both make it, and what it leaves behind.

use singletree_durable::{BatchPrecondition, SessionRow};
use singletree_llm::ChatMessage;

use super::turns::*;
use super::*;
use crate::agent::AgentVersion;
use crate::apply::accept::{AcceptedMessage, RetriedTurn, ReusableKey, accept_message};
use crate::apply::fork::ForkSource;
use crate::apply::steer::OfferedMessage;
use crate::apply::{cancel, claim, close, fail, finish, fork, save, step, suspend, take_over};
use crate::batch::BatchBuilder;
use crate::outcome::ChatTurnOutcome;
use crate::policy::TurnPromptPolicy;
use crate::stopped_run::KeptPart;

/// A message of the user under a key, in a session that exists.
pub(super) fn accepted_message(no: u64) -> AcceptedMessage<'static> {
    let message = ChatMessage::user(no.to_string());
    let body = JsonDocument::from_serializable(&message).unwrap();
    AcceptedMessage {
        agent: AgentVersion { name: "agent", graph: "graph", schema_version: "1", takes_commands: false },
        invocation: row(no).invocation,
        message: Arc::new(message),
        body,
        key: Some((format!("key {no}"), String::new())),
        reusable: None,
        side: None,
        exists: true,
        policy: TurnPromptPolicy::Conversation,
        retried: None,
        trace: None,
        subject: None,
    }
}

fn errored_turn(no: u64) -> BatchPrecondition {
    BatchPrecondition::Turn { no, status: StoredTurnStatus::Errored }
}

fn pending(no: u64) -> BatchPrecondition {
    BatchPrecondition::Wait { no, status: StoredWaitStatus::Pending }
}

fn source() -> SessionRow {
    SessionRow { key: batch([]).key, head: head(7), fields: Vec::new(), counters: Counters::default() }
}

fn fork_source(writing: &mut BatchBuilder) {
    let source = source();
    let name = row(9).invocation;
    let forking = ForkSource { source: &source, offset: 0, bytes: 0, closings: Vec::new(), name };
    fork::fork_session(&mut loaded(), writing, forking).unwrap();
}

fn take_steering(writing: &mut BatchBuilder) {
    let message = Arc::new(ChatMessage::user("steer"));
    writing.offered = vec![OfferedMessage { row: row(4), message, side: None }];
    let said = history([ChatMessage::user("m"), ChatMessage::user("steer")]);
    step::write_completed_step(writing, &mut turn_on(0, &history([])), &progress_of(&said)).unwrap();
}

type Transition = fn(&mut BatchBuilder);

/// A transition, and the preconditions that it sets.
type TableRow = (&'static str, Transition, Vec<BatchPrecondition>);

fn table() -> Vec<TableRow> {
    [acceptances(), commits_of_a_run(), early_ends(), takeovers_and_forks()].concat()
}

fn acceptances() -> Vec<TableRow> {
    vec![
        (
            "accept the first message",
            |writing| drop(accept_message(writing, AcceptedMessage { exists: false, ..accepted_message(0) })),
            vec![BatchPrecondition::SessionAbsent, BatchPrecondition::KeyFree("key 0".into())],
        ),
        (
            "accept a message without a key",
            |writing| drop(accept_message(writing, AcceptedMessage { key: None, ..accepted_message(0) })),
            vec![],
        ),
        (
            "accept a message that takes a key over",
            |writing| {
                let reusable = Some(ReusableKey { holder: 2, newest: Some(3) });
                drop(accept_message(writing, AcceptedMessage { reusable, ..accepted_message(0) }));
            },
            vec![errored_turn(2), BatchPrecondition::NewestTurn(3)],
        ),
        (
            "accept a retry",
            |writing| {
                let retried = Some(RetriedTurn { turn: 5, says_again: true });
                drop(accept_message(writing, AcceptedMessage { key: None, retried, ..accepted_message(0) }));
            },
            vec![errored_turn(5), BatchPrecondition::NewestTurn(5)],
        ),
    ]
}

fn commits_of_a_run() -> Vec<TableRow> {
    vec![
        (
            "complete a step",
            |writing| {
                let (mut turn, said) = (turn_on(0, &history([])), history([ChatMessage::user("m")]));
                step::write_completed_step(writing, &mut turn, &progress_of(&said)).unwrap();
            },
            vec![accepted(0)],
        ),
        ("take a message that steers", take_steering, vec![accepted(0), accepted(4)]),
        (
            "record a fact",
            |writing| {
                let (mut turn, fact) = (turn_on(0, &history([])), Item::from_json(true.into()));
                step::record_fact(writing, &mut turn, ("fact", &fact), None).unwrap();
            },
            vec![accepted(0)],
        ),
        (
            "save the session",
            |writing| {
                let (mut turn, said) = (turn_on(0, &history([])), history([ChatMessage::user("m")]));
                save::save_session(writing, &mut turn, &slice_of(&said), None).unwrap();
            },
            vec![accepted(0), BatchPrecondition::SessionVersion(1)],
        ),
        (
            "complete a turn",
            |writing| {
                let (mut turn, said) = (turn_on(0, &history([])), history([ChatMessage::user("m")]));
                finish::complete_turn(writing, &mut turn, &state_of(&said), Some(&slice_of(&said))).unwrap();
            },
            vec![accepted(0), BatchPrecondition::SessionVersion(1)],
        ),
        (
            "suspend a turn",
            |writing| {
                let (mut turn, said) = (turn_on(0, &history([])), history([ChatMessage::user("m")]));
                suspend::suspend_turn(writing, &mut turn, &paused_on(&said, None), Some(&slice_of(&said)))
                    .unwrap();
            },
            vec![accepted(0), BatchPrecondition::SessionVersion(1)],
        ),
    ]
}

fn early_ends() -> Vec<TableRow> {
    vec![
        (
            "fail a turn",
            |writing| {
                let mut turn = turn_on(0, &history([]));
                fail::fail_turn(writing, &mut turn, (None, KeptPart::Nothing), failure("x")).unwrap();
            },
            vec![accepted(0)],
        ),
        (
            "cancel a turn",
            |writing| {
                let (mut turn, stopped) = (turn_on(0, &history([])), stopped_at(&history(called())));
                let part = (&stopped, KeptPart::Session);
                cancel::cancel_running_turn(writing, &mut turn, part, errored()).unwrap();
            },
            vec![accepted(0), BatchPrecondition::SessionVersion(1)],
        ),
        (
            "answer a wait",
            |writing| drop(claim::claim_wait(writing, &row(1), &wait(3), &answer(3), None).unwrap()),
            vec![pending(3)],
        ),
        (
            "close a wait",
            |writing| {
                let (mut turn, stopped) = (turn_on(1, &history([])), stopped_at(&history([])));
                close::close_wait(writing, &mut turn, (wait(3), &stopped), errored()).unwrap();
            },
            vec![pending(3)],
        ),
    ]
}

fn takeovers_and_forks() -> Vec<TableRow> {
    vec![
        (
            "take a turn over",
            |writing| drop(take_over::take_over_turn(writing, &row(6), true)),
            vec![accepted(6)],
        ),
        (
            "fork a session",
            fork_source,
            vec![
                BatchPrecondition::SessionAbsent,
                BatchPrecondition::Source {
                    session: batch([]).key.session,
                    created_at: Timestamp::from_millis(0),
                    version: 7,
                },
            ],
        ),
    ]
}

// INV-1, INV-2, INV-3, INV-7: whatever was decided elsewhere in the meantime, a transition is made once or not at all.
#[test]
fn each_transition_requires_what_it_was_decided_on() {
    for (name, transition, expect) in table() {
        let mut writing = begin_batch();
        transition(&mut writing);
        assert_eq!(writing.batch.requires, expect, "{name}");
    }
}

// INV-2, INV-8: a turn has a row from its acceptance on, and one outcome; each end of a turn tells one event of it.
#[test]
fn each_end_of_a_turn_writes_its_outcome_once_with_its_event() {
    let ends = [
        ("complete a turn", StoredTurnStatus::Completed, "turn.completed"),
        ("suspend a turn", StoredTurnStatus::Suspended, "turn.suspended"),
        ("fail a turn", StoredTurnStatus::Errored, "turn.errored"),
        ("cancel a turn", StoredTurnStatus::Errored, "turn.errored"),
        ("close a wait", StoredTurnStatus::Errored, "turn.errored"),
    ];
    for (name, status, event) in ends {
        let (_, transition, _) = table().into_iter().find(|(other, ..)| *other == name).unwrap();
        let mut writing = begin_batch();
        transition(&mut writing);
        let rows: Vec<_> = writing
            .batch
            .puts
            .iter()
            .filter_map(|put| match put {
                RowMutation::Turn(row) => Some((row.status, row.outcome.is_some(), row.ended_at)),
                _ => None,
            })
            .collect();
        assert_eq!(rows, [(status, true, Some(Timestamp::from_millis(NOW)))], "{name}");
        let told: Vec<_> = writing.events.iter().filter(|it| it.what.outcome().is_some()).collect();
        assert_eq!(told.iter().map(|it| it.what.as_str()).collect::<Vec<_>>(), [event], "{name}");
    }
}

// INV-2: the row is the message's promise: it names the message, its key and its place, and belongs to this process.
#[test]
fn an_acceptance_writes_message_row_and_event_under_the_next_numbers() {
    let mut state = loaded();
    state.begin_commit(&batch([]), Counters { turns: 5, items: 9, events: 2, waits: 0 }, true);
    let mut writing = begin_batch_at(&state, NOW);
    let row = accept_message(&mut writing, AcceptedMessage { exists: false, ..accepted_message(0) });
    assert_eq!(
        (row.no, row.message, row.status, row.fence),
        (5, Some(9), StoredTurnStatus::Accepted, FencingToken(1))
    );
    assert_eq!(row.key.as_deref(), Some("key 0"));
    assert_eq!(writing.counters, Counters { turns: 6, items: 10, events: 3, waits: 0 });
    assert_eq!(writing.find_written_head().map(|head| head.version), Some(0));
    let writing = writing.finish_batch();
    assert_eq!(writing.batch.puts.last(), Some(&RowMutation::Counters(writing.counters)));
    let kinds: Vec<_> = writing.events.iter().map(|event| event.what.as_str()).collect();
    assert_eq!(kinds, ["turn.accepted"]);
}

// INV-7, INV-8, D2: a suspension leaves one wait that is pending, or one turn that resumes.
#[test]
fn a_suspension_leaves_a_pending_wait_or_a_turn_that_resumes() {
    let day = 24 * 3600 * 1000;
    let age = i64::try_from(crate::Limits::default().mail_age.as_millis()).unwrap();
    // The early signal, the deadline of the wait, its action, and whether the signal ends it.
    let cases = [
        ("no signal", None, None, None, false),
        ("a signal that fits", Some(early_signal("signal", NOW)), None, None, true),
        ("a signal of another name", Some(early_signal("other", NOW)), None, None, false),
        ("an approval in advance", Some(early_signal("signal", NOW)), None, Some("digest"), false),
        ("a deadline that has passed", Some(early_signal("signal", NOW)), Some(NOW), None, false),
        ("a deadline to come", Some(early_signal("signal", NOW)), Some(NOW + day), None, true),
        ("a signal that is too old", Some(early_signal("signal", NOW - age - 1)), None, None, false),
    ];
    for (name, mail, deadline, action, resumes) in cases {
        let mut snapshot = stored(None);
        snapshot.mail = mail.clone().into_iter().collect();
        let mut state: SessionState<Caller> = SessionState::new(&Arc::default());
        assert!(state.load_snapshot(snapshot, 0, true));
        let mut writing = begin_batch_at(&state, NOW);
        let said = history([ChatMessage::user("m")]);
        let mut paused = paused_on(&said, deadline);
        paused.terms.action = action.map(str::to_owned);
        let mut turn = turn_on(0, &history([]));
        let outcome = suspend::suspend_turn(&mut writing, &mut turn, &paused, None).unwrap();
        let ChatTurnOutcome::Suspended(suspended) = outcome.as_ref() else { panic!("{name}: {outcome:?}") };
        let begins = matches!(writing.landed.wait, WaitChange::Begins(_));
        assert_eq!((writing.landed.resumes.is_some(), begins), (resumes, !resumes), "{name}");
        assert_eq!(suspended.resumed_by.is_some(), resumes, "{name}");
        let wait = written_wait(&writing).unwrap();
        let status = if resumes { StoredWaitStatus::Consumed } else { StoredWaitStatus::Pending };
        assert_eq!((wait.status, wait.ended_by), (status, resumes.then_some(0)), "{name}");
        let dropped = writing.batch.puts.contains(&RowMutation::DropMail("signal".into()));
        assert_eq!(
            dropped,
            mail.is_some_and(|mail| mail.signal == "signal"),
            "{name}: taken or refused, it goes"
        );
    }
}

// INV-7, D37, finding C5
#[test]
fn a_wait_is_claimed_before_its_deadline_or_by_it() {
    let due = WaitRow { deadline: Some(Timestamp::from_millis(NOW)), ..wait(3) };
    let claim = |now: i64, expired: bool| {
        let mut writing = begin_batch_at(&loaded(), now);
        let answer = PendingAnswer { expired, ..answer(3) };
        let claimed = claim::claim_wait(&mut writing, &row(1), &due, &answer, None);
        claimed.map(|wait| wait.status).map_err(|error| (error.category(), writing.batch.puts.len()))
    };
    assert_eq!(claim(NOW - 1, false), Ok(StoredWaitStatus::Consumed));
    assert_eq!(claim(NOW, false), Err(("chat_signal_expired", 0)), "an answer at the deadline is too late");
    assert_eq!(claim(NOW + 1, false), Err(("chat_signal_expired", 0)));
    assert_eq!(claim(NOW, true), Ok(StoredWaitStatus::Expired));
}

// INV-7: the answer and the turn that it starts are one batch.
#[test]
fn a_claim_writes_the_answer_and_the_turn_that_resumes() {
    let mut writing = begin_batch();
    let next = claim::next_turn_row(&mut writing, &row(0), &wait(3), StoredTurnKind::Resume);
    let answer = PendingAnswer { from: Some("alice".into()), ..answer(3) };
    claim::claim_wait(&mut writing, &next, &wait(3), &answer, None).unwrap();
    let ended = written_wait(&writing).unwrap();
    assert_eq!((ended.ended_by, ended.answered_by.as_deref()), (Some(next.no), Some("alice")));
    let resumed = written_turn(&writing, next.no).unwrap();
    assert_eq!((resumed.ordinal, resumed.wait, resumed.status), (1, Some(3), StoredTurnStatus::Accepted));
    assert!(matches!(writing.landed.wait, WaitChange::Ends));
}

// INV-2, D24, D33, finding C9
#[test]
fn a_takeover_counts_a_death_only_where_a_turn_may_have_run() {
    let taken = |row: &TurnRow, may_have_run| {
        let mut writing = begin_batch();
        let taken = take_over::take_over_turn(&mut writing, row, may_have_run);
        assert_eq!(written_turn(&writing, row.no), Some(taken.clone()));
        (taken.deaths, taken.fence)
    };
    let other = TurnRow { fence: FencingToken(7), ..row(0) };
    assert_eq!(taken(&other, true), (1, FencingToken(1)));
    assert_eq!(taken(&other, false), (0, FencingToken(1)), "a queued turn did not run");
    let mut writing = begin_batch();
    take_over::clear_turn_owner(&mut writing, other);
    assert_eq!(writing.batch.requires, [accepted(0)]);
    let left = written_turn(&writing, 0).unwrap();
    assert_eq!(taken(&left, true), (0, FencingToken(1)), "its process stopped in an orderly way");
}
