//! Reading them.

use std::fmt;

use serde_json::{Map, Value};

use super::record::{Assertions, Seeded};
use crate::adapt;
use crate::failure::{Failure, Outcome};
use crate::fields::{Fields, Spot};
use crate::run::InvocationSpec;
use crate::schema::literals;

/// The checkpoint program of a case.
#[derive(Debug)]
pub(crate) struct CheckpointSpec {
    /// The invocation that comes first; none when the record is there before.
    pub(crate) first: InvocationSpec,
    /// The record that is there before.
    pub(crate) seeded: Option<Seeded>,
    /// How many other invocations run before.
    pub(crate) others: usize,
    /// Where the first invocation is given up, as by the end of its process.
    pub(crate) crash: Option<Crash>,
    /// The assertions about the record when the first invocation has ended.
    pub(crate) saved: Option<Assertions>,
    /// The assertions about each save.
    pub(crate) every_save: Option<Assertions>,
    /// The assertions about the last save.
    pub(crate) latest: Option<Assertions>,
    /// The assertions about all saves, in order.
    pub(crate) saves: Option<(String, Vec<Assertions>)>,
    /// The ambiguity of the migrations that is expected.
    pub(crate) ambiguous: Option<Spot>,
    /// The invocation that goes on from the record.
    pub(crate) resume: Option<ResumeSpec>,
}

/// Where checkpoints are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Backend {
    /// In memory.
    Memory,
    /// In a file of SQLite's.
    Sqlite,
    /// In memory, where saves from inside a fan-out are written so many at once.
    Batched(u64),
}

/// Where an invocation is given up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Crash {
    /// When a node is saved.
    AfterNode(String),
    /// When an instance of a fan-out is saved.
    AfterInstance {
        /// The fan-out.
        node: String,
        /// The instance.
        index: u64,
    },
}

impl fmt::Display for Crash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AfterNode(node) => write!(f, "after node '{node}'"),
            Self::AfterInstance { node, index } => write!(f, "after instance {index} of '{node}'"),
        }
    }
}

impl Crash {
    /// Tells whether a save is the one, of a record in the specification's form. The first save that knows a node or an
    /// instance as completed is its own.
    #[must_use]
    pub(super) fn is_at(&self, record: &Value) -> bool {
        let list = |of: &Value, key: &str| of[key].as_array().cloned().unwrap_or_default();
        let fan_outs = list(record, "fan_out_progress");
        match self {
            Self::AfterNode(node) => {
                let inner = fan_outs.iter().flat_map(|fan_out| list(fan_out, "instances"));
                let inner = inner.flat_map(|item| list(&item, "completed_inner_positions"));
                let mut all = list(record, "completed_positions").into_iter().chain(inner);
                all.any(|item| item["node_name"] == **node)
            }
            Self::AfterInstance { node, index } => {
                let mut named = fan_outs.iter().filter(|fan_out| fan_out["fan_out_node_name"] == **node);
                let at = usize::try_from(*index).unwrap_or(usize::MAX);
                named.any(|item| item["instances"][at]["state"] == "completed")
            }
        }
    }
}

/// The record from which an invocation resumes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ResumeFrom {
    /// The record of the first invocation.
    First,
    /// The record that was there before.
    Seeded,
}

/// An invocation that goes on.
#[derive(Debug)]
pub(crate) struct ResumeSpec {
    /// The record to resume from.
    pub(crate) from: ResumeFrom,
    /// The resuming invocation, with its expectations.
    pub(crate) invocation: InvocationSpec,
    /// Fields of the record's state that are changed before.
    pub(crate) modified: Map<String, Value>,
    /// The ambiguity of the migrations that is expected.
    pub(crate) ambiguous: Option<Spot>,
    /// Its invariants.
    pub(crate) invariants: Option<Spot>,
}

impl CheckpointSpec {
    /// Takes the keys of a case with a checkpointer out of it.
    ///
    /// # Errors
    /// When the fixture block has an unknown key or value.
    pub(crate) fn take(block: &mut Fields) -> Outcome<Self> {
        adapt::claimed_version(block)?;
        let others = block
            .take("populate_checkpointer_via_runs")
            .map(|it| usize::try_from(it.whole()?).map_err(|_| it.wrong("a number of runs")));
        let saves = block.take("checkpoint_saves").map(of_saves);
        let mut spec = Self {
            seeded: block.take("seeded_record").map(Seeded::read).transpose()?,
            others: others.transpose()?.unwrap_or(0),
            crash: block.take("crash_injection").map(crash).transpose()?,
            saved: block.take("saved_record_assertions").map(Assertions::read).transpose()?,
            every_save: block.take("every_save_assertions").map(Assertions::read).transpose()?,
            latest: block.take("latest_record_assertions").map(Assertions::read).transpose()?,
            saves: saves.transpose()?,
            ambiguous: block.take("expected_chain_ambiguity_error"),
            resume: block.take("resume").map(resume).transpose()?,
            first: InvocationSpec::take(block)?,
        };
        if let Some(it) = block.take("first_run_expected_error") {
            spec.first.expected.push(("expected_error".into(), it));
        }
        if let Some(it) = spec.first.take_expected("latest_record_assertions") {
            spec.latest = Some(Assertions::read(it)?);
        }
        if let Some(it) = spec.first.take_expected("checkpoint_saves") {
            spec.saves = Some(of_saves(it)?);
        }
        Ok(spec)
    }
}

impl CheckpointSpec {
    /// Returns the ambiguity that is expected of the migrations, wherever it is found: when the graph is compiled, or
    /// when a record is loaded (pipeline-utilities §10.12.2).
    #[must_use]
    pub(crate) fn ambiguity(&self) -> Option<&Spot> {
        self.ambiguous.as_ref().or(self.resume.as_ref().and_then(|resume| resume.ambiguous.as_ref()))
    }
}

fn of_saves(spot: Spot) -> Outcome<(String, Vec<Assertions>)> {
    let path = spot.path.clone();
    let list = spot.items()?.into_iter().map(Assertions::read_of_save).collect::<Outcome<_>>()?;
    Ok((path, list))
}

/// Reads where checkpoints are kept.
///
/// # Errors
/// For another one.
pub(crate) fn backend(spot: Spot) -> Outcome<Backend> {
    let (kind, block) = adapt::kind(spot)?;
    match (kind.text()?, block) {
        ("in_memory", block) => block.map_or(Ok(()), Fields::finish).map(|()| Backend::Memory),
        ("sqlite", block) => block.map_or(Ok(()), Fields::finish).map(|()| Backend::Sqlite),
        ("in_memory_batched", Some(mut block)) => {
            let mut batching = block.need("fan_out_internal_save_batching")?.fields()?;
            let every = batching.need("flush_every")?;
            batching.finish()?;
            block.finish()?;
            let every = u64::try_from(every.whole()?).map_err(|_| every.wrong("a number of saves"))?;
            Ok(Backend::Batched(every))
        }
        (other, _) => Err(Failure::reader(&kind.path, format!("unknown checkpointer '{other}'"))),
    }
}

fn crash(spot: Spot) -> Outcome<Crash> {
    let mut block = spot.fields()?;
    let crash = match (block.text("after_node")?, block.take("after_fan_out_instance")) {
        (Some(node), None) => Crash::AfterNode(node),
        (None, Some(it)) => {
            let mut at = it.fields()?;
            let node = at.need("node")?.text()?.to_owned();
            let index = at.need("index")?;
            at.finish()?;
            Crash::AfterInstance {
                node,
                index: u64::try_from(index.whole()?).map_err(|_| index.wrong("an index"))?,
            }
        }
        _ => return Err(Failure::reader(block.path(), "a crash is after a node or after an instance")),
    };
    block.finish()?;
    Ok(crash)
}

fn resume(spot: Spot) -> Outcome<ResumeSpec> {
    let mut block = spot.fields()?;
    let mut says = |key: &str| block.take(key).map(|it| it.truth()).transpose().map(|it| it == Some(true));
    let from = match (says("from_first_run")?, says("from_seeded_record")?) {
        (true, false) => ResumeFrom::First,
        (false, true) => ResumeFrom::Seeded,
        _ => return Err(Failure::reader(block.path(), "goes on from the first run or a seeded record")),
    };
    let spec = ResumeSpec {
        from,
        modified: block.take("resume_with_modified_items").map(literals).transpose()?.unwrap_or_default(),
        ambiguous: block.take("expected_chain_ambiguity_error"),
        invariants: block.take("invariants"),
        invocation: InvocationSpec::take(&mut block)?,
    };
    block.finish()?;
    Ok(spec)
}
