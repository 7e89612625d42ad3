//! Runs graphs: node attempts, the walk, the driver that suspends, observers, the port that keeps a run.

pub(crate) mod ambient;
pub(crate) mod builder;
pub(crate) mod context;
pub(crate) mod drive;
pub(crate) mod event;
pub(crate) mod extension;
pub(crate) mod fault;
pub(crate) mod graph;
pub(crate) mod input;
pub(crate) mod invoke;
pub(crate) mod limit;
pub(crate) mod metadata;
pub(crate) mod migrate;
pub(crate) mod observe;
pub(crate) mod outcome;
pub(crate) mod panic;
pub(crate) mod port;
pub(crate) mod queue;
pub(crate) mod restore;
pub(crate) mod scope;
pub(crate) mod signal;
pub(crate) mod stores;
pub(crate) mod suspend;
pub(crate) mod walk;
