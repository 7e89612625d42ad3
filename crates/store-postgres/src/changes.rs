//! Reading the commits of all processes, for tenants that are followed.
//!
//! Commits draw numbers, and land in another order than that. So a follower asks again for numbers that it has not seen below
//! the highest one, until no commit that has drawn them can be under way any more.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use singletree_durable::{
    BoxFuture, ChangeFollower, CommittedChange, CommittedChanges, CreatedSession, Result, SessionId,
    SessionKey, TenantId, Timestamp,
};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::database::bind;
use crate::error::corrupt_error;
use crate::read::event_from_row;
use crate::store::PostgresStoreInner;

const DOING: &str = "follow changes";

/// How many changes are read at once.
const PAGE: usize = 64;

/// The first column of an event.
const FIRST_OF_EVENT: usize = 7;

/// How long a commit may take that has drawn a number: longer than a statement may. The database removes changes then, too.
const COMMIT_TIME: Duration = Duration::from_secs(60);

/// How many numbers are asked for again at most; the highest ones.
const MISSING_MAX: usize = 10_000;

const FOLLOW: &str = "SELECT singletree.follow_tenants($1, $2)";

/// The batches that have begun and not ended: each holds a lock on this table from its first statement to its end.
const UNDER_WAY: &str = "SELECT DISTINCT virtualtransaction FROM pg_locks WHERE locktype = 'relation' \
    AND relation = 'singletree.lease'::regclass AND mode = 'RowExclusiveLock' \
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";

/// How long to wait until it is looked again whether a batch has ended.
const PAUSE: Duration = Duration::from_millis(10);

const POSITION: &str = "SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM singletree.change_no";

/// The rows of the tenants' sessions and events stand beside the changes: one read for all of them.
const READ: &str = "SELECT c.no, c.tenant, c.session, c.created, c.deleted_at, s.agent, s.created_at, \
        e.seq, e.turn, e.kind, e.item, e.at, e.body \
    FROM (SELECT * FROM singletree.change WHERE no > $1 OR no = ANY($2) ORDER BY no LIMIT $3) c \
    LEFT JOIN singletree.session s ON s.tenant = c.tenant AND s.session = c.session AND c.tenant = ANY($4) \
    LEFT JOIN singletree.event e ON e.session = s.id AND e.seq BETWEEN c.first_event AND c.last_event \
    ORDER BY c.no, e.seq";

/// A follower of one process.
pub(crate) struct PostgresChangeFollower {
    inner: Arc<PostgresStoreInner>,
    /// Its name in the database; drawn by its first call.
    reader: Option<String>,
    position: ChangePosition,
    /// Batches that may have looked for followers before this one was there.
    awaited: BTreeSet<String>,
}

/// The position up to which changes were read.
#[derive(Debug, Default)]
struct ChangePosition {
    /// The highest number that was read; none before the first one is known.
    highest: Option<i64>,
    /// Numbers below it that were not seen, each with the time at which that was noticed.
    missing: BTreeMap<i64, Duration>,
}

impl PostgresStoreInner {
    /// Removes changes that a process left which was killed, unless somebody follows a tenant.
    pub(crate) async fn remove_unread_changes(&self) -> Result<()> {
        let nobody: Vec<&str> = Vec::new();
        let parameters = [bind(&"", Type::TEXT), bind(&nobody, Type::TEXT_ARRAY)];
        let removed = self.database.of_all_tenants().run_statement(FOLLOW, &parameters, DOING).await;
        removed.map(drop).map_err(|failure| failure.into_error(DOING))
    }
}

impl PostgresChangeFollower {
    pub(crate) fn new(inner: Arc<PostgresStoreInner>) -> Self {
        Self { inner, reader: None, position: ChangePosition::default(), awaited: BTreeSet::new() }
    }

    async fn read_next(&mut self, tenants: &BTreeSet<TenantId>) -> Result<CommittedChanges> {
        let database = self.inner.database.of_all_tenants();
        let reader = self.reader.get_or_insert_with(|| self.inner.env.ids.generate_uuid());
        let names: Vec<&str> = tenants.iter().map(TenantId::as_str).collect();
        let parameters = [bind(reader, Type::TEXT), bind(&names, Type::TEXT_ARRAY)];
        let followed = database.run_statement(FOLLOW, &parameters, DOING).await;
        let followed = followed.map_err(|failure| failure.into_error(DOING))?;
        let anew = followed.iter().map(|row| parse_tenant(row.get(0))).collect::<Result<Vec<_>>>()?;
        if !anew.is_empty() {
            self.awaited.extend(self.read_under_way().await?);
        }
        while !self.awaited.is_empty() {
            self.inner.env.timer.sleep_for(PAUSE).await;
            let under_way = self.read_under_way().await?;
            self.awaited.retain(|batch| under_way.contains(batch));
        }
        // No earlier change concerns these tenants; a standby that took over may count from lower numbers.
        if anew.len() == tenants.len() || self.position.highest.is_none() {
            let rows = database.read_rows(POSITION, &[]).await?;
            let highest = rows.first().map(|row| row.get(0));
            self.position = ChangePosition { highest, missing: BTreeMap::new() };
            return Ok(CommittedChanges { changes: Vec::new(), anew, has_more: false });
        }
        let now = self.inner.env.monotonic.elapsed_since_origin();
        let (highest, missing) = self.position.next_query(now);
        let parameters = [
            bind(&highest, Type::INT8),
            bind(&missing, Type::INT8_ARRAY),
            bind(&(PAGE as i64), Type::INT8),
            bind(&names, Type::TEXT_ARRAY),
        ];
        let read = parse_changes(&database.read_rows(READ, &parameters).await?)?;
        let has_more = read.len() == PAGE;
        read.keys().for_each(|no| self.position.note_read(*no, now));
        let changes = read.into_values().filter(|change| tenants.contains(&change.key.tenant)).collect();
        Ok(CommittedChanges { changes, anew, has_more })
    }

    async fn read_under_way(&self) -> Result<BTreeSet<String>> {
        let rows = self.inner.database.of_all_tenants().read_rows(UNDER_WAY, &[]).await?;
        Ok(rows.iter().map(|row| row.get(0)).collect())
    }
}

impl ChangeFollower for PostgresChangeFollower {
    fn read_changes<'a>(
        &'a mut self,
        tenants: &'a BTreeSet<TenantId>,
    ) -> BoxFuture<'a, Result<CommittedChanges>> {
        Box::pin(self.read_next(tenants))
    }
}

impl fmt::Debug for PostgresChangeFollower {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresChangeFollower").field("position", &self.position).finish_non_exhaustive()
    }
}

impl ChangePosition {
    /// Returns the numbers to ask for: those above the first, and the others one by one.
    fn next_query(&mut self, now: Duration) -> (i64, Vec<i64>) {
        self.missing.retain(|_, since| now.saturating_sub(*since) < COMMIT_TIME);
        (self.highest.unwrap_or(0), self.missing.keys().copied().collect())
    }

    fn note_read(&mut self, no: i64, now: Duration) {
        let highest = self.highest.unwrap_or(0);
        if no <= highest {
            self.missing.remove(&no);
            return;
        }
        let first = (highest + 1).max(no.saturating_sub(MISSING_MAX as i64));
        self.missing.extend((first..no).map(|missing| (missing, now)));
        while self.missing.len() > MISSING_MAX {
            self.missing.pop_first();
        }
        self.highest = Some(no);
    }
}

fn parse_tenant(name: &str) -> Result<TenantId> {
    TenantId::parse(name).map_err(|error| corrupt_error(format!("tenant {name}"), Some(error.into())))
}

/// Reads the changes, each under its number.
fn parse_changes(rows: &[Row]) -> Result<BTreeMap<i64, CommittedChange>> {
    let mut changes = BTreeMap::new();
    for row in rows {
        let change = match changes.entry(row.get(0)) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => entry.insert(parse_change(row)?),
        };
        if row.get::<_, Option<i64>>(FIRST_OF_EVENT).is_some() {
            change.events.push(event_from_row(row, FIRST_OF_EVENT)?);
        }
    }
    Ok(changes)
}

fn parse_change(row: &Row) -> Result<CommittedChange> {
    let session: &str = row.get(2);
    let session = SessionId::parse(session)
        .map_err(|error| corrupt_error(format!("session {session}"), Some(error.into())))?;
    let time = |at: usize| row.get::<_, Option<i64>>(at).map(Timestamp::from_millis);
    let created = row.get::<_, Option<String>>(5).zip(time(6)).filter(|_| row.get(3));
    Ok(CommittedChange {
        key: SessionKey::new(parse_tenant(row.get(1))?, session),
        created: created.map(|(agent, at)| CreatedSession { agent, at }),
        deleted_at: time(4),
        events: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(position: &mut ChangePosition, numbers: &[i64], at: u64) -> (i64, Vec<i64>) {
        let now = Duration::from_secs(at);
        numbers.iter().for_each(|no| position.note_read(*no, now));
        position.next_query(now)
    }

    #[test]
    fn numbers_that_were_not_seen_are_asked_for_until_no_commit_can_have_them() {
        let mut position = ChangePosition { highest: Some(7), ..ChangePosition::default() };
        assert_eq!(read(&mut position, &[8, 11], 0), (11, vec![9, 10]));
        assert_eq!(read(&mut position, &[10, 13], 30), (13, vec![9, 12]));
        assert_eq!(read(&mut position, &[], 60), (13, vec![12]));
        assert_eq!(read(&mut position, &[12], 61), (13, vec![]));
    }

    #[test]
    fn the_numbers_that_are_asked_for_have_a_limit() {
        let mut position = ChangePosition { highest: Some(0), ..ChangePosition::default() };
        let last = 2 * MISSING_MAX as i64;
        let (highest, missing) = read(&mut position, &[3, last], 0);
        assert_eq!((highest, missing.len(), missing[0]), (last, MISSING_MAX, last - MISSING_MAX as i64));
    }
}
