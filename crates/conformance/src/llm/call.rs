//! One call of a case: its request, its options, and its expectations.

use std::time::Duration;

use singletree::llm::{Request, RuntimeConfig};

use super::values::{ValueResult, config, take_request};
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
    pub(super) fn of_list(spot: LocatedNode) -> Outcome<Self> {
        let path = spot.path.clone();
        let mut block = spot.fields()?;
        let mut call = Self::take(&mut block, path)?;
        call.take_expected(&mut block)?;
        block.text("name")?;
        block.text("description")?;
        block.finish()?;
        Ok(call)
    }

    /// Reads the one call of a case, whose expectations are keys of the case.
    ///
    /// # Errors
    /// When the fixture block has an unknown key or value.
    pub(super) fn of_case(spot: LocatedNode, case: &mut YamlMapReader) -> Outcome<Self> {
        let path = spot.path.clone();
        let mut block = spot.fields()?;
        let mut call = Self::take(&mut block, path)?;
        block.finish()?;
        call.take_expected(case)?;
        Ok(call)
    }

    fn take(block: &mut YamlMapReader, path: String) -> Outcome<Self> {
        let operation = block.need("operation")?;
        let operation = match operation.text()? {
            "complete" => ProviderOperation::Complete,
            "ready" => ProviderOperation::Ready,
            other => {
                return Err(CaseFailure::reader(&operation.path, format!("unknown operation '{other}'")));
            }
        };
        Ok(Self {
            path,
            operation,
            request: take_request(block)?,
            is_streamed: block.take("stream").map(|value| value.truth()).transpose()?.unwrap_or(false),
            retry: block.take("retry").filter(|value| !value.is_null()).map(retry).transpose()?,
            node_attempts: block.take("retry_middleware").map(node_attempts).transpose()?,
            wire_request: None,
            wire_checks: None,
            wire_absent: None,
            expected: None,
            invariants: None,
        })
    }

    fn take_expected(&mut self, block: &mut YamlMapReader) -> Outcome<()> {
        self.wire_request = block.take("expected_wire_request");
        self.wire_checks = block.take("expected_wire_request_checks");
        self.wire_absent = block.take("expected_wire_request_absent_keys");
        self.expected = block.take("expected");
        self.invariants = block.take("invariants");
        let complete = self.operation == ProviderOperation::Complete;
        if !complete && (self.is_streamed || self.retry.is_some() || self.node_attempts.is_some()) {
            return Err(CaseFailure::reader(&self.path, "'ready' is asked once, and whole"));
        }
        Ok(())
    }
}

fn retry(spot: LocatedNode) -> Outcome<CallRetrySpec> {
    let mut block = spot.fields()?;
    let mut spec = CallRetrySpec {
        max_attempts: block.take("max_attempts").map(|value| attempts(&value)).transpose()?,
        ..CallRetrySpec::default()
    };
    if let Some(it) = block.take("classifier") {
        default_classifier(&it)?;
    }
    if let Some(backoff) = block.take("backoff") {
        let mut backoff = backoff.fields()?;
        let kind = backoff.need("type")?;
        if kind.text()? != "deterministic" {
            return Err(CaseFailure::reader(&kind.path, format!("unknown backoff '{}'", kind.text()?)));
        }
        let seconds = backoff.need("seconds")?;
        let wait = Duration::try_from_secs_f64(seconds.number()?);
        spec.backoff = Some(wait.map_err(|error| CaseFailure::reader(&seconds.path, error.to_string()))?);
        backoff.finish()?;
    }
    if let Some(schedule) = block.take("per_attempt_override") {
        spec.overrides = schedule.items()?.into_iter().map(config).collect::<Outcome<_>>()?;
    }
    if let Some(reask) = block.take("reask") {
        let mut reask = reask.fields()?;
        spec.reask = Some(reask.need("template")?.text()?.to_owned());
        reask.finish()?;
    }
    block.finish()?;
    Ok(spec)
}

fn node_attempts(spot: LocatedNode) -> Outcome<u32> {
    let mut block = spot.fields()?;
    let count = attempts(&block.need("max_attempts")?)?;
    if let Some(it) = block.take("classifier") {
        default_classifier(&it)?;
    }
    block.finish()?;
    Ok(count)
}

fn attempts(spot: &LocatedNode) -> Outcome<u32> {
    u32::try_from(spot.whole()?).map_err(|_| CaseFailure::reader(&spot.path, "is no number of attempts"))
}

fn default_classifier(spot: &LocatedNode) -> Outcome<()> {
    match spot.text()? {
        "default" => Ok(()),
        other => Err(CaseFailure::reader(&spot.path, format!("unknown classifier '{other}'"))),
    }
}
