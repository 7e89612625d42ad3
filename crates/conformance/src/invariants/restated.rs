//! The table of invariants that restate assertions: each with the ids of those.

use crate::assertion_id::AssertionId;

/// An invariant that repeats other assertions of the same case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RestatedInvariant {
    /// The invariant.
    pub(crate) invariant: &'static str,
    /// The ids of those assertions. Each must have been made in the case. When the value that one of them demands is
    /// changed, the case must fail in that assertion; `mutate` proves it.
    ids: &'static [&'static str],
}

impl RestatedInvariant {
    /// Makes a row.
    #[must_use]
    pub(crate) const fn new(invariant: &'static str, ids: &'static [&'static str]) -> Self {
        Self { invariant, ids }
    }

    /// Returns the ids of the assertions.
    pub(crate) fn assertion_ids(&self) -> impl Iterator<Item = AssertionId> {
        self.ids.iter().map(|id| AssertionId(id))
    }
}

const fn row(invariant: &'static str, ids: &'static [&'static str]) -> RestatedInvariant {
    RestatedInvariant::new(invariant, ids)
}

/// Invariants that restate assertions.
pub(super) const RESTATED: &[RestatedInvariant] = &[
    // graph-engine
    row("drain_waited_for_all_events", &["drain_summary.undelivered_count", "observer_events"]),
    row("drain_events_for_synchronized_accumulator_read", &["node_accumulator_snapshots"]),
    row(
        "drain_returned_without_blocking_on_post_call_events",
        &["node_accumulator_snapshots", "final_accumulator_state"],
    ),
    row("graph_state_intact_after_per_invocation_drain_timeout", &["final_state"]),
    row(
        "second_invocation_drain_independent_of_first",
        &[
            "invocations[1].expected.drain_summary.timeout_reached",
            "invocations[1].expected.drain_summary.undelivered_count",
        ],
    ),
    row(
        "drain_scopes_strictly_to_supplied_invocation_id",
        &["node_accumulator_snapshots|node_drain_summaries"],
    ),
    // sessions
    row(
        "second_invoke_loads_first_invoke_state",
        &["invocations[1].loaded_session_state", "invocations[1].expected_final_state"],
    ),
    row("projected_field_persists_across_invokes", &["invocations[1].loaded_session_state"]),
    row("mid_invoke_save_survives_subsequent_crash", &["store_after.loaded_state"]),
    row("migration_runs_before_projection_merge", &["migrations_run", "final_state"]),
    row("subgraph_does_not_see_session_state_directly", &["inner_pre_state"]),
    // suspension
    row("suspend_returns_suspended_outcome", &["invocations[0].expected.outcome"]),
    row("resume_merges_signal_payload", &["invocations[1].expected.final_state"]),
    row("signal_payload_overwrites_field_directly", &["final_state"]),
    row("reducer_not_consulted_on_signal_merge", &["final_state"]),
    row(
        "invalid_payload_blocks_resume",
        &["invocations[1].expected.outcome", "invocations[1].expected.error.category"],
    ),
    row("error_category_is_resume_payload_invalid", &["error.category"]),
    row("resume_against_non_suspended_raises_record_invalid", &["error.category"]),
    row("resume_covers_completed_and_never_existed_cases", &["error.category"]),
    row("subgraph_suspend_propagates_to_outer", &["outcome", "suspending_node"]),
    row("after_subgraph_runs_post_resume", &["final_state|execution_order"]),
    row(
        "resume_sees_session_state_consistent_with_paused_record",
        &["final_state", "saved_session_assertions.state"],
    ),
    // harness
    row("harness_classified_as_new_session_path", &["dispatch_path"]),
    row(
        "harness_classified_first_as_new_second_as_existing",
        &["transmissions[0].expected.dispatch_path", "transmissions[1].expected.dispatch_path"],
    ),
    row(
        "harness_threaded_caller_session_id_verbatim",
        &["invoke_args.session_id", "invoke_args.session_id_caller_supplied"],
    ),
    row("second_invoke_classified_as_signal_resume", &["transmissions[1].expected.dispatch_path"]),
    row(
        "resume_threaded_signal_payload_into_engine",
        &["transmissions[1].expected.invoke_args.signal_payload", "transmissions[1].expected.final_state"],
    ),
    row("completed_outcome_surfaced_as_completion_response_shape", &["outbound_shape"]),
    row("outbound_shape_distinct_from_error_or_suspended", &["outbound_shape"]),
    row("errored_outcome_categorized_into_retryable_transient_bucket", &["error_bucket"]),
    row("outbound_shape_is_error_response", &["outbound_shape"]),
    row("outbound_includes_category_and_bucket", &["outbound_payload_includes"]),
    row("suspended_outcome_distinct_outbound_shape", &["outbound_shape"]),
    row(
        "signal_arrival_correlated_to_paused_invocation",
        &[
            "transmissions[1].expected.signal_correlation_resolved",
            "transmissions[1].expected.resolved_to_invocation_id",
        ],
    ),
    row(
        "resume_invocation_completed_the_graph",
        &["transmissions[1].expected.invoke_outcome", "transmissions[1].expected.final_state"],
    ),
    row(
        "end_to_end_signal_roundtrip_succeeded",
        &["transmissions[1].expected.resolved_to_invocation_id", "transmissions[1].expected.final_state"],
    ),
    row("session_load_failed_classified_as_terminating", &["error_category", "error_bucket"]),
    row("outbound_marked_intervention_required", &["outbound_payload_includes"]),
    row("provider_unavailable_classified_as_retryable_transient", &["error_category", "error_bucket"]),
    row("outbound_marked_retry_safe", &["outbound_payload_includes"]),
    row("provider_invalid_request_classified_as_user_correctable", &["error_category", "error_bucket"]),
    row("outbound_includes_diagnostic_message", &["outbound_payload_includes"]),
    row("outbound_marks_user_action_required", &["outbound_payload_includes"]),
    row("stateless_harness_classified_via_path_3_0", &["dispatch_path"]),
    // harness-chat
    row("send_returns_chat_turn_outcome", &["outcome"]),
    row("replies_contain_only_new_messages_appended_during_turn", &["replies"]),
    row("session_messages_field_accumulates_via_append_reducer", &["final_state"]),
    row("replies_field_contains_only_current_turn_new_messages", &["replies"]),
    row("replies_list_preserves_graph_execution_order", &["replies"]),
    row("tool_calls_lives_on_assistant_message_not_in_content_blocks", &["replies"]),
    row("tool_role_message_has_tool_call_id_and_string_content", &["replies"]),
    row("pending_message_extracted_from_state_messages_tail", &["pending_messages"]),
    row(
        "listener_callback_carries_post_resume_chat_turn_outcome",
        &["expected_listener_callback.outcome", "expected_listener_callback.replies"],
    ),
    row("error_bucket_routes_to_harness_section_7_1", &["error_bucket"]),
    row("error_bucket_routes_to_harness_section_7_2", &["error_bucket"]),
    row("error_bucket_routes_to_harness_section_7_3", &["error_bucket"]),
    row("reply_role_is_system", &["reply.role"]),
    row("reply_content_includes_upstream_diagnostic", &["reply.content_includes"]),
    row("chat_message_shape_invalid_routes_to_user_correctable", &["error_category", "error_bucket"]),
    // pipeline-utilities: middleware
    row("event_name_is_caller_supplied", &["expected_failure_isolation_event.event_name"]),
    row(
        "callable_receives_pre_merge_state",
        &["expected_failure_isolation_event.pre_state", "expected_failure_isolation_event.post_state"],
    ),
    row("callable_return_merges_via_reducer", &["final_state"]),
    row(
        "matching_exception_caught",
        &["final_state", "expected_failure_isolation_event.caught_exception.category"],
    ),
    row("non_matching_exception_propagates", &["expected_error.category"]),
    row(
        "outer_to_inner_ordering_load_bearing",
        &["expected_attempt_events", "expected_failure_isolation_event.wrapped_node_lineage.attempt_index"],
    ),
    row("framework_event_still_emits_with_on_caught", &["expected_failure_isolation_event.event_name"]),
    row("degraded_return_reaches_engine_with_on_caught", &["final_state"]),
    row("default_predicate_catches_bare_exception", &["final_state"]),
    row("caught_exception_category_null_for_non_categorized", &["caught_exception.category"]),
    row("caught_exception_message_captures_str_exc", &["caught_exception.message"]),
    row("engine_sees_degraded_return", &["final_state"]),
    row("category_resolves_through_node_exception_wrapper", &["caught_exception.category"]),
    row("category_not_masked_as_node_exception", &["caught_exception.category"]),
    row("chain_includes_carrier_and_originating", &["caught_exception.chain"]),
    row("node_level_chain_is_single_non_carrier_link", &["caught_exception.chain"]),
    row("uncategorized_cause_yields_null_derived_category", &["caught_exception.category"]),
    row("derived_category_is_outermost_non_carrier_with_category", &["caught_exception.category"]),
    row("chain_has_two_non_carrier_links", &["caught_exception.chain"]),
    row("catch_matches_through_node_exception_carrier", &["caught_exception.category"]),
    row("catch_non_matching_propagates", &["expected_error.category"]),
    row("middleware_pre_next_block_runs_on_suspending_node", &["middleware_log_captured"]),
    row("middleware_post_next_block_skipped_on_suspending_node", &["middleware_log_captured"]),
    row("middleware_suspend_raises_unsupported_context", &["error.category"]),
    // pipeline-utilities: fan-out
    row("contribution_is_the_degraded_update", &["final_state"]),
    row("extra_outputs_read_by_subgraph_field_name", &["final_state"]),
    row("omitted_collect_field_yields_null_slot", &["final_state"]),
    row("degrade_path_does_not_raise", &["final_state"]),
    row("extra_outputs_omission_is_null_slot", &["final_state"]),
    row("absent_collect_field_yields_null_slot", &["final_state"]),
    row("fan_in_does_not_raise", &["final_state"]),
    row("strict_reducer_null_slot_raises", &["expected_error.category", "expected_error.raised_from"]),
    row("degrade_does_not_suppress_reducer_error", &["expected_error.category"]),
    row(
        "drain_covered_all_fan_out_instances_via_shared_invocation_id",
        &["node_accumulator_snapshot_invariants"],
    ),
    row("fan_out_instances_do_not_see_session_state_directly", &["instance_pre_states"]),
    row("single_instance_suspend_suspends_whole_fan_out", &["outcome", "suspending_node"]),
    row("descriptor_carries_fan_out_index", &["descriptor.metadata_includes"]),
    row("collect_mode_suspend_rejected_at_runtime", &["outcome", "error.category"]),
    // pipeline-utilities: parallel branches
    row("uncovered_projected_field_skipped", &["final_state"]),
    row("parent_keeps_prior_value", &["final_state"]),
    row("when_false_branch_skipped", &["final_state"]),
    row("skipped_branch_no_contribution", &["final_state"]),
    row("when_true_branch_dispatches", &["final_state"]),
    row("callable_branch_failure_isolated_and_degraded", &["final_state", "caught_exception.category"]),
    row("sibling_branch_completed", &["final_state"]),
    row("callable_branches_run_without_subgraph", &["final_state"]),
    row("contributions_merge_via_parent_reducer", &["final_state"]),
    row(
        "drain_covered_all_parallel_branches_via_shared_invocation_id",
        &["node_accumulator_snapshot_invariants"],
    ),
    row("single_branch_suspend_suspends_whole_parallel_branches", &["outcome", "suspending_node"]),
    row("descriptor_carries_branch_name", &["descriptor.metadata_includes"]),
    row("collect_mode_parallel_branches_suspend_rejected_at_runtime", &["outcome", "error.category"]),
    // pipeline-utilities: checkpoints
    row("inner_first_node_not_re_run", &["nodes_skipped_during_resume"]),
    row(
        "subgraph_re_entry_uses_parent_states",
        &["saved_record_assertions.parent_states_present", "resume.expected.final_state"],
    ),
    row("degrade_slot_rolled_forward_unchanged", &["resume.expected.final_state"]),
    row("after_node_crash_rolls_node_forward", &["nodes_skipped_during_resume"]),
    row(
        "paused_record_persists_via_checkpointer_backend",
        &["checkpointer_assertions.paused_invocation_record_exists"],
    ),
    row("record_type_distinguishes_suspended_from_checkpointed", &["checkpointer_assertions.record_type"]),
];
