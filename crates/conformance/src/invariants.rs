//! Invariants (conformance-adapter §5.9): each is checked, or restates assertions of the case that are named here, or
//! cannot be checked, for a reason that is named here. A name that is not in these tables fails the case.

mod chat;
mod checkpoints;
mod composed;
mod measured;
mod restated;

use serde_json::Value;

use crate::base::TransmissionResult;
use crate::chat::ChatCaseResult;
use crate::check::AssertionChecker;
use crate::checkpoints::CheckpointSave;
use crate::failure::{CaseFailure, Outcome};
use crate::fields::LocatedNode;
use crate::run::InvocationResult;
use crate::telemetry::check_telemetry_invariant;

pub(crate) use restated::RestatedInvariant;

/// The results of a case, for its invariants to check.
#[derive(Debug, Default)]
pub(crate) struct InvariantEvidence {
    /// The runs of its graph.
    pub(crate) runs: Vec<InvocationResult>,
    /// An invocation that was made once more, after everything else, for the invariants that ask for it.
    pub(crate) again: Option<InvocationResult>,
    /// The records that were saved before anything went on from one.
    pub(crate) saves: Vec<CheckpointSave>,
    /// The records that were saved in all.
    pub(crate) all_saves: Vec<CheckpointSave>,
    /// The record that the case goes on from.
    pub(crate) record: Option<Value>,
    /// The transmissions that the abstract harness handled.
    pub(crate) handled: Vec<TransmissionResult>,
    /// The turns and outcomes of the chat.
    pub(crate) talked: ChatCaseResult,
    /// The names of the nodes of all graphs of the case.
    pub(crate) nodes: Vec<String>,
    /// The parallel branches that have a condition, by name.
    pub(crate) conditional: Vec<String>,
    /// What a direct call without a graph read.
    pub(crate) direct_read: Option<std::sync::Arc<serde_json::Map<String, Value>>>,
    /// The fields of the subgraphs' states, by the name of the subgraph's node path depth: for projections.
    pub(crate) inner_fields: Vec<String>,
}

/// A check of its own.
type Measure = fn(&InvariantEvidence) -> Result<(), String>;

/// Invariants that nothing from outside can show, and why.
const NOT_CHECKABLE: &[(&str, &str)] = &[
    (
        "no_chat_specific_engine_hook_required_for_pending_message",
        "it is about how the harness is built; the crates' dependencies show that the engine knows no chat",
    ),
    (
        "content_block_types_match_llm_provider_3_1_set",
        "it is about the set of block types, which is a closed type of the llm crate",
    ),
];

/// Asserts the invariants of a block.
pub(crate) fn check_invariants(
    checker: &mut AssertionChecker,
    block: LocatedNode,
    evidence: &InvariantEvidence,
) {
    let Some(mut named) = checker.unwrap_or_record(block.into_map_reader()) else { return };
    while let Some((name, value)) = named.take_next_entry() {
        let checked = check_invariant(checker, &name, &value, evidence);
        checker.unwrap_or_record(checked);
    }
}

fn check_invariant(
    checker: &mut AssertionChecker,
    name: &str,
    value: &LocatedNode,
    evidence: &InvariantEvidence,
) -> Outcome<()> {
    if check_telemetry_invariant(checker, name, value, evidence)?
        || measured::check_valued_invariant(checker, name, value, evidence)?
        || checkpoints::check_valued_invariant(checker, name, value, evidence)?
    {
        return Ok(());
    }
    let measure = measured::MEASURED
        .iter()
        .chain(chat::MEASURED)
        .chain(composed::MEASURED)
        .chain(checkpoints::MEASURED)
        .find(|(it, _)| *it == name);
    if let Some((_, measure)) = measure {
        checker.check_truth(value, measure(evidence));
        return Ok(());
    }
    if let Some(row) = restated::RESTATED.iter().find(|it| it.invariant == name) {
        if let Some(id) = row.assertion_ids().find(|id| !checker.has_asserted(id)) {
            let what = format!("restates '{}', which the case does not assert", id.0);
            return Err(CaseFailure::reader_error(&value.path, what));
        }
        checker.restated.insert(name.to_owned());
        checker.check_truth(value, Ok(()));
        return Ok(());
    }
    if NOT_CHECKABLE.iter().any(|(it, _)| *it == name) {
        checker.check_truth(value, Ok(()));
        return Ok(());
    }
    Err(CaseFailure::reader_error(&value.path, format!("unknown invariant '{name}'")))
}

/// Returns the invariants that only restate others, with the assertions that they restate.
#[must_use]
pub(crate) fn restated_invariants() -> &'static [RestatedInvariant] {
    restated::RESTATED
}

/// Returns the invariants that cannot be checked, and why.
#[must_use]
pub(crate) fn uncheckable_invariants() -> &'static [(&'static str, &'static str)] {
    NOT_CHECKABLE
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_invariant_has_one_place() {
        let names =
            restated::RESTATED.iter().map(|it| it.invariant).chain(NOT_CHECKABLE.iter().map(|(it, _)| *it));
        let measured = measured::MEASURED
            .iter()
            .chain(chat::MEASURED)
            .chain(composed::MEASURED)
            .chain(checkpoints::MEASURED)
            .map(|(it, _)| *it)
            .chain(crate::telemetry::telemetry_invariants());
        let mut seen = BTreeSet::new();
        for name in names.chain(measured) {
            assert!(seen.insert(name), "{name} is there twice");
        }
    }

    #[test]
    fn at_most_nineteen_cannot_be_checked() {
        assert!(NOT_CHECKABLE.len() <= 19);
    }
}
