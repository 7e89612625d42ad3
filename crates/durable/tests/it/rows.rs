//! Plain rows for tests.

use std::task::{Context, Poll, Waker};

use singletree_durable::{
    Batch, FencingToken, InvocationId, Journal, JsonDocument, ListItemRow, RowMutation, SessionHead,
    SessionId, SessionKey, StoredTurnKind, StoredTurnStatus, StoredWaitStatus, TenantId, Timestamp, TurnRow,
    WaitRow,
};

pub(crate) fn key_of(tenant: &str, session: &str) -> SessionKey {
    SessionKey::new(TenantId::parse(tenant).unwrap(), SessionId::parse(session).unwrap())
}

pub(crate) fn key() -> SessionKey {
    key_of("t", "s")
}

pub(crate) fn invocation(name: &str) -> InvocationId {
    InvocationId::parse(name).unwrap()
}

pub(crate) fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}

pub(crate) fn head(version: u64) -> SessionHead {
    SessionHead {
        agent: "agent".to_owned(),
        graph: "graph".to_owned(),
        schema_version: "v1".to_owned(),
        version,
        prompt_policy: "command".to_owned(),
        parent: None,
        subject: None,
        created_at: at(1),
        updated_at: at(2),
    }
}

pub(crate) fn item(no: u64) -> ListItemRow {
    ListItemRow { no, turn: 0, placement: None, body: JsonDocument::from_text(no.to_string()), side: None }
}

pub(crate) fn turn(no: u64, status: StoredTurnStatus) -> TurnRow {
    TurnRow {
        no,
        invocation: invocation("inv"),
        ordinal: 0,
        kind: StoredTurnKind::Message,
        status,
        fence: FencingToken(1),
        deaths: 0,
        agent: "agent".to_owned(),
        graph: "graph".to_owned(),
        message: None,
        wait: None,
        key: None,
        digest: None,
        accepted_at: at(3),
        ended_at: None,
        outcome: None,
        retries: None,
    }
}

pub(crate) fn wait(no: u64, status: StoredWaitStatus) -> WaitRow {
    WaitRow {
        no,
        signal: "signal".to_owned(),
        invocation: invocation("inv"),
        turn: 0,
        status,
        metadata: None,
        action: None,
        deadline: None,
        payload_schema: None,
        on_deadline: None,
        created_at: at(4),
        ended_by: None,
        answer: None,
        answered_by: None,
        ended_at: None,
    }
}

/// Acquires the session and makes a batch of it.
pub(crate) fn batch(journal: &dyn Journal, puts: impl Into<Vec<RowMutation>>) -> Batch {
    batch_under(acquire(journal, &key()), puts)
}

pub(crate) fn batch_under(fence: FencingToken, puts: impl Into<Vec<RowMutation>>) -> Batch {
    let mut batch = Batch::new(key(), fence);
    batch.puts = puts.into();
    batch
}

/// Acquires a session of a memory store, whose futures are ready at once.
pub(crate) fn acquire(journal: &dyn Journal, key: &SessionKey) -> FencingToken {
    match journal.acquire(key).as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(acquired) => acquired.unwrap().fence,
        Poll::Pending => panic!("a memory store answers at once"),
    }
}
