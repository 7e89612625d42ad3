//! Reading them.

use std::fmt;

use serde_json::{Map, Value};

use super::record::{RecordAssertions, SeededCheckpoint};
use crate::adapt;
use crate::failure::{CaseFailure, Outcome};
use crate::fields::{LocatedNode, YamlMapReader};
use crate::run::InvocationSpec;
use crate::schema::parse_literals;

/// The checkpoint program of a case.
#[derive(Debug)]
pub(crate) struct CheckpointCaseSpec {
    /// The invocation that comes first; none when the record is there before.
    pub(crate) first: InvocationSpec,
    /// The record that is there before.
    pub(crate) seeded: Option<SeededCheckpoint>,
    /// How many other invocations run before.
    pub(crate) others: usize,
    /// Where the first invocation is given up, as by the end of its process.
    pub(crate) crash: Option<CrashPoint>,
    /// The assertions about the record when the first invocation has ended.
    pub(crate) saved: Option<RecordAssertions>,
    /// The assertions about each save.
    pub(crate) every_save: Option<RecordAssertions>,
    /// The assertions about the last save.
    pub(crate) latest: Option<RecordAssertions>,
    /// The assertions about all saves, in order.
    pub(crate) saves: Option<(String, Vec<RecordAssertions>)>,
    /// The ambiguity of the migrations that is expected.
    pub(crate) ambiguous: Option<LocatedNode>,
    /// The invocation that goes on from the record.
    pub(crate) resume: Option<ResumedInvocationSpec>,
}

/// Where checkpoints are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CheckpointBackend {
    /// In memory.
    Memory,
    /// In a file of SQLite's.
    Sqlite,
    /// In memory, where saves from inside a fan-out are written so many at once.
    Batched(u64),
}

/// Where an invocation is given up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CrashPoint {
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

impl fmt::Display for CrashPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AfterNode(node) => write!(f, "after node '{node}'"),
            Self::AfterInstance { node, index } => write!(f, "after instance {index} of '{node}'"),
        }
    }
}

impl CrashPoint {
    /// Tells whether a save is the one, of a record in the specification's form. The first save that knows a node or an
    /// instance as completed is its own.
    #[must_use]
    pub(super) fn is_reached_by(&self, record: &Value) -> bool {
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
pub(crate) enum ResumeSource {
    /// The record of the first invocation.
    First,
    /// The record that was there before.
    Seeded,
}

/// An invocation that goes on.
#[derive(Debug)]
pub(crate) struct ResumedInvocationSpec {
    /// The record to resume from.
    pub(crate) from: ResumeSource,
    /// The resuming invocation, with its expectations.
    pub(crate) invocation: InvocationSpec,
    /// Fields of the record's state that are changed before.
    pub(crate) modified: Map<String, Value>,
    /// The ambiguity of the migrations that is expected.
    pub(crate) ambiguous: Option<LocatedNode>,
    /// Its invariants.
    pub(crate) invariants: Option<LocatedNode>,
}

impl CheckpointCaseSpec {
    /// Takes the keys of a case with a checkpointer out of it.
    ///
    /// # Errors
    /// When the fixture block has an unknown key or value.
    pub(crate) fn take_from_block(block: &mut YamlMapReader) -> Outcome<Self> {
        adapt::take_claimed_version(block)?;
        let others = block.take_value("populate_checkpointer_via_runs").map(|value| {
            usize::try_from(value.as_integer()?).map_err(|_| value.unexpected_kind("a number of runs"))
        });
        let saves = block.take_value("checkpoint_saves").map(parse_expected_saves);
        let mut spec = Self {
            seeded: block.take_value("seeded_record").map(SeededCheckpoint::from_yaml_node).transpose()?,
            others: others.transpose()?.unwrap_or(0),
            crash: block.take_value("crash_injection").map(parse_crash_point).transpose()?,
            saved: block
                .take_value("saved_record_assertions")
                .map(RecordAssertions::from_yaml_node)
                .transpose()?,
            every_save: block
                .take_value("every_save_assertions")
                .map(RecordAssertions::from_yaml_node)
                .transpose()?,
            latest: block
                .take_value("latest_record_assertions")
                .map(RecordAssertions::from_yaml_node)
                .transpose()?,
            saves: saves.transpose()?,
            ambiguous: block.take_value("expected_chain_ambiguity_error"),
            resume: block.take_value("resume").map(parse_resumption).transpose()?,
            first: InvocationSpec::take_from_block(block)?,
        };
        if let Some(expected) = block.take_value("first_run_expected") {
            let mut expected = expected.into_map_reader()?;
            while let Some(entry) = expected.take_next_entry() {
                spec.first.expected.push(entry);
            }
        }
        if let Some(it) = block.take_value("first_run_expected_error") {
            spec.first.expected.push(("expected_error".into(), it));
        }
        if let Some(it) = spec.first.take_expected("latest_record_assertions") {
            spec.latest = Some(RecordAssertions::from_yaml_node(it)?);
        }
        if let Some(it) = spec.first.take_expected("checkpoint_saves") {
            spec.saves = Some(parse_expected_saves(it)?);
        }
        Ok(spec)
    }
}

impl CheckpointCaseSpec {
    /// Returns the ambiguity that is expected of the migrations, wherever it is found: when the graph is compiled, or
    /// when a record is loaded (pipeline-utilities §10.12.2).
    #[must_use]
    pub(crate) fn expected_ambiguity(&self) -> Option<&LocatedNode> {
        self.ambiguous.as_ref().or(self.resume.as_ref().and_then(|resume| resume.ambiguous.as_ref()))
    }
}

fn parse_expected_saves(spot: LocatedNode) -> Outcome<(String, Vec<RecordAssertions>)> {
    let path = spot.path.clone();
    let list =
        spot.into_items()?.into_iter().map(RecordAssertions::from_save_node).collect::<Outcome<_>>()?;
    Ok((path, list))
}

/// Reads where checkpoints are kept.
///
/// # Errors
/// For another one.
pub(crate) fn parse_backend(spot: LocatedNode) -> Outcome<CheckpointBackend> {
    let (kind, block) = adapt::split_checkpointer_kind(spot)?;
    match (kind.as_text()?, block) {
        ("in_memory", block) => {
            block.map_or(Ok(()), YamlMapReader::reject_remaining_keys).map(|()| CheckpointBackend::Memory)
        }
        ("sqlite", block) => {
            block.map_or(Ok(()), YamlMapReader::reject_remaining_keys).map(|()| CheckpointBackend::Sqlite)
        }
        ("in_memory_batched", Some(mut block)) => {
            let mut batching = block.take_required("fan_out_internal_save_batching")?.into_map_reader()?;
            let every = batching.take_required("flush_every")?;
            batching.reject_remaining_keys()?;
            block.reject_remaining_keys()?;
            let every =
                u64::try_from(every.as_integer()?).map_err(|_| every.unexpected_kind("a number of saves"))?;
            Ok(CheckpointBackend::Batched(every))
        }
        (other, _) => Err(CaseFailure::reader_error(&kind.path, format!("unknown checkpointer '{other}'"))),
    }
}

fn parse_crash_point(spot: LocatedNode) -> Outcome<CrashPoint> {
    let mut block = spot.into_map_reader()?;
    let crash = match (block.take_text("after_node")?, block.take_value("after_fan_out_instance")) {
        (Some(node), None) => CrashPoint::AfterNode(node),
        (None, Some(it)) => {
            let mut at = it.into_map_reader()?;
            let node = at.take_required("node")?.as_text()?.to_owned();
            let index = at.take_required("index")?;
            at.reject_remaining_keys()?;
            CrashPoint::AfterInstance {
                node,
                index: u64::try_from(index.as_integer()?).map_err(|_| index.unexpected_kind("an index"))?,
            }
        }
        _ => {
            return Err(CaseFailure::reader_error(
                block.path(),
                "a crash is after a node or after an instance",
            ));
        }
    };
    block.reject_remaining_keys()?;
    Ok(crash)
}

fn parse_resumption(spot: LocatedNode) -> Outcome<ResumedInvocationSpec> {
    let mut block = spot.into_map_reader()?;
    let mut says =
        |key: &str| block.take_value(key).map(|value| value.as_bool()).transpose().map(|it| it == Some(true));
    let from = match (says("from_first_run")?, says("from_seeded_record")?) {
        (true, false) => ResumeSource::First,
        (false, true) => ResumeSource::Seeded,
        _ => {
            return Err(CaseFailure::reader_error(
                block.path(),
                "goes on from the first run or a seeded record",
            ));
        }
    };
    let spec = ResumedInvocationSpec {
        from,
        modified: block
            .take_value("resume_with_modified_items")
            .map(parse_literals)
            .transpose()?
            .unwrap_or_default(),
        ambiguous: block.take_value("expected_chain_ambiguity_error"),
        invariants: block.take_value("invariants"),
        invocation: InvocationSpec::take_from_block(&mut block)?,
    };
    block.reject_remaining_keys()?;
    Ok(spec)
}
