//! Node directives (conformance-adapter §5.1, §5.4): reading them.

use std::time::Duration;

use serde_json::{Map, Value};
use singletree::engine::{Projection, Signal};

use crate::failure::{Failure, Outcome};
use crate::fields::{Fields, Spot};
use crate::schema::literals;

/// Directives that are known and need a capability that the engine does not have.
const NOT_BUILT: &[(&str, &str)] = &[
    ("fan_out", "fan-out"),
    ("parallel_branches", "parallel branches"),
    ("wrap_with_middleware", "middleware"),
    ("middleware", "middleware"),
    ("conditional_suspend", "fan-out"),
    ("on_other_indices", "fan-out"),
    ("emits_log", "captured logs"),
    ("flaky", "retry middleware"),
    ("flaky_per_index", "fan-out"),
    ("flaky_by_index", "fan-out"),
    ("flaky_instance_only", "fan-out"),
    ("flaky_resume_aware", "checkpointers"),
    ("calls_llm", "a model provider of the conformance suite"),
];

/// A node.
#[derive(Debug, Clone)]
pub(crate) struct NodeSpec {
    /// Its name.
    pub(crate) name: String,
    /// What it does.
    pub(crate) work: Work,
}

/// What a node does.
#[derive(Debug, Clone)]
pub(crate) enum Work {
    /// It runs a body.
    Body(Box<BodySpec>),
    /// It is a subgraph.
    Subgraph {
        /// Which one.
        graph: String,
        /// What crosses.
        projection: Projection,
    },
}

/// The body of a node.
#[derive(Debug, Clone, Default)]
pub(crate) struct BodySpec {
    /// How long it takes.
    pub(crate) sleep: Option<Duration>,
    /// The node drains its own invocation before it returns.
    pub(crate) drain: Option<DrainSpec>,
    /// The node saves the session, as it will be with its update.
    pub(crate) save: bool,
    /// How it ends.
    pub(crate) end: End,
}

/// A drain in a body.
#[derive(Debug, Clone)]
pub(crate) struct DrainSpec {
    /// Its time limit.
    pub(crate) timeout: Option<Duration>,
    /// The observer whose events are noted when it returns.
    pub(crate) snapshot: Option<String>,
}

/// How a body ends.
#[derive(Debug, Clone)]
pub(crate) enum End {
    /// With an update of literal values, or of fields that are read.
    Update(Map<String, Value>),
    /// With an update of one field, computed of another.
    FromField {
        /// The field that is set.
        target: String,
        /// The field that is read.
        source: String,
        /// What its value is multiplied by.
        multiplier: i64,
    },
    /// With an error.
    Raises {
        /// Its message.
        message: String,
        /// Its category.
        category: Option<String>,
    },
    /// By suspending.
    Suspend {
        /// For what.
        signal: Box<Signal>,
        /// A field of type bool that, when it is true, makes the body return an empty update instead.
        unless: Option<String>,
    },
}

impl Default for End {
    fn default() -> Self {
        Self::Update(Map::new())
    }
}

impl NodeSpec {
    /// Reads a node.
    ///
    /// # Errors
    /// For a directive that is unknown, not built, or not possible together with another.
    pub(crate) fn read(name: String, spot: Spot) -> Outcome<Self> {
        let mut block = spot.fields()?;
        for (directive, need) in NOT_BUILT {
            if let Some(it) = block.take(directive) {
                return Err(Failure::reader(
                    &it.path,
                    format!("directive '{directive}' needs {need}, which is not built"),
                ));
            }
        }
        let work = match block.take("subgraph") {
            Some(graph) => {
                let graph = graph.text()?.to_owned();
                Work::Subgraph { graph, projection: projection(&mut block)? }
            }
            None => Work::Body(Box::new(body(&mut block)?)),
        };
        block.finish()?;
        Ok(Self { name, work })
    }
}

fn projection(block: &mut Fields) -> Outcome<Projection> {
    let mut projection = Projection::by_name();
    let mut maps = block.take("mapping").map(Spot::fields).transpose()?;
    let mut map = |key: &str| -> Outcome<Option<Vec<(String, String)>>> {
        let nested = maps.as_mut().and_then(|it| it.take(key));
        match block.take(key).or(nested) {
            Some(it) => pairs(it).map(Some),
            None => Ok(None),
        }
    };
    if let Some(inputs) = map("inputs")? {
        projection = projection.inputs(inputs.iter().map(|(a, b)| (a.as_str(), b.as_str())));
    }
    if let Some(outputs) = map("outputs")? {
        projection = projection.outputs(outputs.iter().map(|(a, b)| (a.as_str(), b.as_str())));
    }
    if let Some(maps) = maps {
        maps.finish()?;
    }
    if let Some(names) = block.take("projects_in") {
        projection = projection.projects_in(names.texts()?.iter().map(String::as_str));
    }
    if let Some(names) = block.take("projects_out") {
        projection = projection.projects_out(names.texts()?.iter().map(String::as_str));
    }
    Ok(projection)
}

fn pairs(spot: Spot) -> Outcome<Vec<(String, String)>> {
    let mut map = spot.fields()?;
    let mut pairs = Vec::new();
    while let Some((to, from)) = map.next() {
        pairs.push((to, from.text()?.to_owned()));
    }
    Ok(pairs)
}

fn body(block: &mut Fields) -> Outcome<BodySpec> {
    let mut spec = BodySpec::default();
    if let Some(it) = block.take("sleep_ms") {
        spec.sleep = Some(millis(&it)?);
    }
    if let Some(it) = block.take("explicit_save_session") {
        spec.save = it.truth()?;
    }
    if let Some(it) = block.take("invoke_drain_events_for") {
        let mut drain = it.fields()?;
        let timeout = drain.take("timeout_seconds").map(|it| seconds(&it)).transpose()?.flatten();
        spec.drain = Some(DrainSpec { timeout, snapshot: drain.text("snapshot_observer")? });
        drain.finish()?;
    }
    let mut ends = Vec::new();
    for key in ["update", "update_pure", "update_from_field", "raises", "suspend_with_descriptor"] {
        if let Some(it) = block.take(key) {
            ends.push(end(key, it)?);
        }
    }
    if ends.len() > 1 {
        return Err(Failure::reader(block.path(), "a node ends in more than one way"));
    }
    let nothing = spec.sleep.is_none() && spec.drain.is_none() && !spec.save;
    match ends.pop() {
        Some(end) => spec.end = end,
        None if nothing => return Err(no_directive(block)),
        None => {}
    }
    Ok(spec)
}

fn no_directive(block: &Fields) -> Failure {
    let keys: Vec<_> = block.keys().collect();
    Failure::reader(block.path(), format!("no known directive among: {}", keys.join(", ")))
}

fn end(key: &str, spot: Spot) -> Outcome<End> {
    match key {
        "update" | "update_pure" => Ok(End::Update(literals(spot)?)),
        "update_from_field" => from_field(spot),
        "raises" => raises(spot),
        _ => suspend(spot),
    }
}

fn from_field(spot: Spot) -> Outcome<End> {
    let mut block = spot.fields()?;
    let multiplier = block.take("multiplier").map(|it| it.whole()).transpose()?.unwrap_or(1);
    let path = block.path().to_owned();
    let (target, source) = block.next().ok_or_else(|| Failure::reader(path, "names no field"))?;
    let source = source.text()?.to_owned();
    block.finish()?;
    Ok(End::FromField { target, source, multiplier })
}

fn raises(spot: Spot) -> Outcome<End> {
    if let Ok(message) = spot.text() {
        return Ok(End::Raises { message: message.to_owned(), category: None });
    }
    let mut block = spot.fields()?;
    let category = block.text("category")?;
    let message = block.text("message")?.unwrap_or_else(|| "raised by the fixture".into());
    block.finish()?;
    Ok(End::Raises { message, category })
}

fn suspend(spot: Spot) -> Outcome<End> {
    let mut block = spot.fields()?;
    let mut signal = Signal::new(block.need("signal_id")?.text()?);
    if let Some(metadata) = block.take("metadata") {
        signal = signal.metadata(metadata.node.to_json());
    }
    // Extensions, for what the specification says and no fixture of it exercises.
    if let Some(it) = block.take("dev.singletree.mark_node_completed") {
        signal = signal.mark_node_completed(it.truth()?);
    }
    let unless = block.text("dev.singletree.unless_field")?;
    block.finish()?;
    Ok(End::Suspend { signal: Box::new(signal), unless })
}

/// Reads a time in milliseconds.
///
/// # Errors
/// When it is no number, or negative.
pub(crate) fn millis(spot: &Spot) -> Outcome<Duration> {
    let millis = u64::try_from(spot.whole()?).map_err(|_| spot.wrong("a time"))?;
    Ok(Duration::from_millis(millis))
}

/// Reads a time limit in seconds; null is none.
///
/// # Errors
/// When it is no number, or no time.
pub(crate) fn seconds(spot: &Spot) -> Outcome<Option<Duration>> {
    limit(spot)?.map_err(|_| spot.wrong("a time"))
}

/// Reads what shall be a time limit in seconds, or why there is none: the engine's type of time limits has neither negative
/// ones nor NaN, so that a caller is refused where a number becomes one (graph-engine §6).
///
/// # Errors
/// When it is no number.
pub(crate) fn limit(spot: &Spot) -> Outcome<Result<Option<Duration>, String>> {
    if spot.is_null() {
        return Ok(Ok(None));
    }
    Ok(Duration::try_from_secs_f64(spot.number()?).map(Some).map_err(|it| it.to_string()))
}
