//! Middleware directives: the canonical ones of pipeline-utilities §6, and those of the fixtures (the header of
//! pipeline-utilities 001 is their vocabulary).

use std::time::Duration;

use serde_json::{Map, Value};
use singletree::engine::Signal;

use crate::adapt;
use crate::failure::{CaseFailure, Outcome};
use crate::fields::{LocatedNode, YamlMapReader};
use crate::schema::literals;

/// Where a middleware's timing records go; fixtures name no other place.
const TIMING_RECORDS: &str = "timing_records";

/// A middleware as the fixture describes it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum MiddlewareSpec {
    /// Canonical retry (§6.1).
    Retry(RetryMiddlewareSpec),
    /// Canonical timing (§6.2); without a name it takes that of the node it is attached to.
    Timing {
        /// The name in its records.
        node: Option<String>,
    },
    /// Canonical failure isolation (§6.3).
    Isolation(Box<IsolationSpec>),
    /// Records the state and the update, and may mark the list `trace` of the update that passes.
    Recorder {
        /// Its name in the expectations.
        name: String,
        /// Put before the update's list.
        pre: Option<String>,
        /// Put after it.
        post: Option<String>,
    },
    /// Returns an update and never calls the wrapped node.
    ShortCircuit(Map<String, Value>),
    /// Returns an update when the wrapped call fails.
    Recovery(Map<String, Value>),
    /// Fails before it calls the wrapped node.
    Raiser(String),
    /// Fails when the state that it received has changed during the wrapped call.
    Inspector,
    /// Writes a line before and a line after the wrapped call.
    Logger {
        /// The line before.
        pre: Option<String>,
        /// The line after.
        post: Option<String>,
    },
    /// Tries to suspend before it calls the wrapped node.
    Suspender(Box<Signal>),
}

/// A retry.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct RetryMiddlewareSpec {
    /// How often at most; the engine's default otherwise.
    pub(crate) max_attempts: Option<u32>,
    /// How long between attempts; the engine's default otherwise.
    pub(crate) backoff: Option<Duration>,
    /// The failures to retry; the engine's default otherwise.
    pub(crate) classifier: Option<RetryClassifier>,
}

/// The failures to retry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RetryClassifier {
    /// Everything, as long as the field `max_retries_remaining` of the state is positive.
    WhileRetriesRemain,
    /// Failures of these categories.
    Categories(Vec<String>),
}

/// A failure isolation.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct IsolationSpec {
    /// The result that it returns instead.
    pub(crate) degraded: DegradedResultSpec,
    /// The name of its event.
    pub(crate) event_name: String,
    /// Which derived categories it catches; all when there is no such set.
    pub(crate) catch: Option<Vec<String>>,
    /// The category of the surface failure that it catches; all otherwise.
    pub(crate) predicate: Option<String>,
    /// The fields that its callback writes.
    pub(crate) on_caught: Option<SideChannel>,
}

/// The result that a failure isolation returns.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum DegradedResultSpec {
    /// An update.
    Update(Map<String, Value>),
    /// A text in one field, made of a template over the state.
    Template {
        /// The text, with `{{ state.field }}` where a field's value goes.
        template: String,
        /// The field.
        target: String,
    },
}

/// A callback that counts and notes in fields of the final state. It has no access to the state itself, so the runner
/// adds these fields to the state that it shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SideChannel {
    /// The field that counts its calls.
    pub(crate) count: String,
    /// The field that holds the last message.
    pub(crate) message: String,
}

/// The middleware of one graph.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct MiddlewareSites {
    /// Around every node.
    pub(crate) per_graph: Vec<MiddlewareSpec>,
    /// Around single nodes, by name.
    pub(crate) per_node: Vec<(String, Vec<MiddlewareSpec>)>,
}

impl MiddlewareSites {
    /// Takes `middleware:` out of a graph's block.
    ///
    /// # Errors
    /// When the fixture block has an unknown key or value.
    pub(crate) fn take(block: &mut YamlMapReader) -> Outcome<Self> {
        let mut sites = Self::default();
        let Some(spot) = block.take("middleware") else { return Ok(sites) };
        let mut places = spot.fields()?;
        if let Some(it) = places.take("per_graph") {
            sites.per_graph = list(it)?;
        }
        if let Some(it) = places.take("per_node") {
            let mut nodes = it.fields()?;
            while let Some((node, it)) = nodes.next() {
                sites.per_node.push((node, list(it)?));
            }
        }
        places.finish()?;
        Ok(sites)
    }
}

/// Reads a list of middleware, outermost first.
///
/// # Errors
/// When the fixture block has an unknown key or value.
pub(crate) fn list(spot: LocatedNode) -> Outcome<Vec<MiddlewareSpec>> {
    spot.items()?.into_iter().map(one).collect()
}

fn one(spot: LocatedNode) -> Outcome<MiddlewareSpec> {
    let (kind, mut block) = adapt::typed(spot.fields()?)?;
    let spec = match kind.text()? {
        "retry" => MiddlewareSpec::Retry(retry(&mut block)?),
        "timing" => timing(&mut block)?,
        "failure_isolation" => MiddlewareSpec::Isolation(Box::new(isolation(&mut block)?)),
        "trace_recorder" => MiddlewareSpec::Recorder {
            name: block.need("name")?.text()?.to_owned(),
            pre: block.text("pre_marker")?,
            post: block.text("post_marker")?,
        },
        "short_circuit" => MiddlewareSpec::ShortCircuit(literals(block.need("partial_update")?)?),
        "error_recovery" => MiddlewareSpec::Recovery(literals(block.need("partial_update")?)?),
        "error_raiser" => MiddlewareSpec::Raiser(block.need("message")?.text()?.to_owned()),
        "state_inspector" => MiddlewareSpec::Inspector,
        other => return Err(CaseFailure::reader(&kind.path, format!("unknown middleware '{other}'"))),
    };
    block.finish()?;
    Ok(spec)
}

/// Reads `wrap_with_middleware:` (conformance-adapter §5.1), whose keys declare the behaviour of each middleware.
///
/// # Errors
/// When the fixture block has an unknown key or value.
pub(crate) fn wrapping(spot: LocatedNode) -> Outcome<Vec<MiddlewareSpec>> {
    let one = |spot: LocatedNode| {
        let mut block = spot.fields()?;
        block.need("name")?.text()?;
        let suspends = block.take("pre_next_calls_suspend_with_descriptor");
        let spec = match suspends {
            Some(it) => {
                let mut descriptor = it.fields()?;
                let mut signal = Signal::new(descriptor.need("signal_id")?.text()?);
                if let Some(it) = descriptor.take("metadata") {
                    signal = signal.metadata(it.node.to_json());
                }
                descriptor.finish()?;
                MiddlewareSpec::Suspender(Box::new(signal))
            }
            None => MiddlewareSpec::Logger { pre: block.text("pre_log")?, post: block.text("post_log")? },
        };
        block.finish()?;
        Ok(spec)
    };
    spot.items()?.into_iter().map(one).collect()
}

fn retry(block: &mut YamlMapReader) -> Outcome<RetryMiddlewareSpec> {
    let max_attempts = block.take("max_attempts").map(|value| {
        let attempts = u32::try_from(value.whole()?);
        attempts.map_err(|_| value.wrong("a number of attempts"))
    });
    let backoff = block.take("backoff").map(|value| {
        let mut backoff = value.fields()?;
        let kind = backoff.need("type")?;
        if kind.text()? != "deterministic" {
            return Err(CaseFailure::reader(&kind.path, format!("unknown backoff '{}'", kind.text()?)));
        }
        let seconds = backoff.need("seconds")?;
        backoff.finish()?;
        Duration::try_from_secs_f64(seconds.number()?).map_err(|_| seconds.wrong("a time"))
    });
    let classifier = block.take("classifier").map(|value| {
        let mut classifier = value.fields()?;
        let read = match classifier.take("type") {
            Some(kind) if kind.text()? == "state_aware_max_retries_remaining" => {
                RetryClassifier::WhileRetriesRemain
            }
            Some(kind) => {
                return Err(CaseFailure::reader(
                    &kind.path,
                    format!("unknown classifier '{}'", kind.text()?),
                ));
            }
            None => RetryClassifier::Categories(classifier.need("transient_categories")?.texts()?),
        };
        classifier.finish()?;
        Ok(read)
    });
    Ok(RetryMiddlewareSpec {
        max_attempts: max_attempts.transpose()?,
        backoff: backoff.transpose()?,
        classifier: classifier.transpose()?,
    })
}

fn timing(block: &mut YamlMapReader) -> Outcome<MiddlewareSpec> {
    let node = block.text("node_name")?;
    let mut complete = block.need("on_complete")?.fields()?;
    let place = complete.need("capture_to")?;
    complete.finish()?;
    if place.text()? != TIMING_RECORDS {
        return Err(CaseFailure::reader(&place.path, format!("nothing is captured to '{}'", place.text()?)));
    }
    Ok(MiddlewareSpec::Timing { node })
}

fn isolation(block: &mut YamlMapReader) -> Outcome<IsolationSpec> {
    let predicate = block.take("predicate").map(|value| {
        let mut predicate = value.fields()?;
        let category = predicate.need("matches_category")?.text()?.to_owned();
        predicate.finish()?;
        Ok(category)
    });
    let on_caught = block.take("on_caught").map(side_channel);
    Ok(IsolationSpec {
        degraded: degraded(block.need("degraded_update")?)?,
        event_name: block.need("event_name")?.text()?.to_owned(),
        catch: block.take("catch").map(LocatedNode::texts).transpose()?,
        predicate: predicate.transpose()?,
        on_caught: on_caught.transpose()?,
    })
}

fn degraded(spot: LocatedNode) -> Outcome<DegradedResultSpec> {
    if spot.node.get("callable").is_none() {
        return literals(spot).map(DegradedResultSpec::Update);
    }
    let mut block = spot.fields()?;
    let kind = block.need("callable")?;
    if kind.text()? != "state_derived" {
        return Err(CaseFailure::reader(&kind.path, format!("unknown callable '{}'", kind.text()?)));
    }
    let degraded = DegradedResultSpec::Template {
        template: block.need("template")?.text()?.to_owned(),
        target: block.need("target_field")?.text()?.to_owned(),
    };
    block.finish()?;
    Ok(degraded)
}

fn side_channel(spot: LocatedNode) -> Outcome<SideChannel> {
    let mut block = spot.fields()?;
    let kind = block.need("kind")?;
    if kind.text()? != "record_to_state_side_channel" {
        return Err(CaseFailure::reader(&kind.path, format!("unknown callback '{}'", kind.text()?)));
    }
    let channel = SideChannel {
        count: block.need("increment_field")?.text()?.to_owned(),
        message: block.need("capture_message_field")?.text()?.to_owned(),
    };
    block.finish()?;
    Ok(channel)
}
