//! Runs the specifications' fixtures, strictly.
//!
//! A fixture is data: a graph, a program to run with it, and the expected results. The runner reads it key by key,
//! and an unknown key or value fails its case by name. It builds and runs the graph through singletree's public
//! interface and asserts every expectation. All adaptations of the runner to single fixtures are in one module,
//! `adapt`.
//!
//! # Vocabulary A *fixture* is a file, a *case* one entry of it (or all of it). A case *passes*, *fails*, or is
//! *declared*: it does not pass, and the manifest says why. A declared case that passes is a failure.
//!
//! A *dialect* is the words of a capability whose fixtures are no graphs: llm-provider's are calls to a real provider
//! whose server is a script (`llm`).
//!
//! # Extensions
//! The project's own fixtures use the adapter's words where they exist. Where the specifications demand something for
//! which the adapter has no word, they use these:
//!
//! - `dev.singletree.mark_node_completed` in `suspend_with_descriptor`: whether the node is done when it is resumed.
//! - `dev.singletree.unless_field` in `suspend_with_descriptor`: a field that, when it is true, lets the node end
//!   instead.
//! - `dev.singletree.paused_store` of a case: as `session_store`; `save_raises` is `suspension_persistence_failed`.
//! - `dev.singletree.subscribe_raises` of `harness`: every subscription fails (`harness_signal_subscription_failed`).
//! - `dev.singletree.paused_record_kept` among the expectations of a transmission: whether its invocation has a
//!   record.
//! - `dev.singletree.with_previous` of a chat turn: it is sent while the turn before it is still running. Assertions
//!   about the history apply to the history after all turns that were sent so.
//! - `dev.singletree.took_ms` among the expectations of a chat turn: how long its send took, in milliseconds.
//! - `dev.singletree.drain_refused` among the expectations: the drain's time limit cannot be given to the engine at
//!   all.
//! - `dev.singletree.keep_larger`, a reducer of an application's own.
//! - `<invocation_id from previous errored invoke>`, a reference.
//!
//! Besides, `save_raises` of a session store may be `session_write_conflict`, a category of sessions §10 that no
//! fixture raises.
//!
//! # Dialects
//! Cases of prompt-management have no graph but backends, managers and calls; `prompts` reads and plays them.
//!
//! spec: conformance-adapter
#![expect(clippy::disallowed_methods, reason = "a program that judges runs measures their time")]

mod adapt;
mod around;
mod assertion_id;
mod base;
mod body;
mod branch_sets;
mod case;
mod chat;
mod chat_expect;
mod check;
mod checkpoints;
mod dialect;
mod discover;
mod edges;
mod errors;
mod events;
mod execute;
mod expect;
mod failure;
mod fan_outs;
mod fields;
mod graph;
mod inner_graphs;
mod invariants;
mod journal;
mod keep_larger;
mod llm;
mod manifest;
mod matcher;
mod middleware;
mod mocks;
mod mutate;
mod nodes;
mod observers;
mod paused;
mod predicates;
mod prompts;
mod report;
mod run;
mod scene;
mod schema;
mod sessions;
mod suite;
mod tape;
mod telemetry;
#[cfg(test)]
mod trial;
mod vocabulary;
mod yaml;

pub use failure::{CaseFailure, CaseFailureKind};
pub use manifest::{DeclaredFailure, Manifest};
pub use mutate::{
    MutationSummary, OmittedMutations, RestatementReport, draw_seeds, mutate_everything, mutate_randomly,
    prove_restatements,
};
pub use report::{ConformanceReport, StatusCounts};
pub use suite::{CaseStatus, CaseVerdict, ConformanceCase, judge_case, load_cases};
