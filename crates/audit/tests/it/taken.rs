//! Messages that steer: the checker knows where they belong, and finds those that do not stand there.

use singletree_audit::{AuditedOutcome, HistoryEvent, StoredMessage};

use crate::told::{Case, completed, errored, good};

/// All is well; turn b took the message of turn c.
fn steered() -> Case {
    let mut case = good();
    ends(&mut case, "b", &completed(&["user:m3", "assistant:r2"]));
    ends(&mut case, "c", &completed(&["assistant:r2"]));
    let messages = &mut case.stored.messages;
    messages.remove(5);
    let taken = StoredMessage { taken_by: Some(1), ..messages.remove(4) };
    messages.insert(3, taken);
    case
}

/// Lets a turn end so, and everybody be told so.
fn ends(case: &mut Case, id: &str, how: &AuditedOutcome) {
    case.turn(id).end = Some(how.clone());
    for record in &mut case.log {
        if let HistoryEvent::Told { turn: Some(turn), end, .. } = &mut record.what
            && turn == id
        {
            *end = how.clone();
        }
    }
}

fn check(damage: impl FnOnce(&mut Case), expect: &[&str]) {
    let mut case = steered();
    damage(&mut case);
    let report = case.audit();
    let found: Vec<_> = report.violations.iter().map(ToString::to_string).collect();
    assert_eq!(found, expect);
}

// INV-1, INV-2
#[test]
fn a_message_that_was_taken_stands_among_those_of_the_turn_that_took_it() {
    check(|_| {}, &[]);
    // Behind the message that answers it.
    check(
        |it| it.stored.messages.swap(3, 4),
        &[
            r#"contradicted in s: turn b says that it added ["user:m3", "assistant:r2"], and the history has ["assistant:r2", "user:m3"]"#,
            r#"contradicted in s: turn c says that it added ["assistant:r2"], and the history has []"#,
        ],
    );
    // Before the message that it steers.
    check(
        |it| it.stored.messages.swap(2, 3),
        &[
            r#"contradicted in s: turn b says that it added ["user:m3", "assistant:r2"], and the history has ["assistant:r2"]"#,
            "reordered in s: the message of turn b was accepted before that of c, and stands behind it",
        ],
    );
    // Nobody took it.
    check(
        |it| it.stored.messages[3].taken_by = None,
        &[
            r#"contradicted in s: turn b says that it added ["user:m3", "assistant:r2"], and the history has ["assistant:r2"]"#,
            r#"contradicted in s: turn c says that it added ["assistant:r2"], and the history has []"#,
            "reordered in s: message 4 (assistant:r2) stands inside another turn's",
        ],
    );
    // It is not there.
    check(
        |it| drop(it.stored.messages.remove(3)),
        &[
            "lost in s: 'm3' of turn c is not in the history",
            r#"contradicted in s: turn b says that it added ["user:m3", "assistant:r2"], and the history has ["assistant:r2"]"#,
            r#"contradicted in s: turn c says that it added ["assistant:r2"], and the history has []"#,
        ],
    );
}

// INV-2
#[test]
fn a_turn_whose_message_was_taken_ends_as_the_one_that_took_it() {
    check(
        |it| {
            ends(it, "b", &errored("x"));
            it.stored.events[1].kind = "turn.errored".into();
        },
        &["contradicted in s: turn c was taken by turn b, and does not end as that one"],
    );
}
