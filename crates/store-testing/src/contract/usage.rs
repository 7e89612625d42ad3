//! Usage of models.

use singletree_durable::{Result, RowMutation, SessionKey, UsageRow, UsageRowQuery};

use super::ContractStores;
use super::bench::{StoreFactory, Verdict, ensure_equal};
use super::rows::{
    apply_mutations, create_session, sample_head, sample_usage, session_key, session_key_in_tenant,
    tenant_named,
};

async fn read_session_usage(stores: &ContractStores, key: &SessionKey) -> Result<Vec<UsageRow>> {
    stores.journal.read_model_usage(&UsageRowQuery::Session(key.clone())).await
}

async fn read_tenant_usage(stores: &ContractStores, name: &str) -> Result<Vec<UsageRow>> {
    stores.journal.read_model_usage(&UsageRowQuery::Tenant(tenant_named(name))).await
}

pub(super) async fn check_usage_adds(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s, t) = (bench.open().await?, session_key("s"), session_key("t"));
    ensure_equal("nobody's use", &read_session_usage(&stores, &s).await?, &vec![])?;
    create_session(&stores, &s, [RowMutation::Usage(sample_usage("b", 1))]).await?;
    apply_mutations(
        &stores,
        &s,
        [RowMutation::Usage(sample_usage("a", 2)), RowMutation::Usage(sample_usage("b", 3))],
    )
    .await?;
    create_session(&stores, &t, [RowMutation::Usage(sample_usage("b", 7))]).await?;
    ensure_equal(
        "the use",
        &read_session_usage(&stores, &s).await?,
        &vec![sample_usage("a", 2), sample_usage("b", 4)],
    )?;
    apply_mutations(&stores, &s, [RowMutation::Delete]).await?;
    ensure_equal("a deleted session's use", &read_session_usage(&stores, &s).await?, &vec![])?;
    // A session that is created again has no usage.
    apply_mutations(&stores, &s, [RowMutation::Head(sample_head(1))]).await?;
    ensure_equal("the use of a session made anew", &read_session_usage(&stores, &s).await?, &vec![])?;
    ensure_equal("another's use", &read_session_usage(&stores, &t).await?, &vec![sample_usage("b", 7)])
}

pub(super) async fn check_usage_of_tenant(bench: &dyn StoreFactory) -> Verdict {
    let stores = bench.open().await?;
    create_session(&stores, &session_key("s"), [RowMutation::Usage(sample_usage("b", 1))]).await?;
    create_session(
        &stores,
        &session_key("t"),
        [RowMutation::Usage(sample_usage("b", 2)), RowMutation::Usage(sample_usage("a", 5))],
    )
    .await?;
    create_session(
        &stores,
        &session_key_in_tenant("tenant-b", "s"),
        [RowMutation::Usage(sample_usage("b", 9))],
    )
    .await?;
    let all = vec![sample_usage("a", 5), sample_usage("b", 3)];
    ensure_equal("the tenant's use", &read_tenant_usage(&stores, "tenant-a").await?, &all)?;
    apply_mutations(&stores, &session_key("t"), [RowMutation::Delete]).await?;
    ensure_equal("the use after a deletion", &read_tenant_usage(&stores, "tenant-a").await?, &all)?;
    ensure_equal(
        "another tenant's",
        &read_tenant_usage(&stores, "tenant-b").await?,
        &vec![sample_usage("b", 9)],
    )?;
    ensure_equal("nobody's", &read_tenant_usage(&stores, "tenant-c").await?, &vec![])
}
