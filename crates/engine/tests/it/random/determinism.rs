//! The same seed, the same events, byte for byte.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex};

use singletree_durable::{BoxError, BoxFuture, MemoryStore};
use singletree_engine::{GraphEvent, InvokeOptions, Observer, RunOutcome};

use super::build::Workshop;
use super::generate;
use super::plan::{Kind, Plan};
use super::property::paused;
use super::run::{Begin, Runner, answer};
use super::stores::Stores;
use super::told::Told;
use crate::rig::describe;

/// How often each graph is run.
const RUNS: usize = 100;
/// How many graphs there are.
const GRAPHS: usize = 8;

/// Writes all events down, whole.
#[derive(Clone, Default)]
struct Scribe(Arc<Mutex<String>>);

impl Observer for Scribe {
    fn observe_event<'a>(&'a self, event: &'a GraphEvent) -> BoxFuture<'a, Result<(), BoxError>> {
        let (identity, at) = match event {
            GraphEvent::Node(it) => (&it.identity, it.at),
            GraphEvent::FailureIsolated(it) => (&it.identity, it.at),
            // The others have no states, and show all that they say.
            other => {
                let _ = writeln!(self.0.lock().unwrap(), "{other:?}");
                return Box::pin(std::future::ready(Ok(())));
            }
        };
        let mut text = self.0.lock().unwrap();
        let _ = writeln!(text, "{identity:?} {at:?} {}", describe(event));
        Box::pin(std::future::ready(Ok(())))
    }
}

/// Runs a graph through its suspensions; returns its events as text.
async fn told(plan: &Plan) -> String {
    let workshop = Workshop { jitters: true, ..Workshop::new() };
    let runner = Runner { plan, workshop: &workshop, damage: None };
    let stores = Stores::of(&Arc::new(MemoryStore::new()));
    let (scribe, mut begin) = (Scribe::default(), Begin::Anew);
    loop {
        let graph = runner.graph(&stores);
        let outcome = begin.run(&graph, InvokeOptions::new().observer(scribe.clone())).await;
        graph.drain(None).await.unwrap();
        let Ok(RunOutcome::Suspended(paused)) = outcome else { break };
        begin = Begin::Resume(paused.identity.invocation_id, answer(&paused.state));
    }
    let text = scribe.0.lock().unwrap();
    text.clone()
}

/// Tells whether instances of a graph run side by side and take their time.
fn is_concurrent(plan: &Plan) -> bool {
    let here = plan.nodes.iter().any(|it| match &it.kind {
        Kind::Fan(fan) => {
            fan.count != Some(0) && fan.limit != Some(1) && fan.inner.works().iter().any(|it| it.takes > 0)
        }
        Kind::Work(_) | Kind::Sub(_) | Kind::Fork(_) => false,
    });
    here || plan.nodes.iter().any(|it| it.plans().iter().any(|it| is_concurrent(it)))
}

// spec: graph-engine §5; pipeline-utilities §§7, 9.4, 11.8. INV-11.
#[test]
fn the_same_seed_tells_the_same_events_a_hundred_times() {
    let runtime = paused();
    let plans = (0..).map(|seed| (seed, generate::graph(seed)));
    // Where nothing is cut off, so that each act has a beginning and an end.
    let is_whole = |told: &Told| told.acts.len() > 4 && told.acts.iter().all(|it| it.certain);
    let plans = plans.filter(|(_, (plan, told))| is_concurrent(plan) && is_whole(told));
    for (seed, (plan, model)) in plans.take(GRAPHS) {
        let first = runtime.block_on(told(&plan));
        assert!(first.lines().count() > 2 * model.acts.len(), "seed {seed} tells of all its acts");
        for run in 1..RUNS {
            assert_eq!(runtime.block_on(told(&plan)), first, "seed {seed}, run {run}\n{plan}");
        }
    }
}
