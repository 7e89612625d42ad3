//! The directives of a node's body (conformance-adapter §5.1): reading them.

use std::time::Duration;

use serde_json::{Map, Value};
use singletree::engine::Signal;

use crate::adapt;
use crate::failure::{CaseFailure, Outcome};
use crate::fields::{LocatedNode, YamlMapReader};
use crate::schema::literals;

use super::flaky::{self, FlakyMockSpec, MOCKS, MockErrorSpec};
use super::{millis, seconds};

/// The body of a node.
#[derive(Debug, Clone, Default)]
pub(crate) struct NodeBodySpec {
    /// How long it takes.
    pub(crate) sleep: Option<Duration>,
    /// The node drains its own invocation before it returns.
    pub(crate) drain: Option<NodeDrainSpec>,
    /// The node saves the session, as it will be with its update.
    pub(crate) save: bool,
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
    pub(super) fn take(block: &mut YamlMapReader) -> Outcome<Self> {
        let mut spec = Self::default();
        if let Some(it) = block.take("sleep_ms") {
            spec.sleep = Some(millis(&it)?);
        }
        if let Some(it) = block.take("explicit_save_session") {
            spec.save = it.truth()?;
        }
        if let Some(it) = block.take("invoke_drain_events_for") {
            let mut drain = it.fields()?;
            let timeout = drain.take("timeout_seconds").map(|it| seconds(&it)).transpose()?.flatten();
            spec.drain = Some(NodeDrainSpec { timeout, snapshot: drain.text("snapshot_observer")? });
            drain.finish()?;
        }
        let nothing = spec.sleep.is_none() && spec.drain.is_none() && !spec.save;
        match take_end(block)? {
            Some(end) => spec.end = end,
            None if nothing => return Err(no_directive(block)),
            None => {}
        }
        Ok(spec)
    }
}

fn take_end(block: &mut YamlMapReader) -> Outcome<Option<BodyResultSpec>> {
    let mut ends = Vec::new();
    for key in ["update", "update_pure", "update_from_field", "suspend_with_descriptor"] {
        if let Some(it) = block.take(key) {
            ends.push(end(key, it)?);
        }
    }
    if let Some(it) = block.take("raises") {
        let mut raised = raises(it)?;
        if let Some(category) = adapt::category_beside(block)? {
            raised.category = Some(category);
        }
        ends.push(BodyResultSpec::Raises(raised));
    }
    for key in MOCKS {
        if let Some(it) = block.take(key) {
            ends.push(BodyResultSpec::Mock(flaky::read(key, it)?));
        }
    }
    if let Some(it) = block.take("conditional_suspend") {
        ends.push(suspend_at(it, block.take("on_other_indices"))?);
    }
    if ends.len() > 1 {
        return Err(CaseFailure::reader(block.path(), "a node ends in more than one way"));
    }
    Ok(ends.pop())
}

fn no_directive(block: &YamlMapReader) -> CaseFailure {
    let keys: Vec<_> = block.keys().collect();
    CaseFailure::reader(block.path(), format!("no known directive among: {}", keys.join(", ")))
}

fn end(key: &str, spot: LocatedNode) -> Outcome<BodyResultSpec> {
    match key {
        "update" | "update_pure" => Ok(BodyResultSpec::Update(literals(spot)?)),
        "update_from_field" => from_field(spot),
        _ => suspend(spot),
    }
}

fn from_field(spot: LocatedNode) -> Outcome<BodyResultSpec> {
    let mut block = spot.fields()?;
    let multiplier = block.take("multiplier").map(|value| value.whole()).transpose()?.unwrap_or(1);
    let path = block.path().to_owned();
    let (target, source) = block.next().ok_or_else(|| CaseFailure::reader(path, "names no field"))?;
    let source = source.text()?.to_owned();
    block.finish()?;
    Ok(BodyResultSpec::FromField { target, source, multiplier })
}

fn raises(spot: LocatedNode) -> Outcome<MockErrorSpec> {
    if let Ok(message) = spot.text() {
        return Ok(MockErrorSpec { message: message.to_owned(), ..MockErrorSpec::plain(None) });
    }
    let mut block = spot.fields()?;
    let mut raised = MockErrorSpec::plain(block.text("category")?);
    if let Some(message) = block.text("message")? {
        raised.message = message;
    }
    // The kind is of another language; here an error without a category is of no kind.
    block.text("exception_kind")?;
    block.finish()?;
    Ok(raised)
}

fn suspend_at(spot: LocatedNode, beside: Option<LocatedNode>) -> Outcome<BodyResultSpec> {
    let mut block = spot.fields()?;
    let item = block.need("suspend_on_item_index")?.whole()?;
    let BodyResultSpec::Suspend { signal, .. } = suspend(block.need("descriptor")?)? else {
        return Err(CaseFailure::reader(block.path(), "the descriptor suspends"));
    };
    let mut others = adapt::other_indices(&mut block, beside)?;
    let otherwise = from_field(others.need("update_from_field")?)?;
    others.finish()?;
    block.finish()?;
    Ok(BodyResultSpec::SuspendAt { item, signal, otherwise: Box::new(otherwise) })
}

fn suspend(spot: LocatedNode) -> Outcome<BodyResultSpec> {
    let mut block = spot.fields()?;
    let mut signal = Signal::new(block.need("signal_id")?.text()?);
    if let Some(metadata) = block.take("metadata") {
        signal = signal.metadata(metadata.node.to_json());
    }
    // Extensions, for parts of the specification that no fixture of it exercises.
    if let Some(it) = block.take("dev.singletree.mark_node_completed") {
        signal = signal.mark_node_completed(it.truth()?);
    }
    let unless = block.text("dev.singletree.unless_field")?;
    block.finish()?;
    Ok(BodyResultSpec::Suspend { signal: Box::new(signal), unless })
}
