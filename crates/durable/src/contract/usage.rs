//! Usage of models.

use super::Stores;
use super::bench::{Bench, Verdict, same};
use super::rows::{apply, head, key, key_of, make, tenant, used};
use crate::{Put, Result, SessionKey, UsageOf, UsageRow};

async fn of_session(stores: &Stores, key: &SessionKey) -> Result<Vec<UsageRow>> {
    stores.journal.usage(&UsageOf::Session(key.clone())).await
}

async fn of_whole_tenant(stores: &Stores, name: &str) -> Result<Vec<UsageRow>> {
    stores.journal.usage(&UsageOf::Tenant(tenant(name))).await
}

pub(super) async fn adds(bench: &dyn Bench) -> Verdict {
    let (stores, s, t) = (bench.open().await?, key("s"), key("t"));
    same("nobody's use", &of_session(&stores, &s).await?, &vec![])?;
    make(&stores, &s, [Put::Usage(used("b", 1))]).await?;
    apply(&stores, &s, [Put::Usage(used("a", 2)), Put::Usage(used("b", 3))]).await?;
    make(&stores, &t, [Put::Usage(used("b", 7))]).await?;
    same("the use", &of_session(&stores, &s).await?, &vec![used("a", 2), used("b", 4)])?;
    apply(&stores, &s, [Put::Delete]).await?;
    same("a deleted session's use", &of_session(&stores, &s).await?, &vec![])?;
    // One that is made anew has used nothing.
    apply(&stores, &s, [Put::Head(head(1))]).await?;
    same("the use of a session made anew", &of_session(&stores, &s).await?, &vec![])?;
    same("another's use", &of_session(&stores, &t).await?, &vec![used("b", 7)])
}

pub(super) async fn of_tenant(bench: &dyn Bench) -> Verdict {
    let stores = bench.open().await?;
    make(&stores, &key("s"), [Put::Usage(used("b", 1))]).await?;
    make(&stores, &key("t"), [Put::Usage(used("b", 2)), Put::Usage(used("a", 5))]).await?;
    make(&stores, &key_of("tenant-b", "s"), [Put::Usage(used("b", 9))]).await?;
    let all = vec![used("a", 5), used("b", 3)];
    same("the tenant's use", &of_whole_tenant(&stores, "tenant-a").await?, &all)?;
    apply(&stores, &key("t"), [Put::Delete]).await?;
    same("the use after a deletion", &of_whole_tenant(&stores, "tenant-a").await?, &all)?;
    same("another tenant's", &of_whole_tenant(&stores, "tenant-b").await?, &vec![used("b", 9)])?;
    same("nobody's", &of_whole_tenant(&stores, "tenant-c").await?, &vec![])
}
