//! Expectations about chat turns (the header of harness-chat 001 is their vocabulary).

use serde_json::{Value, json};
use singletree::harness::{ChatTurnOutcome, DispatchPath, ErroredTurn};
use singletree::llm::ChatMessage;

use crate::check::{AssertionChecker, ensure};
use crate::expect::signal_descriptor;
use crate::failure::Outcome;
use crate::fields::{LocatedNode, YamlMapReader, unknown};
use crate::matcher::{ExtraKeyPolicy, TokenBindings, ValueMatcher};

/// The messages of a session, as they are kept.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct StoredHistory(pub(crate) Vec<Value>);

/// Asserts everything that a fixture expects of a turn, but for keys that were taken already.
///
/// # Errors
/// When the fixture block has an unknown key or value.
pub(crate) fn expect(
    checker: &mut AssertionChecker,
    mut wanted: YamlMapReader,
    outcome: &ChatTurnOutcome,
    after: &StoredHistory,
) -> Outcome<()> {
    let ended = wanted.need("outcome")?;
    checker.exactly(&ended, outcome.as_str());
    if let ChatTurnOutcome::Errored(errored) = outcome
        && ended.text()? != "errored"
    {
        checker.holds(&ended.path, Err(format!("{}: {}", errored.error_category, errored.diagnostic)));
    }
    while let Some((key, spot)) = wanted.next() {
        expect_key(checker, &key, spot, outcome, after)?;
    }
    Ok(())
}

fn expect_key(
    checker: &mut AssertionChecker,
    key: &str,
    spot: LocatedNode,
    outcome: &ChatTurnOutcome,
    after: &StoredHistory,
) -> Outcome<()> {
    match key {
        "replies" => match outcome {
            ChatTurnOutcome::Completed(it) => messages(checker, spot, it.replies.iter().map(AsRef::as_ref))?,
            other => checker.holds(&spot.path, Err(format!("the turn {}", other.as_str()))),
        },
        "pending_messages" => match outcome {
            ChatTurnOutcome::Suspended(it) => {
                messages(checker, spot, it.pending_messages.iter().map(AsRef::as_ref))?
            }
            other => checker.holds(&spot.path, Err(format!("the turn {}", other.as_str()))),
        },
        "signal_descriptor" => match outcome {
            ChatTurnOutcome::Suspended(it) => signal_descriptor(checker, spot, &it.signal_descriptor)?,
            other => checker.holds(&spot.path, Err(format!("the turn {}", other.as_str()))),
        },
        "error_bucket" => {
            checker.exactly(&spot, errored(outcome).map(|errored| errored.error_bucket.as_str()))
        }
        "error_category" => {
            checker.exactly(&spot, errored(outcome).map(|errored| errored.error_category.clone()))
        }
        "reply" => reply(checker, spot, outcome)?,
        "dispatch_path" => {
            let path = match outcome {
                ChatTurnOutcome::Completed(it) => Some(it.path),
                ChatTurnOutcome::Suspended(it) => Some(it.path),
                ChatTurnOutcome::Errored(_) => None,
            };
            checker.exactly(&spot, path.map(DispatchPath::as_str));
        }
        "final_state" => final_state(checker, spot, after)?,
        other => return Err(unknown("expected", other, spot.node.line)),
    }
    Ok(())
}

fn errored(outcome: &ChatTurnOutcome) -> Option<&ErroredTurn> {
    match outcome {
        ChatTurnOutcome::Errored(it) => Some(it),
        ChatTurnOutcome::Completed(_) | ChatTurnOutcome::Suspended(_) => None,
    }
}

/// Asserts a list of messages: its length, and of each the keys that are named.
fn messages<'a>(
    checker: &mut AssertionChecker,
    spot: LocatedNode,
    actual: impl Iterator<Item = &'a ChatMessage>,
) -> Outcome<()> {
    let actual: Vec<Value> = actual.map(|actual| serde_json::to_value(actual).unwrap_or_default()).collect();
    let path = spot.path.clone();
    let wanted = spot.items()?;
    let count = ensure(wanted.len() == actual.len(), || {
        format!("expected {} messages, found {}: {}", wanted.len(), actual.len(), json!(actual))
    });
    checker.holds(&path, count);
    for (wanted, actual) in wanted.iter().zip(&actual) {
        known_keys(wanted)?;
        checker.value(wanted, actual, ExtraKeyPolicy::Allowed);
    }
    Ok(())
}

fn known_keys(message: &LocatedNode) -> Outcome<()> {
    let mut keys = message.clone().fields()?;
    while let Some((key, it)) = keys.next() {
        if !["role", "content", "tool_calls", "tool_call_id"].contains(&key.as_str()) {
            return Err(unknown(&message.path, &key, it.node.line));
        }
    }
    Ok(())
}

fn reply(checker: &mut AssertionChecker, spot: LocatedNode, outcome: &ChatTurnOutcome) -> Outcome<()> {
    let Some(errored) = errored(outcome) else {
        checker.holds(&spot.path, Err(format!("the turn {}", outcome.as_str())));
        return Ok(());
    };
    let text = errored.reply.text();
    let mut wanted = spot.fields()?;
    while let Some((key, it)) = wanted.next() {
        match key.as_str() {
            "role" => checker.exactly(&it, errored.reply.role.as_str()),
            "content" => checker.exactly(&it, text.as_ref()),
            "content_includes" => {
                for part in it.distinct_items()? {
                    let wanted = part.text()?;
                    let there = ensure(text.contains(wanted), || format!("'{text}' does not say '{wanted}'"));
                    checker.holds(&part.path, there);
                }
            }
            // Templates may begin a sentence: the case of letters is not theirs to fix.
            "content_matches_template" => {
                let wanted = it.text()?.to_lowercase();
                let there = text.to_lowercase().contains(&wanted);
                checker.holds(&it.path, ensure(there, || format!("'{text}' does not say '{wanted}'")));
            }
            other => return Err(unknown("reply", other, it.node.line)),
        }
    }
    Ok(())
}

fn final_state(checker: &mut AssertionChecker, spot: LocatedNode, after: &StoredHistory) -> Outcome<()> {
    let mut wanted = spot.fields()?;
    if let Some(it) = wanted.take("messages_count") {
        checker.exactly(&it, after.0.len());
    }
    if let Some(it) = wanted.take("messages_history_contains") {
        let path = it.path.clone();
        let mut rest = after.0.iter();
        let wanted = it.items()?;
        checker.holds(&path, ensure(!wanted.is_empty(), || "an empty list demands nothing".into()));
        for one in wanted {
            known_keys(&one)?;
            let matcher = ValueMatcher::read(&one)?;
            let found = rest.any(|item| {
                matcher.check(item, ExtraKeyPolicy::Allowed, &mut TokenBindings::default()).is_ok()
            });
            checker.holds(
                &path,
                ensure(found, || format!("{} is not there, in this order", one.node.to_json())),
            );
        }
    }
    wanted.finish()
}
