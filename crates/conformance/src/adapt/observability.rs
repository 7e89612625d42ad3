//! Adaptations to the fixtures of observability.

use serde_json::{Value, json};
use singletree::llm::ToolDefinition;

use crate::failure::{CaseFailure, Outcome};
use crate::fields::LocatedNode;
use crate::run::InvocationSpec;
use crate::yaml::{YamlNode, YamlValue};

/// The model of providers whose cases name none.
const DEFAULT_MODEL: &str = "test-model";

/// The model of providers whose cases name none and stream: the chunks of the fixtures carry no model, and every fixture
/// that streams expects this one.
const STREAM_MODEL: &str = "gpt-test";

/// How the base64 text of a synthetic picture begins.
pub(crate) const SYNTHETIC_BASE64: &str = "U1lOVEhFVElD";

/// The message of a call whose fixture says nothing to the model (038).
pub(crate) const UNSAID_MESSAGE: &str = "go on";

/// Parameters that the harness puts into expectations (conformance-adapter §5.10), with their values here.
const HARNESS_PARAMETERS: &[(&str, &str)] = &[("implementation_name", "openarmature-rust")];

/// Returns the model that a case does not say its provider is bound to: the one that its answers name. An answer names the
/// dated release of a model (observability 019, 149), and the request names the model without the date.
#[must_use]
pub(crate) fn bound_model_name(answered: Option<&str>, streams: bool) -> String {
    let Some(name) = answered else {
        return if streams { STREAM_MODEL } else { DEFAULT_MODEL }.to_owned();
    };
    let is_date = |date: &str| {
        let parts: Vec<&str> = date.split('-').collect();
        let lengths: Vec<usize> = parts.iter().map(|part| part.len()).collect();
        lengths == [4, 2, 2] && parts.concat().bytes().all(|byte| byte.is_ascii_digit())
    };
    let at = name.len().saturating_sub("-YYYY-MM-DD".len());
    match name.split_at_checked(at) {
        Some((model, date)) if date.strip_prefix('-').is_some_and(is_date) => model.to_owned(),
        _ => name.to_owned(),
    }
}

/// Returns the tools that answers ask for: 087 offers none to its model, which asks for one; such an answer is refused
/// (llm-provider §3). They are offered to calls that offer none.
#[must_use]
pub(crate) fn offered_tools<'a>(bodies: impl Iterator<Item = &'a Value>) -> Vec<ToolDefinition> {
    let calls = bodies.filter_map(|body| body["choices"][0]["message"]["tool_calls"].as_array()).flatten();
    let names = calls.filter_map(|call| call["function"]["name"].as_str());
    names.filter_map(|name| ToolDefinition::new(name, "", json!({"type": "object"})).ok()).collect()
}

/// Returns the value of a parameter of the harness.
#[must_use]
pub(crate) fn harness_parameter(name: &str) -> Option<&'static str> {
    HARNESS_PARAMETERS.iter().find(|(parameter, _)| *parameter == name).map(|(_, value)| *value)
}

/// Puts the content that a fixture describes by its length in the place of the description: `content_repeat` of a
/// message (014), `base64_data_synthetic` of a picture (015).
///
/// # Errors
/// When a description has an unknown key or value.
pub(crate) fn expand_synthetic_content(spot: LocatedNode) -> Outcome<LocatedNode> {
    let node = expand_node(spot.node, &spot.path)?;
    Ok(LocatedNode { node, path: spot.path })
}

fn expand_node(node: YamlNode, path: &str) -> Outcome<YamlNode> {
    let line = node.line;
    let value = match node.value {
        YamlValue::List(items) => {
            YamlValue::List(items.into_iter().map(|item| expand_node(item, path)).collect::<Outcome<_>>()?)
        }
        YamlValue::Map(entries) => {
            let expanded = entries.into_iter().map(|(key, value)| {
                let spot = LocatedNode::new(value, format!("{path}.{key}"));
                Ok(match key.as_str() {
                    "content_repeat" => ("content".to_owned(), text_node(line, repeat_content(spot)?)),
                    "base64_data_synthetic" => {
                        ("base64_data".to_owned(), text_node(line, make_synthetic_base64(spot)?))
                    }
                    _ => (key, expand_node(spot.node, &spot.path)?),
                })
            });
            YamlValue::Map(expanded.collect::<Outcome<_>>()?)
        }
        scalar => scalar,
    };
    Ok(YamlNode { line, value })
}

fn text_node(line: usize, text: String) -> YamlNode {
    YamlNode { line, value: YamlValue::Str(text) }
}

fn repeat_content(spot: LocatedNode) -> Outcome<String> {
    let mut block = spot.into_map_reader()?;
    let character = block.take_required("char")?.as_text()?.to_owned();
    let bytes = parse_byte_count(&block.take_required("bytes")?)?;
    block.reject_remaining_keys()?;
    Ok(character.repeat(bytes / character.len().max(1)))
}

/// The text's length is that of the base64 data itself (observability §5.5.5).
fn make_synthetic_base64(spot: LocatedNode) -> Outcome<String> {
    let mut block = spot.into_map_reader()?;
    let bytes = parse_byte_count(&block.take_required("bytes")?)?;
    block.reject_remaining_keys()?;
    let rest = bytes.saturating_sub(SYNTHETIC_BASE64.len());
    Ok(format!("{SYNTHETIC_BASE64}{}", "QUFB".repeat(rest / 4)))
}

fn parse_byte_count(spot: &LocatedNode) -> Outcome<usize> {
    // The largest fixture asks for 100 KiB.
    let count = usize::try_from(spot.as_integer()?).ok().filter(|count| *count <= 1024 * 1024);
    count.ok_or_else(|| CaseFailure::reader_error(&spot.path, "is no number of bytes"))
}

/// Fixtures of observability say how an invocation ends by the status of its span, without `outcome` or
/// `expected_error` (003, 008); others by the key of what refuses or fails (028, 053).
#[must_use]
pub(crate) fn states_ending_by_span(spec: &InvocationSpec) -> bool {
    const FAILURES: &[&str] = &[
        "invoke_rejects_at_api_boundary",
        "augment_rejects_at_call_site",
        "node_completed_event_carries_error",
    ];
    let roots = |key: &str| match key {
        "span_tree" | "span_tree_private" => spec.expectation(key).map(|spot| spot.node.clone()),
        _ => spec.expectation(key).and_then(|spot| first_item(&spot.node)?.get_entry("span_tree").cloned()),
    };
    let states = |key: &&str| {
        roots(key)
            .is_some_and(|list| first_item(&list).is_some_and(|root| root.get_entry("status").is_some()))
    };
    FAILURES.iter().any(|key| spec.expectation(key).is_some())
        || ["span_tree", "span_tree_private", "traces"].iter().any(states)
}

fn first_item(node: &YamlNode) -> Option<&YamlNode> {
    match &node.value {
        YamlValue::List(items) => items.first(),
        _ => None,
    }
}

/// 058 leaves out a node's span in a list whose items say nothing about their own children, either. Such a list names
/// spans that must be there, in this order; every other list names all of them.
#[must_use]
pub(crate) fn is_complete_span_list(items: &[LocatedNode]) -> bool {
    items.iter().all(|item| item.node.get_entry("children").is_some())
}

/// 034 writes `augment_metadata` after `calls_llm`, and its notes say that the entry is added before the call. Everywhere
/// else a node's directives run in the order of the document (conformance-adapter §8.3).
#[must_use]
pub(crate) fn runs_before_model_call(directive: &str) -> bool {
    directive == "augment_metadata"
}

/// 045 names the classifier of a retry by the mark of the errors that it retries: the engine's own does.
#[must_use]
pub(crate) fn is_transient_marker(text: &str) -> bool {
    ["transient_marker", "transient_marker_error"].contains(&text)
}

/// Keys of an error's category that `expected_error` may name in place of the engine's own (R29): those of model calls,
/// which the fixtures of observability do.
#[must_use]
pub(crate) fn names_provider_category(wanted: &str, derived: &str) -> bool {
    wanted == derived && (derived.starts_with("provider_") || derived == "structured_output_invalid")
}

/// 092 declares the default `null` for a field of another type than that of nothing.
#[must_use]
pub(crate) fn accepts_any_value(kind: &str, default: Option<&Value>) -> bool {
    kind == "record" && default == Some(&Value::Null)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_date_of_a_released_model_is_not_part_of_its_name() {
        for (answered, streams, model) in [
            (Some("test-model-2026-05-22"), false, "test-model"),
            (Some("gpt-test-v2"), false, "gpt-test-v2"),
            (Some("model-2026-5-22"), false, "model-2026-5-22"),
            (Some("-2026-05-22"), false, ""),
            (None, false, DEFAULT_MODEL),
            (None, true, STREAM_MODEL),
        ] {
            assert_eq!(bound_model_name(answered, streams), model);
        }
    }

    #[test]
    fn synthetic_content_has_the_length_that_it_says() {
        let text = "{content_repeat: {char: é, bytes: 6}, source: {base64_data_synthetic: {bytes: 4096}}}";
        let spot = LocatedNode::new(crate::yaml::parse_document(text).unwrap(), "message");
        let expanded = expand_synthetic_content(spot).unwrap().node.to_json();
        assert_eq!(expanded["content"], "ééé");
        let data = expanded["source"]["base64_data"].as_str().unwrap();
        assert!(data.len() == 4096 && data.starts_with(SYNTHETIC_BASE64));
    }
}
