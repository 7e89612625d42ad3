//! `singletree torture-child`: the chat that `torture` kills. Asks come in by the standard input, lines go out by the
//! standard output.

use std::io::{self, BufRead, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use singletree::env::{Env, Timer};
use singletree::store_sqlite::CommitDurability;
use singletree::{PostgresOptions, SqliteStore, durable};
use singletree_torture::{
    ChildParts, ChildPhase, ChildReport, ChildRequest, Heartbeat, STALLED, Say, serve_requests,
};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::args::{TortureChild, TortureStall};
use crate::command::torture::CHILD_STORE;
use crate::conversation_store::ConversationStore;
use crate::error::{Error, Result};
use crate::exit::COMPLETED;
use crate::who::read_env_variable;
use singletree::engine::RuntimeTimer;

/// Runs the command until nobody asks any more.
pub(crate) async fn run_torture_child_command(args: TortureChild) -> Result<u8> {
    let say = build_report_writer();
    let heartbeat = Heartbeat::start_thread(say.clone()).map_err(|source| Error::Input { source })?;
    heartbeat.enter_phase(ChildPhase::Opening);
    let store = open_store(&args).await?;
    let shared = Arc::new(store.clone());
    let served = serve_requests(ChildParts {
        journal: shared.clone(),
        upkeep: shared.clone(),
        effects: args.effects,
        pace: Arc::new(RuntimeTimer),
        say,
        asks: start_request_reader()?,
        heartbeat,
        release: args.release,
        faults: args.fail_commits,
    });
    served.await?;
    drop(shared);
    store.close().await;
    Ok(COMPLETED)
}

/// Makes all writes to the database wait for a while, and says so in a line as soon as they do.
pub(crate) async fn run_torture_stall_command(args: TortureStall) -> Result<u8> {
    let url = read_env_variable(CHILD_STORE).unwrap_or_default();
    let options = PostgresOptions::new(url, Env::from_system());
    let tell = || {
        let mut out = io::stdout();
        // Whoever does not read it any more does not wait for it.
        writeln!(out, "{STALLED}").and_then(|()| out.flush()).unwrap_or_default();
    };
    let stalled = options.stall_writes(Duration::from_millis(args.time), tell).await;
    stalled.map_err(|source| Error::Open { source })?;
    Ok(COMPLETED)
}

async fn open_store(args: &TortureChild) -> Result<ConversationStore> {
    let opened = match (&args.node, &args.db) {
        (Some(node), _) => {
            let url = read_env_variable(CHILD_STORE).unwrap_or_default();
            let options = PostgresOptions::new(url, Env::from_system()).node(node);
            open_until_reached(options.lease(Duration::from_millis(args.lease))).await
        }
        (None, file) => {
            let durability = if args.relaxed { CommitDurability::Normal } else { CommitDurability::Full };
            let options = SqliteStore::options(file.as_deref().unwrap_or(Path::new("")));
            options
                .command("singletree torture")
                .durability(durability)
                .open()
                .await
                .map(ConversationStore::Sqlite)
        }
    };
    opened.map_err(|source| Error::Open { source })
}

/// Opens a database that may be away for a moment, because it restarts or its connections are cut.
async fn open_until_reached(options: PostgresOptions) -> durable::Result<ConversationStore> {
    loop {
        match options.clone().open().await {
            Err(durable::Error::Unavailable { .. }) => RuntimeTimer.sleep_for(AGAIN).await,
            opened => return opened.map(ConversationStore::Postgres),
        }
    }
}

/// The time between two attempts to reach a database.
const AGAIN: Duration = Duration::from_millis(200);

fn build_report_writer() -> Say {
    Arc::new(|line: &ChildReport| {
        // A line is plain data, and always JSON; when nobody hears it, nobody is left to be told.
        let mut text = serde_json::to_string(line).unwrap_or_default();
        text.push('\n');
        io::stdout().lock().write_all(text.as_bytes()).unwrap_or_default();
    })
}

/// Reads asks in a thread of its own, until the parent hangs up.
fn start_request_reader() -> Result<UnboundedReceiver<ChildRequest>> {
    let (tell, asks) = unbounded_channel();
    let reader = std::thread::Builder::new().name("asks".to_owned());
    let started = reader.spawn(move || {
        for line in io::stdin().lock().lines().map_while(io::Result::ok) {
            // No sender waits for the answer to a line that is not an ask.
            let Ok(ask) = serde_json::from_str(&line) else { continue };
            if tell.send(ask).is_err() {
                return;
            }
        }
    });
    started.map_err(|source| Error::Input { source })?;
    Ok(asks)
}
