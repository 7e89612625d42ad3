//! Suspending inside fan-outs (suspension §8.2), and the records that a crash inside of one leaves (D7).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use singletree_durable::{BoxFuture, PositionHistory};
use singletree_engine::{
    Ctx, END, Error, ErrorPolicy, FailureIsolation, FanOut, Graph, InvokeOptions, Item, NodeError,
    PersistencePort, Projection, Retry, RetryBackoff, RunEnding, RunEntry, RunMonitor, RunOutcome,
    RunProgress, RunStart, SessionState, Signal, Snapshot, StateUpdate, StoredRun,
};

use crate::fan_out::{around, each, ints, number};
use crate::rig::{Recorder, completed, int, map, over, suspended, update};

/// A port that keeps the last step and the facts in memory.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    standing: Mutex<Option<StoredRun>>,
    pub(crate) facts: Mutex<BTreeMap<String, Item>>,
    /// Whether steps fail.
    pub(crate) broken: bool,
}

impl Memory {
    /// Puts facts beside the last step, as a store that was read again has them.
    pub(crate) fn recall(&self, facts: BTreeMap<String, Item>) {
        self.standing.lock().unwrap().as_mut().unwrap().records = facts;
    }
}

impl PersistencePort for Memory {
    fn keeps_steps(&self) -> bool {
        true
    }

    fn load_entry(&self) -> BoxFuture<'_, Result<RunEntry, Error>> {
        let standing = self.standing.lock().unwrap().take();
        Box::pin(async { Ok(standing.map_or(RunEntry::Fresh(None), RunEntry::Standing)) })
    }

    fn claim_suspended_run(&self) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async { Ok(()) })
    }

    fn save_session(&self, _: SessionState) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async { Ok(()) })
    }

    fn record_step(&self, progress: RunProgress) -> BoxFuture<'_, Result<(), Error>> {
        if self.broken {
            return Box::pin(async { Err(Error::Record { source: "disk full".into() }) });
        }
        let fields =
            |it: &Snapshot| it.iter_fields().map(|(name, slot)| (name.into(), slot.clone())).collect();
        let frames = progress.frames.iter().map(fields).collect();
        let standing = StoredRun {
            identity: None,
            cursor: progress.cursor,
            frames,
            records: BTreeMap::new(),
            containers: Vec::new(),
            completed: PositionHistory::new(),
        };
        *self.standing.lock().unwrap() = Some(standing);
        self.facts.lock().unwrap().clear();
        Box::pin(async { Ok(()) })
    }

    fn record_fact<'a>(&'a self, name: &'a str, fact: Item) -> BoxFuture<'a, Result<(), Error>> {
        self.facts.lock().unwrap().insert(name.to_owned(), fact);
        Box::pin(async { Ok(()) })
    }

    fn record_ending<'a>(&'a self, _: RunEnding<'a>) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async { Ok(()) })
    }
}

/// Suspends for the item 1 unless `base` says that it was answered; else ten times the item.
fn asking(completed: bool) -> Graph<Snapshot> {
    let work = move |cx: Ctx<Snapshot>| async move {
        if number(&cx, "n") == 1 && number(&cx, "base") == 0 {
            let signal = Signal::new("go").with("kind", "approval").mark_node_completed(completed);
            return cx.suspend(signal).await;
        }
        Ok(update(json!({"out": 10 * number(&cx, "n")})))
    };
    over([int("n"), int("base"), int("out")])
        .node("work", work)
        .edge("work", END)
        .entry("work")
        .compile()
        .unwrap()
}

pub(crate) async fn pause(
    graph: &Graph<Snapshot>,
    given: Value,
) -> (singletree_engine::SuspendedRun<Snapshot>, Recorder) {
    let seen = Recorder::default();
    let options = InvokeOptions::new().observer(seen.clone());
    let paused = suspended(graph.invoke(update(given), options).await);
    graph.drain(None).await.unwrap();
    (paused, seen)
}

// spec: suspension §8.2: the fan-out suspends as a node; contributions made so far count (R18), the rest is cancelled.
#[tokio::test]
async fn an_instance_that_suspends_suspends_the_fan_out() {
    let after = |cx: Ctx<Snapshot>| async move { Ok(update(json!({"count": number(&cx, "count") + 1}))) };
    let fields = [ints("items"), ints("results"), int("count"), int("base")];
    let graph = over(fields)
        .fan_out("each", each(&asking(true)).count_field("count"))
        .node("after", after)
        .edge("each", "after")
        .edge("after", END)
        .entry("each")
        .compile()
        .unwrap();
    let (paused, seen) = pause(&graph, json!({"items": [0, 1, 2]})).await;
    let descriptor = json!({"signal_id": "go", "metadata": {"kind": "approval", "fan_out_index": 1}});
    assert_eq!(serde_json::to_value(&paused.descriptor).unwrap(), descriptor);
    assert_eq!((paused.node_name.as_ref(), paused.namespace.join("/")), ("each", "each".into()));
    let told = [
        "0.0 started each",
        "1.0 started each[0]/work",
        "1.0 completed each[0]/work ok",
        "2.0 started each[1]/work",
        "2.0 suspended each[1]/work",
        "0.0 suspended each",
    ];
    assert_eq!(seen.told(), told);
    let seen = seen.seen();
    assert_eq!(seen[4]["descriptor"]["metadata"], json!({"kind": "approval"}));
    assert_eq!((&seen[5]["descriptor"], &seen[5]["fan_out"]["item_count"]), (&descriptor, &json!(3)));
    // It goes on after the fan-out, with the contributions made before the pause.
    let resumed = graph.resume(&paused.identity.invocation_id, map(json!({})), InvokeOptions::new()).await;
    let expected = json!({"items": [0, 1, 2], "results": [0], "count": 4, "base": 0});
    assert_eq!(completed(resumed), expected);
}

// spec: suspension §8.2: without the mark all instances start anew, with the payload in the outer state.
#[tokio::test]
async fn a_fan_out_that_is_not_marked_completed_runs_again() {
    let graph = around(each(&asking(false)).input("base", "base")).compile().unwrap();
    let (paused, _) = pause(&graph, json!({"items": [0, 1, 2]})).await;
    let seen = Recorder::default();
    let options = InvokeOptions::new().observer(seen.clone());
    let resumed = graph.resume(&paused.identity.invocation_id, map(json!({"base": 1})), options).await;
    assert_eq!(completed(resumed)["results"], json!([0, 10, 20]));
    graph.drain(None).await.unwrap();
    assert_eq!(seen.told()[..2], ["3.0 started each", "4.0 started each[0]/work"]);
    assert_eq!(seen.told().len(), 8);
}

// spec: suspension §8.2: in a subgraph, the fan-out in it suspends; the run goes on inside the subgraph.
#[tokio::test]
async fn a_fan_out_in_a_subgraph_is_gone_on_with_inside_of_it() {
    let inner = around(each(&asking(false)).input("base", "base")).compile().unwrap();
    let fields = [ints("items"), ints("results"), int("count"), int("base"), ints("more")];
    let graph = over(fields)
        .subgraph(
            "sub",
            &inner,
            Projection::by_name().inputs([("items", "items")]).outputs([("results", "results")]),
        )
        .edge("sub", END)
        .entry("sub")
        .middleware(Retry::new())
        .compile()
        .unwrap();
    let (paused, _) = pause(&graph, json!({"items": [1]})).await;
    assert_eq!((paused.namespace.join("/"), paused.outermost_node_name()), ("sub/each".into(), "sub"));
    let resumed =
        graph.resume(&paused.identity.invocation_id, map(json!({"base": 1})), InvokeOptions::new()).await;
    assert_eq!(completed(resumed)["results"], json!([10]));
}

// spec: suspension §8.2: the outermost fan-out suspends, and says which of its instances' instances is awaited.
#[tokio::test]
async fn of_nested_fan_outs_the_outermost_suspends() {
    let inner = FanOut::over(&asking(true)).items("part", "n").collect("out", "outs");
    let mid = over([ints("part"), ints("outs")]).fan_out("inner", inner).edge("inner", END).entry("inner");
    let outer = FanOut::over(&mid.compile().unwrap()).items("parts", "part").collect("outs", "all");
    let lists = |name| crate::rig::field(name, singletree_engine::FieldShape::Any.list(), json!([]));
    let all = lists("all").reducer(singletree_engine::Reducer::Append);
    let graph = over([lists("parts"), all]).fan_out("outer", outer).edge("outer", END).entry("outer");
    let (paused, seen) = pause(&graph.compile().unwrap(), json!({"parts": [[4], [5, 1, 6], [7]]})).await;
    let metadata = json!({"kind": "approval", "fan_out_index": 1, "fan_out_index_chain": [1, 1]});
    assert_eq!((paused.node_name.as_ref(), paused.descriptor.metadata), ("outer", Some(metadata.clone())));
    // The inner one contributed nothing: only whole instances count.
    assert_eq!(crate::rig::state(&paused.state)["all"], json!([[40]]));
    let told = seen.told();
    let ends =
        ["5.0 suspended outer[1]/inner[1]/work", "3.0 suspended outer[1]/inner", "0.0 suspended outer"];
    assert_eq!(told[told.len() - 3..], ends);
    let seen = seen.seen();
    let told = |back: usize| seen[seen.len() - back]["descriptor"]["metadata"].clone();
    assert_eq!((told(2), told(1)), (json!({"kind": "approval", "fan_out_index": 1}), metadata));
}

// spec: suspension §8.2, §9; R28: under collect it cannot suspend, and nobody on the way out makes that a success.
#[tokio::test]
async fn an_instance_of_a_collecting_fan_out_cannot_suspend() {
    let fan = each(&asking(true))
        .error_policy(ErrorPolicy::Collect)
        .instance_middleware(FailureIsolation::new("never", update(json!({"out": 0}))));
    let graph = around(fan).middleware(FailureIsolation::new("never", StateUpdate::new())).compile().unwrap();
    let (outcome, seen) = crate::rig::observed(&graph, json!({"items": [0, 1, 2]})).await;
    assert_eq!(outcome.unwrap_err().category(), "suspension_in_unsupported_context");
    let told = [
        "0.0 started each",
        "1.0 started each[0]/work",
        "1.0 completed each[0]/work ok",
        "2.0 started each[1]/work",
        "2.0 completed each[1]/work suspension_in_unsupported_context",
        "0.0 completed each suspension_in_unsupported_context",
    ];
    assert_eq!(seen.told(), told);
}

// spec: suspension §8.4: neither the instance's nor the fan-out's middleware sees a pause.
#[tokio::test]
async fn middleware_around_a_suspending_instance_is_dropped() {
    let never = || FailureIsolation::new("never", update(json!({"out": 0})));
    let fan = each(&asking(true)).instance_middleware(never()).instance_middleware(Retry::new());
    let whole = FailureIsolation::new("never", StateUpdate::new());
    let graph = around(fan).middleware(whole).middleware(Retry::new()).compile().unwrap();
    let (paused, seen) = pause(&graph, json!({"items": [1, 0]})).await;
    assert_eq!(paused.descriptor.metadata, Some(json!({"kind": "approval", "fan_out_index": 0})));
    assert_eq!(seen.told().len(), 4);
    let resumed = graph.resume(&paused.identity.invocation_id, map(json!({})), InvokeOptions::new()).await;
    assert_eq!(completed(resumed)["results"], json!([]));
}

// Two instances that ask at once: the first in order is recorded, the other is dropped with the run.
#[tokio::test]
async fn of_two_instances_that_suspend_the_first_is_recorded() {
    let graph = around(each(&asking(true))).compile().unwrap();
    let (paused, seen) = pause(&graph, json!({"items": [1, 1]})).await;
    assert_eq!(paused.descriptor.metadata, Some(json!({"kind": "approval", "fan_out_index": 0})));
    assert_eq!(seen.told().len(), 4);
}

// spec: suspension §9: the middleware of an instance cannot suspend; its fan-out's attempt ends with it.
#[tokio::test]
async fn the_middleware_of_an_instance_cannot_suspend() {
    let asks = singletree_engine::around(|_: Arc<Snapshot>, _: singletree_engine::Next<'_>| {
        Box::pin(async { Err(singletree_engine::suspend_invocation(Signal::new("go")).await) })
    });
    let graph = around(each(&asking(true)).instance_middleware(asks)).compile().unwrap();
    let (outcome, seen) = crate::rig::observed(&graph, json!({"items": [0, 1]})).await;
    assert_eq!(outcome.unwrap_err().category(), "suspension_in_unsupported_context");
    let told = ["0.0 started each", "0.0 completed each suspension_in_unsupported_context"];
    assert_eq!(seen.told(), told);
}

// A pause that cannot be recorded is the instance's to handle, and the siblings go on.
#[tokio::test]
async fn a_refused_pause_goes_on_with_all_instances() {
    let work = |cx: Ctx<Snapshot>| async move {
        if number(&cx, "n") != 1 {
            return Ok(update(json!({"out": 10 * number(&cx, "n")})));
        }
        let refused = Signal::new("go").on_deadline(map(json!({"nowhere": 1})));
        let error = cx.suspend(refused).await.expect_err("a deadline sets declared fields");
        assert_eq!(error.category(), Some("suspension_resume_payload_invalid"));
        Ok(update(json!({"out": -1})))
    };
    let leaf =
        over([int("n"), int("out")]).node("work", work).edge("work", END).entry("work").compile().unwrap();
    let graph = around(each(&leaf)).compile().unwrap();
    assert_eq!(
        crate::rig::run(&graph, json!({"items": [0, 1, 2, 3]})).await["results"],
        json!([0, -1, 20, 30])
    );
}

// D7: after a crash inside of a fan-out all of it runs again, and each instance finds its own facts.
#[tokio::test]
async fn after_a_crash_each_instance_finds_its_facts() {
    let work = |cx: Ctx<Snapshot>| async move {
        let n = number(&cx, "n");
        if cx.is_recovering() {
            let expected = if n == 3 {
                BTreeMap::new()
            } else {
                BTreeMap::from([("done".into(), Item::from_json(n.into()))])
            };
            assert_eq!(cx.records(), expected);
            return Ok(update(json!({"out": n})));
        }
        if n == 3 {
            std::future::pending::<()>().await;
        }
        cx.record("done", Item::from_json(n.into())).await?;
        Ok(update(json!({"out": n})))
    };
    let leaf =
        over([int("n"), int("out")]).node("work", work).edge("work", END).entry("work").compile().unwrap();
    let fields = || [ints("items"), ints("results"), int("count"), int("base"), ints("more")];
    let graph = over(fields())
        .node("first", |_: Ctx<Snapshot>| async { Ok(StateUpdate::new()) })
        .fan_out("each", each(&leaf))
        .edge("first", "each")
        .edge("each", END)
        .entry("first")
        .compile()
        .unwrap();
    let (port, watch) = (Arc::new(Memory::default()), RunMonitor::default());
    let start = RunStart::Fresh { initial: update(json!({"items": [1, 2, 3]})), hook: None };
    let running = graph.invoke_with_port(port.clone(), start, InvokeOptions::new(), &watch);
    assert!(tokio::time::timeout(std::time::Duration::from_millis(20), running).await.is_err());
    let facts = port.facts.lock().unwrap().clone();
    let names: Vec<_> = facts.keys().cloned().collect();
    assert_eq!(names, ["each[0]/work#0:done", "each[1]/work#0:done"]);
    port.recall(facts);
    let outcome = graph
        .invoke_with_port(port, RunStart::Recover, InvokeOptions::new(), &RunMonitor::default())
        .await
        .unwrap();
    let RunOutcome::Completed(done) = outcome else { panic!("it completes") };
    assert_eq!(crate::rig::state(&done.state)["results"], json!([1, 2, 3]));
}

// D7: a node that runs several times in one instance has the facts of each execution apart.
#[tokio::test]
async fn facts_are_of_one_execution() {
    let work = |cx: Ctx<Snapshot>| async move {
        assert_eq!(cx.records(), BTreeMap::new());
        let out = number(&cx, "out");
        cx.record("turn", Item::from_json(out.into())).await?;
        if out == 2 {
            std::future::pending::<()>().await;
        }
        Ok(update(json!({"out": out + 1})))
    };
    let leaf =
        over([int("n"), int("out")]).node("work", work).edge("work", "work").entry("work").compile().unwrap();
    let graph = around(each(&leaf)).compile().unwrap();
    let (port, watch) = (Arc::new(Memory::default()), RunMonitor::default());
    let start = RunStart::Fresh { initial: update(json!({"items": [7]})), hook: None };
    let running = graph.invoke_with_port(port.clone(), start, InvokeOptions::new(), &watch);
    assert!(tokio::time::timeout(std::time::Duration::from_millis(20), running).await.is_err());
    let facts = port.facts.lock().unwrap().clone();
    let told: Vec<_> =
        facts.iter().map(|(name, fact)| format!("{name} {}", fact.json_text().unwrap())).collect();
    assert_eq!(told, ["each[0]/work#0:turn 0", "each[0]/work#1:turn 1", "each[0]/work#2:turn 2"]);
}

// D7: an instance that is retried does not find the facts of nodes that had completed.
#[tokio::test]
async fn a_retried_instance_finds_facts_of_what_had_not_completed_alone() {
    let works = |cx: Ctx<Snapshot>| async move {
        assert_eq!(cx.records(), BTreeMap::new());
        cx.record("turn", Item::from_json(1.into())).await?;
        Ok(StateUpdate::new())
    };
    let fails = |cx: Ctx<Snapshot>| async move {
        assert_eq!(cx.records().len(), cx.attempt_index() as usize);
        cx.record("turn", Item::from_json(1.into())).await?;
        if cx.attempt_index() == 0 {
            Err(NodeError::new("x").mark_transient())
        } else {
            Ok(update(json!({"out": 5})))
        }
    };
    let leaf = over([int("n"), int("out")]).node("works", works).node("fails", fails).edge("works", "fails");
    let leaf = leaf.edge("fails", END).entry("works").compile().unwrap();
    let retry = Retry::new().backoff(RetryBackoff::Constant(std::time::Duration::ZERO));
    let graph = around(each(&leaf).instance_middleware(retry)).compile().unwrap();
    assert_eq!(crate::rig::run(&graph, json!({"items": [7]})).await["results"], json!([5]));
}

// spec: pipeline-utilities §10.6: after a crash inside of a retried subgraph its chain begins anew and goes on inside.
#[tokio::test]
async fn after_a_crash_attempts_begin_anew_where_the_run_stood() {
    let works = |cx: Ctx<Snapshot>| async move {
        assert!(!cx.is_recovering(), "it has completed");
        Ok(update(json!({"n": cx.attempt_index() + 5})))
    };
    let halts = |cx: Ctx<Snapshot>| async move {
        match (cx.is_recovering(), cx.attempt_index()) {
            (true, attempt) => return Ok(update(json!({"out": attempt}))),
            (false, 0) => return Err(NodeError::new("x").mark_transient()),
            (false, _) => std::future::pending::<()>().await,
        }
        unreachable!("it waits for ever")
    };
    let inner = over([int("n"), int("out")]).node("works", works).node("halts", halts).edge("works", "halts");
    let inner = inner.edge("halts", END).entry("works").compile().unwrap();
    let graph = over([int("n"), int("out")])
        .subgraph("sub", &inner, Projection::by_name())
        .edge("sub", END)
        .entry("sub")
        .middleware(Retry::new().backoff(RetryBackoff::Constant(std::time::Duration::ZERO)))
        .compile()
        .unwrap();
    let port = Arc::new(Memory::default());
    let start = RunStart::Fresh { initial: StateUpdate::new(), hook: None };
    let watch = RunMonitor::default();
    let running = graph.invoke_with_port(port.clone(), start, InvokeOptions::new(), &watch);
    assert!(tokio::time::timeout(std::time::Duration::from_millis(20), running).await.is_err());
    let attempts = |it: &StoredRun| it.cursor.frames.iter().map(|it| it.attempt).collect::<Vec<_>>();
    assert_eq!(port.standing.lock().unwrap().as_ref().map(attempts), Some(vec![1, 0]));
    let outcome = graph
        .invoke_with_port(port, RunStart::Recover, InvokeOptions::new(), &RunMonitor::default())
        .await
        .unwrap();
    assert_eq!(crate::rig::state(outcome.state()), json!({"n": 6, "out": 0}));
}

// ADR 0003: a step that cannot be recorded ends the invocation, whoever catches errors around it.
#[tokio::test]
async fn a_failed_step_passes_every_catcher() {
    let inner =
        over([int("n")]).node("a", |_: Ctx<Snapshot>| async { Ok(StateUpdate::new()) }).edge("a", END);
    let graph = over([int("n")])
        .subgraph("sub", &inner.entry("a").compile().unwrap(), Projection::by_name())
        .edge("sub", END)
        .entry("sub")
        .middleware(FailureIsolation::new("never", update(json!({"n": 9}))))
        .middleware(Retry::new().classifier(|_, _| true))
        .compile()
        .unwrap();
    let port = Arc::new(Memory { broken: true, ..Memory::default() });
    let start = RunStart::Fresh { initial: StateUpdate::new(), hook: None };
    let ended = graph.invoke_with_port(port, start, InvokeOptions::new(), &RunMonitor::default()).await;
    assert_eq!(ended.unwrap_err().category(), "checkpoint_save_failed");
}

// spec: suspension §3: a task that an instance left behind cannot end the invocation by asking too late.
#[tokio::test]
async fn a_task_left_behind_by_an_instance_asks_too_late() {
    let (sender, answer) = tokio::sync::oneshot::channel();
    let sender = Arc::new(Mutex::new(Some(sender)));
    let work = move |cx: Ctx<Snapshot>| {
        let sender = sender.lock().unwrap().take();
        async move {
            if let Some(sender) = sender {
                tokio::spawn(async move {
                    tokio::task::yield_now().await;
                    sender.send(
                        cx.suspend(Signal::new("late")).await.unwrap_err().category().map(str::to_owned),
                    )
                });
            }
            Ok(StateUpdate::new())
        }
    };
    let leaf =
        over([int("n"), int("out")]).node("work", work).edge("work", END).entry("work").compile().unwrap();
    let graph = around(each(&leaf).error_policy(ErrorPolicy::Collect)).compile().unwrap();
    assert_eq!(crate::rig::run(&graph, json!({"items": [1, 2]})).await["results"], json!([0, 0]));
    assert_eq!(answer.await.unwrap().as_deref(), Some("suspension_in_unsupported_context"));
}
