//! Where an expectation can be changed, and how.

use std::collections::BTreeMap;
use std::fmt;

use crate::yaml::{Node, Yaml};

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
enum Change {
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
enum Compared {
    /// Each key is an assertion of its own.
    ByKey,
    /// The keys that are named, each as a whole.
    InPart,
    /// As a whole.
    Whole,
}

#[derive(Debug, Clone)]
enum Step {
    Key(String),
    Item(usize),
}

/// A place and a change.
#[derive(Debug, Clone)]
pub(crate) struct Site {
    path: Vec<Step>,
    change: Change,
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for step in &self.path {
            match step {
                Step::Key(key) => write!(f, ".{key}")?,
                Step::Item(at) => write!(f, "[{at}]")?,
            }
        }
        write!(f, " ({:?})", self.change)
    }
}

/// Changes that are not tried, by the key that they stand under: how many, and why.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// Values that demand an absence or a minimum: another value may hold as well.
    pub values: BTreeMap<String, usize>,
    /// Lists of which each item is an assertion of its own: an item less, twice or elsewhere demands nothing else.
    pub items: BTreeMap<String, usize>,
    /// Keys of maps in which each key is an assertion of its own: a case without one demands less, and rightly passes.
    pub keys: BTreeMap<String, usize>,
}

/// Finds every change of every expectation of a case, and the expectations that are left out.
pub(crate) fn sites(case: &Node, left_out: &mut LeftOut) -> Vec<Site> {
    let mut search = Search { path: Vec::new(), found: Vec::new(), left_out };
    search.expectations(case);
    search.found
}

fn is_expectation(key: &str) -> bool {
    EXPECTATIONS.contains(&key) || key.starts_with("loaded_invoke_state_for_")
}

fn compared(key: &str, value: &Node) -> Compared {
    let chat =
        matches!(&value.value, Yaml::Map(it) if it.iter().any(|(key, _)| key.starts_with("messages_")));
    if WHOLE.contains(&key) || key.starts_with("loaded_invoke_state_for_") || (key == "final_state" && !chat)
    {
        Compared::Whole
    } else if PARTS.contains(&key) {
        Compared::InPart
    } else {
        Compared::ByKey
    }
}

/// A walk through a case.
struct Search<'a> {
    path: Vec<Step>,
    found: Vec<Site>,
    left_out: &'a mut LeftOut,
}

impl Search<'_> {
    fn expectations(&mut self, node: &Node) {
        match &node.value {
            Yaml::Map(entries) => {
                for (key, value) in entries {
                    self.path.push(Step::Key(key.clone()));
                    if is_expectation(key) {
                        self.collect(value, compared(key, value));
                    } else {
                        self.expectations(value);
                    }
                    self.path.pop();
                }
            }
            Yaml::List(items) => {
                for (at, value) in items.iter().enumerate() {
                    self.path.push(Step::Item(at));
                    self.expectations(value);
                    self.path.pop();
                }
            }
            Yaml::Null | Yaml::Bool(_) | Yaml::Int(_) | Yaml::Float(_) | Yaml::Str(_) => {}
        }
    }

    /// Returns the key that the walk is under.
    fn key(&self) -> String {
        let key = self.path.iter().rev().find_map(|it| match it {
            Step::Key(key) => Some(key.clone()),
            Step::Item(_) => None,
        });
        key.unwrap_or_default()
    }

    fn add(&mut self, change: Change) {
        self.found.push(Site { path: self.path.clone(), change });
    }

    fn collect(&mut self, node: &Node, how: Compared) {
        let key = self.key();
        let is_list = matches!(node.value, Yaml::List(_));
        if how == Compared::ByKey && !is_list && LEFT_OUT.contains(&key.as_str()) {
            *self.left_out.values.entry(key).or_default() += 1;
            return;
        }
        match &node.value {
            Yaml::Null | Yaml::Bool(_) | Yaml::Int(_) | Yaml::Float(_) | Yaml::Str(_) => {
                self.add(Change::Other)
            }
            Yaml::List(items) => self.list(items, &key, how),
            Yaml::Map(entries) => self.map(entries, &key, how),
        }
    }

    fn list(&mut self, items: &[Node], key: &str, how: Compared) {
        if how != Compared::Whole && LOOSE_LISTS.contains(&key) {
            *self.left_out.items.entry(key.to_owned()).or_default() += 1;
            self.add(Change::Add);
            if items.len() == 1 {
                self.add(Change::Drop);
            }
        } else {
            if !items.is_empty() {
                self.add(Change::Drop);
            }
            self.add(Change::Add);
            if items.len() > 1 && items.iter().any(|item| item.to_json() != items[0].to_json()) {
                self.add(Change::Swap);
            }
        }
        for (at, item) in items.iter().enumerate() {
            self.path.push(Step::Item(at));
            self.collect(item, how);
            self.path.pop();
        }
    }

    fn map(&mut self, entries: &[(String, Node)], map: &str, how: Compared) {
        // An observer's event: the keys that it names, each as a whole.
        let is_event = how == Compared::ByKey && entries.iter().any(|(key, _)| key == "node_name");
        let how = if is_event { Compared::InPart } else { how };
        for (at, (key, _)) in entries.iter().enumerate() {
            if how == Compared::Whole || (is_event && NAMED_BY_EVENTS.contains(&key.as_str())) {
                self.add(Change::Remove(at));
            } else {
                let map = if is_event { "events" } else { map };
                *self.left_out.keys.entry(map.to_owned()).or_default() += 1;
            }
        }
        for (key, value) in entries {
            self.path.push(Step::Key(key.clone()));
            // Of a request, sampling is asserted by the fields that are named (conformance-adapter §5.11).
            let of_request = key == "sampling"
                && self.path.iter().any(|step| matches!(step, Step::Key(key) if key == "wire_requests"));
            let below = match how {
                Compared::ByKey if of_request => Compared::ByKey,
                Compared::ByKey => compared(key, value),
                Compared::InPart | Compared::Whole => Compared::Whole,
            };
            self.collect(value, below);
            self.path.pop();
        }
    }
}

impl Site {
    /// Returns the place as assertions name it; nothing when it is not the case's own.
    #[must_use]
    pub(crate) fn place(&self) -> Option<String> {
        let (Step::Key(part), own) = self.path.split_first()? else { return None };
        (part == "case").then(|| {
            own.iter().fold(String::new(), |place, step| match step {
                Step::Key(key) if place.is_empty() => key.clone(),
                Step::Key(key) => format!("{place}.{key}"),
                Step::Item(at) => format!("{place}[{at}]"),
            })
        })
    }

    /// Returns the values of this place, where its key says which there are.
    fn words(&self) -> Option<&'static [&'static str]> {
        let named = |step: &Step, name: &str| matches!(step, Step::Key(key) if key == name);
        let last = self.path.last()?;
        if named(last, "phase") {
            return Some(PHASES);
        }
        let of_instance = named(last, "state") && self.path.iter().any(|it| named(it, "instances"));
        of_instance.then_some(INSTANCE_STATES)
    }

    /// Returns the case with this one change.
    pub(crate) fn apply(&self, case: &Node, choose: &mut dyn FnMut(usize) -> usize) -> Node {
        let mut changed = case.clone();
        let mut at = &mut changed;
        for step in &self.path {
            let next = match (step, &mut at.value) {
                (Step::Key(key), Yaml::Map(entries)) => {
                    entries.iter_mut().find(|(it, _)| it == key).map(|(_, it)| it)
                }
                (Step::Item(index), Yaml::List(items)) => items.get_mut(*index),
                _ => None,
            };
            match next {
                Some(next) => at = next,
                None => return case.clone(),
            }
        }
        match (self.change, &mut at.value, self.words()) {
            (Change::Other, Yaml::Str(it), Some(words)) => *it = member(words, it, choose),
            (how, value, _) => change(value, how, choose),
        }
        changed
    }
}

fn change(value: &mut Yaml, how: Change, choose: &mut dyn FnMut(usize) -> usize) {
    match (how, value) {
        (Change::Other, null @ Yaml::Null) => *null = Yaml::Str("changed".into()),
        (Change::Other, Yaml::Bool(it)) => *it = !*it,
        (Change::Other, Yaml::Int(it)) => *it += if choose(2) == 0 { 1 } else { -1 },
        (Change::Other, Yaml::Float(it)) => *it += 1.0,
        (Change::Other, Yaml::Str(it)) => *it = another(it, choose),
        (Change::Drop, Yaml::List(items)) => drop(items.remove(choose(items.len()))),
        (Change::Add, Yaml::List(items)) => {
            let line = items.first().map_or(0, |items| items.line);
            let added = match items.len() {
                0 => Node { line, value: Yaml::Str("added".into()) },
                count => items[choose(count)].clone(),
            };
            items.push(added);
        }
        (Change::Swap, Yaml::List(items)) => {
            let first = items[0].to_json();
            if let Some(other) = items.iter().position(|item| item.to_json() != first) {
                items.swap(0, other);
            }
        }
        (Change::Remove(at), Yaml::Map(entries)) => drop(entries.remove(at)),
        _ => {}
    }
}

fn another(text: &str, choose: &mut dyn FnMut(usize) -> usize) -> String {
    let Some(set) = SETS.iter().find(|it| it.contains(&text)) else {
        return format!("{text} changed");
    };
    member(set, text, choose)
}

/// Another member of a set.
fn member(set: &[&str], text: &str, choose: &mut dyn FnMut(usize) -> usize) -> String {
    let others: Vec<_> = set.iter().filter(|it| **it != text).collect();
    (*others[choose(others.len())]).to_owned()
}

#[cfg(test)]
mod tests;
