//! Advice about errors for operators and callers of an agent (D32). End users are shown replies, never these.

/// Returns advice about an error of a category, in one sentence; none where the advice on the category's page in
/// docs/errors does not fit one sentence.
#[must_use]
pub fn hint_for_error(category: &str) -> Option<&'static str> {
    Some(match category {
        "chat_accept_unknown" => "send it again under the same idempotency key",
        "chat_agent_unknown" => "name an agent that this process serves, or bring the missing one back",
        "chat_budget_exhausted" => {
            "raise the budget that is named, of the agent or in the limits, or ask for less"
        }
        "chat_idempotency_conflict" => "use another idempotency key for another message",
        "chat_message_shape_invalid" => "send a message that is valid under harness-chat §3",
        "chat_retry_superseded" => "retry only the newest turn of a conversation, once",
        "chat_session_suspended" => {
            "answer or cancel what the conversation waits for, or let the agent queue messages"
        }
        "chat_session_unknown" => "list the conversations, or make one of this name by sending a message",
        "chat_signal_mismatch" => {
            "read the pending wait, and answer with its number and the digest of its action"
        }
        "chat_turn_abandoned" => {
            "send the message again; `turn_age` in the limits says how old a turn may be"
        }
        "chat_turn_crashed" => "find out what the turn makes the process do before sending the message again",
        "chat_turn_unknown" => {
            "list the turns of the conversation; records that retention has forgotten are gone"
        }
        "provider_authentication" => "check the model's key and where it is read from",
        "provider_invalid_model" => "check the model's name, and that its server has it",
        "provider_invalid_request" => {
            "check the model's settings and the messages against what its server takes"
        }
        "provider_invalid_response" => {
            "check that `base_url` leads to a model's server, and that the model can call tools; see `repairs`"
        }
        "provider_model_not_loaded" => "wait until the model's server has loaded it",
        "provider_rate_limit" => "wait, send less, or ask the vendor for more",
        "provider_unavailable" => "check that the model's server runs and can be reached from here",
        "provider_unsupported_content_block" => "use a model that takes this kind of content",
        "session_save_failed" | "store_unavailable" => "check the store: disk, permissions, other processes",
        "store_full" => "free space where the database is",
        "structured_output_invalid" => {
            "simplify the schema of the reply, or use a model that keeps to schemas"
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_are_for_those_who_run_an_agent() {
        assert_eq!(
            hint_for_error("provider_authentication"),
            Some("check the model's key and where it is read from")
        );
        assert_eq!(hint_for_error("chat_turn_cancelled"), None);
    }
}
