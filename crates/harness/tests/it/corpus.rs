//! Databases of every format version that was ever released: each opens, and its old outcomes and events still hold
//! (INV-13).
//!
//! To add the file of a new version: set `NEWEST` to its name, run the first test once with SINGLETREE_UPDATE=corpus, commit
//! the file and the list of erasures beside it, and add it to `STARTS` in `store-sqlite/tests/it/opening.rs`. A file that
//! was released is never made anew. Format 4 is not released: whoever changes its schema removes its file and makes it anew.

mod format_4;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use singletree_durable::{
    DocumentChange, DocumentKey, DocumentPrecondition, DocumentStore, JsonDocument, StoredBlob, TenantId,
    Timestamp,
};
use singletree_engine::{Ctx, Graph, Signal};
use singletree_harness::{
    Chat, ChatBuilder, Durability, GraphAgent, SendOptions, StoreDoctor, TurnContext, WhileSuspended,
};
use singletree_llm::TokenUsage;
use singletree_store_sqlite::SqliteStore;

use crate::bench::{
    Door, Log, Talk, approve, asking, at, calling, chain, history, key, line, name, plain, says, user,
};

/// The newest file of the corpus.
const NEWEST: &str = "v4.db";

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus")
}

fn builder() -> ChatBuilder {
    let log = Log::default();
    let agent = |called: &str, graph| GraphAgent::new(called, graph).durability(Durability::Step);
    Chat::builder()
        .agent(agent("plain", &plain(&log)))
        .agent(
            agent("asking", &asking(&log, Signal::new("ok")))
                .while_suspended(WhileSuspended::Queue)
                .early_signals(["later"]),
        )
        .agent(agent("calling", &calling(&log, Signal::new("go"))))
        .agent(agent("counting", &counting()))
}

/// A graph that reports the use of a model.
fn counting() -> Graph<Talk> {
    let count = |cx: Ctx<Talk>| async move {
        let usage =
            TokenUsage { prompt_tokens: Some(7), completion_tokens: Some(2), ..TokenUsage::default() };
        if let Some(turn) = TurnContext::of(&cx) {
            let budget = turn.budget();
            budget.count_model_call("m", &usage).unwrap();
        }
        Ok(says("counted"))
    };
    chain(Graph::builder().node("count", count), &["count"])
}

fn document(id: &str) -> DocumentKey {
    DocumentKey::new(TenantId::single(), "kind", id)
}

fn written(id: &str, session: Option<&str>) -> DocumentChange {
    let (key, session) = (document(id), session.map(|it| name(it).session));
    let body = JsonDocument::from_text(r#"{"kept":true}"#);
    DocumentChange::Write {
        key,
        expect: DocumentPrecondition::Absent,
        session,
        body,
        expires_at: Some(Timestamp::from_millis(9)),
    }
}

fn picture() -> StoredBlob {
    StoredBlob { digest: "d1".into(), media_type: "image/png".into(), bytes: vec![1, 2, 3] }
}

/// Talks so that every table has rows: turns, keys, events, a wait, a position, a parked message, a fork, an audit row,
/// documents, a blob that two sessions use, the use of a model.
pub(crate) async fn make(path: &Path) {
    let store = SqliteStore::open(path).await.unwrap();
    let chat = builder().open(store.clone()).unwrap();
    for (text, name) in [("one", "k1"), ("two", "k2")] {
        assert_eq!(chat.session("talk").send_with(user(text), key(name)).await.as_str(), "completed");
    }
    let to = |agent: &str| SendOptions::new().agent(agent);
    assert_eq!(chat.session("paused").send_with(user("may I?"), to("asking")).await.as_str(), "suspended");
    chat.session("paused").submit(user("and then?"), SendOptions::new()).await.unwrap();
    chat.signal(at("paused", "later"), approve(true).from("bank")).await.unwrap();
    assert_eq!(chat.session("open").send_with(user("call"), to("calling")).await.as_str(), "suspended");
    assert_eq!(chat.session("gone").send(user("forget me")).await.as_str(), "completed");
    chat.session("gone").delete(None).await.unwrap();
    assert_eq!(
        chat.session("counted").send_with(user("how much?"), to("counting")).await.as_str(),
        "completed"
    );
    store.change_documents(vec![written("free", None), written("of talk", Some("talk"))]).await.unwrap();
    for session in ["talk", "paused"] {
        store.keep_blob(&name(session), picture()).await.unwrap();
    }
    assert!(chat.shutdown(Duration::from_secs(5)).await);
    store.close().await;
}

/// Returns the files of the corpus, the newest last.
fn files() -> Vec<PathBuf> {
    let mut files: Vec<_> = std::fs::read_dir(corpus())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "db"))
        .collect();
    files.sort();
    assert!(
        files.last().is_some_and(|path| path.ends_with(NEWEST)),
        "the newest version has a file: {files:?}"
    );
    files
}

#[tokio::test]
async fn databases_of_all_versions_open_and_go_on() {
    if std::env::var_os("SINGLETREE_UPDATE").is_some_and(|update| update == "corpus") {
        let newest = corpus().join(NEWEST);
        assert!(!newest.exists(), "{NEWEST} is there; a new format has a new name");
        make(&newest).await;
        format_4::add(&newest).await;
        // The lock names the process that made the file.
        std::fs::remove_file(newest.with_extension("db.lock")).unwrap();
    }
    for file in files() {
        check(&file).await;
    }
}

// INV-13: a change of the schema is a new format, or the file of a format that is not released is made anew.
#[tokio::test]
async fn the_newest_file_has_the_present_schema_and_a_value_in_every_column() {
    let newest = files().pop().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (copy, empty) = (folder.path().join("copy.db"), folder.path().join("empty.db"));
    std::fs::copy(&newest, &copy).unwrap();
    SqliteStore::open(&empty).await.unwrap().close().await;
    let (found, present) = (format_4::schema(&copy), format_4::schema(&empty));
    let gone = found.iter().filter(|statement| !present.contains(statement));
    let added = present.iter().filter(|statement| !found.contains(statement));
    assert_eq!(gone.chain(added).collect::<Vec<_>>(), [""; 0]);
    assert_eq!(format_4::gaps(&copy), [""; 0]);
}

async fn check(file: &Path) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.db");
    std::fs::copy(file, &path).unwrap();
    let store = SqliteStore::open(&path).await.unwrap();
    let doctor = StoreDoctor::new(Arc::new(store.clone()), Arc::new(store.clone()));
    assert!(doctor.examine().await.unwrap().is_sound(), "{file:?}");
    assert_eq!(store.find_damage().await.unwrap(), [], "{file:?}");
    let door = Door::shut();
    door.open();
    let chat = format_4::chat(&store, &door);
    chat.sweep().await.unwrap();

    assert_eq!(history(&chat, "talk").await, ["u:one", "a:hello", "u:two", "a:hello"], "{file:?}");
    let again = chat.session("talk").send_with(user("two"), key("k2")).await;
    assert_eq!(line(&again), "completed 3.2 [a:hello]", "the stored outcome of its key");
    assert_eq!(history(&chat, "talk").await.len(), 4, "and not a second turn");
    assert_eq!(line(&chat.session("talk").send(user("three")).await), "completed 3.2 [a:hello]");

    let mail = singletree_durable::Journal::read_early_signals(&store, &name("paused")).await.unwrap();
    assert_eq!(
        mail.iter().map(|it| (it.signal.as_str(), it.from.as_deref())).collect::<Vec<_>>(),
        [("later", Some("bank"))]
    );
    let turn = chat.answer(at("paused", "ok"), approve(true)).await.unwrap();
    assert_eq!(line(turn.outcome().await.as_ref()), "completed 3.3 [a:done]");
    let turn = chat.answer(at("open", "go"), approve(true)).await.unwrap();
    assert_eq!(line(turn.outcome().await.as_ref()), "completed 3.3 [t:c1=ok, a:done]");
    if file.ends_with("v4.db") {
        format_4::check(file, &store, &chat).await;
    }
    assert!(chat.shutdown(Duration::from_secs(5)).await);
    let paused = history(&chat, "paused").await;
    assert_eq!(paused[..4], ["u:may I?", "a:ask", "a:done", "u:and then?"], "{paused:?}");
    assert!(history(&chat, "gone").await.is_empty());
    if !["v1.db", "v2.db"].iter().any(|it| file.ends_with(it)) {
        kept_beside(&store, &chat).await;
    }
    store.close().await;
}

/// The data that format 3 keeps beside the conversations.
async fn kept_beside(store: &SqliteStore, chat: &Chat) {
    let used = chat.session("counted").usage().await.unwrap();
    assert_eq!((used[0].model.as_str(), used[0].prompt_tokens, used[0].completion_tokens), ("m", 7, 2));
    assert_eq!(chat.usage_of_tenant().await.unwrap(), used);
    let kept = store.read_documents(&TenantId::single(), "kind", None, 9).await.unwrap();
    let kept: Vec<_> = kept.iter().map(|it| (it.key.id.as_str(), it.session.is_some(), it.version)).collect();
    assert_eq!(kept, [("free", false, 1), ("of talk", true, 1)]);
    chat.session("talk").delete(None).await.unwrap();
    assert_eq!(store.read_document(&document("of talk")).await.unwrap(), None);
    assert_eq!(store.read_blob(&name("talk"), "d1").await.unwrap(), None);
    assert_eq!(store.read_blob(&name("paused"), "d1").await.unwrap(), Some(picture()));
    assert_eq!(store.expire_documents(Timestamp::from_millis(10), 9).await.unwrap(), 1);
}
