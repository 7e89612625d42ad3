//! One call of a case: its request, its options, and its expectations.

use std::time::Duration;

use singletree::llm::{Request, RuntimeConfig};

use super::values::{ValueResult, parse_config, take_request};
use crate::failure::{CaseFailure, Outcome};
use crate::fields::{LocatedNode, YamlMapReader};

/// The operation of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProviderOperation {
    /// Ask for an answer.
    Complete,
    /// Ask whether asking would work.
    Ready,
}

/// A call.
#[derive(Debug)]
pub(super) struct ProviderCallSpec {
    /// Where it stands.
    pub(super) path: String,
    /// The operation.
    pub(super) operation: ProviderOperation,
    /// The request, or the reason why such a request cannot be constructed.
    pub(super) request: ValueResult<Request>,
    /// Whether it is asked delta by delta.
    pub(super) is_streamed: bool,
    /// How the call is tried again.
    pub(super) retry: Option<CallRetrySpec>,
    /// How often the engine's retry around it tries.
    pub(super) node_attempts: Option<u32>,
    /// The expected request body.
    pub(super) wire_request: Option<LocatedNode>,
    /// The checks of the sent request.
    pub(super) wire_checks: Option<LocatedNode>,
    /// Keys that are not sent.
    pub(super) wire_absent: Option<LocatedNode>,
    /// The expected outcome.
    pub(super) expected: Option<LocatedNode>,
    /// The invariants of the call.
    pub(super) invariants: Option<LocatedNode>,
}

/// A retry at the level of the call (conformance-adapter §5.11).
#[derive(Debug, Clone, Default)]
pub(super) struct CallRetrySpec {
    /// How many attempts there are in all; the default of the crate otherwise.
    pub(super) max_attempts: Option<u32>,
    /// How long is waited, always.
    pub(super) backoff: Option<Duration>,
    /// How retries sample.
    pub(super) overrides: Vec<RuntimeConfig>,
    /// The reply to output that does not match the schema.
    pub(super) reask: Option<String>,
}

impl ProviderCallSpec {
    /// Reads a call of a list, with everything that is expected of it.
    ///
    /// # Errors
    /// When the fixture block has an unknown key or value.
    pub(super) fn from_list_item(spot: LocatedNode) -> Outcome<Self> {
        let path = spot.path.clone();
        let mut block = spot.into_map_reader()?;
        let mut call = Self::take_from_block(&mut block, path)?;
        call.take_expectations(&mut block)?;
        block.take_text("name")?;
        block.take_text("description")?;
        block.reject_remaining_keys()?;
        Ok(call)
    }

    /// Reads the one call of a case, whose expectations are keys of the case.
    ///
    /// # Errors
    /// When the fixture block has an unknown key or value.
    pub(super) fn from_case_block(spot: LocatedNode, case: &mut YamlMapReader) -> Outcome<Self> {
        let path = spot.path.clone();
        let mut block = spot.into_map_reader()?;
        let mut call = Self::take_from_block(&mut block, path)?;
        block.reject_remaining_keys()?;
        call.take_expectations(case)?;
        Ok(call)
    }

    fn take_from_block(block: &mut YamlMapReader, path: String) -> Outcome<Self> {
        let operation = block.take_required("operation")?;
        let operation = match operation.as_text()? {
            "complete" => ProviderOperation::Complete,
            "ready" => ProviderOperation::Ready,
            other => {
                return Err(CaseFailure::reader_error(
                    &operation.path,
                    format!("unknown operation '{other}'"),
                ));
            }
        };
        Ok(Self {
            path,
            operation,
            request: take_request(block)?,
            is_streamed: block
                .take_value("stream")
                .map(|value| value.as_bool())
                .transpose()?
                .unwrap_or(false),
            retry: block
                .take_value("retry")
                .filter(|value| !value.is_null())
                .map(parse_call_retry)
                .transpose()?,
            node_attempts: block.take_value("retry_middleware").map(parse_node_attempts).transpose()?,
            wire_request: None,
            wire_checks: None,
            wire_absent: None,
            expected: None,
            invariants: None,
        })
    }

    fn take_expectations(&mut self, block: &mut YamlMapReader) -> Outcome<()> {
        self.wire_request = block.take_value("expected_wire_request");
        self.wire_checks = block.take_value("expected_wire_request_checks");
        self.wire_absent = block.take_value("expected_wire_request_absent_keys");
        self.expected = block.take_value("expected");
        self.invariants = block.take_value("invariants");
        let complete = self.operation == ProviderOperation::Complete;
        if !complete && (self.is_streamed || self.retry.is_some() || self.node_attempts.is_some()) {
            return Err(CaseFailure::reader_error(&self.path, "'ready' is asked once, and whole"));
        }
        Ok(())
    }
}

/// Reads a retry at the level of the call.
///
/// # Errors
/// When the fixture block has an unknown key or value.
pub(super) fn parse_call_retry(spot: LocatedNode) -> Outcome<CallRetrySpec> {
    let mut block = spot.into_map_reader()?;
    let mut spec = CallRetrySpec {
        max_attempts: block
            .take_value("max_attempts")
            .map(|value| parse_attempt_count(&value))
            .transpose()?,
        ..CallRetrySpec::default()
    };
    if let Some(it) = block.take_value("classifier") {
        require_default_classifier(&it)?;
    }
    if let Some(backoff) = block.take_value("backoff") {
        let mut backoff = backoff.into_map_reader()?;
        let kind = backoff.take_required("type")?;
        if kind.as_text()? != "deterministic" {
            return Err(CaseFailure::reader_error(
                &kind.path,
                format!("unknown backoff '{}'", kind.as_text()?),
            ));
        }
        let seconds = backoff.take_required("seconds")?;
        let wait = Duration::try_from_secs_f64(seconds.as_number()?);
        spec.backoff =
            Some(wait.map_err(|error| CaseFailure::reader_error(&seconds.path, error.to_string()))?);
        backoff.reject_remaining_keys()?;
    }
    if let Some(schedule) = block.take_value("per_attempt_override") {
        spec.overrides = schedule.into_items()?.into_iter().map(parse_config).collect::<Outcome<_>>()?;
    }
    if let Some(reask) = block.take_value("reask") {
        let mut reask = reask.into_map_reader()?;
        spec.reask = Some(reask.take_required("template")?.as_text()?.to_owned());
        reask.reject_remaining_keys()?;
    }
    block.reject_remaining_keys()?;
    Ok(spec)
}

fn parse_node_attempts(spot: LocatedNode) -> Outcome<u32> {
    let mut block = spot.into_map_reader()?;
    let count = parse_attempt_count(&block.take_required("max_attempts")?)?;
    if let Some(it) = block.take_value("classifier") {
        require_default_classifier(&it)?;
    }
    block.reject_remaining_keys()?;
    Ok(count)
}

fn parse_attempt_count(spot: &LocatedNode) -> Outcome<u32> {
    u32::try_from(spot.as_integer()?)
        .map_err(|_| CaseFailure::reader_error(&spot.path, "is no number of attempts"))
}

fn require_default_classifier(spot: &LocatedNode) -> Outcome<()> {
    match spot.as_text()? {
        "default" => Ok(()),
        other => Err(CaseFailure::reader_error(&spot.path, format!("unknown classifier '{other}'"))),
    }
}
