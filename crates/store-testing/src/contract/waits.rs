//! Reads of waits, within a session and across a tenant's.

use singletree_durable::{Result, RowMutation, SessionKey, StoredWaitStatus, WaitRow, WaitRowQuery};

use super::ContractStores;
use super::bench::{StoreFactory, Verdict, ensure_equal};
use super::rows::{
    create_session, invocation_named, sample_consumed_wait, sample_early_signal, sample_position,
    sample_wait, session_key, tenant_named,
};

/// Makes three sessions with waits. By default a wait has the signal `approval` and the invocation `inv`.
async fn open_with_waits(bench: &dyn StoreFactory) -> Result<ContractStores> {
    let stores = bench.open().await?;
    let signal = |row: WaitRow| WaitRow { signal: "timer".to_owned(), ..row };
    let other = |row: WaitRow| WaitRow { invocation: invocation_named("other"), ..row };
    let expired = WaitRow { status: StoredWaitStatus::Expired, ..sample_consumed_wait(4) };
    create_session(
        &stores,
        &session_key("b"),
        [sample_wait(3), sample_consumed_wait(1), signal(sample_wait(2)), expired].map(RowMutation::Wait),
    )
    .await?;
    create_session(
        &stores,
        &session_key("a"),
        [other(sample_wait(1)), other(sample_consumed_wait(2))].map(RowMutation::Wait),
    )
    .await?;
    create_session(&stores, &session_key("c"), [sample_wait(1), sample_wait(2)].map(RowMutation::Wait))
        .await?;
    Ok(stores)
}

async fn find_wait_places(stores: &ContractStores, query: WaitRowQuery) -> Result<Vec<(SessionKey, u64)>> {
    Ok(stores.journal.read_waits(&query).await?.into_iter().map(|(key, it)| (key, it.no)).collect())
}

fn wait_places(places: &[(&str, u64)]) -> Vec<(SessionKey, u64)> {
    places.iter().map(|(session, no)| (session_key(session), *no)).collect()
}

pub(super) async fn check_waits_pending(bench: &dyn StoreFactory) -> Verdict {
    let stores = open_with_waits(bench).await?;
    let all = find_wait_places(&stores, WaitRowQuery::Pending(session_key("b"))).await?;
    ensure_equal("a session's pending waits", &all, &wait_places(&[("b", 2), ("b", 3)]))?;
    let none = find_wait_places(&stores, WaitRowQuery::Pending(session_key("none"))).await?;
    ensure_equal("those of an absent session", &none, &vec![])
}

pub(super) async fn check_waits_pending_of_tenant(bench: &dyn StoreFactory) -> Verdict {
    let stores = open_with_waits(bench).await?;
    let expected = wait_places(&[("a", 1), ("b", 2), ("b", 3), ("c", 1), ("c", 2)]);
    for limit in [2, 3, 5, 100] {
        let some =
            find_wait_places(&stores, WaitRowQuery::PendingOf(tenant_named("tenant-a"), limit)).await?;
        let limit = usize::try_from(limit).unwrap_or(usize::MAX).min(expected.len());
        ensure_equal("a tenant's pending waits", &some, &expected[..limit].to_vec())?;
    }
    Ok(())
}

pub(super) async fn check_waits_of_signal(bench: &dyn StoreFactory) -> Verdict {
    let stores = open_with_waits(bench).await?;
    let of = |name: &str| WaitRowQuery::Signal(session_key("b"), name.to_owned());
    let all = find_wait_places(&stores, of("approval")).await?;
    ensure_equal("waits of a signal", &all, &wait_places(&[("b", 1), ("b", 3), ("b", 4)]))?;
    ensure_equal("of another", &find_wait_places(&stores, of("timer")).await?, &wait_places(&[("b", 2)]))?;
    ensure_equal("of none", &find_wait_places(&stores, of("none")).await?, &vec![])
}

pub(super) async fn check_waits_of_tenant_signal(bench: &dyn StoreFactory) -> Verdict {
    let stores = open_with_waits(bench).await?;
    let expected = wait_places(&[("a", 1), ("b", 3), ("c", 1), ("c", 2)]);
    for limit in [1, 3, 100] {
        let query = WaitRowQuery::SignalOf(tenant_named("tenant-a"), "approval".to_owned(), limit);
        let some = find_wait_places(&stores, query).await?;
        let limit = usize::try_from(limit).unwrap_or(usize::MAX).min(expected.len());
        ensure_equal("a tenant's pending waits of a signal", &some, &expected[..limit].to_vec())?;
    }
    Ok(())
}

pub(super) async fn check_waits_of_invocation(bench: &dyn StoreFactory) -> Verdict {
    let stores = open_with_waits(bench).await?;
    let of = |name| WaitRowQuery::Invocation(tenant_named("tenant-a"), invocation_named(name));
    let all = find_wait_places(&stores, of("other")).await?;
    ensure_equal("waits of an invocation", &all, &wait_places(&[("a", 1), ("a", 2)]))?;
    ensure_equal("of none", &find_wait_places(&stores, of("none")).await?, &vec![])
}

pub(super) async fn check_mail_ordered(bench: &dyn StoreFactory) -> Verdict {
    let stores = bench.open().await?;
    create_session(
        &stores,
        &session_key("a"),
        ["b", "c", "a"].map(|item| RowMutation::Mail(sample_early_signal(item, "1"))),
    )
    .await?;
    create_session(&stores, &session_key("b"), [RowMutation::Mail(sample_early_signal("d", "2"))]).await?;
    let expected = ["a", "b", "c"].map(|item| sample_early_signal(item, "1")).to_vec();
    ensure_equal(
        "a session's early signals",
        &stores.journal.read_early_signals(&session_key("a")).await?,
        &expected,
    )?;
    ensure_equal(
        "those of an absent session",
        &stores.journal.read_early_signals(&session_key("none")).await?,
        &vec![],
    )
}

pub(super) async fn check_positions_ordered(bench: &dyn StoreFactory) -> Verdict {
    let stores = bench.open().await?;
    create_session(
        &stores,
        &session_key("a"),
        ["b", "c", "a"].map(|item| RowMutation::Position(sample_position(item, "1"))),
    )
    .await?;
    create_session(&stores, &session_key("b"), [RowMutation::Position(sample_position("d", "2"))]).await?;
    let expected = ["a", "b", "c"].map(|item| sample_position(item, "1")).to_vec();
    ensure_equal(
        "a session's positions",
        &stores.journal.read_positions(&session_key("a")).await?,
        &expected,
    )?;
    ensure_equal(
        "those of an absent session",
        &stores.journal.read_positions(&session_key("none")).await?,
        &vec![],
    )
}
