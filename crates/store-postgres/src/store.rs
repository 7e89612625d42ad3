//! The handle: opens, registers, closes.

use std::fmt;
use std::future::Future;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use singletree_durable::{BoxFuture, Error, JournalSessions, Result, Timestamp};
use singletree_env::Env;
use singletree_erasures::ErasedName;
use tokio::sync::oneshot;
use tokio_postgres::types::Type;

use crate::PostgresOptions;
use crate::database::{Database, DatabaseAccess, bind};
use crate::erasure_record::ErasureRecord;
use crate::lease::HeldSessions;
use crate::migration::{check_durability, check_schema, migrate_schema};
use crate::node::{self, DeadNodes};
use crate::pooler::check_named_statements;
use crate::served::Announcement;
use crate::tenant_role::{check_tenant_role, confine_tenant_role};

/// How many connections the heartbeat has: a caller may renew the lease beside it.
const HEARTBEAT_CONNECTIONS: usize = 2;

/// How long closing waits for writes on their way.
const CLOSING: Duration = Duration::from_secs(10);

/// A database, open, as one owner of sessions. Clones are the same handle.
///
/// When the last clone is dropped, the heartbeat stops, so that other processes take over its sessions when its lease has
/// ended; [`Self::close`] gives them back at once.
#[derive(Clone)]
pub struct PostgresStore {
    inner: Arc<PostgresStoreInner>,
}

pub(crate) struct PostgresStoreInner {
    pub(crate) database: Database,
    /// The same database, for the heartbeat: it does not wait behind statements of sessions.
    pub(crate) heartbeat: Database,
    /// The list of erased sessions, where one is kept.
    pub(crate) erasures: Option<ErasureRecord>,
    pub(crate) env: Env,
    pub(crate) log_epoch: String,
    pub(crate) name: String,
    /// Where other processes reach this one. The lock is held for a moment.
    address: Mutex<Option<String>>,
    pub(crate) lease: Duration,
    /// The number of this handle among the owners. It changes when its lease had ended.
    owner: AtomicI64,
    /// The sessions that this handle holds. The lock is held for a moment, never across an await.
    held: Mutex<HeldSessions>,
    /// What the heartbeat saw of other nodes. The lock is held for a moment.
    others: Mutex<DeadNodes>,
    /// The lock is held for a moment.
    announced: Mutex<Announcement>,
    /// When the last renewal that succeeded was sent, by the monotonic clock. The lock is held for a moment.
    renewed: Mutex<Duration>,
    /// Held by a caller that renews the lease before its time, so that one does.
    pub(crate) renewing: tokio::sync::Mutex<()>,
}

/// Prepares the connections of the heartbeat; none is made yet. A statement that takes half a lease is given up, so that the next
/// one comes in time on another connection.
fn connect_heartbeat(
    (url, access): (&str, DatabaseAccess),
    env: &Env,
    lease: Duration,
    statement_time: Duration,
) -> Result<Database> {
    Database::new((url, access), HEARTBEAT_CONNECTIONS, env.timer.clone(), statement_time.min(lease / 2))
}

impl PostgresStore {
    pub(crate) async fn open_with_options(options: PostgresOptions) -> Result<Self> {
        let PostgresOptions { url, env, node, address, lease, connections, statement_time, erasure_list } =
            options;
        let erasures = match erasure_list {
            Some(file) => Some(ErasureRecord::open(file, &env).await?),
            None => None,
        };
        let access = DatabaseAccess::Write;
        let database = Database::new((&url, access), connections, env.timer.clone(), statement_time)?;
        check_named_statements(&database).await?;
        let mut client = database.connect("open").await?;
        check_durability(&client).await?;
        let log_epoch = migrate_schema(&mut client).await?;
        if let Some(role) = database.tenant_role() {
            confine_tenant_role(&mut client, role).await?;
        }
        drop(client);
        let heartbeat = connect_heartbeat((&url, access), &env, lease, statement_time)?;
        let inner = PostgresStoreInner {
            database,
            heartbeat,
            erasures,
            env,
            log_epoch,
            name: node,
            address: Mutex::new(address),
            lease,
            owner: AtomicI64::new(0),
            held: Mutex::default(),
            others: Mutex::default(),
            announced: Mutex::default(),
            renewed: Mutex::default(),
            renewing: tokio::sync::Mutex::default(),
        };
        inner.register_node().await?;
        inner.remove_unread_changes().await?;
        let inner = Arc::new(inner);
        node::start_heartbeat(&inner);
        Ok(Self { inner })
    }

    pub(crate) async fn open_for_reading(options: PostgresOptions) -> Result<Self> {
        let PostgresOptions { url, env, node, address, lease, connections, statement_time, .. } = options;
        let access = DatabaseAccess::Read;
        let database = Database::new((&url, access), connections, env.timer.clone(), statement_time)?;
        check_named_statements(&database).await?;
        let client = database.connect("open").await?;
        let log_epoch = check_schema(&client).await?;
        if let Some(role) = database.tenant_role() {
            check_tenant_role(&client, role).await?;
        }
        drop(client);
        let heartbeat = connect_heartbeat((&url, access), &env, lease, statement_time)?;
        let inner = PostgresStoreInner {
            database,
            heartbeat,
            erasures: None,
            env,
            log_epoch,
            name: node,
            address: Mutex::new(address),
            lease,
            owner: AtomicI64::new(0),
            held: Mutex::default(),
            others: Mutex::default(),
            announced: Mutex::default(),
            renewed: Mutex::default(),
            renewing: tokio::sync::Mutex::default(),
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Gives all sessions back, ends this handle among the owners, and closes the connections: later calls fail with
    /// `store_closed`. Batches that were submitted before are done first, within ten seconds. Closing again does nothing.
    ///
    /// # Cancellation
    /// The store closes even if the future is dropped.
    pub fn close(&self) -> impl Future<Output = ()> + Send + use<> {
        let inner = Arc::clone(&self.inner);
        let closing = self.inner.run_in_background(async move {
            // A database that does not answer must not hold up the end of the process: what is not settled by then is
            // told as unknown.
            let timer = inner.env.timer.clone();
            drop(timer.run_with_timeout(CLOSING, inner.wait_for_writes()).await);
            // Whatever comes of it, the lease ends by itself.
            drop(inner.remove_node().await);
            inner.database.close();
            inner.heartbeat.close();
            Ok(())
        });
        closing.map(drop)
    }

    /// Adds names to the list of erasures, for data that is erased otherwise than by the deletion of a session.
    ///
    /// Without [`PostgresOptions::list_erasures`] nothing is listed.
    ///
    /// # Errors
    /// `store_full`, `store_unavailable`: then nothing must be erased yet.
    ///
    /// # Cancellation
    /// The names may have been added.
    pub async fn list_erased(&self, names: Vec<ErasedName>, at: Timestamp) -> Result<()> {
        match &self.inner.erasures {
            Some(list) => list.add_names(names.into_iter().map(|name| (name, at)).collect()).await,
            None => Ok(()),
        }
    }

    /// Sets the address at which other processes reach this one, for a process that learns it after it has opened its
    /// store ([`PostgresOptions::address`]).
    ///
    /// # Errors
    /// `store_unavailable`, `store_closed`. The address is registered at the latest when the lease is taken anew.
    ///
    /// # Cancellation
    /// A dropped call has set the address or has not.
    pub async fn set_address(&self, address: impl Into<String>) -> Result<()> {
        *self.inner.lock_address() = Some(address.into());
        self.inner.write_address().await
    }

    /// Returns the sessions of this store as the sessions specification sees them: whole records.
    #[must_use]
    pub fn session_store(&self) -> JournalSessions {
        JournalSessions::new(Arc::new(self.clone()))
    }

    pub(crate) fn inner(&self) -> &Arc<PostgresStoreInner> {
        &self.inner
    }
}

impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresStore").field("owner", &self.inner.owner()).finish_non_exhaustive()
    }
}

impl PostgresStoreInner {
    /// Returns the number of this handle among the owners.
    pub(crate) fn owner(&self) -> i64 {
        self.owner.load(Ordering::Acquire)
    }

    pub(crate) fn set_owner(&self, owner: i64) {
        self.owner.store(owner, Ordering::Release);
    }

    pub(crate) fn lock_renewed(&self) -> MutexGuard<'_, Duration> {
        self.renewed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn lock_address(&self) -> MutexGuard<'_, Option<String>> {
        self.address.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn lock_held(&self) -> MutexGuard<'_, HeldSessions> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn lock_announced(&self) -> MutexGuard<'_, Announcement> {
        self.announced.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn lock_others(&self) -> MutexGuard<'_, DeadNodes> {
        self.others.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a call in the background, from now on and whatever becomes of the returned future.
    pub(crate) fn run_in_background<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T>> + Send + 'static,
    ) -> BoxFuture<'static, Result<T>> {
        let (answer, answered) = oneshot::channel();
        // Whoever dropped the future does not want to know.
        self.env.spawner.spawn_task(Box::pin(work.map(move |done| drop(answer.send(done)))));
        Box::pin(async move { answered.await.unwrap_or(Err(Error::Closed)) })
    }

    /// Commits nothing, to see whether the database takes commits.
    pub(crate) async fn commit_nothing(&self) -> Result<()> {
        const DOING: &str = "write";
        let sql = "UPDATE singletree.node SET beat = beat WHERE incarnation = $1";
        let written = self
            .database
            .of_all_tenants()
            .run_statement(sql, &[bind(&self.owner(), Type::INT8)], DOING)
            .await;
        written.map(drop).map_err(|failure| failure.into_error(DOING))
    }
}
