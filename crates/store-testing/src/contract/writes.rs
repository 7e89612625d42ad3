//! Puts, one by one.

use singletree_durable::{
    AuditRow, BatchPrecondition, Counters, EarlySignalRow, FieldRow, FieldValue, ListItemRow, ParentSession,
    PositionRow, Result, RowMutation, SessionHead, SessionId, SessionKey, StoredTurnKind, SubjectId, TurnRow,
    TurnRowQuery, WaitRow, WaitRowQuery,
};

use super::ContractStores;
use super::bench::{StoreFactory, Verdict, refused, same};
use super::rows::{
    apply, apply_if, at, consumed, counters, ended, event, events, field, head, invocation, item, items,
    json, key, mail, make, place, position, record, session, turn, turn_at, wait,
};

pub(super) async fn puts_in_order(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, key("s"));
    let (one, two) = (position("one", "1"), position("two", "2"));
    let one_dropped = [RowMutation::Position(one), RowMutation::DropPosition(invocation("one"))];
    let two_kept = [RowMutation::DropPosition(invocation("two")), RowMutation::Position(two.clone())];
    make(&stores, &s, [one_dropped, two_kept].concat()).await?;
    let journal = &stores.journal;
    same("put, then dropped", &journal.position(&s, &invocation("one")).await?, &None)?;
    same("dropped, then put", &journal.position(&s, &invocation("two")).await?, &Some(two))
}

pub(super) async fn head_replaced(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, key("s"));
    let from = SessionId::parse("parent").expect("a name");
    let first = SessionHead {
        parent: Some(ParentSession { session: from, offset: 3 }),
        subject: SubjectId::parse("ann").ok(),
        ..head(1)
    };
    let second = SessionHead {
        agent: "other".to_owned(),
        graph: "graph-2".to_owned(),
        schema_version: "v2".to_owned(),
        version: 7,
        prompt_policy: "command".to_owned(),
        parent: None,
        subject: None,
        created_at: at(5),
        updated_at: at(6),
    };
    apply(&stores, &s, [RowMutation::Head(first.clone()), RowMutation::Counters(counters(1, 2, 3, 4))])
        .await?;
    same("the first head", &head_of(&stores, &s).await?, &Some((first, counters(1, 2, 3, 4))))?;
    apply(&stores, &s, [RowMutation::Head(second.clone())]).await?;
    same("the second head", &head_of(&stores, &s).await?, &Some((second, counters(1, 2, 3, 4))))
}

async fn head_of(stores: &ContractStores, key: &SessionKey) -> Result<Option<(SessionHead, Counters)>> {
    Ok(session(stores, key).await?.map(|session| (session.head, session.counters)))
}

pub(super) async fn field_replaced(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, key("s"));
    let list = FieldRow { name: "f".to_owned(), value: FieldValue::List { generation: 2, len: 0, bytes: 9 } };
    make(&stores, &s, []).await?;
    for row in [field("f", r#""first""#), list, field("f", "null")] {
        apply(&stores, &s, [RowMutation::Field(row.clone())]).await?;
        let found = session(&stores, &s).await?.map(|session| session.fields);
        same("the fields", &found, &Some(vec![row]))?;
    }
    Ok(())
}

pub(super) async fn field_dropped(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, key("s"));
    make(&stores, &s, [RowMutation::Field(field("kept", "1")), RowMutation::Field(field("gone", "2"))])
        .await?;
    apply(
        &stores,
        &s,
        [RowMutation::DropField("gone".to_owned()), RowMutation::DropField("none".to_owned())],
    )
    .await?;
    let found = session(&stores, &s).await?.map(|session| session.fields);
    same("the fields", &found, &Some(vec![field("kept", "1")]))
}

pub(super) async fn item_numbers(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, key("s"));
    make(&stores, &s, [RowMutation::Item(item(1))]).await?;
    let other = ListItemRow { body: json("2"), ..item(1) };
    refused("an item over another", &apply(&stores, &s, [RowMutation::Item(other)]).await)?;
    let twice = [RowMutation::Item(item(2)), RowMutation::Item(item(2))];
    refused("one number twice in a batch", &apply(&stores, &s, twice).await)?;
    same("the items", &items(&stores, &s).await?, &vec![item(1)])
}

pub(super) async fn place_keeps_body(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, key("s"));
    make(&stores, &s, [RowMutation::Item(item(1)), RowMutation::Item(item(2))]).await?;
    let placement = place("messages", 3, 7);
    apply(&stores, &s, [RowMutation::Place { item: 1, placement: placement.clone() }]).await?;
    let placed = ListItemRow { placement: Some(placement), ..item(1) };
    same("the items", &items(&stores, &s).await?, &vec![placed, item(2)])
}

pub(super) async fn place_once(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, key("s"));
    let placed = ListItemRow { placement: Some(place("messages", 0, 0)), ..item(1) };
    make(&stores, &s, [RowMutation::Item(placed.clone())]).await?;
    for no in [1, 2] {
        let put = RowMutation::Place { item: no, placement: place("messages", 0, 1) };
        refused("a place for an absent or a placed item", &apply(&stores, &s, [put]).await)?;
    }
    let found = items(&stores, &s).await?.into_iter().map(|item| item.placement).collect();
    same("the places", &found, &vec![placed.placement])
}

pub(super) async fn side_replaced(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, key("s"));
    let placed = ListItemRow { placement: Some(place("messages", 0, 0)), ..item(1) };
    let bare = ListItemRow { side: None, ..item(2) };
    make(&stores, &s, [placed.clone(), bare.clone(), item(3)].map(RowMutation::Item)).await?;
    for text in [r#"{"a":1}"#, r#"{"b":2}"#] {
        apply(&stores, &s, [1, 2].map(|item| RowMutation::Side { item, side: json(text) })).await?;
        let [one, two] = [&placed, &bare].map(|item| ListItemRow { side: Some(json(text)), ..item.clone() });
        same("the items", &items(&stores, &s).await?, &vec![one, two, item(3)])?;
    }
    Ok(())
}

pub(super) async fn side_needs_item(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, key("s"));
    make(&stores, &s, [RowMutation::Item(item(1))]).await?;
    let put = RowMutation::Side { item: 2, side: json("{}") };
    refused("a side record for an absent item", &apply(&stores, &s, [put]).await)?;
    same("the items", &items(&stores, &s).await?, &vec![item(1)])
}

pub(super) async fn turn_replaced(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, key("s"));
    let full = TurnRow {
        ordinal: 2,
        kind: StoredTurnKind::Resume,
        deaths: 1,
        wait: Some(4),
        key: Some("key".to_owned()),
        digest: Some("digest".to_owned()),
        retries: Some(7),
        ..ended(1)
    };
    let bare = TurnRow { message: None, invocation: invocation("other"), ..turn(1) };
    make(&stores, &s, []).await?;
    for row in [full, bare] {
        apply(&stores, &s, [RowMutation::Turn(row.clone())]).await?;
        same("the turn", &turn_at(&stores, &s, 1).await?, &vec![row])?;
    }
    let other = stores.journal.turns(&s, &TurnRowQuery::Invocation(invocation("inv"))).await?;
    same("turns of the invocation before", &other, &vec![])
}

pub(super) async fn key_freed(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, key("s"));
    let keyed = TurnRow { key: Some("key".to_owned()), digest: Some("digest".to_owned()), ..ended(1) };
    make(&stores, &s, [RowMutation::Turn(keyed.clone())]).await?;
    apply(&stores, &s, [RowMutation::FreeKey { turn: 1 }]).await?;
    let found = stores.journal.turns(&s, &TurnRowQuery::Key("key".to_owned())).await?;
    same("turns with the freed key", &found, &vec![])?;
    // The contract does not state whether the digest is removed with the key.
    let mut left = turn_at(&stores, &s, 1).await?;
    left.iter_mut().for_each(|item| item.digest = None);
    same("the turn", &left, &vec![ended(1)])?;
    let again = TurnRow { no: 2, ..keyed };
    Ok(apply_if(&stores, &s, BatchPrecondition::KeyFree("key".to_owned()), [RowMutation::Turn(again)])
        .await?)
}

pub(super) async fn wait_replaced(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, key("s"));
    let full = WaitRow { deadline: Some(at(9)), on_deadline: Some(json("{}")), ..consumed(1) };
    let bare = WaitRow { metadata: None, action: None, payload_schema: None, ..wait(1) };
    make(&stores, &s, []).await?;
    for row in [full, bare] {
        apply(&stores, &s, [RowMutation::Wait(row.clone())]).await?;
        let found = stores.journal.waits(&WaitRowQuery::Signal(s.clone(), row.signal.clone())).await?;
        same("the wait", &found, &vec![(s.clone(), row)])?;
    }
    Ok(())
}

pub(super) async fn mail_replaced(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, key("s"));
    make(&stores, &s, []).await?;
    let bare = EarlySignalRow { from: None, at: at(9), ..mail("a", "2") };
    for row in [mail("a", "1"), bare] {
        apply(&stores, &s, [RowMutation::Mail(row.clone())]).await?;
        same("the signal", &stores.journal.mail(&s).await?, &vec![row])?;
    }
    Ok(())
}

pub(super) async fn mail_dropped(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, key("s"));
    make(&stores, &s, ["a", "b"].map(|item| RowMutation::Mail(mail(item, "1")))).await?;
    apply(&stores, &s, ["a", "none"].map(|item| RowMutation::DropMail(item.to_owned()))).await?;
    same("the signals", &stores.journal.mail(&s).await?, &vec![mail("b", "1")])
}

pub(super) async fn position_replaced(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, key("s"));
    let second = PositionRow { turn: 2, ..position("inv", r#"{"at":"b"}"#) };
    make(&stores, &s, [RowMutation::Position(position("inv", r#"{"at":"a"}"#))]).await?;
    apply(&stores, &s, [RowMutation::Position(second.clone())]).await?;
    let found = stores.journal.position(&s, &invocation("inv")).await?;
    same("the position", &found, &Some(second))
}

pub(super) async fn position_dropped(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, key("s"));
    make(
        &stores,
        &s,
        [RowMutation::Position(position("one", "1")), RowMutation::Position(position("two", "2"))],
    )
    .await?;
    let drops = ["one", "none"].map(|item| RowMutation::DropPosition(invocation(item)));
    apply(&stores, &s, drops).await?;
    let journal = &stores.journal;
    same("the dropped position", &journal.position(&s, &invocation("one")).await?, &None)?;
    let other = journal.position(&s, &invocation("two")).await?;
    same("the other position", &other, &Some(position("two", "2")))
}

pub(super) async fn record_replaced(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, key("s"));
    make(&stores, &s, [RowMutation::Record(record(1, "a", "1"))]).await?;
    apply(&stores, &s, [RowMutation::Record(record(1, "a", "2"))]).await?;
    same("the records", &stores.journal.records(&s, 1).await?, &vec![record(1, "a", "2")])
}

pub(super) async fn records_dropped(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, key("s"));
    let puts = [record(1, "a", "1"), record(1, "b", "2"), record(2, "a", "3")].map(RowMutation::Record);
    make(&stores, &s, puts).await?;
    apply(&stores, &s, [RowMutation::DropRecords { turn: 1 }, RowMutation::DropRecords { turn: 9 }]).await?;
    same("dropped records", &stores.journal.records(&s, 1).await?, &vec![])?;
    same("other records", &stores.journal.records(&s, 2).await?, &vec![record(2, "a", "3")])
}

pub(super) async fn event_numbers(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, key("s"));
    make(&stores, &s, [RowMutation::Event(event(1))]).await?;
    let again = apply(&stores, &s, [RowMutation::Event(event(1))]).await;
    refused("an event over another", &again)?;
    let twice = [RowMutation::Event(event(2)), RowMutation::Event(event(2))];
    refused("one number twice in a batch", &apply(&stores, &s, twice).await)?;
    same("the events", &events(&stores, &s).await?, &vec![event(1)])
}

pub(super) async fn delete_removes(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, key("s"));
    let keyed = TurnRow { key: Some("key".to_owned()), digest: Some("d".to_owned()), ..turn(1) };
    make(
        &stores,
        &s,
        [RowMutation::Field(field("f", "1")), RowMutation::Turn(keyed), RowMutation::Wait(wait(1))],
    )
    .await?;
    let placed = ListItemRow { placement: Some(place("messages", 0, 0)), ..item(2) };
    apply(&stores, &s, [RowMutation::Item(item(1)), RowMutation::Item(placed), RowMutation::Event(event(0))])
        .await?;
    apply(
        &stores,
        &s,
        [RowMutation::Position(position("inv", "1")), RowMutation::Record(record(1, "a", "1"))],
    )
    .await?;
    apply(&stores, &s, [RowMutation::Mail(mail("a", "1"))]).await?;
    apply(&stores, &s, [RowMutation::Delete]).await?;
    nothing_left(&stores, &s).await
}

async fn nothing_left(stores: &ContractStores, s: &SessionKey) -> Verdict {
    let (journal, inv) = (&stores.journal, invocation("inv"));
    same("the session", &session(stores, s).await?, &None)?;
    same("the listing", &journal.sessions(&s.tenant, None, 10).await?.sessions, &vec![])?;
    same("items", &items(stores, s).await?, &vec![])?;
    for query in [
        TurnRowQuery::No(1),
        TurnRowQuery::Open,
        TurnRowQuery::Key("key".to_owned()),
        TurnRowQuery::Invocation(inv.clone()),
    ] {
        same("turns", &journal.turns(s, &query).await?, &vec![])?;
    }
    same("the invocation", &journal.session_of(&s.tenant, &inv).await?, &None)?;
    for query in [
        WaitRowQuery::PendingOf(s.tenant.clone(), 10),
        WaitRowQuery::Signal(s.clone(), "approval".to_owned()),
        WaitRowQuery::Invocation(s.tenant.clone(), inv.clone()),
    ] {
        same("waits", &journal.waits(&query).await?, &vec![])?;
    }
    same("early signals", &journal.mail(s).await?, &vec![])?;
    same("the position", &journal.position(s, &inv).await?, &None)?;
    same("records", &journal.records(s, 1).await?, &vec![])?;
    same("events", &events(stores, s).await?, &vec![])?;
    same("ownerless turns", &stores.upkeep.ownerless(None, 10).await?, &vec![])
}

pub(super) async fn delete_idempotent(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, key("s"));
    apply(&stores, &s, [RowMutation::Delete]).await?;
    make(&stores, &s, []).await?;
    apply(&stores, &s, [RowMutation::Delete]).await?;
    Ok(apply(&stores, &s, [RowMutation::Delete]).await?)
}

pub(super) async fn delete_makes_anew(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, key("s"));
    make(&stores, &s, [RowMutation::Field(field("f", "1")), RowMutation::Item(item(1))]).await?;
    apply(&stores, &s, [RowMutation::Delete, RowMutation::Head(head(1)), RowMutation::Item(item(2))]).await?;
    for items_left in [vec![item(2)], vec![]] {
        let found = session(&stores, &s).await?.map(|session| session.fields);
        same("the fields", &found, &Some(vec![]))?;
        same("items", &items(&stores, &s).await?, &items_left)?;
        apply(&stores, &s, [RowMutation::Delete]).await?;
        make(&stores, &s, []).await?;
    }
    Ok(())
}

pub(super) async fn audit_outlives(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, key("s"));
    let row = |millis, by: Option<&str>| AuditRow {
        at: at(millis),
        action: "session.deleted".to_owned(),
        key: key("s"),
        by: by.map(str::to_owned),
    };
    make(&stores, &s, [RowMutation::Audit(row(1, None))]).await?;
    apply(&stores, &s, [RowMutation::Audit(row(2, Some("someone"))), RowMutation::Delete]).await?;
    // A store may keep hashes of the names, so that its audit does not show whose data was deleted.
    let told = |it: AuditRow| (it.at, it.action, it.key.tenant, it.by.is_some());
    let found: Vec<_> = bench.audit().await?.into_iter().map(told).collect();
    same("audit rows", &found, &vec![told(row(1, None)), told(row(2, Some("someone")))])
}
