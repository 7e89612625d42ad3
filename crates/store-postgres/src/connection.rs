//! Connections, watched for commits that no standby has confirmed.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Poll, ready};

use deadpool_postgres::Connect;
use futures_util::future::BoxFuture;
use tokio::task::JoinHandle;
use tokio_postgres::error::{DbError, SqlState};
use tokio_postgres::{AsyncMessage, Client, Config, Error};

use crate::tls::Encryption;

/// The routine of PostgreSQL in which a commit waits for its standby.
const WAIT_ROUTINE: &str = "SyncRepWaitForLSN";

/// How often the database has told that it stopped waiting for a standby: a commit is then on its own disk, and acknowledged,
/// though it would be lost with that disk. It does so when the statement is cancelled during that wait, by an administrator or
/// by a `statement_timeout`.
#[derive(Debug, Clone, Default)]
pub(crate) struct UnconfirmedCommits(Arc<AtomicU64>);

impl UnconfirmedCommits {
    /// Returns how many there were on all connections. One of a statement is counted before its answer is there.
    pub(crate) fn count(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }

    fn watch(&self, notice: &DbError) {
        // The text is in the language of the server. Other warnings are of no concern, such as that of an outdated collation.
        let is_of_wait = notice.routine().is_none_or(|routine| routine == WAIT_ROUTINE);
        if *notice.code() == SqlState::WARNING && is_of_wait {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
}

/// Makes the connections of a pool.
pub(crate) struct WatchedConnections {
    pub(crate) encryption: Encryption,
    pub(crate) unconfirmed: UnconfirmedCommits,
}

impl Connect for WatchedConnections {
    fn connect(&self, config: &Config) -> BoxFuture<'_, Result<(Client, JoinHandle<()>), Error>> {
        let config = config.clone();
        Box::pin(async move {
            let (client, mut connection) = config.connect(self.encryption.clone()).await?;
            let unconfirmed = self.unconfirmed.clone();
            let serving = poll_fn(move |context| {
                loop {
                    match ready!(connection.poll_message(context)) {
                        Some(Ok(AsyncMessage::Notice(notice))) => unconfirmed.watch(&notice),
                        Some(Ok(_)) => {}
                        // Whoever waits for an answer on it is told of its end by the client.
                        Some(Err(_)) | None => return Poll::Ready(()),
                    }
                }
            });
            #[expect(clippy::disallowed_methods, reason = "the pool ends the task with its connection")]
            let task = tokio::spawn(serving);
            Ok((client, task))
        })
    }
}
