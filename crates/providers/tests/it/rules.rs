//! The bodies that the vendors' servers accept, as rules. A wire joins by an arm of [`faults`].
//!
//! Each file of rules stands alone: the facade's tests read them too.

mod anthropic;
mod gemini;
mod openai;

use serde_json::Value;
use singletree_providers::Wire;

/// Returns the faults for which a server of this wire would refuse a body.
pub(crate) fn faults(wire: Wire, body: &Value) -> Vec<String> {
    match wire {
        Wire::OpenAi => openai::faults(body),
        Wire::Anthropic => anthropic::faults(body),
        Wire::Gemini => gemini::faults(body),
    }
}
