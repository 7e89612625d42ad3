//! Whole records over a journal: behavior beyond the contract of session stores.

use std::sync::Arc;

use singletree_durable::{
    Counters, Error, ExpectedVersion, FieldValue, ItemRange, Journal, JournalSessions, JsonDocument,
    MemoryStore, RecordVersion, RowMutation, SessionHead, SessionRecord, SessionStore, StoredTurnStatus,
    StoredWaitStatus,
};

use crate::meddler::Meddler;
use crate::rows::{at, batch, head, item, key, turn, wait};

fn record(fields: &[(&str, &str)]) -> SessionRecord {
    let field = |(name, value): &(&str, &str)| ((*name).to_owned(), JsonDocument::from_text(*value));
    SessionRecord {
        schema_version: "v1".to_owned(),
        state: fields.iter().map(field).collect(),
        updated_at: at(10),
    }
}

// INV-4: elements are rows, and a rewritten list is another generation.
#[tokio::test]
async fn an_array_becomes_rows_of_a_generation_of_its_own() {
    let store = MemoryStore::new();
    let sessions = store.session_store();
    let first = record(&[("list", r#"[{"b": 1, "a":2}, 3]"#), ("n", "1.50")]);
    let version = sessions.save(&key(), &first, ExpectedVersion::Absent).await.unwrap();
    let row = store.read_session(&key()).await.unwrap().unwrap();
    let FieldValue::List { generation, len: 2, .. } = row.fields[0].value else { panic!("{row:?}") };
    let list = |generation| ItemRange::List { field: "list".to_owned(), generation, from: 0, limit: 9 };
    let items = store.read_items(&key(), &list(generation)).await.unwrap();
    // Texts stay as they are.
    assert_eq!(items.iter().map(|it| it.body.as_str()).collect::<Vec<_>>(), [r#"{"b": 1, "a":2}"#, "3"]);
    assert_eq!(row.counters, Counters { turns: 1, items: 2, ..Counters::default() });
    let loaded = sessions.load(&key()).await.unwrap().unwrap().0;
    assert_eq!(loaded.state["list"].as_str(), r#"[{"b": 1, "a":2},3]"#);
    assert_eq!(loaded.state["n"].as_str(), "1.50");

    // Dropped, then there again: never the rows of before.
    let version = sessions.save(&key(), &record(&[]), ExpectedVersion::Exactly(version)).await.unwrap();
    let again = record(&[("list", "[4]")]);
    sessions.save(&key(), &again, ExpectedVersion::Exactly(version)).await.unwrap();
    let row = store.read_session(&key()).await.unwrap().unwrap();
    let FieldValue::List { generation: later, len: 1, .. } = row.fields[0].value else { panic!("{row:?}") };
    assert!(later > generation);
    assert_eq!(store.read_items(&key(), &list(generation)).await.unwrap(), items);
    assert_eq!(sessions.load(&key()).await.unwrap().unwrap().0.state, again.state);
}

#[tokio::test]
async fn a_raw_record_belongs_to_no_agent_and_a_chat_keeps_its_own() {
    let store = MemoryStore::new();
    let sessions = store.session_store();
    sessions.save(&key(), &record(&[]), ExpectedVersion::Any).await.unwrap();
    let made = store.read_session(&key()).await.unwrap().unwrap().head;
    let expected = SessionHead {
        agent: String::new(),
        graph: String::new(),
        prompt_policy: "conversation".to_owned(),
        created_at: at(10),
        updated_at: at(10),
        ..head(1)
    };
    assert_eq!(made, expected);

    store.apply(batch(&store, [RowMutation::Head(head(7))])).await.unwrap();
    sessions.save(&key(), &record(&[]), ExpectedVersion::Exactly(RecordVersion(7))).await.unwrap();
    let kept = store.read_session(&key()).await.unwrap().unwrap().head;
    assert_eq!(kept, SessionHead { updated_at: at(10), ..head(8) });
}

// D1
#[tokio::test]
async fn a_save_leaves_turns_and_events_of_a_chat_in_place() {
    let store = MemoryStore::new();
    let sessions = store.session_store();
    let counters = Counters { turns: 1, items: 1, events: 5, waits: 1 };
    let ended = turn(0, StoredTurnStatus::Completed);
    let rows = [
        RowMutation::Head(head(1)),
        RowMutation::Counters(counters),
        RowMutation::Item(item(0)),
        RowMutation::Turn(ended.clone()),
        RowMutation::Wait(wait(0, StoredWaitStatus::Consumed)),
    ];
    store.apply(batch(&store, rows)).await.unwrap();
    sessions.save(&key(), &record(&[("list", "[1,2]")]), ExpectedVersion::Any).await.unwrap();
    let row = store.read_session(&key()).await.unwrap().unwrap();
    assert_eq!(row.counters, Counters { turns: 2, items: 3, ..counters });
    let turns = store.read_turns(&key(), &singletree_durable::TurnRowQuery::No(0)).await.unwrap();
    assert_eq!(turns, [ended]);
    // The items of the save are nobody's.
    assert_eq!(store.read_items(&key(), &ItemRange::Turn(0)).await.unwrap(), [item(0)]);
}

#[tokio::test]
async fn what_a_stale_handle_saves_is_fenced_not_a_conflict() {
    let store = MemoryStore::new();
    let sessions = store.session_store();
    sessions.save(&key(), &record(&[]), ExpectedVersion::Any).await.unwrap();
    drop(store.reopen());
    for expected in [ExpectedVersion::Any, ExpectedVersion::Exactly(RecordVersion(1))] {
        let answer = sessions.save(&key(), &record(&[]), expected).await;
        assert!(matches!(answer, Err(Error::Fenced { .. })), "{answer:?}");
    }
    assert!(matches!(sessions.delete(&key()).await, Err(Error::Fenced { .. })));
}

#[tokio::test]
async fn what_is_not_json_is_not_saved() {
    let sessions = MemoryStore::new().session_store();
    let answer = sessions.save(&key(), &record(&[("list", "[1,")]), ExpectedVersion::Any).await;
    assert!(matches!(answer, Err(Error::Corrupt { .. })), "{answer:?}");
    assert_eq!(sessions.load(&key()).await.unwrap(), None);
}

#[tokio::test]
async fn a_list_without_its_rows_is_corrupt() {
    let store = MemoryStore::new();
    let value = FieldValue::List { generation: 0, len: 2, bytes: 0 };
    let field = singletree_durable::FieldRow { name: "list".to_owned(), value };
    store.apply(batch(&store, [RowMutation::Head(head(1)), RowMutation::Field(field)])).await.unwrap();
    let sessions = JournalSessions::new(Arc::new(store));
    let answer = sessions.load(&key()).await;
    assert!(matches!(answer, Err(Error::Corrupt { .. })), "{answer:?}");
}

// A turn that ends errored adds nothing to the state (D11), so its version stays; its numbers are used all the same.
#[tokio::test]
async fn a_save_takes_no_number_that_a_turn_took_in_between() {
    let store = MemoryStore::new();
    store.apply(batch(&store, [RowMutation::Head(head(1))])).await.unwrap();
    let counters = Counters { turns: 1, events: 2, ..Counters::default() };
    let errored = [RowMutation::Turn(turn(0, StoredTurnStatus::Errored)), RowMutation::Counters(counters)];
    let meddler = Meddler::new(store.clone(), [batch(&store, errored)]);
    let sessions = JournalSessions::new(Arc::new(meddler));
    let saved =
        sessions.save(&key(), &record(&[("list", "[1]")]), ExpectedVersion::Exactly(RecordVersion(1))).await;
    assert_eq!(saved.unwrap(), RecordVersion(2));
    let row = store.read_session(&key()).await.unwrap().unwrap();
    assert_eq!(row.counters, Counters { turns: 2, items: 1, ..counters });
    assert_eq!(store.read_items(&key(), &ItemRange::Turn(0)).await.unwrap(), []);
}

// D1, sessions §8.2
#[tokio::test]
async fn what_others_do_in_between_is_overwritten_or_a_conflict_as_expected() {
    let busy = || RowMutation::Turn(turn(0, StoredTurnStatus::Accepted));
    for (expected, meddle, is_saved) in [
        (ExpectedVersion::Any, RowMutation::Head(head(5)), true),
        (ExpectedVersion::Exactly(RecordVersion(1)), RowMutation::Head(head(5)), false),
        (ExpectedVersion::Any, busy(), false),
        (ExpectedVersion::Exactly(RecordVersion(1)), busy(), false),
    ] {
        let store = MemoryStore::new();
        store.apply(batch(&store, [RowMutation::Head(head(1))])).await.unwrap();
        let meddler = Meddler::new(store.clone(), [batch(&store, [meddle.clone()])]);
        let sessions = JournalSessions::new(Arc::new(meddler));
        let answer = sessions.save(&key(), &record(&[]), expected).await;
        match answer {
            Ok(version) => assert!(is_saved && version == RecordVersion(6), "{expected:?} {meddle:?}"),
            Err(Error::Conflict { .. }) => assert!(!is_saved, "{expected:?} {meddle:?}"),
            Err(other) => panic!("{other}"),
        }
    }
}
