//! Effects of tools that are not idempotent: after a crash their outcome stays unknown, and they may happen twice.

use std::sync::Arc;

use singletree_audit::{ClientOperation, HistoryEvent, StoredSession};
use singletree_durable::{Journal, SessionKey};
use singletree_llm::{ChatMessage, ToolCall};

use super::effects::{deleted_sessions, read_history};
use crate::ledger::EffectRecord;
use crate::world::SimulatedWorld;

/// What became of the effect of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum EffectDoubt {
    /// The history says that it is unknown whether it happened.
    Unknown,
    /// It happened more than once, since its outcome was unknown and the call was made again.
    Repeated,
}

/// A call of a tool without idempotency whose effect stayed unknown or happened twice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DoubtfulEffect {
    /// The tool.
    pub tool: String,
    /// The session, with its tenant.
    pub session: String,
    /// What became of the effect.
    pub doubt: EffectDoubt,
    /// What happened in the session, and its stored messages, one line each.
    pub history: Vec<String>,
}

/// Tells whether the result of a call says that its outcome is unknown.
pub(crate) fn is_outcome_unknown(result: &str) -> bool {
    result.contains("\"status\":\"unknown\"") || result.contains("whether it took effect is unknown")
}

/// Finds the calls of a user's tools whose effect stayed unknown or happened twice.
pub(super) async fn find_doubtful_effects(
    world: &Arc<SimulatedWorld>,
    data: &dyn Journal,
    stored: &[(SessionKey, StoredSession)],
) -> Vec<DoubtfulEffect> {
    let tools = world.tools.tallies();
    let doubtful_tool = |name: &str| tools.get(name).is_some_and(|tally| tally.traits.may_stay_unknown());
    let deleted = deleted_sessions(world);
    let records = world.ledger.records();
    let mut found: Vec<DoubtfulEffect> = Vec::new();
    for (key, _) in stored {
        let name = format!("{}/{}", key.tenant, key.session);
        if deleted.contains(&name) {
            continue;
        }
        let messages = read_history(data, key).await;
        for call in unknown_calls(&messages).filter(|call| doubtful_tool(&call.name)) {
            let times = count_effects(&records, &name, call);
            let doubt = if times > 1 { EffectDoubt::Repeated } else { EffectDoubt::Unknown };
            if found.iter().any(|known| known.tool == call.name && known.doubt == doubt) {
                continue;
            }
            let history = tell_history(world, &name, &messages);
            let (tool, session) = (call.name.clone(), name.clone());
            found.push(DoubtfulEffect { tool, session, doubt, history });
        }
    }
    found
}

fn unknown_calls(messages: &[ChatMessage]) -> impl Iterator<Item = &ToolCall> {
    let is_unknown = |id: &str| {
        let results = messages.iter().filter(move |message| message.tool_call_id.as_deref() == Some(id));
        results.into_iter().any(|message| is_outcome_unknown(&message.text()))
    };
    messages.iter().flat_map(|message| &message.tool_calls).filter(move |call| is_unknown(&call.id))
}

fn count_effects(records: &[EffectRecord], session: &str, call: &ToolCall) -> usize {
    let arguments = call.arguments.clone().map(serde_json::Value::Object).unwrap_or_default().to_string();
    let same = |record: &&EffectRecord| {
        record.took_effect
            && record.session == session
            && record.tool == call.name
            && record.text == arguments
    };
    records.iter().filter(same).count()
}

/// Tells what happened in a session, and which messages it has.
fn tell_history(world: &Arc<SimulatedWorld>, session: &str, messages: &[ChatMessage]) -> Vec<String> {
    let records = world.history.records();
    let effects = world.ledger.records();
    let mut lines = Vec::new();
    for record in &records {
        let line = match &record.what {
            HistoryEvent::Died if !lines.is_empty() => Some("the process died".to_owned()),
            _ if record.session != session => None,
            HistoryEvent::Call { call, deed } => Some(format!("call {call}: {}", tell_operation(deed))),
            HistoryEvent::Given { call, turn } => Some(format!("call {call} was given turn {turn}")),
            HistoryEvent::Told { call, end, .. } => Some(format!("call {call} was told {end}")),
            HistoryEvent::Gone { call } => Some(format!("call {call} lost its connection")),
            HistoryEvent::Effect { key } => effects
                .iter()
                .find(|effect| effect.key == *key)
                .map(|effect| format!("effect of {} {}", effect.tool, effect.text)),
            HistoryEvent::Done { .. } | HistoryEvent::Event { .. } | HistoryEvent::Died => None,
        };
        lines.extend(line);
    }
    lines.push("the stored messages:".to_owned());
    for message in messages {
        let mut line = format!("{}: {}", message.role.as_str(), message.text());
        for call in &message.tool_calls {
            let arguments = call.arguments.clone().map(serde_json::Value::Object).unwrap_or_default();
            line += &format!(" calls {} {arguments}", call.name);
        }
        lines.push(line);
    }
    lines
}

fn tell_operation(operation: &ClientOperation) -> String {
    match operation {
        ClientOperation::Send { text, .. } => format!("send {text:?}"),
        ClientOperation::Answer { signal, payload } => format!("answer {signal} {payload}"),
        ClientOperation::Cancel { turn } => format!("cancel {turn}"),
        ClientOperation::Delete => "delete".to_owned(),
    }
}
