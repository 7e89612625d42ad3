//! Random graphs: a run has the same outcome wherever it was interrupted (pipeline-utilities §§10, 11; suspension §8).
//!
//! # Method
//! `generate` makes a graph of a seed, as data (`plan`): cycles, subgraphs, fan-outs, branches, chains of middleware,
//! functions that fail, take their time, or ask. `model` computes its outcome, by plain recursion. `build` makes the
//! engine's graph of it, whose functions note their executions in a `world`. Then (`everywhere`):
//!
//! - it runs whole, each suspension answered by a graph made anew that has nothing but the stores. The end, the
//!   functions that ran, and their attempts match the model; its events are well-formed (`stream`);
//! - from every record that it saved another run goes on (`keeper`, `shelf`). A process that dies before a save lands
//!   leaves the record before, one that dies after it leaves this one, so these are all the points at which one can
//!   die. The end is the same, lists included; completed and recorded work does not run again, except where the model
//!   allows it (`ledger`);
//! - in every other graph a process dies for good at a write drawn by the seed, before it lands or after, and perhaps
//!   the next one, too (`death`, `mortal`): its run is dropped. In one graph of so many processes die so at every
//!   write, in memory or over a database file that each of them opens anew.
//!
//! `property` runs many graphs, `reduce` makes one that fails smaller, `mutants` shows that wrong engines are found,
//! `determinism` that the same seed tells the same events.
//!
//! # Again
//! `SINGLETREE_SEED` names a seed, `SINGLETREE_GRAPHS` how many there are from it; a failure prints its command.

mod build;
mod death;
mod determinism;
mod dice;
mod everywhere;
mod generate;
mod keeper;
mod ledger;
mod model;
mod mortal;
mod mutants;
mod plan;
mod property;
mod reduce;
mod run;
mod shelf;
mod state;
mod stores;
mod stream;
mod text;
mod told;
mod work;
mod world;
