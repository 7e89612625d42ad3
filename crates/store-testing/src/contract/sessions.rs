//! Deleting and listing session records.

use singletree_durable::{ExpectedVersion, Result, SessionFilter, SessionKey, SessionRecord, SessionSummary};

use super::ContractStores;
use super::bench::{StoreFactory, Verdict, ensure_equal};
use super::rows::{session_key, session_key_in_tenant, tenant_named, time_at_millis};
use super::saves::session_record;

async fn save_record(stores: &ContractStores, key: &SessionKey, record: &SessionRecord) -> Result<()> {
    let stored = stores.sessions.load(key).await?;
    let expected = stored.map_or(ExpectedVersion::Absent, |(_, version)| ExpectedVersion::Exactly(version));
    stores.sessions.save(key, record, expected).await?;
    Ok(())
}

async fn is_stored(stores: &ContractStores, key: &SessionKey) -> Result<bool> {
    Ok(stores.sessions.load(key).await?.is_some())
}

async fn list_sessions(
    stores: &ContractStores,
    of: &str,
    filter: SessionFilter,
) -> Result<Vec<SessionSummary>> {
    stores.sessions.list(&tenant_named(of), &filter).await
}

pub(super) async fn check_session_deleted(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, session_key("s"));
    save_record(&stores, &s, &session_record("one", "[1]")).await?;
    stores.sessions.delete(&s).await?;
    ensure_equal("whether it is stored", &is_stored(&stores, &s).await?, &false)
}

pub(super) async fn check_session_delete_twice(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, session_key("s"));
    stores.sessions.delete(&s).await?;
    save_record(&stores, &s, &session_record("one", "[1]")).await?;
    stores.sessions.delete(&s).await?;
    Ok(stores.sessions.delete(&s).await?)
}

pub(super) async fn check_session_tenants_apart(bench: &dyn StoreFactory) -> Verdict {
    let (stores, a, b) = (bench.open().await?, session_key("s"), session_key_in_tenant("tenant-b", "s"));
    save_record(&stores, &a, &session_record("of a", "[1]")).await?;
    ensure_equal("whether the other has it", &is_stored(&stores, &b).await?, &false)?;
    let all = list_sessions(&stores, "tenant-b", SessionFilter::default()).await?;
    ensure_equal("the other's listing", &all, &vec![])?;
    stores.sessions.save(&b, &session_record("of b", "[2]"), ExpectedVersion::Absent).await?;
    stores.sessions.delete(&b).await?;
    ensure_equal("whether it is still stored", &is_stored(&stores, &a).await?, &true)
}

pub(super) async fn check_list_ordered(bench: &dyn StoreFactory) -> Verdict {
    let stores = bench.open().await?;
    for name in ["d", "b", "e", "a", "c"] {
        save_record(&stores, &session_key(name), &session_record(name, "[1]")).await?;
    }
    let all = list_sessions(&stores, "tenant-a", SessionFilter::default()).await?;
    let all = all.into_iter().map(|item| item.key).collect();
    ensure_equal("the listing", &all, &["a", "b", "c", "d", "e"].map(session_key).to_vec())
}

pub(super) async fn check_list_summaries(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, session_key("s"));
    save_record(&stores, &s, &session_record("one", "[1]")).await?;
    let later = SessionRecord {
        schema_version: "v2".to_owned(),
        updated_at: time_at_millis(5_000),
        ..session_record("two", "[]")
    };
    save_record(&stores, &s, &later).await?;
    let summary = SessionSummary {
        key: s,
        schema_version: "v2".to_owned(),
        created_at: time_at_millis(1_000),
        updated_at: time_at_millis(5_000),
    };
    ensure_equal(
        "the listing",
        &list_sessions(&stores, "tenant-a", SessionFilter::default()).await?,
        &vec![summary],
    )
}

pub(super) async fn check_list_filters(bench: &dyn StoreFactory) -> Verdict {
    let stores = bench.open().await?;
    // Two sessions; the first one is then written again.
    for (name, version, millis) in [("a", "v1", 1_000), ("b", "v2", 2_000), ("a", "v1", 3_000)] {
        let record = SessionRecord {
            schema_version: version.to_owned(),
            updated_at: time_at_millis(millis),
            ..session_record(name, "[]")
        };
        save_record(&stores, &session_key(name), &record).await?;
    }
    let updated =
        |millis| SessionFilter { updated_after: Some(time_at_millis(millis)), ..Default::default() };
    let created =
        |millis| SessionFilter { created_after: Some(time_at_millis(millis)), ..Default::default() };
    let schema = |it: &str| SessionFilter { schema_version: Some(it.to_owned()), ..Default::default() };
    for (filter, expected) in [
        (updated(2_500), vec!["a"]),
        (updated(3_000), vec![]),
        (created(1_500), vec!["b"]),
        (created(2_000), vec![]),
        (schema("v1"), vec!["a"]),
        (schema("v3"), vec![]),
        (SessionFilter { schema_version: Some("v2".to_owned()), ..updated(2_500) }, vec![]),
    ] {
        let found = list_sessions(&stores, "tenant-a", filter.clone()).await?;
        let found = found.into_iter().map(|item| item.key).collect();
        let expected = expected.into_iter().map(session_key).collect::<Vec<_>>();
        ensure_equal(&format!("the listing by {filter:?}"), &found, &expected)?;
    }
    Ok(())
}
