//! Invariants of streamed calls (llm-provider §6, §8.1.6).

use serde_json::Value;
use singletree::llm::{ContentBlock, ModelFinishReason, Response, ResponseDelta, parse_arguments};

use super::calling::{ProviderCallResult, join_stream_chunks};
use super::invariants::MeasureRow;
use super::wire::first_request;
use crate::check::ensure;

type Holds = Result<(), String>;

/// The rows.
pub(super) const ROWS: &[MeasureRow] = &[
    ("streamed_request_sends_stream_true_and_include_usage", requests_a_stream),
    ("assembled_content_is_ordered_concatenation_of_deltas", content_equals_the_deltas),
    ("usage_and_finish_reason_sourced_from_terminal_chunks", end_equals_the_terminal_chunks),
    ("assembled_response_equals_non_streamed_equivalent", equals_unstreamed_response),
    ("streamed_tool_call_arguments_reassemble_and_parse", tool_calls_parse),
    ("reassembled_tool_calls_equal_non_streamed_equivalent", equals_unstreamed_response),
    ("finish_reason_tool_calls_sourced_from_terminal_content_chunk", finishes_with_tool_calls),
    ("reasoning_delta_assembles_into_thinking_block", reasoning_becomes_thinking),
    ("content_delta_assembles_into_text_block", content_becomes_text),
    ("streamed_reasoning_response_shape_identical_to_non_streamed", equals_unstreamed_response),
    ("terminal_chunk_usage_preserved_verbatim_on_raw", usage_is_verbatim),
    ("malformed_terminal_counter_nulled_on_normalized_usage", malformed_arguments_are_null),
];

/// The chunks of the stream.
fn stream_chunks(called: &ProviderCallResult) -> Result<&[Value], String> {
    let answer = called.received_answers().next_back().filter(|answer| answer.is_streamed());
    answer.map(super::peer::MockHttpAnswer::body_parts).ok_or_else(|| "nothing was streamed".to_owned())
}

/// The usage that came last.
fn last_usage(called: &ProviderCallResult) -> Result<&Value, String> {
    let usage =
        stream_chunks(called)?.iter().rev().find_map(|chunk| chunk.get("usage").filter(|it| it.is_object()));
    usage.ok_or_else(|| "no chunk has a usage".to_owned())
}

/// The message that the chunks make, as the wire writes it.
fn streamed_message(called: &ProviderCallResult) -> Result<Value, String> {
    Ok(join_stream_chunks(stream_chunks(called)?)["choices"][0]["message"].clone())
}

fn requests_a_stream(called: &ProviderCallResult) -> Holds {
    let body = &first_request(called)?.body;
    let asks = body["stream"] == true && body["stream_options"]["include_usage"] == true;
    ensure(asks, || format!("sent was {body}"))
}

/// The text is that of the chunks in order, and was shown piece by piece, not at its end.
fn content_equals_the_deltas(called: &ProviderCallResult) -> Holds {
    let text = called.require_response()?.message.text();
    let pieces: Vec<&str> = called
        .shown
        .iter()
        .filter_map(|it| match it {
            ResponseDelta::Text { text, .. } if !text.is_empty() => Some(text.as_str()),
            ResponseDelta::Text { .. }
            | ResponseDelta::Thinking { .. }
            | ResponseDelta::RedactedThinking { .. }
            | ResponseDelta::ToolCall { .. }
            | ResponseDelta::Finish { .. } => None,
        })
        .collect();
    let came: Vec<&str> = stream_chunks(called)?
        .iter()
        .filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str().filter(|text| !text.is_empty()))
        .collect();
    ensure(pieces == came && pieces.concat() == text, || format!("{came:?} came, {pieces:?} were shown"))
}

fn end_equals_the_terminal_chunks(called: &ProviderCallResult) -> Holds {
    let response = called.require_response()?;
    let last =
        stream_chunks(called)?.iter().rev().find_map(|chunk| chunk["choices"][0]["finish_reason"].as_str());
    let reason = response.finish_reason.as_str();
    ensure(last == Some(reason), || format!("finished with {reason}, and {last:?} came"))?;
    let came = last_usage(called)?;
    let counted = response.usage;
    let same = came["prompt_tokens"].as_u64() == counted.prompt_tokens
        && came["completion_tokens"].as_u64() == counted.completion_tokens
        && came["total_tokens"].as_u64() == counted.total_tokens;
    ensure(same, || format!("{came} came, and {counted:?} was counted"))
}

/// The same answer, asked whole of a server of its own, is the same response.
fn equals_unstreamed_response(called: &ProviderCallResult) -> Holds {
    let response = called.require_response()?;
    let whole = called.whole.as_ref().ok_or("it was not asked whole")?;
    let whole = whole.as_ref().map_err(|error| format!("asked whole it fails: {error}"))?;
    let told = |it: &Response| (it.message.clone(), it.finish_reason, it.usage, it.parsed.clone());
    ensure(told(response) == told(whole), || format!("streamed: {response:?}, whole: {whole:?}"))
}

fn tool_calls_parse(called: &ProviderCallResult) -> Holds {
    let calls = &called.require_response()?.message.tool_calls;
    let said = streamed_message(called)?;
    let came = said["tool_calls"].as_array().ok_or("no call was streamed")?;
    ensure(!calls.is_empty() && calls.len() == came.len(), || format!("{} calls", calls.len()))?;
    calls.iter().zip(came).try_for_each(|(call, came)| {
        let text = came["function"]["arguments"].as_str().unwrap_or_default();
        let arguments = parse_arguments(text);
        ensure(call.arguments.is_some() && call.arguments == arguments, || format!("{text} became {call:?}"))
    })
}

fn finishes_with_tool_calls(called: &ProviderCallResult) -> Holds {
    end_equals_the_terminal_chunks(called)?;
    let reason = called.require_response()?.finish_reason;
    ensure(reason == ModelFinishReason::ToolCalls, || format!("finished with {reason}"))
}

fn reasoning_becomes_thinking(called: &ProviderCallResult) -> Holds {
    let said = streamed_message(called)?;
    let reasoning = said["reasoning_content"].as_str().or(said["reasoning"].as_str());
    let reasoning = reasoning.ok_or("no reasoning was streamed")?;
    let mut blocks = called.require_response()?.message.content.blocks().iter();
    let is = |it: &ContentBlock| matches!(it, ContentBlock::Thinking { text, .. } if text == reasoning);
    ensure(blocks.any(is), || format!("no block thinks {reasoning:?}"))
}

fn content_becomes_text(called: &ProviderCallResult) -> Holds {
    let said = streamed_message(called)?;
    let content = said["content"].as_str().ok_or("no content was streamed")?;
    let mut blocks = called.require_response()?.message.content.blocks().iter();
    ensure(blocks.any(|block| block.text() == Some(content)), || format!("no block says {content:?}"))
}

fn usage_is_verbatim(called: &ProviderCallResult) -> Holds {
    let came = last_usage(called)?;
    let kept = called.require_response()?.raw.get("usage");
    ensure(kept == Some(came), || format!("{came} came, and raw has {kept:?}"))
}

fn malformed_arguments_are_null(called: &ProviderCallResult) -> Holds {
    let came = last_usage(called)?;
    let usage = called.require_response()?.usage;
    let pairs = [
        ("prompt_tokens", usage.prompt_tokens),
        ("completion_tokens", usage.completion_tokens),
        ("total_tokens", usage.total_tokens),
    ];
    let malformed = pairs.iter().filter(|(key, _)| came.get(key).is_some_and(|came| came.as_u64().is_none()));
    let malformed: Vec<_> = malformed.collect();
    ensure(!malformed.is_empty(), || "no counter is malformed".into())?;
    ensure(malformed.iter().all(|(_, it)| it.is_none()), || format!("{came} was counted as {usage:?}"))
}
