//! Where the state comes from that a command's model is shown.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use singletree_durable::SessionKey;
use singletree_engine::NodeError;
use singletree_llm::{BoxError, BoxFuture, Timer, canonical_json};

/// How many bytes of state a model is shown, as JSON.
const STATE_BYTES: usize = 256 << 10;
/// How long the state may take to be read (D20).
pub(crate) const READ_TIME: Duration = Duration::from_secs(30);

/// Reads the state that the model is shown with a command: tasks, records, any data of the application. Read before
/// each request, so that the model never sees a state from before its last action.
///
/// Only authoritative state belongs here: no text that was addressed to people (INV-9).
pub trait SnapshotSource: fmt::Debug + Send + Sync {
    /// Reads the state of a session as JSON, 256 KiB at most.
    fn read_snapshot<'a>(&'a self, session: &'a SessionKey) -> BoxFuture<'a, Result<Value, BoxError>>;
}

/// Reads the state; null where nothing tells it.
pub(crate) async fn read_session_state(
    source: Option<&Arc<dyn SnapshotSource>>,
    session: &SessionKey,
    timer: &dyn Timer,
) -> Result<Value, NodeError> {
    let Some(source) = source else { return Ok(Value::Null) };
    let read = timer.run_with_timeout(READ_TIME, source.read_snapshot(session)).await;
    let state = read.map_err(|_| {
        let what = format!("the state was not read within {} s", READ_TIME.as_secs());
        NodeError::new(what).with_category("store_unavailable")
    })?;
    let state = state.map_err(|error| NodeError::new("the state could not be read").with_cause(error))?;
    let bytes = canonical_json(&state).len();
    if bytes > STATE_BYTES {
        let what = format!("the state has {bytes} bytes, and a model is shown {STATE_BYTES}");
        return Err(NodeError::new(what).with_category("chat_budget_exhausted"));
    }
    Ok(state)
}
