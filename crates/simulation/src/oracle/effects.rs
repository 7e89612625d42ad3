//! Effects are counted outside: each happened once, for a stored message, and the history says so (D7, D29).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;
use singletree_audit::{ClientOperation, HistoryEvent, StoredSession};
use singletree_durable::{FieldValue, ItemRange, Journal, SessionKey};
use singletree_harness::HISTORY;
use singletree_llm::ChatMessage;

use crate::ledger::EffectRecord;
use crate::world::SimulatedWorld;

/// Checks the ledger of effects against the histories.
pub(super) async fn check_effects(
    world: &Arc<SimulatedWorld>,
    data: &dyn Journal,
    stored: &[(SessionKey, StoredSession)],
) -> Vec<String> {
    let deleted = deleted_sessions(world);
    let records = world.ledger.records();
    let mut found = find_repeated_effects(&records);
    let done: BTreeSet<&str> = records.iter().map(|record| record.key.as_str()).collect();
    for (key, session) in stored {
        let name = format!("{}/{}", key.tenant, key.session);
        let messages = read_history(data, key).await;
        for message in &messages {
            let text = message.text();
            let told = text.strip_prefix("did ").and_then(|rest| rest.split([' ', ';']).next());
            if let Some(told) = told.filter(|told| message.tool_call_id.is_some() && !done.contains(told)) {
                found.push(format!("lost in {name}: the effect {told} is told of, and did not happen"));
            }
        }
        if deleted.contains(&name) {
            continue;
        }
        for record in records.iter().filter(|record| record.session == name) {
            found.extend(check_effect(record, session, &messages, world.agents.is_some()));
        }
    }
    found
}

/// Returns the sessions that somebody tried to delete: what they hold is not known.
pub(super) fn deleted_sessions(world: &Arc<SimulatedWorld>) -> BTreeSet<String> {
    let records = world.history.records().into_iter();
    let deletions = records
        .filter(|record| matches!(record.what, HistoryEvent::Call { deed: ClientOperation::Delete, .. }));
    deletions.map(|record| record.session).collect()
}

fn find_repeated_effects(records: &[EffectRecord]) -> Vec<String> {
    let mut times: BTreeMap<&str, (u64, &EffectRecord)> = BTreeMap::new();
    for record in records.iter().filter(|record| record.took_effect) {
        times.entry(&record.key).or_insert((0, record)).0 += 1;
    }
    let repeated = times.into_values().filter(|(count, _)| *count > 1);
    repeated
        .map(|(count, record)| {
            format!("doubled in {}: the effect of '{}' happened {count} times", record.session, record.text)
        })
        .collect()
}

/// An effect that happened was asked for by a stored turn, and no result in the history denies it. Our own tools name the
/// message of that turn, those of a user the arguments of the call.
fn check_effect(
    record: &EffectRecord,
    session: &StoredSession,
    messages: &[ChatMessage],
    is_of_user: bool,
) -> Option<String> {
    let EffectRecord { text, session: name, .. } = record;
    let asking = session.turns.iter().find(|turn| turn.text.as_deref() == Some(text));
    if asking.is_none() && !is_of_user {
        return Some(format!("orphaned in {name}: there was an effect of '{text}', which is not stored"));
    }
    let asked = find_calls_of_effect(record, messages, is_of_user);
    if asked.is_empty() {
        // The call is in the history when its turn has ended, whichever way (D29).
        let is_over = match asking {
            Some(asking) => asking.end.is_some(),
            None => session.turns.iter().all(|turn| turn.end.is_some()),
        };
        return is_over.then(|| format!("lost in {name}: the effect of '{text}' is not in the history"));
    }
    let results: Vec<_> = messages
        .iter()
        .filter(|message| message.tool_call_id.as_deref().is_some_and(|id| asked.contains(&id)))
        .map(|message| message.text().into_owned())
        .collect();
    let denied = results.iter().find(|result| {
        result.contains("\"cancelled\"") || result.contains("\"denied\"") || result.contains("\"failed\"")
    });
    // A message that is answered again calls again: then one of the results is enough.
    let admits = results.iter().any(|result| {
        result.contains(&record.key) || result.contains("\"unknown\"") || result.contains("went away")
    });
    match denied {
        Some(denied) if !admits => Some(format!(
            "contradicted in {name}: the effect of '{text}' happened, and the history says {denied}"
        )),
        Some(_) | None => None,
    }
}

/// Returns the ids of the calls that an effect may come from.
fn find_calls_of_effect<'a>(
    record: &EffectRecord,
    messages: &'a [ChatMessage],
    is_of_user: bool,
) -> Vec<&'a str> {
    let calls = messages.iter().flat_map(|message| &message.tool_calls);
    let asked = calls.filter(|call| {
        let Some(arguments) = &call.arguments else { return false };
        let is_same = match is_of_user {
            true => serde_json::to_string(arguments).is_ok_and(|text| text == record.text),
            false => arguments.get("text").and_then(Value::as_str) == Some(record.text.as_str()),
        };
        call.name == record.tool && is_same
    });
    asked.map(|call| call.id.as_str()).collect()
}

pub(super) async fn read_history(data: &dyn Journal, key: &SessionKey) -> Vec<ChatMessage> {
    let Ok(Some(row)) = data.read_session(key).await else { return Vec::new() };
    let history = row.fields.iter().find(|field| field.name == HISTORY).map(|field| &field.value);
    let Some(FieldValue::List { generation, len, .. }) = history else { return Vec::new() };
    let range = ItemRange::List { field: HISTORY.to_owned(), generation: *generation, from: 0, limit: *len };
    let items = data.read_items(key, &range).await.unwrap_or_default();
    items.iter().filter_map(|item| item.body.decode().ok()).collect()
}
