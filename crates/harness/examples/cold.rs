//! What a start costs where much is stored; `.ci/cold` compares what this prints with the bounds.
//!
//! `cold turn FILE MESSAGES BYTES [WINDOW]` makes a file with one session of so many messages of so many bytes, unless it is
//! there, and prints the milliseconds of its first turn after opening the file, and of the turns after that.
//! `cold idle FILE SESSIONS` makes a file with so many suspended sessions, unless it is there, and prints the KiB that the
//! process holds after opening and sweeping it.
#![expect(clippy::print_stdout, reason = "it is a program that prints figures")]
#![expect(clippy::disallowed_methods, reason = "it measures the time that goes by outside")]

use std::error::Error;
use std::path::Path;
use std::time::Instant;

use singletree_durable::{
    Batch, Counters, FieldRow, FieldValue, InvocationId, ItemPlacement, Journal, JsonDocument, ListItemRow,
    PositionRow, RowMutation, SessionHead, SessionId, SessionKey, StoredTurnKind, StoredTurnStatus,
    StoredWaitStatus, TenantId, Timestamp, TurnRow, WaitRow,
};
use singletree_engine::{Ctx, END, Graph, Target};
use singletree_harness::{Chat, GraphAgent, HISTORY, Messages};
use singletree_llm::ChatMessage;
use singletree_macros::State;
use singletree_store_sqlite::{CommitDurability, SqliteStore};

type Outcome<T> = Result<T, Box<dyn Error>>;

#[derive(Debug, State)]
#[state(engine = singletree_engine)]
struct Talk {
    #[state(append)]
    messages: Messages,
}

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize| arguments.get(at).map(|argument| argument.parse::<u64>()).transpose();
    let path = Path::new(arguments.get(1).ok_or("a command and a file")?);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        match (arguments[0].as_str(), number(2)?, number(3)?, number(4)?) {
            ("turn", Some(messages), Some(bytes), window) => {
                if !path.exists() {
                    long(path, messages, usize::try_from(bytes)?).await?;
                }
                turn(path, window).await
            }
            ("idle", Some(sessions), None, None) => {
                if !path.exists() {
                    suspended(path, sessions).await?;
                    return Ok(());
                }
                idle(path).await
            }
            _ => Err("turn FILE MESSAGES BYTES [WINDOW], or idle FILE SESSIONS".into()),
        }
    })
}

fn chat(store: SqliteStore, window: Option<u64>) -> Outcome<Chat> {
    let graph = Graph::builder()
        .node("say", |_: Ctx<Talk>| async { Ok(Talk::update().messages([ChatMessage::assistant("hello")])) })
        .edge("say", Target::from(END))
        .entry("say")
        .compile()?;
    let agent = GraphAgent::new("a", &graph);
    let agent = window.into_iter().fold(agent, |agent, it| agent.window(it));
    Ok(Chat::builder().agent(agent).open(store)?)
}

fn key(session: &str) -> Outcome<SessionKey> {
    Ok(SessionKey::new(TenantId::parse("default")?, SessionId::parse(session)?))
}

/// Makes a session of that many messages: one turn makes it, the rest is added to its list.
async fn long(path: &Path, messages: u64, bytes: usize) -> Outcome<()> {
    const BATCH: u64 = 1_000;
    let store = SqliteStore::options(path).durability(CommitDurability::Normal).open().await?;
    chat(store.clone(), None)?.session("s").send(ChatMessage::user("m")).await;
    let key = key("s")?;
    let row = store.read_session(&key).await?.ok_or("the session was made")?;
    let (mut no, mut len, mut written) = (row.counters.items, 2, 0);
    while len < messages {
        let mut batch = Batch::new(key.clone(), store.acquire(&key).await?.fence);
        for _ in 0..BATCH.min(messages - len) {
            let role = if len % 2 == 0 { "user" } else { "assistant" };
            let text = format!("{len:0bytes$}");
            let body =
                JsonDocument::from_serializable(&serde_json::json!({ "role": role, "content": text }))?;
            written += body.as_str().len() as u64;
            let placement = Some(ItemPlacement { field: HISTORY.to_owned(), generation: 0, seq: len });
            batch.put(RowMutation::Item(ListItemRow { no, turn: 0, placement, body, side: None }));
            (no, len) = (no + 1, len + 1);
        }
        let value = FieldValue::List { generation: 0, len, bytes: written };
        batch.put(RowMutation::Field(FieldRow { name: HISTORY.to_owned(), value }));
        batch.put(RowMutation::Counters(Counters { items: no, ..row.counters }));
        store.apply(batch).await?;
    }
    store.close().await;
    Ok(())
}

async fn turn(path: &Path, window: Option<u64>) -> Outcome<()> {
    const LATER: u32 = 20;
    let begun = Instant::now();
    let store = SqliteStore::open(path).await?;
    let chat = chat(store.clone(), window)?;
    let opened = begun.elapsed();
    say(&chat).await?;
    let first = begun.elapsed() - opened;
    let begun = Instant::now();
    for _ in 0..LATER {
        say(&chat).await?;
    }
    let later = begun.elapsed() / LATER;
    let millis = |it: std::time::Duration| it.as_secs_f64() * 1e3;
    println!("open {:.3} first {:.3} later {:.3}", millis(opened), millis(first), millis(later));
    store.close().await;
    Ok(())
}

async fn say(chat: &Chat) -> Outcome<()> {
    let outcome = chat.session("s").send(ChatMessage::user("m")).await;
    if outcome.as_str() == "completed" { Ok(()) } else { Err(format!("{outcome:?}").into()) }
}

/// Makes sessions each of which waits for a signal.
async fn suspended(path: &Path, sessions: u64) -> Outcome<()> {
    const TOGETHER: u64 = 500;
    let store = SqliteStore::options(path).durability(CommitDurability::Normal).open().await?;
    let mut made = 0;
    while made < sessions {
        let until = sessions.min(made + TOGETHER);
        let mut landing = Vec::new();
        for at in made..until {
            landing.push(store.apply(waiting(&store, at).await?));
        }
        for landing in landing {
            landing.await?;
        }
        made = until;
    }
    store.close().await;
    Ok(())
}

async fn waiting(store: &SqliteStore, at: u64) -> Outcome<Batch> {
    let (now, invocation) = (Timestamp::from_millis(0), InvocationId::parse(format!("{at:036x}"))?);
    let (agent, graph) = ("a".to_owned(), "g".to_owned());
    let key = key(&format!("session-{at}"))?;
    let fence = store.acquire(&key).await?.fence;
    let mut batch = Batch::new(key, fence);
    batch.put(RowMutation::Head(SessionHead {
        agent: agent.clone(),
        graph: graph.clone(),
        schema_version: String::new(),
        version: 1,
        prompt_policy: "conversation".to_owned(),
        parent: None,
        subject: None,
        created_at: now,
        updated_at: now,
    }));
    batch.put(RowMutation::Turn(TurnRow {
        no: 0,
        invocation: invocation.clone(),
        ordinal: 0,
        kind: StoredTurnKind::Message,
        status: StoredTurnStatus::Suspended,
        fence,
        deaths: 0,
        agent,
        graph,
        message: None,
        wait: None,
        key: None,
        digest: None,
        accepted_at: now,
        ended_at: Some(now),
        outcome: None,
        retries: None,
    }));
    batch.put(RowMutation::Wait(WaitRow {
        no: 0,
        signal: "approval".to_owned(),
        invocation: invocation.clone(),
        turn: 0,
        status: StoredWaitStatus::Pending,
        metadata: None,
        action: None,
        deadline: None,
        payload_schema: None,
        on_deadline: None,
        created_at: now,
        ended_by: None,
        answer: None,
        answered_by: None,
        ended_at: None,
    }));
    batch.put(RowMutation::Position(PositionRow {
        invocation,
        turn: 0,
        body: JsonDocument::from_text("{}"),
    }));
    batch.put(RowMutation::Counters(Counters { turns: 1, items: 0, events: 0, waits: 1 }));
    Ok(batch)
}

async fn idle(path: &Path) -> Outcome<()> {
    let store = SqliteStore::open(path).await?;
    let chat = chat(store.clone(), None)?;
    chat.sweep().await?;
    let status = std::fs::read_to_string("/proc/self/status")?;
    let held =
        status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("the memory of a process")?;
    println!("{}", held.trim().trim_end_matches(" kB"));
    store.close().await;
    Ok(())
}
