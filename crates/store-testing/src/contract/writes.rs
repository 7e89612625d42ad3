//! Puts, one by one.

use singletree_durable::{
    AuditRow, BatchPrecondition, Counters, EarlySignalRow, FieldRow, FieldValue, ListItemRow, ParentSession,
    PositionRow, Result, RowMutation, SessionHead, SessionId, SessionKey, StoredTurnKind, SubjectId, TurnRow,
    TurnRowQuery, WaitRow, WaitRowQuery,
};

use super::ContractStores;
use super::bench::{StoreFactory, Verdict, ensure_equal, ensure_refused};
use super::rows::{
    apply_mutations, apply_mutations_if, create_session, invocation_named, item_placement, json_document,
    make_counters, read_all_events, read_all_items, read_session, read_turn_by_number, sample_consumed_wait,
    sample_early_signal, sample_ended_turn, sample_event, sample_field, sample_head, sample_item,
    sample_position, sample_record, sample_turn, sample_wait, session_key, time_at_millis,
};

pub(super) async fn check_puts_in_order(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, session_key("s"));
    let (one, two) = (sample_position("one", "1"), sample_position("two", "2"));
    let one_dropped = [RowMutation::Position(one), RowMutation::DropPosition(invocation_named("one"))];
    let two_kept = [RowMutation::DropPosition(invocation_named("two")), RowMutation::Position(two.clone())];
    create_session(&stores, &s, [one_dropped, two_kept].concat()).await?;
    let journal = &stores.journal;
    ensure_equal("put, then dropped", &journal.read_position(&s, &invocation_named("one")).await?, &None)?;
    ensure_equal("dropped, then put", &journal.read_position(&s, &invocation_named("two")).await?, &Some(two))
}

pub(super) async fn check_head_replaced(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, session_key("s"));
    let from = SessionId::parse("parent").expect("a name");
    let first = SessionHead {
        parent: Some(ParentSession { session: from, offset: 3 }),
        subject: SubjectId::parse("ann").ok(),
        ..sample_head(1)
    };
    let second = SessionHead {
        agent: "other".to_owned(),
        graph: "graph-2".to_owned(),
        schema_version: "v2".to_owned(),
        version: 7,
        prompt_policy: "command".to_owned(),
        parent: None,
        subject: None,
        created_at: time_at_millis(5),
        updated_at: time_at_millis(6),
    };
    apply_mutations(
        &stores,
        &s,
        [RowMutation::Head(first.clone()), RowMutation::Counters(make_counters(1, 2, 3, 4))],
    )
    .await?;
    ensure_equal(
        "the first head",
        &read_head_and_counters(&stores, &s).await?,
        &Some((first, make_counters(1, 2, 3, 4))),
    )?;
    apply_mutations(&stores, &s, [RowMutation::Head(second.clone())]).await?;
    ensure_equal(
        "the second head",
        &read_head_and_counters(&stores, &s).await?,
        &Some((second, make_counters(1, 2, 3, 4))),
    )
}

async fn read_head_and_counters(
    stores: &ContractStores,
    key: &SessionKey,
) -> Result<Option<(SessionHead, Counters)>> {
    Ok(read_session(stores, key).await?.map(|session| (session.head, session.counters)))
}

pub(super) async fn check_field_replaced(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, session_key("s"));
    let list = FieldRow { name: "f".to_owned(), value: FieldValue::List { generation: 2, len: 0, bytes: 9 } };
    create_session(&stores, &s, []).await?;
    for row in [sample_field("f", r#""first""#), list, sample_field("f", "null")] {
        apply_mutations(&stores, &s, [RowMutation::Field(row.clone())]).await?;
        let found = read_session(&stores, &s).await?.map(|session| session.fields);
        ensure_equal("the fields", &found, &Some(vec![row]))?;
    }
    Ok(())
}

pub(super) async fn check_field_dropped(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, session_key("s"));
    create_session(
        &stores,
        &s,
        [RowMutation::Field(sample_field("kept", "1")), RowMutation::Field(sample_field("gone", "2"))],
    )
    .await?;
    apply_mutations(
        &stores,
        &s,
        [RowMutation::DropField("gone".to_owned()), RowMutation::DropField("none".to_owned())],
    )
    .await?;
    let found = read_session(&stores, &s).await?.map(|session| session.fields);
    ensure_equal("the fields", &found, &Some(vec![sample_field("kept", "1")]))
}

pub(super) async fn check_item_numbers(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, session_key("s"));
    create_session(&stores, &s, [RowMutation::Item(sample_item(1))]).await?;
    let other = ListItemRow { body: json_document("2"), ..sample_item(1) };
    ensure_refused("an item over another", &apply_mutations(&stores, &s, [RowMutation::Item(other)]).await)?;
    let twice = [RowMutation::Item(sample_item(2)), RowMutation::Item(sample_item(2))];
    ensure_refused("one number twice in a batch", &apply_mutations(&stores, &s, twice).await)?;
    ensure_equal("the items", &read_all_items(&stores, &s).await?, &vec![sample_item(1)])
}

pub(super) async fn check_place_keeps_body(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, session_key("s"));
    create_session(&stores, &s, [RowMutation::Item(sample_item(1)), RowMutation::Item(sample_item(2))])
        .await?;
    let placement = item_placement("messages", 3, 7);
    apply_mutations(&stores, &s, [RowMutation::Place { item: 1, placement: placement.clone() }]).await?;
    let placed = ListItemRow { placement: Some(placement), ..sample_item(1) };
    ensure_equal("the items", &read_all_items(&stores, &s).await?, &vec![placed, sample_item(2)])
}

pub(super) async fn check_place_once(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, session_key("s"));
    let placed = ListItemRow { placement: Some(item_placement("messages", 0, 0)), ..sample_item(1) };
    create_session(&stores, &s, [RowMutation::Item(placed.clone())]).await?;
    for no in [1, 2] {
        let put = RowMutation::Place { item: no, placement: item_placement("messages", 0, 1) };
        ensure_refused("a place for an absent or a placed item", &apply_mutations(&stores, &s, [put]).await)?;
    }
    let found = read_all_items(&stores, &s).await?.into_iter().map(|item| item.placement).collect();
    ensure_equal("the places", &found, &vec![placed.placement])
}

pub(super) async fn check_side_replaced(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, session_key("s"));
    let placed = ListItemRow { placement: Some(item_placement("messages", 0, 0)), ..sample_item(1) };
    let bare = ListItemRow { side: None, ..sample_item(2) };
    create_session(&stores, &s, [placed.clone(), bare.clone(), sample_item(3)].map(RowMutation::Item))
        .await?;
    for text in [r#"{"a":1}"#, r#"{"b":2}"#] {
        apply_mutations(
            &stores,
            &s,
            [1, 2].map(|item| RowMutation::Side { item, side: json_document(text) }),
        )
        .await?;
        let [one, two] =
            [&placed, &bare].map(|item| ListItemRow { side: Some(json_document(text)), ..item.clone() });
        ensure_equal("the items", &read_all_items(&stores, &s).await?, &vec![one, two, sample_item(3)])?;
    }
    Ok(())
}

pub(super) async fn check_side_needs_item(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, session_key("s"));
    create_session(&stores, &s, [RowMutation::Item(sample_item(1))]).await?;
    let put = RowMutation::Side { item: 2, side: json_document("{}") };
    ensure_refused("a side record for an absent item", &apply_mutations(&stores, &s, [put]).await)?;
    ensure_equal("the items", &read_all_items(&stores, &s).await?, &vec![sample_item(1)])
}

pub(super) async fn check_turn_replaced(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, session_key("s"));
    let full = TurnRow {
        ordinal: 2,
        kind: StoredTurnKind::Resume,
        deaths: 1,
        wait: Some(4),
        key: Some("key".to_owned()),
        digest: Some("digest".to_owned()),
        retries: Some(7),
        ..sample_ended_turn(1)
    };
    let bare = TurnRow { message: None, invocation: invocation_named("other"), ..sample_turn(1) };
    create_session(&stores, &s, []).await?;
    for row in [full, bare] {
        apply_mutations(&stores, &s, [RowMutation::Turn(row.clone())]).await?;
        ensure_equal("the turn", &read_turn_by_number(&stores, &s, 1).await?, &vec![row])?;
    }
    let other = stores.journal.read_turns(&s, &TurnRowQuery::Invocation(invocation_named("inv"))).await?;
    ensure_equal("turns of the invocation before", &other, &vec![])
}

pub(super) async fn check_key_freed(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, session_key("s"));
    let keyed =
        TurnRow { key: Some("key".to_owned()), digest: Some("digest".to_owned()), ..sample_ended_turn(1) };
    create_session(&stores, &s, [RowMutation::Turn(keyed.clone())]).await?;
    apply_mutations(&stores, &s, [RowMutation::FreeKey { turn: 1 }]).await?;
    let found = stores.journal.read_turns(&s, &TurnRowQuery::Key("key".to_owned())).await?;
    ensure_equal("turns with the freed key", &found, &vec![])?;
    // The contract does not state whether the digest is removed with the key.
    let mut left = read_turn_by_number(&stores, &s, 1).await?;
    left.iter_mut().for_each(|item| item.digest = None);
    ensure_equal("the turn", &left, &vec![sample_ended_turn(1)])?;
    let again = TurnRow { no: 2, ..keyed };
    Ok(apply_mutations_if(
        &stores,
        &s,
        BatchPrecondition::KeyFree("key".to_owned()),
        [RowMutation::Turn(again)],
    )
    .await?)
}

pub(super) async fn check_wait_replaced(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, session_key("s"));
    let full = WaitRow {
        deadline: Some(time_at_millis(9)),
        on_deadline: Some(json_document("{}")),
        ..sample_consumed_wait(1)
    };
    let bare = WaitRow { metadata: None, action: None, payload_schema: None, ..sample_wait(1) };
    create_session(&stores, &s, []).await?;
    for row in [full, bare] {
        apply_mutations(&stores, &s, [RowMutation::Wait(row.clone())]).await?;
        let found = stores.journal.read_waits(&WaitRowQuery::Signal(s.clone(), row.signal.clone())).await?;
        ensure_equal("the wait", &found, &vec![(s.clone(), row)])?;
    }
    Ok(())
}

pub(super) async fn check_mail_replaced(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, session_key("s"));
    create_session(&stores, &s, []).await?;
    let bare = EarlySignalRow { from: None, at: time_at_millis(9), ..sample_early_signal("a", "2") };
    for row in [sample_early_signal("a", "1"), bare] {
        apply_mutations(&stores, &s, [RowMutation::Mail(row.clone())]).await?;
        ensure_equal("the signal", &stores.journal.read_early_signals(&s).await?, &vec![row])?;
    }
    Ok(())
}

pub(super) async fn check_mail_dropped(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, session_key("s"));
    create_session(&stores, &s, ["a", "b"].map(|item| RowMutation::Mail(sample_early_signal(item, "1"))))
        .await?;
    apply_mutations(&stores, &s, ["a", "none"].map(|item| RowMutation::DropMail(item.to_owned()))).await?;
    ensure_equal(
        "the signals",
        &stores.journal.read_early_signals(&s).await?,
        &vec![sample_early_signal("b", "1")],
    )
}

pub(super) async fn check_position_replaced(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, session_key("s"));
    let second = PositionRow { turn: 2, ..sample_position("inv", r#"{"at":"b"}"#) };
    create_session(&stores, &s, [RowMutation::Position(sample_position("inv", r#"{"at":"a"}"#))]).await?;
    apply_mutations(&stores, &s, [RowMutation::Position(second.clone())]).await?;
    let found = stores.journal.read_position(&s, &invocation_named("inv")).await?;
    ensure_equal("the position", &found, &Some(second))
}

pub(super) async fn check_position_dropped(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, session_key("s"));
    create_session(
        &stores,
        &s,
        [
            RowMutation::Position(sample_position("one", "1")),
            RowMutation::Position(sample_position("two", "2")),
        ],
    )
    .await?;
    let drops = ["one", "none"].map(|item| RowMutation::DropPosition(invocation_named(item)));
    apply_mutations(&stores, &s, drops).await?;
    let journal = &stores.journal;
    ensure_equal("the dropped position", &journal.read_position(&s, &invocation_named("one")).await?, &None)?;
    let other = journal.read_position(&s, &invocation_named("two")).await?;
    ensure_equal("the other position", &other, &Some(sample_position("two", "2")))
}

pub(super) async fn check_record_replaced(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, session_key("s"));
    create_session(&stores, &s, [RowMutation::Record(sample_record(1, "a", "1"))]).await?;
    apply_mutations(&stores, &s, [RowMutation::Record(sample_record(1, "a", "2"))]).await?;
    ensure_equal(
        "the records",
        &stores.journal.read_turn_records(&s, 1).await?,
        &vec![sample_record(1, "a", "2")],
    )
}

pub(super) async fn check_records_dropped(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, session_key("s"));
    let puts = [sample_record(1, "a", "1"), sample_record(1, "b", "2"), sample_record(2, "a", "3")]
        .map(RowMutation::Record);
    create_session(&stores, &s, puts).await?;
    apply_mutations(
        &stores,
        &s,
        [RowMutation::DropRecords { turn: 1 }, RowMutation::DropRecords { turn: 9 }],
    )
    .await?;
    ensure_equal("dropped records", &stores.journal.read_turn_records(&s, 1).await?, &vec![])?;
    ensure_equal(
        "other records",
        &stores.journal.read_turn_records(&s, 2).await?,
        &vec![sample_record(2, "a", "3")],
    )
}

pub(super) async fn check_event_numbers(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, session_key("s"));
    create_session(&stores, &s, [RowMutation::Event(sample_event(1))]).await?;
    let again = apply_mutations(&stores, &s, [RowMutation::Event(sample_event(1))]).await;
    ensure_refused("an event over another", &again)?;
    let twice = [RowMutation::Event(sample_event(2)), RowMutation::Event(sample_event(2))];
    ensure_refused("one number twice in a batch", &apply_mutations(&stores, &s, twice).await)?;
    ensure_equal("the events", &read_all_events(&stores, &s).await?, &vec![sample_event(1)])
}

pub(super) async fn check_delete_removes(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, session_key("s"));
    let keyed = TurnRow { key: Some("key".to_owned()), digest: Some("d".to_owned()), ..sample_turn(1) };
    create_session(
        &stores,
        &s,
        [
            RowMutation::Field(sample_field("f", "1")),
            RowMutation::Turn(keyed),
            RowMutation::Wait(sample_wait(1)),
        ],
    )
    .await?;
    let placed = ListItemRow { placement: Some(item_placement("messages", 0, 0)), ..sample_item(2) };
    apply_mutations(
        &stores,
        &s,
        [RowMutation::Item(sample_item(1)), RowMutation::Item(placed), RowMutation::Event(sample_event(0))],
    )
    .await?;
    apply_mutations(
        &stores,
        &s,
        [RowMutation::Position(sample_position("inv", "1")), RowMutation::Record(sample_record(1, "a", "1"))],
    )
    .await?;
    apply_mutations(&stores, &s, [RowMutation::Mail(sample_early_signal("a", "1"))]).await?;
    apply_mutations(&stores, &s, [RowMutation::Delete]).await?;
    ensure_nothing_left(&stores, &s).await
}

async fn ensure_nothing_left(stores: &ContractStores, s: &SessionKey) -> Verdict {
    let (journal, inv) = (&stores.journal, invocation_named("inv"));
    ensure_equal("the session", &read_session(stores, s).await?, &None)?;
    ensure_equal("the listing", &journal.read_session_page(&s.tenant, None, 10).await?.sessions, &vec![])?;
    ensure_equal("items", &read_all_items(stores, s).await?, &vec![])?;
    for query in [
        TurnRowQuery::No(1),
        TurnRowQuery::Open,
        TurnRowQuery::Key("key".to_owned()),
        TurnRowQuery::Invocation(inv.clone()),
    ] {
        ensure_equal("turns", &journal.read_turns(s, &query).await?, &vec![])?;
    }
    ensure_equal("the invocation", &journal.find_session_of_invocation(&s.tenant, &inv).await?, &None)?;
    for query in [
        WaitRowQuery::PendingOf(s.tenant.clone(), 10),
        WaitRowQuery::Signal(s.clone(), "approval".to_owned()),
        WaitRowQuery::Invocation(s.tenant.clone(), inv.clone()),
    ] {
        ensure_equal("waits", &journal.read_waits(&query).await?, &vec![])?;
    }
    ensure_equal("early signals", &journal.read_early_signals(s).await?, &vec![])?;
    ensure_equal("the position", &journal.read_position(s, &inv).await?, &None)?;
    ensure_equal("records", &journal.read_turn_records(s, 1).await?, &vec![])?;
    ensure_equal("events", &read_all_events(stores, s).await?, &vec![])?;
    ensure_equal("ownerless turns", &stores.upkeep.read_ownerless_turns(None, 10).await?, &vec![])
}

pub(super) async fn check_delete_twice(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, session_key("s"));
    apply_mutations(&stores, &s, [RowMutation::Delete]).await?;
    create_session(&stores, &s, []).await?;
    apply_mutations(&stores, &s, [RowMutation::Delete]).await?;
    Ok(apply_mutations(&stores, &s, [RowMutation::Delete]).await?)
}

pub(super) async fn check_delete_makes_anew(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, session_key("s"));
    create_session(
        &stores,
        &s,
        [RowMutation::Field(sample_field("f", "1")), RowMutation::Item(sample_item(1))],
    )
    .await?;
    apply_mutations(
        &stores,
        &s,
        [RowMutation::Delete, RowMutation::Head(sample_head(1)), RowMutation::Item(sample_item(2))],
    )
    .await?;
    for items_left in [vec![sample_item(2)], vec![]] {
        let found = read_session(&stores, &s).await?.map(|session| session.fields);
        ensure_equal("the fields", &found, &Some(vec![]))?;
        ensure_equal("items", &read_all_items(&stores, &s).await?, &items_left)?;
        apply_mutations(&stores, &s, [RowMutation::Delete]).await?;
        create_session(&stores, &s, []).await?;
    }
    Ok(())
}

pub(super) async fn check_audit_outlives(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, session_key("s"));
    let row = |millis, by: Option<&str>| AuditRow {
        at: time_at_millis(millis),
        action: "session.deleted".to_owned(),
        key: session_key("s"),
        by: by.map(str::to_owned),
    };
    create_session(&stores, &s, [RowMutation::Audit(row(1, None))]).await?;
    apply_mutations(&stores, &s, [RowMutation::Audit(row(2, Some("someone"))), RowMutation::Delete]).await?;
    // A store may keep hashes of the names, so that its audit does not show whose data was deleted.
    let told = |it: AuditRow| (it.at, it.action, it.key.tenant, it.by.is_some());
    let found: Vec<_> = bench.audit().await?.into_iter().map(told).collect();
    ensure_equal("audit rows", &found, &vec![told(row(1, None)), told(row(2, Some("someone")))])
}
