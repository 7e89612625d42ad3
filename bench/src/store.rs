//! The chat of each variant: everything has its default, except the setting that the variant names.

use std::sync::Arc;
use std::time::Duration;

use singletree::env::{BoxFuture, Env};
use singletree::export::TraceExporter;
use singletree::store_sqlite::CommitDurability as Synced;
use singletree::telemetry::{SpanReceipt, SpanReceiver, SpanRefusal, TraceSpan};
use singletree::{Chat, Durability, Graph, GraphAgent, MemoryStore, PostgresOptions, SqliteStore};

use crate::Failure;
use crate::args::{Args, Variant};

/// A chat, and the store below it.
pub(crate) struct OpenedChat {
    pub(crate) chat: Chat,
    /// None in memory.
    pub(crate) store: Option<SqliteStore>,
}

/// Opens the chat of a variant.
pub(crate) async fn open_chat_variant<S>(args: &Args, graph: Graph<S>) -> Result<OpenedChat, Failure> {
    let store = match args.variant {
        Variant::Full | Variant::Step | Variant::Unrecorded | Variant::Exported => {
            SqliteStore::open(&args.db).await?
        }
        Variant::Normal => SqliteStore::options(&args.db).durability(Synced::Normal).open().await?,
        Variant::Memory => {
            return Ok(OpenedChat { chat: Chat::new(graph, MemoryStore::new())?, store: None });
        }
        Variant::Postgres => {
            let url = args.db.to_str().ok_or("the address of a database is text")?;
            let options = PostgresOptions::new(url, Env::from_system());
            let chat =
                Chat::builder().agent(GraphAgent::new("default", &graph)).open(options.open().await?)?;
            return Ok(OpenedChat { chat, store: None });
        }
        Variant::None => return Err("without a store there are no sessions: --variant none is for w3".into()),
    };
    let chat = match args.variant {
        Variant::Step => {
            let agent = GraphAgent::new("default", &graph).durability(Durability::Step);
            Chat::builder().agent(agent).open(store.clone())?
        }
        Variant::Unrecorded => {
            let agent = GraphAgent::new("default", &graph);
            Chat::builder().agent(agent).record_telemetry(false).open(store.clone())?
        }
        Variant::Exported => open_exported_chat(&graph, &store)?,
        Variant::Full | Variant::Normal | Variant::Memory | Variant::Postgres | Variant::None => {
            Chat::new(graph, store.clone())?
        }
    };
    Ok(OpenedChat { chat, store: Some(store) })
}

/// Opens a chat whose traces are exported while the runtime lives.
fn open_exported_chat<S>(graph: &Graph<S>, store: &SqliteStore) -> Result<Chat, Failure> {
    let agent = GraphAgent::new("default", graph);
    let chat =
        Chat::builder().agent(agent).note_unsent_turns(Duration::from_hours(48)).open(store.clone())?;
    let env = Env::from_system();
    let spawner = env.spawner.clone();
    let exporter = TraceExporter::new(chat.clone(), Arc::new(store.clone()), Arc::new(TakingReceiver), env);
    spawner.spawn_task(Box::pin(async move { exporter.run(std::future::pending()).await }));
    Ok(chat)
}

/// Takes all spans, and drops them.
#[derive(Debug)]
struct TakingReceiver;

impl SpanReceiver for TakingReceiver {
    fn send_spans<'a>(&'a self, _: &'a [TraceSpan]) -> BoxFuture<'a, Result<SpanReceipt, SpanRefusal>> {
        Box::pin(std::future::ready(Ok(SpanReceipt::default())))
    }
}
