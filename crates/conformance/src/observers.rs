//! Observer directives (conformance-adapter §5.5).

use std::time::Duration;

use singletree::durable::{BoxError, BoxFuture};
use singletree::engine::{AttemptPhase, GraphEvent, InvokeOptions, Observer, Subscription};

use crate::failure::{CaseFailure, Outcome};
use crate::fields::{LocatedNode, YamlMapReader};
use crate::graph::CompiledGraphs;
use crate::nodes::millis;
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
    pub(crate) fn read(spot: LocatedNode) -> Outcome<Self> {
        let mut block = spot.fields()?;
        let name = block.need("name")?.text()?.to_owned();
        let attach = block.need("attach")?;
        let per_invocation = match attach.text()? {
            "graph" => false,
            "invocation" => true,
            other => return Err(CaseFailure::reader(&attach.path, format!("unknown place '{other}'"))),
        };
        let target = block.text("target")?.unwrap_or_else(|| "outer".into());
        let behavior = block.need("behavior")?;
        let raises = match behavior.text()? {
            "record" | "accumulate" => false,
            "raise" => true,
            "otel" => {
                return Err(CaseFailure::reader(
                    &behavior.path,
                    "'otel' needs captured spans, which are not built",
                ));
            }
            other => return Err(CaseFailure::reader(&behavior.path, format!("unknown behavior '{other}'"))),
        };
        let phases =
            block.take("phases").map(|value| value.items()?.iter().map(phase).collect()).transpose()?;
        let sleep = sleep(&mut block)?;
        block.finish()?;
        Ok(Self { name, per_invocation, target, raises, phases, sleep })
    }

    fn subscription(&self, tape: &CaseRecorder, is_first: bool) -> Outcome<Subscription> {
        let ear = RecordingObserver {
            name: self.name.clone(),
            tape: tape.clone(),
            raises: self.raises,
            sleep: if is_first { self.sleep.first } else { self.sleep.later },
        };
        let subscription = Subscription::new(ear);
        match &self.phases {
            None => Ok(subscription),
            Some(phases) => subscription
                .phases(phases.iter().copied())
                .map_err(|error| CaseFailure::build(format!("observers.{}", self.name), error.to_string())),
        }
    }
}

/// Attaches the observers of the graph itself; dropping the returned guard detaches them.
///
/// # Errors
/// For a target that is no graph.
pub(crate) fn attach(
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
                CaseFailure::reader(format!("observers.{}", spec.name), format!("unknown target '{name}'"))
            })?,
        };
        let id = graph.attach(spec.subscription(tape, is_first)?);
        attached.0.push((graph.clone(), id));
    }
    Ok(attached)
}

/// Adds the observers of one invocation, and the runner's own observer when it listens.
///
/// # Errors
/// When a subscription is refused.
pub(crate) fn options(
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
        .try_fold(options, |options, spec| Ok(options.observer(spec.subscription(tape, is_first)?)))
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
            graph.detach(id);
        }
    }
}

fn phase(spot: &LocatedNode) -> Outcome<AttemptPhase> {
    match spot.text()? {
        "started" => Ok(AttemptPhase::Started),
        "completed" => Ok(AttemptPhase::Completed),
        "suspended" => Ok(AttemptPhase::Suspended),
        other => Err(CaseFailure::reader(&spot.path, format!("unknown phase '{other}'"))),
    }
}

fn sleep(block: &mut YamlMapReader) -> Outcome<ObserverDelay> {
    let Some(spot) = block.take("sleep_ms_per_event") else { return Ok(ObserverDelay::default()) };
    if let Ok(same) = millis(&spot) {
        return Ok(ObserverDelay { first: same, later: same });
    }
    let mut each = spot.fields()?;
    let sleep = ObserverDelay {
        first: millis(&each.need("first_invocation")?)?,
        later: millis(&each.need("subsequent_invocations")?)?,
    };
    each.finish()?;
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
    fn observe<'a>(&'a self, event: &'a GraphEvent) -> BoxFuture<'a, Result<(), BoxError>> {
        Box::pin(async move {
            if !self.sleep.is_zero() {
                tokio::time::sleep(self.sleep).await;
            }
            match event {
                GraphEvent::Node(event) => {
                    let delivery = EventDelivery { observer: self.name.clone(), event: event.clone() };
                    self.tape.write().deliveries.push(delivery);
                }
                GraphEvent::FailureIsolated(event) if self.name == RUNNERS => {
                    self.tape.write().isolated.push(event.clone());
                }
                _ => {}
            }
            if self.raises { Err("the fixture lets this observer fail".into()) } else { Ok(()) }
        })
    }
}
