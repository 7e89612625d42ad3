//! The structure of a graph, and positions of a run in it. Pure: no tasks, no clock, no I/O.

pub(crate) mod branches;
pub(crate) mod compile;
pub(crate) mod cursor;
pub(crate) mod edge;
pub(crate) mod fan_out;
pub(crate) mod field;
pub(crate) mod finite;
pub(crate) mod guard;
pub(crate) mod item;
pub(crate) mod lineage;
pub(crate) mod list;
pub(crate) mod outline;
pub(crate) mod policy;
pub(crate) mod problem;
pub(crate) mod projection;
pub(crate) mod reducer;
pub(crate) mod schema;
pub(crate) mod session;
pub(crate) mod shape;
pub(crate) mod slot;
pub(crate) mod snapshot;
pub(crate) mod state;
pub(crate) mod topology;
pub(crate) mod update;
