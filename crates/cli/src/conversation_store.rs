//! The store that a command line names: a file of SQLite, or a PostgreSQL database.

use singletree::durable::{
    BlobMetadata, BoxFuture, DocumentChange, DocumentKey, DocumentStore, Journal, JournalLayer,
    JournalMaintenance, MaintenanceLayer, Result, SessionKey, StoredBlob, StoredDocument, TenantBlobTotals,
    TenantId, Timestamp,
};
use singletree::env::Env;
use singletree::{Damage, ErasedName, NodeSummary, PostgresOptions, PostgresStore, SqliteStore};
use singletree_protocol::native::Node;
use singletree_server::NodeDirectory;

use crate::error::{Error, Result as CommandResult};
use crate::place::{DatabaseLocation, DatabaseName};

/// An open database. Clones are the same handle.
#[derive(Debug, Clone)]
pub(crate) enum ConversationStore {
    /// One process writes to it.
    Sqlite(SqliteStore),
    /// Several processes may write to it; each session has one owner among them.
    Postgres(PostgresStore),
}

impl ConversationStore {
    /// Opens a database for writing, and creates what does not exist yet. A second process is refused for a file, with
    /// `command` in its error.
    pub(crate) async fn open_writable(place: &DatabaseLocation, command: &str) -> CommandResult<Self> {
        place.create_folder()?;
        let command = format!("singletree {command}");
        let opened = match place.name() {
            DatabaseName::File(file) => {
                SqliteStore::options(file).list_erasures().command(command).open().await.map(Self::Sqlite)
            }
            DatabaseName::Postgres(url, erased) => {
                let options = PostgresOptions::new(url.expose(), Env::from_system()).node(command);
                let listing = match erased {
                    Some(file) => options.list_erasures(file),
                    None => options,
                };
                listing.open().await.map(Self::Postgres)
            }
        };
        opened.map_err(|source| Error::Open { source })
    }

    /// Opens a database for reading, beside its writers or alone.
    pub(crate) async fn open_read_only(place: &DatabaseLocation) -> CommandResult<Self> {
        let opened = match place.name() {
            DatabaseName::File(file) => SqliteStore::open_read_only(file).await.map(Self::Sqlite),
            DatabaseName::Postgres(url, _) => {
                let options = PostgresOptions::new(url.expose(), Env::from_system());
                options.open_read_only().await.map(Self::Postgres)
            }
        };
        opened.map_err(|source| Error::Open { source })
    }

    /// Checks whether other processes may write to the database.
    pub(crate) fn is_shared(&self) -> bool {
        matches!(self, Self::Postgres(_))
    }

    /// Sets the address at which other servers of the same database reach this one. A file has one server.
    pub(crate) async fn set_address(&self, address: String) -> CommandResult<()> {
        match self {
            Self::Sqlite(_) => Ok(()),
            Self::Postgres(store) => {
                store.set_address(address).await.map_err(|source| Error::Open { source })
            }
        }
    }

    /// Records names in the list of erased data, which a restored backup is compared with: beside a file there is one, for a
    /// PostgreSQL database where the options name one.
    pub(crate) async fn list_erased(&self, names: Vec<ErasedName>, at: Timestamp) -> Result<()> {
        match self {
            Self::Sqlite(store) => store.list_erased(names, at).await,
            Self::Postgres(store) => store.list_erased(names, at).await,
        }
    }

    /// Finds the damage of the file itself. PostgreSQL checks its pages with its own checksums, where they are switched on.
    pub(crate) async fn find_damage(&self) -> CommandResult<Vec<Damage>> {
        match self {
            Self::Sqlite(store) => store.find_damage().await.map_err(|source| Error::Open { source }),
            Self::Postgres(_) => Ok(Vec::new()),
        }
    }

    /// Counts the rows without a checksum; none when no row has one.
    pub(crate) async fn count_unchecked_rows(&self) -> CommandResult<Option<u64>> {
        match self {
            Self::Sqlite(store) => {
                store.count_unchecked_rows().await.map_err(|source| Error::Open { source })
            }
            Self::Postgres(_) => Ok(None),
        }
    }

    /// Closes the store for all its handles, after the writes that were submitted.
    pub(crate) async fn close(&self) {
        match self {
            Self::Sqlite(store) => store.close().await,
            Self::Postgres(store) => store.close().await,
        }
    }

    fn documents(&self) -> &dyn DocumentStore {
        match self {
            Self::Sqlite(store) => store,
            Self::Postgres(store) => store,
        }
    }
}

impl JournalLayer for ConversationStore {
    type Journal = dyn Journal;

    fn inner_journal(&self) -> &(dyn Journal + 'static) {
        match self {
            Self::Sqlite(store) => store,
            Self::Postgres(store) => store,
        }
    }
}

impl MaintenanceLayer for ConversationStore {
    type Maintenance = dyn JournalMaintenance;

    fn inner_maintenance(&self) -> &(dyn JournalMaintenance + 'static) {
        match self {
            Self::Sqlite(store) => store,
            Self::Postgres(store) => store,
        }
    }
}

impl DocumentStore for ConversationStore {
    fn read_document<'a>(&'a self, key: &'a DocumentKey) -> BoxFuture<'a, Result<Option<StoredDocument>>> {
        self.documents().read_document(key)
    }

    fn read_documents<'a>(
        &'a self,
        tenant: &'a TenantId,
        kind: &'a str,
        past: Option<&'a str>,
        limit: u64,
    ) -> BoxFuture<'a, Result<Vec<StoredDocument>>> {
        self.documents().read_documents(tenant, kind, past, limit)
    }

    fn change_documents(&self, changes: Vec<DocumentChange>) -> BoxFuture<'static, Result<()>> {
        self.documents().change_documents(changes)
    }

    fn expire_documents(&self, before: Timestamp, limit: u64) -> BoxFuture<'static, Result<u64>> {
        self.documents().expire_documents(before, limit)
    }

    fn probe_write(&self) -> BoxFuture<'static, Result<()>> {
        self.documents().probe_write()
    }

    fn keep_blob_for(
        &self,
        key: &SessionKey,
        blob: StoredBlob,
        holder: Option<&str>,
    ) -> BoxFuture<'static, Result<()>> {
        self.documents().keep_blob_for(key, blob, holder)
    }

    fn read_blob_totals<'a>(
        &'a self,
        tenant: &'a TenantId,
        holder: &'a str,
    ) -> BoxFuture<'a, Result<TenantBlobTotals>> {
        self.documents().read_blob_totals(tenant, holder)
    }

    fn read_blob<'a>(
        &'a self,
        key: &'a SessionKey,
        digest: &'a str,
    ) -> BoxFuture<'a, Result<Option<StoredBlob>>> {
        self.documents().read_blob(key, digest)
    }

    fn read_blob_metadata<'a>(
        &'a self,
        key: &'a SessionKey,
        digest: &'a str,
    ) -> BoxFuture<'a, Result<Option<BlobMetadata>>> {
        self.documents().read_blob_metadata(key, digest)
    }

    fn count_blob_bytes<'a>(&'a self, key: &'a SessionKey) -> BoxFuture<'a, Result<u64>> {
        self.documents().count_blob_bytes(key)
    }
}

impl NodeDirectory for ConversationStore {
    fn list_nodes(&self) -> BoxFuture<'_, Result<Vec<Node>>> {
        Box::pin(async move {
            let Self::Postgres(store) = self else { return Ok(Vec::new()) };
            Ok(store.nodes().await?.into_iter().map(describe_node).collect())
        })
    }

    fn find_owner<'a>(&'a self, key: &'a SessionKey) -> BoxFuture<'a, Result<Option<String>>> {
        Box::pin(async move {
            let Self::Postgres(store) = self else { return Ok(None) };
            store.other_owner(key).await
        })
    }

    fn has_died(&self, address: &str) -> bool {
        matches!(self, Self::Postgres(store) if store.has_node_died(address))
    }
}

/// Describes a process as the API and `singletree nodes` show it.
pub(crate) fn describe_node(node: NodeSummary) -> Node {
    let left = node.lease_left.unwrap_or_default();
    Node {
        incarnation: node.incarnation,
        name: node.name,
        address: node.address,
        alive: node.lease_left.is_some(),
        lease_left_ms: u64::try_from(left.as_millis()).unwrap_or(u64::MAX),
        sessions: node.sessions,
        draining: node.is_draining,
    }
}
