//! The handle: opens, hands over, closes.

use std::fmt;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use rusqlite::Transaction;
use singletree_durable::{BoxFuture, Error, FencingToken, JournalSessions, LeaseTable, Result, Timestamp};
use singletree_erasures::{ErasedName, ErasureList, ErasureListWriter};
use tokio::sync::{oneshot, watch};

use crate::error::{translate_error, unavailable_error};
use crate::file_identity::FileIdentity;
use crate::format::{self, DatabaseMetadata};
use crate::lease::SharedLeases;
use crate::lock::DatabaseLock;
use crate::meter::CommitMetrics;
use crate::name::NameIdCache;
use crate::queue::{BoundedQueue, QueueWorkerGuard};
use crate::reader::{self, Query};
use crate::tail::EventLogTail;
use crate::writer::{self, WalResidue, WriteJob, WriteOperation, WriteReply, WriterThread};
use crate::{SqliteOptions, open};

/// A database file, open. Clones are the same store.
///
/// Dropping the last clone waits until all submitted work is done, then closes the file; [`Self::close`] does the same
/// without blocking a thread of the runtime.
#[derive(Clone)]
pub struct SqliteStore {
    inner: Arc<SqliteStoreInner>,
    /// The number of this handle as an owner of sessions.
    owner: FencingToken,
}

struct SqliteStoreInner {
    path: PathBuf,
    doors: SubmissionQueues,
    meter: Arc<CommitMetrics>,
    meta: DatabaseMetadata,
    leases: SharedLeases,
    /// Closed once every thread has ended: each holds a receiver.
    alive: watch::Sender<()>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl SqliteStore {
    /// Opens a file for writing with the default options. See [`SqliteOptions::open`].
    ///
    /// # Errors
    /// As [`SqliteOptions::open`].
    ///
    /// # Cancellation
    /// As [`SqliteOptions::open`].
    pub async fn open(path: impl Into<PathBuf>) -> Result<Self> {
        Self::options(path).open().await
    }

    /// Returns the options of opening a file for writing.
    #[must_use]
    pub fn options(path: impl Into<PathBuf>) -> SqliteOptions {
        SqliteOptions::new(path.into())
    }

    /// Returns the process that has a file open for writing, and its command; none where nobody has. One that opens the
    /// file at the same moment may be refused.
    ///
    /// # Errors
    /// `store_unavailable` when the file is not there, or the side file of its lock cannot be read.
    pub fn find_writer(path: impl AsRef<Path>) -> Result<Option<(u32, String)>> {
        match DatabaseLock::check_unlocked(&open::canonical_path(path.as_ref())?) {
            Ok(()) => Ok(None),
            Err(Error::Locked { pid, command }) => Ok(Some((pid, command))),
            Err(error) => Err(error),
        }
    }

    /// Opens a file for reading, beside a writer or alone: takes no lock and raises no fence. Every write, and acquiring a
    /// session, is answered with `store_closed`.
    ///
    /// # Errors
    /// `store_format_unsupported`, `store_corrupt` and `store_unavailable`, as [`SqliteOptions::open`].
    ///
    /// # Cancellation
    /// Nothing is left behind.
    pub async fn open_read_only(path: impl AsRef<Path>) -> Result<Self> {
        let path = open::canonical_path(path.as_ref())?;
        let (alive, living) = watch::channel(());
        let doors = SubmissionQueues { writes: None, reads: Arc::new(BoundedQueue::new(reader::WAITING)) };
        let threads = Mutex::new(reader::start_readers(&path, &doors.reads, &living)?);
        drop(living);
        let meta = reader::run_on_reader(&doors.reads, |snapshot| format::read_metadata(snapshot)).await?;
        let leases = new_leases(&meta);
        let inner = SqliteStoreInner { path, doors, meter: Arc::default(), meta, leases, alive, threads };
        Ok(Self::from_inner(inner))
    }

    /// Opens a file for writing.
    pub(crate) async fn open_with_options(options: SqliteOptions) -> Result<Self> {
        let (answer, opened) = oneshot::channel();
        let thread = std::thread::Builder::new()
            .name("sqlite-writer".to_owned())
            .spawn(move || run_writer_thread(&options, answer))
            .map_err(|error| unavailable_error("start its writer", error))?;
        let inner: SqliteStoreInner = opened.await.unwrap_or(Err(Error::Closed))?;
        inner.lock_threads().push(thread);
        Ok(Self::from_inner(inner))
    }

    fn from_inner(inner: SqliteStoreInner) -> Self {
        let owner = inner.meta.fence;
        Self { inner: Arc::new(inner), owner }
    }

    /// Returns a handle to the same open file with this number.
    pub(crate) fn with_owner(&self, owner: FencingToken) -> Self {
        Self { inner: self.inner.clone(), owner }
    }

    /// Returns the number of this handle as an owner of sessions.
    pub(crate) fn owner(&self) -> FencingToken {
        self.owner
    }

    /// Returns who holds which session.
    pub(crate) fn leases(&self) -> &SharedLeases {
        &self.inner.leases
    }

    /// Checks whether the file was opened for reading only.
    pub(crate) fn is_read_only(&self) -> bool {
        self.inner.doors.writes.is_none()
    }

    /// Closes the store for all its handles: submitted work is still done, later calls fail with `store_closed`.
    /// Afterwards the file can be copied alone. Closing again does nothing.
    ///
    /// # Cancellation
    /// The store closes even if the future is dropped.
    pub fn close(&self) -> impl Future<Output = ()> + Send + use<> {
        self.inner.doors.close_queues();
        let inner = Arc::clone(&self.inner);
        async move { inner.alive.closed().await }
    }

    /// Returns the sessions of this store as the sessions specification sees them: whole records.
    #[must_use]
    pub fn session_store(&self) -> JournalSessions {
        JournalSessions::new(Arc::new(self.clone()))
    }

    /// Adds names to the erasure list; it is synced when the future is ready. The store adds deleted sessions itself;
    /// this is for names that it does not know, such as revoked keys.
    ///
    /// Without [`SqliteOptions::list_erasures`] nothing is listed.
    ///
    /// # Errors
    /// `store_unavailable`: then nothing must be erased yet; `store_closed`.
    ///
    /// # Cancellation
    /// The names are added even if the future is dropped.
    pub fn list_erased(
        &self,
        names: Vec<ErasedName>,
        at: Timestamp,
    ) -> impl Future<Output = Result<()>> + Send + use<> {
        let listed = self.submit_write(WriteOperation::List { names, at });
        async move { listed.await.map(drop) }
    }

    /// Returns the bytes of all values that were bound in the statements of commits since the store was opened
    /// (INV-4): the length of each text, eight for each number. Pages and logs are not in it.
    #[must_use]
    pub fn bytes_written(&self) -> u64 {
        self.inner.meter.committed_bytes()
    }

    /// Returns how many transactions were committed since the store was opened. Batches share them.
    #[must_use]
    pub fn commit_count(&self) -> u64 {
        self.inner.meter.commit_count()
    }

    /// Runs something long with the file on a thread of its own, so that it holds up neither reads nor writes. The
    /// store is not closed before it has ended.
    pub(crate) fn run_on_own_thread<T: Send + 'static>(
        &self,
        doing: &'static str,
        work: impl FnOnce(&Path) -> Result<T> + Send + 'static,
    ) -> BoxFuture<'static, Result<T>> {
        if self.inner.doors.reads.is_closed() {
            return Box::pin(async { Err(Error::Closed) });
        }
        let (answer, answered) = oneshot::channel();
        let (path, living) = (self.inner.path.clone(), self.inner.alive.subscribe());
        let thread = std::thread::Builder::new().name("sqlite-aside".to_owned()).spawn(move || {
            let result = work(&path);
            // Whoever dropped the future does not want to know.
            drop(answer.send(result));
            drop(living);
        });
        Box::pin(async move {
            thread.map_err(|error| unavailable_error(doing, error))?;
            answered.await.unwrap_or(Err(Error::Closed))
        })
    }

    /// Returns the fence and the epoch.
    pub(crate) fn metadata(&self) -> &DatabaseMetadata {
        &self.inner.meta
    }

    /// Hands over a write, now, and returns the future of its answer.
    pub(crate) fn submit_write(&self, work: WriteOperation) -> BoxFuture<'static, Result<WriteReply>> {
        let (answer, answered) = oneshot::channel();
        let pushed = match &self.inner.doors.writes {
            None => Err(Error::Closed),
            Some(queue) => queue
                .push(WriteJob { work, answer })
                .map_err(|rejected| reader::rejection_error(rejected, "write")),
        };
        Box::pin(async move {
            pushed?;
            answered.await.map_or(Err(Error::Closed), |done| done.verdict)
        })
    }

    /// Runs a query in one snapshot that is taken after this future is first polled.
    pub(crate) fn query_in_snapshot<T: Send + 'static>(
        &self,
        query: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T> + Send + 'static,
    ) -> BoxFuture<'static, Result<T>> {
        let reads = Arc::clone(&self.inner.doors.reads);
        Box::pin(async move { reader::run_on_reader(&reads, query).await })
    }
}

impl fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteStore").field("meta", &self.inner.meta).finish_non_exhaustive()
    }
}

/// The queues of submitted work; work that waits in them when they are closed is still done.
struct SubmissionQueues {
    /// The waiting writes; none for a handle that only reads.
    writes: Option<Arc<BoundedQueue<WriteJob>>>,
    reads: Arc<BoundedQueue<Query>>,
}

impl SubmissionQueues {
    fn close_queues(&self) {
        self.reads.close();
        if let Some(writes) = &self.writes {
            writes.close();
        }
    }
}

impl Drop for SubmissionQueues {
    fn drop(&mut self) {
        self.close_queues();
    }
}

impl SqliteStoreInner {
    fn lock_threads(&self) -> std::sync::MutexGuard<'_, Vec<JoinHandle<()>>> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for SqliteStoreInner {
    fn drop(&mut self) {
        self.doors.close_queues();
        for thread in self.lock_threads().drain(..) {
            // A thread that panicked has told its callers by dropping their answers.
            thread.join().unwrap_or_default();
        }
    }
}

/// The life of the writer's thread: opens, says how that went, and works.
fn run_writer_thread(options: &SqliteOptions, answer: oneshot::Sender<Result<SqliteStoreInner>>) {
    let (alive, living) = watch::channel(());
    let (writer, meta, reads) = match prepare_writer(options, &living) {
        Ok(prepared) => prepared,
        // Whoever dropped the future does not want to know.
        Err(error) => return drop(answer.send(Err(error))),
    };
    let writes = QueueWorkerGuard(Arc::new(BoundedQueue::new(writer::WAITING)));
    let inner = SqliteStoreInner {
        path: writer.path.clone(),
        doors: SubmissionQueues { writes: Some(Arc::clone(&writes.0)), reads },
        meter: Arc::clone(&writer.meter),
        leases: new_leases(&meta),
        meta,
        alive,
        threads: Mutex::default(),
    };
    // If nobody waits any more, the handle comes back, is dropped, and so closes the queue.
    drop(answer.send(Ok(inner)));
    writer.run_until_closed(&writes.0);
    drop((writes, living));
}

fn new_leases(meta: &DatabaseMetadata) -> SharedLeases {
    Arc::new(Mutex::new(LeaseTable::new(meta.fence)))
}

type Prepared = (WriterThread, DatabaseMetadata, Arc<BoundedQueue<Query>>);

fn prepare_writer(options: &SqliteOptions, living: &watch::Receiver<()>) -> Result<Prepared> {
    let path = open::create_file(&options.path)?;
    let lock = DatabaseLock::acquire_for_writing(&path, &options.command)?;
    let mut connection = open::open_writer(&path)?;
    let take_over = |error| translate_error(error, "take over its file");
    let meta = format::take_over_file(&mut connection).map_err(take_over)?;
    open::set_durability(&connection, options.durability).map_err(take_over)?;
    let reads = Arc::new(BoundedQueue::new(reader::WAITING));
    let readers = reader::start_readers(&path, &reads, living)?;
    let identity =
        FileIdentity::from_path(&path).map_err(|error| unavailable_error("find its file", error))?;
    let list = || ErasureListWriter::open_to_append(ErasureList::path_beside(&path));
    let erasures = options.lists_erasures.then(list).transpose()?;
    let writer = WriterThread {
        connection: Some(connection),
        path,
        identity,
        is_displaced: false,
        is_starved: false,
        durability: options.durability,
        erasures,
        names: NameIdCache::default(),
        meter: Arc::default(),
        residue: WalResidue::None,
        tail: EventLogTail::Sound,
        held: Vec::new(),
        fence: meta.fence,
        readers,
        _lock: lock,
    };
    Ok((writer, meta, reads))
}
