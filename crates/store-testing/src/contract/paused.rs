//! Paused records.

use futures_util::future::join_all;
use singletree_durable::{PausedRecord, PausedStatus, Result};

use super::ContractStores;
use super::bench::{StoreFactory, Verdict, ensure_equal};
use super::rows::{invocation_named, json_document, tenant_named};

fn paused_record(status: PausedStatus, body: &str) -> PausedRecord {
    PausedRecord { status, body: json_document(body) }
}

fn suspended_record() -> PausedRecord {
    paused_record(PausedStatus::Suspended, r#"{"cursor":["a"]}"#)
}

async fn save_paused_record(stores: &ContractStores, name: &str, record: &PausedRecord) -> Result<()> {
    stores.paused.save(&tenant_named("tenant-a"), &invocation_named(name), record).await
}

async fn load_paused_record(stores: &ContractStores, name: &str) -> Result<Option<PausedRecord>> {
    stores.paused.load(&tenant_named("tenant-a"), &invocation_named(name)).await
}

async fn claim_paused_record(stores: &ContractStores, name: &str) -> Result<Option<PausedRecord>> {
    stores.paused.claim(&tenant_named("tenant-a"), &invocation_named(name)).await
}

async fn close_paused_record(stores: &ContractStores, name: &str, status: PausedStatus) -> Result<()> {
    stores.paused.close(&tenant_named("tenant-a"), &invocation_named(name), status).await
}

async fn delete_paused_record(stores: &ContractStores, name: &str) -> Result<()> {
    stores.paused.delete(&tenant_named("tenant-a"), &invocation_named(name)).await
}

const STATUSES: [PausedStatus; 4] =
    [PausedStatus::Suspended, PausedStatus::Resuming, PausedStatus::Completed, PausedStatus::Errored];

pub(super) async fn check_paused_loads(bench: &dyn StoreFactory) -> Verdict {
    let stores = bench.open().await?;
    for (name, status) in ["a", "b", "c", "d"].into_iter().zip(STATUSES) {
        let record = paused_record(status, &format!("{name:?}"));
        ensure_equal("an absent record", &load_paused_record(&stores, name).await?, &None)?;
        save_paused_record(&stores, name, &record).await?;
        ensure_equal("the record", &load_paused_record(&stores, name).await?, &Some(record))?;
    }
    Ok(())
}

pub(super) async fn check_paused_overwrites(bench: &dyn StoreFactory) -> Verdict {
    let stores = bench.open().await?;
    let other = paused_record(PausedStatus::Completed, "2");
    for record in [suspended_record(), other, suspended_record()] {
        save_paused_record(&stores, "inv", &record).await?;
        ensure_equal("the record", &load_paused_record(&stores, "inv").await?, &Some(record))?;
    }
    Ok(())
}

pub(super) async fn check_paused_claimed(bench: &dyn StoreFactory) -> Verdict {
    let stores = bench.open().await?;
    save_paused_record(&stores, "inv", &suspended_record()).await?;
    save_paused_record(&stores, "other", &suspended_record()).await?;
    ensure_equal(
        "the claimed record",
        &claim_paused_record(&stores, "inv").await?,
        &Some(suspended_record()),
    )?;
    let resuming = PausedRecord { status: PausedStatus::Resuming, ..suspended_record() };
    ensure_equal("the record after", &load_paused_record(&stores, "inv").await?, &Some(resuming))?;
    ensure_equal("the other record", &load_paused_record(&stores, "other").await?, &Some(suspended_record()))
}

pub(super) async fn check_paused_claim_refused(bench: &dyn StoreFactory) -> Verdict {
    let stores = bench.open().await?;
    ensure_equal("a claim of nothing", &claim_paused_record(&stores, "none").await?, &None)?;
    ensure_equal("nothing", &load_paused_record(&stores, "none").await?, &None)?;
    for (name, status) in
        [("a", PausedStatus::Resuming), ("b", PausedStatus::Completed), ("c", PausedStatus::Errored)]
    {
        save_paused_record(&stores, name, &paused_record(status, "1")).await?;
        ensure_equal("a claim", &claim_paused_record(&stores, name).await?, &None)?;
        let found = load_paused_record(&stores, name).await?.map(|it| it.status == status);
        ensure_equal("whether the status is as it was", &found, &Some(true))?;
    }
    Ok(())
}

pub(super) async fn check_paused_claimed_once(bench: &dyn StoreFactory) -> Verdict {
    let stores = bench.open().await?;
    save_paused_record(&stores, "inv", &suspended_record()).await?;
    let (of, name) = (tenant_named("tenant-a"), invocation_named("inv"));
    let answers = join_all((0..20).map(|_| stores.paused.claim(&of, &name))).await;
    let answers = answers.into_iter().collect::<Result<Vec<_>>>()?;
    ensure_equal("how many claims won", &answers.iter().flatten().count(), &1)
}

pub(super) async fn check_paused_closed(bench: &dyn StoreFactory) -> Verdict {
    let stores = bench.open().await?;
    save_paused_record(&stores, "inv", &suspended_record()).await?;
    for status in [PausedStatus::Completed, PausedStatus::Suspended, PausedStatus::Resuming] {
        close_paused_record(&stores, "inv", status).await?;
        let expected = PausedRecord { status, ..suspended_record() };
        ensure_equal("the record", &load_paused_record(&stores, "inv").await?, &Some(expected))?;
    }
    Ok(())
}

pub(super) async fn check_paused_close_absent(bench: &dyn StoreFactory) -> Verdict {
    let stores = bench.open().await?;
    close_paused_record(&stores, "inv", PausedStatus::Completed).await?;
    ensure_equal("the record", &load_paused_record(&stores, "inv").await?, &None)
}

pub(super) async fn check_paused_deleted(bench: &dyn StoreFactory) -> Verdict {
    let stores = bench.open().await?;
    save_paused_record(&stores, "inv", &suspended_record()).await?;
    save_paused_record(&stores, "other", &suspended_record()).await?;
    delete_paused_record(&stores, "inv").await?;
    ensure_equal("the deleted record", &load_paused_record(&stores, "inv").await?, &None)?;
    ensure_equal("whether the other is there", &load_paused_record(&stores, "other").await?.is_some(), &true)
}

pub(super) async fn check_paused_delete_twice(bench: &dyn StoreFactory) -> Verdict {
    let stores = bench.open().await?;
    delete_paused_record(&stores, "inv").await?;
    save_paused_record(&stores, "inv", &suspended_record()).await?;
    delete_paused_record(&stores, "inv").await?;
    Ok(delete_paused_record(&stores, "inv").await?)
}

pub(super) async fn check_paused_tenants_apart(bench: &dyn StoreFactory) -> Verdict {
    let stores = bench.open().await?;
    let (paused, of, name) = (&stores.paused, tenant_named("tenant-b"), invocation_named("inv"));
    save_paused_record(&stores, "inv", &suspended_record()).await?;
    ensure_equal("the other's record", &paused.load(&of, &name).await?, &None)?;
    ensure_equal("the other's claim", &paused.claim(&of, &name).await?, &None)?;
    paused.save(&of, &name, &paused_record(PausedStatus::Suspended, "2")).await?;
    paused.close(&of, &name, PausedStatus::Resuming).await?;
    paused.delete(&of, &name).await?;
    ensure_equal("the record", &load_paused_record(&stores, "inv").await?, &Some(suspended_record()))
}

pub(super) async fn check_paused_durable(bench: &dyn StoreFactory) -> Verdict {
    let stores = bench.open().await?;
    save_paused_record(&stores, "inv", &suspended_record()).await?;
    let stores = bench.reopen(stores).await?;
    ensure_equal("the record", &load_paused_record(&stores, "inv").await?, &Some(suspended_record()))
}
