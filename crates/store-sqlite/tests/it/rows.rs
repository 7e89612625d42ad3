//! Every row is read as it was put, and every put has the effect that its docs describe.

use singletree_durable::{
    AuditRow, Counters, Error, FencingToken, FieldRow, FieldValue, ItemRange, Journal, ListItemRow,
    ParentSession, PositionRow, RecordRow, RowMutation, SessionHead, SessionId, SessionRow, StoredTurnKind,
    StoredTurnStatus, StoredWaitStatus, SubjectId, TurnRow, TurnRowQuery, WaitRow, WaitRowQuery,
};

use crate::made::{
    at, batch, counters, event, head, invocation, item, json, key, place, scratch, store, tenant, turn, wait,
};

#[tokio::test]
async fn a_session_comes_back_with_head_counters_and_fields_in_order_of_name() {
    let (scratch, store) = store().await;
    let full = SessionHead {
        parent: Some(ParentSession { session: SessionId::parse("elsewhere").unwrap(), offset: 7 }),
        subject: SubjectId::parse("ann").ok(),
        updated_at: at(-3),
        ..head(4)
    };
    let list = |len| FieldRow {
        name: "messages".into(),
        value: FieldValue::List { generation: 2, len, bytes: 10 * len },
    };
    let value = |text| FieldRow { name: "approved".into(), value: FieldValue::Value(json(text)) };
    let puts = [
        RowMutation::Head(full.clone()),
        RowMutation::Counters(counters(3)),
        RowMutation::Field(list(1)),
        RowMutation::Field(list(9)),
        RowMutation::Field(FieldRow {
            name: "x".into(),
            value: FieldValue::List { generation: 0, len: 0, bytes: 0 },
        }),
        RowMutation::Field(FieldRow { name: "x".into(), value: FieldValue::Value(json("{\"a\": 1}")) }),
        RowMutation::Field(value("true")),
    ];
    store.apply(batch(&store, "s", puts)).await.unwrap();
    let fields = vec![
        value("true"),
        list(9),
        FieldRow { name: "x".into(), value: FieldValue::Value(json("{\"a\": 1}")) },
    ];
    let row = |head, counters| SessionRow { key: key("s"), head, counters, fields: fields.clone() };
    assert_eq!(store.read_session(&key("s")).await.unwrap(), Some(row(full.clone(), counters(3))));

    // A head leaves the counters, counters leave the head.
    store.apply(batch(&store, "s", [RowMutation::Head(head(5))])).await.unwrap();
    assert_eq!(store.read_session(&key("s")).await.unwrap(), Some(row(head(5), counters(3))));
    let other = Counters { turns: 4, items: 7, events: 13, waits: 4 };
    store.apply(batch(&store, "s", [RowMutation::Counters(other)])).await.unwrap();
    assert_eq!(store.read_session(&key("s")).await.unwrap(), Some(row(head(5), other)));

    store.close().await;
    let again = singletree_store_sqlite::SqliteStore::open(&scratch.path).await.unwrap();
    assert_eq!(again.read_session(&key("s")).await.unwrap(), Some(row(head(5), other)));
    assert_eq!(again.log_epoch(), store.log_epoch());
}

#[tokio::test]
async fn items_come_back_by_list_by_number_and_by_turn() {
    let (_scratch, store) = store().await;
    let placed =
        |no, turn, seq| ListItemRow { turn, placement: Some(place(seq)), ..item(no, "{\"a\":\"\\u0000\"}") };
    let rows = [
        ListItemRow { side: Some(json("{\"at\":1}")), ..item(0, "\"text\"") },
        placed(1, 0, 1),
        placed(2, 1, 2),
        ListItemRow {
            placement: Some(singletree_durable::ItemPlacement { generation: 1, ..place(1) }),
            ..item(3, "1")
        },
    ];
    let puts = std::iter::once(RowMutation::Head(head(1))).chain(rows.iter().cloned().map(RowMutation::Item));
    store.apply(batch(&store, "s", puts)).await.unwrap();
    store.apply(batch(&store, "s", [RowMutation::Place { item: 0, placement: place(0) }])).await.unwrap();

    let first = ListItemRow { placement: Some(place(0)), ..rows[0].clone() };
    let [_, one, two, three] = rows;
    let list = |from, limit| ItemRange::List { field: "messages".into(), generation: 0, from, limit };
    for (range, expected) in [
        (list(0, u64::MAX), vec![&first, &one, &two]),
        (list(1, 1), vec![&one]),
        (list(u64::MAX, 5), vec![]),
        (ItemRange::Numbers { from: 1, to: 3 }, vec![&one, &two]),
        (ItemRange::Numbers { from: 2, to: u64::MAX }, vec![&two, &three]),
        (ItemRange::Turn(0), vec![&first, &one, &three]),
        (ItemRange::Turn(9), vec![]),
    ] {
        let found = store.read_items(&key("s"), &range).await.unwrap();
        assert_eq!(found.iter().collect::<Vec<_>>(), expected, "{range:?}");
    }
}

#[tokio::test]
async fn turns_come_back_by_every_query_and_a_put_replaces_the_row_whole() {
    let (_scratch, store) = store().await;
    let full = TurnRow {
        ordinal: 3,
        kind: StoredTurnKind::Resume,
        fence: FencingToken(8),
        deaths: 2,
        agent: "another".into(),
        graph: "g2".into(),
        wait: Some(1),
        key: Some("k".into()),
        digest: Some("d".into()),
        ended_at: Some(at(9)),
        outcome: Some(json("{}")),
        retries: Some(0),
        ..turn(1, StoredTurnStatus::Errored)
    };
    let close = TurnRow { kind: StoredTurnKind::Close, ..turn(2, StoredTurnStatus::Suspended) };
    let open = turn(0, StoredTurnStatus::Accepted);
    let mut puts = vec![RowMutation::Head(head(1)), RowMutation::Turn(turn(1, StoredTurnStatus::Accepted))];
    puts.extend([&full, &close, &open].map(|it| RowMutation::Turn(it.clone())));
    store.apply(batch(&store, "s", puts)).await.unwrap();
    for (query, expected) in [
        (TurnRowQuery::No(1), vec![&full]),
        (TurnRowQuery::No(3), vec![]),
        (TurnRowQuery::Key("k".into()), vec![&full]),
        (TurnRowQuery::Invocation(close.invocation.clone()), vec![&close]),
        (TurnRowQuery::Open, vec![&open]),
        (TurnRowQuery::From { no: 0, limit: 2 }, vec![&open, &full]),
        (TurnRowQuery::From { no: 1, limit: 9 }, vec![&full, &close]),
    ] {
        let found = store.read_turns(&key("s"), &query).await.unwrap();
        assert_eq!(found.iter().collect::<Vec<_>>(), expected, "{query:?}");
    }
    let session_of = |id: &str| {
        let id = invocation(id);
        let store = store.clone();
        async move { store.find_session_of_invocation(&tenant("default"), &id).await.unwrap() }
    };
    assert_eq!(session_of(full.invocation.as_str()).await, Some(key("s")));
    assert_eq!(session_of("unheard of").await, None);

    // ruling D3
    store.apply(batch(&store, "s", [RowMutation::FreeKey { turn: 1 }])).await.unwrap();
    let freed = TurnRow { key: None, digest: None, ..full };
    assert_eq!(store.read_turns(&key("s"), &TurnRowQuery::No(1)).await.unwrap(), [freed]);
}

#[tokio::test]
async fn waits_come_back_by_every_query() {
    let (_scratch, store) = store().await;
    let full = WaitRow {
        metadata: Some(json("{}")),
        action: Some("sha".into()),
        deadline: Some(at(77)),
        payload_schema: Some(json("true")),
        on_deadline: Some(json("{\"approved\":false}")),
        ended_by: Some(4),
        answer: Some(json("\"yes\"")),
        answered_by: Some("ann".into()),
        ended_at: Some(at(80)),
        ..wait(0, "approval", StoredWaitStatus::Consumed)
    };
    let first = wait(1, "approval", StoredWaitStatus::Pending);
    let second = WaitRow { invocation: invocation("other"), ..wait(2, "input", StoredWaitStatus::Pending) };
    let mut puts =
        vec![RowMutation::Head(head(1)), RowMutation::Wait(wait(0, "old", StoredWaitStatus::Pending))];
    puts.extend([&full, &first, &second].map(|it| RowMutation::Wait(it.clone())));
    store.apply(batch(&store, "s", puts)).await.unwrap();
    let third = wait(0, "approval", StoredWaitStatus::Pending);
    store
        .apply(batch(&store, "r", [RowMutation::Head(head(1)), RowMutation::Wait(third.clone())]))
        .await
        .unwrap();
    let default = || tenant("default");
    for (query, expected) in [
        (WaitRowQuery::Pending(key("s")), vec![("s", &first), ("s", &second)]),
        (WaitRowQuery::PendingOf(default(), 9), vec![("r", &third), ("s", &first), ("s", &second)]),
        (WaitRowQuery::PendingOf(default(), 1), vec![("r", &third)]),
        (WaitRowQuery::Signal(key("s"), "approval".into()), vec![("s", &full), ("s", &first)]),
        (WaitRowQuery::SignalOf(default(), "approval".into(), 9), vec![("r", &third), ("s", &first)]),
        (WaitRowQuery::Invocation(default(), invocation("other")), vec![("s", &second)]),
        (WaitRowQuery::SignalOf(tenant("nobody"), "approval".into(), 9), vec![]),
    ] {
        let found = store.read_waits(&query).await.unwrap();
        let expected: Vec<_> = expected.into_iter().map(|(s, it)| (key(s), it.clone())).collect();
        assert_eq!(found, expected, "{query:?}");
    }
}

#[tokio::test]
async fn positions_records_and_events_come_back_and_go() {
    let (_scratch, store) = store().await;
    let position = |body| PositionRow { invocation: invocation("i"), turn: 2, body: json(body) };
    let record = |name: &str, body| RecordRow { turn: 1, name: name.into(), body: json(body) };
    let puts = [
        RowMutation::Head(head(1)),
        RowMutation::Position(position("1")),
        RowMutation::Position(position("2")),
        RowMutation::Record(record("b", "1")),
        RowMutation::Record(record("a", "1")),
        RowMutation::Record(record("b", "2")),
        RowMutation::Event(event(1, "turn_started")),
        RowMutation::Event(singletree_durable::EventRow {
            item: Some(3),
            body: Some(json("{}")),
            ..event(0, "accepted")
        }),
    ];
    store.apply(batch(&store, "s", puts)).await.unwrap();
    assert_eq!(store.read_position(&key("s"), &invocation("i")).await.unwrap(), Some(position("2")));
    assert_eq!(store.read_turn_records(&key("s"), 1).await.unwrap(), [record("a", "1"), record("b", "2")]);
    assert_eq!(store.read_turn_records(&key("s"), 2).await.unwrap(), []);
    let full = singletree_durable::EventRow { item: Some(3), body: Some(json("{}")), ..event(0, "accepted") };
    assert_eq!(store.read_events(&key("s"), 0, 9).await.unwrap(), [full.clone(), event(1, "turn_started")]);
    assert_eq!(store.read_events(&key("s"), 0, 1).await.unwrap(), [full]);
    assert_eq!(store.read_events(&key("s"), 2, 9).await.unwrap(), []);
    let drops = || [RowMutation::DropPosition(invocation("i")), RowMutation::DropRecords { turn: 1 }];
    for session in ["s", "s", "absent"] {
        store.apply(batch(&store, session, drops())).await.unwrap();
    }
    assert_eq!(store.read_position(&key("s"), &invocation("i")).await.unwrap(), None);
    assert_eq!(store.read_turn_records(&key("s"), 1).await.unwrap(), []);
}

#[tokio::test]
async fn a_deleted_session_is_nowhere_but_in_the_audit() {
    // ruling D25
    let (scratch, store) = store().await;
    let secret = "\"the password is xyzzy\"";
    let mut neighbours = Vec::new();
    for no in 0..200 {
        for session in ["s", "kept"] {
            let mut puts = vec![
                RowMutation::Head(head(no)),
                RowMutation::Item(item(no, if session == "s" { secret } else { "1" })),
            ];
            puts.push(RowMutation::Position(PositionRow {
                invocation: invocation("i"),
                turn: 0,
                body: json(secret),
            }));
            if session == "kept" {
                puts.pop();
                neighbours.push(item(no, "1"));
            }
            store.apply(batch(&store, session, puts)).await.unwrap();
        }
    }
    let row = AuditRow { at: at(1), action: "session_deleted".into(), key: key("s"), by: Some("ann".into()) };
    store.apply(batch(&store, "s", [RowMutation::Delete, RowMutation::Audit(row)])).await.unwrap();
    store.apply(batch(&store, "s", [RowMutation::Delete])).await.unwrap();

    assert_eq!(store.read_session(&key("s")).await.unwrap(), None);
    let all = ItemRange::Numbers { from: 0, to: u64::MAX };
    assert_eq!(store.read_items(&key("s"), &all).await.unwrap(), []);
    assert_eq!(store.read_items(&key("kept"), &all).await.unwrap(), neighbours);
    for name in ["store.db", "store.db-wal"] {
        let bytes = std::fs::read(scratch.dir.path().join(name)).unwrap();
        let found = bytes.windows(5).filter(|it| it == b"xyzzy").count();
        assert_eq!(found, 0, "copies of what was deleted in {name}");
    }
    let file = rusqlite::Connection::open(&scratch.path).unwrap();
    let audit: (i64, String, String, String) = file
        .query_row("SELECT at, action, session, done_by FROM audit", [], |it| {
            Ok((it.get(0)?, it.get(1)?, it.get(2)?, it.get(3)?))
        })
        .unwrap();
    assert_eq!((audit.0, audit.1.as_str()), (1, "session_deleted"));
    // D25: of the names only keyed hashes stay.
    assert_eq!((audit.2.len(), audit.3.len()), (64, 64));
    drop(file);

    // A later head makes it anew, even in the batch that deletes it.
    store.apply(batch(&store, "kept", [RowMutation::Delete, RowMutation::Head(head(1))])).await.unwrap();
    let anew = SessionRow { key: key("kept"), head: head(1), counters: Counters::default(), fields: vec![] };
    assert_eq!(store.read_session(&key("kept")).await.unwrap(), Some(anew));
    assert_eq!(store.read_items(&key("kept"), &all).await.unwrap(), []);
}

#[tokio::test]
async fn sessions_come_in_pages() {
    let (_scratch, store) = store().await;
    for session in ["b", "a", "ä", "c"] {
        store.apply(batch(&store, session, [RowMutation::Head(head(1))])).await.unwrap();
    }
    for (from, limit, expected, next) in [
        (None, 2, vec!["a", "b"], Some("c")),
        (Some("c"), 2, vec!["c", "ä"], None),
        (Some("bb"), 1, vec!["c"], Some("ä")),
        (None, u64::MAX, vec!["a", "b", "c", "ä"], None),
        (Some("z"), 1, vec!["ä"], None),
    ] {
        let from = from.map(|it| SessionId::parse(it).unwrap());
        let page = store.read_session_page(&tenant("default"), from.as_ref(), limit).await.unwrap();
        let found: Vec<_> = page.sessions.iter().map(|it| it.key.session.as_str()).collect();
        assert_eq!((found, page.next.as_ref().map(SessionId::as_str)), (expected, next), "{from:?} {limit}");
    }
}

#[tokio::test]
async fn text_that_is_not_json_and_numbers_too_large_are_refused() {
    let (_scratch, store) = store().await;
    for put in [
        RowMutation::Item(item(0, "not json")),
        RowMutation::Item(item(u64::MAX, "1")),
        RowMutation::Counters(Counters { turns: 1 << 63, ..Counters::default() }),
    ] {
        let refused = store.apply(batch(&store, "s", [RowMutation::Head(head(1)), put.clone()])).await;
        assert!(matches!(refused, Err(Error::Refused { .. })), "{put:?}: {refused:?}");
        assert_eq!(store.read_session(&key("s")).await.unwrap(), None);
    }
    drop(scratch());
}
