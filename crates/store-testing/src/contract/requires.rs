//! Requirements, each in a case where it holds and in one where it does not.
//!
//! Each check compares only the results of calls, and each requirement has its own check, so that a failure names
//! the broken requirement.

use singletree_durable::{
    BatchPrecondition, Result, RowMutation, SessionKey, StoredTurnStatus, StoredWaitStatus, TurnRow,
};

use super::ContractStores;
use super::bench::{StoreFactory, Verdict, ensure_refused};
use super::rows::{
    apply_mutations, apply_mutations_if, build_batch, create_session, make_counters, sample_consumed_wait,
    sample_early_signal, sample_ended_turn, sample_head, sample_record, sample_turn, sample_wait,
    session_key,
};

/// Writes a row that affects no other check, if a requirement holds.
async fn probe_requirement(
    stores: &ContractStores,
    key: &SessionKey,
    require: BatchPrecondition,
) -> Result<()> {
    apply_mutations_if(stores, key, require, [RowMutation::Record(sample_record(9, "probe", "1"))]).await
}

pub(super) async fn check_require_session_absent(bench: &dyn StoreFactory) -> Verdict {
    let (stores, key) = (bench.open().await?, session_key("s"));
    apply_mutations_if(&stores, &key, BatchPrecondition::SessionAbsent, [RowMutation::Head(sample_head(1))])
        .await?;
    ensure_refused(
        "a session that exists",
        &probe_requirement(&stores, &key, BatchPrecondition::SessionAbsent).await,
    )?;
    apply_mutations(&stores, &key, [RowMutation::Delete]).await?;
    apply_mutations_if(&stores, &key, BatchPrecondition::SessionAbsent, [RowMutation::Head(sample_head(1))])
        .await?;
    Ok(())
}

pub(super) async fn check_require_session_version(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, session_key("s"));
    let absent = apply_mutations_if(
        &stores,
        &session_key("none"),
        BatchPrecondition::SessionVersion(0),
        [RowMutation::Head(sample_head(1))],
    )
    .await;
    ensure_refused("a version of an absent session", &absent)?;
    apply_mutations(&stores, &s, [RowMutation::Head(sample_head(3))]).await?;
    for other in [2, 4] {
        ensure_refused(
            "another version",
            &probe_requirement(&stores, &s, BatchPrecondition::SessionVersion(other)).await,
        )?;
    }
    Ok(probe_requirement(&stores, &s, BatchPrecondition::SessionVersion(3)).await?)
}

async fn probe_counters(stores: &ContractStores, key: &SessionKey, of: [u64; 4]) -> Result<()> {
    let [turns, items, events, waits] = of;
    probe_requirement(stores, key, BatchPrecondition::Counters(make_counters(turns, items, events, waits)))
        .await
}

pub(super) async fn check_require_counters(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, session_key("s"));
    let at = |turns| BatchPrecondition::Counters(make_counters(turns, 0, 0, 0));
    let absent = apply_mutations_if(&stores, &s, at(1), [RowMutation::Head(sample_head(1))]).await;
    ensure_refused("other counters of an absent session", &absent)?;
    apply_mutations_if(&stores, &s, at(0), [RowMutation::Head(sample_head(1))]).await?;
    probe_counters(&stores, &s, [0, 0, 0, 0]).await?;
    apply_mutations(&stores, &s, [RowMutation::Counters(make_counters(1, 2, 3, 4))]).await?;
    for other in [[0, 2, 3, 4], [1, 0, 3, 4], [1, 2, 0, 4], [1, 2, 3, 0]] {
        ensure_refused("other counters", &probe_counters(&stores, &s, other).await)?;
    }
    probe_counters(&stores, &s, [1, 2, 3, 4]).await?;
    apply_mutations(&stores, &s, [RowMutation::Delete]).await?;
    ensure_refused(
        "other counters of a deleted session",
        &apply_mutations_if(&stores, &s, at(0), [RowMutation::Head(sample_head(1))]).await,
    )?;
    let left = BatchPrecondition::Counters(make_counters(1, 2, 3, 4));
    Ok(apply_mutations_if(&stores, &s, left, [RowMutation::Head(sample_head(1))]).await?)
}

pub(super) async fn check_require_turn(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, session_key("s"));
    create_session(&stores, &s, [RowMutation::Turn(sample_turn(1)), RowMutation::Turn(sample_ended_turn(2))])
        .await?;
    let at = |no, status| BatchPrecondition::Turn { no, status };
    ensure_refused(
        "an absent turn",
        &probe_requirement(&stores, &s, at(3, StoredTurnStatus::Accepted)).await,
    )?;
    ensure_refused(
        "an open turn",
        &probe_requirement(&stores, &s, at(1, StoredTurnStatus::Completed)).await,
    )?;
    for other in [StoredTurnStatus::Accepted, StoredTurnStatus::Suspended, StoredTurnStatus::Errored] {
        ensure_refused("a completed turn", &probe_requirement(&stores, &s, at(2, other)).await)?;
    }
    probe_requirement(&stores, &s, at(1, StoredTurnStatus::Accepted)).await?;
    Ok(probe_requirement(&stores, &s, at(2, StoredTurnStatus::Completed)).await?)
}

pub(super) async fn check_require_newest_turn(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, session_key("s"));
    create_session(
        &stores,
        &s,
        [RowMutation::Turn(sample_ended_turn(1)), RowMutation::Turn(sample_ended_turn(3))],
    )
    .await?;
    for other in [0, 1, 2, 4] {
        ensure_refused(
            "another turn",
            &probe_requirement(&stores, &s, BatchPrecondition::NewestTurn(other)).await,
        )?;
    }
    probe_requirement(&stores, &s, BatchPrecondition::NewestTurn(3)).await?;
    let other = apply_mutations_if(
        &stores,
        &session_key("other"),
        BatchPrecondition::NewestTurn(0),
        [RowMutation::Head(sample_head(1))],
    )
    .await;
    ensure_refused("a session without turns", &other)
}

pub(super) async fn check_require_key_free(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, session_key("s"));
    let keyed =
        TurnRow { key: Some("taken".to_owned()), digest: Some("digest".to_owned()), ..sample_ended_turn(1) };
    create_session(&stores, &s, [RowMutation::Turn(keyed)]).await?;
    ensure_refused(
        "a key of a turn",
        &probe_requirement(&stores, &s, BatchPrecondition::KeyFree("taken".to_owned())).await,
    )?;
    probe_requirement(&stores, &s, BatchPrecondition::KeyFree("free".to_owned())).await?;
    let other = session_key("other");
    let of_other = BatchPrecondition::KeyFree("taken".to_owned());
    Ok(apply_mutations_if(&stores, &other, of_other, [RowMutation::Head(sample_head(1))]).await?)
}

pub(super) async fn check_require_wait(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, session_key("s"));
    create_session(
        &stores,
        &s,
        [RowMutation::Wait(sample_wait(1)), RowMutation::Wait(sample_consumed_wait(2))],
    )
    .await?;
    let at = |no, status| BatchPrecondition::Wait { no, status };
    ensure_refused(
        "an absent wait",
        &probe_requirement(&stores, &s, at(3, StoredWaitStatus::Pending)).await,
    )?;
    ensure_refused(
        "a pending wait",
        &probe_requirement(&stores, &s, at(1, StoredWaitStatus::Consumed)).await,
    )?;
    for other in [StoredWaitStatus::Pending, StoredWaitStatus::Cancelled, StoredWaitStatus::Expired] {
        ensure_refused("a consumed wait", &probe_requirement(&stores, &s, at(2, other)).await)?;
    }
    probe_requirement(&stores, &s, at(1, StoredWaitStatus::Pending)).await?;
    Ok(probe_requirement(&stores, &s, at(2, StoredWaitStatus::Consumed)).await?)
}

pub(super) async fn check_require_mail_absent(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, session_key("s"));
    create_session(&stores, &s, [RowMutation::Mail(sample_early_signal("kept", "1"))]).await?;
    let absent = |signal: &str| BatchPrecondition::MailAbsent(signal.to_owned());
    ensure_refused("a signal that is kept", &probe_requirement(&stores, &s, absent("kept")).await)?;
    probe_requirement(&stores, &s, absent("other")).await?;
    Ok(apply_mutations_if(&stores, &session_key("new"), absent("kept"), [RowMutation::Head(sample_head(1))])
        .await?)
}

pub(super) async fn check_require_idle(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, session_key("s"));
    apply_mutations_if(&stores, &s, BatchPrecondition::Idle, [RowMutation::Head(sample_head(1))]).await?;
    apply_mutations(
        &stores,
        &s,
        [RowMutation::Turn(sample_ended_turn(1)), RowMutation::Wait(sample_consumed_wait(1))],
    )
    .await?;
    probe_requirement(&stores, &s, BatchPrecondition::Idle).await?;
    create_session(
        &stores,
        &session_key("open"),
        [RowMutation::Turn(sample_ended_turn(1)), RowMutation::Turn(sample_turn(2))],
    )
    .await?;
    ensure_refused(
        "a session with an open turn",
        &probe_requirement(&stores, &session_key("open"), BatchPrecondition::Idle).await,
    )?;
    create_session(
        &stores,
        &session_key("waits"),
        [RowMutation::Wait(sample_wait(1)), RowMutation::Wait(sample_consumed_wait(2))],
    )
    .await?;
    ensure_refused(
        "a session with a pending wait",
        &probe_requirement(&stores, &session_key("waits"), BatchPrecondition::Idle).await,
    )?;
    Ok(probe_requirement(&stores, &s, BatchPrecondition::Idle).await?)
}

pub(super) async fn check_requires_come_first(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, session_key("s"));
    create_session(&stores, &s, []).await?;
    // A requirement that would hold only after the batch is refused.
    let ahead =
        build_batch(&stores, &s, [RowMutation::Turn(sample_turn(1)), RowMutation::Wait(sample_wait(1))])
            .await?
            .require(BatchPrecondition::Turn { no: 1, status: StoredTurnStatus::Accepted })
            .require(BatchPrecondition::Wait { no: 1, status: StoredWaitStatus::Pending });
    ensure_refused("rows that the batch itself puts", &stores.journal.apply(ahead).await)?;
    // A requirement that holds before the batch, but not after it, is met.
    let other = session_key("other");
    create_session(&stores, &other, []).await?;
    let idempotency = Some("key".to_owned());
    let keyed = TurnRow { key: idempotency, digest: Some("digest".to_owned()), ..sample_turn(2) };
    let claim = build_batch(&stores, &other, [RowMutation::Turn(keyed)])
        .await?
        .require(BatchPrecondition::KeyFree("key".to_owned()))
        .require(BatchPrecondition::Idle);
    Ok(stores.journal.apply(claim).await?)
}
