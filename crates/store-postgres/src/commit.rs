//! Commits of batches: one statement each, in order, and settled when their answer is lost.

use std::sync::Arc;
use std::time::Duration;

use singletree_durable::{
    Batch, BatchPrecondition, BoxError, BoxFuture, Error, FencingToken, Result, RowMutation, SessionKey,
    Timestamp,
};
use singletree_erasures::ErasedName;
use tokio_postgres::types::{Json, Type};

use crate::database::bind;
use crate::encode::{encode_puts, encode_requirements};
use crate::error::{StatementFailure, unavailable_error};
use crate::store::PostgresStoreInner;

const DOING: &str = "write";

/// How often a batch is sent that conflicted with others, or whose commit is known to have failed.
const ATTEMPTS: u32 = 8;

/// How long to wait until the database is asked again for the outcome of a commit.
pub(crate) const PAUSE: Duration = Duration::from_millis(100);

/// The longest such wait.
pub(crate) const LONGEST_PAUSE: Duration = Duration::from_secs(2);

const APPLY: &str = "SELECT singletree.apply_batch($1, $2, $3, $4, $5, $6, $7)";

/// How the function refuses a batch for a requirement; the place of it follows.
const REQUIREMENT: &str = "requirement ";

const SETTLE: &str = "SELECT fence, commit_id FROM singletree.settle_commit($1, $2, $3, $4)";

/// A batch that is sent.
struct SentBatch {
    key: SessionKey,
    told: FencingToken,
    /// The id that the commit leaves on the session's row.
    commit: String,
    requires: Vec<BatchPrecondition>,
    puts: Vec<RowMutation>,
    /// The session that the batch deletes, and when.
    erased: Option<(ErasedName, Timestamp)>,
}

/// How a commit whose answer was lost has ended.
enum SettledCommit {
    Landed,
    /// It is not there and never will be.
    Failed,
}

impl PostgresStoreInner {
    /// Submits a batch: its place in the order of its session is taken now.
    pub(crate) fn submit_batch(self: &Arc<Self>, batch: Batch) -> BoxFuture<'static, Result<()>> {
        if self.database.is_closed() {
            return Box::pin(std::future::ready(Err(Error::Closed)));
        }
        let Some(turn) = self.lock_held().begin_batch(&batch.key, batch.fence) else {
            let lost = Error::LeaseLost { key: batch.key, fence: batch.fence };
            return Box::pin(std::future::ready(Err(lost)));
        };
        let (inner, commit) = (self.clone(), self.env.ids.generate_uuid());
        self.run_in_background(async move {
            let erased = ErasedName::of_batch(&batch);
            let Batch { key, fence: told, requires, puts } = batch;
            let sent = SentBatch { key, told, commit, requires, puts, erased };
            turn.run(&inner, &sent.key, inner.commit_batch(&sent)).await
        })
    }

    async fn commit_batch(&self, batch: &SentBatch) -> Result<()> {
        let mut failed: Option<BoxError> = None;
        for _ in 0..ATTEMPTS {
            let owner = self.owner();
            let Some(fence) = self.lock_held().real_fence(&batch.key, batch.told) else {
                return Err(batch.lost());
            };
            match self.send_batch(batch, owner, fence).await {
                Ok(()) => return Ok(()),
                Err(StatementFailure::LeaseLost) => {
                    self.lock_held().lose_session(&batch.key, batch.told);
                    return Err(batch.lost());
                }
                Err(StatementFailure::Conflict(error)) => failed = Some(error),
                Err(StatementFailure::Unknown(error)) => {
                    match self.settle_commit(batch, owner, fence, &error).await? {
                        SettledCommit::Landed => return Ok(()),
                        SettledCommit::Failed => failed = Some(error),
                    }
                }
                Err(StatementFailure::Refused(why)) => return Err(batch.refused(why)),
                Err(failure) => return Err(failure.into_error(DOING)),
            }
        }
        Err(unavailable_error(DOING, failed.unwrap_or_else(|| "others kept writing".into())))
    }

    async fn send_batch(
        &self,
        batch: &SentBatch,
        owner: i64,
        fence: i64,
    ) -> std::result::Result<(), StatementFailure> {
        let (tenant, session) = (batch.key.tenant.as_str(), batch.key.session.as_str());
        let requirements = Json(encode_requirements(&batch.requires));
        let puts = Json(encode_puts(&batch.puts));
        let parameters = [
            bind(&tenant, Type::TEXT),
            bind(&session, Type::TEXT),
            bind(&owner, Type::INT8),
            bind(&fence, Type::INT8),
            bind(&batch.commit, Type::TEXT),
            bind(&requirements, Type::JSONB),
            bind(&puts, Type::JSONB),
        ];
        match (&self.erasures, &batch.erased) {
            // Added to the list in between: not for a deletion that is refused, and before it counts.
            (Some(list), Some(erased)) => {
                let listed = list.add_names(vec![erased.clone()]);
                self.database.of_tenant(tenant).run_and_commit_after(APPLY, &parameters, DOING, listed).await
            }
            _ => self.database.of_tenant(tenant).run_statement(APPLY, &parameters, DOING).await.map(drop),
        }
    }

    /// Finds out how a commit ended whose answer was lost. By a write, never by a read: it raises the session's own
    /// fence, so that the lost statement has landed before it or never will. Until that is answered nothing else is
    /// written to the session.
    async fn settle_commit(
        &self,
        batch: &SentBatch,
        owner: i64,
        fence: i64,
        cause: &BoxError,
    ) -> Result<SettledCommit> {
        let (tenant, session) = (batch.key.tenant.as_str(), batch.key.session.as_str());
        let unknown =
            |why: &str| Error::CommitUnknown { doing: DOING, source: format!("{cause}; {why}").into() };
        let mut pause = PAUSE;
        loop {
            let parameters = [
                bind(&tenant, Type::TEXT),
                bind(&session, Type::TEXT),
                bind(&owner, Type::INT8),
                bind(&fence, Type::INT8),
            ];
            if let Ok(rows) = self.database.of_tenant(tenant).run_statement(SETTLE, &parameters, DOING).await
            {
                let Some(row) = rows.first() else {
                    self.lock_held().lose_session(&batch.key, batch.told);
                    return Err(unknown("the session is held by another owner now"));
                };
                self.lock_held().raise_fence(&batch.key, batch.told, row.get(0));
                let last: Option<String> = row.get(1);
                return Ok(match last.as_deref() == Some(&batch.commit) {
                    true => SettledCommit::Landed,
                    false => SettledCommit::Failed,
                });
            }
            if self.database.is_closed() {
                return Err(unknown("the store was closed"));
            }
            self.env.timer.sleep_for(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }
}

impl SentBatch {
    fn lost(&self) -> Error {
        Error::LeaseLost { key: self.key.clone(), fence: self.told }
    }

    /// Names the requirement as the other stores do: the function of the schema names its place.
    fn refused(&self, why: String) -> Error {
        let place = why.strip_prefix(REQUIREMENT).and_then(|place| place.parse::<usize>().ok());
        let required = place.and_then(|place| self.requires.get(place));
        Error::Refused { requirement: required.map_or(why, |required| format!("{required:?}")) }
    }
}
