//! The nodes and instances whose completion caused a save.

use serde_json::Value;

/// The nodes and instances that completed between two saves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CompletionSet {
    /// The nodes, by name.
    pub(super) nodes: Vec<String>,
    /// The instances of fan-outs.
    pub(super) instances: Vec<(String, u64)>,
}

impl CompletionSet {
    /// Compares a record with the one that was saved before. `visited` is the node that ran then, where that is
    /// known: a fan-out's instance that is completed no longer names its own nodes.
    #[must_use]
    pub(super) fn completed_between(before: Option<&Value>, record: &Value, visited: Option<&str>) -> Self {
        let list = |of: &Value, key: &str| of[key].as_array().cloned().unwrap_or_default();
        let positions = |record: &Value| -> Vec<Value> {
            let instances =
                list(record, "fan_out_progress").into_iter().flat_map(|item| list(&item, "instances"));
            let inner = instances.flat_map(|instance| list(&instance, "completed_inner_positions"));
            list(record, "completed_positions").into_iter().chain(inner).collect()
        };
        let completed = |record: &Value| -> Vec<(String, u64)> {
            let of = |progress: Value| {
                let node = progress["fan_out_node_name"].as_str().unwrap_or_default().to_owned();
                let done = (0..).zip(list(&progress, "instances"));
                let done = done.filter(|(_, it)| it["state"] == "completed");
                done.map(|(index, _)| (node.clone(), index)).collect::<Vec<_>>()
            };
            list(record, "fan_out_progress").into_iter().flat_map(of).collect()
        };
        let mut known = before.map(positions).unwrap_or_default();
        let mut nodes = Vec::new();
        for position in positions(record) {
            match known.iter().position(|item| *item == position) {
                Some(at) => drop(known.remove(at)),
                None => nodes.extend(position["node_name"].as_str().map(str::to_owned)),
            }
        }
        let known = before.map(completed).unwrap_or_default();
        let instances: Vec<_> = completed(record).into_iter().filter(|it| !known.contains(it)).collect();
        if nodes.is_empty() {
            nodes.extend(visited.map(str::to_owned));
        }
        Self { nodes, instances }
    }
}
