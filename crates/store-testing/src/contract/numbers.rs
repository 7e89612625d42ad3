//! Next free numbers: they only rise, and outlive the session.

use singletree_durable::{Counters, Result, RowMutation, SessionKey};

use super::ContractStores;
use super::bench::{StoreFactory, Verdict, same};
use super::rows::{apply, counters, head, key, key_of, make, session};

async fn counted(stores: &ContractStores, key: &SessionKey) -> Result<Option<Counters>> {
    Ok(session(stores, key).await?.map(|session| session.counters))
}

pub(super) async fn counters_rise(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, key("s"));
    make(&stores, &s, [RowMutation::Counters(counters(5, 6, 7, 8))]).await?;
    apply(&stores, &s, [RowMutation::Counters(counters(9, 1, 2, 3))]).await?;
    same("the counters", &counted(&stores, &s).await?, &Some(counters(9, 6, 7, 8)))?;
    apply(&stores, &s, [RowMutation::Counters(counters(1, 9, 9, 9))]).await?;
    same("the counters", &counted(&stores, &s).await?, &Some(counters(9, 9, 9, 9)))?;
    // In one batch with a head, in either order, as in most commits.
    apply(&stores, &s, [RowMutation::Head(head(1)), RowMutation::Counters(counters(1, 10, 2, 3))]).await?;
    same("the counters with a head", &counted(&stores, &s).await?, &Some(counters(9, 10, 9, 9)))?;
    apply(&stores, &s, [RowMutation::Counters(counters(2, 3, 11, 1)), RowMutation::Head(head(2))]).await?;
    same("the counters before a head", &counted(&stores, &s).await?, &Some(counters(9, 10, 11, 9)))
}

pub(super) async fn numbers_outlive(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s, others) = (bench.open().await?, key("s"), key_of("tenant-b", "s"));
    same("of what never was", &stores.journal.numbers(&s).await?, &Counters::default())?;
    make(&stores, &s, [RowMutation::Counters(counters(5, 6, 7, 8))]).await?;
    same("of what is there", &stores.journal.numbers(&s).await?, &counters(5, 6, 7, 8))?;
    apply(&stores, &s, [RowMutation::Delete]).await?;
    let stores = bench.reopen(stores).await?;
    same("of what was deleted", &stores.journal.numbers(&s).await?, &counters(5, 6, 7, 8))?;
    same("of another tenant", &stores.journal.numbers(&others).await?, &Counters::default())
}

pub(super) async fn numbers_go_on(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, key("s"));
    make(&stores, &s, [RowMutation::Counters(counters(5, 6, 7, 8))]).await?;
    apply(&stores, &s, [RowMutation::Delete]).await?;
    make(&stores, &s, []).await?;
    same("made anew", &counted(&stores, &s).await?, &Some(counters(5, 6, 7, 8)))?;
    // In the batch that deletes the session, and by a writer that does not know the numbers.
    let writer =
        [RowMutation::Delete, RowMutation::Counters(counters(1, 9, 0, 0)), RowMutation::Head(head(1))];
    apply(&stores, &s, writer).await?;
    same("deleted and made", &counted(&stores, &s).await?, &Some(counters(5, 9, 7, 8)))?;
    apply(&stores, &s, [RowMutation::Delete]).await?;
    make(&stores, &s, [RowMutation::Counters(counters(6, 10, 7, 8))]).await?;
    apply(&stores, &s, [RowMutation::Delete]).await?;
    make(&stores, &s, []).await?;
    same("made for the fourth time", &counted(&stores, &s).await?, &Some(counters(6, 10, 7, 8)))
}
