//! The content that format 4 adds to the corpus: rows in every table, and a value in every column.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rusqlite::Connection;
use serde_json::json;
use singletree_durable::{
    CheckpointRecord, Checkpointer, DocumentStore, InvocationId, Journal, JsonDocument, NodePosition,
    PausedRecord, PausedStatus, PausedStore, PositionHistory, StoredBlob, StoredWaitStatus, SubjectId,
    TenantId, Timestamp, TurnRowQuery, WaitRowQuery,
};
use singletree_engine::{Ctx, END, Graph, Item, NodeError, Signal, Target};
use singletree_harness::{
    AuditRecord, Chat, Durability, ErasureScope, ForkOptions, GraphAgent, Messages, Notice, NoticeSettings,
    NoticeType, SendOptions, TurnContext, TurnPromptPolicy,
};
use singletree_llm::ChatMessage;
use singletree_macros::State;
use singletree_store_sqlite::{ErasedName, ErasureList, SqliteStore};

use crate::bench::{
    Door, Log, Talk, approve, asking, at, category, chain, fields, gate, history, line, name, says, user,
};

/// The statuses of records of the suspension specification's store.
const STATUSES: [PausedStatus; 4] =
    [PausedStatus::Suspended, PausedStatus::Resuming, PausedStatus::Completed, PausedStatus::Errored];

/// The signal of an approval with every term that a wait can have.
fn approval() -> Signal {
    Signal::new("ok")
        .approves("digest")
        .with("tool", "send")
        .expires_at(Timestamp::from_millis(32_503_680_000_000))
        .payload_schema(json!({ "type": "object" }))
        .on_deadline(fields(&[("approved", json!(false))]))
}

/// A state that takes commands.
#[derive(Debug, State)]
#[state(engine = singletree_engine)]
struct Commanded {
    #[state(append)]
    messages: Messages,
    current_command: Option<String>,
}

/// A graph that repeats its command.
fn commanded() -> Graph<Commanded> {
    let repeat = |cx: Ctx<Commanded>| async move {
        let command = cx.state().current_command.clone().unwrap_or_default();
        Ok(Commanded::update().messages([ChatMessage::assistant(command)]))
    };
    let builder = Graph::builder().node("repeat", repeat).edge("repeat", Target::from(END));
    builder.entry("repeat").compile().unwrap()
}

/// A graph of which the first run fails.
fn failing_once(fails: &Arc<AtomicBool>) -> Graph<Talk> {
    let fails = fails.clone();
    let attempt = move |_: Ctx<Talk>| {
        let fails = fails.swap(false, Ordering::SeqCst);
        async move {
            let error = NodeError::new("it broke").with_category("provider_unavailable");
            if fails { Err(error) } else { Ok(says("better")) }
        }
    };
    chain(Graph::builder().node("attempt", attempt), &["attempt"])
}

/// A graph whose second node records a fact and waits at the door; the message of the first node has a side record.
fn recording(door: &Door) -> Graph<Talk> {
    let speak = |cx: Ctx<Talk>| async move {
        let turn = TurnContext::of(&cx).unwrap();
        let sides = turn.side_records();
        sides.set_side_value(cx.state().messages.len(), "speaker", "first");
        Ok(says("begun"))
    };
    let door = door.clone();
    let act = move |cx: Ctx<Talk>| {
        let door = door.clone();
        async move {
            if cx.records().is_empty() {
                cx.record("effect", Item::from_text("\"sent\"")).await?;
            }
            door.pass().await;
            Ok(says("ended"))
        }
    };
    chain(Graph::builder().node("speak", speak).node("act", act), &["speak", "act"])
}

/// Opens a chat with the agents of the whole corpus. Nodes of the agent `recording` wait at the door.
pub(super) fn chat(store: &SqliteStore, door: &Door) -> Chat {
    let log = Log::default();
    let lapsing = Signal::new("late").expires_at(Timestamp::from_millis(1));
    let agents = [
        ("approving", asking(&log, approval())),
        ("lapsing", chain(gate(Graph::builder(), &log, lapsing), &["gate"])),
        ("failing", failing_once(&Arc::new(AtomicBool::new(true)))),
        ("recording", recording(door)),
    ];
    let builder = agents.iter().fold(super::builder(), |builder, (agent, graph)| {
        builder.agent(GraphAgent::new(*agent, graph).durability(Durability::Step))
    });
    builder
        .agent(GraphAgent::new("commanded", &commanded()))
        .audit(Duration::from_secs(3600))
        .notices(NoticeSettings::new().with_tenant_types(TenantId::single(), NoticeType::ALL))
        .open(store.clone())
        .unwrap()
}

fn to(agent: &str) -> SendOptions {
    SendOptions::new().agent(agent)
}

fn other() -> TenantId {
    TenantId::parse("other").unwrap()
}

fn subject(text: &str) -> SubjectId {
    SubjectId::parse(text).unwrap()
}

fn invocation(text: &str) -> InvocationId {
    InvocationId::parse(text).unwrap()
}

fn blob() -> StoredBlob {
    StoredBlob { digest: "d2".into(), media_type: "text/plain".into(), bytes: vec![4, 5] }
}

fn paused(status: PausedStatus) -> (InvocationId, PausedRecord) {
    let body = JsonDocument::from_text(r#"{"cursor":[]}"#);
    (invocation(&format!("{status:?}").to_lowercase()), PausedRecord { status, body })
}

fn checkpoint() -> CheckpointRecord {
    let position = |step| NodePosition {
        namespace: vec!["outer".into()],
        node_name: "n".into(),
        step,
        attempt_index: 1,
        fan_out_index: None,
    };
    CheckpointRecord {
        invocation_id: invocation("checkpointed"),
        correlation_id: "work".into(),
        session_id: None,
        schema_version: "v1".into(),
        state: [("field".to_owned(), JsonDocument::from_text("[1]"))].into(),
        parent_states: Vec::new(),
        completed_positions: [0, 1].into_iter().map(position).collect::<PositionHistory>(),
        fan_out_progress: Vec::new(),
        last_saved_at: Timestamp::from_millis(1000),
        cursor: None,
    }
}

/// Adds its content to a file in which `talk` is a session. The list of erasures stands beside the file.
pub(super) async fn add(path: &Path) {
    let door = Door::shut();
    let store = SqliteStore::options(path).list_erasures().open().await.unwrap();
    let chat = chat(&store, &door);
    // The first sweep begins to watch deadlines.
    chat.sweep().await.unwrap();
    waits(&chat).await;
    let command = to("commanded").policy(TurnPromptPolicy::Command);
    assert_eq!(chat.session("commanded").send_with(user("do it"), command).await.as_str(), "completed");
    let outcome = chat.session("retried").submit(user("try"), to("failing")).await.unwrap();
    assert_eq!(category(outcome.outcome().await), "provider_unavailable");
    let again = chat.retry(outcome.id(), SendOptions::new().key("again")).await.unwrap();
    assert_eq!(line(again.outcome().await.as_ref()), "completed 3.1 [a:better]");

    let fork = ForkOptions::new().at(2).session("branch");
    chat.session("talk").fork(fork).await.unwrap();
    chat.on_behalf_of(subject("ann")).session("owned").send_with(user("mine"), to("plain")).await;
    chat.on_behalf_of(subject("bob")).session("erased").send_with(user("forget me"), to("plain")).await;
    assert_eq!(chat.erase(&ErasureScope::Subject(subject("bob")), Some("operator")).await.unwrap(), 1);
    let revoked = ErasedName::Key(TenantId::single(), "key-1".into());
    store.list_erased(vec![revoked], Timestamp::from_millis(5)).await.unwrap();
    chat.of(other()).session("talk").send_with(user("elsewhere"), to("plain")).await;

    store.keep_blob_for(&name("owned"), blob(), Some("key-2")).await.unwrap();
    for (invocation, record) in STATUSES.map(paused) {
        PausedStore::save(&store, &TenantId::single(), &invocation, &record).await.unwrap();
    }
    Checkpointer::save(&store, &TenantId::single(), &checkpoint()).await.unwrap();
    store.close().await;
    chat.shutdown(Duration::ZERO).await;
    taken_over_turn(path).await;
}

/// Ends one wait in each way, and leaves one pending.
async fn waits(chat: &Chat) {
    for session in ["answered", "given up", "waiting"] {
        let note = to("approving").note("client_id", session);
        assert_eq!(chat.session(session).send_with(user("may I?"), note).await.as_str(), "suspended");
    }
    let answer = approve(true).to(0, "digest").from("ann");
    let answered = chat.answer(at("answered", "ok"), answer).await.unwrap();
    assert_eq!(line(answered.outcome().await.as_ref()), "completed 3.3 [a:done]");
    let suspended = chat.session("given up").newest_turn().await.unwrap().unwrap();
    chat.cancel(&suspended.id).await.unwrap();
    chat.session("expired").send_with(user("too late"), to("lapsing")).await;
    while !chat.session("expired").pending().await.unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
}

/// Leaves a turn that a process died in, and the next one, which took it over.
async fn taken_over_turn(path: &Path) {
    for _ in 0..2 {
        let door = Door::shut();
        let store = SqliteStore::open(path).await.unwrap();
        let chat = chat(&store, &door);
        chat.sweep().await.unwrap();
        if chat.session("left").newest_turn().await.is_err() {
            chat.session("left").submit(user("go on"), to("recording")).await.unwrap();
        }
        door.somebody().await;
        // The store is closed first: nothing marks the turn as left.
        store.close().await;
        chat.shutdown(Duration::ZERO).await;
    }
}

/// Checks that everything that [`add`] made is there after the file was opened, and goes on.
pub(super) async fn check(corpus: &Path, store: &SqliteStore, chat: &Chat) {
    sessions(chat, store).await;

    let tenant = TenantId::single();
    let kept = store.read_documents(&tenant, Notice::KIND, None, 99).await.unwrap();
    let told = |document| Notice::from_document(document).unwrap().session.as_str() == "answered";
    assert!(kept.iter().any(told));
    let kept = store.read_documents(&tenant, AuditRecord::KIND, None, 99).await.unwrap();
    let actions: Vec<String> =
        kept.iter().map(|document| AuditRecord::from_document(document).unwrap().action).collect();
    assert!(actions.iter().any(|action| action == "signal.answered"), "{actions:?}");
    assert!(actions.iter().any(|action| action == "session.deleted"), "{actions:?}");
    assert_eq!(store.read_blob(&name("owned"), "d2").await.unwrap(), Some(blob()));
    let total = store.read_blob_totals(&tenant, "key-2").await.unwrap();
    assert_eq!((total.tenant_bytes, total.holder_bytes), (5, 2));
    for (invocation, record) in STATUSES.map(paused) {
        assert_eq!(PausedStore::load(store, &tenant, &invocation).await.unwrap(), Some(record));
    }
    let loaded = Checkpointer::load(store, &tenant, &checkpoint().invocation_id).await.unwrap();
    assert_eq!(loaded, Some(checkpoint()));
    let list = ErasureList::read_from_file(ErasureList::path_beside(corpus)).unwrap();
    assert!(list.erased_at(&ErasedName::Session(name("erased"))).is_some());
    let revoked = ErasedName::Key(tenant, "key-1".into());
    assert_eq!(list.erased_at(&revoked), Some(Timestamp::from_millis(5)));
    assert_eq!(list.erased_at(&ErasedName::Session(name("owned"))), None);
}

async fn sessions(chat: &Chat, store: &SqliteStore) {
    let turn = chat.session("left").newest_turn().await.unwrap().unwrap();
    let row =
        store.read_turns(&name("left"), &TurnRowQuery::From { no: 0, limit: 1 }).await.unwrap().remove(0);
    assert_eq!(row.deaths, 2, "the two processes that made the file");
    let outcome = chat.turn(&turn.id).await.unwrap().outcome().await;
    assert_eq!(line(outcome.as_ref()), "completed 3.1 [a:begun, a:ended]");
    let spoken = chat.session("left").history(1..2).await.unwrap();
    assert_eq!(spoken[0].side, Some(json!({ "speaker": "first" })));

    assert_eq!(history(chat, "branch").await, ["u:one", "a:hello"]);
    assert_eq!(history(&chat.of(other()), "talk").await, ["u:elsewhere", "a:hello"]);
    assert_eq!(history(chat, "commanded").await, ["u:do it", "a:do it"]);
    assert!(history(chat, "erased").await.is_empty());
    let owned = store.read_session(&name("owned")).await.unwrap().unwrap();
    assert_eq!(owned.head.subject, Some(subject("ann")));
    let retried = chat.session("retried").newest_turn().await.unwrap().unwrap();
    let failed = chat.session("retried").failed_turns(0..9, 9).await.unwrap();
    assert_eq!(failed[0].retried_by, Some(retried.id));

    let mut ends = Vec::new();
    for session in ["answered", "given up", "expired"] {
        let turns = store.read_turns(&name(session), &TurnRowQuery::From { no: 0, limit: 1 }).await.unwrap();
        let waits = WaitRowQuery::Invocation(TenantId::single(), turns[0].invocation.clone());
        ends.extend(store.read_waits(&waits).await.unwrap().into_iter().map(|(_, wait)| wait.status));
    }
    assert_eq!(ends, [StoredWaitStatus::Consumed, StoredWaitStatus::Cancelled, StoredWaitStatus::Expired]);
    let refused = chat.answer(at("waiting", "ok"), approve(true)).await.unwrap_err().into_errored_turn();
    assert_eq!(refused.error_category, "chat_signal_mismatch");
    let turn = chat.answer(at("waiting", "ok"), approve(true).to(0, "digest")).await.unwrap();
    assert_eq!(line(turn.outcome().await.as_ref()), "completed 3.3 [a:done]");
}

/// Returns the tables without a row, the columns without a value, and the words that a column allows and no row has.
pub(super) fn gaps(path: &Path) -> Vec<String> {
    let file = Connection::open(path).unwrap();
    let texts = |sql: &str| -> Vec<String> {
        let mut statement = file.prepare(sql).unwrap();
        let rows = statement.query_map([], |row| row.get(0)).unwrap();
        rows.map(Result::unwrap).collect()
    };
    let mut gaps = Vec::new();
    for table in texts("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name") {
        let columns = texts(&format!("SELECT name FROM pragma_table_xinfo('{table}')"));
        assert!(!columns.is_empty(), "{table}");
        for column in columns {
            let sql = format!("SELECT count(\"{column}\") FROM \"{table}\"");
            let values: i64 = file.query_row(&sql, [], |row| row.get(0)).unwrap();
            if values == 0 {
                gaps.push(format!("{table}.{column}"));
            }
        }
    }
    let words = [
        ("turn", "kind", ["message", "resume", "close"].as_slice()),
        ("turn", "status", &["accepted", "suspended", "completed", "errored"]),
        ("wait", "status", &["pending", "consumed", "cancelled", "expired"]),
        ("paused", "status", &["suspended", "resuming", "completed", "errored"]),
    ];
    for (table, column, words) in words {
        let found = texts(&format!("SELECT DISTINCT {column} FROM {table}"));
        let missing = words.iter().filter(|word| !found.iter().any(|text| text == *word));
        gaps.extend(missing.map(|word| format!("{table}.{column} = {word}")));
    }
    gaps
}

/// Returns the statements that made the file.
pub(super) fn schema(path: &Path) -> Vec<String> {
    let file = Connection::open(path).unwrap();
    let mut statement =
        file.prepare("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY name").unwrap();
    let rows = statement.query_map([], |row| row.get(0)).unwrap();
    rows.map(Result::unwrap).collect()
}
