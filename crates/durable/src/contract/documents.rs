//! Documents.

use futures_util::FutureExt;
use futures_util::future::join_all;

use super::Stores;
use super::bench::{Bench, Verdict, refused, same};
use super::rows::{apply, at, json, key, key_of, make, tenant};
use crate::{Change, Document, DocumentKey, Expect, Json, Put, Result, SessionId, TenantId, Timestamp};

/// Returns the name of a document of the suite's first tenant.
fn named(kind: &str, id: &str) -> DocumentKey {
    DocumentKey::new(tenant("tenant-a"), kind, id)
}

fn session(id: &str) -> SessionId {
    key(id).session
}

/// The content of a document without its name.
#[derive(Debug, Clone, Default)]
struct Said {
    body: Option<Json>,
    session: Option<SessionId>,
    expires_at: Option<Timestamp>,
}

impl Said {
    fn text(text: &str) -> Self {
        Self { body: Some(json(text)), ..Self::default() }
    }

    fn of(session_id: &str) -> Self {
        Self { session: Some(session(session_id)), ..Self::text("1") }
    }

    fn until(millis: i64) -> Self {
        Self { expires_at: Some(at(millis)), ..Self::text("1") }
    }

    fn put(self, key: &DocumentKey, expect: Expect) -> Change {
        let body = self.body.unwrap_or_else(|| json("null"));
        Change::Write { key: key.clone(), expect, session: self.session, body, expires_at: self.expires_at }
    }

    fn stored(self, key: &DocumentKey, version: u64) -> Document {
        let body = self.body.unwrap_or_else(|| json("null"));
        Document { key: key.clone(), session: self.session, body, version, expires_at: self.expires_at }
    }
}

async fn write(stores: &Stores, key: &DocumentKey, said: Said) -> Result<()> {
    stores.documents.change(vec![said.put(key, Expect::Any)]).await
}

async fn remove(stores: &Stores, key: &DocumentKey, expect: Expect) -> Result<()> {
    stores.documents.change(vec![Change::Remove { key: key.clone(), expect }]).await
}

/// Checks the document that is stored under a name.
async fn stands(stores: &Stores, what: &str, key: &DocumentKey, expected: Option<Document>) -> Verdict {
    same(what, &stores.documents.document(key).await?, &expected)
}

pub(super) async fn written(bench: &dyn Bench) -> Verdict {
    let stores = bench.open().await?;
    let (plain, full) = (named("api_key", "a"), named("api_key", "é\n'"));
    stands(&stores, "what was not written", &plain, None).await?;
    write(&stores, &plain, Said::text(r#"{"a":[1,"x"]}"#)).await?;
    let said = Said { session: Some(session("s")), expires_at: Some(at(-5)), ..Said::text(r#""é\n""#) };
    write(&stores, &full, said.clone()).await?;
    stands(&stores, "the plain one", &plain, Some(Said::text(r#"{"a":[1,"x"]}"#).stored(&plain, 1))).await?;
    stands(&stores, "the full one", &full, Some(said.stored(&full, 1))).await?;
    stands(&stores, "another kind", &named("token", "a"), None).await
}

pub(super) async fn replaced(bench: &dyn Bench) -> Verdict {
    let (stores, it) = (bench.open().await?, named("k", "a"));
    let first = Said { session: Some(session("s")), expires_at: Some(at(9)), ..Said::text("1") };
    write(&stores, &it, first).await?;
    write(&stores, &it, Said::text("2")).await?;
    stands(&stores, "the second", &it, Some(Said::text("2").stored(&it, 2))).await?;
    // The new version has neither the session nor the expiry of the first.
    same("what has expired", &stores.documents.expire(at(100), 10).await?, &0)?;
    make(&stores, &key("s"), [Put::Delete]).await?;
    stores.documents.change(vec![Said::until(50).put(&it, Expect::Any); 2]).await?;
    stands(&stores, "the fourth", &it, Some(Said::until(50).stored(&it, 4))).await
}

pub(super) async fn removed(bench: &dyn Bench) -> Verdict {
    let (stores, it, other) = (bench.open().await?, named("k", "a"), named("k", "b"));
    write(&stores, &it, Said::text("1")).await?;
    write(&stores, &other, Said::text("2")).await?;
    for _ in 0..2 {
        remove(&stores, &it, Expect::Any).await?;
        stands(&stores, "the removed one", &it, None).await?;
    }
    stands(&stores, "the other", &other, Some(Said::text("2").stored(&other, 1))).await?;
    // A document written after the removal is a new one.
    write(&stores, &it, Said::text("3")).await?;
    stands(&stores, "the new one", &it, Some(Said::text("3").stored(&it, 1))).await
}

pub(super) async fn expected(bench: &dyn Bench) -> Verdict {
    let (stores, it) = (bench.open().await?, named("k", "a"));
    let put = |expect| stores.documents.change(vec![Said::text("1").put(&it, expect)]);
    refused("version 1 of none", &put(Expect::Version(1)).await)?;
    refused("version 0 of none", &put(Expect::Version(0)).await)?;
    refused("removing version 1 of none", &remove(&stores, &it, Expect::Version(1)).await)?;
    put(Expect::Absent).await?;
    refused("absent, of one", &put(Expect::Absent).await)?;
    refused("removing what should be absent", &remove(&stores, &it, Expect::Absent).await)?;
    put(Expect::Version(1)).await?;
    for version in [1, 3] {
        refused("another version", &put(Expect::Version(version)).await)?;
        refused("removing another version", &remove(&stores, &it, Expect::Version(version)).await)?;
    }
    remove(&stores, &it, Expect::Version(2)).await?;
    Ok(put(Expect::Absent).await?)
}

pub(super) async fn changes_whole(bench: &dyn Bench) -> Verdict {
    let (stores, a, b) = (bench.open().await?, named("k", "a"), named("k", "b"));
    let unmet = vec![Said::text("1").put(&a, Expect::Absent), Said::text("1").put(&b, Expect::Version(1))];
    refused("an expectation that does not hold", &stores.documents.change(unmet).await)?;
    stands(&stores, "the first of changes that were refused", &a, None).await?;
    // Expectations are checked against the documents stored before the call.
    let both = vec![
        Said::text("1").put(&a, Expect::Absent),
        Said::text("2").put(&a, Expect::Absent),
        Said::text("1").put(&b, Expect::Absent),
        Change::Remove { key: b.clone(), expect: Expect::Any },
    ];
    stores.documents.change(both).await?;
    stands(&stores, "the last of two writes", &a, Some(Said::text("2").stored(&a, 2))).await?;
    stands(&stores, "what was removed at once", &b, None).await?;
    Ok(stores.documents.change(Vec::new()).await?)
}

pub(super) async fn decided_once(bench: &dyn Bench) -> Verdict {
    let (stores, it) = (bench.open().await?, named("token", "single-use"));
    write(&stores, &it, Said::text("1")).await?;
    let take =
        || stores.documents.change(vec![Change::Remove { key: it.clone(), expect: Expect::Version(1) }]);
    let answers = join_all((0..20).map(|_| take())).await;
    let (won, lost): (Vec<_>, Vec<_>) = answers.into_iter().partition(Result::is_ok);
    same("how many took it", &won.len(), &1)?;
    lost.iter().try_for_each(|it| refused("a late one", it))
}

pub(super) async fn never_dropped(bench: &dyn Bench) -> Verdict {
    let stores = bench.open().await?;
    let put = |id: &str| stores.documents.change(vec![Said::text("1").put(&named("k", id), Expect::Any)]);
    drop(put("a"));
    let mut polled = put("b");
    drop((&mut polled).now_or_never());
    drop(polled);
    // They land in order: once this one was answered, the ones before it have landed.
    put("c").await?;
    same("the documents", &ids(&stores, "k", None, 9).await?, &vec!["a", "b", "c"])
}

async fn ids(stores: &Stores, kind: &str, past: Option<&str>, limit: u64) -> Result<Vec<&'static str>> {
    const KNOWN: [&str; 6] = ["", "a", "aa", "b", "c", "é"];
    let found = stores.documents.documents(&tenant("tenant-a"), kind, past, limit).await?;
    let known = |it: &Document| KNOWN.iter().find(|known| **known == it.key.id).copied();
    Ok(found.iter().map(|item| known(item).unwrap_or("another")).collect())
}

pub(super) async fn paged(bench: &dyn Bench) -> Verdict {
    let stores = bench.open().await?;
    for id in ["b", "a", "é", "aa"] {
        write(&stores, &named("k", id), Said::text("1")).await?;
    }
    for (kind, id) in [("j", "z"), ("kk", "a"), ("l", "a"), ("", "a")] {
        write(&stores, &named(kind, id), Said::text("1")).await?;
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

pub(super) async fn expired(bench: &dyn Bench) -> Verdict {
    let stores = bench.open().await?;
    let others = DocumentKey::new(tenant("tenant-b"), "k", "x");
    for (key, until) in [(named("k", "a"), 30), (named("j", "a"), 10), (others.clone(), 20)] {
        write(&stores, &key, Said::until(until)).await?;
    }
    write(&stores, &named("k", "b"), Said::text("1")).await?;
    let expire = |before, limit| stores.documents.expire(at(before), limit);
    same("what ended before the first", &expire(10, 9).await?, &0)?;
    same("the first two, one by one", &(expire(30, 1).await?, expire(30, 9).await?), &(1, 1))?;
    stands(&stores, "another tenant's", &others, None).await?;
    same("what is left of the kind", &ids(&stores, "k", None, 9).await?, &vec!["a", "b"])?;
    same("the rest", &expire(i64::MAX, 9).await?, &1)?;
    same("what never ends", &ids(&stores, "k", None, 9).await?, &vec!["b"])
}

pub(super) async fn durable(bench: &dyn Bench) -> Verdict {
    let (stores, it, gone) = (bench.open().await?, named("k", "a"), named("k", "b"));
    let blob = super::blobs::blob("1");
    write(&stores, &it, Said::until(7)).await?;
    write(&stores, &it, Said::until(8)).await?;
    write(&stores, &gone, Said::text("1")).await?;
    remove(&stores, &gone, Expect::Any).await?;
    stores.documents.keep_blob(&key("s"), blob.clone()).await?;
    let stores = bench.reopen(stores).await?;
    stands(&stores, "the document", &it, Some(Said::until(8).stored(&it, 2))).await?;
    stands(&stores, "the removed one", &gone, None).await?;
    let found = stores.documents.blob(&key("s"), &blob.digest).await?;
    same("the blob", &found, &Some(blob))
}

pub(super) async fn tenants_apart(bench: &dyn Bench) -> Verdict {
    let stores = bench.open().await?;
    let in_b = |id: &str| DocumentKey::new(tenant("tenant-b"), "k", id);
    let b: TenantId = tenant("tenant-b");
    write(&stores, &named("k", "a"), Said::of("s")).await?;
    stands(&stores, "another's", &in_b("a"), None).await?;
    same("another's kind", &stores.documents.documents(&b, "k", None, 9).await?, &vec![])?;
    write(&stores, &in_b("a"), Said::of("s")).await?;
    stands(&stores, "its own", &in_b("a"), Some(Said::of("s").stored(&in_b("a"), 1))).await?;
    let blob = super::blobs::blob("1");
    stores.documents.keep_blob(&key("s"), blob.clone()).await?;
    let (a_s, b_s) = (key("s"), key_of("tenant-b", "s"));
    same("another's blob", &stores.documents.blob(&b_s, &blob.digest).await?, &None)?;
    same("its bytes", &stores.documents.blob_bytes(&b_s).await?, &0)?;
    make(&stores, &b_s, [Put::Delete]).await?;
    remove(&stores, &in_b("a"), Expect::Any).await?;
    stands(&stores, "the first's", &named("k", "a"), Some(Said::of("s").stored(&named("k", "a"), 1))).await?;
    same("the first's blob", &stores.documents.blob(&a_s, &blob.digest).await?, &Some(blob))
}

pub(super) async fn of_session(bench: &dyn Bench) -> Verdict {
    let stores = bench.open().await?;
    let (of_s, of_t, moved, free) = (named("k", "a"), named("k", "b"), named("k", "c"), named("k", "aa"));
    write(&stores, &of_s, Said::of("s")).await?;
    write(&stores, &of_t, Said::of("t")).await?;
    write(&stores, &moved, Said::of("s")).await?;
    write(&stores, &moved, Said::of("t")).await?;
    write(&stores, &free, Said::text("1")).await?;
    make(&stores, &key("s"), []).await?;
    apply(&stores, &key("s"), [Put::Delete]).await?;
    same("what is left", &ids(&stores, "k", None, 9).await?, &vec!["aa", "b", "c"])?;
    // Also of one that never was; that such a batch succeeds is another promise.
    drop(apply(&stores, &key("t"), [Put::Delete]).await);
    same("what is left then", &ids(&stores, "k", None, 9).await?, &vec!["aa"])
}

pub(super) async fn of_batch(bench: &dyn Bench) -> Verdict {
    let (stores, s, it) = (bench.open().await?, key("s"), named("k", "a"));
    let put = |text: &str, millis: Option<i64>| Put::Document {
        kind: "k".to_owned(),
        id: "a".to_owned(),
        body: json(text),
        expires_at: millis.map(at),
        outlives: false,
    };
    let said = |text: &str| Said { session: Some(session("s")), ..Said::text(text) };
    make(&stores, &s, [put("1", Some(5))]).await?;
    let first = Said { expires_at: Some(at(5)), ..said("1") };
    stands(&stores, "the first", &it, Some(first.stored(&it, 1))).await?;
    apply(&stores, &s, [put("2", None)]).await?;
    stands(&stores, "the second", &it, Some(said("2").stored(&it, 2))).await?;
    remove(&stores, &it, Expect::Version(2)).await?;
    apply(&stores, &s, [put("4", None), Put::Delete]).await?;
    stands(&stores, "of a session that is deleted", &it, None).await
}

pub(super) async fn of_batch_outlives(bench: &dyn Bench) -> Verdict {
    let (stores, s) = (bench.open().await?, key("s"));
    let put = |id: &str| Put::Document {
        kind: "k".to_owned(),
        id: id.to_owned(),
        body: json("1"),
        expires_at: Some(at(5)),
        outlives: true,
    };
    let said = Said { expires_at: Some(at(5)), ..Said::text("1") };
    make(&stores, &s, [put("a")]).await?;
    apply(&stores, &s, [Put::Delete, put("b")]).await?;
    for id in ["a", "b"] {
        let it = named("k", id);
        stands(&stores, id, &it, Some(Said { session: None, ..said.clone() }.stored(&it, 1))).await?;
    }
    Ok(())
}
