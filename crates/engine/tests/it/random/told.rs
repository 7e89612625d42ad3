//! The model's description of a graph.

use std::collections::BTreeSet;
use std::ops::Range;

use serde_json::Value;

use super::world::{Ended, Key};

/// A unit around a function that may run again, outermost first. The numbers are those of [`Told::executions`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    /// An instance of a fan-out.
    Instance(usize, u64),
    /// Parallel branches.
    Branches(usize),
    /// Something that begins anew as a whole, because it was attempted again, or failed, or suspended.
    Anew(usize),
}

/// One performance of a function.
#[derive(Debug, Clone)]
pub(crate) struct Act {
    pub(crate) key: Key,
    pub(crate) attempt: u32,
    pub(crate) ended: Ended,
    pub(crate) units: Vec<Unit>,
    /// Whether it takes place whatever order members run in: not where a sibling's failure or suspension may cut it
    /// off.
    pub(crate) certain: bool,
}

/// One execution of a node that is more than a function.
#[derive(Debug, Clone)]
pub(crate) struct Execution {
    pub(crate) path: String,
    /// The acts in it.
    pub(crate) acts: Range<usize>,
    /// The members that it is inside of, outermost first.
    pub(crate) around: Vec<Unit>,
    /// Whether members of it may have been cut off.
    pub(crate) cut: bool,
}

/// A failure that nothing absorbed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) category: &'static str,
    pub(crate) node: String,
}

/// A feature that occurred at least once in a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Feature {
    Cycle,
    SubgraphTwoDeep,
    NestedFanOut,
    FanOutInBranch,
    Retry,
    Isolation,
    SuspensionThatRunsAgain,
    Suspension,
    Failure,
    Collected,
}

/// All that the model tells of a graph.
#[derive(Debug, Clone)]
pub(crate) struct Told {
    pub(crate) end: Result<Value, Failure>,
    pub(crate) acts: Vec<Act>,
    pub(crate) executions: Vec<Execution>,
    pub(crate) features: BTreeSet<Feature>,
    /// Whether the order in which members run decides the end: such graphs say nothing.
    pub(crate) ambiguous: bool,
    /// Whether the end is told for members that run one after the other: a member's suspension left out those after it.
    pub(crate) in_order: bool,
}
