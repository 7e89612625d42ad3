//! Where an expectation can be changed, and how.

use std::collections::BTreeMap;
use std::fmt;

use super::words::{
    EXPECTATIONS, INSTANCE_STATES, LEFT_OUT, LOOSE_LISTS, NAMED_BY_EVENTS, PARTS, PHASES, SETS, WHOLE,
};
use crate::yaml::{YamlNode, YamlValue};

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

/// Tells whether a value is a token that is bound where it comes first (conformance-adapter §5.10).
fn is_binding_token(node: &YamlNode) -> bool {
    matches!(&node.value, YamlValue::Str(text) if text.starts_with('<') && text.contains('_'))
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

    /// Tells whether one of these keys is on the way to here.
    fn is_under(&self, keys: &[&str]) -> bool {
        let mut steps = self.path.iter();
        steps.any(|step| matches!(step, MutationPathStep::Key(key) if keys.contains(&key.as_str())))
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
            let differ = items.iter().any(|item| item.to_json() != items[0].to_json());
            if differ && items.iter().all(is_binding_token) {
                // Names of values that nobody knows before: in another order they are other names.
                *self.left_out.items.entry(key.to_owned()).or_default() += 1;
            } else if differ {
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
        let is_event = how == ComparisonMode::ByKey
            && entries.iter().any(|(key, _)| key == "node_name")
            && !self.is_under(&["contains_event"]);
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
            // Of a request, sampling is asserted by the fields that are named (conformance-adapter §5.11); of a trace,
            // metadata is (observability §8.4).
            let of_request = key == "sampling" && self.is_under(&["wire_requests"]);
            let of_trace = key == "metadata" && self.is_under(&["langfuse_trace", "langfuse_traces"]);
            let below = match how {
                // Assertions in the place of a value (conformance-adapter §5.10).
                _ if value.get_entry("non_empty_string").is_some() => ComparisonMode::ByKey,
                ComparisonMode::ByKey if of_trace => ComparisonMode::InPart,
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
