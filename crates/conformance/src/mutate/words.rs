//! The keys of expectations, and how the runner compares what stands under them; the words of closed sets.

/// Keys under which the runner reads expectations.
pub(super) const EXPECTATIONS: &[&str] = &[
    "expected",
    "expected_error",
    "expected_final_state",
    "expected_compile_error",
    "expected_compile_warning",
    "expected_listener_callback",
    "invariants",
    "loaded_session_state",
    "saved_session_assertions",
    "saved_record_assertions",
    "latest_record_assertions",
    "every_save_assertions",
    "checkpoint_saves",
    "first_run_expected",
    "first_run_expected_error",
    "expected_chain_ambiguity_error",
    "expected_backend_state",
    "expected_shared_prefix",
    "expected_message_equal",
    "expected_wire_request",
    "expected_wire_request_checks",
    "expected_wire_request_absent_keys",
    "expected_wire_bytes_identical",
];

/// Keys whose leaves are left out, because they demand an absence or a minimum: another value may hold as well.
pub(super) const LEFT_OUT: &[&str] = &[
    "undelivered_count_min",
    "min",
    "max",
    "error_category_not",
    "state_one_of",
    "no_record_for_session_id",
];

/// Lists of which each item is an assertion of its own: an item that is moved changes nothing, and where one is
/// dropped less is demanded. None may be there twice, and one must be there.
pub(super) const LOOSE_LISTS: &[&str] = &[
    "content_includes",
    "messages_history_contains",
    "content_contains",
    "required_keys",
    "calls",
    "of",
    "between",
    "expected_shared_prefix",
    "expected_message_equal",
    "message_indices",
    "rendered_hash_equal",
    "rendered_hash_different",
    "template_hash_equal",
    "template_hash_different",
    "excludes_fields",
    "error_category_not",
    "state_one_of",
    "expected_wire_request_absent_keys",
    "attributes_absent",
    "fields_must_match",
    "fields_may_differ",
    "attributes_present",
    "event_counts",
    "events",
    "expected_order",
    "values",
    "metrics",
    "compare",
    "ignore_attributes",
    "request_params",
    "llm_span_attributes_absent",
];

/// Keys whose values are compared as a whole, however deep: a key that is removed must be missed.
pub(super) const WHOLE: &[&str] = &[
    "expected_final_state",
    "suspended_state",
    "final_state_at_error",
    "pre_state",
    "post_state",
    "parent_states",
    "recoverable_state",
    "inner_pre_state",
    "loaded_session_state",
    "loaded_state",
    "state",
    "metadata",
    "signal_payload",
    "delivery_order",
    "state_in",
    "partial_update_returned",
    "state_seen_in_post_phase",
    "instance_pre_states",
    "fan_out_config",
    "parallel_branches_config",
    "timing_records",
    "middleware_log_captured",
    "sampling",
    "token_budget",
    "observability_entities",
    "messages",
    "chat_template",
    "member_names",
    "expected_wire_request",
    "parsed",
    "arguments",
    "dimensions",
    "modelParameters",
    "response_usage",
    "caller_invocation_metadata",
    "request_extras",
    "direct_call_result",
];

/// Keys of maps, or of lists of maps, that may name a part of the actual value; the named part is compared as a
/// whole.
pub(super) const PARTS: &[&str] = &[
    "replies",
    "pending_messages",
    "messages_history_contains",
    "outbound_payload_includes",
    "metadata_includes",
    "chain",
    "variables",
    "attribute_parses_as_messages",
    "attribute_parses_as_object",
];

/// Keys that an event must name: the error of an attempt that failed.
pub(super) const NAMED_BY_EVENTS: &[&str] = &["error"];

/// The values of `phase`.
pub(super) const PHASES: &[&str] = &["started", "completed", "suspended"];

/// The values of `state` of a fan-out's instance.
pub(super) const INSTANCE_STATES: &[&str] = &["not_started", "in_flight", "completed"];

/// Values of other keys that are members of a closed set.
pub(super) const SETS: &[&[&str]] = &[
    &["completed", "suspended", "errored"],
    &["session_terminating", "retryable_transient", "user_correctable"],
    &["completion_response", "error_response", "suspended_acknowledgment"],
    &["3.0", "3.1", "3.2", "3.3"],
    &["assistant", "system", "tool", "user"],
    &[
        "node_exception",
        "reducer_error",
        "routing_error",
        "edge_exception",
        "state_validation_error",
        "session_load_failed",
        "session_state_migration_missing",
        "suspension_record_invalid",
        "suspension_resume_payload_invalid",
        "checkpoint_not_found",
        "checkpoint_record_invalid",
        "checkpoint_state_migration_missing",
        "checkpoint_state_migration_failed",
        "checkpoint_state_migration_chain_ambiguous",
        "parallel_branches_branch_failed",
    ],
    &[
        "no_declared_entry",
        "unreachable_node",
        "dangling_edge",
        "multiple_outgoing_edges",
        "conflicting_reducers",
        "mapping_references_undeclared_field",
        "conflicting_projection_forms",
        "reducer_configuration_invalid",
        "fan_out_field_not_list",
        "fan_out_count_mode_ambiguous",
        "fan_out_degraded_update_missing_collect_field",
    ],
    &["success", "exception"],
    &["prompt_not_found", "prompt_render_error", "prompt_store_unavailable", "prompt_group_invalid"],
    &["stop", "length", "tool_calls", "content_filter"],
    &[
        "provider_authentication",
        "provider_unavailable",
        "provider_invalid_model",
        "provider_model_not_loaded",
        "provider_rate_limit",
        "provider_invalid_response",
        "provider_invalid_request",
        "provider_unsupported_content_block",
        "structured_output_invalid",
    ],
];
