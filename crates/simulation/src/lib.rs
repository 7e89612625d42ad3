//! Deterministic simulation of the whole harness.
//!
//! One thread, one seed: a process with a chat and its agents, a store with weather, models and tools that fail, and
//! clients that come and go. Everything that happens follows from the seed, so that a failure can be repeated exactly.
//!
//! # Vocabulary
//! A *run* is everything that happens under one seed. The *world* outlives the simulated processes: the store, the
//! services behind tools, the clients. The *weather* is the ways in which the store fails. A *case* is something that
//! a run must reach sometimes, or the simulation proves nothing about it.
//!
//! # Inside
//! `executor` runs tasks and time, `environment` is the environment of a process over it, `fault` decides which faults
//! happen. `store` is the memory store behind a queue, a group commit and the weather. `process` is one process,
//! `world` holds what outlives it and kills it, `client` is the load, `oracle` judges. `agents` are our own, `subject` puts
//! those of a user in their place, `sample` draws arguments for their tools. `run` puts them together, `shrink`
//! finds the least that a failing run needs, `summary` counts. `plant` plants faults by rule, which a simulation has to
//! find.
//!
//! # Invariants
//! It checks INV-1 to INV-3, INV-6 to INV-9, INV-11, INV-12 and INV-14 (see ARCHITECTURE.md).

mod agents;
mod campaign;
mod client;
mod coverage;
mod digest;
mod environment;
mod error;
mod executor;
mod fault;
mod follower;
mod ledger;
mod model;
mod oracle;
mod plant;
mod process;
mod random;
mod run;
mod sample;
mod server;
mod shrink;
mod store;
mod subject;
mod summary;
mod tool;
mod tool_server;
mod webhook;
mod world;

pub use coverage::CASES;
pub use error::{Error, Result};
pub use fault::{FaultKind, RunRestriction};
pub use oracle::{DoubtfulEffect, EffectDoubt};
pub use plant::{
    PlantEffect, PlantRule, PlantVerdict, PlantedFault, collect_plantable_faults, hunt_planted_fault,
};
pub use run::{RunPlan, RunReport, run_seed};
pub use shrink::{ShrunkFailure, shrink_failure, shrink_run};
pub use store::{LandedWrite, LeaseFault};
pub use subject::{SimulatedAgentParts, SimulatedAgents, ToolTally};
pub use summary::SimulationSummary;
