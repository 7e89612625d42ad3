//! The store of a test.

use std::collections::BTreeSet;
use std::future::ready;
use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use singletree_durable::{
    AcquiredSession, Batch, BlobMetadata, BoxFuture, Checkpointer, DocumentChange, DocumentKey,
    DocumentStore, Error, FencingToken, InvocationId, Journal, JournalLayer, JournalMaintenance, JournalRead,
    JournalSessions, MaintenanceLayer, MemoryStore, PausedRecord, PausedStatus, PausedStore, Result,
    SessionKey, StoredBlob, StoredDocument, TenantBlobTotals, TenantId, Timestamp, TurnRow,
};
use singletree_env::Env;
use singletree_store_postgres::{PostgresOptions, PostgresStore};

use crate::empty::EMPTY;
use crate::running::RunningWrites;
use crate::{PostgresServer, bridge};

/// The variable that names the store of tests: `memory`, which is the default, or `postgres`.
const SETTING: &str = "SINGLETREE_STORE";

/// The database with the schema of the store, which that of each test is copied from.
const TEMPLATE: &str = "template_of_tests";

/// An empty store for a test: memory, or a PostgreSQL database where the environment says so. Clones are the same handle.
#[derive(Debug, Clone)]
pub struct TestStore(Opened);

#[derive(Debug, Clone)]
enum Opened {
    Memory(MemoryStore),
    Postgres(Arc<OpenedDatabase>),
}

#[derive(Debug)]
struct OpenedDatabase {
    store: PostgresStore,
    /// The name of this handle among the owners.
    node: String,
    /// The number of its process among those that opened the database one after the other.
    process: u64,
    database: Arc<TestDatabase>,
}

impl TestStore {
    /// Makes an empty store.
    ///
    /// # Panics
    /// When the environment names a store that is not known, or PostgreSQL where none is installed.
    #[must_use]
    pub fn new() -> Self {
        if is_postgres() { Self::in_postgres() } else { Self(Opened::Memory(MemoryStore::new())) }
    }

    /// Makes an empty store in PostgreSQL, whatever the environment says.
    pub(crate) fn in_postgres() -> Self {
        let database = Arc::new(TestDatabase::take());
        Self(Opened::Postgres(Arc::new(OpenedDatabase::open(database))))
    }

    /// Makes an empty store in memory for a test that cannot run over PostgreSQL, and says so where that was asked for.
    #[must_use]
    pub fn in_memory(reason: &str) -> Self {
        /// The tests that were named.
        static SAID: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
        if is_postgres() {
            let thread = std::thread::current();
            let test = thread.name().unwrap_or_default();
            let mut said = SAID.lock().unwrap_or_else(PoisonError::into_inner);
            if said.insert(test.to_owned()) {
                writeln!(std::io::stderr(), "in memory only: {test}: {reason}").unwrap_or_default();
            }
        }
        Self(Opened::Memory(MemoryStore::new()))
    }

    /// Opens the same data again, as the next process would when this one has died. From now on nothing is taken that is
    /// written through older handles to a session that they held.
    #[must_use]
    pub fn reopen(&self) -> Self {
        match &self.0 {
            Opened::Memory(store) => Self(Opened::Memory(store.reopen())),
            Opened::Postgres(opened) => {
                let database = &opened.database;
                database.processes.fetch_add(1, Ordering::SeqCst);
                database.writes.wait_for_none();
                // Owners that are not registered are not alive, and these cannot register again.
                database.run_sql(
                    "BEGIN; LOCK TABLE singletree.node IN SHARE ROW EXCLUSIVE MODE; \
                    INSERT INTO dead_node SELECT name FROM singletree.node; DELETE FROM singletree.node; COMMIT",
                );
                Self(Opened::Postgres(Arc::new(OpenedDatabase::open(Arc::clone(database)))))
            }
        }
    }

    /// Opens the same data for another owner beside this one, which may acquire every session that this one holds: its lease
    /// has ended, as that of a process that stood still for a while.
    #[must_use]
    pub fn open_beside(&self) -> Self {
        match &self.0 {
            Opened::Memory(store) => Self(Opened::Memory(store.open_beside())),
            Opened::Postgres(opened) => {
                let node = &opened.node;
                opened.database.run_sql(&format!("DELETE FROM singletree.node WHERE name = '{node}'"));
                Self(Opened::Postgres(Arc::new(OpenedDatabase::open(Arc::clone(&opened.database)))))
            }
        }
    }

    /// Returns the store of whole session records over the same data.
    #[must_use]
    pub fn session_store(&self) -> JournalSessions {
        JournalSessions::new(Arc::new(self.clone()))
    }

    /// Checks whether an owner holds a session: in memory the one that opened the store first, in PostgreSQL any one.
    pub async fn is_held(&self, key: &SessionKey) -> bool {
        match &self.0 {
            Opened::Memory(store) => store.check_lease(key, FencingToken(1)).await.is_ok(),
            Opened::Postgres(opened) => {
                let sql = "SELECT 1 FROM singletree.lease WHERE owner IS NOT NULL AND session = ";
                !opened.database.run_sql(&format!("{sql}'{}'", key.session.as_str())).is_empty()
            }
        }
    }

    /// Returns the actions of the audit rows and who did them, in the order in which they were written. PostgreSQL keeps a hash
    /// of who did it.
    #[must_use]
    pub fn audited_actions(&self) -> Vec<(String, Option<String>)> {
        match &self.0 {
            Opened::Memory(store) => store.audit().into_iter().map(|row| (row.action, row.by)).collect(),
            Opened::Postgres(opened) => {
                let rows =
                    opened.database.run_sql("SELECT action, done_by FROM singletree.audit ORDER BY id");
                let row = |line: &str| {
                    let (action, by) = line.split_once('|')?;
                    Some((action.to_owned(), Some(by.to_owned()).filter(|by| !by.is_empty())))
                };
                rows.lines().filter_map(row).collect()
            }
        }
    }

    fn documents(&self) -> &dyn DocumentStore {
        match &self.0 {
            Opened::Memory(store) => store,
            Opened::Postgres(opened) => &opened.store,
        }
    }

    fn paused(&self) -> &dyn PausedStore {
        match &self.0 {
            Opened::Memory(store) => store,
            Opened::Postgres(opened) => &opened.store,
        }
    }

    pub(crate) fn checkpoints(&self) -> &dyn Checkpointer {
        match &self.0 {
            Opened::Memory(store) => store,
            Opened::Postgres(opened) => &opened.store,
        }
    }

    /// Makes a call, on the runtime of the databases where the store is one.
    pub(crate) fn call<'a, T: Send + 'a>(&self, make: impl FnOnce() -> BoxFuture<'a, T>) -> BoxFuture<'a, T> {
        match &self.0 {
            Opened::Memory(_) => make(),
            Opened::Postgres(_) => bridge::call(make),
        }
    }

    /// Makes a call that writes, unless the data were opened again.
    pub(crate) fn write_if_polled<'a, T: Send + 'a>(
        &self,
        make: impl FnOnce() -> BoxFuture<'a, Result<T>>,
    ) -> BoxFuture<'a, Result<T>> {
        let fenced = match &self.0 {
            Opened::Memory(_) => None,
            Opened::Postgres(opened) => opened.fence_error(),
        };
        match fenced {
            Some(error) => Box::pin(ready(Err(error))),
            None => self.call(make),
        }
    }

    /// As [`Self::write_if_polled`], of a call that is carried out, also where its future is dropped.
    fn write<T: Send + 'static>(
        &self,
        make: impl FnOnce() -> BoxFuture<'static, Result<T>>,
    ) -> BoxFuture<'static, Result<T>> {
        let Opened::Postgres(opened) = &self.0 else { return make() };
        if let Some(error) = opened.fence_error() {
            return Box::pin(ready(Err(error)));
        }
        let running = RunningWrites::begin(&opened.database.writes);
        bridge::call(move || {
            let write = make();
            let write = bridge::runtime().spawn(async move {
                let written = write.await;
                drop(running);
                written
            });
            Box::pin(async move { write.await.unwrap() })
        })
    }
}

impl OpenedDatabase {
    /// Returns why nothing is written any more: the data were opened again.
    fn fence_error(&self) -> Option<Error> {
        let is_fenced = self.process < self.database.processes.load(Ordering::SeqCst);
        is_fenced.then_some(Error::Fenced { held: FencingToken(0), found: FencingToken(1) })
    }
}

impl Default for TestStore {
    fn default() -> Self {
        Self::new()
    }
}

impl JournalLayer for TestStore {
    type Journal = dyn Journal;

    fn inner_journal(&self) -> &Self::Journal {
        match &self.0 {
            Opened::Memory(store) => store,
            Opened::Postgres(opened) => &opened.store,
        }
    }

    fn write_batch(&self, batch: Batch) -> BoxFuture<'static, Result<()>> {
        self.write(|| self.inner_journal().apply(batch))
    }

    fn acquire_session<'a>(&'a self, key: &'a SessionKey) -> BoxFuture<'a, Result<AcquiredSession>> {
        self.write_if_polled(|| self.inner_journal().acquire(key))
    }

    fn release_sessions(&self, keys: Vec<SessionKey>) -> BoxFuture<'static, Result<()>> {
        self.call(|| self.inner_journal().release(keys))
    }

    fn check_session_lease<'a>(
        &'a self,
        key: &'a SessionKey,
        fence: FencingToken,
    ) -> BoxFuture<'a, Result<()>> {
        self.call(|| self.inner_journal().check_lease(key, fence))
    }

    fn wrap_read<'a, T: Send + 'a>(
        &'a self,
        _: JournalRead,
        answer: BoxFuture<'a, Result<T>>,
    ) -> BoxFuture<'a, Result<T>> {
        self.call(|| answer)
    }
}

impl MaintenanceLayer for TestStore {
    type Maintenance = dyn JournalMaintenance;

    fn inner_maintenance(&self) -> &Self::Maintenance {
        match &self.0 {
            Opened::Memory(store) => store,
            Opened::Postgres(opened) => &opened.store,
        }
    }

    fn find_ownerless_turns<'a>(
        &'a self,
        past: Option<&'a (SessionKey, u64)>,
        limit: u64,
    ) -> BoxFuture<'a, Result<Vec<(SessionKey, TurnRow)>>> {
        self.call(|| self.inner_maintenance().read_ownerless_turns(past, limit))
    }
}

impl DocumentStore for TestStore {
    fn read_document<'a>(&'a self, key: &'a DocumentKey) -> BoxFuture<'a, Result<Option<StoredDocument>>> {
        self.call(|| self.documents().read_document(key))
    }

    fn read_documents<'a>(
        &'a self,
        tenant: &'a TenantId,
        kind: &'a str,
        past: Option<&'a str>,
        limit: u64,
    ) -> BoxFuture<'a, Result<Vec<StoredDocument>>> {
        self.call(|| self.documents().read_documents(tenant, kind, past, limit))
    }

    fn change_documents(&self, changes: Vec<DocumentChange>) -> BoxFuture<'static, Result<()>> {
        self.write(|| self.documents().change_documents(changes))
    }

    fn expire_documents(&self, before: Timestamp, limit: u64) -> BoxFuture<'static, Result<u64>> {
        self.write(|| self.documents().expire_documents(before, limit))
    }

    fn probe_write(&self) -> BoxFuture<'static, Result<()>> {
        self.write(|| self.documents().probe_write())
    }

    fn keep_blob_for(
        &self,
        key: &SessionKey,
        blob: StoredBlob,
        holder: Option<&str>,
    ) -> BoxFuture<'static, Result<()>> {
        self.write(|| self.documents().keep_blob_for(key, blob, holder))
    }

    fn read_blob_totals<'a>(
        &'a self,
        tenant: &'a TenantId,
        holder: &'a str,
    ) -> BoxFuture<'a, Result<TenantBlobTotals>> {
        self.call(|| self.documents().read_blob_totals(tenant, holder))
    }

    fn read_blob<'a>(
        &'a self,
        key: &'a SessionKey,
        digest: &'a str,
    ) -> BoxFuture<'a, Result<Option<StoredBlob>>> {
        self.call(|| self.documents().read_blob(key, digest))
    }

    fn read_blob_metadata<'a>(
        &'a self,
        key: &'a SessionKey,
        digest: &'a str,
    ) -> BoxFuture<'a, Result<Option<BlobMetadata>>> {
        self.call(|| self.documents().read_blob_metadata(key, digest))
    }

    fn count_blob_bytes<'a>(&'a self, key: &'a SessionKey) -> BoxFuture<'a, Result<u64>> {
        self.call(|| self.documents().count_blob_bytes(key))
    }
}

impl PausedStore for TestStore {
    fn save<'a>(
        &'a self,
        tenant: &'a TenantId,
        invocation: &'a InvocationId,
        record: &'a PausedRecord,
    ) -> BoxFuture<'a, Result<()>> {
        self.write_if_polled(|| self.paused().save(tenant, invocation, record))
    }

    fn load<'a>(
        &'a self,
        tenant: &'a TenantId,
        invocation: &'a InvocationId,
    ) -> BoxFuture<'a, Result<Option<PausedRecord>>> {
        self.call(|| self.paused().load(tenant, invocation))
    }

    fn claim<'a>(
        &'a self,
        tenant: &'a TenantId,
        invocation: &'a InvocationId,
    ) -> BoxFuture<'a, Result<Option<PausedRecord>>> {
        self.write_if_polled(|| self.paused().claim(tenant, invocation))
    }

    fn close<'a>(
        &'a self,
        tenant: &'a TenantId,
        invocation: &'a InvocationId,
        status: PausedStatus,
    ) -> BoxFuture<'a, Result<()>> {
        self.write_if_polled(|| self.paused().close(tenant, invocation, status))
    }

    fn delete<'a>(&'a self, tenant: &'a TenantId, invocation: &'a InvocationId) -> BoxFuture<'a, Result<()>> {
        self.write_if_polled(|| self.paused().delete(tenant, invocation))
    }
}

impl OpenedDatabase {
    /// Opens a database as an owner of its own, whose lease does not end during a test by itself.
    fn open(database: Arc<TestDatabase>) -> Self {
        static HANDLES: AtomicU64 = AtomicU64::new(0);
        let node = format!("handle {}", HANDLES.fetch_add(1, Ordering::Relaxed));
        let store = open_postgres(&database.name, &node);
        let process = database.processes.load(Ordering::SeqCst);
        Self { store, node, process, database }
    }
}

impl Drop for OpenedDatabase {
    fn drop(&mut self) {
        // The database is given back when the writes that are on their way have ended.
        let (store, database) = (self.store.clone(), Arc::clone(&self.database));
        drop(bridge::runtime().spawn(async move {
            store.close().await;
            if let Some(last) = Arc::into_inner(database) {
                last.give_back();
            }
        }));
    }
}

/// Empty databases that tests have given back. The lock is held for a moment.
static UNUSED: Mutex<Vec<TestDatabase>> = Mutex::new(Vec::new());

/// Keeps a handle whose data were opened again from registering as an owner again, as no dead process does.
const REFUSE_DEAD_NODES: &str = "
    CREATE TABLE dead_node (name text PRIMARY KEY);
    CREATE FUNCTION refuse_dead_node() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        IF EXISTS (SELECT 1 FROM public.dead_node d WHERE d.name = NEW.name) THEN
            RAISE EXCEPTION 'the process of % has died', NEW.name;
        END IF;
        RETURN NEW;
    END $$;
    CREATE TRIGGER refuse_dead_node BEFORE INSERT ON singletree.node FOR EACH ROW EXECUTE FUNCTION refuse_dead_node()";

/// A database of the server of this process. The last handle gives it back for other tests.
#[derive(Debug)]
struct TestDatabase {
    name: String,
    /// How often it was opened again.
    processes: AtomicU64,
    /// The writes that are on their way.
    writes: Arc<RunningWrites>,
}

impl TestDatabase {
    fn take() -> Self {
        let unused = UNUSED.lock().unwrap_or_else(PoisonError::into_inner).pop();
        unused.unwrap_or_else(Self::create)
    }

    fn create() -> Self {
        static DATABASES: AtomicU64 = AtomicU64::new(0);
        let name = format!("test{}", DATABASES.fetch_add(1, Ordering::Relaxed));
        server().run_sql("postgres", &format!("CREATE DATABASE {name} TEMPLATE {TEMPLATE}"));
        Self { name, processes: AtomicU64::new(0), writes: Arc::default() }
    }

    fn run_sql(&self, sql: &str) -> String {
        server().run_sql(&self.name, sql)
    }

    /// Empties it for another test.
    fn give_back(self) {
        self.run_sql(EMPTY);
        UNUSED.lock().unwrap_or_else(PoisonError::into_inner).push(self);
    }
}

fn is_postgres() -> bool {
    let setting = std::env::var_os(SETTING).unwrap_or_else(|| "memory".into());
    assert!(
        setting == "memory" || setting == "postgres",
        "{SETTING} is `memory` or `postgres`, not {setting:?}"
    );
    setting == "postgres"
}

/// Returns the server of all tests of this process, with the database that others are copied from.
fn server() -> &'static PostgresServer {
    static SERVER: OnceLock<PostgresServer> = OnceLock::new();
    let server = SERVER.get_or_init(|| PostgresServer::spawn().unwrap());
    static MADE: OnceLock<()> = OnceLock::new();
    MADE.get_or_init(|| {
        let url = server.create_database(TEMPLATE);
        bridge::block_on(async move {
            let options = PostgresOptions::new(url, Env::from_system()).connections(2);
            options.open().await.unwrap().close().await;
        });
        // As in memory: some tests name an event by its id.
        server.run_sql(TEMPLATE, "UPDATE singletree.meta SET log_epoch = 'm0'");
        server.run_sql(TEMPLATE, REFUSE_DEAD_NODES);
    });
    server
}

fn open_postgres(database: &str, node: &str) -> PostgresStore {
    let options = PostgresOptions::new(server().url(database), Env::from_system())
        .node(node)
        .lease(Duration::from_secs(60))
        .connections(4);
    bridge::block_on(async move { options.open().await.unwrap() })
}
