//! The checker finds each kind of violation: a correct history, damaged in one place each.

use serde_json::json;
use singletree_audit::{
    AuditRule, AuditedOutcome, AuditedTurnKind, AuditedWaitState, ClientOperation, HistoryEvent,
    HistoryRecord, StoredEvent, StoredMessage, StoredSession, StoredTurn,
};

use crate::told::{Case, completed, errored, good, message, send, turn};

#[test]
fn a_history_in_which_all_is_well_passes() {
    let report = good().audit();
    assert_eq!(
        report.to_string(),
        "1 sessions, 10 calls, 8 turns given, 9 outcomes told, 6 turns stored, 2 effects: 0 lost, 0 doubled, \
         0 reordered, 0 overtaken, 0 contradicted, 0 orphaned, 0 invented, 0 stuck, 0 repeated"
    );
    assert!(report.is_clean());
}

#[test]
fn a_log_is_lines_of_json() {
    for record in good().log {
        let line = serde_json::to_string(&record).unwrap();
        assert_eq!(serde_json::from_str::<HistoryRecord>(&line).unwrap(), record, "{line}");
    }
    let record = HistoryRecord {
        at: 1,
        session: "s".into(),
        what: HistoryEvent::Call { call: 2, deed: send("m", Some("k")) },
    };
    let line = r#"{"at":1,"session":"s","what":"call","call":2,"deed":"send","text":"m","key":"k"}"#;
    assert_eq!(serde_json::to_string(&record).unwrap(), line);
}

type Damage = fn(&mut Case);

/// Each damage, and the violations that the checker must report, in its order.
const DAMAGES: &[(Damage, &[&str])] = &[
    (|it| it.forget("b"), &["lost in s: turn b of 'm2' was accepted and is not stored"]),
    (
        |it| {
            it.stored.messages.retain(|it| !(it.turn == Some(1) && it.own));
        },
        &[
            "lost in s: 'm2' of turn b is not in the history",
            "orphaned in s: message 2 (assistant:r2) of turn b has no message that it answers",
        ],
    ),
    (
        |it| it.stored.messages.insert(2, message(0, "user:m1")),
        &["doubled in s: 'm1' of turn a stands 2 times in the history"],
    ),
    (
        |it| {
            let mut again = turn(6, "f", Some("m1"), completed(&["assistant:r1"]));
            again.invocation = "f".into();
            it.stored.turns.push(again);
            it.stored.messages.extend([message(6, "user:m1"), message(6, "assistant:r1")]);
            it.stored.events.push(StoredEvent { seq: 6, turn: 6, kind: "turn.completed".into() });
        },
        &["doubled in s: 1 turns of 'm1' are stored that nobody was given, for 0 open calls"],
    ),
    (
        |it| {
            it.stored.turns.push(turn(6, "f", Some("m3"), completed(&[])));
            it.stored.messages.push(message(6, "user:m3"));
            it.stored.events.push(StoredEvent { seq: 6, turn: 6, kind: "turn.completed".into() });
        },
        &["doubled in s: 1 turns of 'm3' are stored that nobody was given, for 1 open calls"],
    ),
    (
        |it| {
            it.stored.turns.push(turn(6, "f", Some("m3"), completed(&[])));
            it.stored.messages.push(message(6, "user:m3"));
            it.stored.events.push(StoredEvent { seq: 6, turn: 6, kind: "turn.completed".into() });
            it.call(10, send("m3", Some("k")));
            it.told(10, "f");
        },
        &["doubled in s: key 'k' has 2 turns: {\"c\", \"f\"}"],
    ),
    (
        |it| it.stored.messages[3].brief = "assistant:r3".into(),
        &[
            "contradicted in s: turn b says that it added [\"assistant:r2\"], and the history has [\"assistant:r3\"]",
        ],
    ),
    (
        |it| it.stored.messages[2].brief = "user:m9".into(),
        &["contradicted in s: message 2 (user:m9) is not the one that turn b answers"],
    ),
    // The order of acceptance is the order of the history; a turn does not stand inside another.
    (
        |it| it.stored.messages[..4].rotate_left(2),
        &["reordered in s: the message of turn a was accepted before that of b, and stands behind it"],
    ),
    (
        |it| it.stored.messages[..4].rotate_right(1),
        &[
            "orphaned in s: message 0 (assistant:r2) of turn b has no message that it answers",
            "contradicted in s: turn b says that it added [\"assistant:r2\"], and the history has []",
            "reordered in s: message 3 (user:m2) stands inside another turn's",
        ],
    ),
    (
        |it| it.stored.messages[7..10].swap(1, 2),
        &[
            "reordered in s: message 9 (assistant:done) stands inside another turn's",
            "reordered in s: message 10 (assistant: (c1)) stands inside another turn's",
        ],
    ),
    // A turn that was answered before a later call was made comes before that call's turn.
    (
        |it| {
            it.turn("c").no = 9;
            let ours = it.stored.messages.iter_mut().filter(|it| it.turn == Some(2));
            ours.for_each(|it| it.turn = Some(9));
            it.stored.events[2].turn = 9;
            it.stored.messages[4..].rotate_left(2);
            it.stored.turns.sort_by_key(|it| it.no);
        },
        &[
            "overtaken in s: turn c was given before d was asked for, and is number 9 of 3",
            "overtaken in s: turn c was given before d.1 was asked for, and is number 9 of 4",
            "overtaken in s: turn c was given before e was asked for, and is number 9 of 5",
        ],
    ),
    // Every told outcome is the stored outcome.
    (
        |it| it.turn("e").end = Some(errored("chat_budget_exhausted")),
        &[
            "contradicted in s: turn e was told as errored chat_turn_cancelled, and is stored as errored \
             chat_budget_exhausted",
            "contradicted in s: turn e was told as errored chat_turn_cancelled, and is stored as errored \
             chat_budget_exhausted",
        ],
    ),
    (
        |it| {
            it.turn("e").end = None;
            it.stored.events.pop();
        },
        &[
            "contradicted in s: turn e was told as errored chat_turn_cancelled, and has no outcome that is stored",
            "contradicted in s: turn e was told as errored chat_turn_cancelled, and has no outcome that is stored",
            "stuck in s: turn e has no outcome, and nothing holds it",
        ],
    ),
    (
        |it| {
            let told = it.record(|it| matches!(it, HistoryEvent::Told { call: 0, .. }));
            told.what =
                HistoryEvent::Told { call: 0, turn: Some("b".into()), end: completed(&["assistant:r1"]) };
        },
        &["contradicted in s: turn b was told as completed [\"assistant:r1\"], and is stored as completed \
             [\"assistant:r2\"]"],
    ),
    (
        |it| {
            let told = it.record(|it| matches!(it, HistoryEvent::Told { call: 0, .. }));
            told.what =
                HistoryEvent::Told { call: 0, turn: Some("a".into()), end: completed(&["assistant:r1"]) };
        },
        &["contradicted in s: call 0 was given turn b and told of turn a"],
    ),
    (
        |it| it.note(HistoryEvent::Gone { call: 77 }),
        &["contradicted in s: the log answers call 77, which it does not make"],
    ),
    (
        |it| it.turn("c").text = Some("m2".into()),
        &[
            "contradicted in s: turn c was given for 'm3', and answers 'm2'",
            "contradicted in s: message 4 (user:m3) is not the one that turn c answers",
        ],
    ),
    // Replies, calls and their answers stand together.
    (
        |it| it.stored.messages.insert(0, StoredMessage { turn: None, ..message(0, "assistant:hi") }),
        &["orphaned in s: message 0 (assistant:hi) is of no turn that is stored"],
    ),
    (|it| drop(it.stored.messages.pop()), &["orphaned in s: tool calls [\"c1\"] are open at the end"]),
    (
        |it| {
            it.stored.messages.swap(10, 11);
        },
        &[
            "orphaned in s: message 10 answers tool call c1, which is not open",
            "orphaned in s: tool calls [\"c1\"] are open at the end",
        ],
    ),
    (
        |it| it.stored.messages.insert(11, message(5, "assistant:so")),
        &[
            "orphaned in s: tool calls [\"c1\"] are open before message 11 (assistant:so)",
            "orphaned in s: message 12 answers tool call c1, which is not open",
        ],
    ),
    // Nobody asked for it, or it was refused.
    (
        |it| {
            it.stored.turns.push(turn(6, "f", Some("m6"), errored("x")));
            it.stored.events.push(StoredEvent { seq: 6, turn: 6, kind: "turn.errored".into() });
        },
        &["invented in s: 1 turns of 'm6' are stored that nobody was given, for 0 open calls"],
    ),
    (
        |it| {
            it.stored.turns.push(turn(6, "f", Some("m7"), errored("x")));
            it.stored.events.push(StoredEvent { seq: 6, turn: 6, kind: "turn.errored".into() });
        },
        &["invented in s: 1 turns of 'm7' are stored that nobody was given, for 0 open calls"],
    ),
    (
        |it| {
            it.call(10, ClientOperation::Delete);
            it.note(HistoryEvent::Done { call: 10 });
            let stored = std::mem::take(&mut it.stored);
            let first = |it: &StoredTurn| it.no == 0;
            it.stored = StoredSession {
                turns: stored.turns.into_iter().filter(first).collect(),
                messages: stored.messages.into_iter().take(2).collect(),
                events: stored.events.into_iter().take(1).collect(),
                session: stored.session,
                ..StoredSession::default()
            };
        },
        &["invented in s: turn a of 'm1' is stored after its deletion"],
    ),
    (
        |it| it.stored.waits[0].answer = Some(json!({ "approved": false })),
        &[
            "invented in s: nobody gave the answer that ended wait 0",
            "contradicted in s: answer 5 was given turn d.1, which does not go on with {\"approved\":true}",
            "contradicted in s: answer 6 was given turn d.1, which does not go on with {\"approved\":true}",
        ],
    ),
    // A wait is ended once, by a turn that is stored.
    (
        |it| {
            it.stored.turns.insert(5, turn(9, "d.2", None, completed(&["assistant:done"])));
            it.stored.messages.insert(9, message(9, "assistant:done"));
            it.stored.events.push(StoredEvent { seq: 9, turn: 9, kind: "turn.completed".into() });
        },
        &["doubled in s: wait 0 was ended by 2 turns: [\"d.1\", \"d.2\"]"],
    ),
    (|it| it.stored.waits[0].ended_by = Some(44), &["lost in s: wait 0 has ended, and no turn has ended it"]),
    (
        |it| it.turn("d.1").sort = AuditedTurnKind::Close,
        &["contradicted in s: wait 0 was answered, and turn d.1 does not resume"],
    ),
    (
        |it| it.stored.waits[0].state = AuditedWaitState::Pending,
        &[
            "contradicted in s: wait 0 is pending, and a turn has ended it",
            "contradicted in s: answer 5 was given turn d.1, which does not go on with {\"approved\":true}",
            "contradicted in s: answer 6 was given turn d.1, which does not go on with {\"approved\":true}",
            "stuck in s: turn d.1 has ended, and a wait is pending for it",
        ],
    ),
    (
        |it| it.forget("d.1"),
        &[
            "lost in s: call 5 was told of turn d.1, which is not stored",
            "lost in s: call 6 was told of turn d.1, which is not stored",
            "lost in s: wait 0 has ended, and no turn has ended it",
            "stuck in s: turn d is suspended, and 0 waits are pending for it",
        ],
    ),
    (
        |it| {
            it.forget("d.1");
            it.log.retain(|it| !matches!(it.what, HistoryEvent::Told { call: 5 | 6, .. }));
            it.note(HistoryEvent::Gone { call: 5 });
            it.note(HistoryEvent::Gone { call: 6 });
        },
        &[
            "lost in s: wait 0 has ended, and no turn has ended it",
            "lost in s: answer 6 was given turn d.1, which is not stored",
            "stuck in s: turn d is suspended, and 0 waits are pending for it",
        ],
    ),
    // Nothing is under way when nothing runs.
    (|it| it.unanswer(0), &["stuck in s: call 0 was never answered"]),
    // The log of events.
    (
        |it| drop(it.stored.events.remove(1)),
        &["lost in s: the log does not tell the end of turn b (turn.completed)"],
    ),
    (
        |it| it.stored.events.push(StoredEvent { seq: 6, turn: 1, kind: "turn.errored".into() }),
        &["doubled in s: the log ends turn b 2 times"],
    ),
    (
        |it| it.stored.events[1].kind = "turn.errored".into(),
        &["contradicted in s: the log ends turn b as turn.errored, and it is turn.completed"],
    ),
    (|it| it.stored.events.swap(0, 1), &["reordered in s: the events are not in the order of their numbers"]),
    (
        |it| it.stored.events.push(StoredEvent { seq: 6, turn: 17, kind: "turn.errored".into() }),
        &["orphaned in s: the log ends turn number 17, which is not stored"],
    ),
    (
        |it| it.note(HistoryEvent::Event { seq: 2, turn: "b".into(), kind: "turn.completed".into() }),
        &["contradicted in s: event 2 was turn.completed of b, and is another"],
    ),
    (
        |it| it.note(HistoryEvent::Event { seq: 20, turn: "b".into(), kind: "message.appended".into() }),
        &["lost in s: event 20 (message.appended of b) was seen and is not stored"],
    ),
    // Effects and rows.
    (
        |it| it.note(HistoryEvent::Effect { key: "x".into() }),
        &["repeated in s: effect 'x' happened 3 times, with 1 deaths between"],
    ),
    (
        |it| it.log.retain(|it| it.what != HistoryEvent::Died),
        &["repeated in s: effect 'x' happened 2 times, with 0 deaths between"],
    ),
    (
        |it| {
            let again = it.turn("e").clone();
            it.stored.turns.push(again);
        },
        &[
            "doubled in s: turn e (number 5) is stored twice",
            "lost in s: the log does not tell the end of turn e (turn.errored)",
        ],
    ),
];

#[test]
fn each_damage_is_found_and_explained() {
    let mut rules = Vec::new();
    let mut wrong = Vec::new();
    for (at, (damage, expected)) in DAMAGES.iter().enumerate() {
        let mut case = good();
        damage(&mut case);
        let report = case.audit();
        let found: Vec<String> = report.violations.iter().map(ToString::to_string).collect();
        if found != *expected {
            wrong.push(format!("damage {at}:\n  {}", found.join("\n  ")));
        }
        rules.extend(report.violations.into_iter().map(|it| it.rule));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let missed: Vec<AuditRule> = AuditRule::ALL.into_iter().filter(|it| !rules.contains(it)).collect();
    assert_eq!(missed, [], "each rule is broken by some damage");
}

/// Histories that look odd and are correct.
const EXCUSES: &[Damage] = &[
    // A call whose answer was lost may have been accepted, or not.
    |it| {
        it.unanswer(0);
        it.note(HistoryEvent::Gone { call: 0 });
    },
    |it| {
        it.call(10, send("m9", None));
        it.note(HistoryEvent::Gone { call: 10 });
    },
    // A key that is free again has another turn (D3).
    |it| {
        let end = AuditedOutcome::Errored {
            category: "provider_unavailable".into(),
            retry_safe: true,
            recorded: true,
        };
        it.stored.turns.push(turn(6, "f", Some("m3"), end));
        it.stored.events.push(StoredEvent { seq: 6, turn: 6, kind: "turn.errored".into() });
        it.call(10, send("m3", Some("k")));
        it.told(10, "f");
    },
    // A deleted session is not there (D25).
    |it| {
        it.call(10, ClientOperation::Delete);
        it.note(HistoryEvent::Done { call: 10 });
        it.stored = StoredSession::default();
    },
    // A turn that is parked behind a wait has no outcome, and who sent it none yet (D1).
    |it| {
        for (gone, call) in [("e", 7), ("d.1", 5), ("d.1", 6)] {
            if it.stored.turns.iter().any(|it| it.id == gone) {
                it.forget(gone);
            }
            it.log.retain(|it| match &it.what {
                HistoryEvent::Call { call: of, .. }
                | HistoryEvent::Given { call: of, .. }
                | HistoryEvent::Told { call: of, .. } => *of != call && *of != 8,
                _ => true,
            });
        }
        it.stored.waits[0].state = AuditedWaitState::Pending;
        (it.stored.waits[0].ended_by, it.stored.waits[0].answer) = (None, None);
        it.stored.turns.push(StoredTurn { end: None, ..turn(6, "f", Some("m9"), completed(&[])) });
        it.call(10, send("m9", None));
        it.given(10, "f");
    },
    // The client was told that this outcome could not be recorded (D20).
    |it| {
        let told = it.record(|it| matches!(it, HistoryEvent::Told { call: 0, .. }));
        let end = AuditedOutcome::Errored {
            category: "session_save_failed".into(),
            retry_safe: false,
            recorded: false,
        };
        told.what = HistoryEvent::Told { call: 0, turn: Some("b".into()), end };
    },
    // The oldest events were given up by retention.
    |it| drop(it.stored.events.drain(..4)),
    // The beginning came with an import or a fork.
    |it| {
        it.stored.messages.insert(0, StoredMessage { turn: None, ..message(0, "assistant:hi") });
        it.stored.inherited = 1;
    },
];

#[test]
fn what_looks_odd_and_is_right_passes() {
    for (at, excuse) in EXCUSES.iter().enumerate() {
        let mut case = good();
        excuse(&mut case);
        let report = case.audit();
        assert!(report.is_clean(), "excuse {at}: {report}");
    }
}
