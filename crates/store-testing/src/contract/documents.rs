//! Documents.

use futures_util::FutureExt;
use futures_util::future::join_all;
use singletree_durable::{
    DocumentChange, DocumentKey, DocumentPrecondition, JsonDocument, Result, RowMutation, SessionId,
    StoredDocument, TenantId, Timestamp, UNSENT_TURN,
};

use super::ContractStores;
use super::bench::{StoreFactory, Verdict, ensure_equal, ensure_refused};
use super::rows::{
    apply_mutations, create_session, json_document, session_key, session_key_in_tenant, tenant_named,
    time_at_millis,
};

/// Returns the name of a document of the suite's first tenant.
fn document_key(kind: &str, id: &str) -> DocumentKey {
    DocumentKey::new(tenant_named("tenant-a"), kind, id)
}

fn sample_session_id(id: &str) -> SessionId {
    session_key(id).session
}

/// The content of a document without its name.
#[derive(Debug, Clone, Default)]
struct DocumentContent {
    body: Option<JsonDocument>,
    session: Option<SessionId>,
    expires_at: Option<Timestamp>,
}

impl DocumentContent {
    fn from_json_text(text: &str) -> Self {
        Self { body: Some(json_document(text)), ..Self::default() }
    }

    fn with_session(session_id: &str) -> Self {
        Self { session: Some(sample_session_id(session_id)), ..Self::from_json_text("1") }
    }

    fn with_expiry(millis: i64) -> Self {
        Self { expires_at: Some(time_at_millis(millis)), ..Self::from_json_text("1") }
    }

    fn into_write_change(self, key: &DocumentKey, expect: DocumentPrecondition) -> DocumentChange {
        let body = self.body.unwrap_or_else(|| json_document("null"));
        DocumentChange::Write {
            key: key.clone(),
            expect,
            session: self.session,
            body,
            expires_at: self.expires_at,
        }
    }

    fn into_stored(self, key: &DocumentKey, version: u64) -> StoredDocument {
        let body = self.body.unwrap_or_else(|| json_document("null"));
        StoredDocument { key: key.clone(), session: self.session, body, version, expires_at: self.expires_at }
    }
}

async fn write_document(stores: &ContractStores, key: &DocumentKey, said: DocumentContent) -> Result<()> {
    stores.documents.change_documents(vec![said.into_write_change(key, DocumentPrecondition::Any)]).await
}

async fn remove_document(
    stores: &ContractStores,
    key: &DocumentKey,
    expect: DocumentPrecondition,
) -> Result<()> {
    stores.documents.change_documents(vec![DocumentChange::Remove { key: key.clone(), expect }]).await
}

/// Checks the document that is stored under a name.
async fn ensure_document(
    stores: &ContractStores,
    what: &str,
    key: &DocumentKey,
    expected: Option<StoredDocument>,
) -> Verdict {
    ensure_equal(what, &stores.documents.read_document(key).await?, &expected)
}

pub(super) async fn check_document_written(bench: &dyn StoreFactory) -> Verdict {
    let stores = bench.open().await?;
    let (plain, full) = (document_key("api_key", "a"), document_key("api_key", "é\n'"));
    ensure_document(&stores, "what was not written", &plain, None).await?;
    write_document(&stores, &plain, DocumentContent::from_json_text(r#"{"a":[1,"x"]}"#)).await?;
    let said = DocumentContent {
        session: Some(sample_session_id("s")),
        expires_at: Some(time_at_millis(-5)),
        ..DocumentContent::from_json_text(r#""é\n""#)
    };
    write_document(&stores, &full, said.clone()).await?;
    ensure_document(
        &stores,
        "the plain one",
        &plain,
        Some(DocumentContent::from_json_text(r#"{"a":[1,"x"]}"#).into_stored(&plain, 1)),
    )
    .await?;
    ensure_document(&stores, "the full one", &full, Some(said.into_stored(&full, 1))).await?;
    ensure_document(&stores, "another kind", &document_key("token", "a"), None).await
}

pub(super) async fn check_document_replaced(bench: &dyn StoreFactory) -> Verdict {
    let (stores, it) = (bench.open().await?, document_key("k", "a"));
    let first = DocumentContent {
        session: Some(sample_session_id("s")),
        expires_at: Some(time_at_millis(9)),
        ..DocumentContent::from_json_text("1")
    };
    write_document(&stores, &it, first).await?;
    write_document(&stores, &it, DocumentContent::from_json_text("2")).await?;
    ensure_document(
        &stores,
        "the second",
        &it,
        Some(DocumentContent::from_json_text("2").into_stored(&it, 2)),
    )
    .await?;
    // The new version has neither the session nor the expiry of the first.
    ensure_equal("what has expired", &stores.documents.expire_documents(time_at_millis(100), 10).await?, &0)?;
    create_session(&stores, &session_key("s"), [RowMutation::Delete]).await?;
    stores
        .documents
        .change_documents(vec![
            DocumentContent::with_expiry(50)
                .into_write_change(&it, DocumentPrecondition::Any);
            2
        ])
        .await?;
    ensure_document(&stores, "the fourth", &it, Some(DocumentContent::with_expiry(50).into_stored(&it, 4)))
        .await
}

pub(super) async fn check_document_removed(bench: &dyn StoreFactory) -> Verdict {
    let (stores, it, other) = (bench.open().await?, document_key("k", "a"), document_key("k", "b"));
    write_document(&stores, &it, DocumentContent::from_json_text("1")).await?;
    write_document(&stores, &other, DocumentContent::from_json_text("2")).await?;
    for _ in 0..2 {
        remove_document(&stores, &it, DocumentPrecondition::Any).await?;
        ensure_document(&stores, "the removed one", &it, None).await?;
    }
    ensure_document(
        &stores,
        "the other",
        &other,
        Some(DocumentContent::from_json_text("2").into_stored(&other, 1)),
    )
    .await?;
    // A document written after the removal is a new one.
    write_document(&stores, &it, DocumentContent::from_json_text("3")).await?;
    ensure_document(
        &stores,
        "the new one",
        &it,
        Some(DocumentContent::from_json_text("3").into_stored(&it, 1)),
    )
    .await
}

pub(super) async fn check_document_preconditions(bench: &dyn StoreFactory) -> Verdict {
    let (stores, it) = (bench.open().await?, document_key("k", "a"));
    let put = |expect| {
        stores
            .documents
            .change_documents(vec![DocumentContent::from_json_text("1").into_write_change(&it, expect)])
    };
    ensure_refused("version 1 of none", &put(DocumentPrecondition::Version(1)).await)?;
    ensure_refused("version 0 of none", &put(DocumentPrecondition::Version(0)).await)?;
    ensure_refused(
        "removing version 1 of none",
        &remove_document(&stores, &it, DocumentPrecondition::Version(1)).await,
    )?;
    put(DocumentPrecondition::Absent).await?;
    ensure_refused("absent, of one", &put(DocumentPrecondition::Absent).await)?;
    ensure_refused(
        "removing what should be absent",
        &remove_document(&stores, &it, DocumentPrecondition::Absent).await,
    )?;
    put(DocumentPrecondition::Version(1)).await?;
    for version in [1, 3] {
        ensure_refused("another version", &put(DocumentPrecondition::Version(version)).await)?;
        ensure_refused(
            "removing another version",
            &remove_document(&stores, &it, DocumentPrecondition::Version(version)).await,
        )?;
    }
    remove_document(&stores, &it, DocumentPrecondition::Version(2)).await?;
    Ok(put(DocumentPrecondition::Absent).await?)
}

pub(super) async fn check_changes_whole(bench: &dyn StoreFactory) -> Verdict {
    let (stores, a, b) = (bench.open().await?, document_key("k", "a"), document_key("k", "b"));
    let unmet = vec![
        DocumentContent::from_json_text("1").into_write_change(&a, DocumentPrecondition::Absent),
        DocumentContent::from_json_text("1").into_write_change(&b, DocumentPrecondition::Version(1)),
    ];
    ensure_refused("an expectation that does not hold", &stores.documents.change_documents(unmet).await)?;
    ensure_document(&stores, "the first of changes that were refused", &a, None).await?;
    // Expectations are checked against the documents stored before the call.
    let both = vec![
        DocumentContent::from_json_text("1").into_write_change(&a, DocumentPrecondition::Absent),
        DocumentContent::from_json_text("2").into_write_change(&a, DocumentPrecondition::Absent),
        DocumentContent::from_json_text("1").into_write_change(&b, DocumentPrecondition::Absent),
        DocumentChange::Remove { key: b.clone(), expect: DocumentPrecondition::Any },
    ];
    stores.documents.change_documents(both).await?;
    ensure_document(
        &stores,
        "the last of two writes",
        &a,
        Some(DocumentContent::from_json_text("2").into_stored(&a, 2)),
    )
    .await?;
    ensure_document(&stores, "what was removed at once", &b, None).await?;
    Ok(stores.documents.change_documents(Vec::new()).await?)
}

pub(super) async fn check_changes_decided_once(bench: &dyn StoreFactory) -> Verdict {
    let (stores, it) = (bench.open().await?, document_key("token", "single-use"));
    write_document(&stores, &it, DocumentContent::from_json_text("1")).await?;
    let take = || {
        stores.documents.change_documents(vec![DocumentChange::Remove {
            key: it.clone(),
            expect: DocumentPrecondition::Version(1),
        }])
    };
    let answers = join_all((0..20).map(|_| take())).await;
    let (won, lost): (Vec<_>, Vec<_>) = answers.into_iter().partition(Result::is_ok);
    ensure_equal("how many took it", &won.len(), &1)?;
    lost.iter().try_for_each(|it| ensure_refused("a late one", it))
}

pub(super) async fn check_changes_never_dropped(bench: &dyn StoreFactory) -> Verdict {
    let stores = bench.open().await?;
    let put = |id: &str| {
        stores.documents.change_documents(vec![
            DocumentContent::from_json_text("1")
                .into_write_change(&document_key("k", id), DocumentPrecondition::Any),
        ])
    };
    drop(put("a"));
    let mut polled = put("b");
    drop((&mut polled).now_or_never());
    drop(polled);
    put("c").await?;
    // The earlier ones may land behind it.
    let mut found = Vec::new();
    for _ in 0..READS_UNTIL_LANDED {
        found = read_document_ids(&stores, "k", None, 9).await?;
        if found.len() == 3 {
            break;
        }
    }
    ensure_equal("the documents", &found, &vec!["a", "b", "c"])
}

/// How often a store is read until a change that nobody waits for counts as lost.
const READS_UNTIL_LANDED: u32 = 10_000;

async fn read_document_ids(
    stores: &ContractStores,
    kind: &str,
    past: Option<&str>,
    limit: u64,
) -> Result<Vec<&'static str>> {
    const KNOWN: [&str; 6] = ["", "a", "aa", "b", "c", "é"];
    let found = stores.documents.read_documents(&tenant_named("tenant-a"), kind, past, limit).await?;
    let known = |it: &StoredDocument| KNOWN.iter().find(|known| **known == it.key.id).copied();
    Ok(found.iter().map(|item| known(item).unwrap_or("another")).collect())
}

pub(super) async fn check_documents_paged(bench: &dyn StoreFactory) -> Verdict {
    let stores = bench.open().await?;
    for id in ["b", "a", "é", "aa"] {
        write_document(&stores, &document_key("k", id), DocumentContent::from_json_text("1")).await?;
    }
    for (kind, id) in [("j", "z"), ("kk", "a"), ("l", "a"), ("", "a")] {
        write_document(&stores, &document_key(kind, id), DocumentContent::from_json_text("1")).await?;
    }
    for (past, limit, expected) in [
        (None, 100, vec!["a", "aa", "b", "é"]),
        (None, 2, vec!["a", "aa"]),
        (Some("a"), 2, vec!["aa", "b"]),
        (Some("ab"), 9, vec!["b", "é"]),
        (Some("é"), 9, vec![]),
        (None, 0, vec![]),
    ] {
        ensure_equal(
            &format!("{limit} past {past:?}"),
            &read_document_ids(&stores, "k", past, limit).await?,
            &expected,
        )?;
    }
    Ok(())
}

pub(super) async fn check_documents_expired(bench: &dyn StoreFactory) -> Verdict {
    let stores = bench.open().await?;
    let others = DocumentKey::new(tenant_named("tenant-b"), "k", "x");
    for (key, until) in [(document_key("k", "a"), 30), (document_key("j", "a"), 10), (others.clone(), 20)] {
        write_document(&stores, &key, DocumentContent::with_expiry(until)).await?;
    }
    write_document(&stores, &document_key("k", "b"), DocumentContent::from_json_text("1")).await?;
    let expire = |before, limit| stores.documents.expire_documents(time_at_millis(before), limit);
    ensure_equal("what ended before the first", &expire(10, 9).await?, &0)?;
    ensure_equal("the first two, one by one", &(expire(30, 1).await?, expire(30, 9).await?), &(1, 1))?;
    ensure_document(&stores, "another tenant's", &others, None).await?;
    ensure_equal(
        "what is left of the kind",
        &read_document_ids(&stores, "k", None, 9).await?,
        &vec!["a", "b"],
    )?;
    ensure_equal("the rest", &expire(i64::MAX, 9).await?, &1)?;
    ensure_equal("what never ends", &read_document_ids(&stores, "k", None, 9).await?, &vec!["b"])?;
    check_notes_expired(&stores).await
}

/// The kind that a store may keep out of its indexes expires like any other, in all tenants.
async fn check_notes_expired(stores: &ContractStores) -> Verdict {
    let note_of = |tenant: &str, id: &str| DocumentKey::new(tenant_named(tenant), UNSENT_TURN, id);
    for (tenant, id, until) in [("tenant-a", "1", 1010), ("tenant-a", "2", 1020), ("tenant-b", "3", 1030)] {
        write_document(stores, &note_of(tenant, id), DocumentContent::with_expiry(until)).await?;
    }
    let expire = |before, limit| stores.documents.expire_documents(time_at_millis(before), limit);
    ensure_equal("notes that ended before the first", &expire(1010, 9).await?, &0)?;
    ensure_equal("the first note", &expire(1020, 9).await?, &1)?;
    ensure_equal("the others, one by one", &(expire(1031, 1).await?, expire(1031, 9).await?), &(1, 1))?;
    ensure_document(stores, "another tenant's note", &note_of("tenant-b", "3"), None).await
}

pub(super) async fn check_documents_durable(bench: &dyn StoreFactory) -> Verdict {
    let (stores, it, gone) = (bench.open().await?, document_key("k", "a"), document_key("k", "b"));
    let blob = super::blobs::sample_blob("1");
    write_document(&stores, &it, DocumentContent::with_expiry(7)).await?;
    write_document(&stores, &it, DocumentContent::with_expiry(8)).await?;
    write_document(&stores, &gone, DocumentContent::from_json_text("1")).await?;
    remove_document(&stores, &gone, DocumentPrecondition::Any).await?;
    stores.documents.keep_blob(&session_key("s"), blob.clone()).await?;
    let stores = bench.reopen(stores).await?;
    ensure_document(&stores, "the document", &it, Some(DocumentContent::with_expiry(8).into_stored(&it, 2)))
        .await?;
    ensure_document(&stores, "the removed one", &gone, None).await?;
    let found = stores.documents.read_blob(&session_key("s"), &blob.digest).await?;
    ensure_equal("the blob", &found, &Some(blob))
}

pub(super) async fn check_documents_tenants_apart(bench: &dyn StoreFactory) -> Verdict {
    let stores = bench.open().await?;
    let in_b = |id: &str| DocumentKey::new(tenant_named("tenant-b"), "k", id);
    let b: TenantId = tenant_named("tenant-b");
    write_document(&stores, &document_key("k", "a"), DocumentContent::with_session("s")).await?;
    ensure_document(&stores, "another's", &in_b("a"), None).await?;
    ensure_equal("another's kind", &stores.documents.read_documents(&b, "k", None, 9).await?, &vec![])?;
    write_document(&stores, &in_b("a"), DocumentContent::with_session("s")).await?;
    ensure_document(
        &stores,
        "its own",
        &in_b("a"),
        Some(DocumentContent::with_session("s").into_stored(&in_b("a"), 1)),
    )
    .await?;
    let blob = super::blobs::sample_blob("1");
    stores.documents.keep_blob(&session_key("s"), blob.clone()).await?;
    let (a_s, b_s) = (session_key("s"), session_key_in_tenant("tenant-b", "s"));
    ensure_equal("another's blob", &stores.documents.read_blob(&b_s, &blob.digest).await?, &None)?;
    ensure_equal("its bytes", &stores.documents.count_blob_bytes(&b_s).await?, &0)?;
    create_session(&stores, &b_s, [RowMutation::Delete]).await?;
    remove_document(&stores, &in_b("a"), DocumentPrecondition::Any).await?;
    ensure_document(
        &stores,
        "the first's",
        &document_key("k", "a"),
        Some(DocumentContent::with_session("s").into_stored(&document_key("k", "a"), 1)),
    )
    .await?;
    ensure_equal("the first's blob", &stores.documents.read_blob(&a_s, &blob.digest).await?, &Some(blob))
}

pub(super) async fn check_documents_of_session(bench: &dyn StoreFactory) -> Verdict {
    let stores = bench.open().await?;
    let (of_s, of_t, moved, free) =
        (document_key("k", "a"), document_key("k", "b"), document_key("k", "c"), document_key("k", "aa"));
    write_document(&stores, &of_s, DocumentContent::with_session("s")).await?;
    write_document(&stores, &of_t, DocumentContent::with_session("t")).await?;
    write_document(&stores, &moved, DocumentContent::with_session("s")).await?;
    write_document(&stores, &moved, DocumentContent::with_session("t")).await?;
    write_document(&stores, &free, DocumentContent::from_json_text("1")).await?;
    for (id, session) in [("a", "s"), ("b", "t")] {
        write_document(&stores, &document_key(UNSENT_TURN, id), DocumentContent::with_session(session))
            .await?;
    }
    create_session(&stores, &session_key("s"), []).await?;
    apply_mutations(&stores, &session_key("s"), [RowMutation::Delete]).await?;
    ensure_equal("what is left", &read_document_ids(&stores, "k", None, 9).await?, &vec!["aa", "b", "c"])?;
    let notes = read_document_ids(&stores, UNSENT_TURN, None, 9).await?;
    ensure_equal("the notes that are left", &notes, &vec!["b"])?;
    // Also for a session that never existed. Another promise states that such a batch succeeds.
    drop(apply_mutations(&stores, &session_key("t"), [RowMutation::Delete]).await);
    ensure_equal("what is left then", &read_document_ids(&stores, "k", None, 9).await?, &vec!["aa"])
}

pub(super) async fn check_document_of_batch(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s, it) = (bench.open().await?, session_key("s"), document_key("k", "a"));
    let put = |text: &str, millis: Option<i64>| RowMutation::Document {
        kind: "k".to_owned(),
        id: "a".to_owned(),
        body: json_document(text),
        expires_at: millis.map(time_at_millis),
        outlives: false,
    };
    let said = |text: &str| DocumentContent {
        session: Some(sample_session_id("s")),
        ..DocumentContent::from_json_text(text)
    };
    create_session(&stores, &s, [put("1", Some(5))]).await?;
    let first = DocumentContent { expires_at: Some(time_at_millis(5)), ..said("1") };
    ensure_document(&stores, "the first", &it, Some(first.into_stored(&it, 1))).await?;
    apply_mutations(&stores, &s, [put("2", None)]).await?;
    ensure_document(&stores, "the second", &it, Some(said("2").into_stored(&it, 2))).await?;
    remove_document(&stores, &it, DocumentPrecondition::Version(2)).await?;
    apply_mutations(&stores, &s, [put("4", None), RowMutation::Delete]).await?;
    ensure_document(&stores, "of a session that is deleted", &it, None).await
}

pub(super) async fn check_document_outlives(bench: &dyn StoreFactory) -> Verdict {
    let (stores, s) = (bench.open().await?, session_key("s"));
    let put = |id: &str| RowMutation::Document {
        kind: "k".to_owned(),
        id: id.to_owned(),
        body: json_document("1"),
        expires_at: Some(time_at_millis(5)),
        outlives: true,
    };
    let said =
        DocumentContent { expires_at: Some(time_at_millis(5)), ..DocumentContent::from_json_text("1") };
    create_session(&stores, &s, [put("a")]).await?;
    apply_mutations(&stores, &s, [RowMutation::Delete, put("b")]).await?;
    for id in ["a", "b"] {
        let it = document_key("k", id);
        ensure_document(
            &stores,
            id,
            &it,
            Some(DocumentContent { session: None, ..said.clone() }.into_stored(&it, 1)),
        )
        .await?;
    }
    Ok(())
}
