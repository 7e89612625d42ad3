//! The promises of `apply` for every kind of batch.

use futures_util::FutureExt;
use futures_util::future::join_all;
use singletree_durable::{
    BatchPrecondition, DocumentKey, FencingToken, Result, RowMutation, SessionKey, StoredTurnStatus,
    StoredWaitStatus, TurnRowQuery, UsageRowQuery, WaitRowQuery,
};

use super::ContractStores;
use super::bench::{StoreFactory, Verdict, ensure, refused, same};
use super::rows::{
    apply, batch, consumed, counters, ended, event, events, field, head, invocation, item, items, json, key,
    key_of, mail, make, position, record, session, tenant, turn, turn_at, used, wait,
};

/// Returns one put of each kind of row.
fn one_of_each() -> Vec<RowMutation> {
    vec![
        RowMutation::Head(head(1)),
        RowMutation::Counters(counters(2, 2, 2, 2)),
        RowMutation::Field(field("f", "1")),
        RowMutation::Item(item(1)),
        RowMutation::Turn(turn(1)),
        RowMutation::Wait(wait(1)),
        RowMutation::Mail(mail("early", "1")),
        RowMutation::Position(position("inv", "1")),
        RowMutation::Record(record(1, "a", "1")),
        RowMutation::Usage(used("m", 3)),
        RowMutation::Event(event(1)),
    ]
}

async fn all_there(stores: &ContractStores, s: &SessionKey) -> Verdict {
    let journal = &stores.journal;
    let found = session(stores, s)
        .await?
        .map(|session| (session.key, session.head, session.counters, session.fields));
    let expected = Some((s.clone(), head(1), counters(2, 2, 2, 2), vec![field("f", "1")]));
    same("the session", &found, &expected)?;
    same("items", &items(stores, s).await?, &vec![item(1)])?;
    same("turns", &turn_at(stores, s, 1).await?, &vec![turn(1)])?;
    let waits = journal.waits(&WaitRowQuery::Pending(s.clone())).await?;
    same("waits", &waits, &vec![(s.clone(), wait(1))])?;
    same("early signals", &journal.mail(s).await?, &vec![mail("early", "1")])?;
    let stands = journal.position(s, &invocation("inv")).await?;
    same("the position", &stands, &Some(position("inv", "1")))?;
    same("records", &journal.records(s, 1).await?, &vec![record(1, "a", "1")])?;
    let use_of = journal.usage(&UsageRowQuery::Session(s.clone())).await?;
    same("the use of models", &use_of, &vec![used("m", 3)])?;
    same("events", &events(stores, s).await?, &vec![event(1)])
}

pub(super) async fn batch_whole(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, key("s"));
    apply(&stores, &s, one_of_each()).await?;
    all_there(&stores, &s).await
}

pub(super) async fn refused_writes_nothing(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, key("s"));
    make(&stores, &s, [RowMutation::Item(item(1)), RowMutation::Event(event(1))]).await?;
    let rows = vec![
        RowMutation::Head(head(9)),
        RowMutation::Field(field("f", "1")),
        RowMutation::Turn(turn(1)),
        RowMutation::Record(record(1, "a", "1")),
        RowMutation::Document {
            kind: "k".to_owned(),
            id: "a".to_owned(),
            body: json("1"),
            expires_at: None,
            outlives: false,
        },
    ];
    let unmet = batch(&stores, &s, rows.clone())
        .require(BatchPrecondition::SessionAbsent)
        .require(BatchPrecondition::Turn { no: 7, status: StoredTurnStatus::Accepted });
    refused("unmet requirements", &stores.journal.apply(unmet).await)?;
    // The store refuses puts behind others, because their numbers are taken.
    let taken = [rows, vec![RowMutation::Item(item(1)), RowMutation::Event(event(1))]].concat();
    refused("taken numbers", &apply(&stores, &s, taken).await)?;
    let found = session(&stores, &s).await?.map(|session| (session.head, session.fields));
    same("the session", &found, &Some((head(1), vec![])))?;
    same("turns", &turn_at(&stores, &s, 1).await?, &vec![])?;
    same("records", &stores.journal.records(&s, 1).await?, &vec![])?;
    let document = DocumentKey::new(s.tenant.clone(), "k", "a");
    same("the document", &stores.documents.document(&document).await?, &None)
}

/// The number of batches whose order is checked.
const BATCHES: u64 = 100;

pub(super) async fn ordered(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, key("s"));
    make(&stores, &s, []).await?;
    let step = |version: u64| {
        batch(&stores, &s, [RowMutation::Head(head(version + 1))])
            .require(BatchPrecondition::SessionVersion(version))
    };
    let calls: Vec<_> = (1..=BATCHES).map(|version| stores.journal.apply(step(version))).collect();
    for call in calls.into_iter().rev() {
        call.await?;
    }
    let found = session(&stores, &s).await?.map(|session| session.head.version);
    same("the version", &found, &Some(BATCHES + 1))
}

pub(super) async fn durable(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, key("s"));
    // Not in one batch: another promise states that a batch is applied as a whole.
    let mut puts = one_of_each();
    let rest = puts.split_off(4);
    apply(&stores, &s, puts).await?;
    apply(&stores, &s, rest).await?;
    let stores = bench.reopen(stores).await?;
    all_there(&stores, &s).await
}

pub(super) async fn fenced(bench: &dyn StoreFactory) -> Verdict {
    let mut stores = bench.open().await?;
    for _ in 0..2 {
        stores = bench.reopen(stores).await?;
    }
    let s = key("s");
    make(&stores, &s, []).await?;
    let fence = stores.journal.fence();
    let with = |fence| {
        let mut it = batch(&stores, &s, [RowMutation::Record(record(1, "a", "1"))]);
        it.fence = fence;
        it
    };
    for other in [fence.0.checked_sub(1), fence.0.checked_add(1)].into_iter().flatten() {
        refused("another fence", &stores.journal.apply(with(FencingToken(other))).await)?;
    }
    Ok(stores.journal.apply(with(fence)).await?)
}

pub(super) async fn fence_rises(bench: &dyn StoreFactory) -> Verdict {
    let mut stores = bench.open().await?;
    for _ in 0..3 {
        let before = stores.journal.fence();
        stores = bench.reopen(stores).await?;
        let after = stores.journal.fence();
        ensure(after > before, || format!("fence {} after {}", after.0, before.0))?;
    }
    Ok(())
}

pub(super) async fn epoch_stays(bench: &dyn StoreFactory) -> Verdict {
    let stores = bench.open().await?;
    let before = stores.journal.log_epoch().to_owned();
    let stores = bench.reopen(stores).await?;
    same("the epoch", &stores.journal.log_epoch(), &before.as_str())
}

pub(super) async fn decided_once(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, key("s"));
    make(&stores, &s, [RowMutation::Turn(turn(1)), RowMutation::Wait(wait(1))]).await?;
    let claim = || {
        batch(&stores, &s, [RowMutation::Turn(ended(1)), RowMutation::Wait(consumed(1))])
            .require(BatchPrecondition::Turn { no: 1, status: StoredTurnStatus::Accepted })
            .require(BatchPrecondition::Wait { no: 1, status: StoredWaitStatus::Pending })
    };
    let answers = join_all((0..20).map(|_| stores.journal.apply(claim()))).await;
    let (won, lost): (Vec<_>, Vec<_>) = answers.into_iter().partition(Result::is_ok);
    same("how many claims won", &won.len(), &1)?;
    lost.iter().try_for_each(|it| refused("a late claim", it))
}

pub(super) async fn never_dropped(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, key("s"));
    make(&stores, &s, []).await?;
    let put = |name: &str| batch(&stores, &s, [RowMutation::Record(record(1, name, "1"))]);
    drop(stores.journal.apply(put("a")));
    let mut polled = stores.journal.apply(put("b"));
    drop((&mut polled).now_or_never());
    drop(polled);
    // Batches land in order: when this one is answered, the earlier ones have landed.
    stores.journal.apply(put("c")).await?;
    let mut found: Vec<_> =
        stores.journal.records(&s, 1).await?.into_iter().map(|record| record.name).collect();
    found.sort();
    same("the records", &found, &["a", "b", "c"].map(str::to_owned).to_vec())
}

pub(super) async fn read_your_writes(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, key("s"));
    for version in 1..=50 {
        let row = position("inv", &version.to_string());
        let puts = [
            RowMutation::Head(head(version)),
            RowMutation::Position(row.clone()),
            RowMutation::Item(item(version)),
        ];
        apply(&stores, &s, puts).await?;
        let stands = stores.journal.position(&s, &invocation("inv")).await?;
        same("the position", &stands, &Some(row))?;
        let found = session(&stores, &s).await?.map(|session| session.head.version);
        same("the version", &found, &Some(version))?;
        let last = items(&stores, &s).await?.last().map(|item| item.no);
        same("the last item", &last, &Some(version))?;
    }
    Ok(())
}

pub(super) async fn tenants_apart(bench: &dyn StoreFactory) -> Verdict {
    let (stores, a, b) = (bench.open().await?, key("s"), key_of("tenant-b", "s"));
    let mut puts = one_of_each();
    let rest = puts.split_off(4);
    apply(&stores, &a, puts).await?;
    apply(&stores, &a, rest).await?;
    sees_nothing(&stores, &b).await?;
    // A write of one tenant does not change the other's rows, even with the same numbers and names.
    let rows = [RowMutation::Item(item(1)), RowMutation::Turn(ended(1)), RowMutation::Wait(consumed(1))];
    make(&stores, &b, rows).await?;
    all_there(&stores, &a).await?;
    apply(&stores, &b, [RowMutation::Delete]).await?;
    all_there(&stores, &a).await?;
    sees_nothing(&stores, &b).await
}

async fn sees_nothing(stores: &ContractStores, b: &SessionKey) -> Verdict {
    let (journal, inv, of) = (&stores.journal, invocation("inv"), tenant("tenant-b"));
    let signal = || "approval".to_owned();
    same("the session", &session(stores, b).await?, &None)?;
    same("the listing", &journal.sessions(&of, None, 10).await?.sessions, &vec![])?;
    same("items", &items(stores, b).await?, &vec![])?;
    for query in [TurnRowQuery::No(1), TurnRowQuery::Open, TurnRowQuery::Invocation(inv.clone())] {
        same("turns", &journal.turns(b, &query).await?, &vec![])?;
    }
    same("the invocation", &journal.session_of(&of, &inv).await?, &None)?;
    for query in [
        WaitRowQuery::Pending(b.clone()),
        WaitRowQuery::PendingOf(of.clone(), 10),
        WaitRowQuery::Signal(b.clone(), signal()),
        WaitRowQuery::SignalOf(of.clone(), signal(), 10),
        WaitRowQuery::Invocation(of.clone(), inv.clone()),
    ] {
        same("waits", &journal.waits(&query).await?, &vec![])?;
    }
    same("the position", &journal.position(b, &inv).await?, &None)?;
    same("records", &journal.records(b, 1).await?, &vec![])?;
    for query in [UsageRowQuery::Session(b.clone()), UsageRowQuery::Tenant(of.clone())] {
        same("the use of models", &journal.usage(&query).await?, &vec![])?;
    }
    same("events", &events(stores, b).await?, &vec![])
}
