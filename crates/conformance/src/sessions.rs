//! Session directives (conformance-adapter §5.6): a store that counts, and one that fails as the fixture says.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use singletree::durable::{
    BoxError, BoxFuture, Error, ExpectedVersion, JsonDocument, RecordVersion, Result, SessionFilter,
    SessionId, SessionKey, SessionRecord, SessionStore, SessionSummary, StateMigrations, TenantId, Timestamp,
};
use singletree_test_store::TestStore;

use crate::adapt::{SaveFaultKind, SessionStoreSpec};
use crate::failure::{CaseFailure, Outcome};
use crate::fields::LocatedNode;
use crate::schema::parse_literals;
use crate::tape::{CaseRecorder, SessionStoreCall};

/// A session store that records the calls to it.
#[derive(Debug)]
pub(crate) struct RecordingSessionStore {
    inner: Arc<dyn SessionStore>,
    spec: SessionStoreSpec,
    tape: CaseRecorder,
}

impl RecordingSessionStore {
    /// Makes an empty store.
    #[must_use]
    pub(crate) fn new(spec: SessionStoreSpec, tape: CaseRecorder) -> Self {
        Self { inner: Arc::new(TestStore::new().session_store()), spec, tape }
    }

    /// Reads the stored record; the call is not counted.
    ///
    /// # Errors
    /// When the store fails.
    pub(crate) async fn peek_record(&self, session: &str) -> Outcome<Option<SessionRecord>> {
        let record = self.inner.load(&parse_session_key(session)?).await;
        let record = record.map_err(|error| CaseFailure::build_error("session_store", error.to_string()))?;
        Ok(record.map(|(record, _)| record))
    }

    /// Returns the ids of the sessions that are stored, in order, without being counted.
    ///
    /// # Errors
    /// When the store fails.
    pub(crate) async fn session_ids(&self) -> Outcome<Vec<String>> {
        let listed = self.inner.list(&TenantId::single(), &SessionFilter::default()).await;
        let listed = listed.map_err(|error| CaseFailure::build_error("session_store", error.to_string()))?;
        let mut ids: Vec<String> = listed.iter().map(|session| session.key.session.to_string()).collect();
        ids.sort_unstable();
        Ok(ids)
    }

    /// Puts a record into the store, without being counted.
    ///
    /// # Errors
    /// When the store fails.
    pub(crate) async fn seed_record(&self, session: &str, record: &SessionRecord) -> Outcome<()> {
        let saved = self.inner.save(&parse_session_key(session)?, record, ExpectedVersion::Any).await;
        saved.map(drop).map_err(|error| CaseFailure::build_error("seeded_session", error.to_string()))
    }
}

fn parse_session_key(session: &str) -> Outcome<SessionKey> {
    let session = SessionId::parse(session)
        .map_err(|error| CaseFailure::build_error("session_id", error.to_string()))?;
    Ok(SessionKey::new(TenantId::single(), session))
}

fn simulated_outage(doing: &'static str) -> Error {
    Error::Unavailable { doing, source: "the fixture lets this store fail".into() }
}

impl SessionStore for RecordingSessionStore {
    fn load<'a>(
        &'a self,
        key: &'a SessionKey,
    ) -> BoxFuture<'a, Result<Option<(SessionRecord, RecordVersion)>>> {
        Box::pin(async move {
            let found = self.inner.load(key).await?;
            self.tape
                .lock_recording()
                .calls
                .push(SessionStoreCall::Load(found.as_ref().map(|(it, _)| it.clone())));
            if self.spec.load_raises { Err(simulated_outage("load a session")) } else { Ok(found) }
        })
    }

    fn save<'a>(
        &'a self,
        key: &'a SessionKey,
        record: &'a SessionRecord,
        expected: ExpectedVersion,
    ) -> BoxFuture<'a, Result<RecordVersion>> {
        Box::pin(async move {
            self.tape.lock_recording().calls.push(SessionStoreCall::Save(record.clone()));
            match self.spec.save_raises {
                None => self.inner.save(key, record, expected).await,
                Some(SaveFaultKind::Broken) => Err(simulated_outage("save a session")),
                Some(SaveFaultKind::Conflict) => {
                    Err(Error::Conflict { key: key.clone(), expected, found: None })
                }
            }
        })
    }

    fn delete<'a>(&'a self, key: &'a SessionKey) -> BoxFuture<'a, Result<()>> {
        self.inner.delete(key)
    }

    fn list<'a>(
        &'a self,
        tenant: &'a TenantId,
        filter: &'a SessionFilter,
    ) -> BoxFuture<'a, Result<Vec<SessionSummary>>> {
        self.inner.list(tenant, filter)
    }
}

/// Reads a record that is in the store before the case begins.
///
/// # Errors
/// When the fixture block has an unknown key or value.
pub(crate) fn parse_seeded_record(spot: LocatedNode, version: &str) -> Outcome<SessionRecord> {
    let mut block = spot.into_map_reader()?;
    let schema_version = block.take_text("schema_version")?.unwrap_or_else(|| version.to_owned());
    let mut state = BTreeMap::new();
    for (field, value) in parse_literals(block.take_required("state")?)? {
        let value = JsonDocument::from_serializable(&value)
            .map_err(|error| CaseFailure::build_error("seeded_session", error.to_string()))?;
        state.insert(field, value);
    }
    block.reject_remaining_keys()?;
    Ok(SessionRecord { schema_version, state, updated_at: Timestamp::from_millis(0) })
}

/// Returns a record's state as JSON.
///
/// # Errors
/// When it holds no JSON.
pub(crate) fn state_to_json(record: &SessionRecord) -> Outcome<Value> {
    let fields = record.state.iter().map(|(name, value)| {
        let value = value
            .decode::<Value>()
            .map_err(|error| CaseFailure::assertion_error("session record", error.to_string()))?;
        Ok((name.clone(), value))
    });
    Ok(Value::Object(fields.collect::<Outcome<_>>()?))
}

/// A missing key, as one of the mocks raises it.
#[derive(Debug, thiserror::Error)]
#[error("no key 'missing_key' (KeyError)")]
pub(crate) struct MissingKeyError;

type State = BTreeMap<String, Value>;

/// Reads the migrations that a case registers. Each is a mock that the fixtures name.
///
/// # Errors
/// For an unknown mock.
pub(crate) fn parse_migrations(spot: Option<LocatedNode>, tape: &CaseRecorder) -> Outcome<StateMigrations> {
    let mut migrations = StateMigrations::new();
    let Some(spot) = spot else { return Ok(migrations) };
    for one in spot.into_items()? {
        let mut block = one.into_map_reader()?;
        let from = block.take_required("from_version")?.as_text()?.to_owned();
        let to = block.take_required("to_version")?.as_text()?.to_owned();
        let mock = block.take_required("migrate")?;
        let run = find_migration_mock(mock.as_text()?).ok_or_else(|| {
            CaseFailure::reader_error(
                &mock.path,
                format!("unknown migration '{}'", mock.as_text().unwrap_or_default()),
            )
        })?;
        block.reject_remaining_keys()?;
        let (tape, step) = (tape.clone(), format!("{from}->{to}"));
        migrations = migrations.with(from, to, move |state| {
            tape.lock_recording().migrations.push(step.clone());
            run(state)
        });
    }
    Ok(migrations)
}

fn find_migration_mock(name: &str) -> Option<fn(State) -> std::result::Result<State, BoxError>> {
    Some(match name {
        "add_ten_to_value" => |state| with_changed_value(state, |it| it + 10),
        "multiply_value_by_two" => |state| with_changed_value(state, |it| it * 2),
        "add_new_field_default" => |state| with_added_field(state, "new_field", "v2_default"),
        "add_v2_field" => |state| with_added_field(state, "v2_field", "v2_default"),
        "add_v3_field" => |state| with_added_field(state, "v3_field", "v3_default"),
        "identity_passthrough" | "irrelevant" => Ok,
        "raises_keyerror" => |_| Err(MissingKeyError.into()),
        "should_not_run" => |_| Err("a migration ran that should not".into()),
        _ => return None,
    })
}

fn with_changed_value(mut state: State, change: impl Fn(i64) -> i64) -> std::result::Result<State, BoxError> {
    let value = state.get("value").and_then(Value::as_i64).ok_or("the state has no number 'value'")?;
    state.insert("value".into(), change(value).into());
    Ok(state)
}

fn with_added_field(mut state: State, name: &str, value: &str) -> std::result::Result<State, BoxError> {
    state.insert(name.to_owned(), value.into());
    Ok(state)
}
