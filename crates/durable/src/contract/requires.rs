//! Requirements, both ways: holding and not.
//!
//! Each check looks at answers only, and each requirement stands alone, so that a broken one is named by its own check.

use super::Stores;
use super::bench::{Bench, Verdict, refused};
use super::rows::{
    apply, apply_if, batch, consumed, counters, ended, head, key, mail, make, record, turn, wait,
};
use crate::{Put, Require, Result, SessionKey, TurnRow, TurnStatus, WaitStatus};

/// Writes something harmless if a requirement holds.
async fn probe(stores: &Stores, key: &SessionKey, require: Require) -> Result<()> {
    apply_if(stores, key, require, [Put::Record(record(9, "probe", "1"))]).await
}

pub(super) async fn session_absent(bench: &dyn Bench) -> Verdict {
    let (stores, key) = (bench.open().await?, key("s"));
    apply_if(&stores, &key, Require::SessionAbsent, [Put::Head(head(1))]).await?;
    refused("a session that exists", &probe(&stores, &key, Require::SessionAbsent).await)?;
    apply(&stores, &key, [Put::Delete]).await?;
    apply_if(&stores, &key, Require::SessionAbsent, [Put::Head(head(1))]).await?;
    Ok(())
}

pub(super) async fn session_version(bench: &dyn Bench) -> Verdict {
    let (stores, s) = (bench.open().await?, key("s"));
    let absent = apply_if(&stores, &key("none"), Require::SessionVersion(0), [Put::Head(head(1))]).await;
    refused("a version of an absent session", &absent)?;
    apply(&stores, &s, [Put::Head(head(3))]).await?;
    for other in [2, 4] {
        refused("another version", &probe(&stores, &s, Require::SessionVersion(other)).await)?;
    }
    Ok(probe(&stores, &s, Require::SessionVersion(3)).await?)
}

async fn counters_hold(stores: &Stores, key: &SessionKey, of: [u64; 4]) -> Result<()> {
    let [turns, items, events, waits] = of;
    probe(stores, key, Require::Counters(counters(turns, items, events, waits))).await
}

pub(super) async fn counters_exact(bench: &dyn Bench) -> Verdict {
    let (stores, s) = (bench.open().await?, key("s"));
    let at = |turns| Require::Counters(counters(turns, 0, 0, 0));
    let absent = apply_if(&stores, &s, at(1), [Put::Head(head(1))]).await;
    refused("other counters of an absent session", &absent)?;
    apply_if(&stores, &s, at(0), [Put::Head(head(1))]).await?;
    counters_hold(&stores, &s, [0, 0, 0, 0]).await?;
    apply(&stores, &s, [Put::Counters(counters(1, 2, 3, 4))]).await?;
    for other in [[0, 2, 3, 4], [1, 0, 3, 4], [1, 2, 0, 4], [1, 2, 3, 0]] {
        refused("other counters", &counters_hold(&stores, &s, other).await)?;
    }
    counters_hold(&stores, &s, [1, 2, 3, 4]).await?;
    apply(&stores, &s, [Put::Delete]).await?;
    refused(
        "other counters of a deleted session",
        &apply_if(&stores, &s, at(0), [Put::Head(head(1))]).await,
    )?;
    let left = Require::Counters(counters(1, 2, 3, 4));
    Ok(apply_if(&stores, &s, left, [Put::Head(head(1))]).await?)
}

pub(super) async fn turn_at_status(bench: &dyn Bench) -> Verdict {
    let (stores, s) = (bench.open().await?, key("s"));
    make(&stores, &s, [Put::Turn(turn(1)), Put::Turn(ended(2))]).await?;
    let at = |no, status| Require::Turn { no, status };
    refused("an absent turn", &probe(&stores, &s, at(3, TurnStatus::Accepted)).await)?;
    refused("an open turn", &probe(&stores, &s, at(1, TurnStatus::Completed)).await)?;
    for other in [TurnStatus::Accepted, TurnStatus::Suspended, TurnStatus::Errored] {
        refused("a completed turn", &probe(&stores, &s, at(2, other)).await)?;
    }
    probe(&stores, &s, at(1, TurnStatus::Accepted)).await?;
    Ok(probe(&stores, &s, at(2, TurnStatus::Completed)).await?)
}

pub(super) async fn newest_turn(bench: &dyn Bench) -> Verdict {
    let (stores, s) = (bench.open().await?, key("s"));
    make(&stores, &s, [Put::Turn(ended(1)), Put::Turn(ended(3))]).await?;
    for other in [0, 1, 2, 4] {
        refused("another turn", &probe(&stores, &s, Require::NewestTurn(other)).await)?;
    }
    probe(&stores, &s, Require::NewestTurn(3)).await?;
    let other = apply_if(&stores, &key("other"), Require::NewestTurn(0), [Put::Head(head(1))]).await;
    refused("a session without turns", &other)
}

pub(super) async fn key_free(bench: &dyn Bench) -> Verdict {
    let (stores, s) = (bench.open().await?, key("s"));
    let keyed = TurnRow { key: Some("taken".to_owned()), digest: Some("digest".to_owned()), ..ended(1) };
    make(&stores, &s, [Put::Turn(keyed)]).await?;
    refused("a key of a turn", &probe(&stores, &s, Require::KeyFree("taken".to_owned())).await)?;
    probe(&stores, &s, Require::KeyFree("free".to_owned())).await?;
    let other = key("other");
    let of_other = Require::KeyFree("taken".to_owned());
    Ok(apply_if(&stores, &other, of_other, [Put::Head(head(1))]).await?)
}

pub(super) async fn wait_at_status(bench: &dyn Bench) -> Verdict {
    let (stores, s) = (bench.open().await?, key("s"));
    make(&stores, &s, [Put::Wait(wait(1)), Put::Wait(consumed(2))]).await?;
    let at = |no, status| Require::Wait { no, status };
    refused("an absent wait", &probe(&stores, &s, at(3, WaitStatus::Pending)).await)?;
    refused("a pending wait", &probe(&stores, &s, at(1, WaitStatus::Consumed)).await)?;
    for other in [WaitStatus::Pending, WaitStatus::Cancelled, WaitStatus::Expired] {
        refused("a consumed wait", &probe(&stores, &s, at(2, other)).await)?;
    }
    probe(&stores, &s, at(1, WaitStatus::Pending)).await?;
    Ok(probe(&stores, &s, at(2, WaitStatus::Consumed)).await?)
}

pub(super) async fn mail_absent(bench: &dyn Bench) -> Verdict {
    let (stores, s) = (bench.open().await?, key("s"));
    make(&stores, &s, [Put::Mail(mail("kept", "1"))]).await?;
    let absent = |signal: &str| Require::MailAbsent(signal.to_owned());
    refused("a signal that is kept", &probe(&stores, &s, absent("kept")).await)?;
    probe(&stores, &s, absent("other")).await?;
    Ok(apply_if(&stores, &key("new"), absent("kept"), [Put::Head(head(1))]).await?)
}

pub(super) async fn idle(bench: &dyn Bench) -> Verdict {
    let (stores, s) = (bench.open().await?, key("s"));
    apply_if(&stores, &s, Require::Idle, [Put::Head(head(1))]).await?;
    apply(&stores, &s, [Put::Turn(ended(1)), Put::Wait(consumed(1))]).await?;
    probe(&stores, &s, Require::Idle).await?;
    make(&stores, &key("open"), [Put::Turn(ended(1)), Put::Turn(turn(2))]).await?;
    refused("a session with an open turn", &probe(&stores, &key("open"), Require::Idle).await)?;
    make(&stores, &key("waits"), [Put::Wait(wait(1)), Put::Wait(consumed(2))]).await?;
    refused("a session with a pending wait", &probe(&stores, &key("waits"), Require::Idle).await)?;
    Ok(probe(&stores, &s, Require::Idle).await?)
}

pub(super) async fn come_first(bench: &dyn Bench) -> Verdict {
    let (stores, s) = (bench.open().await?, key("s"));
    make(&stores, &s, []).await?;
    // A requirement that would hold only after the batch is refused.
    let ahead = batch(&stores, &s, [Put::Turn(turn(1)), Put::Wait(wait(1))])
        .require(Require::Turn { no: 1, status: TurnStatus::Accepted })
        .require(Require::Wait { no: 1, status: WaitStatus::Pending });
    refused("rows that the batch itself puts", &stores.journal.apply(ahead).await)?;
    // A requirement that holds before the batch, but not after it, is met.
    let other = key("other");
    make(&stores, &other, []).await?;
    let idempotency = Some("key".to_owned());
    let keyed = TurnRow { key: idempotency, digest: Some("digest".to_owned()), ..turn(2) };
    let claim = batch(&stores, &other, [Put::Turn(keyed)])
        .require(Require::KeyFree("key".to_owned()))
        .require(Require::Idle);
    Ok(stores.journal.apply(claim).await?)
}
