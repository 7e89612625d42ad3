//! The structure of a graph. Pure: no tasks, no clock, no I/O.

pub(crate) mod branches;
pub(crate) mod compile;
pub(crate) mod edge;
pub(crate) mod fan_out;
pub(crate) mod outline;
pub(crate) mod policy;
pub(crate) mod problem;
pub(crate) mod projection;
pub(crate) mod session;
pub(crate) mod topology;
