//! The last entries of the log in the form that agents are shown, with a bound for each.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::event::{CampaignEvent, CampaignLogEntry};

/// How many bytes of a text are shown.
const TEXT_BYTES: usize = 500;
/// How many bytes of the result of a call.
pub const RESULT_BYTES_MAX: usize = 4 << 10;

/// An entry of the log, abridged.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecentEntry {
    /// Its number.
    pub seq: u64,
    /// What it says: the word of the event, and its values, each abridged.
    pub what: Map<String, Value>,
}

impl RecentEntry {
    pub(crate) fn from_log_entry(entry: &CampaignLogEntry) -> Self {
        let what = match &entry.event {
            // A plan is in the snapshot, as far as it matters.
            CampaignEvent::PlanChanged { plan, .. } => {
                json!({ "type": "plan_changed", "version": plan.version, "tasks": plan.tasks.len() })
            }
            CampaignEvent::ActionProposed { action, .. } => json!({
                "type": "action_proposed", "task": action.task, "tool": action.tool,
                "args": abridge_value(&Value::Object(action.args.clone())),
            }),
            CampaignEvent::ActionDone { tool, success, text, .. } => json!({
                "type": "action_done", "tool": tool, "success": success, "text": abridge_text(text, RESULT_BYTES_MAX),
            }),
            CampaignEvent::ActionDecided { approved, reason, .. } => json!({
                "type": "action_decided", "approved": approved,
                "reason": reason.as_deref().map(|reason| abridge_text(reason, TEXT_BYTES)),
            }),
            CampaignEvent::Created { .. } => json!({ "type": "created" }),
            other => abridge_fields(&serde_json::to_value(other).unwrap_or_default()),
        };
        let what = match what {
            Value::Object(what) => what,
            other => Map::from_iter([("type".to_owned(), other)]),
        };
        Self { seq: entry.seq, what }
    }
}

fn abridge_fields(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            fields.iter().map(|(name, field)| (name.clone(), abridge_value(field))).collect()
        }
        other => abridge_value(other),
    }
}

/// Returns a value, or the beginning of its JSON where it is long.
fn abridge_value(value: &Value) -> Value {
    match value {
        Value::String(text) => abridge_text(text, TEXT_BYTES).into(),
        other => {
            let text = other.to_string();
            if text.len() <= TEXT_BYTES { other.clone() } else { abridge_text(&text, TEXT_BYTES).into() }
        }
    }
}

/// Returns a text, or its beginning.
pub(crate) fn abridge_text(text: &str, max: usize) -> String {
    if text.len() <= max {
        return text.to_owned();
    }
    format!("{}…", &text[..text.floor_char_boundary(max)])
}
