//! The row of this process among the owners of sessions, and its heartbeat.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use singletree_durable::{Error, FencingToken, Result, SessionKey};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::database::bind;
use crate::migration::known_version;
use crate::store::PostgresStoreInner;

/// How many heartbeats a lease has.
const BEATS: u32 = 5;

/// How often the heartbeats of the other nodes are read between two own ones, with the own one. Their time is the part of a
/// takeover that adds to the lease.
const LOOKS: u32 = 4;

/// The part of a lease, as a divisor, in which nothing is answered from memory any more before it was renewed.
const MARGIN: u32 = 4;

const DOING: &str = "renew its lease";

/// The last heartbeats of the other nodes. Who is silent for a whole lease by this process's own clock counts as dead: its row is
/// removed by the statement that takes one of its sessions, if it has not beaten by then. So no clock but this process's own
/// decides, and a step of the database's clock ends no lease.
#[derive(Debug, Default)]
pub(crate) struct DeadNodes {
    /// By the number of the owner: the beat, and since when it was seen unchanged, on this process's own clock.
    seen: HashMap<i64, (i64, Duration)>,
    /// The addresses of the owners that have one.
    addresses: HashMap<i64, String>,
    last_look: Duration,
}

impl DeadNodes {
    /// Records what was read of the other nodes.
    fn record_beats(&mut self, beats: impl Iterator<Item = (i64, i64)>, lease: Duration, now: Duration) {
        let before = if self.is_blind(lease, now) { HashMap::new() } else { std::mem::take(&mut self.seen) };
        self.last_look = now;
        self.seen = beats
            .map(|(owner, beat)| {
                let same = before.get(&owner).filter(|(seen, _)| *seen == beat);
                (owner, *same.unwrap_or(&(beat, now)))
            })
            .collect();
    }

    /// Tells whether it could not be looked for a while: then nobody knows who was silent, since the database may have been away
    /// for all.
    fn is_blind(&self, lease: Duration, now: Duration) -> bool {
        now.saturating_sub(self.last_look) >= lease / 2
    }

    /// Tells whether each owner with this address was silent for a whole lease, or there is none.
    pub(crate) fn has_died(&self, address: &str, (lease, now): (Duration, Duration)) -> bool {
        let mut of_address = self.addresses.iter().filter(|(_, it)| *it == address).map(|(owner, _)| owner);
        let is_silent =
            |owner: &i64| self.seen.get(owner).is_none_or(|(_, since)| self.is_silent(*since, lease));
        let has_looked = self.last_look > Duration::ZERO && !self.is_blind(lease, now);
        has_looked && of_address.all(is_silent)
    }

    fn is_silent(&self, since: Duration, lease: Duration) -> bool {
        self.last_look.saturating_sub(since) >= lease
    }

    /// Returns the owners that were silent for a whole lease, with their last beats. The time since the last look does not
    /// count: nobody may have been able to beat in it.
    pub(crate) fn find_dead(&self, lease: Duration) -> (Vec<i64>, Vec<i64>) {
        let silent = self.seen.iter().filter(|(_, (_, since))| self.is_silent(*since, lease));
        silent.map(|(owner, (beat, _))| (*owner, *beat)).unzip()
    }
}

/// Starts the heartbeat, which ends with the last handle.
pub(crate) fn start_heartbeat(inner: &Arc<PostgresStoreInner>) {
    let (watched, timer) = (Arc::downgrade(inner), inner.env.timer.clone());
    let pause = inner.lease / BEATS / LOOKS;
    inner.env.spawner.spawn_task(Box::pin(async move {
        for look in (1..=LOOKS).cycle() {
            timer.sleep_for(pause).await;
            let Some(inner) = watched.upgrade().filter(|inner| !inner.database.is_closed()) else { return };
            // A failure is left to the next beat; if none succeeds, the lease ends.
            drop(match look {
                LOOKS => inner.renew_lease().await,
                _ => inner.watch_others().await,
            });
        }
    }));
}

impl PostgresStoreInner {
    /// Registers this process as a new owner.
    pub(crate) async fn register_node(&self) -> Result<()> {
        let sql = "INSERT INTO singletree.node (incarnation, name, address, schema_version, alive_until) \
            VALUES (nextval('singletree.fence'), $1, $2, $4, now() + $3 * interval '1 millisecond') \
            RETURNING incarnation";
        let (lease, address) = (self.lease_millis(), self.lock_address().clone());
        let version = known_version();
        let parameters = [
            bind(&self.name, Type::TEXT),
            bind(&address, Type::TEXT),
            bind(&lease, Type::FLOAT8),
            bind(&version, Type::INT4),
        ];
        let sent = self.env.monotonic.elapsed_since_origin();
        let rows = self.heartbeat.of_all_tenants().run_statement(sql, &parameters, DOING).await;
        let rows = rows.map_err(|failure| failure.into_error(DOING))?;
        *self.lock_renewed() = sent;
        self.set_owner(rows.first().map_or(0, |row| row.get(0)));
        // Rows of processes that nobody will see again. A session whose owner has no row is free.
        let old = "DELETE FROM singletree.node WHERE alive_until < now() - interval '1 day'";
        drop(self.database.of_all_tenants().run_statement(old, &[], DOING).await);
        drop(
            self.database
                .of_all_tenants()
                .run_statement("SELECT singletree.forget_leases()", &[], DOING)
                .await,
        );
        Ok(())
    }

    /// Writes the address of this process into its row.
    pub(crate) async fn write_address(&self) -> Result<()> {
        const DOING: &str = "register its address";
        let (owner, address) = (self.owner(), self.lock_address().clone());
        let sql = "UPDATE singletree.node SET address = $2 WHERE incarnation = $1";
        let parameters = [bind(&owner, Type::INT8), bind(&address, Type::TEXT)];
        let written = self.heartbeat.of_all_tenants().run_statement(sql, &parameters, DOING).await;
        written.map(drop).map_err(|failure| failure.into_error(DOING))
    }

    fn lease_millis(&self) -> f64 {
        self.lease.as_secs_f64() * 1_000.0
    }

    /// Ends this handle among the owners: its sessions are free.
    pub(crate) async fn remove_node(&self) -> Result<()> {
        let sql = "DELETE FROM singletree.node WHERE incarnation = $1";
        let removed = self
            .heartbeat
            .of_all_tenants()
            .run_statement(sql, &[bind(&self.owner(), Type::INT8)], DOING)
            .await;
        removed.map(drop).map_err(|failure| failure.into_error(DOING))
    }

    /// Renews the lease. Where another node has removed this one as dead, all sessions are dropped, and this handle goes on as
    /// another owner.
    pub(crate) async fn renew_lease(&self) -> Result<()> {
        let sql = "UPDATE singletree.node SET beat = beat + 1, \
            alive_until = now() + $2 * interval '1 millisecond' \
            WHERE incarnation = $1 RETURNING beat";
        let (owner, lease) = (self.owner(), self.lease_millis());
        let sent = self.env.monotonic.elapsed_since_origin();
        let parameters = [bind(&owner, Type::INT8), bind(&lease, Type::FLOAT8)];
        let rows = self.heartbeat.of_all_tenants().run_statement(sql, &parameters, DOING).await;
        let rows = rows.map_err(|failure| failure.into_error(DOING))?;
        if rows.is_empty() {
            self.replace_node().await?;
        } else {
            *self.lock_renewed() = sent;
        }
        self.register_graphs().await?;
        self.watch_others().await
    }

    /// Checks that a session is held under a fence. Close to the end of the lease, or behind it, the lease is renewed first:
    /// the process may have stood still, and another one may have the session.
    pub(crate) async fn check_lease(&self, key: &SessionKey, fence: FencingToken) -> Result<()> {
        if self.is_renewal_due() {
            let _renewing = self.renewing.lock().await;
            // Another caller may have renewed it.
            if self.is_renewal_due() {
                self.renew_lease().await?;
            }
        }
        match self.lock_held().real_fence(key, fence) {
            Some(_) => Ok(()),
            None => Err(Error::LeaseLost { key: key.clone(), fence }),
        }
    }

    fn is_renewal_due(&self) -> bool {
        let age = self.env.monotonic.elapsed_since_origin().saturating_sub(*self.lock_renewed());
        age >= self.lease - self.lease / MARGIN
    }

    /// Drops all sessions and registers this process anew.
    pub(crate) async fn replace_node(&self) -> Result<()> {
        self.lock_held().lose_all();
        drop(self.remove_node().await);
        self.register_node().await?;
        // Else with the next heartbeat.
        drop(self.register_graphs().await);
        Ok(())
    }

    /// Reads the heartbeats of the other nodes.
    pub(crate) async fn watch_others(&self) -> Result<()> {
        let sql = "SELECT incarnation, beat, address FROM singletree.node WHERE incarnation <> $1";
        let rows = self.heartbeat.of_all_tenants().read_rows(sql, &[bind(&self.owner(), Type::INT8)]).await?;
        let now = self.env.monotonic.elapsed_since_origin();
        let beats = rows.iter().map(|row| (row.get(0), row.get(1)));
        let address = |row: &Row| Some((row.get(0), row.get::<_, Option<String>>(2)?));
        let mut others = self.lock_others();
        others.record_beats(beats, self.lease, now);
        others.addresses = rows.iter().filter_map(address).collect();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(10);

    fn look(nodes: &mut DeadNodes, beats: &[(i64, i64)], at: u64) -> Vec<i64> {
        nodes.record_beats(beats.iter().copied(), LEASE, Duration::from_secs(at));
        let mut dead = nodes.find_dead(LEASE).0;
        dead.sort_unstable();
        dead
    }

    #[test]
    fn who_is_silent_for_a_lease_counts_as_dead() {
        let mut nodes = DeadNodes::default();
        for at in [100, 104, 108] {
            assert!(look(&mut nodes, &[(1, 5), (2, at as i64)], at).is_empty());
        }
        assert_eq!(look(&mut nodes, &[(1, 5), (2, 9)], 110), [1]);
        assert!(look(&mut nodes, &[(1, 6), (2, 9)], 114).is_empty(), "it beats again");
    }

    #[test]
    fn an_address_has_died_when_nobody_who_has_it_beats() {
        let at = |seconds: u64| (LEASE, Duration::from_secs(seconds));
        let mut nodes = DeadNodes::default();
        assert!(!nodes.has_died("one", at(1)), "nobody has looked yet");
        for seconds in [100, 104, 108, 112] {
            look(&mut nodes, &[(1, 5), (2, seconds as i64), (3, 5), (4, seconds as i64)], seconds);
            let address = |(owner, it): (i64, &str)| (owner, it.to_owned());
            nodes.addresses = [(1, "one"), (2, "two"), (3, "three"), (4, "three")].map(address).into();
        }
        let dead = ["one", "two", "three", "gone"].map(|address| nodes.has_died(address, at(113)));
        assert_eq!(dead, [true, false, false, true], "the third has started again");
        assert!(!nodes.has_died("one", at(117)), "the database could not be looked at");
    }

    #[test]
    fn who_could_not_look_for_a_while_knows_nothing_of_the_silence_of_others() {
        let mut nodes = DeadNodes::default();
        for at in [100, 104, 108] {
            look(&mut nodes, &[(1, 5)], at);
        }
        assert!(look(&mut nodes, &[(1, 5)], 113).is_empty(), "the database was away for five seconds");
        assert!(look(&mut nodes, &[(1, 5)], 117).is_empty());
        assert!(look(&mut nodes, &[(1, 5)], 121).is_empty());
        assert_eq!(look(&mut nodes, &[(1, 5)], 123), [1]);
    }
}
