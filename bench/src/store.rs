//! The chat of each variant: everything has its default, except the setting that the variant names.

use singletree::store_sqlite::CommitDurability as Synced;
use singletree::{Chat, Durability, Graph, GraphAgent, MemoryStore, SqliteStore};

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
        Variant::Full | Variant::Step | Variant::Unrecorded => SqliteStore::open(&args.db).await?,
        Variant::Normal => SqliteStore::options(&args.db).durability(Synced::Normal).open().await?,
        Variant::Memory => {
            return Ok(OpenedChat { chat: Chat::new(graph, MemoryStore::new())?, store: None });
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
        Variant::Full | Variant::Normal | Variant::Memory | Variant::None => Chat::new(graph, store.clone())?,
    };
    Ok(OpenedChat { chat, store: Some(store) })
}
