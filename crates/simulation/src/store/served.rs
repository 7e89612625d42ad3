//! Which processes can go on with a session as it stands, as they have said.

use std::time::Duration;

use futures_util::FutureExt;
use singletree_durable::{Error, Journal, Result, ServedGraph, ServedGraphs, SessionKey};

use super::SimulatedStore;
use super::node::{Incarnation, NodeState, NodeTable, SimulatedNode};

/// The work with which a session goes on.
struct NeededGraph {
    agent: String,
    version: NeededVersion,
}

enum NeededVersion {
    /// A turn that has begun, or waits for a signal, needs its graph.
    Graph(String),
    /// An idle session needs an agent that reads its state.
    State(String),
}

impl NeededGraph {
    fn is_served_by(&self, served: &ServedGraphs) -> bool {
        let fits = |graph: &ServedGraph| match &self.version {
            NeededVersion::Graph(digest) => graph.graph == *digest,
            NeededVersion::State(version) => graph.schema_version == *version,
        };
        served.graphs.iter().any(|graph| graph.agent == self.agent && fits(graph))
    }
}

impl SimulatedNode {
    /// Says which work this process can go on with.
    pub(super) fn announce_graphs(&self, store: &SimulatedStore, served: ServedGraphs) {
        let Some(mut table) = store.lock_nodes() else { return };
        let mut node = self.lock();
        if node.served.is_none() && served.graphs.is_empty() {
            return;
        }
        node.served = Some(served);
        table.set_served(node.incarnation, node.served.clone());
    }
}

impl NodeState {
    /// Returns a living process that can go on with a session, when this one cannot. Nobody who lives holds the session.
    pub(super) fn find_better_owner(
        &self,
        table: &NodeTable,
        key: &SessionKey,
        now: Duration,
    ) -> Result<Option<Incarnation>> {
        let Some(own) = &self.served else { return Ok(None) };
        let needed = self.read_needed_graph(key)?;
        let Some(needed) = needed.filter(|needed| !needed.is_served_by(own)) else { return Ok(None) };
        Ok(table.find_server((self, now), |served| {
            needed.is_served_by(served) && served.tenant.as_ref().is_none_or(|tenant| *tenant == key.tenant)
        }))
    }

    /// The age of a turn has no part in it here: one that is too old is closed by whoever gets it.
    fn read_needed_graph(&self, key: &SessionKey) -> Result<Option<NeededGraph>> {
        // The memory store has its answer at once.
        let read = self.data.read_session_snapshot(key).now_or_never();
        let snapshot = read.unwrap_or(Err(Error::Closed))?;
        let Some(session) = snapshot.session else { return Ok(None) };
        let waiting = snapshot.paused.map(|paused| paused.turn);
        let unfinished = snapshot.open.into_iter().chain(waiting).min_by_key(|turn| turn.no);
        Ok(Some(match unfinished {
            Some(turn) => NeededGraph { agent: turn.agent, version: NeededVersion::Graph(turn.graph) },
            None => {
                let version = NeededVersion::State(session.head.schema_version);
                NeededGraph { agent: session.head.agent, version }
            }
        }))
    }
}
