//! Batches as the JSON that the functions of the schema take.

use serde_json::{Value, json};
use singletree_durable::{
    BatchPrecondition, Counters, DocumentChange, DocumentKey, DocumentPrecondition, FieldValue,
    ItemPlacement, JsonDocument, RowMutation, SessionHead, Timestamp, TurnRow, UsageRow, WaitRow,
};

use crate::keyword::ColumnKeyword;

fn millis(time: Timestamp) -> i64 {
    time.as_millis()
}

fn text(document: Option<&JsonDocument>) -> Option<&str> {
    document.map(JsonDocument::as_str)
}

/// Encodes the requirements of a batch.
pub(crate) fn encode_requirements(requirements: &[BatchPrecondition]) -> Value {
    Value::Array(requirements.iter().map(encode_requirement).collect())
}

fn encode_requirement(requirement: &BatchPrecondition) -> Value {
    match requirement {
        BatchPrecondition::SessionAbsent => json!({ "is": "session_absent" }),
        BatchPrecondition::SessionVersion(version) => json!({ "is": "session_version", "version": version }),
        BatchPrecondition::Counters(counters) => encode_counters("is", "counters", counters),
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

fn encode_counters(tag: &str, name: &str, counters: &Counters) -> Value {
    let Counters { turns, items, events, waits } = counters;
    json!({ tag: name, "turns": turns, "items": items, "events": events, "waits": waits })
}

/// Encodes the puts of a batch.
pub(crate) fn encode_puts(puts: &[RowMutation]) -> Value {
    Value::Array(puts.iter().map(encode_put).collect())
}

fn encode_put(put: &RowMutation) -> Value {
    match put {
        RowMutation::Head(head) => encode_head(head),
        RowMutation::Counters(counters) => encode_counters("put", "counters", counters),
        RowMutation::Field(row) => match &row.value {
            FieldValue::Value(value) => json!({ "put": "field", "name": row.name, "value": value.as_str() }),
            FieldValue::List { generation, len, bytes } => json!({
                "put": "field", "name": row.name, "generation": generation, "len": len, "bytes": bytes,
            }),
        },
        RowMutation::DropField(name) => json!({ "put": "drop_field", "name": name }),
        RowMutation::Item(row) => {
            let place = row.placement.as_ref();
            json!({
                "put": "item", "no": row.no, "turn": row.turn, "list": place.map(|place| &place.field),
                "generation": place.map(|place| place.generation), "seq": place.map(|place| place.seq),
                "side": text(row.side.as_ref()), "body": row.body.as_str(),
            })
        }
        RowMutation::Place { item, placement: ItemPlacement { field, generation, seq } } => {
            json!({ "put": "place", "item": item, "list": field, "generation": generation, "seq": seq })
        }
        RowMutation::Side { item, side } => json!({ "put": "side", "item": item, "side": side.as_str() }),
        RowMutation::Turn(row) => encode_turn(row),
        RowMutation::FreeKey { turn } => json!({ "put": "free_key", "turn": turn }),
        RowMutation::Wait(row) => encode_wait(row),
        RowMutation::Mail(row) => json!({
            "put": "mail", "signal": row.signal, "payload": row.payload.as_str(), "from": row.from,
            "at": millis(row.at),
        }),
        RowMutation::DropMail(signal) => json!({ "put": "drop_mail", "signal": signal }),
        RowMutation::Position(row) => json!({
            "put": "position", "invocation": row.invocation.as_str(), "turn": row.turn, "body": row.body.as_str(),
        }),
        RowMutation::DropPosition(invocation) => {
            json!({ "put": "drop_position", "invocation": invocation.as_str() })
        }
        RowMutation::Record(row) => {
            json!({ "put": "record", "turn": row.turn, "name": row.name, "body": row.body.as_str() })
        }
        RowMutation::DropRecords { turn } => json!({ "put": "drop_records", "turn": turn }),
        RowMutation::Event(row) => json!({
            "put": "event", "seq": row.seq, "turn": row.turn, "kind": row.kind, "item": row.item,
            "at": millis(row.at), "body": text(row.body.as_ref()),
        }),
        RowMutation::Inherit { from, field, generation, len } => json!({
            "put": "inherit", "from": from.as_str(), "field": field, "generation": generation, "len": len,
        }),
        RowMutation::DropTurn { turn } => json!({ "put": "drop_turn", "turn": turn }),
        RowMutation::DropEvents { before } => json!({ "put": "drop_events", "before": before }),
        RowMutation::Usage(row) => encode_usage(row),
        RowMutation::Delete => json!({ "put": "delete" }),
        RowMutation::Document { kind, id, body, expires_at, outlives } => json!({
            "put": "document", "kind": kind, "id": id, "body": body.as_str(),
            "expires_at": expires_at.map(millis), "outlives": outlives,
        }),
        RowMutation::Audit(row) => json!({
            "put": "audit", "at": millis(row.at), "action": row.action, "tenant": row.key.tenant.as_str(),
            "session": row.key.session.as_str(), "by": row.by,
        }),
    }
}

fn encode_head(head: &SessionHead) -> Value {
    json!({
        "put": "head", "agent": head.agent, "graph": head.graph, "schema_version": head.schema_version,
        "version": head.version, "prompt_policy": head.prompt_policy,
        "parent": head.parent.as_ref().map(|parent| parent.session.as_str()),
        "parent_offset": head.parent.as_ref().map(|parent| parent.offset),
        "subject": head.subject.as_ref().map(|subject| subject.as_str()),
        "created_at": millis(head.created_at), "updated_at": millis(head.updated_at),
    })
}

fn encode_turn(row: &TurnRow) -> Value {
    json!({
        "put": "turn", "no": row.no, "invocation": row.invocation.as_str(), "ordinal": row.ordinal,
        "kind": row.kind.to_keyword(), "status": row.status.to_keyword(), "fence": row.fence.0,
        "deaths": row.deaths, "agent": row.agent, "graph": row.graph, "message": row.message, "wait": row.wait,
        "key": row.key, "digest": row.digest, "accepted_at": millis(row.accepted_at),
        "ended_at": row.ended_at.map(millis), "outcome": text(row.outcome.as_ref()), "retries": row.retries,
    })
}

fn encode_wait(row: &WaitRow) -> Value {
    json!({
        "put": "wait", "no": row.no, "signal": row.signal, "invocation": row.invocation.as_str(),
        "turn": row.turn, "status": row.status.to_keyword(), "metadata": text(row.metadata.as_ref()),
        "action": row.action, "deadline": row.deadline.map(millis),
        "payload_schema": text(row.payload_schema.as_ref()), "on_deadline": text(row.on_deadline.as_ref()),
        "created_at": millis(row.created_at), "ended_by": row.ended_by, "answer": text(row.answer.as_ref()),
        "answered_by": row.answered_by, "ended_at": row.ended_at.map(millis),
    })
}

fn encode_usage(row: &UsageRow) -> Value {
    json!({
        "put": "usage", "model": row.model, "calls": row.calls, "prompt_tokens": row.prompt_tokens,
        "completion_tokens": row.completion_tokens, "cached_tokens": row.cached_tokens,
        "cache_creation_tokens": row.cache_creation_tokens,
    })
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
