//! Invariants of observability, each measured on what was recorded (conformance-adapter §5.9).

mod budgets;
mod calls;
mod langfuse;
mod metadata;
mod metrics;
mod nesting;
mod payloads;
mod queries;
mod streams;
mod tools;
mod traces;
mod valued;

use super::view::{TelemetryRow, TelemetryView};
use crate::check::AssertionChecker;
use crate::failure::Outcome;
use crate::fields::LocatedNode;
use crate::invariants::InvariantEvidence;

/// The tables.
const TABLES: &[&[TelemetryRow]] = &[
    traces::ROWS,
    nesting::ROWS,
    metadata::ROWS,
    queries::ROWS,
    calls::ROWS,
    streams::ROWS,
    tools::ROWS,
    payloads::ROWS,
    metrics::ROWS,
    budgets::ROWS,
    langfuse::ROWS,
];

/// Asserts an invariant of observability; false when the name is none of them.
///
/// # Errors
/// When its value is of another kind.
pub(crate) fn check_telemetry_invariant(
    checker: &mut AssertionChecker,
    name: &str,
    value: &LocatedNode,
    evidence: &InvariantEvidence,
) -> Outcome<bool> {
    let view = TelemetryView::new(evidence);
    if valued::check_valued_invariant(checker, name, value, &view)? {
        return Ok(true);
    }
    let mut rows = TABLES.iter().copied().flatten();
    let Some((_, measure)) = rows.find(|(row, _)| *row == name) else { return Ok(false) };
    checker.check_truth(value, measure(&view));
    Ok(true)
}

/// Returns the names of the invariants that are true or not.
pub(crate) fn telemetry_invariants() -> impl Iterator<Item = &'static str> {
    TABLES.iter().copied().flatten().map(|(name, _)| *name)
}
