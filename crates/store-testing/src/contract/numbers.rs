//! Next free numbers: they only rise, and outlive the session.

use singletree_durable::{Counters, Result, RowMutation, SessionKey};

use super::ContractStores;
use super::bench::{StoreFactory, Verdict, ensure_equal};
use super::rows::{
    apply_mutations, create_session, make_counters, read_session, sample_head, session_key,
    session_key_in_tenant,
};

async fn read_session_counters(stores: &ContractStores, key: &SessionKey) -> Result<Option<Counters>> {
    Ok(read_session(stores, key).await?.map(|session| session.counters))
}

pub(super) async fn check_counters_rise(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, session_key("s"));
    create_session(&stores, &s, [RowMutation::Counters(make_counters(5, 6, 7, 8))]).await?;
    apply_mutations(&stores, &s, [RowMutation::Counters(make_counters(9, 1, 2, 3))]).await?;
    ensure_equal(
        "the counters",
        &read_session_counters(&stores, &s).await?,
        &Some(make_counters(9, 6, 7, 8)),
    )?;
    apply_mutations(&stores, &s, [RowMutation::Counters(make_counters(1, 9, 9, 9))]).await?;
    ensure_equal(
        "the counters",
        &read_session_counters(&stores, &s).await?,
        &Some(make_counters(9, 9, 9, 9)),
    )?;
    // In one batch with a head, in either order, as in most commits.
    apply_mutations(
        &stores,
        &s,
        [RowMutation::Head(sample_head(1)), RowMutation::Counters(make_counters(1, 10, 2, 3))],
    )
    .await?;
    ensure_equal(
        "the counters with a head",
        &read_session_counters(&stores, &s).await?,
        &Some(make_counters(9, 10, 9, 9)),
    )?;
    apply_mutations(
        &stores,
        &s,
        [RowMutation::Counters(make_counters(2, 3, 11, 1)), RowMutation::Head(sample_head(2))],
    )
    .await?;
    ensure_equal(
        "the counters before a head",
        &read_session_counters(&stores, &s).await?,
        &Some(make_counters(9, 10, 11, 9)),
    )
}

pub(super) async fn check_numbers_outlive(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s, others) = (bench.open().await?, session_key("s"), session_key_in_tenant("tenant-b", "s"));
    ensure_equal("of what never was", &stores.journal.read_counters(&s).await?, &Counters::default())?;
    create_session(&stores, &s, [RowMutation::Counters(make_counters(5, 6, 7, 8))]).await?;
    ensure_equal("of what is there", &stores.journal.read_counters(&s).await?, &make_counters(5, 6, 7, 8))?;
    apply_mutations(&stores, &s, [RowMutation::Delete]).await?;
    let stores = bench.reopen(stores).await?;
    ensure_equal(
        "of what was deleted",
        &stores.journal.read_counters(&s).await?,
        &make_counters(5, 6, 7, 8),
    )?;
    ensure_equal("of another tenant", &stores.journal.read_counters(&others).await?, &Counters::default())
}

pub(super) async fn check_numbers_go_on(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, session_key("s"));
    create_session(&stores, &s, [RowMutation::Counters(make_counters(5, 6, 7, 8))]).await?;
    apply_mutations(&stores, &s, [RowMutation::Delete]).await?;
    create_session(&stores, &s, []).await?;
    ensure_equal("made anew", &read_session_counters(&stores, &s).await?, &Some(make_counters(5, 6, 7, 8)))?;
    // In the batch that deletes the session, and by a writer that does not know the numbers.
    let writer = [
        RowMutation::Delete,
        RowMutation::Counters(make_counters(1, 9, 0, 0)),
        RowMutation::Head(sample_head(1)),
    ];
    apply_mutations(&stores, &s, writer).await?;
    ensure_equal(
        "deleted and made",
        &read_session_counters(&stores, &s).await?,
        &Some(make_counters(5, 9, 7, 8)),
    )?;
    apply_mutations(&stores, &s, [RowMutation::Delete]).await?;
    create_session(&stores, &s, [RowMutation::Counters(make_counters(6, 10, 7, 8))]).await?;
    apply_mutations(&stores, &s, [RowMutation::Delete]).await?;
    create_session(&stores, &s, []).await?;
    ensure_equal(
        "made for the fourth time",
        &read_session_counters(&stores, &s).await?,
        &Some(make_counters(6, 10, 7, 8)),
    )
}
