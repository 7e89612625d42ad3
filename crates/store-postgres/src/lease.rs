//! The sessions that this handle holds: acquired once, shared by its callers, written in order.

use std::collections::HashMap;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::{Shared, join_all};
use singletree_durable::{
    AcquiredSession, BoxFuture, Error, FencingToken, Result, SessionKey, SessionSnapshot,
};
use tokio::sync::oneshot;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::commit::{LONGEST_PAUSE, PAUSE};
use crate::database::bind;
use crate::error::{StatementFailure, unavailable_error};
use crate::row::{DossierColumns, decode_json};
use crate::store::PostgresStoreInner;

/// Is ready when a write has ended.
type WriteEnd = Shared<oneshot::Receiver<()>>;

/// One session that this handle holds.
#[derive(Debug)]
struct HeldSession {
    /// The fence that callers were told.
    told: FencingToken,
    /// The fence in the database: higher than the told one after the outcome of a commit was settled.
    real: i64,
    /// How often it was acquired and not released.
    count: u64,
}

/// The sessions that a handle holds, and their writes in flight. Bounded by the sessions that are loaded or written.
#[derive(Debug, Default)]
pub(crate) struct HeldSessions {
    held: HashMap<SessionKey, HeldSession>,
    /// The last write of each session that may be in flight, releases included.
    last: HashMap<SessionKey, (u64, WriteEnd)>,
    writes: u64,
}

/// The place of a write behind the earlier ones of its session.
#[derive(Debug)]
pub(crate) struct WriteTurn {
    no: u64,
    before: Option<WriteEnd>,
    done: Option<oneshot::Sender<()>>,
}

impl HeldSessions {
    /// Takes a place behind the earlier writes of a session.
    fn begin_write(&mut self, key: &SessionKey) -> WriteTurn {
        let (done, end) = oneshot::channel();
        self.writes += 1;
        let before = self.last.insert(key.clone(), (self.writes, end.shared()));
        WriteTurn { no: self.writes, before: before.map(|(_, end)| end), done: Some(done) }
    }

    /// Takes the place of a batch, if its session is held under its fence.
    pub(crate) fn begin_batch(&mut self, key: &SessionKey, fence: FencingToken) -> Option<WriteTurn> {
        self.held.get(key).filter(|held| held.told == fence)?;
        Some(self.begin_write(key))
    }

    /// Ends a write. The place of the last one of a session is given up.
    fn end_write(&mut self, key: &SessionKey, no: u64) {
        if self.last.get(key).is_some_and(|(last, _)| *last == no) {
            self.last.remove(key);
        }
    }

    /// Gives up the places of writes that have ended, also of those whose task was dropped.
    fn forget_ended_writes(&mut self) {
        self.last.retain(|_, (_, end)| end.peek().is_none());
    }

    /// Returns the fence in the database, if the session is held under the told one.
    pub(crate) fn real_fence(&self, key: &SessionKey, told: FencingToken) -> Option<i64> {
        self.held.get(key).filter(|held| held.told == told).map(|held| held.real)
    }

    /// Records the fence to which a settled commit has raised a session.
    pub(crate) fn raise_fence(&mut self, key: &SessionKey, told: FencingToken, real: i64) {
        if let Some(held) = self.held.get_mut(key).filter(|held| held.told == told) {
            held.real = real;
        }
    }

    /// Records that a session is another owner's.
    pub(crate) fn lose_session(&mut self, key: &SessionKey, told: FencingToken) {
        if self.held.get(key).is_some_and(|held| held.told == told) {
            self.held.remove(key);
        }
    }

    /// Records that all sessions are free for other owners.
    pub(crate) fn lose_all(&mut self) {
        self.held.clear();
    }

    /// Holds a session that is held already once more.
    fn hold_again(&mut self, key: &SessionKey) -> Option<FencingToken> {
        let held = self.held.get_mut(key)?;
        held.count += 1;
        Some(held.told)
    }

    fn hold(&mut self, key: &SessionKey, fence: i64) -> FencingToken {
        let told = FencingToken(fence.cast_unsigned());
        self.hold_again(key).unwrap_or_else(|| {
            self.held.insert(key.clone(), HeldSession { told, real: fence, count: 1 });
            told
        })
    }

    /// Releases a session once; returns its place among the writes and its fence when it is not held any more.
    fn release(&mut self, key: &SessionKey) -> Option<(WriteTurn, i64)> {
        let held = self.held.get_mut(key)?;
        held.count -= 1;
        if held.count > 0 {
            return None;
        }
        let real = self.held.remove(key)?.real;
        Some((self.begin_write(key), real))
    }
}

impl WriteTurn {
    /// Waits for the earlier writes of the session, runs this one, and lets the next one begin.
    pub(crate) async fn run<T>(
        mut self,
        inner: &PostgresStoreInner,
        key: &SessionKey,
        write: impl Future<Output = T>,
    ) -> T {
        if let Some(before) = self.before.take() {
            // A write whose task was dropped has ended, too.
            drop(before.await);
        }
        let done = write.await;
        inner.lock_held().end_write(key, self.no);
        if let Some(end) = self.done.take() {
            // Nobody may wait.
            end.send(()).unwrap_or_default();
        }
        done
    }
}

impl PostgresStoreInner {
    /// Acquires a session and reads it.
    pub(crate) async fn acquire_session(self: &Arc<Self>, key: &SessionKey) -> Result<AcquiredSession> {
        let fence = loop {
            let releasing = {
                let mut held = self.lock_held();
                if let Some(told) = held.hold_again(key) {
                    break told;
                }
                held.last.get(key).map(|(_, end)| end.clone())
            };
            // A release that is on its way lands first: it must not take away what is acquired now.
            if let Some(releasing) = releasing {
                drop(releasing.await);
                self.lock_held().forget_ended_writes();
                continue;
            }
            break self.raise_session_fence(key).await?;
        };
        // A statement of its own: its snapshot is taken after the fence was raised.
        match self.read_snapshot(key).await {
            Ok(snapshot) => Ok(AcquiredSession { fence, snapshot }),
            Err(error) => {
                drop(self.release_sessions(vec![key.clone()]));
                Err(error)
            }
        }
    }

    /// Makes this handle the owner of a session in the database.
    async fn raise_session_fence(self: &Arc<Self>, key: &SessionKey) -> Result<FencingToken> {
        const DOING: &str = "acquire a session";
        const SQL: &str =
            "SELECT fence, node, address FROM singletree.acquire_served($1, $2, $3, $4, $5, $6)";
        for _ in 0..ATTEMPTS {
            let owner = self.owner();
            let (dead, beats) = self.lock_others().find_dead(self.lease);
            let (tenant, session) = (key.tenant.as_str(), key.session.as_str());
            let oldest = self.oldest_turn_left();
            let parameters = [
                bind(&tenant, Type::TEXT),
                bind(&session, Type::TEXT),
                bind(&owner, Type::INT8),
                bind(&dead, Type::INT8_ARRAY),
                bind(&beats, Type::INT8_ARRAY),
                bind(&oldest, Type::INT8),
            ];
            match self.database.of_tenant(tenant).run_statement(SQL, &parameters, DOING).await {
                Ok(rows) => {
                    let Some(row) = rows.first() else {
                        match self.find_other_owner(key).await? {
                            Some(held) => return Err(held),
                            // It has ended since.
                            None => continue,
                        }
                    };
                    let Some(fence) = row.get(0) else {
                        let (node, address) = (row.get(1), row.get(2));
                        return Err(Error::HeldElsewhere { key: key.clone(), node, address });
                    };
                    let mut held = self.lock_held();
                    if self.owner() == owner {
                        return Ok(held.hold(key, fence));
                    }
                }
                Err(StatementFailure::NodeEnded) => self.replace_node().await?,
                Err(StatementFailure::Conflict(_) | StatementFailure::Unknown(_)) => {}
                Err(failure) => return Err(failure.into_error(DOING)),
            }
        }
        Err(unavailable_error(DOING, "the database could not be asked"))
    }

    /// Returns the error that names the other owner of a session; none where no other node has it.
    async fn find_other_owner(&self, key: &SessionKey) -> Result<Option<Error>> {
        let (tenant, session, owner) = (key.tenant.as_str(), key.session.as_str(), self.owner());
        let parameters = [bind(&tenant, Type::TEXT), bind(&session, Type::TEXT), bind(&owner, Type::INT8)];
        let sql = "SELECT n.name, n.address FROM singletree.lease l \
            JOIN singletree.node n ON n.incarnation = l.owner \
            WHERE l.tenant = $1 AND l.session = $2 AND l.owner <> $3";
        let rows = self.database.of_tenant(tenant).read_rows(sql, &parameters).await?;
        let to_error =
            |row: &Row| Error::HeldElsewhere { key: key.clone(), node: row.get(0), address: row.get(1) };
        Ok(rows.first().map(to_error))
    }

    /// Gives sessions back, after their writes in flight.
    pub(crate) fn release_sessions(
        self: &Arc<Self>,
        keys: Vec<SessionKey>,
    ) -> BoxFuture<'static, Result<()>> {
        const SQL: &str = "SELECT singletree.release($1, $2, $3, $4)";
        let mut releases = Vec::new();
        {
            let mut held = self.lock_held();
            for key in keys {
                releases.extend(held.release(&key).map(|(turn, fence)| (key, turn, fence)));
            }
        }
        if releases.is_empty() {
            return Box::pin(std::future::ready(Ok(())));
        }
        let inner = self.clone();
        self.run_in_background(async move {
            let (owner, inner) = (inner.owner(), &inner);
            join_all(releases.into_iter().map(|(key, turn, fence)| async move {
                let release = async {
                    let (tenant, session) = (key.tenant.as_str(), key.session.as_str());
                    let parameters = [
                        bind(&tenant, Type::TEXT),
                        bind(&session, Type::TEXT),
                        bind(&owner, Type::INT8),
                        bind(&fence, Type::INT8),
                    ];
                    let mut pause = PAUSE;
                    // Until then no other owner gets the session, since this one is alive.
                    while inner
                        .database
                        .of_tenant(tenant)
                        .run_statement(SQL, &parameters, "release a session")
                        .await
                        .is_err()
                        && !inner.database.is_closed()
                    {
                        inner.env.timer.sleep_for(pause).await;
                        pause = (pause * 2).min(LONGEST_PAUSE);
                    }
                };
                turn.run(inner, &key, release).await;
            }))
            .await;
            Ok(())
        })
    }

    /// Waits until no write is in flight.
    pub(crate) async fn wait_for_writes(&self) {
        loop {
            let ends: Vec<WriteEnd> = self.lock_held().last.values().map(|(_, end)| end.clone()).collect();
            if ends.is_empty() {
                return;
            }
            drop(join_all(ends).await);
            self.lock_held().forget_ended_writes();
        }
    }

    /// Reads what a writer needs of a session.
    pub(crate) async fn read_snapshot(&self, key: &SessionKey) -> Result<SessionSnapshot> {
        let (tenant, session) = (key.tenant.as_str(), key.session.as_str());
        let parameters = [bind(&tenant, Type::TEXT), bind(&session, Type::TEXT)];
        let sql = "SELECT singletree.read_dossier($1, $2)::text";
        let rows = self.database.of_tenant(tenant).read_rows(sql, &parameters).await?;
        let text: &str = rows.first().ok_or(Error::Closed)?.get(0);
        decode_json::<DossierColumns>(text, "a session")?.into_snapshot()
    }
}

/// How often the database is asked for a session.
const ATTEMPTS: u32 = 3;
