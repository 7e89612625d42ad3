//! Reads of one session: complete, ordered, within limits.

use singletree_durable::{
    ItemRange, ListItemRow, Result, RowMutation, SessionHead, SessionKey, StoredTurnStatus, TurnRow,
    TurnRowQuery,
};

use super::ContractStores;
use super::bench::{StoreFactory, Verdict, same};
use super::rows::{
    apply, at, ended, event, field, head, invocation, item, key, key_of, make, place, record, session,
    tenant, turn,
};

pub(super) async fn fields_ordered(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, key("s"));
    make(&stores, &s, ["b", "c", "a"].map(|item| RowMutation::Field(field(item, "1")))).await?;
    let found = session(&stores, &s).await?.map(|session| session.fields);
    same("the fields", &found, &Some(["a", "b", "c"].map(|item| field(item, "1")).to_vec()))
}

pub(super) async fn sessions_paged(bench: &dyn StoreFactory) -> Verdict {
    let stores = bench.open().await?;
    let of = tenant("tenant-a");
    for name in ["d", "b", "e", "a", "c"] {
        apply(&stores, &key(name), [RowMutation::Head(head(1))]).await?;
    }
    for limit in [1, 2, 4, 5, 6] {
        let (mut found, mut from) = (Vec::new(), None);
        for _ in 0..6 {
            let page = stores.journal.sessions(&of, from.as_ref(), limit).await?;
            let is_full = u64::try_from(page.sessions.len()) == Ok(limit);
            let count = found.len() + page.sessions.len();
            same("a page is full or the last", &(is_full || page.next.is_none()), &true)?;
            same("a next page while there are more", &page.next.is_some(), &(count < 5))?;
            found.extend(page.sessions.into_iter().map(|session| session.key));
            from = page.next;
            if from.is_none() {
                break;
            }
        }
        same("all pages", &found, &["a", "b", "c", "d", "e"].map(key).to_vec())?;
    }
    let from = key("c").session;
    let page = stores.journal.sessions(&of, Some(&from), 10).await?;
    let found = page.sessions.into_iter().map(|session| session.key).collect();
    same("a page from an id on", &found, &["c", "d", "e"].map(key).to_vec())
}

fn placed(no: u64, field: &str, generation: u64, seq: u64) -> ListItemRow {
    ListItemRow { placement: Some(place(field, generation, seq)), ..item(no) }
}

async fn numbers(stores: &ContractStores, key: &SessionKey, range: ItemRange) -> Result<Vec<u64>> {
    Ok(stores.journal.items(key, &range).await?.iter().map(|item| item.no).collect())
}

pub(super) async fn items_of_list(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, key("s"));
    let rows =
        [placed(1, "list", 0, 2), placed(2, "list", 0, 0), placed(3, "list", 1, 0), placed(4, "x", 0, 0)];
    make(&stores, &s, rows.map(RowMutation::Item)).await?;
    make(&stores, &key("other"), [RowMutation::Item(placed(9, "list", 0, 4))]).await?;
    let late = RowMutation::Place { item: 5, placement: place("list", 0, 1) };
    apply(&stores, &s, [RowMutation::Item(item(5)), RowMutation::Item(item(6)), late]).await?;
    apply(&stores, &s, [RowMutation::Item(placed(7, "list", 0, 3))]).await?;
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
        let found = numbers(&stores, &s, list(generation, from, limit)).await?;
        same(&format!("{limit} items of generation {generation} from {from}"), &found, &expected)?;
    }
    Ok(())
}

pub(super) async fn items_by_number(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, key("s"));
    let rows = [item(4), placed(1, "list", 0, 0), item(2), placed(7, "list", 0, 1)];
    make(&stores, &s, rows.map(RowMutation::Item)).await?;
    for (from, to, expected) in
        [(0, 100, vec![1, 2, 4, 7]), (2, 4, vec![2]), (2, 7, vec![2, 4]), (4, 4, vec![]), (8, 9, vec![])]
    {
        let found = numbers(&stores, &s, ItemRange::Numbers { from, to }).await?;
        same(&format!("items {from} to {to}"), &found, &expected)?;
    }
    Ok(())
}

pub(super) async fn items_of_turn(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, key("s"));
    let of = |turn, row: ListItemRow| RowMutation::Item(ListItemRow { turn, ..row });
    let rows = [of(2, item(5)), of(1, item(1)), of(2, placed(3, "list", 0, 0)), of(2, item(4))];
    make(&stores, &s, rows).await?;
    for (turn, expected) in [(1, vec![1]), (2, vec![3, 4, 5]), (3, vec![])] {
        let found = numbers(&stores, &s, ItemRange::Turn(turn)).await?;
        same(&format!("items of turn {turn}"), &found, &expected)?;
    }
    Ok(())
}

async fn turns(stores: &ContractStores, key: &SessionKey, query: TurnRowQuery) -> Result<Vec<u64>> {
    Ok(stores.journal.turns(key, &query).await?.iter().map(|turn| turn.no).collect())
}

pub(super) async fn turn_by_number(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, key("s"));
    make(&stores, &s, [RowMutation::Turn(turn(1)), RowMutation::Turn(ended(2)), RowMutation::Turn(turn(3))])
        .await?;
    let found = stores.journal.turns(&s, &TurnRowQuery::No(2)).await?;
    same("the turn", &found, &vec![ended(2)])?;
    same("an absent turn", &turns(&stores, &s, TurnRowQuery::No(4)).await?, &vec![])
}

pub(super) async fn turn_by_key(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, key("s"));
    let keyed = |no, key: &str| {
        let (key, digest) = (Some(key.to_owned()), Some(format!("digest {no}")));
        TurnRow { key, digest, ..ended(no) }
    };
    let rows = [turn(1), keyed(2, "a"), keyed(3, "b")];
    make(&stores, &s, rows.map(RowMutation::Turn)).await?;
    let found = stores.journal.turns(&s, &TurnRowQuery::Key("b".to_owned())).await?;
    same("the turn", &found, &vec![keyed(3, "b")])?;
    same("an unused key", &turns(&stores, &s, TurnRowQuery::Key("c".to_owned())).await?, &vec![])
}

pub(super) async fn turns_of_invocation(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, key("s"));
    let other = TurnRow { invocation: invocation("other"), ..ended(2) };
    let rows = [turn(3), other, ended(1)];
    make(&stores, &s, rows.map(RowMutation::Turn)).await?;
    let of = |name| TurnRowQuery::Invocation(invocation(name));
    same("its turns", &turns(&stores, &s, of("inv")).await?, &vec![1, 3])?;
    same("another's", &turns(&stores, &s, of("other")).await?, &vec![2])?;
    same("nobody's", &turns(&stores, &s, of("none")).await?, &vec![])
}

pub(super) async fn turns_open(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, key("s"));
    let errored = TurnRow { status: StoredTurnStatus::Errored, ..ended(2) };
    let suspended = TurnRow { status: StoredTurnStatus::Suspended, ..ended(4) };
    let rows = [turn(5), ended(1), errored, turn(3), suspended];
    make(&stores, &s, rows.map(RowMutation::Turn)).await?;
    make(&stores, &key("other"), [RowMutation::Turn(turn(9))]).await?;
    same("open turns", &turns(&stores, &s, TurnRowQuery::Open).await?, &vec![3, 5])?;
    apply(&stores, &s, [RowMutation::Turn(ended(3))]).await?;
    same("open turns after one ended", &turns(&stores, &s, TurnRowQuery::Open).await?, &vec![5])
}

pub(super) async fn turns_from(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, key("s"));
    let rows = [turn(5), ended(1), ended(2), turn(3)];
    make(&stores, &s, rows.map(RowMutation::Turn)).await?;
    for (no, limit, expected) in
        [(0, 100, vec![1, 2, 3, 5]), (2, 2, vec![2, 3]), (4, 5, vec![5]), (6, 5, vec![]), (1, 1, vec![1])]
    {
        let found = turns(&stores, &s, TurnRowQuery::From { no, limit }).await?;
        same(&format!("{limit} turns from {no}"), &found, &expected)?;
    }
    Ok(())
}

pub(super) async fn session_of_invocation(bench: &dyn StoreFactory) -> Verdict {
    let stores = bench.open().await?;
    let of = |name| TurnRow { invocation: invocation(name), ..ended(1) };
    make(&stores, &key("a"), [RowMutation::Turn(of("one"))]).await?;
    make(&stores, &key("b"), [RowMutation::Turn(of("two"))]).await?;
    for (name, expected) in [("one", Some(key("a"))), ("two", Some(key("b"))), ("none", None)] {
        let found = stores.journal.session_of(&tenant("tenant-a"), &invocation(name)).await?;
        same(&format!("the session of {name}"), &found, &expected)?;
    }
    Ok(())
}

pub(super) async fn records_ordered(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, key("s"));
    let rows = ["b", "c", "a"].map(|name| RowMutation::Record(record(1, name, "1")));
    make(&stores, &s, rows).await?;
    apply(&stores, &s, [RowMutation::Record(record(2, "0", "1"))]).await?;
    let found = stores.journal.records(&s, 1).await?;
    same("the records", &found, &["a", "b", "c"].map(|name| record(1, name, "1")).to_vec())
}

pub(super) async fn events_from(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, key("s"));
    make(&stores, &s, [3, 1, 2].map(|seq| RowMutation::Event(event(seq)))).await?;
    apply(&stores, &s, [RowMutation::Event(event(4))]).await?;
    for (from, limit, expected) in
        [(0, 100, vec![1, 2, 3, 4]), (2, 2, vec![2, 3]), (4, 5, vec![4]), (5, 5, vec![]), (0, 0, vec![])]
    {
        let found = stores.journal.events(&s, from, limit).await?;
        let expected = expected.into_iter().map(event).collect();
        same(&format!("{limit} events from {from}"), &found, &expected)?;
    }
    Ok(())
}

pub(super) async fn sessions_recent(bench: &dyn StoreFactory) -> Verdict {
    let stores = bench.open().await?;
    for (session, millis) in [("a", 10), ("b", 30), ("c", 20), ("d", 20), ("e", 5)] {
        apply(&stores, &key(session), [RowMutation::Head(SessionHead { updated_at: at(millis), ..head(1) })])
            .await?;
    }
    apply(&stores, &key("e"), [RowMutation::Head(SessionHead { updated_at: at(15), ..head(2) })]).await?;
    make(&stores, &key_of("tenant-b", "z"), []).await?;
    let (c, b) = ((at(20), key("c").session), (at(30), key("b").session));
    for (past, limit, expected) in [
        (None, 9, vec!["b", "d", "c", "e", "a"]),
        (None, 2, vec!["b", "d"]),
        (Some(&b), 1, vec!["d"]),
        (Some(&c), 9, vec!["e", "a"]),
        (Some(&(at(0), key("x").session)), 9, vec![]),
    ] {
        let found = stores.journal.recent(&tenant("tenant-a"), past, limit).await?;
        let found: Vec<_> = found.iter().map(|item| item.key.session.as_str()).collect();
        same(&format!("{limit} sessions past {past:?}"), &found, &expected)?;
    }
    Ok(())
}
