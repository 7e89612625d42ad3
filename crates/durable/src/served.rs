//! Which work a process can go on with, as it tells the processes that share its data.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::TenantId;

/// An agent of a process, in the version that it has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServedGraph {
    /// The agent's name.
    pub agent: String,
    /// The digest of its graph: a turn that has begun goes on in a graph with the same one.
    pub graph: String,
    /// The version of the state that its sessions have.
    pub schema_version: String,
}

/// The work that a process can go on with ([`Journal::announce_graphs`](crate::Journal::announce_graphs)).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServedGraphs {
    /// Its agents. None when it takes no more work.
    pub graphs: Vec<ServedGraph>,
    /// The one tenant that it serves; without, all are.
    pub tenant: Option<TenantId>,
    /// How long after it was accepted a turn is gone on with (D28). An older one may be closed by any process.
    pub turn_age: Duration,
}
