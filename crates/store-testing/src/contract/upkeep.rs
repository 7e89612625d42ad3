//! The calls across tenants.

use singletree_durable::{
    Counters, FencingToken, Result, RowMutation, SessionKey, TenantId, TurnRow, WaitRow,
};

use super::ContractStores;
use super::bench::{StoreFactory, Verdict, ensure_equal};
use super::rows::{
    acquire_fence, apply_mutations, create_session, sample_consumed_wait, sample_ended_turn, sample_turn,
    sample_wait, session_key, session_key_in_tenant, time_at_millis,
};

type Places = Vec<(SessionKey, u64)>;

/// Opens a store and makes sessions of two tenants. Most of their open turns have a lower fence; the others must not
/// be found.
async fn open_with_abandoned_turns(bench: &dyn StoreFactory) -> Result<(ContractStores, Places)> {
    let stores = bench.open().await?;
    // Opened again, so that a lower fence exists.
    let stores = bench.reopen(stores).await?;
    let (a, b, c) = (session_key("a"), session_key("b"), session_key_in_tenant("tenant-b", "a"));
    let fence = acquire_fence(&stores, &b).await?;
    let lower =
        |row: TurnRow| RowMutation::Turn(TurnRow { fence: FencingToken(fence.0.saturating_sub(1)), ..row });
    let owned = |fence| RowMutation::Turn(TurnRow { fence, ..sample_turn(4) });
    create_session(
        &stores,
        &b,
        [lower(sample_turn(3)), lower(sample_turn(1)), lower(sample_ended_turn(2)), owned(fence)],
    )
    .await?;
    create_session(&stores, &c, [lower(sample_turn(1))]).await?;
    let own = owned(acquire_fence(&stores, &a).await?);
    create_session(&stores, &a, [own, lower(sample_turn(5))]).await?;
    Ok((stores, vec![(a, 5), (b.clone(), 1), (b, 3), (c, 1)]))
}

fn row_places<T>(rows: Vec<(SessionKey, T)>, no: impl Fn(&T) -> u64) -> Places {
    rows.into_iter().map(|(key, row)| (key, no(&row))).collect()
}

pub(super) async fn check_ownerless_found(bench: &dyn StoreFactory) -> Verdict {
    let (stores, expected) = open_with_abandoned_turns(bench).await?;
    let found = stores.upkeep.read_ownerless_turns(None, 100).await?;
    ensure_equal("ownerless turns", &row_places(found, |it| it.no), &expected)?;
    create_session(
        &stores,
        &session_key("b"),
        [RowMutation::Turn(sample_ended_turn(1)), RowMutation::Turn(sample_ended_turn(3))],
    )
    .await?;
    let found = stores.upkeep.read_ownerless_turns(None, 100).await?;
    let left = vec![expected[0].clone(), expected[3].clone()];
    ensure_equal("ownerless turns after some ended", &row_places(found, |it| it.no), &left)
}

pub(super) async fn check_ownerless_paged(bench: &dyn StoreFactory) -> Verdict {
    let (stores, expected) = open_with_abandoned_turns(bench).await?;
    let (mut found, mut past) = (Vec::new(), None);
    for _ in 0..5 {
        let page = stores.upkeep.read_ownerless_turns(past.as_ref(), 1).await?;
        let page = row_places(page, |it| it.no);
        ensure_equal("a page is within its limit", &(page.len() <= 1), &true)?;
        past = page.last().cloned().or(past);
        found.extend(page);
    }
    ensure_equal("all pages", &found, &expected)
}

/// Opens a store and makes waits of two tenants. Also returns the three pending ones with a deadline, in order.
async fn open_with_due_waits(bench: &dyn StoreFactory) -> Result<(ContractStores, Places)> {
    let stores = bench.open().await?;
    let by =
        |millis, row: WaitRow| RowMutation::Wait(WaitRow { deadline: Some(time_at_millis(millis)), ..row });
    let (a, b, c) = (session_key("a"), session_key("b"), session_key_in_tenant("tenant-b", "a"));
    create_session(
        &stores,
        &a,
        [by(300, sample_wait(1)), RowMutation::Wait(sample_wait(2)), by(50, sample_consumed_wait(3))],
    )
    .await?;
    create_session(&stores, &b, [by(100, sample_wait(1))]).await?;
    create_session(&stores, &c, [by(200, sample_wait(1))]).await?;
    Ok((stores, vec![(b, 1), (c, 1), (a, 1)]))
}

pub(super) async fn check_deadlines_ordered(bench: &dyn StoreFactory) -> Verdict {
    let (stores, expected) = open_with_due_waits(bench).await?;
    let found = stores.upkeep.read_waits_by_deadline(None, 100).await?;
    ensure_equal("waits with a deadline", &row_places(found, |it| it.no), &expected)
}

pub(super) async fn check_deadlines_until(bench: &dyn StoreFactory) -> Verdict {
    let (stores, expected) = open_with_due_waits(bench).await?;
    for (until, limit, len) in
        [(Some(99), 100, 0), (Some(150), 100, 1), (Some(250), 100, 2), (None, 2, 2), (Some(250), 1, 1)]
    {
        let found = stores.upkeep.read_waits_by_deadline(until.map(time_at_millis), limit).await?;
        // Another promise states the order.
        let (mut found, mut expected) = (row_places(found, |it| it.no), expected[..len].to_vec());
        found.sort();
        expected.sort();
        ensure_equal(&format!("{limit} deadlines until {until:?}"), &found, &expected)?;
    }
    Ok(())
}

pub(super) async fn check_tenants_listed(bench: &dyn StoreFactory) -> Verdict {
    let stores = bench.open().await?;
    for (tenant, session) in [("c", "1"), ("a", "2"), ("a", "1"), ("b", "9"), ("gone", "1")] {
        create_session(
            &stores,
            &session_key_in_tenant(tenant, session),
            [RowMutation::Counters(Counters::default())],
        )
        .await?;
    }
    apply_mutations(&stores, &session_key_in_tenant("gone", "1"), [RowMutation::Delete]).await?;
    let named = |it: Vec<TenantId>| it.iter().map(ToString::to_string).collect::<Vec<_>>();
    let b = session_key_in_tenant("b", "9").tenant;
    for (past, limit, expected) in [
        (None, 100, vec!["a", "b", "c"]),
        (None, 2, vec!["a", "b"]),
        (Some(&b), 100, vec!["c"]),
        (Some(&session_key_in_tenant("a0", "1").tenant), 1, vec!["b"]),
        (Some(&session_key_in_tenant("c", "1").tenant), 100, vec![]),
    ] {
        let found = named(stores.upkeep.read_tenants(past, limit).await?);
        let expected: Vec<String> = expected.into_iter().map(str::to_owned).collect();
        ensure_equal(&format!("{limit} tenants past {past:?}"), &found, &expected)?;
    }
    Ok(())
}
