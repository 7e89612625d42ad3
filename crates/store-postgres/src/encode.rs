//! Batches as the JSON that the functions of the schema take.

mod merge;
mod put;

use serde_json::{Value, json};
use singletree_durable::{
    BatchPrecondition, Counters, DocumentChange, DocumentKey, DocumentPrecondition, Timestamp,
};

use crate::keyword::ColumnKeyword;

pub(crate) use merge::encode_puts;

fn millis(time: Timestamp) -> i64 {
    time.as_millis()
}

/// Encodes the requirements of a batch.
pub(crate) fn encode_requirements(requirements: &[BatchPrecondition]) -> Value {
    Value::Array(requirements.iter().map(encode_requirement).collect())
}

fn encode_requirement(requirement: &BatchPrecondition) -> Value {
    match requirement {
        BatchPrecondition::SessionAbsent => json!({ "is": "session_absent" }),
        BatchPrecondition::SessionVersion(version) => json!({ "is": "session_version", "version": version }),
        BatchPrecondition::Counters(Counters { turns, items, events, waits }) => json!({
            "is": "counters", "turns": turns, "items": items, "events": events, "waits": waits,
        }),
        BatchPrecondition::Turn { no, status } => {
            json!({ "is": "turn", "no": no, "status": status.to_keyword() })
        }
        BatchPrecondition::NewestTurn(no) => json!({ "is": "newest_turn", "no": no }),
        BatchPrecondition::KeyFree(key) => json!({ "is": "key_free", "key": key }),
        BatchPrecondition::Wait { no, status } => {
            json!({ "is": "wait", "no": no, "status": status.to_keyword() })
        }
        BatchPrecondition::MailAbsent(signal) => json!({ "is": "mail_absent", "signal": signal }),
        BatchPrecondition::Idle => json!({ "is": "idle" }),
        BatchPrecondition::Source { session, created_at, version } => json!({
            "is": "source", "session": session.as_str(), "created_at": millis(*created_at), "version": version,
        }),
    }
}

/// Encodes changes of documents.
pub(crate) fn encode_changes(changes: &[DocumentChange]) -> Value {
    Value::Array(changes.iter().map(encode_change).collect())
}

fn encode_change(change: &DocumentChange) -> Value {
    let (DocumentChange::Write { key, expect, .. } | DocumentChange::Remove { key, expect }) = change;
    let DocumentKey { tenant, kind, id } = key;
    let (expect, version) = match expect {
        DocumentPrecondition::Any => ("any", None),
        DocumentPrecondition::Absent => ("absent", None),
        DocumentPrecondition::Version(version) => ("version", Some(*version)),
    };
    let named = |change: &str| {
        json!({
            "change": change, "tenant": tenant.as_str(), "kind": kind, "id": id, "expect": expect,
            "version": version,
        })
    };
    match change {
        DocumentChange::Remove { .. } => named("remove"),
        DocumentChange::Write { session, body, expires_at, .. } => {
            let mut write = named("write");
            write["session"] = json!(session.as_ref().map(|session| session.as_str()));
            write["body"] = json!(body.as_str());
            write["expires_at"] = json!(expires_at.map(millis));
            write
        }
    }
}
