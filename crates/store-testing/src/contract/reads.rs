//! Reads of one session: complete, ordered, within limits.

use singletree_durable::{
    ItemRange, ListItemRow, LoggedTurn, LoggedTurnQuery, Result, RowMutation, SessionHead, SessionKey,
    StoredTurnStatus, TurnRow, TurnRowQuery,
};

use super::ContractStores;
use super::bench::{StoreFactory, Verdict, ensure_equal};
use super::rows::{
    apply_mutations, create_session, invocation_named, item_placement, read_session, sample_ended_turn,
    sample_event, sample_field, sample_head, sample_item, sample_record, sample_turn, session_key,
    session_key_in_tenant, tenant_named, time_at_millis,
};

pub(super) async fn check_fields_ordered(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, session_key("s"));
    create_session(&stores, &s, ["b", "c", "a"].map(|item| RowMutation::Field(sample_field(item, "1"))))
        .await?;
    let found = read_session(&stores, &s).await?.map(|session| session.fields);
    ensure_equal("the fields", &found, &Some(["a", "b", "c"].map(|item| sample_field(item, "1")).to_vec()))
}

pub(super) async fn check_sessions_paged(bench: &dyn StoreFactory) -> Verdict {
    let stores = bench.open().await?;
    let of = tenant_named("tenant-a");
    for name in ["d", "b", "e", "a", "c"] {
        apply_mutations(&stores, &session_key(name), [RowMutation::Head(sample_head(1))]).await?;
    }
    for limit in [1, 2, 4, 5, 6] {
        let (mut found, mut from) = (Vec::new(), None);
        for _ in 0..6 {
            let page = stores.journal.read_session_page(&of, from.as_ref(), limit).await?;
            let is_full = u64::try_from(page.sessions.len()) == Ok(limit);
            let count = found.len() + page.sessions.len();
            ensure_equal("a page is full or the last", &(is_full || page.next.is_none()), &true)?;
            ensure_equal("a next page while there are more", &page.next.is_some(), &(count < 5))?;
            found.extend(page.sessions.into_iter().map(|session| session.key));
            from = page.next;
            if from.is_none() {
                break;
            }
        }
        ensure_equal("all pages", &found, &["a", "b", "c", "d", "e"].map(session_key).to_vec())?;
    }
    let from = session_key("c").session;
    let page = stores.journal.read_session_page(&of, Some(&from), 10).await?;
    let found = page.sessions.into_iter().map(|session| session.key).collect();
    ensure_equal("a page from an id on", &found, &["c", "d", "e"].map(session_key).to_vec())
}

fn placed_item(no: u64, field: &str, generation: u64, seq: u64) -> ListItemRow {
    ListItemRow { placement: Some(item_placement(field, generation, seq)), ..sample_item(no) }
}

async fn read_item_numbers(stores: &ContractStores, key: &SessionKey, range: ItemRange) -> Result<Vec<u64>> {
    Ok(stores.journal.read_items(key, &range).await?.iter().map(|item| item.no).collect())
}

pub(super) async fn check_items_of_list(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, session_key("s"));
    let rows = [
        placed_item(1, "list", 0, 2),
        placed_item(2, "list", 0, 0),
        placed_item(3, "list", 1, 0),
        placed_item(4, "x", 0, 0),
    ];
    create_session(&stores, &s, rows.map(RowMutation::Item)).await?;
    create_session(&stores, &session_key("other"), [RowMutation::Item(placed_item(9, "list", 0, 4))]).await?;
    let late = RowMutation::Place { item: 5, placement: item_placement("list", 0, 1) };
    apply_mutations(
        &stores,
        &s,
        [RowMutation::Item(sample_item(5)), RowMutation::Item(sample_item(6)), late],
    )
    .await?;
    apply_mutations(&stores, &s, [RowMutation::Item(placed_item(7, "list", 0, 3))]).await?;
    let list =
        |generation, from, limit| ItemRange::List { field: "list".to_owned(), generation, from, limit };
    for (generation, from, limit, expected) in [
        (0, 0, 100, vec![2, 5, 1, 7]),
        (0, 1, 2, vec![5, 1]),
        (0, 3, 100, vec![7]),
        (0, 4, 100, vec![]),
        (0, 0, 0, vec![]),
        (1, 0, 100, vec![3]),
        (2, 0, 100, vec![]),
    ] {
        let found = read_item_numbers(&stores, &s, list(generation, from, limit)).await?;
        ensure_equal(&format!("{limit} items of generation {generation} from {from}"), &found, &expected)?;
    }
    Ok(())
}

pub(super) async fn check_items_by_number(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, session_key("s"));
    let rows = [sample_item(4), placed_item(1, "list", 0, 0), sample_item(2), placed_item(7, "list", 0, 1)];
    create_session(&stores, &s, rows.map(RowMutation::Item)).await?;
    for (from, to, expected) in
        [(0, 100, vec![1, 2, 4, 7]), (2, 4, vec![2]), (2, 7, vec![2, 4]), (4, 4, vec![]), (8, 9, vec![])]
    {
        let found = read_item_numbers(&stores, &s, ItemRange::Numbers { from, to }).await?;
        ensure_equal(&format!("items {from} to {to}"), &found, &expected)?;
    }
    Ok(())
}

pub(super) async fn check_items_of_turn(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, session_key("s"));
    let of = |turn, row: ListItemRow| RowMutation::Item(ListItemRow { turn, ..row });
    let rows = [
        of(2, sample_item(5)),
        of(1, sample_item(1)),
        of(2, placed_item(3, "list", 0, 0)),
        of(2, sample_item(4)),
    ];
    create_session(&stores, &s, rows).await?;
    for (turn, expected) in [(1, vec![1]), (2, vec![3, 4, 5]), (3, vec![])] {
        let found = read_item_numbers(&stores, &s, ItemRange::Turn(turn)).await?;
        ensure_equal(&format!("items of turn {turn}"), &found, &expected)?;
    }
    Ok(())
}

async fn read_turn_numbers(
    stores: &ContractStores,
    key: &SessionKey,
    query: TurnRowQuery,
) -> Result<Vec<u64>> {
    Ok(stores.journal.read_turns(key, &query).await?.iter().map(|turn| turn.no).collect())
}

pub(super) async fn check_turn_by_number(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, session_key("s"));
    create_session(
        &stores,
        &s,
        [
            RowMutation::Turn(sample_turn(1)),
            RowMutation::Turn(sample_ended_turn(2)),
            RowMutation::Turn(sample_turn(3)),
        ],
    )
    .await?;
    let found = stores.journal.read_turns(&s, &TurnRowQuery::No(2)).await?;
    ensure_equal("the turn", &found, &vec![sample_ended_turn(2)])?;
    ensure_equal("an absent turn", &read_turn_numbers(&stores, &s, TurnRowQuery::No(4)).await?, &vec![])
}

pub(super) async fn check_turn_by_key(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, session_key("s"));
    let keyed = |no, key: &str| {
        let (key, digest) = (Some(key.to_owned()), Some(format!("digest {no}")));
        TurnRow { key, digest, ..sample_ended_turn(no) }
    };
    let rows = [sample_turn(1), keyed(2, "a"), keyed(3, "b")];
    create_session(&stores, &s, rows.map(RowMutation::Turn)).await?;
    let found = stores.journal.read_turns(&s, &TurnRowQuery::Key("b".to_owned())).await?;
    ensure_equal("the turn", &found, &vec![keyed(3, "b")])?;
    ensure_equal(
        "an unused key",
        &read_turn_numbers(&stores, &s, TurnRowQuery::Key("c".to_owned())).await?,
        &vec![],
    )
}

pub(super) async fn check_turns_of_invocation(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, session_key("s"));
    let other = TurnRow { invocation: invocation_named("other"), ..sample_ended_turn(2) };
    let rows = [sample_turn(3), other, sample_ended_turn(1)];
    create_session(&stores, &s, rows.map(RowMutation::Turn)).await?;
    let of = |name| TurnRowQuery::Invocation(invocation_named(name));
    ensure_equal("its turns", &read_turn_numbers(&stores, &s, of("inv")).await?, &vec![1, 3])?;
    ensure_equal("another's", &read_turn_numbers(&stores, &s, of("other")).await?, &vec![2])?;
    ensure_equal("nobody's", &read_turn_numbers(&stores, &s, of("none")).await?, &vec![])
}

pub(super) async fn check_turns_open(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, session_key("s"));
    let errored = TurnRow { status: StoredTurnStatus::Errored, ..sample_ended_turn(2) };
    let suspended = TurnRow { status: StoredTurnStatus::Suspended, ..sample_ended_turn(4) };
    let rows = [sample_turn(5), sample_ended_turn(1), errored, sample_turn(3), suspended];
    create_session(&stores, &s, rows.map(RowMutation::Turn)).await?;
    create_session(&stores, &session_key("other"), [RowMutation::Turn(sample_turn(9))]).await?;
    ensure_equal("open turns", &read_turn_numbers(&stores, &s, TurnRowQuery::Open).await?, &vec![3, 5])?;
    apply_mutations(&stores, &s, [RowMutation::Turn(sample_ended_turn(3))]).await?;
    ensure_equal(
        "open turns after one ended",
        &read_turn_numbers(&stores, &s, TurnRowQuery::Open).await?,
        &vec![5],
    )
}

pub(super) async fn check_turns_from(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, session_key("s"));
    let rows = [sample_turn(5), sample_ended_turn(1), sample_ended_turn(2), sample_turn(3)];
    create_session(&stores, &s, rows.map(RowMutation::Turn)).await?;
    for (no, limit, expected) in
        [(0, 100, vec![1, 2, 3, 5]), (2, 2, vec![2, 3]), (4, 5, vec![5]), (6, 5, vec![]), (1, 1, vec![1])]
    {
        let found = read_turn_numbers(&stores, &s, TurnRowQuery::From { no, limit }).await?;
        ensure_equal(&format!("{limit} turns from {no}"), &found, &expected)?;
    }
    Ok(())
}

pub(super) async fn check_session_of_invocation(bench: &dyn StoreFactory) -> Verdict {
    let stores = bench.open().await?;
    let of = |name| TurnRow { invocation: invocation_named(name), ..sample_ended_turn(1) };
    create_session(&stores, &session_key("a"), [RowMutation::Turn(of("one"))]).await?;
    create_session(&stores, &session_key("b"), [RowMutation::Turn(of("two"))]).await?;
    for (name, expected) in [("one", Some(session_key("a"))), ("two", Some(session_key("b"))), ("none", None)]
    {
        let found = stores
            .journal
            .find_session_of_invocation(&tenant_named("tenant-a"), &invocation_named(name))
            .await?;
        ensure_equal(&format!("the session of {name}"), &found, &expected)?;
    }
    Ok(())
}

pub(super) async fn check_records_ordered(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, session_key("s"));
    let rows = ["b", "c", "a"].map(|name| RowMutation::Record(sample_record(1, name, "1")));
    create_session(&stores, &s, rows).await?;
    apply_mutations(&stores, &s, [RowMutation::Record(sample_record(2, "0", "1"))]).await?;
    let found = stores.journal.read_turn_records(&s, 1).await?;
    ensure_equal("the records", &found, &["a", "b", "c"].map(|name| sample_record(1, name, "1")).to_vec())
}

pub(super) async fn check_events_from(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, session_key("s"));
    create_session(&stores, &s, [3, 1, 2].map(|seq| RowMutation::Event(sample_event(seq)))).await?;
    apply_mutations(&stores, &s, [RowMutation::Event(sample_event(4))]).await?;
    for (from, limit, expected) in
        [(0, 100, vec![1, 2, 3, 4]), (2, 2, vec![2, 3]), (4, 5, vec![4]), (5, 5, vec![]), (0, 0, vec![])]
    {
        let found = stores.journal.read_events(&s, from, limit).await?;
        let expected = expected.into_iter().map(sample_event).collect();
        ensure_equal(&format!("{limit} events from {from}"), &found, &expected)?;
    }
    Ok(())
}

pub(super) async fn check_logged_turns(bench: &dyn StoreFactory) -> Verdict {
    let (stores, keys) =
        (bench.open().await?, [session_key("s"), session_key("t"), session_key_in_tenant("tenant-b", "s")]);
    for (at, key) in (1..).zip(&keys) {
        let rows = (1..=at).map(|no| RowMutation::Turn(sample_turn(no)));
        let events = (0..at + 2).map(|seq| RowMutation::Event(sample_event(seq)));
        create_session(&stores, key, rows.chain(events).collect::<Vec<_>>()).await?;
    }
    let query = |key: &SessionKey, no, from, limit| LoggedTurnQuery { key: key.clone(), no, from, limit };
    let [s, t, other] = &keys;
    let logged = |turn: Option<u64>, events: &[u64]| LoggedTurn {
        turn: turn.map(sample_turn),
        events: events.iter().copied().map(sample_event).collect(),
    };
    let (queries, expected): (Vec<_>, Vec<_>) = [
        (query(t, 2, 1, 2), logged(Some(2), &[1, 2])),
        (query(s, 1, 0, 100), logged(Some(1), &[0, 1, 2])),
        (query(&session_key("none"), 1, 0, 100), logged(None, &[])),
        (query(other, 3, 4, 0), logged(Some(3), &[])),
        (query(t, 9, 1, 100), logged(None, &[1, 2, 3])),
        (query(t, 1, 9, 100), logged(Some(1), &[])),
        (query(t, 2, 1, 2), logged(Some(2), &[1, 2])),
        (query(other, 1, 2, 2), logged(Some(1), &[2, 3])),
    ]
    .into_iter()
    .unzip();
    let found = stores.journal.read_logged_turns(&queries).await?;
    ensure_equal("the turns", &found, &expected)?;
    ensure_equal("none", &stores.journal.read_logged_turns(&[]).await?, &Vec::new())
}

pub(super) async fn check_sessions_recent(bench: &dyn StoreFactory) -> Verdict {
    let stores = bench.open().await?;
    for (session, millis) in [("a", 10), ("b", 30), ("c", 20), ("d", 20), ("e", 5)] {
        apply_mutations(
            &stores,
            &session_key(session),
            [RowMutation::Head(SessionHead { updated_at: time_at_millis(millis), ..sample_head(1) })],
        )
        .await?;
    }
    apply_mutations(
        &stores,
        &session_key("e"),
        [RowMutation::Head(SessionHead { updated_at: time_at_millis(15), ..sample_head(2) })],
    )
    .await?;
    create_session(&stores, &session_key_in_tenant("tenant-b", "z"), []).await?;
    let (c, b) =
        ((time_at_millis(20), session_key("c").session), (time_at_millis(30), session_key("b").session));
    for (past, limit, expected) in [
        (None, 9, vec!["b", "d", "c", "e", "a"]),
        (None, 2, vec!["b", "d"]),
        (Some(&b), 1, vec!["d"]),
        (Some(&c), 9, vec!["e", "a"]),
        (Some(&(time_at_millis(0), session_key("x").session)), 9, vec![]),
    ] {
        let found = stores.journal.read_recent_sessions(&tenant_named("tenant-a"), past, limit).await?;
        let found: Vec<_> = found.iter().map(|item| item.key.session.as_str()).collect();
        ensure_equal(&format!("{limit} sessions past {past:?}"), &found, &expected)?;
    }
    Ok(())
}
