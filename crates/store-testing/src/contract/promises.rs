//! The promises of `apply` for every kind of batch.

use futures_util::FutureExt;
use futures_util::future::join_all;
use singletree_durable::{
    BatchPrecondition, DocumentKey, Result, RowMutation, SessionKey, StoredTurnStatus, StoredWaitStatus,
    TurnRowQuery, UsageRowQuery, WaitRowQuery,
};

use super::ContractStores;
use super::bench::{StoreFactory, Verdict, ensure_equal, ensure_refused};
use super::rows::{
    acquire_fence, apply_mutations, batch_under, build_batch, create_session, invocation_named,
    json_document, make_counters, read_all_events, read_all_items, read_session, read_turn_by_number,
    sample_consumed_wait, sample_early_signal, sample_ended_turn, sample_event, sample_field, sample_head,
    sample_item, sample_position, sample_record, sample_turn, sample_usage, sample_wait, session_key,
    session_key_in_tenant, tenant_named,
};

/// Returns one put of each kind of row.
fn one_of_each() -> Vec<RowMutation> {
    vec![
        RowMutation::Head(sample_head(1)),
        RowMutation::Counters(make_counters(2, 2, 2, 2)),
        RowMutation::Field(sample_field("f", "1")),
        RowMutation::Item(sample_item(1)),
        RowMutation::Turn(sample_turn(1)),
        RowMutation::Wait(sample_wait(1)),
        RowMutation::Mail(sample_early_signal("early", "1")),
        RowMutation::Position(sample_position("inv", "1")),
        RowMutation::Record(sample_record(1, "a", "1")),
        RowMutation::Usage(sample_usage("m", 3)),
        RowMutation::Event(sample_event(1)),
    ]
}

async fn ensure_all_rows(stores: &ContractStores, s: &SessionKey) -> Verdict {
    let journal = &stores.journal;
    let found = read_session(stores, s)
        .await?
        .map(|session| (session.key, session.head, session.counters, session.fields));
    let expected = Some((s.clone(), sample_head(1), make_counters(2, 2, 2, 2), vec![sample_field("f", "1")]));
    ensure_equal("the session", &found, &expected)?;
    ensure_equal("items", &read_all_items(stores, s).await?, &vec![sample_item(1)])?;
    ensure_equal("turns", &read_turn_by_number(stores, s, 1).await?, &vec![sample_turn(1)])?;
    let waits = journal.read_waits(&WaitRowQuery::Pending(s.clone())).await?;
    ensure_equal("waits", &waits, &vec![(s.clone(), sample_wait(1))])?;
    ensure_equal(
        "early signals",
        &journal.read_early_signals(s).await?,
        &vec![sample_early_signal("early", "1")],
    )?;
    let stands = journal.read_position(s, &invocation_named("inv")).await?;
    ensure_equal("the position", &stands, &Some(sample_position("inv", "1")))?;
    ensure_equal("records", &journal.read_turn_records(s, 1).await?, &vec![sample_record(1, "a", "1")])?;
    let use_of = journal.read_model_usage(&UsageRowQuery::Session(s.clone())).await?;
    ensure_equal("the use of models", &use_of, &vec![sample_usage("m", 3)])?;
    ensure_equal("events", &read_all_events(stores, s).await?, &vec![sample_event(1)])
}

pub(super) async fn check_batch_whole(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, session_key("s"));
    apply_mutations(&stores, &s, one_of_each()).await?;
    ensure_all_rows(&stores, &s).await
}

pub(super) async fn check_refused_writes_nothing(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, session_key("s"));
    create_session(&stores, &s, [RowMutation::Item(sample_item(1)), RowMutation::Event(sample_event(1))])
        .await?;
    let rows = vec![
        RowMutation::Head(sample_head(9)),
        RowMutation::Field(sample_field("f", "1")),
        RowMutation::Turn(sample_turn(1)),
        RowMutation::Record(sample_record(1, "a", "1")),
        RowMutation::Document {
            kind: "k".to_owned(),
            id: "a".to_owned(),
            body: json_document("1"),
            expires_at: None,
            outlives: false,
        },
    ];
    let unmet = build_batch(&stores, &s, rows.clone())
        .await?
        .require(BatchPrecondition::SessionAbsent)
        .require(BatchPrecondition::Turn { no: 7, status: StoredTurnStatus::Accepted });
    ensure_refused("unmet requirements", &stores.journal.apply(unmet).await)?;
    // The store refuses puts behind others, because their numbers are taken.
    let taken = [rows, vec![RowMutation::Item(sample_item(1)), RowMutation::Event(sample_event(1))]].concat();
    ensure_refused("taken numbers", &apply_mutations(&stores, &s, taken).await)?;
    let found = read_session(&stores, &s).await?.map(|session| (session.head, session.fields));
    ensure_equal("the session", &found, &Some((sample_head(1), vec![])))?;
    ensure_equal("turns", &read_turn_by_number(&stores, &s, 1).await?, &vec![])?;
    ensure_equal("records", &stores.journal.read_turn_records(&s, 1).await?, &vec![])?;
    let document = DocumentKey::new(s.tenant.clone(), "k", "a");
    ensure_equal("the document", &stores.documents.read_document(&document).await?, &None)
}

/// The number of batches whose order is checked.
const BATCHES: u64 = 100;

pub(super) async fn check_apply_order(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, session_key("s"));
    create_session(&stores, &s, []).await?;
    let fence = acquire_fence(&stores, &s).await?;
    let step = |version: u64| {
        batch_under(fence, &s, [RowMutation::Head(sample_head(version + 1))])
            .require(BatchPrecondition::SessionVersion(version))
    };
    let calls: Vec<_> = (1..=BATCHES).map(|version| stores.journal.apply(step(version))).collect();
    for call in calls.into_iter().rev() {
        call.await?;
    }
    let found = read_session(&stores, &s).await?.map(|session| session.head.version);
    ensure_equal("the version", &found, &Some(BATCHES + 1))
}

pub(super) async fn check_durability(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, session_key("s"));
    // Not in one batch: another promise states that a batch is applied as a whole.
    let mut puts = one_of_each();
    let rest = puts.split_off(4);
    apply_mutations(&stores, &s, puts).await?;
    apply_mutations(&stores, &s, rest).await?;
    let stores = bench.reopen(stores).await?;
    ensure_all_rows(&stores, &s).await
}

pub(super) async fn check_epoch_stays(bench: &dyn StoreFactory) -> Verdict {
    let stores = bench.open().await?;
    let before = stores.journal.log_epoch().to_owned();
    let stores = bench.reopen(stores).await?;
    ensure_equal("the epoch", &stores.journal.log_epoch(), &before.as_str())
}

pub(super) async fn check_decided_once(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, session_key("s"));
    create_session(&stores, &s, [RowMutation::Turn(sample_turn(1)), RowMutation::Wait(sample_wait(1))])
        .await?;
    let fence = acquire_fence(&stores, &s).await?;
    let claim = || {
        batch_under(
            fence,
            &s,
            [RowMutation::Turn(sample_ended_turn(1)), RowMutation::Wait(sample_consumed_wait(1))],
        )
        .require(BatchPrecondition::Turn { no: 1, status: StoredTurnStatus::Accepted })
        .require(BatchPrecondition::Wait { no: 1, status: StoredWaitStatus::Pending })
    };
    let answers = join_all((0..20).map(|_| stores.journal.apply(claim()))).await;
    let (won, lost): (Vec<_>, Vec<_>) = answers.into_iter().partition(Result::is_ok);
    ensure_equal("how many claims won", &won.len(), &1)?;
    lost.iter().try_for_each(|it| ensure_refused("a late claim", it))
}

pub(super) async fn check_never_dropped(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, session_key("s"));
    create_session(&stores, &s, []).await?;
    let fence = acquire_fence(&stores, &s).await?;
    let put = |name: &str| batch_under(fence, &s, [RowMutation::Record(sample_record(1, name, "1"))]);
    drop(stores.journal.apply(put("a")));
    let mut polled = stores.journal.apply(put("b"));
    drop((&mut polled).now_or_never());
    drop(polled);
    // Batches land in order: when this one is answered, the earlier ones have landed.
    stores.journal.apply(put("c")).await?;
    let mut found: Vec<_> =
        stores.journal.read_turn_records(&s, 1).await?.into_iter().map(|record| record.name).collect();
    found.sort();
    ensure_equal("the records", &found, &["a", "b", "c"].map(str::to_owned).to_vec())
}

pub(super) async fn check_read_your_writes(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, session_key("s"));
    for version in 1..=50 {
        let row = sample_position("inv", &version.to_string());
        let puts = [
            RowMutation::Head(sample_head(version)),
            RowMutation::Position(row.clone()),
            RowMutation::Item(sample_item(version)),
        ];
        apply_mutations(&stores, &s, puts).await?;
        let stands = stores.journal.read_position(&s, &invocation_named("inv")).await?;
        ensure_equal("the position", &stands, &Some(row))?;
        let found = read_session(&stores, &s).await?.map(|session| session.head.version);
        ensure_equal("the version", &found, &Some(version))?;
        let last = read_all_items(&stores, &s).await?.last().map(|item| item.no);
        ensure_equal("the last item", &last, &Some(version))?;
    }
    Ok(())
}

pub(super) async fn check_tenants_apart(bench: &dyn StoreFactory) -> Verdict {
    let (stores, a, b) = (bench.open().await?, session_key("s"), session_key_in_tenant("tenant-b", "s"));
    let mut puts = one_of_each();
    let rest = puts.split_off(4);
    apply_mutations(&stores, &a, puts).await?;
    apply_mutations(&stores, &a, rest).await?;
    ensure_sees_nothing(&stores, &b).await?;
    // A write of one tenant does not change the other's rows, even with the same numbers and names.
    let rows = [
        RowMutation::Item(sample_item(1)),
        RowMutation::Turn(sample_ended_turn(1)),
        RowMutation::Wait(sample_consumed_wait(1)),
    ];
    create_session(&stores, &b, rows).await?;
    ensure_all_rows(&stores, &a).await?;
    apply_mutations(&stores, &b, [RowMutation::Delete]).await?;
    ensure_all_rows(&stores, &a).await?;
    ensure_sees_nothing(&stores, &b).await
}

async fn ensure_sees_nothing(stores: &ContractStores, b: &SessionKey) -> Verdict {
    let (journal, inv, of) = (&stores.journal, invocation_named("inv"), tenant_named("tenant-b"));
    let signal = || "approval".to_owned();
    ensure_equal("the session", &read_session(stores, b).await?, &None)?;
    ensure_equal("the listing", &journal.read_session_page(&of, None, 10).await?.sessions, &vec![])?;
    ensure_equal("items", &read_all_items(stores, b).await?, &vec![])?;
    for query in [TurnRowQuery::No(1), TurnRowQuery::Open, TurnRowQuery::Invocation(inv.clone())] {
        ensure_equal("turns", &journal.read_turns(b, &query).await?, &vec![])?;
    }
    ensure_equal("the invocation", &journal.find_session_of_invocation(&of, &inv).await?, &None)?;
    for query in [
        WaitRowQuery::Pending(b.clone()),
        WaitRowQuery::PendingOf(of.clone(), 10),
        WaitRowQuery::Signal(b.clone(), signal()),
        WaitRowQuery::SignalOf(of.clone(), signal(), 10),
        WaitRowQuery::Invocation(of.clone(), inv.clone()),
    ] {
        ensure_equal("waits", &journal.read_waits(&query).await?, &vec![])?;
    }
    ensure_equal("the position", &journal.read_position(b, &inv).await?, &None)?;
    ensure_equal("records", &journal.read_turn_records(b, 1).await?, &vec![])?;
    for query in [UsageRowQuery::Session(b.clone()), UsageRowQuery::Tenant(of.clone())] {
        ensure_equal("the use of models", &journal.read_model_usage(&query).await?, &vec![])?;
    }
    ensure_equal("events", &read_all_events(stores, b).await?, &vec![])
}
