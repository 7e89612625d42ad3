//! The doctor: each kind of harm is found, explained, and mended or said to be past mending.

use std::sync::Arc;

use serde_json::json;
use singletree_durable::{
    Batch, Counters, EarlySignalRow, FencingToken, FieldRow, FieldValue, ItemRange, Journal,
    JournalMaintenance, JsonDocument, PositionRow, RecordRow, RowMutation, StoredTurnKind, StoredTurnStatus,
    StoredWaitStatus, TurnRow, TurnRowQuery, WaitRow, WaitRowQuery,
};
use singletree_engine::Signal;
use singletree_harness::{Chat, DoctorFinding, Durability, FindingKind, StoreDoctor};
use singletree_test_store::TestStore;

use crate::bench::{Log, agent, approve, asking, at, calling, category, name, plain, user};

pub(crate) const SESSION: &str = "s";

/// Returns the kinds of harm that this database shows, each with the repair that would be made.
async fn found<S: Journal + JournalMaintenance + Clone + 'static>(store: &S) -> Vec<DoctorFinding> {
    let store = Arc::new(store.clone());
    let examined = StoreDoctor::new(store.clone(), store).examine().await.unwrap();
    assert_eq!(examined.busy, []);
    examined.findings
}

/// Asserts that nothing is wrong.
pub(crate) async fn sound<S: Journal + JournalMaintenance + Clone + 'static>(store: &S) {
    assert_eq!(found(store).await, []);
}

pub(crate) fn chat(store: TestStore, graph: &singletree_engine::Graph<crate::bench::Talk>) -> Chat {
    Chat::builder().agent(agent(graph, Durability::Step)).open(store).unwrap()
}

/// A session with two completed turns.
async fn plain_store() -> TestStore {
    let store = TestStore::new();
    let chat = chat(store.clone(), &plain(&Log::default()));
    assert_eq!(category(chat.session(SESSION).send(user("one")).await), "completed");
    assert_eq!(category(chat.session(SESSION).send(user("two")).await), "completed");
    store.reopen()
}

/// A session whose invocation waits, with an open call in its history.
pub(crate) async fn waiting_store() -> TestStore {
    let store = TestStore::new();
    let chat = chat(store.clone(), &calling(&Log::default(), Signal::new("go")));
    assert_eq!(category(chat.session(SESSION).send(user("one")).await), "suspended");
    store.reopen()
}

/// A session that was resumed to its end.
async fn resumed_store() -> TestStore {
    let store = TestStore::new();
    let chat = chat(store.clone(), &asking(&Log::default(), Signal::new("go")));
    assert_eq!(category(chat.session(SESSION).send(user("one")).await), "suspended");
    let turn = chat.answer(at(SESSION, "go"), approve(true)).await.unwrap();
    assert_eq!(category(turn.outcome().await), "completed");
    store.reopen()
}

/// Returns a session as the puts that would make it.
pub(crate) async fn rows(store: &TestStore) -> Vec<RowMutation> {
    let key = name(SESSION);
    let row = store.read_session(&key).await.unwrap().unwrap();
    let mut puts = vec![RowMutation::Head(row.head), RowMutation::Counters(row.counters)];
    puts.extend(row.fields.into_iter().map(RowMutation::Field));
    let items = store.read_items(&key, &ItemRange::Numbers { from: 0, to: u64::MAX }).await.unwrap();
    puts.extend(items.into_iter().map(RowMutation::Item));
    for mut turn in store.read_turns(&key, &TurnRowQuery::From { no: 0, limit: 99 }).await.unwrap() {
        // In another store it was accepted under the first fence.
        turn.fence = FencingToken(1);
        let waits = WaitRowQuery::Invocation(key.tenant.clone(), turn.invocation.clone());
        puts.extend(store.read_waits(&waits).await.unwrap().into_iter().map(|(_, it)| RowMutation::Wait(it)));
        puts.extend(store.read_position(&key, &turn.invocation).await.unwrap().map(RowMutation::Position));
        puts.push(RowMutation::Turn(turn));
    }
    puts.extend(store.read_events(&key, 0, 999).await.unwrap().into_iter().map(RowMutation::Event));
    puts
}

fn change_turn(puts: &mut [RowMutation], no: u64, change: impl Fn(&mut TurnRow)) {
    let turns =
        puts.iter_mut().filter_map(|it| if let RowMutation::Turn(row) = it { Some(row) } else { None });
    turns.filter(|it| it.no == no).for_each(change);
}

fn change_wait(puts: &mut [RowMutation], change: impl Fn(&mut WaitRow)) {
    let waits =
        puts.iter_mut().filter_map(|it| if let RowMutation::Wait(row) = it { Some(row) } else { None });
    waits.for_each(change);
}

fn change_body(puts: &mut [RowMutation], no: u64, body: &serde_json::Value) {
    for put in puts {
        if let RowMutation::Item(row) = put
            && row.no == no
        {
            row.body = JsonDocument::from(body);
        }
    }
}

fn drop_item(puts: &mut Vec<RowMutation>, no: u64) {
    puts.retain(|it| !matches!(it, RowMutation::Item(row) if row.no == no));
}

fn set_len(puts: &mut [RowMutation], len: u64) {
    for put in puts {
        if let RowMutation::Field(FieldRow { name, value: FieldValue::List { len: stored, .. } }) = put
            && name == "messages"
        {
            *stored = len;
        }
    }
}

/// Makes a store of one session. In the one that it comes from, counters would go on from where they were.
pub(crate) async fn store_of_rows(puts: Vec<RowMutation>) -> TestStore {
    let store = TestStore::new();
    let mut batch = Batch::new(name(SESSION), store.acquire(&name(SESSION)).await.unwrap().fence);
    batch.puts.extend(puts);
    store.apply(batch).await.unwrap();
    store
}

/// Harms a session, and expects exactly these findings; a session that can be repaired must be sound then, and serve.
async fn check(store: TestStore, harm: impl FnOnce(&mut Vec<RowMutation>), expected: &[(FindingKind, bool)]) {
    sound(&store).await;
    let mut puts = rows(&store).await;
    harm(&mut puts);
    let store = store_of_rows(puts).await;
    let findings = found(&store).await;
    let seen: Vec<_> = findings.iter().map(|it| (it.symptom, it.describe_repair().is_some())).collect();
    assert_eq!(seen, expected, "{findings:#?}");
    for finding in &findings {
        assert_eq!(finding.session, name(SESSION));
        assert!(finding.what.len() > 10 && finding.symptom.why().len() > 10, "{finding:?}");
    }
    let shared = Arc::new(store.clone());
    let repaired = StoreDoctor::new(shared.clone(), shared).repair().await.unwrap();
    let past: Vec<_> = findings.into_iter().filter(|it| it.describe_repair().is_none()).collect();
    assert_eq!(repaired.left.findings, past);
    assert_eq!(found(&store).await, past);
    if past.is_empty() {
        assert_eq!(repaired.mended.is_empty(), expected.is_empty());
        let chat = chat(store.reopen(), &plain(&Log::default()));
        for turn in chat.sweep().await.unwrap() {
            turn.outcome().await;
        }
        assert_eq!(category(chat.session("other").send(user("hi")).await), "completed");
        if !rows(&store)
            .await
            .iter()
            .any(|it| matches!(it, RowMutation::Wait(it) if it.status == StoredWaitStatus::Pending))
        {
            assert_eq!(category(chat.session(SESSION).send(user("hi")).await), "completed");
        }
        sound(&store).await;
    }
}

// INV-2
#[tokio::test]
async fn a_turn_that_has_no_way_to_its_one_outcome_is_found() {
    use FindingKind as S;
    let open = |turn: &mut TurnRow| {
        (turn.status, turn.outcome, turn.ended_at) = (StoredTurnStatus::Accepted, None, None);
    };
    let undone = |it: &RowMutation| !matches!(it, RowMutation::Event(it) if it.turn == 1 && it.kind == "turn.completed");
    check(
        plain_store().await,
        |it| change_turn(it, 1, |it| it.status = StoredTurnStatus::Accepted),
        &[(S::EndUnmarked, true)],
    )
    .await;
    check(
        plain_store().await,
        |it| change_turn(it, 1, |it| it.outcome = None),
        &[(S::OutcomeMissing, false)],
    )
    .await;
    let odd = JsonDocument::from(&json!({"outcome": "perhaps"}));
    check(
        plain_store().await,
        |it| change_turn(it, 1, |row| row.outcome = Some(odd.clone())),
        &[(S::OutcomeUnreadable, false)],
    )
    .await;
    let contradicted = [(S::OutcomeContradicts, false), (S::EndContradicts, false)];
    check(
        plain_store().await,
        |it| change_turn(it, 1, |it| it.status = StoredTurnStatus::Errored),
        &contradicted,
    )
    .await;
    check(plain_store().await, |it| change_turn(it, 1, open), &[(S::EndContradicts, false)]).await;
    let unclaimed = |it: &mut Vec<RowMutation>| {
        change_turn(it, 1, open);
        change_turn(it, 1, |it| it.fence = FencingToken(1 << 40));
        it.retain(undone);
        // The message of a turn that has not ended has no place yet.
        it.retain(|it| !matches!(it, RowMutation::Item(it) if it.no == 3));
        it.retain(|it| !matches!(it, RowMutation::Event(it) if it.item == Some(3)));
        for put in it.iter_mut() {
            if let RowMutation::Item(row) = put
                && row.no == 2
            {
                row.placement = None;
            }
        }
        set_len(it, 2);
    };
    check(plain_store().await, unclaimed, &[(S::TurnUnclaimable, true)]).await;
    let lost = |it: &mut Vec<RowMutation>| {
        unclaimed(it);
        change_turn(it, 1, |it| it.fence = FencingToken(0));
        drop_item(it, 2);
        it.retain(|it| !matches!(it, RowMutation::Event(it) if it.item == Some(2)));
    };
    check(plain_store().await, lost, &[(S::MessageMissing, true)]).await;
    let gone = |it: &mut Vec<RowMutation>| {
        it.retain(|it| !matches!(it, RowMutation::Turn(it) if it.no == 1));
    };
    check(plain_store().await, gone, &[(S::TurnLost, false)]).await;
    check(plain_store().await, |it| it.retain(undone), &[(S::EndUntold, false)]).await;
}

// INV-2, INV-4
#[tokio::test]
async fn a_history_that_lacks_what_was_said_is_found() {
    let swapped = |it: &mut Vec<RowMutation>| change_turn(it, 1, |it| it.message = Some(0));
    check(plain_store().await, swapped, &[(FindingKind::MessageNotHistory, false)]).await;
    let gone = [
        (FindingKind::ListGap, false),
        (FindingKind::EventItemMissing, false),
        (FindingKind::MessageMissing, false),
    ];
    check(plain_store().await, |it| drop_item(it, 2), &gone).await;
}

// INV-4
#[tokio::test]
async fn a_list_with_a_wrong_length_or_a_gap_and_counters_too_low_are_found() {
    use FindingKind as S;
    check(plain_store().await, |it| set_len(it, 3), &[(S::ListLength, true)]).await;
    check(plain_store().await, |it| set_len(it, 9), &[(S::ListLength, true)]).await;
    let low = |it: &mut Vec<RowMutation>| {
        // Nothing lowers them once they are there.
        it.retain(|it| !matches!(it, RowMutation::Counters(_)));
        it.push(RowMutation::Counters(Counters { turns: 1, items: 2, events: 3, waits: 0 }));
    };
    check(plain_store().await, low, &[(S::CountersLow, true)]).await;
    let gap = [(S::ListGap, false), (S::EventItemMissing, false), (S::RepliesMissing, false)];
    check(plain_store().await, |it| drop_item(it, 3), &gap).await;
    check(plain_store().await, |it| drop_item(it, 1), &gap).await;
    let stray = |it: &mut Vec<RowMutation>| {
        for put in it.iter_mut() {
            if let RowMutation::Item(row) = put
                && row.no == 3
            {
                (row.turn, row.placement) = (7, None);
            }
        }
        set_len(it, 3);
    };
    check(plain_store().await, stray, &[(S::ItemOrphaned, false), (S::RepliesMissing, false)]).await;
}

// INV-6
#[tokio::test]
async fn a_history_that_no_provider_accepts_is_found() {
    use FindingKind as S;
    let call = |id: &str| {
        let call = json!({"id": id, "name": "send", "arguments": {}});
        json!({"role": "assistant", "content": "", "tool_calls": [call]})
    };
    let result = |id: &str| json!({"role": "tool", "content": "done", "tool_call_id": id});
    check(plain_store().await, |it| change_body(it, 1, &call("c")), &[(S::CallOpen, false)]).await;
    check(plain_store().await, |it| change_body(it, 1, &result("c")), &[(S::ResultOrphaned, false)]).await;
    check(
        plain_store().await,
        |it| change_body(it, 1, &json!({"role": "king"})),
        &[(S::MessageInvalid, false)],
    )
    .await;
    let doubled = |it: &mut Vec<RowMutation>| {
        change_body(it, 1, &call("c"));
        change_body(it, 2, &result("c"));
        change_body(it, 3, &result("c"));
        change_turn(it, 1, |it| it.message = Some(0));
    };
    check(plain_store().await, doubled, &[(S::MessageNotHistory, false), (S::ResultDoubled, false)]).await;
    let left = |it: &mut Vec<RowMutation>| {
        change_body(it, 3, &call("c"));
        let errored = json!({"outcome": "errored", "bucket": "retryable_transient", "category": "node_exception",
            "reply": "no", "diagnostic": "it broke", "retry_safe": false});
        change_turn(it, 1, |it| {
            (it.status, it.outcome) = (StoredTurnStatus::Errored, Some(JsonDocument::from(&errored)));
        });
        for put in it.iter_mut() {
            if let RowMutation::Event(row) = put
                && row.turn == 1
                && row.kind == "turn.completed"
            {
                row.kind = "turn.errored".into();
            }
        }
    };
    check(plain_store().await, left, &[(S::CallLeftOpen, true)]).await;
}

// INV-8
#[tokio::test]
async fn an_invocation_that_nothing_can_end_is_found() {
    use FindingKind as S;
    check(
        waiting_store().await,
        |it| it.retain(|it| !matches!(it, RowMutation::Wait(_))),
        &[(S::SuspendedWithoutWait, true)],
    )
    .await;
    let placeless = |it: &mut Vec<RowMutation>| it.retain(|it| !matches!(it, RowMutation::Position(_)));
    check(waiting_store().await, placeless, &[(S::PositionDamaged, true)]).await;
    let scribbled = |it: &mut Vec<RowMutation>| {
        for put in it {
            if let RowMutation::Position(PositionRow { body, .. }) = put {
                *body = JsonDocument::from(&json!({"cursor": 1}));
            }
        }
    };
    check(waiting_store().await, scribbled, &[(S::PositionDamaged, true)]).await;
    let cancelled = |it: &mut WaitRow| it.status = StoredWaitStatus::Cancelled;
    check(waiting_store().await, |it| change_wait(it, cancelled), &[(S::SuspendedWithoutWait, true)]).await;
    let elsewhere = [(S::SuspendedWithoutWait, true), (S::WaitOrphaned, true)];
    check(waiting_store().await, |it| change_wait(it, |it| it.turn = 5), &elsewhere).await;
    let again = |it: &mut Vec<RowMutation>| change_wait(it, |it| it.status = StoredWaitStatus::Pending);
    check(resumed_store().await, again, &[(S::WaitOrphaned, true)]).await;
    let broken = [(S::InvocationBroken, false), (S::OutcomeContradicts, false), (S::EndContradicts, false)];
    let first_completed =
        |it: &mut Vec<RowMutation>| change_turn(it, 0, |it| it.status = StoredTurnStatus::Completed);
    let mut broken = broken.to_vec();
    broken.swap(0, 1);
    check(resumed_store().await, first_completed, &broken).await;
}

fn reopened(it: &mut Vec<RowMutation>, no: u64) {
    change_turn(it, no, |it| (it.status, it.outcome, it.ended_at) = (StoredTurnStatus::Accepted, None, None));
    it.retain(|it| !matches!(it, RowMutation::Event(it) if it.turn == no && it.kind.starts_with("turn.") && it.kind != "turn.accepted"));
}

// INV-8
#[tokio::test]
async fn a_turn_that_resumes_from_nowhere_is_found() {
    use FindingKind as S;
    // The rows that a crash leaves whose last row was lost: the turn is open, its position is gone.
    check(resumed_store().await, |it| reopened(it, 1), &[(S::ResumeUnable, true)]).await;
    let unanswered = |it: &mut Vec<RowMutation>| {
        reopened(it, 1);
        change_wait(it, |it| it.ended_by = None);
    };
    check(resumed_store().await, unanswered, &[(S::ResumeUnable, true)]).await;
    let closing = |it: &mut Vec<RowMutation>| {
        reopened(it, 1);
        change_turn(it, 1, |it| it.kind = StoredTurnKind::Close);
    };
    check(resumed_store().await, closing, &[(S::CloseUnfinished, true)]).await;
}

// INV-8
#[tokio::test]
async fn what_is_left_of_an_invocation_that_has_ended_is_found() {
    use FindingKind as S;
    let invocation = |puts: &[RowMutation]| {
        puts.iter()
            .find_map(|it| if let RowMutation::Turn(row) = it { Some(row.invocation.clone()) } else { None })
            .unwrap()
    };
    let position = |it: &mut Vec<RowMutation>| {
        let (invocation, body) = (invocation(it), JsonDocument::from(&json!({})));
        it.push(RowMutation::Position(PositionRow { invocation, turn: 0, body }));
    };
    check(plain_store().await, position, &[(S::PositionOrphaned, true)]).await;
    let stray = |it: &mut Vec<RowMutation>| {
        let invocation = singletree_durable::InvocationId::parse("of-nothing").unwrap();
        it.push(RowMutation::Position(PositionRow {
            invocation,
            turn: 0,
            body: JsonDocument::from(&json!({})),
        }));
    };
    check(plain_store().await, stray, &[(S::PositionOrphaned, true)]).await;
    check(waiting_store().await, stray, &[(S::PositionOrphaned, true)]).await;
    let record = |it: &mut Vec<RowMutation>| {
        it.push(RowMutation::Record(RecordRow {
            turn: 0,
            name: "call".into(),
            body: JsonDocument::from(&json!(1)),
        }));
    };
    check(plain_store().await, record, &[(S::RecordOrphaned, true)]).await;
}

fn mail(signal: &str, payload: &serde_json::Value) -> RowMutation {
    let at = singletree_durable::Timestamp::from_millis(5);
    RowMutation::Mail(EarlySignalRow {
        signal: signal.to_owned(),
        payload: JsonDocument::from(payload),
        from: None,
        at,
    })
}

// INV-8, D2
#[tokio::test]
async fn an_early_signal_that_nothing_can_take_or_nothing_has_taken_is_found() {
    use FindingKind as S;
    let well = json!({ "approved": true });
    // A session at rest may keep one, and one that waits for something else.
    check(plain_store().await, |it| it.push(mail("later", &well)), &[]).await;
    check(waiting_store().await, |it| it.push(mail("later", &well)), &[]).await;
    check(plain_store().await, |it| it.push(mail("go", &json!(7))), &[(S::MailDamaged, true)]).await;
    check(waiting_store().await, |it| it.push(mail("go", &well)), &[(S::MailUntaken, false)]).await;
    check(resumed_store().await, |it| it.push(mail("go", &well)), &[]).await;
}

// INV-8
#[tokio::test]
async fn two_waits_at_once_are_found_and_neither_is_ended_for_it() {
    let store = waiting_store().await;
    let twin = |puts: &mut Vec<RowMutation>| {
        let renamed = |id: &singletree_durable::InvocationId| {
            singletree_durable::InvocationId::parse(format!("{id}-2")).unwrap()
        };
        let mut twins = Vec::new();
        for put in puts.iter() {
            match put {
                RowMutation::Turn(row) => twins.push(RowMutation::Turn(TurnRow {
                    no: row.no + 1,
                    invocation: renamed(&row.invocation),
                    outcome: row
                        .outcome
                        .as_ref()
                        .map(|it| JsonDocument::from_text(it.as_str().replace("\"wait\":0", "\"wait\":1"))),
                    ..row.clone()
                })),
                RowMutation::Wait(row) => twins.push(RowMutation::Wait(WaitRow {
                    no: row.no + 1,
                    turn: row.turn + 1,
                    invocation: renamed(&row.invocation),
                    ..row.clone()
                })),
                RowMutation::Position(row) => twins.push(RowMutation::Position(PositionRow {
                    invocation: renamed(&row.invocation),
                    turn: row.turn + 1,
                    ..row.clone()
                })),
                _ => {}
            }
        }
        puts.extend(twins);
        let items = 8;
        puts.push(RowMutation::Counters(Counters { turns: 2, items, events: 9, waits: 2 }));
    };
    check(store, twin, &[(FindingKind::WaitsDoubled, false), (FindingKind::AcceptUntold, false)]).await;
}

#[test]
fn every_kind_of_harm_has_a_name_of_its_own() {
    let codes: std::collections::BTreeSet<_> = FindingKind::ALL.iter().map(|it| it.code()).collect();
    assert_eq!(codes.len(), FindingKind::ALL.len());
    assert!(FindingKind::ALL.iter().all(|it| [2, 4, 6, 8].contains(&it.invariant())));
}
