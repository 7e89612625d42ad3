//! Stored rows, as the database tells them in JSON.

use serde::Deserialize;
use singletree_durable::{
    Counters, EarlySignalRow, Error, FencingToken, FieldRow, FieldValue, InvocationId, JsonDocument,
    ParentSession, PausedInvocation, PositionRow, RecordRow, Result, SessionHead, SessionId, SessionKey,
    SessionRow, SessionSnapshot, SubjectId, TenantId, Timestamp, TurnRow, WaitRow,
};

use crate::error::corrupt_error;
use crate::keyword::ColumnKeyword;

/// Decodes a row, or rows, that the database told in JSON.
pub(crate) fn decode_json<'a, T: Deserialize<'a>>(text: &'a str, what: &str) -> Result<T> {
    serde_json::from_str(text).map_err(|error| corrupt_error(what, Some(error.into())))
}

fn document(text: Option<String>) -> Option<JsonDocument> {
    text.map(JsonDocument::from_text)
}

fn time(millis: Option<i64>) -> Option<Timestamp> {
    millis.map(Timestamp::from_millis)
}

fn keyword<T: ColumnKeyword>(word: &str) -> Result<T> {
    T::from_keyword(word).ok_or_else(|| corrupt_error(format!("the word '{word}'"), None))
}

fn invalid_name(error: impl std::error::Error + Send + Sync + 'static) -> Error {
    corrupt_error("a name", Some(error.into()))
}

pub(crate) fn parse_invocation(text: &str) -> Result<InvocationId> {
    InvocationId::parse(text).map_err(invalid_name)
}

pub(crate) fn parse_session_key(tenant: &str, session: &str) -> Result<SessionKey> {
    let tenant = TenantId::parse(tenant).map_err(invalid_name)?;
    Ok(SessionKey::new(tenant, SessionId::parse(session).map_err(invalid_name)?))
}

/// The columns of a field.
#[derive(Debug, Deserialize)]
struct FieldColumns {
    name: String,
    value: Option<String>,
    generation: Option<u64>,
    len: Option<u64>,
    bytes: Option<u64>,
}

impl FieldColumns {
    fn into_row(self) -> Result<FieldRow> {
        let value = match (self.value, self.generation, self.len, self.bytes) {
            (Some(value), ..) => FieldValue::Value(JsonDocument::from_text(value)),
            (None, Some(generation), Some(len), Some(bytes)) => FieldValue::List { generation, len, bytes },
            _ => return Err(corrupt_error(format!("the field '{}'", self.name), None)),
        };
        Ok(FieldRow { name: self.name, value })
    }
}

/// The columns of a session, with its fields.
#[derive(Debug, Deserialize)]
pub(crate) struct SessionColumns {
    tenant: String,
    session: String,
    agent: String,
    graph: String,
    schema_version: String,
    version: u64,
    prompt_policy: String,
    parent: Option<String>,
    parent_offset: Option<u64>,
    subject: Option<String>,
    created_at: i64,
    updated_at: i64,
    next_turn: u64,
    next_item: u64,
    next_event: u64,
    next_wait: u64,
    fields: Vec<FieldColumns>,
}

impl SessionColumns {
    pub(crate) fn into_row(self) -> Result<SessionRow> {
        let parent = self.parent.zip(self.parent_offset).map(|(session, offset)| {
            Ok::<_, Error>(ParentSession {
                session: SessionId::parse(session).map_err(invalid_name)?,
                offset,
            })
        });
        let head = SessionHead {
            agent: self.agent,
            graph: self.graph,
            schema_version: self.schema_version,
            version: self.version,
            prompt_policy: self.prompt_policy,
            parent: parent.transpose()?,
            subject: self.subject.map(SubjectId::parse).transpose().map_err(invalid_name)?,
            created_at: Timestamp::from_millis(self.created_at),
            updated_at: Timestamp::from_millis(self.updated_at),
        };
        Ok(SessionRow {
            key: parse_session_key(&self.tenant, &self.session)?,
            head,
            counters: Counters {
                turns: self.next_turn,
                items: self.next_item,
                events: self.next_event,
                waits: self.next_wait,
            },
            fields: self.fields.into_iter().map(FieldColumns::into_row).collect::<Result<_>>()?,
        })
    }
}

/// The columns of a turn.
#[derive(Debug, Deserialize)]
pub(crate) struct TurnColumns {
    no: u64,
    invocation: String,
    ordinal: u32,
    kind: String,
    status: String,
    fence: u64,
    deaths: u32,
    agent: String,
    graph: String,
    message: Option<u64>,
    wait: Option<u64>,
    key: Option<String>,
    digest: Option<String>,
    accepted_at: i64,
    ended_at: Option<i64>,
    outcome: Option<String>,
    retries: Option<u64>,
}

impl TurnColumns {
    pub(crate) fn into_row(self) -> Result<TurnRow> {
        Ok(TurnRow {
            no: self.no,
            invocation: parse_invocation(&self.invocation)?,
            ordinal: self.ordinal,
            kind: keyword(&self.kind)?,
            status: keyword(&self.status)?,
            fence: FencingToken(self.fence),
            deaths: self.deaths,
            agent: self.agent,
            graph: self.graph,
            message: self.message,
            wait: self.wait,
            key: self.key,
            digest: self.digest,
            accepted_at: Timestamp::from_millis(self.accepted_at),
            ended_at: time(self.ended_at),
            outcome: document(self.outcome),
            retries: self.retries,
        })
    }
}

/// The columns of a wait.
#[derive(Debug, Deserialize)]
pub(crate) struct WaitColumns {
    no: u64,
    signal: String,
    invocation: String,
    turn: u64,
    status: String,
    metadata: Option<String>,
    action: Option<String>,
    deadline: Option<i64>,
    payload_schema: Option<String>,
    on_deadline: Option<String>,
    created_at: i64,
    ended_by: Option<u64>,
    answer: Option<String>,
    answered_by: Option<String>,
    ended_at: Option<i64>,
}

impl WaitColumns {
    pub(crate) fn into_row(self) -> Result<WaitRow> {
        Ok(WaitRow {
            no: self.no,
            signal: self.signal,
            invocation: parse_invocation(&self.invocation)?,
            turn: self.turn,
            status: keyword(&self.status)?,
            metadata: document(self.metadata),
            action: self.action,
            deadline: time(self.deadline),
            payload_schema: document(self.payload_schema),
            on_deadline: document(self.on_deadline),
            created_at: Timestamp::from_millis(self.created_at),
            ended_by: self.ended_by,
            answer: document(self.answer),
            answered_by: self.answered_by,
            ended_at: time(self.ended_at),
        })
    }
}

/// The columns of an early signal.
#[derive(Debug, Deserialize)]
pub(crate) struct MailColumns {
    signal: String,
    payload: String,
    sent_by: Option<String>,
    at: i64,
}

impl MailColumns {
    pub(crate) fn into_row(self) -> EarlySignalRow {
        EarlySignalRow {
            signal: self.signal,
            payload: JsonDocument::from_text(self.payload),
            from: self.sent_by,
            at: Timestamp::from_millis(self.at),
        }
    }
}

/// The columns of a position.
#[derive(Debug, Deserialize)]
pub(crate) struct PositionColumns {
    invocation: String,
    turn: u64,
    body: String,
}

impl PositionColumns {
    pub(crate) fn into_row(self) -> Result<PositionRow> {
        let invocation = parse_invocation(&self.invocation)?;
        Ok(PositionRow { invocation, turn: self.turn, body: JsonDocument::from_text(self.body) })
    }
}

/// The columns of a record.
#[derive(Debug, Deserialize)]
pub(crate) struct RecordColumns {
    turn: u64,
    name: String,
    body: String,
}

impl RecordColumns {
    pub(crate) fn into_row(self) -> RecordRow {
        RecordRow { turn: self.turn, name: self.name, body: JsonDocument::from_text(self.body) }
    }
}

/// A session as `singletree.read_dossier` tells it.
#[derive(Debug, Deserialize)]
pub(crate) struct DossierColumns {
    session: Option<SessionColumns>,
    numbers: [u64; 4],
    pending: Vec<WaitColumns>,
    mail: Vec<MailColumns>,
    open: Vec<TurnColumns>,
    paused_turn: Option<TurnColumns>,
    paused_position: Option<PositionColumns>,
    paused_records: Vec<RecordColumns>,
}

impl DossierColumns {
    pub(crate) fn into_snapshot(self) -> Result<SessionSnapshot> {
        let [turns, items, events, waits] = self.numbers;
        let paused = match self.paused_turn.zip(self.paused_position) {
            None => None,
            Some((turn, position)) => Some(PausedInvocation {
                turn: turn.into_row()?,
                position: position.into_row()?,
                records: self.paused_records.into_iter().map(RecordColumns::into_row).collect(),
            }),
        };
        Ok(SessionSnapshot {
            session: self.session.map(SessionColumns::into_row).transpose()?,
            numbers: Counters { turns, items, events, waits },
            pending: self.pending.into_iter().map(WaitColumns::into_row).collect::<Result<_>>()?,
            mail: self.mail.into_iter().map(MailColumns::into_row).collect(),
            open: self.open.into_iter().map(TurnColumns::into_row).collect::<Result<_>>()?,
            paused,
        })
    }
}
