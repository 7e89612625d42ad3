//! A database that stands still for a while, for tests.

use std::time::Duration;

use singletree_durable::Result;

use crate::database::{Database, DatabaseAccess};
use crate::error::unavailable_error;
use crate::options::PostgresOptions;

const DOING: &str = "make its writes wait";

impl PostgresOptions {
    /// Makes all commits and acquisitions of all processes wait for a while; those that were sent meanwhile come one after the
    /// other when it is over, also those of processes that have ended. Reads and heartbeats go on. `on_stalled` is called when
    /// they wait.
    ///
    /// A fault to be injected: a process that is killed, or loses its connections, while its commits wait shows what a late
    /// commit does.
    ///
    /// # Errors
    /// `store_unavailable` when the database cannot be reached, has no schema of this store, or ends the connection.
    ///
    /// # Cancellation
    /// The writes go on when the connection is closed.
    pub async fn stall_writes(self, time: Duration, on_stalled: impl FnOnce() + Send) -> Result<()> {
        let access = (self.url.as_str(), DatabaseAccess::Write);
        let database = Database::new(access, 1, self.env.timer.clone(), self.statement_time)?;
        let failed = |error: tokio_postgres::Error| unavailable_error(DOING, error);
        let mut client = database.connect(DOING).await?;
        let stall = client.transaction().await.map_err(failed)?;
        // Whoever writes to a session writes to this table first.
        stall.batch_execute("LOCK TABLE singletree.lease IN EXCLUSIVE MODE").await.map_err(failed)?;
        on_stalled();
        self.env.timer.sleep_for(time).await;
        stall.rollback().await.map_err(failed)
    }
}
