//! Middleware directives: the canonical ones of pipeline-utilities §6, and those of the fixtures (the header of
//! pipeline-utilities 001 is their vocabulary).

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};
use singletree::engine::Signal;

use crate::adapt;
use crate::check::ensure;
use crate::failure::{CaseFailure, Outcome};
use crate::fields::{LocatedNode, YamlMapReader};
use crate::llm::ModelCallSpec;
use crate::schema::parse_literals;
use crate::telemetry::{LogLineSpec, parse_log_line};
use crate::yaml::YamlValue;

/// Where a middleware's timing records go; fixtures name no other place.
const TIMING_RECORDS: &str = "timing_records";

/// A middleware as the fixture describes it.
#[derive(Debug, Clone)]
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
    /// Calls the case's model beside the wrapped node.
    ModelCaller {
        /// The call.
        call: Arc<ModelCallSpec>,
        /// Whether the call is made before the node runs; after it otherwise.
        is_before: bool,
    },
    /// Writes a line of a log before the wrapped node runs.
    LineWriter(LogLineSpec),
    /// Puts the entries of an instance's item into the fields of their names.
    ItemUnpacker,
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
#[derive(Debug, Clone, Default)]
pub(crate) struct MiddlewareSites {
    /// Around every node.
    pub(crate) per_graph: Vec<MiddlewareSpec>,
    /// Around single nodes, by name.
    pub(crate) per_node: Vec<(String, Vec<MiddlewareSpec>)>,
}

impl MiddlewareSites {
    /// Tells whether there is none.
    #[must_use]
    pub(crate) fn is_empty(&self) -> bool {
        self.per_graph.is_empty() && self.per_node.is_empty()
    }

    /// Takes `middleware:` out of a graph's block.
    ///
    /// # Errors
    /// When the fixture block has an unknown key or value.
    pub(crate) fn take_from_block(block: &mut YamlMapReader) -> Outcome<Self> {
        let mut sites = Self::default();
        let Some(spot) = block.take_value("middleware") else { return Ok(sites) };
        let mut places = spot.into_map_reader()?;
        if let Some(it) = places.take_value("per_graph") {
            sites.per_graph = parse_middleware_list(it)?;
        }
        if let Some(it) = places.take_value("per_node") {
            let mut nodes = it.into_map_reader()?;
            while let Some((node, it)) = nodes.take_next_entry() {
                sites.per_node.push((node, parse_middleware_list(it)?));
            }
        }
        places.reject_remaining_keys()?;
        Ok(sites)
    }
}

/// Reads a list of middleware, outermost first.
///
/// # Errors
/// When the fixture block has an unknown key or value.
pub(crate) fn parse_middleware_list(spot: LocatedNode) -> Outcome<Vec<MiddlewareSpec>> {
    spot.into_items()?.into_iter().map(parse_middleware).collect()
}

fn parse_middleware(spot: LocatedNode) -> Outcome<MiddlewareSpec> {
    let (kind, mut block) = adapt::split_middleware_type(spot.into_map_reader()?)?;
    let spec = match kind.as_text()? {
        "retry" => MiddlewareSpec::Retry(take_retry(&mut block)?),
        "timing" => take_timing(&mut block)?,
        "failure_isolation" => MiddlewareSpec::Isolation(Box::new(take_isolation(&mut block)?)),
        "trace_recorder" => MiddlewareSpec::Recorder {
            name: block.take_required("name")?.as_text()?.to_owned(),
            pre: block.take_text("pre_marker")?,
            post: block.take_text("post_marker")?,
        },
        "short_circuit" => {
            MiddlewareSpec::ShortCircuit(parse_literals(block.take_required("partial_update")?)?)
        }
        "error_recovery" => MiddlewareSpec::Recovery(parse_literals(block.take_required("partial_update")?)?),
        "error_raiser" => MiddlewareSpec::Raiser(block.take_required("message")?.as_text()?.to_owned()),
        "state_inspector" => MiddlewareSpec::Inspector,
        other => return Err(CaseFailure::reader_error(&kind.path, format!("unknown middleware '{other}'"))),
    };
    block.reject_remaining_keys()?;
    Ok(spec)
}

/// Reads `wrap_with_middleware:` (conformance-adapter §5.1), whose keys declare the behaviour of each middleware.
///
/// # Errors
/// When the fixture block has an unknown key or value.
pub(crate) fn parse_wrapping_middleware(spot: LocatedNode) -> Outcome<Vec<MiddlewareSpec>> {
    let one = |spot: LocatedNode| {
        let mut block = spot.into_map_reader()?;
        block.take_required("name")?.as_text()?;
        let suspends = block.take_value("pre_next_calls_suspend_with_descriptor");
        let spec = match suspends {
            Some(it) => {
                let mut descriptor = it.into_map_reader()?;
                let mut signal = Signal::new(descriptor.take_required("signal_id")?.as_text()?);
                if let Some(it) = descriptor.take_value("metadata") {
                    signal = signal.metadata(it.node.to_json());
                }
                descriptor.reject_remaining_keys()?;
                MiddlewareSpec::Suspender(Box::new(signal))
            }
            None => MiddlewareSpec::Logger {
                pre: block.take_text("pre_log")?,
                post: block.take_text("post_log")?,
            },
        };
        block.reject_remaining_keys()?;
        Ok(spec)
    };
    spot.into_items()?.into_iter().map(one).collect()
}

/// Takes directives of a node out of its block that run around the node: a call beside it, a line before what contains
/// other nodes, and a retry under a key of its own.
///
/// # Errors
/// When the fixture block has an unknown key or value.
pub(crate) fn take_node_middleware(block: &mut YamlMapReader) -> Outcome<Vec<MiddlewareSpec>> {
    let mut found = Vec::new();
    if let Some(call) = block.take_value("calls_llm_from_wrapper") {
        found.push(parse_model_caller(call)?);
    }
    if let Some(retry) = block.take_value("retry_middleware") {
        let mut retry = retry.into_map_reader()?;
        if let Some(classifier) = retry.take_value("classifier") {
            let known = adapt::is_transient_marker(classifier.as_text()?);
            ensure(known, || "unknown classifier".into())
                .map_err(|what| CaseFailure::reader_error(&classifier.path, what))?;
        }
        found.push(MiddlewareSpec::Retry(RetryMiddlewareSpec {
            backoff: Some(Duration::ZERO),
            ..take_retry(&mut retry)?
        }));
        retry.reject_remaining_keys()?;
    }
    let contains = ["subgraph", "fan_out", "parallel_branches"];
    if block.remaining_keys().any(|key| contains.contains(&key))
        && let Some(line) = block.take_value("emits_log")
    {
        found.push(MiddlewareSpec::LineWriter(parse_log_line(line)?));
    }
    Ok(found)
}

fn parse_model_caller(spot: LocatedNode) -> Outcome<MiddlewareSpec> {
    let mut node = spot.node;
    let mut is_before = true;
    if let YamlValue::Map(entries) = &mut node.value
        && let Some(at) = entries.iter().position(|(key, _)| key == "phase")
    {
        let phase = LocatedNode::new(entries.remove(at).1, format!("{}.phase", spot.path));
        is_before = match phase.as_text()? {
            "pre" => true,
            "post" => false,
            other => return Err(CaseFailure::reader_error(&phase.path, format!("unknown phase '{other}'"))),
        };
    }
    let call = ModelCallSpec::from_yaml_node(LocatedNode::new(node, spot.path))?;
    Ok(MiddlewareSpec::ModelCaller { call: Arc::new(call), is_before })
}

fn take_retry(block: &mut YamlMapReader) -> Outcome<RetryMiddlewareSpec> {
    let max_attempts = block.take_value("max_attempts").map(|value| {
        let attempts = u32::try_from(value.as_integer()?);
        attempts.map_err(|_| value.unexpected_kind("a number of attempts"))
    });
    let backoff = block.take_value("backoff").map(|value| {
        let mut backoff = value.into_map_reader()?;
        let kind = backoff.take_required("type")?;
        if kind.as_text()? != "deterministic" {
            return Err(CaseFailure::reader_error(
                &kind.path,
                format!("unknown backoff '{}'", kind.as_text()?),
            ));
        }
        let seconds = backoff.take_required("seconds")?;
        backoff.reject_remaining_keys()?;
        Duration::try_from_secs_f64(seconds.as_number()?).map_err(|_| seconds.unexpected_kind("a time"))
    });
    let classifier = block.take_value("classifier").map(|value| {
        let mut classifier = value.into_map_reader()?;
        let read = match classifier.take_value("type") {
            Some(kind) if kind.as_text()? == "state_aware_max_retries_remaining" => {
                RetryClassifier::WhileRetriesRemain
            }
            Some(kind) => {
                return Err(CaseFailure::reader_error(
                    &kind.path,
                    format!("unknown classifier '{}'", kind.as_text()?),
                ));
            }
            None => {
                RetryClassifier::Categories(classifier.take_required("transient_categories")?.into_texts()?)
            }
        };
        classifier.reject_remaining_keys()?;
        Ok(read)
    });
    Ok(RetryMiddlewareSpec {
        max_attempts: max_attempts.transpose()?,
        backoff: backoff.transpose()?,
        classifier: classifier.transpose()?,
    })
}

fn take_timing(block: &mut YamlMapReader) -> Outcome<MiddlewareSpec> {
    let node = block.take_text("node_name")?;
    let mut complete = block.take_required("on_complete")?.into_map_reader()?;
    let place = complete.take_required("capture_to")?;
    complete.reject_remaining_keys()?;
    if place.as_text()? != TIMING_RECORDS {
        return Err(CaseFailure::reader_error(
            &place.path,
            format!("nothing is captured to '{}'", place.as_text()?),
        ));
    }
    Ok(MiddlewareSpec::Timing { node })
}

fn take_isolation(block: &mut YamlMapReader) -> Outcome<IsolationSpec> {
    let predicate = block.take_value("predicate").map(|value| {
        let mut predicate = value.into_map_reader()?;
        let category = predicate.take_required("matches_category")?.as_text()?.to_owned();
        predicate.reject_remaining_keys()?;
        Ok(category)
    });
    let on_caught = block.take_value("on_caught").map(parse_side_channel);
    Ok(IsolationSpec {
        degraded: parse_degraded_result(block.take_required("degraded_update")?)?,
        event_name: block.take_required("event_name")?.as_text()?.to_owned(),
        catch: block.take_value("catch").map(LocatedNode::into_texts).transpose()?,
        predicate: predicate.transpose()?,
        on_caught: on_caught.transpose()?,
    })
}

fn parse_degraded_result(spot: LocatedNode) -> Outcome<DegradedResultSpec> {
    if spot.node.get_entry("callable").is_none() {
        return parse_literals(spot).map(DegradedResultSpec::Update);
    }
    let mut block = spot.into_map_reader()?;
    let kind = block.take_required("callable")?;
    if kind.as_text()? != "state_derived" {
        return Err(CaseFailure::reader_error(&kind.path, format!("unknown callable '{}'", kind.as_text()?)));
    }
    let degraded = DegradedResultSpec::Template {
        template: block.take_required("template")?.as_text()?.to_owned(),
        target: block.take_required("target_field")?.as_text()?.to_owned(),
    };
    block.reject_remaining_keys()?;
    Ok(degraded)
}

fn parse_side_channel(spot: LocatedNode) -> Outcome<SideChannel> {
    let mut block = spot.into_map_reader()?;
    let kind = block.take_required("kind")?;
    if kind.as_text()? != "record_to_state_side_channel" {
        return Err(CaseFailure::reader_error(&kind.path, format!("unknown callback '{}'", kind.as_text()?)));
    }
    let channel = SideChannel {
        count: block.take_required("increment_field")?.as_text()?.to_owned(),
        message: block.take_required("capture_message_field")?.as_text()?.to_owned(),
    };
    block.reject_remaining_keys()?;
    Ok(channel)
}
