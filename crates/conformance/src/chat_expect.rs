//! Expectations about chat turns (the header of harness-chat 001 is their vocabulary).

use serde_json::{Value, json};
use singletree::harness::{ChatTurnOutcome, DispatchPath, ErroredTurn};
use singletree::llm::ChatMessage;

use crate::check::{AssertionChecker, ensure};
use crate::expect::check_signal_descriptor;
use crate::failure::Outcome;
use crate::fields::{LocatedNode, YamlMapReader, unknown_key};
use crate::matcher::{ExtraKeyPolicy, TokenBindings, ValueMatcher};

/// The messages of a session, as they are kept.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct StoredHistory(pub(crate) Vec<Value>);

/// Asserts everything that a fixture expects of a turn, but for keys that were taken already.
///
/// # Errors
/// When the fixture block has an unknown key or value.
pub(crate) fn check_turn_outcome(
    checker: &mut AssertionChecker,
    mut wanted: YamlMapReader,
    outcome: &ChatTurnOutcome,
    after: &StoredHistory,
) -> Outcome<()> {
    let ended = wanted.take_required("outcome")?;
    checker.check_exact(&ended, outcome.as_str());
    if let ChatTurnOutcome::Errored(errored) = outcome
        && ended.as_text()? != "errored"
    {
        checker.check_result(&ended.path, Err(format!("{}: {}", errored.error_category, errored.diagnostic)));
    }
    while let Some((key, spot)) = wanted.take_next_entry() {
        check_outcome_key(checker, &key, spot, outcome, after)?;
    }
    Ok(())
}

fn check_outcome_key(
    checker: &mut AssertionChecker,
    key: &str,
    spot: LocatedNode,
    outcome: &ChatTurnOutcome,
    after: &StoredHistory,
) -> Outcome<()> {
    match key {
        "replies" => match outcome {
            ChatTurnOutcome::Completed(it) => {
                check_messages(checker, spot, it.replies.iter().map(AsRef::as_ref))?
            }
            other => checker.check_result(&spot.path, Err(format!("the turn {}", other.as_str()))),
        },
        "pending_messages" => match outcome {
            ChatTurnOutcome::Suspended(it) => {
                check_messages(checker, spot, it.pending_messages.iter().map(AsRef::as_ref))?
            }
            other => checker.check_result(&spot.path, Err(format!("the turn {}", other.as_str()))),
        },
        "signal_descriptor" => match outcome {
            ChatTurnOutcome::Suspended(it) => check_signal_descriptor(checker, spot, &it.signal_descriptor)?,
            other => checker.check_result(&spot.path, Err(format!("the turn {}", other.as_str()))),
        },
        "error_bucket" => {
            checker.check_exact(&spot, errored_turn(outcome).map(|errored| errored.error_bucket.as_str()))
        }
        "error_category" => {
            checker.check_exact(&spot, errored_turn(outcome).map(|errored| errored.error_category.clone()))
        }
        "reply" => check_error_reply(checker, spot, outcome)?,
        "dispatch_path" => {
            let path = match outcome {
                ChatTurnOutcome::Completed(it) => Some(it.path),
                ChatTurnOutcome::Suspended(it) => Some(it.path),
                ChatTurnOutcome::Errored(_) => None,
            };
            checker.check_exact(&spot, path.map(DispatchPath::as_str));
        }
        "final_state" => check_final_state(checker, spot, after)?,
        other => return Err(unknown_key("expected", other, spot.node.line)),
    }
    Ok(())
}

fn errored_turn(outcome: &ChatTurnOutcome) -> Option<&ErroredTurn> {
    match outcome {
        ChatTurnOutcome::Errored(it) => Some(it),
        ChatTurnOutcome::Completed(_) | ChatTurnOutcome::Suspended(_) => None,
    }
}

/// Asserts a list of messages: its length, and of each the keys that are named.
fn check_messages<'a>(
    checker: &mut AssertionChecker,
    spot: LocatedNode,
    actual: impl Iterator<Item = &'a ChatMessage>,
) -> Outcome<()> {
    let actual: Vec<Value> = actual.map(|actual| serde_json::to_value(actual).unwrap_or_default()).collect();
    let path = spot.path.clone();
    let wanted = spot.into_items()?;
    let count = ensure(wanted.len() == actual.len(), || {
        format!("expected {} messages, found {}: {}", wanted.len(), actual.len(), json!(actual))
    });
    checker.check_result(&path, count);
    for (wanted, actual) in wanted.iter().zip(&actual) {
        reject_unknown_message_keys(wanted)?;
        checker.check_value(wanted, actual, ExtraKeyPolicy::Allowed);
    }
    Ok(())
}

fn reject_unknown_message_keys(message: &LocatedNode) -> Outcome<()> {
    let mut keys = message.clone().into_map_reader()?;
    while let Some((key, it)) = keys.take_next_entry() {
        if !["role", "content", "tool_calls", "tool_call_id"].contains(&key.as_str()) {
            return Err(unknown_key(&message.path, &key, it.node.line));
        }
    }
    Ok(())
}

fn check_error_reply(
    checker: &mut AssertionChecker,
    spot: LocatedNode,
    outcome: &ChatTurnOutcome,
) -> Outcome<()> {
    let Some(errored) = errored_turn(outcome) else {
        checker.check_result(&spot.path, Err(format!("the turn {}", outcome.as_str())));
        return Ok(());
    };
    let text = errored.reply.text();
    let mut wanted = spot.into_map_reader()?;
    while let Some((key, it)) = wanted.take_next_entry() {
        match key.as_str() {
            "role" => checker.check_exact(&it, errored.reply.role.as_str()),
            "content" => checker.check_exact(&it, text.as_ref()),
            "content_includes" => {
                for part in it.into_distinct_items()? {
                    let wanted = part.as_text()?;
                    let there = ensure(text.contains(wanted), || format!("'{text}' does not say '{wanted}'"));
                    checker.check_result(&part.path, there);
                }
            }
            // Templates may begin a sentence: the case of letters is not theirs to fix.
            "content_matches_template" => {
                let wanted = it.as_text()?.to_lowercase();
                let there = text.to_lowercase().contains(&wanted);
                checker.check_result(&it.path, ensure(there, || format!("'{text}' does not say '{wanted}'")));
            }
            other => return Err(unknown_key("reply", other, it.node.line)),
        }
    }
    Ok(())
}

fn check_final_state(
    checker: &mut AssertionChecker,
    spot: LocatedNode,
    after: &StoredHistory,
) -> Outcome<()> {
    let mut wanted = spot.into_map_reader()?;
    if let Some(it) = wanted.take_value("messages_count") {
        checker.check_exact(&it, after.0.len());
    }
    if let Some(it) = wanted.take_value("messages_history_contains") {
        let path = it.path.clone();
        let mut rest = after.0.iter();
        let wanted = it.into_items()?;
        checker.check_result(&path, ensure(!wanted.is_empty(), || "an empty list demands nothing".into()));
        for one in wanted {
            reject_unknown_message_keys(&one)?;
            let matcher = ValueMatcher::from_yaml_node(&one)?;
            let found = rest.any(|item| {
                matcher.match_value(item, ExtraKeyPolicy::Allowed, &mut TokenBindings::default()).is_ok()
            });
            checker.check_result(
                &path,
                ensure(found, || format!("{} is not there, in this order", one.node.to_json())),
            );
        }
    }
    wanted.reject_remaining_keys()
}
