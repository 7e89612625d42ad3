//! Invariants (conformance-adapter §5.9): each is checked, or restates assertions of the case that are named here, or
//! cannot be checked, for a reason that is named here. A name that is not in these tables fails the case.

mod chat;
mod measured;

use crate::base::Handled;
use crate::chat::Talked;
use crate::check::Checker;
use crate::failure::{Failure, Outcome};
use crate::fields::Spot;
use crate::run::Run;

/// What a case gave, for its invariants to look at.
#[derive(Debug, Default)]
pub(crate) struct Evidence {
    /// The runs of its graph.
    pub(crate) runs: Vec<Run>,
    /// What the abstract harness handled.
    pub(crate) handled: Vec<Handled>,
    /// What was said in the chat.
    pub(crate) talked: Talked,
    /// The fields of the subgraphs' states, by the name of the subgraph's node path depth: for projections.
    pub(crate) inner_fields: Vec<String>,
}

/// A check of its own.
type Measure = fn(&Evidence) -> Result<(), String>;

/// Invariants that say again what other assertions of the same case say: those, by their keys. Every one must have been
/// made in the case.
const RESTATED: &[(&str, &[&str])] = &[
    // graph-engine
    ("drain_waited_for_all_events", &["drain_summary.undelivered_count", "observer_events"]),
    ("drain_events_for_synchronized_accumulator_read", &["node_accumulator_snapshots"]),
    (
        "drain_returned_without_blocking_on_post_call_events",
        &["node_accumulator_snapshots", "final_accumulator_state"],
    ),
    ("graph_state_intact_after_per_invocation_drain_timeout", &["final_state"]),
    ("graph_state_intact_after_timeout", &["final_state"]),
    (
        "second_invocation_drain_independent_of_first",
        &["drain_summary.timeout_reached", "drain_summary.undelivered_count"],
    ),
    ("drain_scopes_strictly_to_supplied_invocation_id", &["node_accumulator_snapshots"]),
    // sessions
    ("second_invoke_loads_first_invoke_state", &["loaded_session_state", "expected_final_state"]),
    ("projected_field_persists_across_invokes", &["loaded_session_state"]),
    ("mid_invoke_save_survives_subsequent_crash", &["store_after.loaded_state"]),
    ("migration_runs_before_projection_merge", &["migrations_run", "final_state"]),
    ("subgraph_does_not_see_session_state_directly", &["inner_pre_state"]),
    // suspension
    ("suspend_returns_suspended_outcome", &["outcome"]),
    ("resume_merges_signal_payload", &["final_state"]),
    ("signal_payload_overwrites_field_directly", &["final_state"]),
    ("reducer_not_consulted_on_signal_merge", &["final_state"]),
    ("invalid_payload_blocks_resume", &["outcome", "error.category"]),
    ("error_category_is_resume_payload_invalid", &["error.category"]),
    ("resume_against_non_suspended_raises_record_invalid", &["error.category"]),
    ("resume_covers_completed_and_never_existed_cases", &["error.category"]),
    ("subgraph_suspend_propagates_to_outer", &["outcome", "suspending_node"]),
    ("after_subgraph_runs_post_resume", &["final_state"]),
    (
        "resume_sees_session_state_consistent_with_paused_record",
        &["final_state", "saved_session_assertions.state"],
    ),
    // harness
    ("harness_classified_as_new_session_path", &["dispatch_path"]),
    ("harness_classified_first_as_new_second_as_existing", &["dispatch_path"]),
    (
        "harness_threaded_caller_session_id_verbatim",
        &["invoke_args.session_id", "invoke_args.session_id_caller_supplied"],
    ),
    ("second_invoke_classified_as_signal_resume", &["dispatch_path"]),
    ("resume_threaded_signal_payload_into_engine", &["invoke_args.signal_payload", "final_state"]),
    ("completed_outcome_surfaced_as_completion_response_shape", &["outbound_shape"]),
    ("outbound_shape_distinct_from_error_or_suspended", &["outbound_shape"]),
    ("errored_outcome_categorized_into_retryable_transient_bucket", &["error_bucket"]),
    ("outbound_shape_is_error_response", &["outbound_shape"]),
    ("outbound_includes_category_and_bucket", &["outbound_payload_includes"]),
    ("suspended_outcome_distinct_outbound_shape", &["outbound_shape"]),
    (
        "signal_arrival_correlated_to_paused_invocation",
        &["signal_correlation_resolved", "resolved_to_invocation_id"],
    ),
    ("resume_invocation_completed_the_graph", &["invoke_outcome", "final_state"]),
    ("end_to_end_signal_roundtrip_succeeded", &["resolved_to_invocation_id", "final_state"]),
    ("session_load_failed_classified_as_terminating", &["error_category", "error_bucket"]),
    ("outbound_marked_intervention_required", &["outbound_payload_includes"]),
    ("provider_unavailable_classified_as_retryable_transient", &["error_category", "error_bucket"]),
    ("outbound_marked_retry_safe", &["outbound_payload_includes"]),
    ("provider_invalid_request_classified_as_user_correctable", &["error_category", "error_bucket"]),
    ("outbound_includes_diagnostic_message", &["outbound_payload_includes"]),
    ("outbound_marks_user_action_required", &["outbound_payload_includes"]),
    ("stateless_harness_classified_via_path_3_0", &["dispatch_path"]),
    // harness-chat
    ("send_returns_chat_turn_outcome", &["outcome"]),
    ("replies_contain_only_new_messages_appended_during_turn", &["replies"]),
    ("session_messages_field_accumulates_via_append_reducer", &["final_state.messages_count"]),
    ("replies_field_contains_only_current_turn_new_messages", &["replies"]),
    ("replies_list_preserves_graph_execution_order", &["replies"]),
    ("tool_calls_lives_on_assistant_message_not_in_content_blocks", &["replies"]),
    ("tool_role_message_has_tool_call_id_and_string_content", &["replies"]),
    ("pending_message_extracted_from_state_messages_tail", &["pending_messages"]),
    (
        "listener_callback_carries_post_resume_chat_turn_outcome",
        &["expected_listener_callback.outcome", "expected_listener_callback.replies"],
    ),
    ("error_bucket_routes_to_harness_section_7_1", &["error_bucket"]),
    ("error_bucket_routes_to_harness_section_7_2", &["error_bucket"]),
    ("error_bucket_routes_to_harness_section_7_3", &["error_bucket"]),
    ("reply_role_is_system", &["reply.role"]),
    ("reply_content_includes_upstream_diagnostic", &["reply.content_includes"]),
    ("chat_message_shape_invalid_routes_to_user_correctable", &["error_category", "error_bucket"]),
    ("multimodal_content_blocks_preserved_in_history", &["final_state.messages_history_contains"]),
    ("turn_2_loads_turn_1_history", &["final_state.messages_count"]),
];

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
pub(crate) fn check(checker: &mut Checker, block: Spot, evidence: &Evidence) {
    let Some(mut named) = checker.take(block.fields()) else { return };
    while let Some((name, value)) = named.next() {
        let checked = one(checker, &name, &value, evidence);
        checker.take(checked);
    }
}

fn one(checker: &mut Checker, name: &str, value: &Spot, evidence: &Evidence) -> Outcome<()> {
    if measured::valued(checker, name, value, evidence)? {
        return Ok(());
    }
    let measure = measured::MEASURED.iter().chain(chat::MEASURED).find(|(it, _)| *it == name);
    if let Some((_, measure)) = measure {
        checker.truth(value, measure(evidence));
        return Ok(());
    }
    if let Some((_, keys)) = RESTATED.iter().find(|(it, _)| *it == name) {
        let missing = keys.iter().find(|it| !checker.asserted(it));
        let made = match missing {
            None => Ok(()),
            Some(key) => {
                return Err(Failure::reader(
                    &value.path,
                    format!("restates '{key}', which the case does not assert"),
                ));
            }
        };
        checker.truth(value, made);
        return Ok(());
    }
    if NOT_CHECKABLE.iter().any(|(it, _)| *it == name) {
        checker.truth(value, Ok(()));
        return Ok(());
    }
    Err(Failure::reader(&value.path, format!("unknown invariant '{name}'")))
}

/// Returns the invariants that only restate others, with the assertions that they restate.
#[must_use]
pub(crate) fn restated() -> &'static [(&'static str, &'static [&'static str])] {
    RESTATED
}

/// Returns the invariants that cannot be checked, and why.
#[must_use]
pub(crate) fn not_checkable() -> &'static [(&'static str, &'static str)] {
    NOT_CHECKABLE
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_invariant_has_one_place() {
        let names = RESTATED.iter().map(|(it, _)| *it).chain(NOT_CHECKABLE.iter().map(|(it, _)| *it));
        let measured = measured::MEASURED.iter().chain(chat::MEASURED).map(|(it, _)| *it);
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
