//! Sample rows, and helper calls for the checks.

use singletree_durable::{
    Batch, BatchPrecondition, Counters, EarlySignalRow, EventRow, FencingToken, FieldRow, FieldValue,
    InvocationId, ItemPlacement, ItemRange, JsonDocument, ListItemRow, PositionRow, RecordRow, Result,
    RowMutation, SessionHead, SessionId, SessionKey, SessionRow, StoredTurnKind, StoredTurnStatus,
    StoredWaitStatus, TenantId, Timestamp, TurnRow, TurnRowQuery, UsageRow, WaitRow,
};

use super::ContractStores;

pub(super) fn tenant_named(name: &str) -> TenantId {
    TenantId::parse(name).expect("the suite's names are identifiers")
}

pub(super) fn invocation_named(name: &str) -> InvocationId {
    InvocationId::parse(name).expect("the suite's names are identifiers")
}

/// Returns a session key of the suite's first tenant.
pub(super) fn session_key(session: &str) -> SessionKey {
    session_key_in_tenant("tenant-a", session)
}

pub(super) fn session_key_in_tenant(of: &str, session: &str) -> SessionKey {
    let session = SessionId::parse(session).expect("the suite's names are identifiers");
    SessionKey::new(tenant_named(of), session)
}

pub(super) fn time_at_millis(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}

pub(super) fn json_document(text: &str) -> JsonDocument {
    JsonDocument::from_text(text)
}

pub(super) fn sample_head(version: u64) -> SessionHead {
    SessionHead {
        agent: "agent".to_owned(),
        graph: "graph-1".to_owned(),
        schema_version: "v1".to_owned(),
        version,
        prompt_policy: "conversation".to_owned(),
        parent: None,
        subject: None,
        created_at: time_at_millis(1_000),
        updated_at: time_at_millis(2_000),
    }
}

pub(super) fn make_counters(turns: u64, items: u64, events: u64, waits: u64) -> Counters {
    Counters { turns, items, events, waits }
}

pub(super) fn sample_field(name: &str, value: &str) -> FieldRow {
    FieldRow { name: name.to_owned(), value: FieldValue::Value(json_document(value)) }
}

/// Returns an item of turn 1 that has no place in a list.
pub(super) fn sample_item(no: u64) -> ListItemRow {
    let body = json_document(&format!(r#"{{"text":"item {no}"}}"#));
    ListItemRow { no, turn: 1, placement: None, body, side: Some(json_document(r#"{"by":"user"}"#)) }
}

pub(super) fn item_placement(field: &str, generation: u64, seq: u64) -> ItemPlacement {
    ItemPlacement { field: field.to_owned(), generation, seq }
}

/// Returns an open turn of invocation `inv`, with every optional part set but key and outcome.
pub(super) fn sample_turn(no: u64) -> TurnRow {
    TurnRow {
        no,
        invocation: invocation_named("inv"),
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
        accepted_at: time_at_millis(3_000),
        ended_at: None,
        outcome: None,
        retries: None,
    }
}

pub(super) fn sample_ended_turn(no: u64) -> TurnRow {
    TurnRow {
        status: StoredTurnStatus::Completed,
        ended_at: Some(time_at_millis(4_000)),
        outcome: Some(json_document(r#"{"ok":true}"#)),
        ..sample_turn(no)
    }
}

/// Returns a pending wait for signal `approval` of invocation `inv`.
pub(super) fn sample_wait(no: u64) -> WaitRow {
    WaitRow {
        no,
        signal: "approval".to_owned(),
        invocation: invocation_named("inv"),
        turn: 1,
        status: StoredWaitStatus::Pending,
        metadata: Some(json_document(r#"{"action":"send"}"#)),
        action: Some("sha256:1".to_owned()),
        deadline: None,
        payload_schema: Some(json_document("{}")),
        on_deadline: None,
        created_at: time_at_millis(3_500),
        ended_by: None,
        answer: None,
        answered_by: None,
        ended_at: None,
    }
}

pub(super) fn sample_consumed_wait(no: u64) -> WaitRow {
    WaitRow {
        status: StoredWaitStatus::Consumed,
        ended_by: Some(2),
        answer: Some(json_document("true")),
        answered_by: Some("someone".to_owned()),
        ended_at: Some(time_at_millis(4_500)),
        ..sample_wait(no)
    }
}

/// Returns an early signal.
pub(super) fn sample_early_signal(signal: &str, payload: &str) -> EarlySignalRow {
    EarlySignalRow {
        signal: signal.to_owned(),
        payload: json_document(payload),
        from: Some("someone".to_owned()),
        at: time_at_millis(3_200),
    }
}

pub(super) fn sample_position(of: &str, body: &str) -> PositionRow {
    PositionRow { invocation: invocation_named(of), turn: 1, body: json_document(body) }
}

/// Returns the usage of a model, in which all numbers are different.
pub(super) fn sample_usage(model: &str, calls: u64) -> UsageRow {
    UsageRow {
        model: model.to_owned(),
        calls,
        prompt_tokens: 10 * calls,
        completion_tokens: 100 * calls,
        cached_tokens: 1_000 * calls,
        cache_creation_tokens: 10_000 * calls,
    }
}

pub(super) fn sample_record(turn: u64, name: &str, body: &str) -> RecordRow {
    RecordRow { turn, name: name.to_owned(), body: json_document(body) }
}

pub(super) fn sample_event(seq: u64) -> EventRow {
    EventRow {
        seq,
        turn: 1,
        kind: "turn.accepted".to_owned(),
        item: Some(1),
        at: time_at_millis(3_000),
        body: Some(json_document("{}")),
    }
}

/// Acquires a session and returns its fence.
pub(super) async fn acquire_fence(stores: &ContractStores, key: &SessionKey) -> Result<FencingToken> {
    Ok(stores.journal.acquire(key).await?.fence)
}

/// Returns a batch under a fence.
pub(super) fn batch_under(fence: FencingToken, key: &SessionKey, puts: impl Into<Vec<RowMutation>>) -> Batch {
    let mut batch = Batch::new(key.clone(), fence);
    batch.puts = puts.into();
    batch
}

/// Acquires a session and returns a batch of it.
pub(super) async fn build_batch(
    stores: &ContractStores,
    key: &SessionKey,
    puts: impl Into<Vec<RowMutation>>,
) -> Result<Batch> {
    Ok(batch_under(acquire_fence(stores, key).await?, key, puts))
}

/// Applies puts.
pub(super) async fn apply_mutations(
    stores: &ContractStores,
    key: &SessionKey,
    puts: impl Into<Vec<RowMutation>>,
) -> Result<()> {
    stores.journal.apply(build_batch(stores, key, puts).await?).await
}

/// Applies puts if a requirement holds.
pub(super) async fn apply_mutations_if(
    stores: &ContractStores,
    key: &SessionKey,
    require: BatchPrecondition,
    puts: impl Into<Vec<RowMutation>>,
) -> Result<()> {
    stores.journal.apply(build_batch(stores, key, puts).await?.require(require)).await
}

/// Creates a session with these rows.
pub(super) async fn create_session(
    stores: &ContractStores,
    key: &SessionKey,
    puts: impl Into<Vec<RowMutation>>,
) -> Result<()> {
    let mut all = vec![RowMutation::Head(sample_head(1))];
    all.extend(puts.into());
    apply_mutations(stores, key, all).await
}

pub(super) async fn read_session(stores: &ContractStores, key: &SessionKey) -> Result<Option<SessionRow>> {
    stores.journal.read_session(key).await
}

/// Reads all items of a session; the suite never makes more than the limit of this read.
pub(super) async fn read_all_items(stores: &ContractStores, key: &SessionKey) -> Result<Vec<ListItemRow>> {
    stores.journal.read_items(key, &ItemRange::Numbers { from: 0, to: 1_000 }).await
}

pub(super) async fn read_turn_by_number(
    stores: &ContractStores,
    key: &SessionKey,
    no: u64,
) -> Result<Vec<TurnRow>> {
    stores.journal.read_turns(key, &TurnRowQuery::No(no)).await
}

/// Reads all events of a session; the suite never makes more than the limit of this read.
pub(super) async fn read_all_events(stores: &ContractStores, key: &SessionKey) -> Result<Vec<EventRow>> {
    stores.journal.read_events(key, 0, 1_000).await
}
