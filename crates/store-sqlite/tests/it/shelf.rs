//! Documents and blobs in a file.

use std::path::Path;

use proptest::prelude::*;
use proptest::sample::select;
use singletree_durable::{
    DocumentChange, DocumentKey, DocumentPrecondition, DocumentStore, Error, Journal, MemoryStore,
    RowMutation, SessionKey, StoredBlob, UNSENT_TURN,
};
use singletree_store_sqlite::{CommitDurability, SqliteStore};

use crate::made::{at, batch, batch_for, head, item, json, key, key_of, place, scratch, store, tenant};

fn named(id: &str) -> DocumentKey {
    DocumentKey::new(tenant("default"), "k", id)
}

fn write(id: &str, body: &str) -> DocumentChange {
    let (key, body) = (named(id), json(body));
    DocumentChange::Write { key, expect: DocumentPrecondition::Any, session: None, body, expires_at: None }
}

fn blob(digest: &str, bytes: &[u8]) -> StoredBlob {
    StoredBlob { digest: digest.to_owned(), media_type: "image/png".to_owned(), bytes: bytes.to_vec() }
}

// INV-12
#[tokio::test]
async fn a_count_of_blobs_that_is_not_what_they_have_is_found() {
    let (scratch, store) = store().await;
    store.apply(batch(&store, "s", [RowMutation::Head(head(1))])).await.unwrap();
    store.keep_blob_for(&key("s"), blob("a", b"abc"), Some("one")).await.unwrap();
    store.keep_blob_for(&key("s"), blob("b", b"de"), None).await.unwrap();
    assert_eq!(store.find_damage().await.unwrap(), []);
    store.close().await;
    let connection = rusqlite::Connection::open(&scratch.path).unwrap();
    connection.execute("UPDATE blob_account SET bytes = 7 WHERE holder = 'one'", []).unwrap();
    drop(connection);
    let store = SqliteStore::open(&scratch.path).await.unwrap();
    let found: Vec<String> = store.find_damage().await.unwrap().iter().map(ToString::to_string).collect();
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].ends_with("one says 7, and the blobs have 3"), "{found:?}");
    store.close().await;
}

// D25
#[tokio::test]
async fn what_belonged_to_a_deleted_session_is_nowhere_in_the_file_or_its_log() {
    let (scratch, store) = store().await;
    for session in ["s", "kept"] {
        store.apply(batch(&store, session, [RowMutation::Head(head(1))])).await.unwrap();
        // The bytes are the same, and are stored once.
        store.keep_blob(&key(session), blob("shared", b"shared-bytes")).await.unwrap();
    }
    store.keep_blob(&key("s"), blob("own", &b"xyzzy-bytes".repeat(1_000))).await.unwrap();
    let DocumentChange::Write { key: name, expect, body, expires_at, .. } = write("a", "\"xyzzy\"") else {
        panic!()
    };
    let session = Some(key("s").session);
    store
        .change_documents(vec![DocumentChange::Write { key: name, expect, session, body, expires_at }])
        .await
        .unwrap();
    store.change_documents(vec![write("b", "1")]).await.unwrap();
    let everywhere = |what: &[u8]| -> usize {
        ["store.db", "store.db-wal"]
            .map(|it| std::fs::read(scratch.dir.path().join(it)).unwrap())
            .iter()
            .map(|bytes| bytes.windows(what.len()).filter(|it| *it == what).count())
            .sum()
    };
    assert!(everywhere(b"xyzzy") > 0);
    store.apply(batch(&store, "s", [RowMutation::Delete])).await.unwrap();
    assert_eq!(everywhere(b"xyzzy"), 0);
    assert_eq!(everywhere(b"shared-bytes"), 1, "kept once");
    assert_eq!(store.read_document(&named("a")).await.unwrap(), None);
    assert!(store.read_document(&named("b")).await.unwrap().is_some());
    assert_eq!(store.find_damage().await.unwrap(), []);
}

#[tokio::test]
async fn changes_share_a_commit_with_turns_and_a_refused_one_stands_alone() {
    let (_scratch, store) = store().await;
    // The writer is busy with the first while the others come.
    let first = store.keep_blob(&key("s"), blob("big", &vec![7; 4_000_000]));
    let unmet = DocumentChange::Remove { key: named("none"), expect: DocumentPrecondition::Version(1) };
    let turn = store.apply(batch(&store, "s", [RowMutation::Head(head(1))]));
    let mut others: Vec<_> =
        (0..20).map(|it| store.change_documents(vec![write(&it.to_string(), "1")])).collect();
    // It fails at its first look, after the others have written; and one that has written itself is undone.
    others.push(store.change_documents(vec![unmet.clone()]));
    others.push(store.change_documents(vec![write("never", "1"), write("never", "not json")]));
    first.await.unwrap();
    turn.await.unwrap();
    let mut answers = Vec::new();
    for other in others {
        answers.push(other.await);
    }
    assert_eq!(answers.iter().filter(|it| it.is_ok()).count(), 20);
    assert!(answers[20..].iter().all(|it| matches!(it, Err(Error::Refused { .. }))), "{:?}", &answers[20..]);
    assert_eq!(store.read_documents(&tenant("default"), "k", None, 99).await.unwrap().len(), 20);
    assert!(store.commit_count() < 10, "{} commits", store.commit_count());
}

#[tokio::test]
async fn a_backup_holds_documents_and_blobs_and_a_closed_store_takes_none() {
    let (scratch, store) = store().await;
    store.change_documents(vec![write("a", "1")]).await.unwrap();
    store.keep_blob(&key("s"), blob("d", &[0, 1, 255])).await.unwrap();
    let to = scratch.dir.path().join("copy.db");
    store.backup(&to).await.unwrap();
    let copy = SqliteStore::open(&to).await.unwrap();
    assert_eq!(
        copy.read_document(&named("a")).await.unwrap(),
        store.read_document(&named("a")).await.unwrap()
    );
    assert_eq!(copy.read_blob(&key("s"), "d").await.unwrap(), Some(blob("d", &[0, 1, 255])));
    let reading = SqliteStore::open_read_only(&scratch.path).await.unwrap();
    assert_eq!(reading.count_blob_bytes(&key("s")).await.unwrap(), 3);
    assert_eq!(reading.change_documents(vec![write("a", "2")]).await.unwrap_err().category(), "store_closed");
    store.close().await;
    assert_eq!(store.change_documents(vec![write("a", "2")]).await.unwrap_err().category(), "store_closed");
    assert_eq!(store.keep_blob(&key("s"), blob("d", b"")).await.unwrap_err().category(), "store_closed");
    assert_eq!(store.expire_documents(at(1), 1).await.unwrap_err().category(), "store_closed");
    assert_eq!(store.read_document(&named("a")).await.unwrap_err().category(), "store_closed");
}

// INV-13
#[tokio::test]
async fn a_file_of_an_earlier_version_has_no_documents_until_it_is_opened_for_writing() {
    let scratch = scratch();
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../harness/tests/corpus/v2.db");
    std::fs::copy(corpus, &scratch.path).unwrap();
    let reading = SqliteStore::open_read_only(&scratch.path).await.unwrap();
    assert_eq!(reading.read_document(&named("a")).await.unwrap(), None);
    assert_eq!(reading.read_documents(&tenant("default"), "k", None, 9).await.unwrap(), []);
    assert_eq!(reading.read_blob(&key("talk"), "d").await.unwrap(), None);
    assert_eq!(reading.count_blob_bytes(&key("talk")).await.unwrap(), 0);
    reading.close().await;
    let store = SqliteStore::open(&scratch.path).await.unwrap();
    store.change_documents(vec![write("a", "1")]).await.unwrap();
    store.keep_blob(&key("talk"), blob("d", b"x")).await.unwrap();
    assert!(store.read_document(&named("a")).await.unwrap().is_some());
    store.apply(batch(&store, "talk", [RowMutation::Delete])).await.unwrap();
    assert_eq!(store.read_blob(&key("talk"), "d").await.unwrap(), None);
    assert_eq!(store.find_damage().await.unwrap(), []);
}

/// An operation on both stores.
#[derive(Debug, Clone)]
enum Step {
    Change(Vec<DocumentChange>),
    Expire(i64, u64),
    Keep(SessionKey, StoredBlob),
    /// Makes a session in which these blobs are named, with the beginning of another.
    Fork(SessionKey, SessionKey, Vec<String>),
    Delete(SessionKey),
    Reopen,
}

const IDS: [&str; 4] = ["", "a", "b'\0\"", "\u{1f332}"];
const DIGESTS: [&str; 3] = ["d1", "d2", "d'3"];

fn keys() -> Vec<SessionKey> {
    [("a", "x"), ("a", "y"), ("a", "z"), ("b", "x")].map(|(it, session)| key_of(it, session)).to_vec()
}

fn expiry_of_id(id: &str) -> i64 {
    IDS.iter().filter(|other| **other < id).count() as i64 * 3
}

fn change() -> impl Strategy<Value = DocumentChange> {
    let name = (select(vec!["a", "b"]), select(vec!["", "k", "kk", UNSENT_TURN]), select(IDS.to_vec()));
    let name = name.prop_map(|(of, kind, id)| DocumentKey::new(tenant(of), kind, id));
    let expect = prop_oneof![
        3 => Just(DocumentPrecondition::Any),
        1 => Just(DocumentPrecondition::Absent),
        2 => (0_u64..4).prop_map(DocumentPrecondition::Version),
    ];
    let session = proptest::option::of(select(vec!["x", "y", "none"]));
    let said = (select(vec!["1", "{\"a\":\"é\"}", "broken"]), session, proptest::option::of(0_i64..10));
    (name, expect, proptest::option::weighted(0.8, said)).prop_map(|(key, expect, said)| match said {
        None => DocumentChange::Remove { key, expect },
        Some((body, session, until)) => {
            let (body, session) = (json(body), session.map(|it| key_of("a", it).session));
            // All notes expire, in the order of their ids.
            let until = if key.kind == UNSENT_TURN { Some(expiry_of_id(&key.id)) } else { until };
            DocumentChange::Write { key, expect, session, body, expires_at: until.map(at) }
        }
    })
}

fn step() -> impl Strategy<Value = Step> {
    let kept = (select(DIGESTS.to_vec()), any::<Vec<u8>>(), select(vec!["t/1", "t/2"]));
    let kept = kept.prop_map(|(digest, bytes, media_type)| StoredBlob {
        media_type: media_type.to_owned(),
        ..blob(digest, &bytes)
    });
    let names = proptest::sample::subsequence(DIGESTS.map(str::to_owned).to_vec(), 0..=3);
    prop_oneof![
        8 => proptest::collection::vec(change(), 0..4).prop_map(Step::Change),
        2 => (0_i64..12, select(vec![0_u64, 99])).prop_map(|(before, limit)| Step::Expire(before, limit)),
        4 => (select(keys()), kept).prop_map(|(key, blob)| Step::Keep(key, blob)),
        3 => (select(keys()), select(keys()), names).prop_map(|(a, b, names)| Step::Fork(a, b, names)),
        3 => select(keys()).prop_map(Step::Delete),
        1 => Just(Step::Reopen),
    ]
}

/// Returns the puts of a batch that creates a session with the beginning of another.
fn fork(from: &SessionKey, names: &[String]) -> Vec<RowMutation> {
    let texts = (0..).zip(names).map(|(no, name)| {
        let body = format!("\"see blob:{name}!\"");
        RowMutation::Item(singletree_durable::ListItemRow { placement: Some(place(no)), ..item(no, &body) })
    });
    let (from, field) = (from.session.clone(), "messages".to_owned());
    let inherit = RowMutation::Inherit { from, field, generation: 0, len: 0 };
    [RowMutation::Delete, RowMutation::Head(head(1)), inherit].into_iter().chain(texts).collect()
}

/// Everything that can be read.
async fn seen(documents: &dyn DocumentStore) -> String {
    let mut seen = String::new();
    for of in ["a", "b"] {
        for kind in ["", "k", "kk", UNSENT_TURN] {
            for past in [None, Some(""), Some("a")] {
                let page = documents.read_documents(&tenant(of), kind, past, 2).await.unwrap();
                seen.push_str(&format!("{of} {kind} {past:?}: {page:?}\n"));
            }
            for id in IDS {
                let name = DocumentKey::new(tenant(of), kind, id);
                seen.push_str(&format!("{:?}\n", documents.read_document(&name).await.unwrap()));
            }
        }
    }
    for key in keys() {
        seen.push_str(&format!("{key:?}: {}\n", documents.count_blob_bytes(&key).await.unwrap()));
        for digest in DIGESTS {
            let blob = documents.read_blob(&key, digest).await.unwrap();
            seen.push_str(&format!("{:?}\n", blob.map(|it| (it.media_type, it.bytes))));
        }
    }
    seen
}

fn verdict<T: std::fmt::Debug>(answer: Result<T, Error>) -> String {
    match answer {
        Ok(it) => format!("{it:?}"),
        Err(error) => error.category().to_owned(),
    }
}

async fn same(steps: Vec<Step>) {
    let scratch = scratch();
    let open = || async {
        SqliteStore::options(&scratch.path).durability(CommitDurability::Normal).open().await.unwrap()
    };
    let (mut file, mut memory) = (open().await, MemoryStore::new());
    for step in steps {
        let step_text = format!("{step:?}");
        let (one, other) = match step {
            // A text that is no JSON is refused by the file alone; memory is not asked.
            Step::Change(changes) if changes.iter().any(is_broken) => {
                let answer = file.change_documents(changes).await;
                assert!(matches!(answer, Err(Error::Refused { .. })), "{answer:?}");
                (String::new(), String::new())
            }
            Step::Change(changes) => (
                verdict(file.change_documents(changes.clone()).await),
                verdict(memory.change_documents(changes).await),
            ),
            // All or none: which of several go that end together is not promised.
            Step::Expire(before, limit) => (
                verdict(file.expire_documents(at(before), limit).await),
                verdict(memory.expire_documents(at(before), limit).await),
            ),
            Step::Keep(key, blob) => (
                verdict(file.keep_blob(&key, blob.clone()).await),
                verdict(memory.keep_blob(&key, blob).await),
            ),
            Step::Fork(key, from, names) => {
                let puts = fork(&from, &names);
                let mut batch = batch_for(&file, &key, puts);
                let one = verdict(file.apply(batch.clone()).await);
                batch.fence = memory.acquire(&key).await.unwrap().fence;
                (one, verdict(memory.apply(batch).await))
            }
            Step::Delete(key) => {
                let mut batch = batch_for(&file, &key, [RowMutation::Delete]);
                let one = verdict(file.apply(batch.clone()).await);
                batch.fence = memory.acquire(&key).await.unwrap().fence;
                (one, verdict(memory.apply(batch).await))
            }
            Step::Reopen => {
                file.close().await;
                (file, memory) = (open().await, memory.reopen());
                (String::new(), String::new())
            }
        };
        assert_eq!(one, other, "{step_text}");
        assert_eq!(seen(&file).await, seen(&memory).await, "after {step_text}");
    }
    assert_eq!(file.find_damage().await.unwrap(), []);
}

fn is_broken(change: &DocumentChange) -> bool {
    matches!(change, DocumentChange::Write { body, .. } if body.as_str() == "broken")
}

fn config() -> ProptestConfig {
    let cases = if std::env::var_os("SINGLETREE_DEEP").is_some() { 500 } else { 24 };
    ProptestConfig { cases, max_shrink_iters: 2_000, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn the_file_and_the_memory_keep_the_same_documents_and_blobs(
        steps in proptest::collection::vec(step(), 1..40)
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(same(steps));
    }
}
