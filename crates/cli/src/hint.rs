//! Advice for a person at a terminal about errors of a model.

/// Returns advice, for errors whose cause lies outside the conversation.
pub(crate) fn hint_for_error(category: &str) -> Option<&'static str> {
    Some(match category {
        "provider_authentication" => "check the key: the variable or the file that is named for this model",
        "provider_unavailable" => "check that the model's server runs and can be reached, then send it again",
        "provider_invalid_model" => {
            "the server does not know a model of this name: check `name`, or what follows `openai:`"
        }
        "provider_model_not_loaded" => "the server is still loading the model: send it again in a while",
        "provider_rate_limit" => "the server asks to slow down: send it again in a while",
        "provider_invalid_response" => {
            "send it again; if it stays so, check that what answers at `base_url` speaks this protocol"
        }
        "provider_unsupported_content_block" => {
            "this model does not take what the message holds: choose another one"
        }
        _ => return None,
    })
}
