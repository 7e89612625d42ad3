//! Expectations about the session store after an invocation. conformance-adapter names the subject (the record that a
//! load gives) but not every key, so each question has the spellings that follow from the store's operations
//! (sessions §5).

use serde_json::{Value, json};
use singletree::durable::SessionRecord;

use super::check_excluded_fields;
use crate::check::{AssertionChecker, ensure};
use crate::failure::{CaseFailure, Outcome};
use crate::fields::{LocatedNode, YamlMapReader, unknown_key};
use crate::matcher::ExtraKeyPolicy;
use crate::run::InvocationResult;
use crate::sessions::{RecordingSessionStore, state_to_json};
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
pub(super) async fn check_store_after_run(
    checker: &mut AssertionChecker,
    spot: LocatedNode,
    run: &InvocationResult,
    (own, store): (Option<&str>, Option<&RecordingSessionStore>),
) -> Outcome<()> {
    let store =
        store.ok_or_else(|| CaseFailure::reader_error(&spot.path, "no session store is registered"))?;
    if spot.is_null() {
        let path = spot.path.clone();
        let count = store.session_ids().await?.len();
        checker.check_result(&path, ensure(count == 0, || format!("{count} sessions are stored")));
        return Ok(());
    }
    let mut wanted = spot.into_map_reader()?;
    let path = wanted.path().to_owned();
    let named = SESSION.iter().find_map(|key| wanted.take_value(key));
    let session = match &named {
        Some(named) => Some(named.as_text()?.to_owned()),
        None => own.map(str::to_owned),
    };
    let record = match &session {
        Some(session) => store.peek_record(session).await?,
        None => None,
    };
    let is_all = wanted.remaining_keys().next().is_none();
    if is_all {
        let named = named.ok_or_else(|| CaseFailure::reader_error(&path, "it says nothing of the store"))?;
        checker.check_result(&named.path, ensure(record.is_some(), || "nothing is stored".into()));
    }
    while let Some((key, spot)) = wanted.take_next_entry() {
        check_stored_key(checker, (&key, spot), run, (record.as_ref(), store)).await?;
    }
    Ok(())
}

async fn check_stored_key(
    checker: &mut AssertionChecker,
    (key, spot): (&str, LocatedNode),
    run: &InvocationResult,
    (record, store): (Option<&SessionRecord>, &RecordingSessionStore),
) -> Outcome<()> {
    let state = || record.map(state_to_json).transpose().map(Option::unwrap_or_default);
    let exists = ensure(record.is_some(), || "nothing is stored".into());
    match key {
        "loaded_state" | "state" | "session_state" => checker.check_exact(&spot, state()?),
        "state_includes" | "loaded_state_includes" => {
            checker.check_value(&spot, &state()?, ExtraKeyPolicy::Allowed)
        }
        "loaded_schema_version" | "schema_version" => {
            checker.check_exact(&spot, record.map(|record| record.schema_version.clone()));
        }
        "load_returns" | "loaded_record" | "record" if !spot.is_null() => {
            check_whole_record(checker, spot, record)?
        }
        "load_returns" | "loaded_record" | "record" => {
            checker.check_result(&spot.path, ensure(record.is_none(), || "a record is stored".into()));
        }
        "excludes_fields" => check_excluded_fields(checker, spot, (&state()?, &run.declared_fields()))?,
        "save_count" => checker.check_exact(&spot, run.reel.saved_records().count()),
        "load_count" => {
            let loads =
                run.reel.calls.iter().filter(|call| matches!(call, SessionStoreCall::Load(_))).count();
            checker.check_exact(&spot, loads);
        }
        "record_count" | "session_count" => checker.check_exact(&spot, store.session_ids().await?.len()),
        "list_returns" | "session_ids" => checker.check_exact(&spot, json!(store.session_ids().await?)),
        "empty" | "is_empty" => {
            let count = store.session_ids().await?.len();
            checker.check_truth(&spot, ensure(count == 0, || format!("{count} sessions are stored")));
        }
        key if EXISTS.contains(&key) => checker.check_truth(&spot, exists),
        key if ABSENT.contains(&key) => {
            checker.check_truth(&spot, ensure(record.is_none(), || "a record is stored".into()));
        }
        key if NO_SESSION.contains(&key) => {
            let found = store.peek_record(spot.as_text()?).await?;
            checker.check_result(&spot.path, ensure(found.is_none(), || "a record is stored".into()));
        }
        // A session by its id, and its state; of one that is not stored nothing can be expected but that.
        session => match (&spot.node.value, store.peek_record(session).await?) {
            (YamlValue::Map(_), Some(found)) => check_whole_record(checker, spot, Some(&found))?,
            (YamlValue::Null, found) if is_session_id(session) => {
                checker.check_result(&spot.path, ensure(found.is_none(), || "a record is stored".into()));
            }
            _ => return Err(unknown_key("store_after", session, spot.node.line)),
        },
    }
    Ok(())
}

/// Tells a session's id from a key that nobody knows: keys are words, ids have a digit.
fn is_session_id(key: &str) -> bool {
    key.contains(|letter: char| letter.is_ascii_digit())
}

/// Asserts a record: its state alone, or its state and version by name.
fn check_whole_record(
    checker: &mut AssertionChecker,
    spot: LocatedNode,
    record: Option<&SessionRecord>,
) -> Outcome<()> {
    let state = record.map(state_to_json).transpose()?.unwrap_or_default();
    if spot.node.get_entry("state").is_none() && spot.node.get_entry("schema_version").is_none() {
        checker.check_exact(&spot, state);
        return Ok(());
    }
    let mut wanted: YamlMapReader = spot.into_map_reader()?;
    if let Some(spot) = wanted.take_value("state") {
        checker.check_exact(&spot, state);
    }
    if let Some(spot) = wanted.take_value("schema_version") {
        checker.check_exact(&spot, record.map_or(Value::Null, |record| record.schema_version.clone().into()));
    }
    wanted.reject_remaining_keys()
}
