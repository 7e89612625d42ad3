//! Cases without a graph: one direct call of a public function (observability 046).

use serde_json::{Value, json};
use singletree::engine::current_metadata;

use crate::case::UnparsedCase;
use crate::check::AssertionChecker;
use crate::failure::{CaseFailure, Outcome};
use crate::fields::LocatedNode;
use crate::invariants::InvariantEvidence;

/// The key of such a case.
const KEY: &str = "direct_call";

/// Tells whether a case has no graph.
#[must_use]
pub(crate) fn is_direct_call(case: &UnparsedCase) -> bool {
    case.own.get_entry(KEY).is_some()
}

/// Makes the call, and asserts its result.
///
/// # Errors
/// When the case has an unknown key or value.
pub(crate) fn run_direct_call(case: UnparsedCase, checker: &mut AssertionChecker) -> Outcome<()> {
    let mut block = LocatedNode::new(case.own, "").into_map_reader()?;
    block.take_text("name")?;
    block.take_text("description")?;
    let mut call = block.take_required(KEY)?.into_map_reader()?;
    let operation = call.take_required("operation")?;
    call.reject_remaining_keys()?;
    if operation.as_text()? != "get_invocation_metadata" {
        let what = format!("unknown operation '{}'", operation.as_text()?);
        return Err(CaseFailure::reader_error(&operation.path, what));
    }
    let mut expected = block.take_required("expected")?.into_map_reader()?;
    block.reject_remaining_keys()?;
    let entries = current_metadata();
    if let Some(spot) = expected.take_value("direct_call_result") {
        // The mapping is shared: nobody can change it. A function that raised would have ended the case.
        let result = json!({
            "value": Value::Object((*entries).clone()),
            "type": "immutable_mapping",
            "exception": null,
        });
        checker.check_exact(&spot, result);
    }
    let invariants = expected.take_value("invariants");
    expected.reject_remaining_keys()?;
    let evidence = InvariantEvidence { direct_read: Some(entries), ..InvariantEvidence::default() };
    if let Some(block) = invariants {
        crate::invariants::check_invariants(checker, block, &evidence);
    }
    Ok(())
}
