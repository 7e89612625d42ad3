//! Where an expectation can be changed, and how.

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
];

/// Keys whose leaves are left out, because they say what must not be or how much there must be at least: another value may
/// hold as well.
pub const LEFT_OUT: &[&str] =
    &["undelivered_count_min", "excludes_fields", "no_events_for_node", "error_category_not"];

/// Lists of which each item is an assertion of its own: an item that is dropped, repeated or moved changes nothing.
const LOOSE_LISTS: &[&str] = &["content_includes", "messages_history_contains"];

/// Keys whose maps are compared exactly: a key that is removed must be missed. In all other maps each key is an assertion
/// of its own.
const EXACT_MAPS: &[&str] = &[
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
];

/// The values of `phase`.
const PHASES: &[&str] = &["started", "completed", "suspended"];

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
    /// A key less.
    Remove,
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

/// Finds every change of every expectation of a case.
pub(crate) fn sites(case: &Node) -> Vec<Site> {
    let mut found = Vec::new();
    look_for_expectations(case, &mut Vec::new(), &mut found);
    found
}

fn is_expectation(key: &str) -> bool {
    EXPECTATIONS.contains(&key) || key.starts_with("loaded_invoke_state_for_")
}

fn look_for_expectations(node: &Node, path: &mut Vec<Step>, found: &mut Vec<Site>) {
    match &node.value {
        Yaml::Map(entries) => {
            for (key, value) in entries {
                path.push(Step::Key(key.clone()));
                if is_expectation(key) {
                    collect(value, path, found);
                } else {
                    look_for_expectations(value, path, found);
                }
                path.pop();
            }
        }
        Yaml::List(items) => {
            for (at, value) in items.iter().enumerate() {
                path.push(Step::Item(at));
                look_for_expectations(value, path, found);
                path.pop();
            }
        }
        Yaml::Null | Yaml::Bool(_) | Yaml::Int(_) | Yaml::Float(_) | Yaml::Str(_) => {}
    }
}

fn collect(node: &Node, path: &mut Vec<Step>, found: &mut Vec<Site>) {
    let key = path.iter().rev().find_map(|it| match it {
        Step::Key(key) => Some(key.as_str()),
        Step::Item(_) => None,
    });
    let key = key.unwrap_or_default().to_owned();
    if LEFT_OUT.contains(&key.as_str()) {
        return;
    }
    let mut add = |change: Change| found.push(Site { path: path.clone(), change });
    match &node.value {
        Yaml::Null => {}
        Yaml::Bool(_) | Yaml::Int(_) | Yaml::Float(_) | Yaml::Str(_) => add(Change::Other),
        Yaml::List(items) => {
            if !LOOSE_LISTS.contains(&key.as_str()) {
                if !items.is_empty() {
                    add(Change::Drop);
                }
                add(Change::Add);
                if items.len() > 1 && items.iter().any(|it| it.to_json() != items[0].to_json()) {
                    add(Change::Swap);
                }
            }
            for (at, item) in items.iter().enumerate() {
                path.push(Step::Item(at));
                collect(item, path, found);
                path.pop();
            }
        }
        Yaml::Map(entries) => {
            let chat = entries.iter().any(|(key, _)| key.starts_with("messages_"));
            let exact = EXACT_MAPS.contains(&key.as_str()) || (key == "final_state" && !chat);
            if exact && !entries.is_empty() {
                add(Change::Remove);
            }
            for (key, value) in entries {
                path.push(Step::Key(key.clone()));
                collect(value, path, found);
                path.pop();
            }
        }
    }
}

impl Site {
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
        let is_phase = matches!(self.path.last(), Some(Step::Key(key)) if key == "phase");
        match (self.change, &mut at.value) {
            (Change::Other, Yaml::Str(it)) if is_phase => *it = member(PHASES, it, choose),
            (how, value) => change(value, how, choose),
        }
        changed
    }
}

fn change(value: &mut Yaml, how: Change, choose: &mut dyn FnMut(usize) -> usize) {
    match (how, value) {
        (Change::Other, Yaml::Bool(it)) => *it = !*it,
        (Change::Other, Yaml::Int(it)) => *it += if choose(2) == 0 { 1 } else { -1 },
        (Change::Other, Yaml::Float(it)) => *it += 1.0,
        (Change::Other, Yaml::Str(it)) => *it = another(it, choose),
        (Change::Drop, Yaml::List(items)) => drop(items.remove(choose(items.len()))),
        (Change::Add, Yaml::List(items)) => {
            let line = items.first().map_or(0, |it| it.line);
            let added = match items.len() {
                0 => Node { line, value: Yaml::Str("added".into()) },
                count => items[choose(count)].clone(),
            };
            items.push(added);
        }
        (Change::Swap, Yaml::List(items)) => {
            let first = items[0].to_json();
            if let Some(other) = items.iter().position(|it| it.to_json() != first) {
                items.swap(0, other);
            }
        }
        (Change::Remove, Yaml::Map(entries)) => drop(entries.remove(choose(entries.len()))),
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
