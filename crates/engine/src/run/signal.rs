//! The signal that a suspended node waits for (suspension §4), and the harness's guarantees for the wait (D2).

use std::time::Duration;

use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use singletree_durable::Timestamp;
use singletree_graph::{Deadline, Descriptor, WaitTerms};

/// A suspension as a node asks for it: the descriptor, and the terms of the wait.
#[derive(Debug, Clone, PartialEq)]
pub struct Signal {
    pub(crate) descriptor: Descriptor,
    pub(crate) terms: WaitTerms,
    pub(crate) mark_node_completed: bool,
}

impl Signal {
    /// Names the awaited signal.
    pub fn new(signal_id: impl Into<String>) -> Self {
        let descriptor = Descriptor { signal_id: signal_id.into(), metadata: None };
        Self { descriptor, terms: WaitTerms::default(), mark_node_completed: true }
    }

    /// Adds an entry to the metadata map; metadata that is no map is replaced by one.
    #[must_use]
    pub fn with(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        let mut map = match self.descriptor.metadata.take() {
            Some(Value::Object(map)) => map,
            _ => Map::new(),
        };
        map.insert(key.into(), value.into());
        self.descriptor.metadata = Some(Value::Object(map));
        self
    }

    /// Sets the metadata whole.
    #[must_use]
    pub fn metadata(mut self, metadata: Value) -> Self {
        self.descriptor.metadata = Some(metadata);
        self
    }

    /// Binds the wait to the digest of an exact action: only an answer that names wait and digest is taken.
    #[must_use]
    pub fn approves(mut self, action_digest: impl Into<String>) -> Self {
        self.terms.action = Some(action_digest.into());
        self
    }

    /// Shows an exact action and binds the wait to it: the action becomes the entry `action` of the metadata, and the
    /// digest of its JSON (SHA-256, hexadecimal) is passed to [`Signal::approves`].
    #[must_use]
    pub fn approving(self, action: impl Into<Value>) -> Self {
        let action = action.into();
        let digest = Sha256::digest(action.to_string());
        let digest: String = digest.iter().map(|it| format!("{it:02x}")).collect();
        self.with("action", action).approves(digest)
    }

    /// Lets the wait expire after this long.
    #[must_use]
    pub fn expires_in(mut self, span: Duration) -> Self {
        self.terms.deadline = Some(Deadline::In(span));
        self
    }

    /// Lets the wait expire at this time.
    #[must_use]
    pub fn expires_at(mut self, time: Timestamp) -> Self {
        self.terms.deadline = Some(Deadline::At(time));
        self
    }

    /// Sets the JSON Schema that the answer must fit.
    #[must_use]
    pub fn payload_schema(mut self, schema: Value) -> Self {
        self.terms.payload_schema = Some(schema);
        self
    }

    /// Sets the fields with which the graph goes on when the deadline passes. All must be declared fields.
    #[must_use]
    pub fn on_deadline(mut self, fields: Map<String, Value>) -> Self {
        self.terms.on_deadline = Some(fields);
        self
    }

    /// Says whether the node counts as completed (suspension §3): true, the default, goes on after it; false runs it
    /// again with the payload merged.
    #[must_use]
    pub fn mark_node_completed(mut self, completed: bool) -> Self {
        self.mark_node_completed = completed;
        self
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    // spec: suspension §4; D2
    #[test]
    fn an_approval_of_an_action_shows_it_and_is_bound_to_its_digest() {
        let of =
            |euros: u32| Signal::new("pay").with("kind", "approval").approving(json!({ "euros": euros }));
        let signal = of(40);
        let shown = json!({ "kind": "approval", "action": { "euros": 40 } });
        assert_eq!(signal.descriptor, Descriptor { signal_id: "pay".to_owned(), metadata: Some(shown) });
        // sha256 of {"euros":40}, by another program.
        let digest = "94509493f6104fbc802ad19140359c5af90fd4fb6b56bf0ef302591d4c0011dd";
        assert_eq!(signal.terms.action.as_deref(), Some(digest));
        assert_ne!(of(41).terms.action, signal.terms.action);
    }
}
