//! The result of a call, field by field, as fixtures name the fields (prompt-management §3, §4).

use std::time::UNIX_EPOCH;

use serde_json::{Map, Value, json};
use singletree::llm::{ChatMessage, RuntimeConfig};
use singletree::prompts::{Prompt, PromptResult, Template};

use super::world::PromptCallResult;

/// Fields by their names; an absent field is null.
pub(super) type PromptFields = Map<String, Value>;

/// Shows a prompt or a rendered one. A group has no such fields.
pub(super) fn result_fields(given: &PromptCallResult) -> Option<PromptFields> {
    match given {
        PromptCallResult::Prompt(it) => Some(prompt_fields(it)),
        PromptCallResult::Result(it) => Some(rendered_fields(it)),
        PromptCallResult::Group(..) | PromptCallResult::Label(_) | PromptCallResult::Nothing => None,
    }
}

/// Shows a prompt.
pub(super) fn prompt_fields(prompt: &Prompt) -> PromptFields {
    let mut shown = common_fields(prompt);
    let template = prompt.template().to_json();
    let (text, chat) = match prompt.template() {
        Template::Text(_) => (template, Value::Null),
        Template::Chat(_) => (Value::Null, template),
    };
    shown.insert("template".into(), text);
    shown.insert("chat_template".into(), chat);
    shown.insert("metadata".into(), json!(prompt.metadata()));
    shown
}

/// Shows a rendered prompt.
pub(super) fn rendered_fields(result: &PromptResult) -> PromptFields {
    let mut shown = common_fields(result.prompt());
    shown.insert("messages".into(), result.messages().iter().map(|it| message_to_json(it)).collect());
    shown.insert("variables".into(), result.variables().clone().into());
    shown.insert("rendered_hash".into(), result.rendered_hash().into());
    shown.insert("rendered_at".into(), time_to_json(result.rendered_at()));
    shown
}

/// Shows a message as it is written on the wire.
pub(super) fn message_to_json(message: &ChatMessage) -> Value {
    json!(message)
}

fn common_fields(prompt: &Prompt) -> PromptFields {
    let fields = json!({
        "name": prompt.name(),
        "version": prompt.version(),
        "label": prompt.label(),
        "template_hash": prompt.template_hash(),
        "fetched_at": time_to_json(prompt.fetched_at()),
        "sampling": prompt.sampling().map(sampling_to_json),
        "token_budget": prompt.token_budget(),
        "observability_entities": prompt.observability_entities(),
    });
    match fields {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

fn time_to_json(time: std::time::SystemTime) -> Value {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    json!(since.as_secs_f64())
}

fn sampling_to_json(config: &RuntimeConfig) -> Value {
    let mut shown = Map::new();
    let mut put = |key: &str, value: Value| {
        if !value.is_null() {
            shown.insert(key.to_owned(), value);
        }
    };
    put("temperature", json!(config.temperature));
    put("max_tokens", json!(config.max_tokens));
    put("top_p", json!(config.top_p));
    put("seed", json!(config.seed));
    put("frequency_penalty", json!(config.frequency_penalty));
    put("presence_penalty", json!(config.presence_penalty));
    put("stop_sequences", json!(config.stop_sequences));
    if !config.extras.is_empty() {
        put("extras", json!(config.extras));
    }
    Value::Object(shown)
}
