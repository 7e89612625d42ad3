//! Events of the pieces of streamed answers (graph-engine §6, `LlmTokenEvent`).

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use singletree::llm::ContentBlock;

use super::super::event_json::{EVENT_TYPES, event_type};
use super::super::expect::attribute;
use super::super::view::{Holds, TelemetryRow, TelemetryView};
use super::calls::{COMPLETION, FAILURE};
use crate::check::ensure;

pub(super) const ROWS: &[TelemetryRow] = &[
    ("zero_token_events_on_non_streamed_call", no_piece),
    ("atomic_path_unchanged_by_streaming_capability", no_piece),
    ("tool_call_argument_deltas_emit_no_token_events", pieces_are_content),
    ("no_tool_call_kind_token_events", pieces_are_content),
    ("only_content_kind_token_events_emitted", pieces_are_content),
    ("terminal_output_tool_calls_reassembled_complete_and_parsed", tool_calls_are_whole),
    ("reassembled_tool_calls_identical_to_non_streamed", tool_calls_are_whole),
    ("partial_token_events_fire_before_failure", pieces_come_before_failure),
    ("no_llm_token_failed_event_variant_exists", pieces_have_no_failure),
    ("token_events_group_by_call_id_into_two_streams", pieces_are_of_two_calls),
    ("call1_token_events_share_call1_completion_call_id", pieces_are_of_two_calls),
    ("call2_token_events_share_call2_completion_call_id", pieces_are_of_two_calls),
    ("two_call_ids_distinct_and_non_null", pieces_are_of_two_calls),
    ("chunk_index_restarts_at_zero_per_call", pieces_are_numbered),
    ("all_token_events_share_one_call_id", pieces_are_of_the_completion),
    ("token_event_call_id_matches_terminal_completion_event", pieces_are_of_the_completion),
    ("all_token_events_node_level_attempt_index_zero", attempts_of_node_do_not_count),
    ("wire_retry_does_not_advance_node_level_attempt_index", attempts_of_node_do_not_count),
    ("no_per_attempt_typed_event_for_caught_transient", caught_failure_has_no_event),
    ("assembled_response_reflects_successful_attempt_only", answer_is_of_the_last_attempt),
    ("exactly_one_llm_complete_span_under_stream", one_span_of_call),
    ("no_per_token_child_spans", one_span_of_call),
    ("span_output_is_full_assembled_content", span_shows_whole_answer),
    ("reasoning_content_field_recognized_as_reasoning_kind", reasoning_is_recognized),
    ("reasoning_field_recognized_as_reasoning_kind", reasoning_is_recognized),
    ("reasoning_deltas_precede_content_deltas", reasoning_precedes_content),
    ("reasoning_assembles_into_terminal_thinking_block", reasoning_becomes_thinking),
    ("content_assembles_into_message_content", content_becomes_answer),
    ("ordered_reasoning_then_content_chunk_indices", reasoning_precedes_content),
    ("both_reasoning_field_names_produce_identical_token_events", reasoning_is_recognized),
];

const PIECE: &str = "LlmTokenEvent";

fn pieces(view: &TelemetryView<'_>) -> Result<Vec<Value>, String> {
    let pieces = view.events(PIECE)?;
    if pieces.is_empty() { Err("there is no piece".into()) } else { Ok(pieces) }
}

/// Joins the pieces of a kind.
fn joined(pieces: &[Value], kind: &str) -> String {
    pieces
        .iter()
        .filter(|piece| piece["delta_kind"] == kind)
        .filter_map(|piece| piece["delta"].as_str())
        .collect()
}

/// Joins what the server streamed under one of these keys.
fn streamed(view: &TelemetryView<'_>, keys: &[&str]) -> Result<String, String> {
    let bodies = &view.last()?.sent_bodies;
    let chunks = bodies.last().and_then(Value::as_array).ok_or("nothing was streamed")?;
    let texts = chunks.iter().filter_map(|chunk| {
        let delta = &chunk["choices"][0]["delta"];
        keys.iter().find_map(|key| delta[*key].as_str())
    });
    Ok(texts.collect())
}

fn no_piece(view: &TelemetryView<'_>) -> Holds {
    let count = view.events(PIECE)?.len();
    view.single_event(COMPLETION)?;
    ensure(count == 0, || format!("there are {count} pieces"))
}

fn pieces_are_content(view: &TelemetryView<'_>) -> Holds {
    let pieces = pieces(view)?;
    let other = pieces.iter().find(|piece| piece["delta_kind"] != "content");
    ensure(other.is_none(), || format!("one is {other:?}"))?;
    ensure(joined(&pieces, "content") == streamed(view, &["content"])?, || "they are not the content".into())
}

/// The calls of the answer are those whose parts were streamed, with arguments that were read.
fn tool_calls_are_whole(view: &TelemetryView<'_>) -> Holds {
    let calls = view.single_event(COMPLETION)?["output_tool_calls"].clone();
    let calls = calls.as_array().filter(|calls| !calls.is_empty()).ok_or("there is no call")?.clone();
    let bodies = &view.last()?.sent_bodies;
    let chunks = bodies.last().and_then(Value::as_array).ok_or("nothing was streamed")?;
    let mut parts: BTreeMap<u64, (Value, Value, String)> = BTreeMap::new();
    let deltas = chunks.iter().filter_map(|chunk| chunk["choices"][0]["delta"]["tool_calls"].as_array());
    for part in deltas.flatten() {
        let call = parts.entry(part["index"].as_u64().unwrap_or_default()).or_default();
        if part["id"].is_string() {
            (call.0, call.1) = (part["id"].clone(), part["function"]["name"].clone());
        }
        call.2.push_str(part["function"]["arguments"].as_str().unwrap_or_default());
    }
    ensure(parts.len() == calls.len(), || format!("{} were streamed", parts.len()))?;
    parts.values().zip(&calls).try_for_each(|((id, name, arguments), call)| {
        let arguments: Value = serde_json::from_str(arguments).map_err(|error| error.to_string())?;
        let same = call["id"] == *id && call["name"] == *name && call["arguments"] == arguments;
        ensure(same, || format!("{arguments} became {call}"))
    })
}

fn pieces_come_before_failure(view: &TelemetryView<'_>) -> Holds {
    view.single_event(FAILURE)?;
    let events = &view.last()?.events;
    let failure = events.iter().position(|event| event_type(event) == FAILURE);
    let last = events.iter().rposition(|event| event_type(event) == PIECE);
    ensure(last.is_some() && last < failure, || format!("the last piece is {last:?}, of {failure:?}"))
}

/// No event is of a type that would tell of a failed piece; the fixtures' name of it stands for nothing.
fn pieces_have_no_failure(view: &TelemetryView<'_>) -> Holds {
    pieces(view)?;
    let name = "LlmTokenFailedEvent";
    let emitted = view.last()?.events.iter().any(|event| event_type(event) == name);
    ensure(EVENT_TYPES.contains(&name) && !emitted, || "there is one".into())
}

fn ids_by_call(view: &TelemetryView<'_>, kind: &str) -> Result<Vec<String>, String> {
    let ids = view.events(kind)?.into_iter().map(|event| match &event["call_id"] {
        Value::String(id) if !id.is_empty() => Ok(id.clone()),
        other => Err(format!("the id of a call is {other}")),
    });
    ids.collect()
}

fn pieces_are_of_two_calls(view: &TelemetryView<'_>) -> Holds {
    let pieces: BTreeSet<String> = ids_by_call(view, PIECE)?.into_iter().collect();
    let completions = ids_by_call(view, COMPLETION)?;
    let distinct: BTreeSet<String> = completions.iter().cloned().collect();
    ensure(completions.len() == 2 && distinct.len() == 2 && pieces == distinct, || {
        format!("pieces of {pieces:?}, completions of {completions:?}")
    })?;
    // The pieces of a call come before its completion, and those of the next one after it.
    let mut open = BTreeSet::new();
    for event in &view.last()?.events {
        let value = super::super::event_json::typed_event_to_json(event);
        let id = value["call_id"].as_str().unwrap_or_default().to_owned();
        match event_type(event) {
            PIECE => drop(open.insert(id)),
            COMPLETION => ensure(open.remove(&id), || format!("{id} had no pieces before"))?,
            _ => {}
        }
    }
    ensure(open.is_empty(), || format!("pieces of {open:?} came late"))
}

fn pieces_are_numbered(view: &TelemetryView<'_>) -> Holds {
    let mut next: BTreeMap<String, u64> = BTreeMap::new();
    for piece in pieces(view)? {
        let number = next.entry(piece["call_id"].to_string()).or_default();
        ensure(piece["chunk_index"].as_u64() == Some(*number), || format!("{number} is {piece}"))?;
        *number += 1;
    }
    Ok(())
}

fn pieces_are_of_the_completion(view: &TelemetryView<'_>) -> Holds {
    let own = view.single_event(COMPLETION)?["call_id"].clone();
    let other = pieces(view)?.into_iter().find(|piece| piece["call_id"] != own);
    ensure(other.is_none(), || format!("another one is {other:?}"))
}

/// The call was tried again, and its node was not.
fn attempts_of_node_do_not_count(view: &TelemetryView<'_>) -> Holds {
    let attempts = view
        .last()?
        .events
        .iter()
        .filter(|event| matches!(event, singletree::engine::GraphEvent::LlmAttempt(_)));
    let attempts = attempts.count();
    let zero = pieces(view)?.iter().all(|piece| piece["attempt_index"] == 0);
    ensure(zero && attempts > 1, || format!("{attempts} attempts of the call"))
}

fn caught_failure_has_no_event(view: &TelemetryView<'_>) -> Holds {
    attempts_of_node_do_not_count(view)?;
    view.single_event(COMPLETION)?;
    let count = view.events(FAILURE)?.len();
    ensure(count == 0, || format!("there are {count} failures"))
}

fn answer_is_of_the_last_attempt(view: &TelemetryView<'_>) -> Holds {
    let answer = view.single_event(COMPLETION)?["output_content"].clone();
    let last = streamed(view, &["content"])?;
    ensure(answer == last.as_str(), || format!("it is {answer}, and {last} was streamed"))
}

fn one_span_of_call(view: &TelemetryView<'_>) -> Holds {
    pieces(view)?;
    let calls = view.llm_spans()?;
    let [call] = calls.as_slice() else { return Err(format!("there are {}", calls.len())) };
    let below = view.spans()?.iter().any(|span| span.parent_id == Some(call.span_id));
    ensure(!below, || "the call has spans inside".into())
}

fn span_shows_whole_answer(view: &TelemetryView<'_>) -> Holds {
    let calls = view.llm_spans()?;
    let [call] = calls.as_slice() else { return Err(format!("there are {}", calls.len())) };
    let shown = attribute(call, "openarmature.llm.output.content");
    let whole = streamed(view, &["content"])?;
    ensure(shown.as_ref().is_some_and(|shown| shown == whole.as_str()), || format!("it shows {shown:?}"))
}

fn reasoning_is_recognized(view: &TelemetryView<'_>) -> Holds {
    let told = joined(&pieces(view)?, "reasoning");
    let came = streamed(view, &["reasoning_content", "reasoning"])?;
    ensure(!came.is_empty() && told == came, || format!("{came:?} came, {told:?} was told"))
}

fn reasoning_precedes_content(view: &TelemetryView<'_>) -> Holds {
    let pieces = pieces(view)?;
    let last = pieces.iter().rposition(|piece| piece["delta_kind"] == "reasoning");
    let first = pieces.iter().position(|piece| piece["delta_kind"] == "content");
    ensure(last.is_some() && first.is_some() && last < first, || format!("{last:?}, {first:?}"))?;
    pieces_are_numbered(view)
}

fn reasoning_becomes_thinking(view: &TelemetryView<'_>) -> Holds {
    let told = joined(&pieces(view)?, "reasoning");
    let answer = view.last()?.answers.last().ok_or("there is no answer")?;
    let mut blocks = answer.message.content.blocks().iter();
    let thinks = |block: &ContentBlock| matches!(block, ContentBlock::Thinking { text, .. } if *text == told);
    ensure(blocks.any(thinks), || format!("no block thinks {told:?}"))
}

fn content_becomes_answer(view: &TelemetryView<'_>) -> Holds {
    let told = joined(&pieces(view)?, "content");
    let answer = view.last()?.answers.last().ok_or("there is no answer")?;
    ensure(answer.message.text() == told.as_str(), || format!("it is {}", answer.message.text()))
}
