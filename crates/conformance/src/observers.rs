//! Observer directives (conformance-adapter §5.5).

use std::time::Duration;

use singletree::durable::{BoxError, BoxFuture};
use singletree::engine::{AttemptPhase, GraphEvent, InvokeOptions, Observer, Subscription};

use crate::failure::{CaseFailure, Outcome};
use crate::fields::{LocatedNode, YamlMapReader};
use crate::graph::CompiledGraphs;
use crate::nodes::parse_milliseconds;
use crate::tape::{CaseRecorder, EventDelivery};

/// The name of the runner's own observer, which hears everything that cases assert of no observer in particular. No
/// fixture can call one so.
pub(crate) const RUNNERS: &str = "(the runner)";

/// An observer.
#[derive(Debug, Clone)]
pub(crate) struct ObserverSpec {
    /// Its name.
    pub(crate) name: String,
    per_invocation: bool,
    target: String,
    raises: bool,
    phases: Option<Vec<AttemptPhase>>,
    sleep: ObserverDelay,
}

#[derive(Debug, Clone, Copy, Default)]
struct ObserverDelay {
    first: Duration,
    later: Duration,
}

impl ObserverSpec {
    /// Reads an observer.
    ///
    /// # Errors
    /// When the fixture block has an unknown key or value.
    pub(crate) fn from_yaml_node(spot: LocatedNode) -> Outcome<Self> {
        let mut block = spot.into_map_reader()?;
        let name = block.take_required("name")?.as_text()?.to_owned();
        let attach = block.take_required("attach")?;
        let per_invocation = match attach.as_text()? {
            "graph" => false,
            "invocation" => true,
            other => return Err(CaseFailure::reader_error(&attach.path, format!("unknown place '{other}'"))),
        };
        let target = block.take_text("target")?.unwrap_or_else(|| "outer".into());
        let behavior = block.take_required("behavior")?;
        let raises = match behavior.as_text()? {
            "record" | "accumulate" => false,
            "raise" => true,
            // Spans are rendered of what the case's recorder hears; this observer has nothing to do itself.
            "otel" => false,
            other => {
                return Err(CaseFailure::reader_error(&behavior.path, format!("unknown behavior '{other}'")));
            }
        };
        let phases = block
            .take_value("phases")
            .map(|value| value.into_items()?.iter().map(parse_attempt_phase).collect())
            .transpose()?;
        let sleep = take_observer_delay(&mut block)?;
        block.reject_remaining_keys()?;
        Ok(Self { name, per_invocation, target, raises, phases, sleep })
    }

    fn build_subscription(&self, tape: &CaseRecorder, is_first: bool) -> Outcome<Subscription> {
        let ear = RecordingObserver {
            name: self.name.clone(),
            tape: tape.clone(),
            raises: self.raises,
            sleep: if is_first { self.sleep.first } else { self.sleep.later },
        };
        let subscription = Subscription::new(ear);
        match &self.phases {
            None => Ok(subscription),
            Some(phases) => subscription.limit_to_phases(phases.iter().copied()).map_err(|error| {
                CaseFailure::build_error(format!("observers.{}", self.name), error.to_string())
            }),
        }
    }
}

/// Attaches the observers of the graph itself; dropping the returned guard detaches them.
///
/// # Errors
/// For a target that is no graph.
pub(crate) fn attach_to_graphs(
    specs: &[ObserverSpec],
    built: &CompiledGraphs,
    tape: &CaseRecorder,
    is_first: bool,
) -> Outcome<AttachedObservers> {
    let mut attached = AttachedObservers::default();
    for spec in specs.iter().filter(|spec| !spec.per_invocation) {
        let graph = match spec.target.as_str() {
            "outer" => &built.graph,
            name => built.inner.get(name).ok_or_else(|| {
                CaseFailure::reader_error(
                    format!("observers.{}", spec.name),
                    format!("unknown target '{name}'"),
                )
            })?,
        };
        let id = graph.attach_observer(spec.build_subscription(tape, is_first)?);
        attached.0.push((graph.clone(), id));
    }
    Ok(attached)
}

/// Adds the observers of one invocation, and the runner's own observer when it listens.
///
/// # Errors
/// When a subscription is refused.
pub(crate) fn add_to_invocation(
    specs: &[ObserverSpec],
    tape: &CaseRecorder,
    (is_first, listens): (bool, bool),
    options: InvokeOptions,
) -> Outcome<InvokeOptions> {
    let runners =
        RecordingObserver { name: RUNNERS.into(), tape: tape.clone(), raises: false, sleep: Duration::ZERO };
    let options = if listens { options.observer(Subscription::new(runners)) } else { options };
    specs
        .iter()
        .filter(|spec| spec.per_invocation)
        .try_fold(options, |options, spec| Ok(options.observer(spec.build_subscription(tape, is_first)?)))
}

/// Observers that are attached to graphs.
#[derive(Debug, Default)]
pub(crate) struct AttachedObservers(
    Vec<(singletree::Graph<singletree::engine::Snapshot>, singletree::engine::ObserverId)>,
);

impl AttachedObservers {
    /// Takes them off.
    pub(crate) fn detach(self) {
        for (graph, id) in self.0 {
            graph.detach_observer(id);
        }
    }
}

fn parse_attempt_phase(spot: &LocatedNode) -> Outcome<AttemptPhase> {
    match spot.as_text()? {
        "started" => Ok(AttemptPhase::Started),
        "completed" => Ok(AttemptPhase::Completed),
        "suspended" => Ok(AttemptPhase::Suspended),
        other => Err(CaseFailure::reader_error(&spot.path, format!("unknown phase '{other}'"))),
    }
}

fn take_observer_delay(block: &mut YamlMapReader) -> Outcome<ObserverDelay> {
    let Some(spot) = block.take_value("sleep_ms_per_event") else { return Ok(ObserverDelay::default()) };
    if let Ok(same) = parse_milliseconds(&spot) {
        return Ok(ObserverDelay { first: same, later: same });
    }
    let mut each = spot.into_map_reader()?;
    let sleep = ObserverDelay {
        first: parse_milliseconds(&each.take_required("first_invocation")?)?,
        later: parse_milliseconds(&each.take_required("subsequent_invocations")?)?,
    };
    each.reject_remaining_keys()?;
    Ok(sleep)
}

/// Takes events and writes them down, after the time that it needs for each.
struct RecordingObserver {
    name: String,
    tape: CaseRecorder,
    raises: bool,
    sleep: Duration,
}

impl Observer for RecordingObserver {
    fn observe_event<'a>(&'a self, event: &'a GraphEvent) -> BoxFuture<'a, Result<(), BoxError>> {
        Box::pin(async move {
            if !self.sleep.is_zero() {
                tokio::time::sleep(self.sleep).await;
            }
            match event {
                GraphEvent::Node(event) => {
                    let delivery = EventDelivery { observer: self.name.clone(), event: event.clone() };
                    self.tape.lock_recording().deliveries.push(delivery);
                }
                GraphEvent::FailureIsolated(event) if self.name == RUNNERS => {
                    self.tape.lock_recording().isolated.push(event.clone());
                }
                _ => {}
            }
            if self.raises { Err("the fixture lets this observer fail".into()) } else { Ok(()) }
        })
    }
}
