//! Expectations about errors (conformance-adapter §5.8, §5.13).

use std::error::Error as StdError;

use serde_json::{Value, json};
use singletree::durable::MigrationError;
use singletree::engine::{Error, NodeError, classify_error, format_error_chain, is_transient_error};

use crate::adapt;
use crate::check::{AssertionChecker, ensure};
use crate::failure::Outcome;
use crate::fields::{LocatedNode, YamlMapReader};
use crate::matcher::ExtraKeyPolicy;
use crate::run::InvocationResult;
use crate::sessions::MissingKeyError;

/// Tells an error in one line.
#[must_use]
pub(crate) fn describe_error(error: &Error) -> String {
    format!("{} ({})", format_error_chain(error), error.category())
}

/// Asserts the expectations of a fixture about an error. `surface` is for `expected_error`, whose category is the
/// engine's own; in `error` it may also be the category of the cause (R29).
///
/// # Errors
/// When the fixture block has an unknown key or value.
pub(crate) fn check_error(
    checker: &mut AssertionChecker,
    spot: LocatedNode,
    run: &InvocationResult,
    surface: bool,
) -> Outcome<()> {
    let Err(error) = &run.ended else {
        checker.check_result(&spot.path, Err(format!("it did not fail: it {}", run.outcome_word())));
        return Ok(());
    };
    let mut wanted = spot.into_map_reader()?;
    let category = wanted.take_required("category")?;
    let derived = error.derived_category();
    let is_derived = match surface {
        true => adapt::names_provider_category(category.as_text()?, derived),
        false => category.as_text()? == derived,
    };
    let actual = if is_derived { error.derived_category() } else { error.category() };
    checker.check_exact(&category, actual.to_owned());
    if let Some(it) = wanted.take_value("raised_from") {
        checker.check_exact(&it, error.node_location().map(|place| place.node.as_ref().to_owned()));
    }
    if let Some(it) = wanted.take_value("message") {
        checker.check_exact(&it, error_message(error));
    }
    if let Some(it) = wanted.take_value("recoverable_state") {
        let state =
            error.recoverable_state().map(|state| state.to_json().map(Value::Object).unwrap_or_default());
        checker.check_exact(&it, state.unwrap_or_default());
    }
    if let Some(it) = wanted.take_value("execution_order") {
        checker.check_exact(&it, run.reel.execution_order());
    }
    check_container_error(checker, &mut wanted, run, error)?;
    if let Some(it) = wanted.take_value("raised_at") {
        let place = if run.at_registration { "registration" } else { "invocation" };
        checker.check_exact(&it, place);
    }
    if let Some(it) = wanted.take_value("carries") {
        check_carried_fields(checker, it, error)?;
    }
    if let Some(it) = wanted.take_value("cause") {
        check_error_cause(checker, it, error)?;
    }
    wanted.reject_remaining_keys()
}

/// Asserts the expectations of middleware, fan-out and branch fixtures about an error.
fn check_container_error(
    checker: &mut AssertionChecker,
    wanted: &mut YamlMapReader,
    run: &InvocationResult,
    error: &Error,
) -> Outcome<()> {
    if let Some(it) = wanted.take_value("flaky_call_count") {
        checker.check_exact(&it, run.reel.mock_calls);
    }
    if let Some(it) = wanted.take_value("fan_out_category") {
        checker.check_exact(&it, error.derived_category().to_owned());
    }
    if let Some(it) = wanted.take_value("transient") {
        let transient = match error {
            Error::Node { source, .. } if source.is_transient() => true,
            _ => is_transient_error(&NodeError::new("").with_category(error.derived_category())),
        };
        checker.check_exact(&it, transient);
    }
    if let Some(it) = wanted.take_value("cause_message") {
        checker.check_exact(&it, classify_error(error).message);
    }
    if let Some(it) = wanted.take_value("branch_name") {
        checker.check_exact(&it, error.failed_branch_name());
    }
    Ok(())
}

/// Returns the message of the failing node or edge itself.
fn error_message(error: &Error) -> String {
    match error {
        Error::Node { source, .. } => source.to_string(),
        Error::Branch { source, .. } => source.to_string(),
        Error::Edge { source, .. } => source.to_string(),
        other => other.to_string(),
    }
}

/// Returns the fields that an error exposes, under the specifications' names.
fn exposed_fields(error: &Error) -> Value {
    match error {
        Error::SessionMigration { source, .. } | Error::CheckpointMigration { source, .. } => {
            migration_fields(source)
        }
        Error::Reducer { field, reducer, source, .. } => {
            json!({"field": field, "reducer": reducer, "message": source.to_string()})
        }
        Error::Routing { destination, .. } => json!({"destination": destination}),
        Error::SuspensionRecord { invocation, .. }
        | Error::CheckpointNotFound { invocation }
        | Error::CheckpointRecord { invocation, .. } => json!({"invocation_id": invocation}),
        _ => json!({}),
    }
}

/// The versions are those of the failed migration, which may be one step of a chain (pipeline-utilities §10.10).
fn migration_fields(error: &MigrationError) -> Value {
    match error {
        MigrationError::Missing {
            from_version,
            to_version,
            registered_migrations_count,
            registry_description,
        } => json!({
            "from_version": from_version,
            "to_version": to_version,
            "registered_migrations_count": registered_migrations_count,
            "registry_description": registry_description,
        }),
        MigrationError::Failed { from_version, to_version, .. } => {
            json!({"from_version": from_version, "to_version": to_version})
        }
        MigrationError::Ambiguous { from_version, to_version } => {
            json!({"from_version": from_version, "to_version": to_version})
        }
        // The enum is not exhaustive outside of its crate: a new variant exposes nothing that a fixture could name
        // yet.
        _ => json!({}),
    }
}

fn check_carried_fields(checker: &mut AssertionChecker, spot: LocatedNode, error: &Error) -> Outcome<()> {
    check_exposed_fields(checker, spot, &exposed_fields(error))
}

/// Asserts the fields that an error exposes: a field's value, its presence (`_present`), or a text in it
/// (`_mentions`) (conformance-adapter §5.13).
///
/// # Errors
/// When it is no map, or the mentioned value is no text.
pub(crate) fn check_exposed_fields(
    checker: &mut AssertionChecker,
    spot: LocatedNode,
    fields: &Value,
) -> Outcome<()> {
    let mut wanted = spot.into_map_reader()?;
    while let Some((key, it)) = wanted.take_next_entry() {
        let value = |name: &str| fields.get(name).filter(|field| !field.is_null());
        if let Some(name) = key.strip_suffix("_present") {
            checker.check_truth(&it, ensure(value(name).is_some(), || format!("the error has no '{name}'")));
        } else if let Some(name) = key.strip_suffix("_mentions") {
            let text = value(name).and_then(Value::as_str).unwrap_or_default();
            let part = it.as_text()?;
            checker.check_result(
                &it.path,
                ensure(text.contains(part), || format!("'{text}' does not mention '{part}'")),
            );
        } else {
            match value(&key) {
                Some(value) => checker.check_value(&it, value, ExtraKeyPolicy::Allowed),
                None => checker.check_result(&it.path, Err(format!("the error has no '{key}'"))),
            }
        }
    }
    Ok(())
}

fn check_error_cause(checker: &mut AssertionChecker, spot: LocatedNode, error: &Error) -> Outcome<()> {
    let mut wanted = spot.into_map_reader()?;
    // The one mock that raises an exception of a type raises this one.
    let mut causes = std::iter::successors(Some(error as &(dyn StdError + 'static)), |it| (*it).source());
    let found = causes.any(|cause| cause.is::<MissingKeyError>()).then_some("KeyError");
    checker.check_exact(&wanted.take_required("exception_type")?, found);
    wanted.reject_remaining_keys()
}
