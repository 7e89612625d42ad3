//! The list of the processes that share the database.

use std::time::Duration;

use singletree_durable::{Result, SessionKey};
use tokio_postgres::types::Type;

use crate::PostgresStore;
use crate::database::bind;

/// The most processes that are listed.
const NODES_MAX: i64 = 1_000;

/// A process that is registered as an owner of sessions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeSummary {
    /// Its number: a process that lost its lease and goes on has a new one.
    pub incarnation: u64,
    /// Its name ([`PostgresOptions::node`](crate::PostgresOptions::node)).
    pub name: String,
    /// Where it can be reached, if it said so ([`PostgresOptions::address`](crate::PostgresOptions::address)).
    pub address: Option<String>,
    /// How long its lease still lasts by the database's clock, in whole milliseconds; none when it has ended. Its sessions
    /// are taken over by others then.
    pub lease_left: Option<Duration>,
    /// How many sessions it holds.
    pub sessions: u64,
    /// Whether it takes no more work: it is being stopped, and gives its sessions back as their turns end.
    pub is_draining: bool,
}

impl PostgresStore {
    /// Returns the address of another process that holds a session; none where nobody else does, where its lease has ended,
    /// or where it has no address. What is done with the session may have changed that already.
    ///
    /// # Errors
    /// `store_unavailable`, `store_closed`.
    ///
    /// # Cancellation
    /// Nothing is left behind.
    pub async fn other_owner(&self, key: &SessionKey) -> Result<Option<String>> {
        let sql = "SELECT n.address FROM singletree.lease l JOIN singletree.node n ON n.incarnation = l.owner \
            WHERE l.tenant = $1 AND l.session = $2 AND n.incarnation <> $3 AND n.alive_until > now()";
        let (tenant, session, own) = (key.tenant.as_str(), key.session.as_str(), self.inner().owner());
        let parameters = [bind(&tenant, Type::TEXT), bind(&session, Type::TEXT), bind(&own, Type::INT8)];
        let rows = self.inner().database.of_tenant(tenant).read_rows(sql, &parameters).await?;
        Ok(rows.first().and_then(|row| row.get(0)))
    }

    /// Tells whether no other process that has this address lives: each was silent for a whole lease by this one's own clock, or is
    /// not registered any more. It tells of the last look into the database, a few times in a lease; false while it
    /// cannot be looked at. Whoever has died may register again at any time.
    #[must_use]
    pub fn has_node_died(&self, address: &str) -> bool {
        let inner = self.inner();
        let now = inner.env.monotonic.elapsed_since_origin();
        inner.lock_others().has_died(address, (inner.lease, now))
    }

    /// Lists the processes that are registered as owners of sessions, the oldest first, at most 1,000. One that was stopped
    /// in an orderly way is not among them; one that died is, until a process that starts a day later removes it.
    ///
    /// It reads all leases once: its cost grows with the number of sessions in the database.
    ///
    /// # Errors
    /// `store_unavailable`, `store_closed`.
    ///
    /// # Cancellation
    /// Nothing is left behind.
    pub async fn nodes(&self) -> Result<Vec<NodeSummary>> {
        let sql = "SELECT node.incarnation, node.name, node.address, \
            (extract(epoch FROM node.alive_until - now()) * 1000)::bigint, \
            coalesce(held.sessions, 0), coalesce(node.serves->'graphs' = '[]'::jsonb, false) FROM singletree.node LEFT JOIN \
            (SELECT owner, count(*) AS sessions FROM singletree.lease GROUP BY owner) AS held \
            ON held.owner = node.incarnation ORDER BY node.incarnation LIMIT $1";
        let rows =
            self.inner().database.of_all_tenants().read_rows(sql, &[bind(&NODES_MAX, Type::INT8)]).await?;
        let number = |number: i64| u64::try_from(number).unwrap_or(0);
        let describe = |row: &tokio_postgres::Row| NodeSummary {
            incarnation: number(row.get(0)),
            name: row.get(1),
            address: row.get(2),
            lease_left: Some(number(row.get(3))).filter(|left| *left > 0).map(Duration::from_millis),
            sessions: number(row.get(4)),
            is_draining: row.get(5),
        };
        Ok(rows.iter().map(describe).collect())
    }
}
