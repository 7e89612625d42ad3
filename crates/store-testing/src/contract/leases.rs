//! The promises about who may write a session.

use futures_util::FutureExt;
use futures_util::future::join;
use singletree_durable::{Error, FencingToken, PausedInvocation, RowMutation};

use super::bench::{StoreFactory, Verdict, ensure_equal, ensure_lease_lost, ensure_that};
use super::rows::{
    acquire_fence, batch_under, make_counters, read_session, sample_early_signal, sample_event, sample_head,
    sample_position, sample_record, sample_turn, sample_wait, session_key,
};

fn head_put(version: u64) -> [RowMutation; 1] {
    [RowMutation::Head(sample_head(version))]
}

pub(super) async fn check_fence_rises(bench: &dyn StoreFactory) -> Verdict {
    let (mut stores, s) = (bench.open().await?, session_key("s"));
    let ensure_higher = |after: FencingToken, before: FencingToken| {
        ensure_that(after > before, || format!("fence {} after {}", after.0, before.0))
    };
    let mut last = acquire_fence(&stores, &s).await?;
    stores.journal.apply(batch_under(last, &s, head_put(1))).await?;
    for _ in 0..3 {
        for _ in 0..2 {
            let other = bench.open_beside().await?;
            let fence = acquire_fence(&other, &s).await?;
            ensure_higher(fence, last)?;
            last = fence;
        }
        stores = bench.reopen(stores).await?;
        let fence = acquire_fence(&stores, &s).await?;
        ensure_higher(fence, last)?;
        last = fence;
    }
    Ok(())
}

pub(super) async fn check_fencing(bench: &dyn StoreFactory) -> Verdict {
    let mut stores = bench.open().await?;
    for _ in 0..2 {
        stores = bench.reopen(stores).await?;
    }
    let s = session_key("s");
    let fence = acquire_fence(&stores, &s).await?;
    for other in [fence.0.checked_sub(1), fence.0.checked_add(1)].into_iter().flatten() {
        let answer = stores.journal.apply(batch_under(FencingToken(other), &s, head_put(1))).await;
        ensure_lease_lost("another fence", &answer)?;
    }
    ensure_equal("the session", &read_session(&stores, &s).await?, &None)?;
    Ok(stores.journal.apply(batch_under(fence, &s, head_put(1))).await?)
}

pub(super) async fn check_never_acquired(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, session_key("s"));
    let fence = acquire_fence(&stores, &session_key("other")).await?;
    let answer = stores.journal.apply(batch_under(fence, &s, head_put(1))).await;
    ensure_lease_lost("a session that was not acquired", &answer)?;
    ensure_equal("the session", &read_session(&stores, &s).await?, &None)
}

pub(super) async fn check_lease_taken(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, session_key("s"));
    let former = acquire_fence(&stores, &s).await?;
    stores.journal.apply(batch_under(former, &s, head_put(1))).await?;
    let other = bench.open_beside().await?;
    let fence = acquire_fence(&other, &s).await?;
    for version in [2, 3] {
        let late = stores.journal.apply(batch_under(former, &s, head_put(version + 10))).await;
        ensure_lease_lost("a batch of the former owner", &late)?;
        if stores.journal.has_other_writers() {
            let checked = stores.journal.check_lease(&s, former).await;
            ensure_lease_lost("the lease that was taken", &checked)?;
        }
        other.journal.check_lease(&s, fence).await?;
        other.journal.apply(batch_under(fence, &s, head_put(version))).await?;
    }
    let found = read_session(&other, &s).await?.map(|session| session.head.version);
    ensure_equal("the version", &found, &Some(3))
}

pub(super) async fn check_lease_kept(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, session_key("s"));
    let first = acquire_fence(&stores, &s).await?;
    stores.journal.apply(batch_under(first, &s, head_put(1))).await?;
    ensure_equal("the fence", &acquire_fence(&stores, &s).await?, &first)?;
    Ok(stores.journal.apply(batch_under(first, &s, head_put(2))).await?)
}

pub(super) async fn check_lease_released(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s, t) = (bench.open().await?, session_key("s"), session_key("t"));
    let fence = acquire_fence(&stores, &s).await?;
    let kept = acquire_fence(&stores, &t).await?;
    stores.journal.apply(batch_under(fence, &s, head_put(1))).await?;
    stores.journal.release(vec![s.clone(), session_key("unknown")]).await?;
    let answer = stores.journal.apply(batch_under(fence, &s, head_put(2))).await;
    ensure_lease_lost("a batch of a released session", &answer)?;
    stores.journal.apply(batch_under(kept, &t, head_put(1))).await?;
    let found = read_session(&stores, &s).await?.map(|session| session.head.version);
    ensure_equal("the version", &found, &Some(1))
}

pub(super) async fn check_lease_counted(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, session_key("s"));
    acquire_fence(&stores, &s).await?;
    let fence = acquire_fence(&stores, &s).await?;
    stores.journal.release(vec![s.clone()]).await?;
    Ok(stores.journal.apply(batch_under(fence, &s, head_put(1))).await?)
}

pub(super) async fn check_acquire_reads(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, session_key("s"));
    let absent = stores.journal.acquire(&s).await?;
    ensure_that(absent.snapshot.session.is_none(), || format!("{absent:?} for an absent session"))?;
    let puts = vec![
        RowMutation::Head(sample_head(1)),
        RowMutation::Counters(make_counters(2, 2, 2, 2)),
        RowMutation::Turn(sample_turn(1)),
        RowMutation::Wait(sample_wait(1)),
        RowMutation::Mail(sample_early_signal("early", "1")),
        RowMutation::Position(sample_position("inv", "1")),
        RowMutation::Record(sample_record(1, "a", "1")),
        RowMutation::Event(sample_event(1)),
    ];
    stores.journal.apply(batch_under(absent.fence, &s, puts)).await?;
    let other = bench.open_beside().await?;
    let acquired = other.journal.acquire(&s).await?.snapshot;
    ensure_equal("the session", &acquired.session, &read_session(&other, &s).await?)?;
    ensure_equal("the numbers", &acquired.numbers, &make_counters(2, 2, 2, 2))?;
    ensure_equal("open turns", &acquired.open, &vec![sample_turn(1)])?;
    ensure_equal("pending waits", &acquired.pending, &vec![sample_wait(1)])?;
    ensure_equal("early signals", &acquired.mail, &vec![sample_early_signal("early", "1")])?;
    let paused = PausedInvocation {
        turn: sample_turn(1),
        position: sample_position("inv", "1"),
        records: vec![sample_record(1, "a", "1")],
    };
    ensure_equal("the paused invocation", &acquired.paused, &Some(paused))
}

/// How often two owners meet.
const MEETINGS: u64 = 40;

pub(super) async fn check_acquire_sees_last(bench: &dyn StoreFactory) -> Verdict {
    let stores = bench.open().await?;
    let mut held = Vec::new();
    for no in 0..MEETINGS {
        let s = session_key(&format!("s{no}"));
        let fence = acquire_fence(&stores, &s).await?;
        stores.journal.apply(batch_under(fence, &s, head_put(1))).await?;
        held.push((no, s, fence));
    }
    let other = bench.open_beside().await?;
    for (no, s, fence) in held {
        // The commit is on its way while the other owner acquires; every other time it was polled before.
        let mut commit = stores.journal.apply(batch_under(fence, &s, head_put(2)));
        let early = if no % 2 == 0 { (&mut commit).now_or_never() } else { None };
        let (acquired, landed) = match early {
            Some(landed) => (other.journal.acquire(&s).await, landed),
            None => join(other.journal.acquire(&s), commit).await,
        };
        let seen = acquired?.snapshot.session.map(|session| session.head.version);
        let expected = match landed {
            Ok(()) => Some(2),
            Err(Error::LeaseLost { .. }) => Some(1),
            Err(error) => return Err(error.into()),
        };
        ensure_equal("the version that was acquired", &seen, &expected)?;
        let stays = read_session(&other, &s).await?.map(|session| session.head.version);
        ensure_equal("the version later", &stays, &expected)?;
    }
    Ok(())
}

pub(super) async fn check_reading_acquires_nothing(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, session_key("s"));
    let fence = acquire_fence(&stores, &s).await?;
    stores.journal.apply(batch_under(fence, &s, head_put(1))).await?;
    let other = bench.open_beside().await?;
    other.journal.read_session_snapshot(&s).await?;
    read_session(&other, &s).await?;
    Ok(stores.journal.apply(batch_under(fence, &s, head_put(2))).await?)
}

pub(super) async fn check_newest_fence(bench: &dyn StoreFactory) -> Verdict {
    let mut stores = bench.open().await?;
    for no in 0..3 {
        let fence = acquire_fence(&stores, &session_key(&format!("s{no}"))).await?;
        let newest = stores.journal.read_newest_fence().await?;
        ensure_that(newest >= fence, || format!("fence {} was given out, {} is told", fence.0, newest.0))?;
        stores = bench.reopen(stores).await?;
    }
    Ok(())
}
