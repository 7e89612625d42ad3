//! Usage of models.

use singletree_durable::{Result, RowMutation, SessionKey, UsageRow, UsageRowQuery};

use super::ContractStores;
use super::bench::{StoreFactory, Verdict, same};
use super::rows::{apply, head, key, key_of, make, tenant, used};

async fn of_session(stores: &ContractStores, key: &SessionKey) -> Result<Vec<UsageRow>> {
    stores.journal.usage(&UsageRowQuery::Session(key.clone())).await
}

async fn of_whole_tenant(stores: &ContractStores, name: &str) -> Result<Vec<UsageRow>> {
    stores.journal.usage(&UsageRowQuery::Tenant(tenant(name))).await
}

pub(super) async fn adds(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s, t) = (bench.open().await?, key("s"), key("t"));
    same("nobody's use", &of_session(&stores, &s).await?, &vec![])?;
    make(&stores, &s, [RowMutation::Usage(used("b", 1))]).await?;
    apply(&stores, &s, [RowMutation::Usage(used("a", 2)), RowMutation::Usage(used("b", 3))]).await?;
    make(&stores, &t, [RowMutation::Usage(used("b", 7))]).await?;
    same("the use", &of_session(&stores, &s).await?, &vec![used("a", 2), used("b", 4)])?;
    apply(&stores, &s, [RowMutation::Delete]).await?;
    same("a deleted session's use", &of_session(&stores, &s).await?, &vec![])?;
    // A session that is created again has no usage.
    apply(&stores, &s, [RowMutation::Head(head(1))]).await?;
    same("the use of a session made anew", &of_session(&stores, &s).await?, &vec![])?;
    same("another's use", &of_session(&stores, &t).await?, &vec![used("b", 7)])
}

pub(super) async fn of_tenant(bench: &dyn StoreFactory) -> Verdict {
    let stores = bench.open().await?;
    make(&stores, &key("s"), [RowMutation::Usage(used("b", 1))]).await?;
    make(&stores, &key("t"), [RowMutation::Usage(used("b", 2)), RowMutation::Usage(used("a", 5))]).await?;
    make(&stores, &key_of("tenant-b", "s"), [RowMutation::Usage(used("b", 9))]).await?;
    let all = vec![used("a", 5), used("b", 3)];
    same("the tenant's use", &of_whole_tenant(&stores, "tenant-a").await?, &all)?;
    apply(&stores, &key("t"), [RowMutation::Delete]).await?;
    same("the use after a deletion", &of_whole_tenant(&stores, "tenant-a").await?, &all)?;
    same("another tenant's", &of_whole_tenant(&stores, "tenant-b").await?, &vec![used("b", 9)])?;
    same("nobody's", &of_whole_tenant(&stores, "tenant-c").await?, &vec![])
}
