//! A few threads that read, each with its own connection.

use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;

use rusqlite::{Connection, Transaction, TransactionBehavior};
use singletree_durable::{Error, Result};
use tokio::sync::{oneshot, watch};

use crate::error::{translate_error, unavailable_error};
use crate::open;
use crate::queue::{BoundedQueue, QueueRejection, QueueWorkerGuard};

/// How many threads read.
const THREADS: usize = 2;

/// How many reads may wait; one more is told that the store is unavailable (INV-12).
pub(crate) const WAITING: usize = 16_384;

/// One read: it gets the thread's connection, or why there is none.
pub(crate) type Query = Box<dyn FnOnce(Result<&mut Connection>) -> ConnectionReuse + Send>;

/// Whether a connection is used again after a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConnectionReuse {
    /// It goes on.
    Keep,
    /// The next query opens another.
    Drop,
}

/// Starts the threads. Each holds `alive` until it ends; connections are opened by the first query.
pub(crate) fn start_readers(
    path: &Path,
    queue: &Arc<BoundedQueue<Query>>,
    alive: &watch::Receiver<()>,
) -> Result<Vec<JoinHandle<()>>> {
    let attended = Arc::new(QueueWorkerGuard(Arc::clone(queue)));
    let mut threads = Vec::with_capacity(THREADS);
    for _ in 0..THREADS {
        let (path, attended, alive) = (path.to_owned(), Arc::clone(&attended), alive.clone());
        let thread = std::thread::Builder::new().name("sqlite-reader".to_owned()).spawn(move || {
            run_reader(&path, &attended.0);
            drop((attended, alive));
        });
        // Those that were started end when the queue is closed.
        threads.push(thread.map_err(|error| {
            queue.close();
            unavailable_error("start its readers", error)
        })?);
    }
    Ok(threads)
}

fn run_reader(path: &Path, queue: &BoundedQueue<Query>) {
    let mut connection = None;
    while let Some(query) = queue.wait_and_take(1).pop() {
        if connection.is_none() {
            connection = match open::open_reader(path) {
                Ok(opened) => Some(opened),
                Err(error) => {
                    query(Err(error));
                    continue;
                }
            };
        }
        let opened = connection.as_mut().expect("it was opened above");
        if query(Ok(opened)) == ConnectionReuse::Drop {
            connection = None;
        }
    }
}

/// Runs a query on one of the threads, in one snapshot, and waits for its answer.
///
/// # Cancellation
/// A dropped future drops the answer; the query may still run.
pub(crate) async fn run_on_reader<T: Send + 'static>(
    queue: &BoundedQueue<Query>,
    query: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T> + Send + 'static,
) -> Result<T> {
    let (answer, answered) = oneshot::channel();
    let job: Query = Box::new(move |connection| {
        let result = connection.and_then(|connection| {
            run_in_snapshot(connection, query).map_err(|error| translate_error(error, "read"))
        });
        let fate = if result.is_ok() { ConnectionReuse::Keep } else { ConnectionReuse::Drop };
        // Whoever dropped the future does not want to know.
        drop(answer.send(result));
        fate
    });
    queue.push(job).map_err(|error| rejection_error(error, "read"))?;
    answered.await.unwrap_or(Err(Error::Closed))
}

/// Says why a queue took no more.
pub(crate) fn rejection_error(rejected: QueueRejection, doing: &'static str) -> Error {
    match rejected {
        QueueRejection::Full => unavailable_error(doing, "its queue is full"),
        QueueRejection::Closed => Error::Closed,
    }
}

fn run_in_snapshot<T>(
    connection: &mut Connection,
    query: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<T> {
    let snapshot = connection.transaction_with_behavior(TransactionBehavior::Deferred)?;
    let result = query(&snapshot)?;
    snapshot.finish()?;
    Ok(result)
}
