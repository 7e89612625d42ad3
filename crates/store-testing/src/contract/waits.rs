//! Reads of waits, within a session and across a tenant's.

use singletree_durable::{Result, RowMutation, SessionKey, StoredWaitStatus, WaitRow, WaitRowQuery};

use super::ContractStores;
use super::bench::{StoreFactory, Verdict, same};
use super::rows::{consumed, invocation, key, mail, make, position, tenant, wait};

/// Makes three sessions with waits. By default a wait has the signal `approval` and the invocation `inv`.
async fn waiting(bench: &dyn StoreFactory) -> Result<ContractStores> {
    let stores = bench.open().await?;
    let signal = |row: WaitRow| WaitRow { signal: "timer".to_owned(), ..row };
    let other = |row: WaitRow| WaitRow { invocation: invocation("other"), ..row };
    let expired = WaitRow { status: StoredWaitStatus::Expired, ..consumed(4) };
    make(&stores, &key("b"), [wait(3), consumed(1), signal(wait(2)), expired].map(RowMutation::Wait)).await?;
    make(&stores, &key("a"), [other(wait(1)), other(consumed(2))].map(RowMutation::Wait)).await?;
    make(&stores, &key("c"), [wait(1), wait(2)].map(RowMutation::Wait)).await?;
    Ok(stores)
}

async fn found(stores: &ContractStores, query: WaitRowQuery) -> Result<Vec<(SessionKey, u64)>> {
    Ok(stores.journal.waits(&query).await?.into_iter().map(|(key, it)| (key, it.no)).collect())
}

fn places(places: &[(&str, u64)]) -> Vec<(SessionKey, u64)> {
    places.iter().map(|(session, no)| (key(session), *no)).collect()
}

pub(super) async fn pending(bench: &dyn StoreFactory) -> Verdict {
    let stores = waiting(bench).await?;
    let all = found(&stores, WaitRowQuery::Pending(key("b"))).await?;
    same("a session's pending waits", &all, &places(&[("b", 2), ("b", 3)]))?;
    let none = found(&stores, WaitRowQuery::Pending(key("none"))).await?;
    same("those of an absent session", &none, &vec![])
}

pub(super) async fn pending_of(bench: &dyn StoreFactory) -> Verdict {
    let stores = waiting(bench).await?;
    let expected = places(&[("a", 1), ("b", 2), ("b", 3), ("c", 1), ("c", 2)]);
    for limit in [2, 3, 5, 100] {
        let some = found(&stores, WaitRowQuery::PendingOf(tenant("tenant-a"), limit)).await?;
        let limit = usize::try_from(limit).unwrap_or(usize::MAX).min(expected.len());
        same("a tenant's pending waits", &some, &expected[..limit].to_vec())?;
    }
    Ok(())
}

pub(super) async fn signal(bench: &dyn StoreFactory) -> Verdict {
    let stores = waiting(bench).await?;
    let of = |name: &str| WaitRowQuery::Signal(key("b"), name.to_owned());
    let all = found(&stores, of("approval")).await?;
    same("waits of a signal", &all, &places(&[("b", 1), ("b", 3), ("b", 4)]))?;
    same("of another", &found(&stores, of("timer")).await?, &places(&[("b", 2)]))?;
    same("of none", &found(&stores, of("none")).await?, &vec![])
}

pub(super) async fn signal_of(bench: &dyn StoreFactory) -> Verdict {
    let stores = waiting(bench).await?;
    let expected = places(&[("a", 1), ("b", 3), ("c", 1), ("c", 2)]);
    for limit in [1, 3, 100] {
        let query = WaitRowQuery::SignalOf(tenant("tenant-a"), "approval".to_owned(), limit);
        let some = found(&stores, query).await?;
        let limit = usize::try_from(limit).unwrap_or(usize::MAX).min(expected.len());
        same("a tenant's pending waits of a signal", &some, &expected[..limit].to_vec())?;
    }
    Ok(())
}

pub(super) async fn of_invocation(bench: &dyn StoreFactory) -> Verdict {
    let stores = waiting(bench).await?;
    let of = |name| WaitRowQuery::Invocation(tenant("tenant-a"), invocation(name));
    let all = found(&stores, of("other")).await?;
    same("waits of an invocation", &all, &places(&[("a", 1), ("a", 2)]))?;
    same("of none", &found(&stores, of("none")).await?, &vec![])
}

pub(super) async fn mail_ordered(bench: &dyn StoreFactory) -> Verdict {
    let stores = bench.open().await?;
    make(&stores, &key("a"), ["b", "c", "a"].map(|item| RowMutation::Mail(mail(item, "1")))).await?;
    make(&stores, &key("b"), [RowMutation::Mail(mail("d", "2"))]).await?;
    let expected = ["a", "b", "c"].map(|item| mail(item, "1")).to_vec();
    same("a session's early signals", &stores.journal.mail(&key("a")).await?, &expected)?;
    same("those of an absent session", &stores.journal.mail(&key("none")).await?, &vec![])
}

pub(super) async fn positions_ordered(bench: &dyn StoreFactory) -> Verdict {
    let stores = bench.open().await?;
    make(&stores, &key("a"), ["b", "c", "a"].map(|item| RowMutation::Position(position(item, "1")))).await?;
    make(&stores, &key("b"), [RowMutation::Position(position("d", "2"))]).await?;
    let expected = ["a", "b", "c"].map(|item| position(item, "1")).to_vec();
    same("a session's positions", &stores.journal.positions(&key("a")).await?, &expected)?;
    same("those of an absent session", &stores.journal.positions(&key("none")).await?, &vec![])
}
