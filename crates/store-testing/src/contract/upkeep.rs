//! The calls across tenants.

use singletree_durable::{
    Counters, FencingToken, Result, RowMutation, SessionKey, TenantId, TurnRow, WaitRow,
};

use super::ContractStores;
use super::bench::{StoreFactory, Verdict, same};
use super::rows::{apply, at, consumed, ended, key, key_of, make, turn, wait};

type Places = Vec<(SessionKey, u64)>;

/// Opens a store and makes sessions of two tenants. Most of their open turns have a lower fence; the others must not
/// be found.
async fn abandoned(bench: &dyn StoreFactory) -> Result<(ContractStores, Places)> {
    let stores = bench.open().await?;
    // Opened again, so that a lower fence exists.
    let stores = bench.reopen(stores).await?;
    let fence = stores.journal.fence();
    let lower =
        |row: TurnRow| RowMutation::Turn(TurnRow { fence: FencingToken(fence.0.saturating_sub(1)), ..row });
    let owned = RowMutation::Turn(TurnRow { fence, ..turn(4) });
    let (a, b, c) = (key("a"), key("b"), key_of("tenant-b", "a"));
    make(&stores, &b, [lower(turn(3)), lower(turn(1)), lower(ended(2)), owned.clone()]).await?;
    make(&stores, &c, [lower(turn(1))]).await?;
    make(&stores, &a, [owned, lower(turn(5))]).await?;
    Ok((stores, vec![(a, 5), (b.clone(), 1), (b, 3), (c, 1)]))
}

fn places<T>(rows: Vec<(SessionKey, T)>, no: impl Fn(&T) -> u64) -> Places {
    rows.into_iter().map(|(key, row)| (key, no(&row))).collect()
}

pub(super) async fn ownerless_found(bench: &dyn StoreFactory) -> Verdict {
    let (stores, expected) = abandoned(bench).await?;
    let found = stores.upkeep.ownerless(None, 100).await?;
    same("ownerless turns", &places(found, |it| it.no), &expected)?;
    make(&stores, &key("b"), [RowMutation::Turn(ended(1)), RowMutation::Turn(ended(3))]).await?;
    let found = stores.upkeep.ownerless(None, 100).await?;
    let left = vec![expected[0].clone(), expected[3].clone()];
    same("ownerless turns after some ended", &places(found, |it| it.no), &left)
}

pub(super) async fn ownerless_paged(bench: &dyn StoreFactory) -> Verdict {
    let (stores, expected) = abandoned(bench).await?;
    let (mut found, mut past) = (Vec::new(), None);
    for _ in 0..5 {
        let page = stores.upkeep.ownerless(past.as_ref(), 1).await?;
        let page = places(page, |it| it.no);
        same("a page is within its limit", &(page.len() <= 1), &true)?;
        past = page.last().cloned().or(past);
        found.extend(page);
    }
    same("all pages", &found, &expected)
}

/// Opens a store and makes waits of two tenants. Also returns the three pending ones with a deadline, in order.
async fn due(bench: &dyn StoreFactory) -> Result<(ContractStores, Places)> {
    let stores = bench.open().await?;
    let by = |millis, row: WaitRow| RowMutation::Wait(WaitRow { deadline: Some(at(millis)), ..row });
    let (a, b, c) = (key("a"), key("b"), key_of("tenant-b", "a"));
    make(&stores, &a, [by(300, wait(1)), RowMutation::Wait(wait(2)), by(50, consumed(3))]).await?;
    make(&stores, &b, [by(100, wait(1))]).await?;
    make(&stores, &c, [by(200, wait(1))]).await?;
    Ok((stores, vec![(b, 1), (c, 1), (a, 1)]))
}

pub(super) async fn deadlines_ordered(bench: &dyn StoreFactory) -> Verdict {
    let (stores, expected) = due(bench).await?;
    let found = stores.upkeep.deadlines(None, 100).await?;
    same("waits with a deadline", &places(found, |it| it.no), &expected)
}

pub(super) async fn deadlines_until(bench: &dyn StoreFactory) -> Verdict {
    let (stores, expected) = due(bench).await?;
    for (until, limit, len) in
        [(Some(99), 100, 0), (Some(150), 100, 1), (Some(250), 100, 2), (None, 2, 2), (Some(250), 1, 1)]
    {
        let found = stores.upkeep.deadlines(until.map(at), limit).await?;
        // Another promise states the order.
        let (mut found, mut expected) = (places(found, |it| it.no), expected[..len].to_vec());
        found.sort();
        expected.sort();
        same(&format!("{limit} deadlines until {until:?}"), &found, &expected)?;
    }
    Ok(())
}

pub(super) async fn tenants_listed(bench: &dyn StoreFactory) -> Verdict {
    let stores = bench.open().await?;
    for (tenant, session) in [("c", "1"), ("a", "2"), ("a", "1"), ("b", "9"), ("gone", "1")] {
        make(&stores, &key_of(tenant, session), [RowMutation::Counters(Counters::default())]).await?;
    }
    apply(&stores, &key_of("gone", "1"), [RowMutation::Delete]).await?;
    let named = |it: Vec<TenantId>| it.iter().map(ToString::to_string).collect::<Vec<_>>();
    let b = key_of("b", "9").tenant;
    for (past, limit, expected) in [
        (None, 100, vec!["a", "b", "c"]),
        (None, 2, vec!["a", "b"]),
        (Some(&b), 100, vec!["c"]),
        (Some(&key_of("a0", "1").tenant), 1, vec!["b"]),
        (Some(&key_of("c", "1").tenant), 100, vec![]),
    ] {
        let found = named(stores.upkeep.tenants(past, limit).await?);
        let expected: Vec<String> = expected.into_iter().map(str::to_owned).collect();
        same(&format!("{limit} tenants past {past:?}"), &found, &expected)?;
    }
    Ok(())
}
