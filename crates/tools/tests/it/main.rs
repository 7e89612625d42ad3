//! Tools as an agent meets them.

mod built_in;
mod http_get;
mod live;
mod toolbox;

use singletree_llm::ToolCall;
use singletree_tools::IdempotencyKey;

/// Makes a call from a JSON object.
fn call(name: &str, arguments: serde_json::Value) -> ToolCall {
    ToolCall::new("call", name, arguments.as_object().expect("an object").clone())
}

/// Makes the key of the n-th call.
fn key(index: u64) -> IdempotencyKey {
    IdempotencyKey::new("session", "correlation", 0, index)
}
