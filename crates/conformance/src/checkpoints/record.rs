//! Checkpoint records: the seeded records, and the assertions about saved records. The runner reads both in the form
//! of the specification (pipeline-utilities §10.2).

use serde_json::{Map, Value, json};

use super::occasion::CompletionSet;
use crate::check::{AssertionChecker, ensure};
use crate::failure::{CaseFailure, Outcome};
use crate::fields::{LocatedNode, unknown_key};
use crate::matcher::ExtraKeyPolicy;
use crate::schema::parse_literals;

/// A record that is there before.
#[derive(Debug, Clone)]
pub(crate) struct SeededCheckpoint {
    /// Its version, when it has one.
    pub(crate) schema_version: Option<String>,
    /// The state, of the innermost graph that the positions lie in.
    pub(crate) state: Map<String, Value>,
    /// The states of the graphs around it, outermost first.
    pub(crate) parents: Vec<Map<String, Value>>,
    /// The nodes that are done.
    pub(crate) positions: Vec<CompletedNodeSpec>,
    /// How far fan-outs are.
    pub(crate) progress: Vec<FanOutProgressSpec>,
}

/// A node that is done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CompletedNodeSpec {
    /// The path to its graph.
    pub(crate) namespace: Vec<String>,
    /// Its name.
    pub(crate) node: String,
    /// The number of its execution.
    pub(crate) step: u64,
    /// The attempt.
    pub(crate) attempt: u32,
}

/// How far a fan-out is.
#[derive(Debug, Clone)]
pub(crate) struct FanOutProgressSpec {
    /// The path to its graph.
    pub(crate) namespace: Vec<String>,
    /// Its name.
    pub(crate) node: String,
    /// The instances of fan-outs that it runs in: the path, the node and the index of each, outermost first.
    pub(crate) lineage: Vec<(Vec<String>, String, u64)>,
    /// Its instances.
    pub(crate) instances: Vec<InstanceProgressSpec>,
}

/// How far an instance is.
#[derive(Debug, Clone)]
pub(crate) struct InstanceProgressSpec {
    /// The specification's word.
    pub(crate) state: String,
    /// Its result.
    pub(crate) result: Option<Value>,
    /// Whether that is an error.
    pub(crate) is_error: bool,
}

const STATES: &[&str] = &["not_started", "in_flight", "completed"];

impl SeededCheckpoint {
    /// Reads a record.
    ///
    /// # Errors
    /// When the fixture block has an unknown key or value.
    pub(super) fn from_yaml_node(spot: LocatedNode) -> Outcome<Self> {
        let mut block = spot.into_map_reader()?;
        let seeded = Self {
            schema_version: block.take_text("schema_version")?,
            state: parse_literals(block.take_required("state")?)?,
            parents: parse_items(block.take_value("parent_states"), parse_literals)?,
            positions: parse_items(block.take_value("completed_positions"), parse_completed_position)?,
            progress: parse_items(block.take_value("fan_out_progress"), parse_fan_out_progress)?,
        };
        block.reject_remaining_keys()?;
        Ok(seeded)
    }
}

impl SeededCheckpoint {
    /// Returns the record in the specification's form, of this invocation.
    #[must_use]
    pub(super) fn to_json(&self, invocation: &str, version: &str) -> Value {
        let position = |it: &CompletedNodeSpec| {
            json!({
                "namespace": it.namespace,
                "node_name": it.node,
                "step": it.step,
                "attempt_index": it.attempt,
            })
        };
        let enclosing = |(namespace, node, index): &(Vec<String>, String, u64)| json!({"namespace": namespace, "fan_out_node_name": node, "fan_out_index": index});
        let instance = |it: &InstanceProgressSpec| {
            let mut shown = json!({"state": it.state, "result_is_error": it.is_error});
            if let Some(result) = &it.result {
                shown["result"] = result.clone();
            }
            shown
        };
        let progress = |it: &FanOutProgressSpec| {
            json!({
                "namespace": it.namespace,
                "fan_out_node_name": it.node,
                "instance_count": it.instances.len(),
                "enclosing_fan_out_lineage": it.lineage.iter().map(enclosing).collect::<Vec<_>>(),
                "instances": it.instances.iter().map(instance).collect::<Vec<_>>(),
            })
        };
        json!({
            "invocation_id": invocation,
            "schema_version": self.schema_version.as_deref().unwrap_or(version),
            "state": self.state,
            "parent_states": self.parents,
            "completed_positions": self.positions.iter().map(position).collect::<Vec<_>>(),
            "fan_out_progress": self.progress.iter().map(progress).collect::<Vec<_>>(),
        })
    }
}

/// Reads the items of a list; a list that is absent has none.
fn parse_items<T>(list: Option<LocatedNode>, parse: fn(LocatedNode) -> Outcome<T>) -> Outcome<Vec<T>> {
    let items = list.map_or_else(|| Ok(Vec::new()), LocatedNode::into_items)?;
    items.into_iter().map(parse).collect()
}

fn parse_index(spot: &LocatedNode) -> Outcome<u64> {
    u64::try_from(spot.as_integer()?).map_err(|_| spot.unexpected_kind("a number that is not negative"))
}

fn parse_completed_position(spot: LocatedNode) -> Outcome<CompletedNodeSpec> {
    let mut block = spot.into_map_reader()?;
    let attempt = block.take_required("attempt_index")?;
    let position = CompletedNodeSpec {
        namespace: block.take_required("namespace")?.into_texts()?,
        node: block.take_required("node_name")?.as_text()?.to_owned(),
        step: parse_index(&block.take_required("step")?)?,
        attempt: u32::try_from(attempt.as_integer()?).map_err(|_| attempt.unexpected_kind("an attempt"))?,
    };
    block.reject_remaining_keys()?;
    Ok(position)
}

fn parse_fan_out_progress(spot: LocatedNode) -> Outcome<FanOutProgressSpec> {
    let mut block = spot.into_map_reader()?;
    let count = block.take_required("instance_count")?;
    let progress = FanOutProgressSpec {
        namespace: block.take_required("namespace")?.into_texts()?,
        node: block.take_required("fan_out_node_name")?.as_text()?.to_owned(),
        lineage: parse_items(block.take_value("enclosing_fan_out_lineage"), parse_enclosing_instance)?,
        instances: parse_items(Some(block.take_required("instances")?), parse_instance_progress)?,
    };
    block.reject_remaining_keys()?;
    if usize::try_from(count.as_integer()?) != Ok(progress.instances.len()) {
        return Err(count.unexpected_kind("the number of instances that follow"));
    }
    Ok(progress)
}

fn parse_enclosing_instance(spot: LocatedNode) -> Outcome<(Vec<String>, String, u64)> {
    let mut block = spot.into_map_reader()?;
    let namespace = block.take_required("namespace")?.into_texts()?;
    let node = block.take_required("fan_out_node_name")?.as_text()?.to_owned();
    let at = parse_index(&block.take_required("fan_out_index")?)?;
    block.reject_remaining_keys()?;
    Ok((namespace, node, at))
}

fn parse_instance_progress(spot: LocatedNode) -> Outcome<InstanceProgressSpec> {
    let mut block = spot.into_map_reader()?;
    let state = block.take_required("state")?;
    let instance = InstanceProgressSpec {
        state: parse_instance_state(&state)?,
        result: block.take_value("result").map(|value| value.node.to_json()),
        is_error: block.take_required("result_is_error")?.as_bool()?,
    };
    block.reject_remaining_keys()?;
    Ok(instance)
}

fn parse_instance_state(spot: &LocatedNode) -> Outcome<String> {
    match spot.as_text()? {
        it if STATES.contains(&it) => Ok(it.to_owned()),
        other => Err(CaseFailure::reader_error(&spot.path, format!("unknown state '{other}'"))),
    }
}

/// The assertions about a record, by key.
#[derive(Debug, Clone)]
pub(crate) struct RecordAssertions {
    path: String,
    keys: Vec<(String, LocatedNode)>,
}

/// The keys that say something of a record.
const KEYS: &[&str] = &[
    "invocation_id",
    "correlation_id",
    "schema_version",
    "last_saved_at",
    "state",
    "parent_states",
    "completed_positions",
    "parent_states_present",
    "parent_states_outermost_first",
    "fan_out_progress",
    "fan_out_node_in_completed_positions",
];

/// Endings of keys that say something else of a field than its value.
const ENDINGS: &[&str] = &["_count", "_present", "_absent", "_includes"];

/// Keys that say which save of several it is.
const OF_SAVES: &[&str] = &["after_node", "after_fan_out_instance"];

/// Splits a key into a field of a record and the ending that names the assertion.
fn split_key_ending(key: &str) -> Option<(&str, &'static str)> {
    let split = |ending: &&'static str| Some((key.strip_suffix(*ending)?, *ending));
    ENDINGS.iter().find_map(split).filter(|(field, _)| KEYS.contains(field))
}

impl RecordAssertions {
    /// Reads the assertions and checks them as far as possible without a record.
    ///
    /// # Errors
    /// When the fixture block has an unknown key or value.
    pub(super) fn from_yaml_node(spot: LocatedNode) -> Outcome<Self> {
        Self::from_node_with_keys(spot, &[])
    }

    /// Reads the assertions about one save of several, which may also name its node or instance.
    ///
    /// # Errors
    /// When a key is unknown.
    pub(super) fn from_save_node(spot: LocatedNode) -> Outcome<Self> {
        Self::from_node_with_keys(spot, OF_SAVES)
    }

    fn from_node_with_keys(spot: LocatedNode, more: &[&str]) -> Outcome<Self> {
        let path = spot.path.clone();
        let mut block = spot.into_map_reader()?;
        let mut keys = Vec::new();
        while let Some((key, it)) = block.take_next_entry() {
            let known = KEYS.contains(&key.as_str()) || more.contains(&key.as_str());
            if !known && split_key_ending(&key).is_none() {
                return Err(unknown_key(&path, &key, it.node.line));
            }
            if key == "fan_out_progress" && !it.is_null() {
                reject_unknown_progress_keys(it.clone())?;
            }
            keys.push((key, it));
        }
        Ok(Self { path, keys })
    }

    /// Asserts the node or instance of a save, where the fixture names one: `saved` holds the completions since the
    /// previous save.
    ///
    /// # Errors
    /// When a key is unknown.
    pub(super) fn check_occasion(
        &self,
        checker: &mut AssertionChecker,
        saved: &CompletionSet,
    ) -> Outcome<()> {
        for (key, spot) in &self.keys {
            match key.as_str() {
                "after_node" => {
                    let node = spot.as_text()?;
                    let is = saved.nodes.iter().any(|name| name == node);
                    checker.check_result(&spot.path, ensure(is, || format!("it is after {:?}", saved.nodes)));
                }
                "after_fan_out_instance" => {
                    let mut block = spot.clone().into_map_reader()?;
                    let wanted = (
                        block.take_required("node")?.as_text()?.to_owned(),
                        parse_index(&block.take_required("index")?)?,
                    );
                    block.reject_remaining_keys()?;
                    let is = saved.instances.contains(&wanted);
                    checker.check_result(
                        &spot.path,
                        ensure(is, || format!("it is after {:?}", saved.instances)),
                    );
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Asserts all of it of a record in the specification's form.
    ///
    /// # Errors
    /// When the fixture block has an unknown key or value.
    pub(crate) fn check_record(&self, checker: &mut AssertionChecker, record: Option<&Value>) -> Outcome<()> {
        let Some(record) = record else {
            checker.check_result(&self.path, Err("there is no record".into()));
            return Ok(());
        };
        for (key, spot) in &self.keys {
            if let Some((field, ending)) = split_key_ending(key).filter(|_| !KEYS.contains(&key.as_str())) {
                check_field_property(checker, spot, (&record[field], ending));
                continue;
            }
            let actual = &record[key.as_str()];
            match key.as_str() {
                // Which save it is stands beside the record.
                key if OF_SAVES.contains(&key) => {}
                "completed_positions" => check_positions(checker, spot.clone(), actual)?,
                "parent_states_present" => {
                    let present = record["parent_states"].as_array().is_some_and(|items| !items.is_empty());
                    checker.check_truth(spot, ensure(present, || "there are no parent states".into()));
                }
                "parent_states_outermost_first" => {
                    checker.check_truth(spot, ensure_outermost_state_first(record))
                }
                "fan_out_node_in_completed_positions" => {
                    let done = has_completed_fan_outs(record);
                    checker.check_exact(spot, done);
                }
                // Where a fixture writes null, the engine's record leaves the key out (R27).
                "fan_out_progress" if spot.is_null() => {
                    let none = actual.as_array().is_none_or(Vec::is_empty);
                    checker.check_result(&spot.path, ensure(none, || format!("found {actual}")));
                }
                "fan_out_progress" => check_fan_out_progress(checker, spot.clone(), actual)?,
                // pipeline-utilities 026 has a token for times of its own.
                "last_saved_at" if spot.as_text() == Ok("<timestamp>") => {
                    checker.check_result(
                        &spot.path,
                        ensure(actual.is_u64() || actual.is_string(), || format!("{actual}")),
                    );
                }
                _ => checker.check_exact(spot, actual.clone()),
            }
        }
        Ok(())
    }
}

/// Asserts the count, presence, absence or part of a field.
fn check_field_property(
    checker: &mut AssertionChecker,
    spot: &LocatedNode,
    (actual, ending): (&Value, &str),
) {
    let is_empty = match actual {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        _ => false,
    };
    match ending {
        "_count" => checker.check_exact(spot, actual.as_array().map_or(0, Vec::len)),
        "_present" => checker.check_truth(spot, ensure(!is_empty, || "it is not there".into())),
        "_absent" => checker.check_truth(spot, ensure(is_empty, || format!("found {actual}"))),
        _ => checker.check_value(spot, actual, ExtraKeyPolicy::Allowed),
    }
}

/// Asserts a list of positions by the keys that each names, or by its node's name alone.
fn check_positions(checker: &mut AssertionChecker, spot: LocatedNode, actual: &Value) -> Outcome<()> {
    let actual = actual.as_array().map(Vec::as_slice).unwrap_or_default();
    let path = spot.path.clone();
    let wanted = spot.into_items()?;
    let count = || format!("expected {} positions, found {}", wanted.len(), json!(actual));
    checker.check_result(&path, ensure(wanted.len() == actual.len(), count));
    for (wanted, actual) in wanted.iter().zip(actual) {
        if wanted.as_text().is_ok() {
            checker.check_exact(wanted, actual["node_name"].clone());
            continue;
        }
        let mut keys = wanted.clone().into_map_reader()?;
        if keys.remaining_keys().next().is_none() {
            return Err(CaseFailure::reader_error(&wanted.path, "the position names nothing"));
        }
        for key in ["namespace", "node_name", "step", "attempt_index", "fan_out_index"] {
            keys.take_value(key);
        }
        keys.reject_remaining_keys()?;
        checker.check_value(wanted, actual, ExtraKeyPolicy::Allowed);
    }
    Ok(())
}

/// The outermost state has the fields of the outermost graph; the record's own state is of the innermost one.
fn ensure_outermost_state_first(record: &Value) -> Result<(), String> {
    let declared =
        record["outermost_fields"].as_array().ok_or("nobody knows the outermost graph's fields")?;
    let first = record["parent_states"][0].as_object().ok_or("there is no parent state")?;
    let same = declared.len() == first.len()
        && declared.iter().all(|it| it.as_str().is_some_and(|text| first.contains_key(text)));
    ensure(same, || format!("the first parent state has {:?}", first.keys().collect::<Vec<_>>()))
}

fn has_completed_fan_outs(record: &Value) -> bool {
    let names = |list: &Value, key: &str| -> Vec<Value> {
        list.as_array().into_iter().flatten().map(|items| items[key].clone()).collect()
    };
    let done = names(&record["completed_positions"], "node_name");
    names(&record["fan_out_progress"], "fan_out_node_name").iter().any(|name| done.contains(name))
}

/// Checks the keys of the assertions about the progress of fan-outs, which are named by node.
fn reject_unknown_progress_keys(spot: LocatedNode) -> Outcome<()> {
    let mut nodes = spot.into_map_reader()?;
    while let Some((_, it)) = nodes.take_next_entry() {
        let mut block = it.into_map_reader()?;
        block.take_required("instance_count")?.as_integer()?;
        for it in block.take_required("instances")?.into_items()? {
            reject_unknown_instance_keys(it)?;
        }
        block.reject_remaining_keys()?;
    }
    Ok(())
}

fn reject_unknown_instance_keys(spot: LocatedNode) -> Outcome<()> {
    let mut block = spot.into_map_reader()?;
    match (block.take_value("state"), block.take_value("state_one_of")) {
        (Some(it), None) => drop(parse_instance_state(&it)?),
        (None, Some(list)) => {
            for it in list.into_distinct_items()? {
                parse_instance_state(&it)?;
            }
        }
        _ => {
            return Err(CaseFailure::reader_error(
                block.path(),
                "an instance is in a state, or in one of several",
            ));
        }
    }
    for key in ["result", "result_is_error", "result_present", "completed_inner_positions"] {
        block.take_value(key);
    }
    block.reject_remaining_keys()
}

fn check_fan_out_progress(checker: &mut AssertionChecker, spot: LocatedNode, actual: &Value) -> Outcome<()> {
    let mut nodes = spot.into_map_reader()?;
    while let Some((node, it)) = nodes.take_next_entry() {
        let mut of =
            actual.as_array().into_iter().flatten().filter(|items| items["fan_out_node_name"] == *node);
        let (Some(entry), None) = (of.next(), of.next()) else {
            checker.check_result(&it.path, Err(format!("there is not one entry of '{node}' in {actual}")));
            continue;
        };
        let mut block = it.into_map_reader()?;
        checker.check_exact(&block.take_required("instance_count")?, entry["instance_count"].clone());
        let list = block.take_required("instances")?;
        let path = list.path.clone();
        let wanted = list.into_items()?;
        let instances = entry["instances"].as_array().map(Vec::as_slice).unwrap_or_default();
        let count = || format!("expected {} instances, found {}", wanted.len(), instances.len());
        checker.check_result(&path, ensure(wanted.len() == instances.len(), count));
        for (wanted, instance) in wanted.into_iter().zip(instances) {
            check_instance(checker, wanted, instance)?;
        }
    }
    Ok(())
}

fn check_instance(checker: &mut AssertionChecker, spot: LocatedNode, actual: &Value) -> Outcome<()> {
    let mut keys = spot.into_map_reader()?;
    while let Some((key, it)) = keys.take_next_entry() {
        match key.as_str() {
            "state_one_of" => {
                let path = it.path.clone();
                let states = it.into_texts()?;
                let is =
                    actual["state"].as_str().is_some_and(|text| states.iter().any(|state| state == text));
                checker.check_result(&path, ensure(is, || format!("it is {}", actual["state"])));
            }
            "result_present" => {
                let present = !actual["result"].is_null();
                checker.check_truth(&it, ensure(present, || "there is no result".into()));
            }
            "completed_inner_positions" => {
                check_positions(checker, it, &actual[key.as_str()])?;
            }
            _ => checker.check_exact(&it, actual[key.as_str()].clone()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
