//! The puts of a batch as the schema's function takes them. A value that is absent is NULL in its column.

use serde::Serialize;
use singletree_durable::{
    AuditRow, Counters, EventRow, FieldRow, FieldValue, ItemPlacement, JsonDocument, ListItemRow,
    PositionRow, RowMutation, SessionHead, Timestamp, TurnRow, UsageRow, WaitRow,
};

use crate::keyword::ColumnKeyword;

/// One put. `Items` and `Events` are rows that one statement writes.
#[derive(Debug, Serialize)]
#[serde(tag = "put", rename_all = "snake_case")]
pub(crate) enum EncodedPut<'a> {
    Head(EncodedHead<'a>),
    Counters(EncodedCounters),
    Field(EncodedField<'a>),
    DropField { name: &'a str },
    Items { rows: Vec<EncodedItem<'a>> },
    Place(EncodedPlace<'a>),
    Side { item: u64, side: &'a JsonDocument },
    Turn(EncodedTurn<'a>),
    FreeKey { turn: u64 },
    Wait(EncodedWait<'a>),
    Mail { signal: &'a str, payload: &'a JsonDocument, from: Option<&'a str>, at: i64 },
    DropMail { signal: &'a str },
    Position { invocation: &'a str, turn: u64, body: &'a JsonDocument },
    DropPosition { invocation: &'a str },
    Record { turn: u64, name: &'a str, body: &'a JsonDocument },
    DropRecords { turn: u64 },
    Events { rows: Vec<EncodedEvent<'a>> },
    Inherit { from: &'a str, field: &'a str, generation: u64, len: u64 },
    DropTurn { turn: u64 },
    DropEvents { before: u64 },
    Usage(EncodedUsage<'a>),
    Delete,
    Document(EncodedDocument<'a>),
    Audit(EncodedAudit<'a>),
}

/// A head, and the counters of its session if the batch raises them.
#[derive(Debug, Serialize)]
pub(crate) struct EncodedHead<'a> {
    agent: &'a str,
    graph: &'a str,
    schema_version: &'a str,
    version: u64,
    prompt_policy: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent_offset: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    subject: Option<&'a str>,
    created_at: i64,
    updated_at: i64,
    #[serde(flatten)]
    pub(crate) counters: Option<EncodedCounters>,
}

#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct EncodedCounters {
    turns: u64,
    items: u64,
    events: u64,
    waits: u64,
}

#[derive(Debug, Serialize)]
pub(crate) struct EncodedField<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<&'a JsonDocument>,
    #[serde(skip_serializing_if = "Option::is_none")]
    generation: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    len: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
}

#[derive(Debug, Serialize)]
pub(crate) struct EncodedItem<'a> {
    pub(crate) no: u64,
    turn: u64,
    #[serde(flatten)]
    pub(crate) placement: Option<EncodedPlacement<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    side: Option<&'a JsonDocument>,
    body: &'a JsonDocument,
}

#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct EncodedPlacement<'a> {
    list: &'a str,
    generation: u64,
    seq: u64,
}

#[derive(Debug, Serialize)]
pub(crate) struct EncodedPlace<'a> {
    pub(crate) item: u64,
    #[serde(flatten)]
    pub(crate) placement: EncodedPlacement<'a>,
}

#[derive(Debug, Serialize)]
pub(crate) struct EncodedTurn<'a> {
    no: u64,
    invocation: &'a str,
    ordinal: u32,
    kind: &'static str,
    status: &'static str,
    fence: u64,
    deaths: u32,
    agent: &'a str,
    graph: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    wait: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    digest: Option<&'a str>,
    accepted_at: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    ended_at: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<&'a JsonDocument>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retries: Option<u64>,
}

#[derive(Debug, Serialize)]
pub(crate) struct EncodedWait<'a> {
    no: u64,
    signal: &'a str,
    invocation: &'a str,
    turn: u64,
    status: &'static str,
    metadata: Option<&'a JsonDocument>,
    action: Option<&'a str>,
    deadline: Option<i64>,
    payload_schema: Option<&'a JsonDocument>,
    on_deadline: Option<&'a JsonDocument>,
    created_at: i64,
    ended_by: Option<u64>,
    answer: Option<&'a JsonDocument>,
    answered_by: Option<&'a str>,
    ended_at: Option<i64>,
}

#[derive(Debug, Serialize)]
pub(crate) struct EncodedEvent<'a> {
    seq: u64,
    turn: u64,
    kind: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    item: Option<u64>,
    at: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<&'a JsonDocument>,
}

#[derive(Debug, Serialize)]
pub(crate) struct EncodedUsage<'a> {
    model: &'a str,
    calls: u64,
    prompt_tokens: u64,
    completion_tokens: u64,
    cached_tokens: u64,
    cache_creation_tokens: u64,
}

#[derive(Debug, Serialize)]
pub(crate) struct EncodedDocument<'a> {
    kind: &'a str,
    id: &'a str,
    body: &'a JsonDocument,
    expires_at: Option<i64>,
    outlives: bool,
}

#[derive(Debug, Serialize)]
pub(crate) struct EncodedAudit<'a> {
    at: i64,
    action: &'a str,
    tenant: &'a str,
    session: &'a str,
    by: Option<&'a str>,
}

/// Encodes one mutation by itself.
pub(crate) fn encode_put(put: &RowMutation) -> EncodedPut<'_> {
    match put {
        RowMutation::Head(head) => EncodedPut::Head(encode_head(head)),
        RowMutation::Counters(counters) => EncodedPut::Counters(encode_counters(counters)),
        RowMutation::Field(row) => EncodedPut::Field(encode_field(row)),
        RowMutation::DropField(name) => EncodedPut::DropField { name },
        RowMutation::Item(row) => EncodedPut::Items { rows: vec![encode_item(row)] },
        RowMutation::Place { item, placement } => {
            EncodedPut::Place(EncodedPlace { item: *item, placement: encode_placement(placement) })
        }
        RowMutation::Side { item, side } => EncodedPut::Side { item: *item, side },
        RowMutation::Turn(row) => EncodedPut::Turn(encode_turn(row)),
        RowMutation::FreeKey { turn } => EncodedPut::FreeKey { turn: *turn },
        RowMutation::Wait(row) => EncodedPut::Wait(encode_wait(row)),
        RowMutation::Mail(row) => EncodedPut::Mail {
            signal: &row.signal,
            payload: &row.payload,
            from: row.from.as_deref(),
            at: row.at.as_millis(),
        },
        RowMutation::DropMail(signal) => EncodedPut::DropMail { signal },
        RowMutation::Position(PositionRow { invocation, turn, body }) => {
            EncodedPut::Position { invocation: invocation.as_str(), turn: *turn, body }
        }
        RowMutation::DropPosition(invocation) => EncodedPut::DropPosition { invocation: invocation.as_str() },
        RowMutation::Record(row) => EncodedPut::Record { turn: row.turn, name: &row.name, body: &row.body },
        RowMutation::DropRecords { turn } => EncodedPut::DropRecords { turn: *turn },
        RowMutation::Event(row) => EncodedPut::Events { rows: vec![encode_event(row)] },
        RowMutation::Inherit { from, field, generation, len } => {
            EncodedPut::Inherit { from: from.as_str(), field, generation: *generation, len: *len }
        }
        RowMutation::DropTurn { turn } => EncodedPut::DropTurn { turn: *turn },
        RowMutation::DropEvents { before } => EncodedPut::DropEvents { before: *before },
        RowMutation::Usage(row) => EncodedPut::Usage(encode_usage(row)),
        RowMutation::Delete => EncodedPut::Delete,
        RowMutation::Document { kind, id, body, expires_at, outlives } => {
            let expires_at = expires_at.map(Timestamp::as_millis);
            EncodedPut::Document(EncodedDocument { kind, id, body, expires_at, outlives: *outlives })
        }
        RowMutation::Audit(row) => EncodedPut::Audit(encode_audit(row)),
    }
}

fn encode_head(head: &SessionHead) -> EncodedHead<'_> {
    EncodedHead {
        agent: &head.agent,
        graph: &head.graph,
        schema_version: &head.schema_version,
        version: head.version,
        prompt_policy: &head.prompt_policy,
        parent: head.parent.as_ref().map(|parent| parent.session.as_str()),
        parent_offset: head.parent.as_ref().map(|parent| parent.offset),
        subject: head.subject.as_ref().map(|subject| subject.as_str()),
        created_at: head.created_at.as_millis(),
        updated_at: head.updated_at.as_millis(),
        counters: None,
    }
}

pub(crate) fn encode_counters(counters: &Counters) -> EncodedCounters {
    let Counters { turns, items, events, waits } = *counters;
    EncodedCounters { turns, items, events, waits }
}

fn encode_field(row: &FieldRow) -> EncodedField<'_> {
    let name = &row.name;
    match &row.value {
        FieldValue::Value(value) => {
            EncodedField { name, value: Some(value), generation: None, len: None, bytes: None }
        }
        FieldValue::List { generation, len, bytes } => EncodedField {
            name,
            value: None,
            generation: Some(*generation),
            len: Some(*len),
            bytes: Some(*bytes),
        },
    }
}

fn encode_item(row: &ListItemRow) -> EncodedItem<'_> {
    EncodedItem {
        no: row.no,
        turn: row.turn,
        placement: row.placement.as_ref().map(encode_placement),
        side: row.side.as_ref(),
        body: &row.body,
    }
}

fn encode_placement(placement: &ItemPlacement) -> EncodedPlacement<'_> {
    EncodedPlacement { list: &placement.field, generation: placement.generation, seq: placement.seq }
}

fn encode_turn(row: &TurnRow) -> EncodedTurn<'_> {
    EncodedTurn {
        no: row.no,
        invocation: row.invocation.as_str(),
        ordinal: row.ordinal,
        kind: row.kind.to_keyword(),
        status: row.status.to_keyword(),
        fence: row.fence.0,
        deaths: row.deaths,
        agent: &row.agent,
        graph: &row.graph,
        message: row.message,
        wait: row.wait,
        key: row.key.as_deref(),
        digest: row.digest.as_deref(),
        accepted_at: row.accepted_at.as_millis(),
        ended_at: row.ended_at.map(Timestamp::as_millis),
        outcome: row.outcome.as_ref(),
        retries: row.retries,
    }
}

fn encode_wait(row: &WaitRow) -> EncodedWait<'_> {
    EncodedWait {
        no: row.no,
        signal: &row.signal,
        invocation: row.invocation.as_str(),
        turn: row.turn,
        status: row.status.to_keyword(),
        metadata: row.metadata.as_ref(),
        action: row.action.as_deref(),
        deadline: row.deadline.map(Timestamp::as_millis),
        payload_schema: row.payload_schema.as_ref(),
        on_deadline: row.on_deadline.as_ref(),
        created_at: row.created_at.as_millis(),
        ended_by: row.ended_by,
        answer: row.answer.as_ref(),
        answered_by: row.answered_by.as_deref(),
        ended_at: row.ended_at.map(Timestamp::as_millis),
    }
}

fn encode_event(row: &EventRow) -> EncodedEvent<'_> {
    EncodedEvent {
        seq: row.seq,
        turn: row.turn,
        kind: &row.kind,
        item: row.item,
        at: row.at.as_millis(),
        body: row.body.as_ref(),
    }
}

fn encode_usage(row: &UsageRow) -> EncodedUsage<'_> {
    EncodedUsage {
        model: &row.model,
        calls: row.calls,
        prompt_tokens: row.prompt_tokens,
        completion_tokens: row.completion_tokens,
        cached_tokens: row.cached_tokens,
        cache_creation_tokens: row.cache_creation_tokens,
    }
}

fn encode_audit(row: &AuditRow) -> EncodedAudit<'_> {
    EncodedAudit {
        at: row.at.as_millis(),
        action: &row.action,
        tenant: row.key.tenant.as_str(),
        session: row.key.session.as_str(),
        by: row.by.as_deref(),
    }
}
