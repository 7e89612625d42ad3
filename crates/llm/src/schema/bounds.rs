//! How large a schema may be. Schemas come from clients and servers that nobody trusts: they are measured before they
//! are compiled.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::positions::{self, REFERENCES};

/// Bytes of the whole schema as JSON.
const BYTES_MAX: usize = 128 << 10;
/// How deep objects and lists are nested.
const DEPTH_MAX: usize = 32;
/// Objects and lists.
const NODES_MAX: usize = 2_000;
const REFERENCES_MAX: usize = 64;
const PATTERNS_MAX: usize = 64;
/// Bytes of one pattern.
const PATTERN_BYTES_MAX: usize = 512;
/// Schemas after each reference is replaced by its target.
const UNFOLDED_MAX: u64 = 20_000;

/// The counts of the parts of a schema.
#[derive(Debug, Default)]
struct SchemaPartCounts {
    nodes: usize,
    references: usize,
    patterns: usize,
}

/// Checks that a schema is small enough to be compiled.
///
/// # Errors
/// Which bound it exceeds.
pub(super) fn check_bounds(schema: &Map<String, Value>) -> Result<(), String> {
    let mut counts = SchemaPartCounts::default();
    for (keyword, value) in schema {
        counts.count_keyword(keyword, value, 1)?;
    }
    let bytes = serde_json::to_string(schema).map_or(usize::MAX, |text| text.len());
    let bounds = [
        (counts.nodes + 1, NODES_MAX, "objects and lists"),
        (counts.references, REFERENCES_MAX, "references"),
        (counts.patterns, PATTERNS_MAX, "patterns"),
        (bytes, BYTES_MAX, "bytes"),
    ];
    for (count, max, what) in bounds {
        if count > max {
            return Err(format!("the schema has more than {max} {what}"));
        }
    }
    check_references(schema)
}

/// Counts the patterns of a schema, for callers that bound the sum of several schemas.
#[must_use]
pub fn count_patterns(schema: &Value) -> usize {
    let mut counts = SchemaPartCounts::default();
    // A schema beyond its own bounds is refused when it is compiled.
    counts.count_value(schema, 1).map_or(usize::MAX, |()| counts.patterns)
}

impl SchemaPartCounts {
    fn count_value(&mut self, value: &Value, depth: usize) -> Result<(), String> {
        let is_container = value.is_object() || value.is_array();
        if !is_container {
            return Ok(());
        }
        if depth > DEPTH_MAX {
            return Err(format!("the schema is nested deeper than {DEPTH_MAX} levels"));
        }
        self.nodes += 1;
        if self.nodes > NODES_MAX {
            return Err(format!("the schema has more than {NODES_MAX} objects and lists"));
        }
        match value {
            Value::Object(map) => {
                map.iter().try_for_each(|(keyword, value)| self.count_keyword(keyword, value, depth))
            }
            Value::Array(list) => list.iter().try_for_each(|item| self.count_value(item, depth + 1)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(()),
        }
    }

    fn count_keyword(&mut self, keyword: &str, value: &Value, depth: usize) -> Result<(), String> {
        let mut patterns: Vec<&str> = Vec::new();
        match value {
            Value::String(pattern) if keyword == "pattern" => patterns.push(pattern),
            Value::Object(named) if keyword == "patternProperties" => {
                patterns.extend(named.keys().map(String::as_str));
            }
            Value::String(_) if REFERENCES.contains(&keyword) => self.references += 1,
            _ => {}
        }
        self.patterns += patterns.len();
        if patterns.iter().any(|pattern| pattern.len() > PATTERN_BYTES_MAX) {
            return Err(format!("the schema has a pattern of more than {PATTERN_BYTES_MAX} bytes"));
        }
        self.count_value(value, depth + 1)
    }
}

/// Checks that references stay within the schema, lead to schemas, and do not unfold to too many.
fn check_references(root: &Map<String, Value>) -> Result<(), String> {
    let all = positions::collect_schemas(root);
    if all.iter().any(|(path, schema)| !path.is_empty() && schema.get("$id").is_some_and(Value::is_string)) {
        return Err("a schema inside of the schema has an `$id`; only the root may have one".to_owned());
    }
    let mut unfolding = ReferenceUnfolding { anchors: BTreeMap::new(), all: &all, costs: BTreeMap::new() };
    for (path, schema) in &all {
        for keyword in ["$anchor", "$dynamicAnchor"] {
            if let Some(Value::String(name)) = schema.get(keyword) {
                unfolding.anchors.insert(name, path);
            }
        }
    }
    for (path, schema) in &all {
        for target in reference_targets(schema) {
            unfolding.resolve_reference(target).map_err(|problem| format!("at {path:?}: {problem}"))?;
        }
    }
    match unfolding.count_unfolded_schemas("") {
        cost if cost > UNFOLDED_MAX => {
            Err(format!("the references of the schema unfold to more than {UNFOLDED_MAX} schemas"))
        }
        _ => Ok(()),
    }
}

fn reference_targets(schema: &Map<String, Value>) -> impl Iterator<Item = &str> {
    REFERENCES.iter().filter_map(|it| schema.get(*it)).filter_map(Value::as_str)
}

/// Counts the schemas that a schema consists of once its references are unfolded.
struct ReferenceUnfolding<'a> {
    all: &'a BTreeMap<String, &'a Map<String, Value>>,
    anchors: BTreeMap<&'a str, &'a str>,
    /// By JSON Pointer; none while it is counted. A schema that contains itself is not unfolded again: how often it
    /// applies is bounded by the steps of a check.
    costs: BTreeMap<String, Option<u64>>,
}

impl ReferenceUnfolding<'_> {
    /// Returns the JSON Pointer of a target; none where only the compiler can know it.
    fn resolve_reference(&self, target: &str) -> Result<Option<String>, String> {
        let Some(fragment) = target.strip_prefix('#') else {
            return Err("a reference leads out of the schema".to_owned());
        };
        if !fragment.is_empty() && !fragment.starts_with('/') {
            return Ok(self.anchors.get(fragment).map(|anchor| (*anchor).to_owned()));
        }
        if fragment.contains('%') || !self.all.contains_key(fragment) {
            return Err("a reference leads to no schema of the schema".to_owned());
        }
        Ok(Some(fragment.to_owned()))
    }

    /// Counts at most a little more than the bound. The depth of the recursion is that of the schema, for each
    /// reference.
    fn count_unfolded_schemas(&mut self, path: &str) -> u64 {
        if let Some(known) = self.costs.get(path) {
            return known.unwrap_or(1);
        }
        let Some(schema) = self.all.get(path) else { return 1 };
        self.costs.insert(path.to_owned(), None);
        let mut next = Vec::new();
        positions::for_each_child(schema, |further, _| next.push(format!("{path}{further}")));
        // A definition is counted where a reference uses it.
        next.retain(|it| {
            !it[path.len()..].starts_with("/$defs/") && !it[path.len()..].starts_with("/definitions/")
        });
        next.extend(
            reference_targets(schema).filter_map(|target| self.resolve_reference(target).ok().flatten()),
        );
        let mut cost: u64 = 1;
        for child in next {
            cost = cost.saturating_add(self.count_unfolded_schemas(&child)).min(UNFOLDED_MAX + 1);
        }
        self.costs.insert(path.to_owned(), Some(cost));
        cost
    }
}
