//! Side records: data that nodes attach to the messages that they make, and that is never part of a message (D17).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Map, Value};

/// The key of a side record for the reason why a model stopped, where that is not the usual one.
pub const FINISH_REASON: &str = "finish_reason";

/// The key of a side record that marks the position of an empty answer, which is not appended (D30).
pub const EMPTY_ANSWER: &str = "empty_answer";

/// Data about the messages of the running turn beside their content: which agent made one, why a model stopped. It is
/// stored with its message, and told in the message's event and by `Session::history`. Nodes of
/// the outermost graph get this from their `TurnContext`.
#[derive(Debug, Clone, Default)]
pub struct SideRecords(Arc<Mutex<BTreeMap<u64, Map<String, Value>>>>);

impl SideRecords {
    /// Sets a value in the side record of the message that will stand at this list position. Call this before the
    /// message is recorded: at the latest in the node that makes it. A later value under the same name replaces an
    /// earlier one.
    pub fn set_side_value(&self, position: u64, name: &str, value: impl Into<Value>) {
        // Guards a map that is whole between any two statements.
        let mut sides = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sides.entry(position).or_default().insert(name.to_owned(), value.into());
    }

    /// Returns the side record of the message at a position.
    pub fn side_record_at(&self, position: u64) -> Option<Value> {
        let sides = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sides.get(&position).cloned().map(Value::Object)
    }
}
