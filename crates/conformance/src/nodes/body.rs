//! The directives of a node's body (conformance-adapter §5.1): reading them.

use std::time::Duration;

use serde_json::{Map, Value};
use singletree::engine::Signal;

use crate::adapt;
use crate::failure::{CaseFailure, Outcome};
use crate::fields::{LocatedNode, YamlMapReader};
use crate::schema::parse_literals;
use crate::telemetry::{NodeStepSpec, take_node_steps};

use super::flaky::{self, FlakyMockSpec, MOCKS, MockErrorSpec};
use super::{parse_milliseconds, parse_seconds};

/// The body of a node.
#[derive(Debug, Clone, Default)]
pub(crate) struct NodeBodySpec {
    /// How long it takes.
    pub(crate) sleep: Option<Duration>,
    /// The node drains its own invocation before it returns.
    pub(crate) drain: Option<NodeDrainSpec>,
    /// The node saves the session, as it will be with its update.
    pub(crate) save: bool,
    /// Its other directives, in order.
    pub(crate) steps: Vec<NodeStepSpec>,
    /// How it ends.
    pub(crate) end: BodyResultSpec,
}

/// A drain in a body.
#[derive(Debug, Clone)]
pub(crate) struct NodeDrainSpec {
    /// Its time limit.
    pub(crate) timeout: Option<Duration>,
    /// The observer whose events are noted when it returns.
    pub(crate) snapshot: Option<String>,
}

/// How a body ends.
#[derive(Debug, Clone)]
pub(crate) enum BodyResultSpec {
    /// With an update of literal values, or of fields that are read.
    Update(Map<String, Value>),
    /// With an update of one field, computed of another.
    FromField {
        /// The field that is set.
        target: String,
        /// The field that is read.
        source: String,
        /// The multiplier of its value.
        multiplier: i64,
    },
    /// With an error.
    Raises(MockErrorSpec),
    /// As a mock says that fails at times.
    Mock(FlakyMockSpec),
    /// As the fixture says for each attempt, from 0: the directives, and the error that it ends with, if any.
    Attempts(Vec<(Vec<NodeStepSpec>, Option<MockErrorSpec>)>),
    /// By suspending.
    Suspend {
        /// The signal to wait for.
        signal: Box<Signal>,
        /// A field of type bool that, when it is true, makes the body return an empty update instead.
        unless: Option<String>,
    },
    /// By suspending in one instance of a fan-out.
    SuspendAt {
        /// The item's value in that instance.
        item: i64,
        /// The signal to wait for.
        signal: Box<Signal>,
        /// The behaviour of the other instances: an update of one field computed of another, which is the item's.
        otherwise: Box<Self>,
    },
}

impl Default for BodyResultSpec {
    fn default() -> Self {
        Self::Update(Map::new())
    }
}

impl NodeBodySpec {
    /// Takes a body's directives out of a block.
    ///
    /// # Errors
    /// When the fixture block has an unknown key or value, or keys that cannot be combined.
    pub(super) fn take_from_block(block: &mut YamlMapReader) -> Outcome<Self> {
        let mut spec = Self::default();
        if let Some(it) = block.take_value("sleep_ms") {
            spec.sleep = Some(parse_milliseconds(&it)?);
        }
        if let Some(it) = block.take_value("explicit_save_session") {
            spec.save = it.as_bool()?;
        }
        if let Some(it) = block.take_value("invoke_drain_events_for") {
            let mut drain = it.into_map_reader()?;
            let timeout =
                drain.take_value("timeout_seconds").map(|it| parse_seconds(&it)).transpose()?.flatten();
            spec.drain = Some(NodeDrainSpec { timeout, snapshot: drain.take_text("snapshot_observer")? });
            drain.reject_remaining_keys()?;
        }
        spec.steps = take_node_steps(block)?;
        let nothing = spec.sleep.is_none() && spec.drain.is_none() && !spec.save && spec.steps.is_empty();
        match take_body_result(block)? {
            Some(end) => spec.end = end,
            None if nothing => return Err(missing_directive(block)),
            None => {}
        }
        Ok(spec)
    }
}

fn take_body_result(block: &mut YamlMapReader) -> Outcome<Option<BodyResultSpec>> {
    let mut ends = Vec::new();
    for key in ["update", "update_pure", "update_from_field", "suspend_with_descriptor"] {
        if let Some(it) = block.take_value(key) {
            ends.push(parse_body_result(key, it)?);
        }
    }
    if let Some(it) = block.take_value("raises") {
        let mut raised = parse_raised_error(it)?;
        if let Some(category) = adapt::take_error_category(block)? {
            raised.category = Some(category);
        }
        ends.push(BodyResultSpec::Raises(raised));
    }
    for key in MOCKS {
        if let Some(it) = block.take_value(key) {
            ends.push(BodyResultSpec::Mock(flaky::parse_flaky_mock(key, it)?));
        }
    }
    if let Some(list) = block.take_value("per_attempt_behavior") {
        ends.push(parse_attempt_behaviors(list)?);
    }
    if let Some(it) = block.take_value("conditional_suspend") {
        ends.push(parse_suspend_on_item(it, block.take_value("on_other_indices"))?);
    }
    if ends.len() > 1 {
        return Err(CaseFailure::reader_error(block.path(), "a node ends in more than one way"));
    }
    Ok(ends.pop())
}

/// Reads `per_attempt_behavior` (observability 045): one entry for each attempt, from 0.
fn parse_attempt_behaviors(list: LocatedNode) -> Outcome<BodyResultSpec> {
    let mut attempts = Vec::new();
    for (at, entry) in list.into_items()?.into_iter().enumerate() {
        let mut block = entry.into_map_reader()?;
        let number = block.take_required("attempt")?;
        if usize::try_from(number.as_integer()?) != Ok(at) {
            return Err(CaseFailure::reader_error(&number.path, "attempts are in order, from 0"));
        }
        let steps = take_node_steps(&mut block)?;
        let error = match (block.take_value("raises"), block.take_value("succeeds")) {
            (Some(raised), None) => {
                let transient = raised.as_text().is_ok_and(adapt::is_transient_marker);
                Some(MockErrorSpec { transient, ..parse_raised_error(raised)? })
            }
            (None, Some(succeeds)) if succeeds.as_bool()? => None,
            _ => return Err(CaseFailure::reader_error(block.path(), "an attempt raises or succeeds")),
        };
        block.reject_remaining_keys()?;
        attempts.push((steps, error));
    }
    Ok(BodyResultSpec::Attempts(attempts))
}

fn missing_directive(block: &YamlMapReader) -> CaseFailure {
    let keys: Vec<_> = block.remaining_keys().collect();
    CaseFailure::reader_error(block.path(), format!("no known directive among: {}", keys.join(", ")))
}

fn parse_body_result(key: &str, spot: LocatedNode) -> Outcome<BodyResultSpec> {
    match key {
        "update" | "update_pure" => Ok(BodyResultSpec::Update(parse_literals(spot)?)),
        "update_from_field" => parse_update_from_field(spot),
        _ => parse_suspend(spot),
    }
}

fn parse_update_from_field(spot: LocatedNode) -> Outcome<BodyResultSpec> {
    let mut block = spot.into_map_reader()?;
    let multiplier = block.take_value("multiplier").map(|value| value.as_integer()).transpose()?.unwrap_or(1);
    let path = block.path().to_owned();
    let (target, source) =
        block.take_next_entry().ok_or_else(|| CaseFailure::reader_error(path, "names no field"))?;
    let source = source.as_text()?.to_owned();
    block.reject_remaining_keys()?;
    Ok(BodyResultSpec::FromField { target, source, multiplier })
}

fn parse_raised_error(spot: LocatedNode) -> Outcome<MockErrorSpec> {
    if let Ok(message) = spot.as_text() {
        return Ok(MockErrorSpec {
            message: message.to_owned(),
            ..MockErrorSpec::with_default_message(None)
        });
    }
    let mut block = spot.into_map_reader()?;
    let mut raised = MockErrorSpec::with_default_message(block.take_text("category")?);
    if let Some(message) = block.take_text("message")? {
        raised.message = message;
    }
    // The kind is of another language; here an error without a category is of no kind.
    block.take_text("exception_kind")?;
    block.reject_remaining_keys()?;
    Ok(raised)
}

fn parse_suspend_on_item(spot: LocatedNode, beside: Option<LocatedNode>) -> Outcome<BodyResultSpec> {
    let mut block = spot.into_map_reader()?;
    let item = block.take_required("suspend_on_item_index")?.as_integer()?;
    let BodyResultSpec::Suspend { signal, .. } = parse_suspend(block.take_required("descriptor")?)? else {
        return Err(CaseFailure::reader_error(block.path(), "the descriptor suspends"));
    };
    let mut others = adapt::take_other_indices(&mut block, beside)?;
    let otherwise = parse_update_from_field(others.take_required("update_from_field")?)?;
    others.reject_remaining_keys()?;
    block.reject_remaining_keys()?;
    Ok(BodyResultSpec::SuspendAt { item, signal, otherwise: Box::new(otherwise) })
}

fn parse_suspend(spot: LocatedNode) -> Outcome<BodyResultSpec> {
    let mut block = spot.into_map_reader()?;
    let mut signal = Signal::new(block.take_required("signal_id")?.as_text()?);
    if let Some(metadata) = block.take_value("metadata") {
        signal = signal.metadata(metadata.node.to_json());
    }
    // Extensions, for parts of the specification that no fixture of it exercises.
    if let Some(it) = block.take_value("dev.singletree.mark_node_completed") {
        signal = signal.mark_node_completed(it.as_bool()?);
    }
    let unless = block.take_text("dev.singletree.unless_field")?;
    block.reject_remaining_keys()?;
    Ok(BodyResultSpec::Suspend { signal: Box::new(signal), unless })
}
