//! Invariants about sent requests: collisions of extras with managed fields (llm-provider §6), and the content of
//! `raw`.

use serde_json::{Value, json};
use singletree::llm::{Error, Request, TokenUsage};

use super::calling::ProviderCallResult;
use super::invariants::{MeasureRow, NamedMeasureRow};
use super::wire::first_request;
use crate::check::ensure;

type Holds = Result<(), String>;

/// Invariants with a name of their own.
pub(super) const ROWS: &[MeasureRow] = &[
    ("stream_always_managed_on_unary_side", is_refused_unsent),
    ("extras_response_format_on_wire_when_unmanaged", extras_are_sent_unchanged),
    ("wire_carries_no_stream_key", has_no_stream_key),
    ("scalar_string_extras_stop_coerced_to_list", list_field_is_merged),
    ("no_scalar_string_coercion_on_anthropic", extra_is_a_list),
    ("malformed_list_not_salvaged", malformed_extra_is_ignored),
    ("no_error_raised_on_malformed_extras", has_response),
    ("raw_usage_all_counters_verbatim_malformed", raw_usage_is_verbatim),
];

/// Families of invariants: the fixtures name the field and the case, and say the same.
pub(super) const FAMILIES: &[MeasureRow] = &[
    ("*_rejected_pre_send", is_refused_unsent),
    ("*_neither_dropped_nor_forwarded", is_refused_unsent),
    ("*_not_silently_overridden", is_refused_unsent),
    ("*_not_smuggled_to_wire", is_refused_unsent),
    ("*_unmanaged_rides_untouched", extras_are_sent_unchanged),
    ("*_no_op", extras_have_no_effect),
    ("*_is_merged_union", list_field_is_merged),
    ("*first_in_merge_order", declared_items_come_first),
    ("*_collapses_to_single_element", merged_list_has_one_item),
    ("malformed_extras_*_treated_as_absent", malformed_extra_is_ignored),
    ("wire_*_is_declared_value_only", malformed_extra_is_ignored),
    ("wire_*_is_declared_value_once", extras_have_no_effect),
    ("raw_usage_*_verbatim_malformed", raw_usage_is_verbatim),
];

/// Families whose names say under which field of the body another one is sent.
pub(super) const NAMED: &[NamedMeasureRow] = &[("wire_*_merged_under_*", list_is_merged_under)];

/// The request was found wrong.
///
/// # Errors
/// A description of the actual result.
pub(super) fn is_refused(called: &ProviderCallResult) -> Holds {
    let error = called.require_error()?;
    ensure(matches!(error, Error::InvalidRequest(_)), || format!("it failed with {}", error.category()))
}

/// The request was found wrong, and nothing was sent.
///
/// # Errors
/// A description of the actual result.
pub(super) fn is_refused_unsent(called: &ProviderCallResult) -> Holds {
    is_refused(called)?;
    ensure(called.sent.is_empty(), || format!("{} requests were sent", called.sent.len()))
}

fn has_response(called: &ProviderCallResult) -> Holds {
    called.require_response().map(drop)
}

/// One request went out, and it does not ask for a stream.
///
/// # Errors
/// A description of the violation.
pub(super) fn is_sent_unstreamed(called: &ProviderCallResult) -> Holds {
    has_response(called)?;
    has_no_stream_key(called)
}

fn has_no_stream_key(called: &ProviderCallResult) -> Holds {
    let sent = first_request(called)?;
    ensure(sent.body.get("stream").is_none(), || format!("'stream' was sent: {}", sent.body))
}

fn original_request(called: &ProviderCallResult) -> Result<&Request, String> {
    called.asked.as_ref().ok_or_else(|| "nothing was asked".to_owned())
}

/// Returns the value that was sent under a key; Gemini has extras with its sampling.
fn sent_value<'a>(called: &'a ProviderCallResult, key: &str) -> Result<Option<&'a Value>, String> {
    let body = &first_request(called)?.body;
    Ok(body.get(key).or_else(|| body.get("generationConfig")?.get(key)))
}

/// Every extra was sent as it was given.
fn extras_are_sent_unchanged(called: &ProviderCallResult) -> Holds {
    has_response(called)?;
    let extras = &original_request(called)?.config.extras;
    ensure(!extras.is_empty(), || "there are no extras".into())?;
    extras.iter().try_for_each(|(key, value)| {
        let sent = sent_value(called, key)?;
        ensure(sent == Some(value), || format!("'{key}' was given as {value}, and sent as {sent:?}"))
    })
}

/// Asserts that no extra changed the request: its field has the mapping's value, which equals the extra's, or is
/// absent.
fn extras_have_no_effect(called: &ProviderCallResult) -> Holds {
    has_response(called)?;
    let extras = &original_request(called)?.config.extras;
    ensure(!extras.is_empty(), || "there are no extras".into())?;
    extras.iter().try_for_each(|(key, value)| {
        let sent = sent_value(called, key)?;
        let same = sent.is_none_or(|sent| sent == value);
        let streams = key == "stream";
        ensure(same && sent.is_some() != streams, || format!("'{key}' is {value}, and was sent as {sent:?}"))
    })
}

/// A list field: the declared items, the extra's value, and the items that were sent.
struct ListFieldMerge<'a> {
    declared: Vec<Value>,
    extra: &'a Value,
    sent: Vec<Value>,
}

/// The names that stop sequences have on the wires.
const STOPS: [&str; 3] = ["stop", "stop_sequences", "stopSequences"];

fn find_list_merge(called: &ProviderCallResult) -> Result<ListFieldMerge<'_>, String> {
    has_response(called)?;
    let config = &original_request(called)?.config;
    let declared = config.stop_sequences.as_ref().ok_or("no stop sequences were declared")?;
    let found = STOPS.into_iter().find_map(|key| Some((key, config.extras.get(key)?)));
    let (key, extra) = found.ok_or("no extra collides with the stop sequences")?;
    let sent = sent_value(called, key)?
        .and_then(Value::as_array)
        .ok_or_else(|| format!("no list '{key}' was sent"))?;
    let declared = declared.iter().map(|it| json!(it)).collect();
    Ok(ListFieldMerge { declared, extra, sent: sent.clone() })
}

impl ListFieldMerge<'_> {
    fn expected_union(&self) -> Vec<Value> {
        let more = match self.extra {
            Value::Array(items) => items.clone(),
            scalar => vec![scalar.clone()],
        };
        let mut union: Vec<Value> = Vec::new();
        for item in self.declared.iter().cloned().chain(more) {
            if !union.contains(&item) {
                union.push(item);
            }
        }
        union
    }
}

fn list_field_is_merged(called: &ProviderCallResult) -> Holds {
    let merge = find_list_merge(called)?;
    let union = merge.expected_union();
    ensure(merge.sent == union, || format!("expected {union:?}, sent was {:?}", merge.sent))
}

/// `wire_X_merged_under_Y`: the list field X was merged, and sent inside the object Y and nowhere else; where Y is
/// itself the list, the values given as X were sent as Y.
fn list_is_merged_under(called: &ProviderCallResult, name: &str) -> Holds {
    let parts = name.strip_prefix("wire_").and_then(|name| name.split_once("_merged_under_"));
    let (field, place) = parts.ok_or_else(|| format!("'{name}' names no two fields"))?;
    let merge = find_list_merge(called)?;
    let union = merge.expected_union();
    let body = &first_request(called)?.body;
    let is = |key: &str, wanted: &str| normalize_field_name(key) == normalize_field_name(wanted);
    let at = |value: &Value, wanted: &str| {
        value.as_object()?.iter().find(|(key, _)| is(key, wanted)).map(|(_, value)| value.clone())
    };
    let held = at(body, place).ok_or_else(|| format!("'{place}' was not sent: {body}"))?;
    let (sent, beside) = match &held {
        Value::Object(_) => (at(&held, field), at(body, field)),
        _ => (Some(held.clone()), at(body, field).filter(|_| !is(field, place))),
    };
    ensure(beside.is_none(), || format!("'{field}' was sent outside of '{place}', too: {body}"))?;
    let sent = sent.ok_or_else(|| format!("'{place}' has no '{field}': {held}"))?;
    ensure(sent == json!(union), || format!("expected {union:?}, sent was {sent}"))
}

/// A name without case and underscores: invariants write the wires' `stopSequences` in either way.
fn normalize_field_name(name: &str) -> String {
    name.chars().filter(|letter| *letter != '_').flat_map(char::to_lowercase).collect()
}

fn declared_items_come_first(called: &ProviderCallResult) -> Holds {
    let merge = find_list_merge(called)?;
    let more = merge.sent.len() > merge.declared.len();
    ensure(more && merge.sent.starts_with(&merge.declared), || format!("sent was {:?}", merge.sent))
}

fn merged_list_has_one_item(called: &ProviderCallResult) -> Holds {
    list_field_is_merged(called)?;
    let count = find_list_merge(called)?.sent.len();
    ensure(count == 1, || format!("{count} were sent"))
}

/// The extra is a list itself: nothing was made one.
fn extra_is_a_list(called: &ProviderCallResult) -> Holds {
    list_field_is_merged(called)?;
    ensure(find_list_merge(called)?.extra.is_array(), || "the extra is no list".into())
}

/// The extra is malformed, and counts as if it were not there.
fn malformed_extra_is_ignored(called: &ProviderCallResult) -> Holds {
    let merge = find_list_merge(called)?;
    let well_formed = match merge.extra {
        Value::Array(items) => items.iter().all(Value::is_string),
        other => other.is_string(),
    };
    ensure(!well_formed, || "the extra is well-formed".into())?;
    ensure(merge.sent == merge.declared, || format!("sent was {:?}", merge.sent))
}

/// Parts of the usage that are not counts are in `raw` unchanged, and are not counted.
fn raw_usage_is_verbatim(called: &ProviderCallResult) -> Holds {
    let response = called.require_response()?;
    let answer = called.received_answers().next_back().ok_or("there was no answer")?;
    let came = answer.body_parts().iter().rev().find_map(usage_object).ok_or("the answer has no usage")?;
    let kept = usage_object(&response.raw).ok_or("raw has no usage")?;
    ensure(kept == came, || format!("{came} came, and raw has {kept}"))?;
    let malformed = came.as_object().into_iter().flatten().filter(|(_, it)| it.as_u64().is_none());
    let names: Vec<&str> = malformed.filter_map(|(key, _)| counter_name(key)).collect();
    ensure(!names.is_empty(), || "no counter is malformed".into())?;
    let counted: Vec<&&str> =
        names.iter().filter(|name| counter_value(response.usage, name).is_some()).collect();
    ensure(counted.is_empty(), || format!("{counted:?} were counted"))
}

fn usage_object(body: &Value) -> Option<&Value> {
    ["usage", "usageMetadata"].into_iter().find_map(|item| body.get(item)).filter(|item| item.is_object())
}

/// Returns the specification's name of a wire's counter.
fn counter_name(wire: &str) -> Option<&'static str> {
    match wire {
        "prompt_tokens" | "input_tokens" | "promptTokenCount" => Some("prompt_tokens"),
        "completion_tokens" | "output_tokens" | "candidatesTokenCount" => Some("completion_tokens"),
        "total_tokens" | "totalTokenCount" => Some("total_tokens"),
        _ => None,
    }
}

fn counter_value(usage: TokenUsage, name: &str) -> Option<u64> {
    match name {
        "prompt_tokens" => usage.prompt_tokens,
        "completion_tokens" => usage.completion_tokens,
        _ => usage.total_tokens,
    }
}
