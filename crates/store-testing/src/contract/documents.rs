//! Documents.

use futures_util::FutureExt;
use futures_util::future::join_all;
use singletree_durable::{
    DocumentChange, DocumentKey, DocumentPrecondition, JsonDocument, Result, RowMutation, SessionId,
    StoredDocument, TenantId, Timestamp,
};

use super::ContractStores;
use super::bench::{StoreFactory, Verdict, refused, same};
use super::rows::{apply, at, json, key, key_of, make, tenant};

/// Returns the name of a document of the suite's first tenant.
fn named(kind: &str, id: &str) -> DocumentKey {
    DocumentKey::new(tenant("tenant-a"), kind, id)
}

fn session(id: &str) -> SessionId {
    key(id).session
}

/// The content of a document without its name.
#[derive(Debug, Clone, Default)]
struct DocumentContent {
    body: Option<JsonDocument>,
    session: Option<SessionId>,
    expires_at: Option<Timestamp>,
}

impl DocumentContent {
    fn text(text: &str) -> Self {
        Self { body: Some(json(text)), ..Self::default() }
    }

    fn of(session_id: &str) -> Self {
        Self { session: Some(session(session_id)), ..Self::text("1") }
    }

    fn until(millis: i64) -> Self {
        Self { expires_at: Some(at(millis)), ..Self::text("1") }
    }

    fn put(self, key: &DocumentKey, expect: DocumentPrecondition) -> DocumentChange {
        let body = self.body.unwrap_or_else(|| json("null"));
        DocumentChange::Write {
            key: key.clone(),
            expect,
            session: self.session,
            body,
            expires_at: self.expires_at,
        }
    }

    fn stored(self, key: &DocumentKey, version: u64) -> StoredDocument {
        let body = self.body.unwrap_or_else(|| json("null"));
        StoredDocument { key: key.clone(), session: self.session, body, version, expires_at: self.expires_at }
    }
}

async fn write(stores: &ContractStores, key: &DocumentKey, said: DocumentContent) -> Result<()> {
    stores.documents.change(vec![said.put(key, DocumentPrecondition::Any)]).await
}

async fn remove(stores: &ContractStores, key: &DocumentKey, expect: DocumentPrecondition) -> Result<()> {
    stores.documents.change(vec![DocumentChange::Remove { key: key.clone(), expect }]).await
}

/// Checks the document that is stored under a name.
async fn stands(
    stores: &ContractStores,
    what: &str,
    key: &DocumentKey,
    expected: Option<StoredDocument>,
) -> Verdict {
    same(what, &stores.documents.document(key).await?, &expected)
}

pub(super) async fn written(bench: &dyn StoreFactory) -> Verdict {
    let stores = bench.open().await?;
    let (plain, full) = (named("api_key", "a"), named("api_key", "é\n'"));
    stands(&stores, "what was not written", &plain, None).await?;
    write(&stores, &plain, DocumentContent::text(r#"{"a":[1,"x"]}"#)).await?;
    let said = DocumentContent {
        session: Some(session("s")),
        expires_at: Some(at(-5)),
        ..DocumentContent::text(r#""é\n""#)
    };
    write(&stores, &full, said.clone()).await?;
    stands(
        &stores,
        "the plain one",
        &plain,
        Some(DocumentContent::text(r#"{"a":[1,"x"]}"#).stored(&plain, 1)),
    )
    .await?;
    stands(&stores, "the full one", &full, Some(said.stored(&full, 1))).await?;
    stands(&stores, "another kind", &named("token", "a"), None).await
}

pub(super) async fn replaced(bench: &dyn StoreFactory) -> Verdict {
    let (stores, it) = (bench.open().await?, named("k", "a"));
    let first = DocumentContent {
        session: Some(session("s")),
        expires_at: Some(at(9)),
        ..DocumentContent::text("1")
    };
    write(&stores, &it, first).await?;
    write(&stores, &it, DocumentContent::text("2")).await?;
    stands(&stores, "the second", &it, Some(DocumentContent::text("2").stored(&it, 2))).await?;
    // The new version has neither the session nor the expiry of the first.
    same("what has expired", &stores.documents.expire(at(100), 10).await?, &0)?;
    make(&stores, &key("s"), [RowMutation::Delete]).await?;
    stores.documents.change(vec![DocumentContent::until(50).put(&it, DocumentPrecondition::Any); 2]).await?;
    stands(&stores, "the fourth", &it, Some(DocumentContent::until(50).stored(&it, 4))).await
}

pub(super) async fn removed(bench: &dyn StoreFactory) -> Verdict {
    let (stores, it, other) = (bench.open().await?, named("k", "a"), named("k", "b"));
    write(&stores, &it, DocumentContent::text("1")).await?;
    write(&stores, &other, DocumentContent::text("2")).await?;
    for _ in 0..2 {
        remove(&stores, &it, DocumentPrecondition::Any).await?;
        stands(&stores, "the removed one", &it, None).await?;
    }
    stands(&stores, "the other", &other, Some(DocumentContent::text("2").stored(&other, 1))).await?;
    // A document written after the removal is a new one.
    write(&stores, &it, DocumentContent::text("3")).await?;
    stands(&stores, "the new one", &it, Some(DocumentContent::text("3").stored(&it, 1))).await
}

pub(super) async fn expected(bench: &dyn StoreFactory) -> Verdict {
    let (stores, it) = (bench.open().await?, named("k", "a"));
    let put = |expect| stores.documents.change(vec![DocumentContent::text("1").put(&it, expect)]);
    refused("version 1 of none", &put(DocumentPrecondition::Version(1)).await)?;
    refused("version 0 of none", &put(DocumentPrecondition::Version(0)).await)?;
    refused("removing version 1 of none", &remove(&stores, &it, DocumentPrecondition::Version(1)).await)?;
    put(DocumentPrecondition::Absent).await?;
    refused("absent, of one", &put(DocumentPrecondition::Absent).await)?;
    refused("removing what should be absent", &remove(&stores, &it, DocumentPrecondition::Absent).await)?;
    put(DocumentPrecondition::Version(1)).await?;
    for version in [1, 3] {
        refused("another version", &put(DocumentPrecondition::Version(version)).await)?;
        refused(
            "removing another version",
            &remove(&stores, &it, DocumentPrecondition::Version(version)).await,
        )?;
    }
    remove(&stores, &it, DocumentPrecondition::Version(2)).await?;
    Ok(put(DocumentPrecondition::Absent).await?)
}

pub(super) async fn changes_whole(bench: &dyn StoreFactory) -> Verdict {
    let (stores, a, b) = (bench.open().await?, named("k", "a"), named("k", "b"));
    let unmet = vec![
        DocumentContent::text("1").put(&a, DocumentPrecondition::Absent),
        DocumentContent::text("1").put(&b, DocumentPrecondition::Version(1)),
    ];
    refused("an expectation that does not hold", &stores.documents.change(unmet).await)?;
    stands(&stores, "the first of changes that were refused", &a, None).await?;
    // Expectations are checked against the documents stored before the call.
    let both = vec![
        DocumentContent::text("1").put(&a, DocumentPrecondition::Absent),
        DocumentContent::text("2").put(&a, DocumentPrecondition::Absent),
        DocumentContent::text("1").put(&b, DocumentPrecondition::Absent),
        DocumentChange::Remove { key: b.clone(), expect: DocumentPrecondition::Any },
    ];
    stores.documents.change(both).await?;
    stands(&stores, "the last of two writes", &a, Some(DocumentContent::text("2").stored(&a, 2))).await?;
    stands(&stores, "what was removed at once", &b, None).await?;
    Ok(stores.documents.change(Vec::new()).await?)
}

pub(super) async fn decided_once(bench: &dyn StoreFactory) -> Verdict {
    let (stores, it) = (bench.open().await?, named("token", "single-use"));
    write(&stores, &it, DocumentContent::text("1")).await?;
    let take = || {
        stores.documents.change(vec![DocumentChange::Remove {
            key: it.clone(),
            expect: DocumentPrecondition::Version(1),
        }])
    };
    let answers = join_all((0..20).map(|_| take())).await;
    let (won, lost): (Vec<_>, Vec<_>) = answers.into_iter().partition(Result::is_ok);
    same("how many took it", &won.len(), &1)?;
    lost.iter().try_for_each(|it| refused("a late one", it))
}

pub(super) async fn never_dropped(bench: &dyn StoreFactory) -> Verdict {
    let stores = bench.open().await?;
    let put = |id: &str| {
        stores
            .documents
            .change(vec![DocumentContent::text("1").put(&named("k", id), DocumentPrecondition::Any)])
    };
    drop(put("a"));
    let mut polled = put("b");
    drop((&mut polled).now_or_never());
    drop(polled);
    // Changes land in order: when this one is answered, the earlier ones have landed.
    put("c").await?;
    same("the documents", &ids(&stores, "k", None, 9).await?, &vec!["a", "b", "c"])
}

async fn ids(
    stores: &ContractStores,
    kind: &str,
    past: Option<&str>,
    limit: u64,
) -> Result<Vec<&'static str>> {
    const KNOWN: [&str; 6] = ["", "a", "aa", "b", "c", "é"];
    let found = stores.documents.documents(&tenant("tenant-a"), kind, past, limit).await?;
    let known = |it: &StoredDocument| KNOWN.iter().find(|known| **known == it.key.id).copied();
    Ok(found.iter().map(|item| known(item).unwrap_or("another")).collect())
}

pub(super) async fn paged(bench: &dyn StoreFactory) -> Verdict {
    let stores = bench.open().await?;
    for id in ["b", "a", "é", "aa"] {
        write(&stores, &named("k", id), DocumentContent::text("1")).await?;
    }
    for (kind, id) in [("j", "z"), ("kk", "a"), ("l", "a"), ("", "a")] {
        write(&stores, &named(kind, id), DocumentContent::text("1")).await?;
    }
    for (past, limit, expected) in [
        (None, 100, vec!["a", "aa", "b", "é"]),
        (None, 2, vec!["a", "aa"]),
        (Some("a"), 2, vec!["aa", "b"]),
        (Some("ab"), 9, vec!["b", "é"]),
        (Some("é"), 9, vec![]),
        (None, 0, vec![]),
    ] {
        same(&format!("{limit} past {past:?}"), &ids(&stores, "k", past, limit).await?, &expected)?;
    }
    Ok(())
}

pub(super) async fn expired(bench: &dyn StoreFactory) -> Verdict {
    let stores = bench.open().await?;
    let others = DocumentKey::new(tenant("tenant-b"), "k", "x");
    for (key, until) in [(named("k", "a"), 30), (named("j", "a"), 10), (others.clone(), 20)] {
        write(&stores, &key, DocumentContent::until(until)).await?;
    }
    write(&stores, &named("k", "b"), DocumentContent::text("1")).await?;
    let expire = |before, limit| stores.documents.expire(at(before), limit);
    same("what ended before the first", &expire(10, 9).await?, &0)?;
    same("the first two, one by one", &(expire(30, 1).await?, expire(30, 9).await?), &(1, 1))?;
    stands(&stores, "another tenant's", &others, None).await?;
    same("what is left of the kind", &ids(&stores, "k", None, 9).await?, &vec!["a", "b"])?;
    same("the rest", &expire(i64::MAX, 9).await?, &1)?;
    same("what never ends", &ids(&stores, "k", None, 9).await?, &vec!["b"])
}

pub(super) async fn durable(bench: &dyn StoreFactory) -> Verdict {
    let (stores, it, gone) = (bench.open().await?, named("k", "a"), named("k", "b"));
    let blob = super::blobs::blob("1");
    write(&stores, &it, DocumentContent::until(7)).await?;
    write(&stores, &it, DocumentContent::until(8)).await?;
    write(&stores, &gone, DocumentContent::text("1")).await?;
    remove(&stores, &gone, DocumentPrecondition::Any).await?;
    stores.documents.keep_blob(&key("s"), blob.clone()).await?;
    let stores = bench.reopen(stores).await?;
    stands(&stores, "the document", &it, Some(DocumentContent::until(8).stored(&it, 2))).await?;
    stands(&stores, "the removed one", &gone, None).await?;
    let found = stores.documents.blob(&key("s"), &blob.digest).await?;
    same("the blob", &found, &Some(blob))
}

pub(super) async fn tenants_apart(bench: &dyn StoreFactory) -> Verdict {
    let stores = bench.open().await?;
    let in_b = |id: &str| DocumentKey::new(tenant("tenant-b"), "k", id);
    let b: TenantId = tenant("tenant-b");
    write(&stores, &named("k", "a"), DocumentContent::of("s")).await?;
    stands(&stores, "another's", &in_b("a"), None).await?;
    same("another's kind", &stores.documents.documents(&b, "k", None, 9).await?, &vec![])?;
    write(&stores, &in_b("a"), DocumentContent::of("s")).await?;
    stands(&stores, "its own", &in_b("a"), Some(DocumentContent::of("s").stored(&in_b("a"), 1))).await?;
    let blob = super::blobs::blob("1");
    stores.documents.keep_blob(&key("s"), blob.clone()).await?;
    let (a_s, b_s) = (key("s"), key_of("tenant-b", "s"));
    same("another's blob", &stores.documents.blob(&b_s, &blob.digest).await?, &None)?;
    same("its bytes", &stores.documents.blob_bytes(&b_s).await?, &0)?;
    make(&stores, &b_s, [RowMutation::Delete]).await?;
    remove(&stores, &in_b("a"), DocumentPrecondition::Any).await?;
    stands(
        &stores,
        "the first's",
        &named("k", "a"),
        Some(DocumentContent::of("s").stored(&named("k", "a"), 1)),
    )
    .await?;
    same("the first's blob", &stores.documents.blob(&a_s, &blob.digest).await?, &Some(blob))
}

pub(super) async fn of_session(bench: &dyn StoreFactory) -> Verdict {
    let stores = bench.open().await?;
    let (of_s, of_t, moved, free) = (named("k", "a"), named("k", "b"), named("k", "c"), named("k", "aa"));
    write(&stores, &of_s, DocumentContent::of("s")).await?;
    write(&stores, &of_t, DocumentContent::of("t")).await?;
    write(&stores, &moved, DocumentContent::of("s")).await?;
    write(&stores, &moved, DocumentContent::of("t")).await?;
    write(&stores, &free, DocumentContent::text("1")).await?;
    make(&stores, &key("s"), []).await?;
    apply(&stores, &key("s"), [RowMutation::Delete]).await?;
    same("what is left", &ids(&stores, "k", None, 9).await?, &vec!["aa", "b", "c"])?;
    // Also for a session that never existed. Another promise states that such a batch succeeds.
    drop(apply(&stores, &key("t"), [RowMutation::Delete]).await);
    same("what is left then", &ids(&stores, "k", None, 9).await?, &vec!["aa"])
}

pub(super) async fn of_batch(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s, it) = (bench.open().await?, key("s"), named("k", "a"));
    let put = |text: &str, millis: Option<i64>| RowMutation::Document {
        kind: "k".to_owned(),
        id: "a".to_owned(),
        body: json(text),
        expires_at: millis.map(at),
        outlives: false,
    };
    let said = |text: &str| DocumentContent { session: Some(session("s")), ..DocumentContent::text(text) };
    make(&stores, &s, [put("1", Some(5))]).await?;
    let first = DocumentContent { expires_at: Some(at(5)), ..said("1") };
    stands(&stores, "the first", &it, Some(first.stored(&it, 1))).await?;
    apply(&stores, &s, [put("2", None)]).await?;
    stands(&stores, "the second", &it, Some(said("2").stored(&it, 2))).await?;
    remove(&stores, &it, DocumentPrecondition::Version(2)).await?;
    apply(&stores, &s, [put("4", None), RowMutation::Delete]).await?;
    stands(&stores, "of a session that is deleted", &it, None).await
}

pub(super) async fn of_batch_outlives(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, key("s"));
    let put = |id: &str| RowMutation::Document {
        kind: "k".to_owned(),
        id: id.to_owned(),
        body: json("1"),
        expires_at: Some(at(5)),
        outlives: true,
    };
    let said = DocumentContent { expires_at: Some(at(5)), ..DocumentContent::text("1") };
    make(&stores, &s, [put("a")]).await?;
    apply(&stores, &s, [RowMutation::Delete, put("b")]).await?;
    for id in ["a", "b"] {
        let it = named("k", id);
        stands(&stores, id, &it, Some(DocumentContent { session: None, ..said.clone() }.stored(&it, 1)))
            .await?;
    }
    Ok(())
}
