//! Requirements, each in a case where it holds and in one where it does not.
//!
//! Each check compares only the results of calls, and each requirement has its own check, so that a failure names
//! the broken requirement.

use singletree_durable::{
    BatchPrecondition, Result, RowMutation, SessionKey, StoredTurnStatus, StoredWaitStatus, TurnRow,
};

use super::ContractStores;
use super::bench::{StoreFactory, Verdict, refused};
use super::rows::{
    apply, apply_if, batch, consumed, counters, ended, head, key, mail, make, record, turn, wait,
};

/// Writes a row that affects no other check, if a requirement holds.
async fn probe(stores: &ContractStores, key: &SessionKey, require: BatchPrecondition) -> Result<()> {
    apply_if(stores, key, require, [RowMutation::Record(record(9, "probe", "1"))]).await
}

pub(super) async fn session_absent(bench: &dyn StoreFactory) -> Verdict {
    let (stores, key) = (bench.open().await?, key("s"));
    apply_if(&stores, &key, BatchPrecondition::SessionAbsent, [RowMutation::Head(head(1))]).await?;
    refused("a session that exists", &probe(&stores, &key, BatchPrecondition::SessionAbsent).await)?;
    apply(&stores, &key, [RowMutation::Delete]).await?;
    apply_if(&stores, &key, BatchPrecondition::SessionAbsent, [RowMutation::Head(head(1))]).await?;
    Ok(())
}

pub(super) async fn session_version(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, key("s"));
    let absent =
        apply_if(&stores, &key("none"), BatchPrecondition::SessionVersion(0), [RowMutation::Head(head(1))])
            .await;
    refused("a version of an absent session", &absent)?;
    apply(&stores, &s, [RowMutation::Head(head(3))]).await?;
    for other in [2, 4] {
        refused("another version", &probe(&stores, &s, BatchPrecondition::SessionVersion(other)).await)?;
    }
    Ok(probe(&stores, &s, BatchPrecondition::SessionVersion(3)).await?)
}

async fn counters_hold(stores: &ContractStores, key: &SessionKey, of: [u64; 4]) -> Result<()> {
    let [turns, items, events, waits] = of;
    probe(stores, key, BatchPrecondition::Counters(counters(turns, items, events, waits))).await
}

pub(super) async fn counters_exact(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, key("s"));
    let at = |turns| BatchPrecondition::Counters(counters(turns, 0, 0, 0));
    let absent = apply_if(&stores, &s, at(1), [RowMutation::Head(head(1))]).await;
    refused("other counters of an absent session", &absent)?;
    apply_if(&stores, &s, at(0), [RowMutation::Head(head(1))]).await?;
    counters_hold(&stores, &s, [0, 0, 0, 0]).await?;
    apply(&stores, &s, [RowMutation::Counters(counters(1, 2, 3, 4))]).await?;
    for other in [[0, 2, 3, 4], [1, 0, 3, 4], [1, 2, 0, 4], [1, 2, 3, 0]] {
        refused("other counters", &counters_hold(&stores, &s, other).await)?;
    }
    counters_hold(&stores, &s, [1, 2, 3, 4]).await?;
    apply(&stores, &s, [RowMutation::Delete]).await?;
    refused(
        "other counters of a deleted session",
        &apply_if(&stores, &s, at(0), [RowMutation::Head(head(1))]).await,
    )?;
    let left = BatchPrecondition::Counters(counters(1, 2, 3, 4));
    Ok(apply_if(&stores, &s, left, [RowMutation::Head(head(1))]).await?)
}

pub(super) async fn turn_at_status(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, key("s"));
    make(&stores, &s, [RowMutation::Turn(turn(1)), RowMutation::Turn(ended(2))]).await?;
    let at = |no, status| BatchPrecondition::Turn { no, status };
    refused("an absent turn", &probe(&stores, &s, at(3, StoredTurnStatus::Accepted)).await)?;
    refused("an open turn", &probe(&stores, &s, at(1, StoredTurnStatus::Completed)).await)?;
    for other in [StoredTurnStatus::Accepted, StoredTurnStatus::Suspended, StoredTurnStatus::Errored] {
        refused("a completed turn", &probe(&stores, &s, at(2, other)).await)?;
    }
    probe(&stores, &s, at(1, StoredTurnStatus::Accepted)).await?;
    Ok(probe(&stores, &s, at(2, StoredTurnStatus::Completed)).await?)
}

pub(super) async fn newest_turn(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, key("s"));
    make(&stores, &s, [RowMutation::Turn(ended(1)), RowMutation::Turn(ended(3))]).await?;
    for other in [0, 1, 2, 4] {
        refused("another turn", &probe(&stores, &s, BatchPrecondition::NewestTurn(other)).await)?;
    }
    probe(&stores, &s, BatchPrecondition::NewestTurn(3)).await?;
    let other =
        apply_if(&stores, &key("other"), BatchPrecondition::NewestTurn(0), [RowMutation::Head(head(1))])
            .await;
    refused("a session without turns", &other)
}

pub(super) async fn key_free(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, key("s"));
    let keyed = TurnRow { key: Some("taken".to_owned()), digest: Some("digest".to_owned()), ..ended(1) };
    make(&stores, &s, [RowMutation::Turn(keyed)]).await?;
    refused("a key of a turn", &probe(&stores, &s, BatchPrecondition::KeyFree("taken".to_owned())).await)?;
    probe(&stores, &s, BatchPrecondition::KeyFree("free".to_owned())).await?;
    let other = key("other");
    let of_other = BatchPrecondition::KeyFree("taken".to_owned());
    Ok(apply_if(&stores, &other, of_other, [RowMutation::Head(head(1))]).await?)
}

pub(super) async fn wait_at_status(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, key("s"));
    make(&stores, &s, [RowMutation::Wait(wait(1)), RowMutation::Wait(consumed(2))]).await?;
    let at = |no, status| BatchPrecondition::Wait { no, status };
    refused("an absent wait", &probe(&stores, &s, at(3, StoredWaitStatus::Pending)).await)?;
    refused("a pending wait", &probe(&stores, &s, at(1, StoredWaitStatus::Consumed)).await)?;
    for other in [StoredWaitStatus::Pending, StoredWaitStatus::Cancelled, StoredWaitStatus::Expired] {
        refused("a consumed wait", &probe(&stores, &s, at(2, other)).await)?;
    }
    probe(&stores, &s, at(1, StoredWaitStatus::Pending)).await?;
    Ok(probe(&stores, &s, at(2, StoredWaitStatus::Consumed)).await?)
}

pub(super) async fn mail_absent(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, key("s"));
    make(&stores, &s, [RowMutation::Mail(mail("kept", "1"))]).await?;
    let absent = |signal: &str| BatchPrecondition::MailAbsent(signal.to_owned());
    refused("a signal that is kept", &probe(&stores, &s, absent("kept")).await)?;
    probe(&stores, &s, absent("other")).await?;
    Ok(apply_if(&stores, &key("new"), absent("kept"), [RowMutation::Head(head(1))]).await?)
}

pub(super) async fn idle(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, key("s"));
    apply_if(&stores, &s, BatchPrecondition::Idle, [RowMutation::Head(head(1))]).await?;
    apply(&stores, &s, [RowMutation::Turn(ended(1)), RowMutation::Wait(consumed(1))]).await?;
    probe(&stores, &s, BatchPrecondition::Idle).await?;
    make(&stores, &key("open"), [RowMutation::Turn(ended(1)), RowMutation::Turn(turn(2))]).await?;
    refused("a session with an open turn", &probe(&stores, &key("open"), BatchPrecondition::Idle).await)?;
    make(&stores, &key("waits"), [RowMutation::Wait(wait(1)), RowMutation::Wait(consumed(2))]).await?;
    refused("a session with a pending wait", &probe(&stores, &key("waits"), BatchPrecondition::Idle).await)?;
    Ok(probe(&stores, &s, BatchPrecondition::Idle).await?)
}

pub(super) async fn come_first(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, key("s"));
    make(&stores, &s, []).await?;
    // A requirement that would hold only after the batch is refused.
    let ahead = batch(&stores, &s, [RowMutation::Turn(turn(1)), RowMutation::Wait(wait(1))])
        .require(BatchPrecondition::Turn { no: 1, status: StoredTurnStatus::Accepted })
        .require(BatchPrecondition::Wait { no: 1, status: StoredWaitStatus::Pending });
    refused("rows that the batch itself puts", &stores.journal.apply(ahead).await)?;
    // A requirement that holds before the batch, but not after it, is met.
    let other = key("other");
    make(&stores, &other, []).await?;
    let idempotency = Some("key".to_owned());
    let keyed = TurnRow { key: idempotency, digest: Some("digest".to_owned()), ..turn(2) };
    let claim = batch(&stores, &other, [RowMutation::Turn(keyed)])
        .require(BatchPrecondition::KeyFree("key".to_owned()))
        .require(BatchPrecondition::Idle);
    Ok(stores.journal.apply(claim).await?)
}
