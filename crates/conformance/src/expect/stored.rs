//! Expectations about the session store after an invocation. conformance-adapter names the subject (the record that a
//! load gives) but not every key, so each question has the spellings that follow from the store's operations
//! (sessions §5).

use serde_json::{Value, json};
use singletree::durable::SessionRecord;

use super::excludes;
use crate::check::{AssertionChecker, ensure};
use crate::failure::{CaseFailure, Outcome};
use crate::fields::{LocatedNode, YamlMapReader, unknown};
use crate::matcher::ExtraKeyPolicy;
use crate::run::InvocationResult;
use crate::sessions::{RecordingSessionStore, state_of};
use crate::tape::SessionStoreCall;
use crate::yaml::YamlValue;

/// Keys that name the session whose record is looked at.
const SESSION: &[&str] = &["load_returns_for_session_id", "session_id", "for_session_id"];
/// Keys that name a session of which nothing may be stored.
const NO_SESSION: &[&str] =
    &["load_returns_null_for_session_id", "load_returns_none_for_session_id", "no_record_for_session_id"];
/// Keys that say whether the session has a record.
const EXISTS: &[&str] =
    &["record_exists", "session_record_exists", "session_exists", "exists", "has_record", "contains_record"];
/// Keys that say that the session has none.
const ABSENT: &[&str] = &["record_absent", "session_record_absent", "no_record", "is_absent"];

/// Asserts all of it for the named session, else for the invocation's own.
///
/// # Errors
/// When a key is unknown.
pub(super) async fn store_after(
    checker: &mut AssertionChecker,
    spot: LocatedNode,
    run: &InvocationResult,
    (own, store): (Option<&str>, Option<&RecordingSessionStore>),
) -> Outcome<()> {
    let store = store.ok_or_else(|| CaseFailure::reader(&spot.path, "no session store is registered"))?;
    if spot.is_null() {
        let path = spot.path.clone();
        let count = store.sessions().await?.len();
        checker.holds(&path, ensure(count == 0, || format!("{count} sessions are stored")));
        return Ok(());
    }
    let mut wanted = spot.fields()?;
    let path = wanted.path().to_owned();
    let named = SESSION.iter().find_map(|key| wanted.take(key));
    let session = match &named {
        Some(named) => Some(named.text()?.to_owned()),
        None => own.map(str::to_owned),
    };
    let record = match &session {
        Some(session) => store.peek(session).await?,
        None => None,
    };
    let is_all = wanted.keys().next().is_none();
    if is_all {
        let named = named.ok_or_else(|| CaseFailure::reader(&path, "it says nothing of the store"))?;
        checker.holds(&named.path, ensure(record.is_some(), || "nothing is stored".into()));
    }
    while let Some((key, spot)) = wanted.next() {
        of_key(checker, (&key, spot), run, (record.as_ref(), store)).await?;
    }
    Ok(())
}

async fn of_key(
    checker: &mut AssertionChecker,
    (key, spot): (&str, LocatedNode),
    run: &InvocationResult,
    (record, store): (Option<&SessionRecord>, &RecordingSessionStore),
) -> Outcome<()> {
    let state = || record.map(state_of).transpose().map(Option::unwrap_or_default);
    let exists = ensure(record.is_some(), || "nothing is stored".into());
    match key {
        "loaded_state" | "state" | "session_state" => checker.exactly(&spot, state()?),
        "state_includes" | "loaded_state_includes" => {
            checker.value(&spot, &state()?, ExtraKeyPolicy::Allowed)
        }
        "loaded_schema_version" | "schema_version" => {
            checker.exactly(&spot, record.map(|record| record.schema_version.clone()));
        }
        "load_returns" | "loaded_record" | "record" if !spot.is_null() => {
            whole_record(checker, spot, record)?
        }
        "load_returns" | "loaded_record" | "record" => {
            checker.holds(&spot.path, ensure(record.is_none(), || "a record is stored".into()));
        }
        "excludes_fields" => excludes(checker, spot, (&state()?, &run.declared_fields()))?,
        "save_count" => checker.exactly(&spot, run.reel.saves().count()),
        "load_count" => {
            let loads =
                run.reel.calls.iter().filter(|call| matches!(call, SessionStoreCall::Load(_))).count();
            checker.exactly(&spot, loads);
        }
        "record_count" | "session_count" => checker.exactly(&spot, store.sessions().await?.len()),
        "list_returns" | "session_ids" => checker.exactly(&spot, json!(store.sessions().await?)),
        "empty" | "is_empty" => {
            let count = store.sessions().await?.len();
            checker.truth(&spot, ensure(count == 0, || format!("{count} sessions are stored")));
        }
        key if EXISTS.contains(&key) => checker.truth(&spot, exists),
        key if ABSENT.contains(&key) => {
            checker.truth(&spot, ensure(record.is_none(), || "a record is stored".into()));
        }
        key if NO_SESSION.contains(&key) => {
            let found = store.peek(spot.text()?).await?;
            checker.holds(&spot.path, ensure(found.is_none(), || "a record is stored".into()));
        }
        // A session by its id, and its state; of one that is not stored nothing can be expected but that.
        session => match (&spot.node.value, store.peek(session).await?) {
            (YamlValue::Map(_), Some(found)) => whole_record(checker, spot, Some(&found))?,
            (YamlValue::Null, found) if is_session(session) => {
                checker.holds(&spot.path, ensure(found.is_none(), || "a record is stored".into()));
            }
            _ => return Err(unknown("store_after", session, spot.node.line)),
        },
    }
    Ok(())
}

/// Tells a session's id from a key that nobody knows: keys are words, ids have a digit.
fn is_session(key: &str) -> bool {
    key.contains(|letter: char| letter.is_ascii_digit())
}

/// Asserts a record: its state alone, or its state and version by name.
fn whole_record(
    checker: &mut AssertionChecker,
    spot: LocatedNode,
    record: Option<&SessionRecord>,
) -> Outcome<()> {
    let state = record.map(state_of).transpose()?.unwrap_or_default();
    if spot.node.get("state").is_none() && spot.node.get("schema_version").is_none() {
        checker.exactly(&spot, state);
        return Ok(());
    }
    let mut wanted: YamlMapReader = spot.fields()?;
    if let Some(spot) = wanted.take("state") {
        checker.exactly(&spot, state);
    }
    if let Some(spot) = wanted.take("schema_version") {
        checker.exactly(&spot, record.map_or(Value::Null, |record| record.schema_version.clone().into()));
    }
    wanted.finish()
}
