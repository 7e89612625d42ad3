//! Sample rows, and helper calls for the checks.

use singletree_durable::{
    Batch, BatchPrecondition, Counters, EarlySignalRow, EventRow, FencingToken, FieldRow, FieldValue,
    InvocationId, ItemPlacement, ItemRange, JsonDocument, ListItemRow, PositionRow, RecordRow, Result,
    RowMutation, SessionHead, SessionId, SessionKey, SessionRow, StoredTurnKind, StoredTurnStatus,
    StoredWaitStatus, TenantId, Timestamp, TurnRow, TurnRowQuery, UsageRow, WaitRow,
};

use super::ContractStores;

pub(super) fn tenant(name: &str) -> TenantId {
    TenantId::parse(name).expect("the suite's names are identifiers")
}

pub(super) fn invocation(name: &str) -> InvocationId {
    InvocationId::parse(name).expect("the suite's names are identifiers")
}

/// Returns a session key of the suite's first tenant.
pub(super) fn key(session: &str) -> SessionKey {
    key_of("tenant-a", session)
}

pub(super) fn key_of(of: &str, session: &str) -> SessionKey {
    let session = SessionId::parse(session).expect("the suite's names are identifiers");
    SessionKey::new(tenant(of), session)
}

pub(super) fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}

pub(super) fn json(text: &str) -> JsonDocument {
    JsonDocument::from_text(text)
}

pub(super) fn head(version: u64) -> SessionHead {
    SessionHead {
        agent: "agent".to_owned(),
        graph: "graph-1".to_owned(),
        schema_version: "v1".to_owned(),
        version,
        prompt_policy: "conversation".to_owned(),
        parent: None,
        subject: None,
        created_at: at(1_000),
        updated_at: at(2_000),
    }
}

pub(super) fn counters(turns: u64, items: u64, events: u64, waits: u64) -> Counters {
    Counters { turns, items, events, waits }
}

pub(super) fn field(name: &str, value: &str) -> FieldRow {
    FieldRow { name: name.to_owned(), value: FieldValue::Value(json(value)) }
}

/// Returns an item of turn 1 that has no place in a list.
pub(super) fn item(no: u64) -> ListItemRow {
    let body = json(&format!(r#"{{"text":"item {no}"}}"#));
    ListItemRow { no, turn: 1, placement: None, body, side: Some(json(r#"{"by":"user"}"#)) }
}

pub(super) fn place(field: &str, generation: u64, seq: u64) -> ItemPlacement {
    ItemPlacement { field: field.to_owned(), generation, seq }
}

/// Returns an open turn of invocation `inv`, with every optional part set but key and outcome.
pub(super) fn turn(no: u64) -> TurnRow {
    TurnRow {
        no,
        invocation: invocation("inv"),
        ordinal: 0,
        kind: StoredTurnKind::Message,
        status: StoredTurnStatus::Accepted,
        fence: FencingToken(1),
        deaths: 0,
        agent: "agent".to_owned(),
        graph: "graph-1".to_owned(),
        message: Some(no),
        wait: None,
        key: None,
        digest: None,
        accepted_at: at(3_000),
        ended_at: None,
        outcome: None,
        retries: None,
    }
}

pub(super) fn ended(no: u64) -> TurnRow {
    TurnRow {
        status: StoredTurnStatus::Completed,
        ended_at: Some(at(4_000)),
        outcome: Some(json(r#"{"ok":true}"#)),
        ..turn(no)
    }
}

/// Returns a pending wait for signal `approval` of invocation `inv`.
pub(super) fn wait(no: u64) -> WaitRow {
    WaitRow {
        no,
        signal: "approval".to_owned(),
        invocation: invocation("inv"),
        turn: 1,
        status: StoredWaitStatus::Pending,
        metadata: Some(json(r#"{"action":"send"}"#)),
        action: Some("sha256:1".to_owned()),
        deadline: None,
        payload_schema: Some(json("{}")),
        on_deadline: None,
        created_at: at(3_500),
        ended_by: None,
        answer: None,
        answered_by: None,
        ended_at: None,
    }
}

pub(super) fn consumed(no: u64) -> WaitRow {
    WaitRow {
        status: StoredWaitStatus::Consumed,
        ended_by: Some(2),
        answer: Some(json("true")),
        answered_by: Some("someone".to_owned()),
        ended_at: Some(at(4_500)),
        ..wait(no)
    }
}

/// Returns an early signal.
pub(super) fn mail(signal: &str, payload: &str) -> EarlySignalRow {
    EarlySignalRow {
        signal: signal.to_owned(),
        payload: json(payload),
        from: Some("someone".to_owned()),
        at: at(3_200),
    }
}

pub(super) fn position(of: &str, body: &str) -> PositionRow {
    PositionRow { invocation: invocation(of), turn: 1, body: json(body) }
}

/// Returns the usage of a model, in which all numbers are different.
pub(super) fn used(model: &str, calls: u64) -> UsageRow {
    UsageRow {
        model: model.to_owned(),
        calls,
        prompt_tokens: 10 * calls,
        completion_tokens: 100 * calls,
        cached_tokens: 1_000 * calls,
        cache_creation_tokens: 10_000 * calls,
    }
}

pub(super) fn record(turn: u64, name: &str, body: &str) -> RecordRow {
    RecordRow { turn, name: name.to_owned(), body: json(body) }
}

pub(super) fn event(seq: u64) -> EventRow {
    EventRow {
        seq,
        turn: 1,
        kind: "turn.accepted".to_owned(),
        item: Some(1),
        at: at(3_000),
        body: Some(json("{}")),
    }
}

/// Returns a batch under the journal's fence.
pub(super) fn batch(stores: &ContractStores, key: &SessionKey, puts: impl Into<Vec<RowMutation>>) -> Batch {
    let mut batch = Batch::new(key.clone(), stores.journal.fence());
    batch.puts = puts.into();
    batch
}

/// Applies puts.
pub(super) async fn apply(
    stores: &ContractStores,
    key: &SessionKey,
    puts: impl Into<Vec<RowMutation>>,
) -> Result<()> {
    stores.journal.apply(batch(stores, key, puts)).await
}

/// Applies puts if a requirement holds.
pub(super) async fn apply_if(
    stores: &ContractStores,
    key: &SessionKey,
    require: BatchPrecondition,
    puts: impl Into<Vec<RowMutation>>,
) -> Result<()> {
    stores.journal.apply(batch(stores, key, puts).require(require)).await
}

/// Creates a session with these rows.
pub(super) async fn make(
    stores: &ContractStores,
    key: &SessionKey,
    puts: impl Into<Vec<RowMutation>>,
) -> Result<()> {
    let mut all = vec![RowMutation::Head(head(1))];
    all.extend(puts.into());
    apply(stores, key, all).await
}

pub(super) async fn session(stores: &ContractStores, key: &SessionKey) -> Result<Option<SessionRow>> {
    stores.journal.session(key).await
}

/// Reads all items of a session; the suite never makes more than the limit of this read.
pub(super) async fn items(stores: &ContractStores, key: &SessionKey) -> Result<Vec<ListItemRow>> {
    stores.journal.items(key, &ItemRange::Numbers { from: 0, to: 1_000 }).await
}

pub(super) async fn turn_at(stores: &ContractStores, key: &SessionKey, no: u64) -> Result<Vec<TurnRow>> {
    stores.journal.turns(key, &TurnRowQuery::No(no)).await
}

/// Reads all events of a session; the suite never makes more than the limit of this read.
pub(super) async fn events(stores: &ContractStores, key: &SessionKey) -> Result<Vec<EventRow>> {
    stores.journal.events(key, 0, 1_000).await
}
