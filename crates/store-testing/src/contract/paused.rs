//! Paused records.

use futures_util::future::join_all;
use singletree_durable::{PausedRecord, PausedStatus, Result};

use super::ContractStores;
use super::bench::{StoreFactory, Verdict, same};
use super::rows::{invocation, json, tenant};

fn record(status: PausedStatus, body: &str) -> PausedRecord {
    PausedRecord { status, body: json(body) }
}

fn suspended() -> PausedRecord {
    record(PausedStatus::Suspended, r#"{"cursor":["a"]}"#)
}

async fn save(stores: &ContractStores, name: &str, record: &PausedRecord) -> Result<()> {
    stores.paused.save(&tenant("tenant-a"), &invocation(name), record).await
}

async fn load(stores: &ContractStores, name: &str) -> Result<Option<PausedRecord>> {
    stores.paused.load(&tenant("tenant-a"), &invocation(name)).await
}

async fn claim(stores: &ContractStores, name: &str) -> Result<Option<PausedRecord>> {
    stores.paused.claim(&tenant("tenant-a"), &invocation(name)).await
}

async fn close(stores: &ContractStores, name: &str, status: PausedStatus) -> Result<()> {
    stores.paused.close(&tenant("tenant-a"), &invocation(name), status).await
}

async fn delete(stores: &ContractStores, name: &str) -> Result<()> {
    stores.paused.delete(&tenant("tenant-a"), &invocation(name)).await
}

const STATUSES: [PausedStatus; 4] =
    [PausedStatus::Suspended, PausedStatus::Resuming, PausedStatus::Completed, PausedStatus::Errored];

pub(super) async fn loads(bench: &dyn StoreFactory) -> Verdict {
    let stores = bench.open().await?;
    for (name, status) in ["a", "b", "c", "d"].into_iter().zip(STATUSES) {
        let record = record(status, &format!("{name:?}"));
        same("an absent record", &load(&stores, name).await?, &None)?;
        save(&stores, name, &record).await?;
        same("the record", &load(&stores, name).await?, &Some(record))?;
    }
    Ok(())
}

pub(super) async fn overwrites(bench: &dyn StoreFactory) -> Verdict {
    let stores = bench.open().await?;
    let other = record(PausedStatus::Completed, "2");
    for record in [suspended(), other, suspended()] {
        save(&stores, "inv", &record).await?;
        same("the record", &load(&stores, "inv").await?, &Some(record))?;
    }
    Ok(())
}

pub(super) async fn claimed(bench: &dyn StoreFactory) -> Verdict {
    let stores = bench.open().await?;
    save(&stores, "inv", &suspended()).await?;
    save(&stores, "other", &suspended()).await?;
    same("the claimed record", &claim(&stores, "inv").await?, &Some(suspended()))?;
    let resuming = PausedRecord { status: PausedStatus::Resuming, ..suspended() };
    same("the record after", &load(&stores, "inv").await?, &Some(resuming))?;
    same("the other record", &load(&stores, "other").await?, &Some(suspended()))
}

pub(super) async fn claim_refused(bench: &dyn StoreFactory) -> Verdict {
    let stores = bench.open().await?;
    same("a claim of nothing", &claim(&stores, "none").await?, &None)?;
    same("nothing", &load(&stores, "none").await?, &None)?;
    for (name, status) in
        [("a", PausedStatus::Resuming), ("b", PausedStatus::Completed), ("c", PausedStatus::Errored)]
    {
        save(&stores, name, &record(status, "1")).await?;
        same("a claim", &claim(&stores, name).await?, &None)?;
        let found = load(&stores, name).await?.map(|it| it.status == status);
        same("whether the status is as it was", &found, &Some(true))?;
    }
    Ok(())
}

pub(super) async fn claimed_once(bench: &dyn StoreFactory) -> Verdict {
    let stores = bench.open().await?;
    save(&stores, "inv", &suspended()).await?;
    let (of, name) = (tenant("tenant-a"), invocation("inv"));
    let answers = join_all((0..20).map(|_| stores.paused.claim(&of, &name))).await;
    let answers = answers.into_iter().collect::<Result<Vec<_>>>()?;
    same("how many claims won", &answers.iter().flatten().count(), &1)
}

pub(super) async fn closed(bench: &dyn StoreFactory) -> Verdict {
    let stores = bench.open().await?;
    save(&stores, "inv", &suspended()).await?;
    for status in [PausedStatus::Completed, PausedStatus::Suspended, PausedStatus::Resuming] {
        close(&stores, "inv", status).await?;
        let expected = PausedRecord { status, ..suspended() };
        same("the record", &load(&stores, "inv").await?, &Some(expected))?;
    }
    Ok(())
}

pub(super) async fn close_absent(bench: &dyn StoreFactory) -> Verdict {
    let stores = bench.open().await?;
    close(&stores, "inv", PausedStatus::Completed).await?;
    same("the record", &load(&stores, "inv").await?, &None)
}

pub(super) async fn deleted(bench: &dyn StoreFactory) -> Verdict {
    let stores = bench.open().await?;
    save(&stores, "inv", &suspended()).await?;
    save(&stores, "other", &suspended()).await?;
    delete(&stores, "inv").await?;
    same("the deleted record", &load(&stores, "inv").await?, &None)?;
    same("whether the other is there", &load(&stores, "other").await?.is_some(), &true)
}

pub(super) async fn delete_idempotent(bench: &dyn StoreFactory) -> Verdict {
    let stores = bench.open().await?;
    delete(&stores, "inv").await?;
    save(&stores, "inv", &suspended()).await?;
    delete(&stores, "inv").await?;
    Ok(delete(&stores, "inv").await?)
}

pub(super) async fn tenants_apart(bench: &dyn StoreFactory) -> Verdict {
    let stores = bench.open().await?;
    let (paused, of, name) = (&stores.paused, tenant("tenant-b"), invocation("inv"));
    save(&stores, "inv", &suspended()).await?;
    same("the other's record", &paused.load(&of, &name).await?, &None)?;
    same("the other's claim", &paused.claim(&of, &name).await?, &None)?;
    paused.save(&of, &name, &record(PausedStatus::Suspended, "2")).await?;
    paused.close(&of, &name, PausedStatus::Resuming).await?;
    paused.delete(&of, &name).await?;
    same("the record", &load(&stores, "inv").await?, &Some(suspended()))
}

pub(super) async fn durable(bench: &dyn StoreFactory) -> Verdict {
    let stores = bench.open().await?;
    save(&stores, "inv", &suspended()).await?;
    let stores = bench.reopen(stores).await?;
    same("the record", &load(&stores, "inv").await?, &Some(suspended()))
}
