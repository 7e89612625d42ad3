//! Runs the specifications' fixtures, strictly.
//!
//! A fixture is data: a graph, what is done with it, and what must come of it. It is read key by key, and whatever is not
//! understood fails its case by name; it is built and run through singletree's public interface; and every expectation
//! is asserted. Where the runner gives way to a fixture is one file, `adapt`.
//!
//! # Vocabulary
//! A *fixture* is a file, a *case* one entry of it (or all of it). A case *passes*, *fails*, or is *declared*: it does not
//! pass, and the manifest says why. A declared case that passes is a failure.
//!
//! spec: conformance-adapter

mod adapt;
mod base;
mod body;
mod case;
mod chat;
mod chat_expect;
mod check;
mod discover;
mod edges;
mod errors;
mod events;
mod execute;
mod expect;
mod failure;
mod fields;
mod graph;
mod invariants;
mod journal;
mod manifest;
mod matcher;
mod mutate;
mod nodes;
mod observers;
mod report;
mod run;
mod schema;
mod sessions;
mod suite;
mod tape;
mod yaml;

pub use failure::{Failure, FailureKind};
pub use manifest::{Declared, Manifest};
pub use mutate::{LeftOut, Mutations, draw_seeds, mutate};
pub use report::{Counts, Report};
pub use suite::{Case, Row, Status, judge, load};
