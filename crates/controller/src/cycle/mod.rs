//! One cycle of a campaign as a graph: one turn in the session of the campaign.
//!
//! ```text
//! load ──ask──► ask ──► verify ──► decide ──granted──► execute ──► END
//!  ├──granted───────────────────────────────────────────▲
//!  └──nothing to do──► END          decide ──else──► END
//! ```
//! `load` reads the board and begins a cycle; `ask` asks the model for one proposal; `verify` reads the proofs that have
//! to be read; `decide` accepts or refuses the proposal and records that; `execute` makes a granted call and records its
//! result. A call that a person has to approve ends the turn: it waits on the board, and the turn after the decision
//! makes it.
//!
//! Each node reads the board anew and decides over it, by compare-and-set. So a node that runs again after a crash finds
//! what it has recorded and does not record it twice; a pause or another command takes effect before the next node.

mod ask;
mod decide;
mod execute;
mod graph;
mod load;
mod prompt;
mod state;
mod verify;

pub(crate) use graph::{CYCLE_AGENT, build_cycle_agent};
