//! Where an expectation can be changed, and how.

use std::collections::BTreeMap;
use std::fmt;

use crate::yaml::{YamlNode, YamlValue};

/// Keys under which the runner reads expectations.
const EXPECTATIONS: &[&str] = &[
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
const LEFT_OUT: &[&str] =
    &["undelivered_count_min", "error_category_not", "state_one_of", "no_record_for_session_id"];

/// Lists of which each item is an assertion of its own: an item that is moved changes nothing, and where one is
/// dropped less is demanded. None may be there twice, and one must be there.
const LOOSE_LISTS: &[&str] = &[
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
];

/// Keys whose values are compared as a whole, however deep: a key that is removed must be missed.
const WHOLE: &[&str] = &[
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
];

/// Keys of maps, or of lists of maps, that may name a part of the actual value; the named part is compared as a
/// whole.
const PARTS: &[&str] = &[
    "replies",
    "pending_messages",
    "messages_history_contains",
    "outbound_payload_includes",
    "metadata_includes",
    "chain",
    "variables",
];

/// Keys that an event must name: the error of an attempt that failed.
const NAMED_BY_EVENTS: &[&str] = &["error"];

/// The values of `phase`.
const PHASES: &[&str] = &["started", "completed", "suspended"];

/// The values of `state` of a fan-out's instance.
const INSTANCE_STATES: &[&str] = &["not_started", "in_flight", "completed"];

/// Values of other keys that are members of a closed set.
const SETS: &[&[&str]] = &[
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

/// One way to change one value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ValueMutation {
    /// Another value of the kind.
    Other,
    /// An item less.
    Drop,
    /// An item more.
    Add,
    /// Two items swapped.
    Swap,
    /// The key at this place less.
    Remove(usize),
}

/// How the runner compares a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ComparisonMode {
    /// Each key is an assertion of its own.
    ByKey,
    /// The keys that are named, each as a whole.
    InPart,
    /// As a whole.
    Whole,
}

#[derive(Debug, Clone)]
enum MutationPathStep {
    Key(String),
    Item(usize),
}

/// A place and a change.
#[derive(Debug, Clone)]
pub(crate) struct MutationSite {
    path: Vec<MutationPathStep>,
    change: ValueMutation,
}

impl fmt::Display for MutationSite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for step in &self.path {
            match step {
                MutationPathStep::Key(key) => write!(f, ".{key}")?,
                MutationPathStep::Item(at) => write!(f, "[{at}]")?,
            }
        }
        write!(f, " ({:?})", self.change)
    }
}

/// Changes that are not tried, by the key that they stand under: how many, and why.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OmittedMutations {
    /// Values that demand an absence or a minimum: another value may hold as well.
    pub values: BTreeMap<String, usize>,
    /// Lists of which each item is an assertion of its own: an item less, twice or elsewhere demands nothing else.
    pub items: BTreeMap<String, usize>,
    /// Keys of maps in which each key is an assertion of its own: a case without one demands less, and rightly passes.
    pub keys: BTreeMap<String, usize>,
}

/// Finds every change of every expectation of a case, and the expectations that are left out.
pub(crate) fn find_sites(case: &YamlNode, left_out: &mut OmittedMutations) -> Vec<MutationSite> {
    let mut search = MutationSearch { path: Vec::new(), found: Vec::new(), left_out };
    search.visit_expectations(case);
    search.found
}

fn is_expectation(key: &str) -> bool {
    EXPECTATIONS.contains(&key) || key.starts_with("loaded_invoke_state_for_")
}

fn comparison_mode(key: &str, value: &YamlNode) -> ComparisonMode {
    let chat =
        matches!(&value.value, YamlValue::Map(it) if it.iter().any(|(key, _)| key.starts_with("messages_")));
    if WHOLE.contains(&key) || key.starts_with("loaded_invoke_state_for_") || (key == "final_state" && !chat)
    {
        ComparisonMode::Whole
    } else if PARTS.contains(&key) {
        ComparisonMode::InPart
    } else {
        ComparisonMode::ByKey
    }
}

/// A walk through a case.
struct MutationSearch<'a> {
    path: Vec<MutationPathStep>,
    found: Vec<MutationSite>,
    left_out: &'a mut OmittedMutations,
}

impl MutationSearch<'_> {
    fn visit_expectations(&mut self, node: &YamlNode) {
        match &node.value {
            YamlValue::Map(entries) => {
                for (key, value) in entries {
                    self.path.push(MutationPathStep::Key(key.clone()));
                    if is_expectation(key) {
                        self.collect_sites(value, comparison_mode(key, value));
                    } else {
                        self.visit_expectations(value);
                    }
                    self.path.pop();
                }
            }
            YamlValue::List(items) => {
                for (at, value) in items.iter().enumerate() {
                    self.path.push(MutationPathStep::Item(at));
                    self.visit_expectations(value);
                    self.path.pop();
                }
            }
            YamlValue::Null
            | YamlValue::Bool(_)
            | YamlValue::Int(_)
            | YamlValue::Float(_)
            | YamlValue::Str(_) => {}
        }
    }

    /// Returns the key that the walk is under.
    fn current_key(&self) -> String {
        let key = self.path.iter().rev().find_map(|it| match it {
            MutationPathStep::Key(key) => Some(key.clone()),
            MutationPathStep::Item(_) => None,
        });
        key.unwrap_or_default()
    }

    fn add_site(&mut self, change: ValueMutation) {
        self.found.push(MutationSite { path: self.path.clone(), change });
    }

    fn collect_sites(&mut self, node: &YamlNode, how: ComparisonMode) {
        let key = self.current_key();
        let is_list = matches!(node.value, YamlValue::List(_));
        if how == ComparisonMode::ByKey && !is_list && LEFT_OUT.contains(&key.as_str()) {
            *self.left_out.values.entry(key).or_default() += 1;
            return;
        }
        match &node.value {
            YamlValue::Null
            | YamlValue::Bool(_)
            | YamlValue::Int(_)
            | YamlValue::Float(_)
            | YamlValue::Str(_) => self.add_site(ValueMutation::Other),
            YamlValue::List(items) => self.collect_list_sites(items, &key, how),
            YamlValue::Map(entries) => self.collect_map_sites(entries, &key, how),
        }
    }

    fn collect_list_sites(&mut self, items: &[YamlNode], key: &str, how: ComparisonMode) {
        if how != ComparisonMode::Whole && LOOSE_LISTS.contains(&key) {
            *self.left_out.items.entry(key.to_owned()).or_default() += 1;
            self.add_site(ValueMutation::Add);
            if items.len() == 1 {
                self.add_site(ValueMutation::Drop);
            }
        } else {
            if !items.is_empty() {
                self.add_site(ValueMutation::Drop);
            }
            self.add_site(ValueMutation::Add);
            if items.len() > 1 && items.iter().any(|item| item.to_json() != items[0].to_json()) {
                self.add_site(ValueMutation::Swap);
            }
        }
        for (at, item) in items.iter().enumerate() {
            self.path.push(MutationPathStep::Item(at));
            self.collect_sites(item, how);
            self.path.pop();
        }
    }

    fn collect_map_sites(&mut self, entries: &[(String, YamlNode)], map: &str, how: ComparisonMode) {
        // An observer's event: the keys that it names, each as a whole.
        let is_event = how == ComparisonMode::ByKey && entries.iter().any(|(key, _)| key == "node_name");
        let how = if is_event { ComparisonMode::InPart } else { how };
        for (at, (key, _)) in entries.iter().enumerate() {
            if how == ComparisonMode::Whole || (is_event && NAMED_BY_EVENTS.contains(&key.as_str())) {
                self.add_site(ValueMutation::Remove(at));
            } else {
                let map = if is_event { "events" } else { map };
                *self.left_out.keys.entry(map.to_owned()).or_default() += 1;
            }
        }
        for (key, value) in entries {
            self.path.push(MutationPathStep::Key(key.clone()));
            // Of a request, sampling is asserted by the fields that are named (conformance-adapter §5.11).
            let of_request = key == "sampling"
                && self
                    .path
                    .iter()
                    .any(|step| matches!(step, MutationPathStep::Key(key) if key == "wire_requests"));
            let below = match how {
                ComparisonMode::ByKey if of_request => ComparisonMode::ByKey,
                ComparisonMode::ByKey => comparison_mode(key, value),
                ComparisonMode::InPart | ComparisonMode::Whole => ComparisonMode::Whole,
            };
            self.collect_sites(value, below);
            self.path.pop();
        }
    }
}

impl MutationSite {
    /// Returns the place as assertions name it; nothing when it is not the case's own.
    #[must_use]
    pub(crate) fn assertion_path(&self) -> Option<String> {
        let (MutationPathStep::Key(part), own) = self.path.split_first()? else { return None };
        (part == "case").then(|| {
            own.iter().fold(String::new(), |place, step| match step {
                MutationPathStep::Key(key) if place.is_empty() => key.clone(),
                MutationPathStep::Key(key) => format!("{place}.{key}"),
                MutationPathStep::Item(at) => format!("{place}[{at}]"),
            })
        })
    }

    /// Returns the values of this place, where its key says which there are.
    fn allowed_words(&self) -> Option<&'static [&'static str]> {
        let named =
            |step: &MutationPathStep, name: &str| matches!(step, MutationPathStep::Key(key) if key == name);
        let last = self.path.last()?;
        if named(last, "phase") {
            return Some(PHASES);
        }
        let of_instance = named(last, "state") && self.path.iter().any(|it| named(it, "instances"));
        of_instance.then_some(INSTANCE_STATES)
    }

    /// Returns the case with this one change.
    pub(crate) fn apply_to_case(&self, case: &YamlNode, choose: &mut dyn FnMut(usize) -> usize) -> YamlNode {
        let mut changed = case.clone();
        let mut at = &mut changed;
        for step in &self.path {
            let next = match (step, &mut at.value) {
                (MutationPathStep::Key(key), YamlValue::Map(entries)) => {
                    entries.iter_mut().find(|(it, _)| it == key).map(|(_, it)| it)
                }
                (MutationPathStep::Item(index), YamlValue::List(items)) => items.get_mut(*index),
                _ => None,
            };
            match next {
                Some(next) => at = next,
                None => return case.clone(),
            }
        }
        match (self.change, &mut at.value, self.allowed_words()) {
            (ValueMutation::Other, YamlValue::Str(it), Some(words)) => {
                *it = choose_other_member(words, it, choose)
            }
            (how, value, _) => change_value(value, how, choose),
        }
        changed
    }
}

fn change_value(value: &mut YamlValue, how: ValueMutation, choose: &mut dyn FnMut(usize) -> usize) {
    match (how, value) {
        (ValueMutation::Other, null @ YamlValue::Null) => *null = YamlValue::Str("changed".into()),
        (ValueMutation::Other, YamlValue::Bool(it)) => *it = !*it,
        (ValueMutation::Other, YamlValue::Int(it)) => *it += if choose(2) == 0 { 1 } else { -1 },
        (ValueMutation::Other, YamlValue::Float(it)) => *it += 1.0,
        (ValueMutation::Other, YamlValue::Str(it)) => *it = choose_other_text(it, choose),
        (ValueMutation::Drop, YamlValue::List(items)) => drop(items.remove(choose(items.len()))),
        (ValueMutation::Add, YamlValue::List(items)) => {
            let line = items.first().map_or(0, |items| items.line);
            let added = match items.len() {
                0 => YamlNode { line, value: YamlValue::Str("added".into()) },
                count => items[choose(count)].clone(),
            };
            items.push(added);
        }
        (ValueMutation::Swap, YamlValue::List(items)) => {
            let first = items[0].to_json();
            if let Some(other) = items.iter().position(|item| item.to_json() != first) {
                items.swap(0, other);
            }
        }
        (ValueMutation::Remove(at), YamlValue::Map(entries)) => drop(entries.remove(at)),
        _ => {}
    }
}

fn choose_other_text(text: &str, choose: &mut dyn FnMut(usize) -> usize) -> String {
    let Some(set) = SETS.iter().find(|it| it.contains(&text)) else {
        return format!("{text} changed");
    };
    choose_other_member(set, text, choose)
}

/// Another member of a set.
fn choose_other_member(set: &[&str], text: &str, choose: &mut dyn FnMut(usize) -> usize) -> String {
    let others: Vec<_> = set.iter().filter(|it| **it != text).collect();
    (*others[choose(others.len())]).to_owned()
}

#[cfg(test)]
mod tests;
