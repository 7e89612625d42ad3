//! Checkpoints beside sessions, suspension, batching and middleware (pipeline-utilities §10.11.4, §10.14, §10.15).

use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Map, Value, json};
use singletree_durable::{
    BatchedCheckpointer, Checkpointer, JsonDocument, MemoryStore, SessionKey, SessionStore, TenantId,
};
use singletree_engine::{
    Ctx, END, FanOut, Graph, InvokeOptions, NodeError, NodeResult, Projection, Retry, Signal, Snapshot,
};
use singletree_store_testing::{FailedWriteEffect, FaultInjectingStore};

use crate::checkpoint::{Keeper, named, positions, started};
use crate::checkpoint_resume::Diary;
use crate::fan_out::{ints, number};
use crate::rig::{Builder, completed, int, invocation, log, map, over, session, suspended, update};

fn appending(diary: &Diary) -> Builder {
    over([log("log")])
        .node("a", diary.node("a", |_| json!({"log": ["a"]})))
        .node("b", diary.node("b", |_| json!({"log": ["b"]})))
        .edge("a", "b")
        .edge("b", END)
        .entry("a")
}

async fn stored(store: &Arc<dyn SessionStore>, id: &str) -> Option<Value> {
    let key = SessionKey::new(TenantId::single(), session(id));
    let (record, _) = store.load(&key).await.unwrap()?;
    let decode = |(name, it): (&String, &JsonDocument)| (name.clone(), it.decode().unwrap());
    Some(Value::Object(record.state.iter().map(decode).collect::<Map<_, _>>()))
}

// spec: pipeline-utilities §10.14: both at once; the session is not merged a second time (R2), and saved at the end.
#[tokio::test]
async fn a_resumed_run_keeps_its_session_and_does_not_load_it_again() {
    let diary = Diary::default();
    let keeper = Keeper::new();
    let sessions: Arc<dyn SessionStore> = Arc::new(MemoryStore::new().session_store());
    let graph =
        appending(&diary).checkpointer(keeper.clone()).session_store(sessions.clone()).compile().unwrap();
    completed(graph.invoke(started(), named("first").session(session("s"))).await);
    assert_eq!(stored(&sessions, "s").await, Some(json!({"log": ["a", "b"]})));
    assert!(keeper.crash(1, graph.invoke(started(), named("second").session(session("s")))).await);
    assert_eq!(stored(&sessions, "s").await, Some(json!({"log": ["a", "b"]})));
    let other = InvokeOptions::new().session(session("other"));
    let error = graph.recover(&invocation("second"), other).await.unwrap_err();
    assert_eq!(error.category(), "invalid_argument");
    let outcome = graph.recover(&invocation("second"), InvokeOptions::new()).await.unwrap();
    assert_eq!(outcome.identity().session_id, Some(session("s")));
    assert_eq!(completed(Ok(outcome)), json!({"log": ["a", "b", "a", "b"]}));
    assert_eq!(stored(&sessions, "s").await, Some(json!({"log": ["a", "b", "a", "b"]})));
}

// spec: suspension §8.6: also of a run that was gone on with, half of a suspension is none.
#[tokio::test]
async fn a_suspension_that_fails_after_a_resume_puts_the_session_back() {
    let (diary, keeper) = (Diary::default(), Keeper::new());
    let sessions: Arc<dyn SessionStore> = Arc::new(MemoryStore::new().session_store());
    let paused = FaultInjectingStore::new(Arc::new(MemoryStore::new()), 1, FailedWriteEffect::Before);
    let graph = asking(&diary, true).checkpointer(keeper.clone()).session_store(sessions.clone());
    let graph = graph.paused_store(Arc::new(paused)).compile().unwrap();
    let with = |answer: i64| (update(json!({"answer": answer})), session("s"));
    let (given, id) = with(1);
    completed(graph.invoke(given, named("first").session(id)).await);
    let before = stored(&sessions, "s").await;
    let (given, id) = with(0);
    assert!(keeper.crash(1, graph.invoke(given, named("second").session(id))).await);
    let error = graph.recover(&invocation("second"), InvokeOptions::new()).await.unwrap_err();
    assert_eq!(error.category(), "suspension_persistence_failed");
    assert_eq!(stored(&sessions, "s").await, before);
}

/// Asks once, in the middle of a line.
fn asking(diary: &Diary, completed: bool) -> Builder {
    let ask = diary.clone();
    let ask = move |cx: Ctx<Snapshot>| {
        let diary = ask.clone();
        async move {
            diary.note("ask");
            if number(&cx, "answer") == 0 {
                return cx.suspend(Signal::new("go").mark_node_completed(completed)).await;
            }
            Ok(update(json!({"log": ["asked"]})))
        }
    };
    over([log("log"), int("answer")])
        .node("a", diary.node("a", |_| json!({"log": ["a"]})))
        .node("ask", ask)
        .node("b", diary.node("b", |_| json!({"log": ["b"]})))
        .node("c", diary.node("c", |_| json!({"log": ["c"]})))
        .edge("a", "ask")
        .edge("ask", "b")
        .edge("b", "c")
        .edge("c", END)
        .entry("a")
}

// spec: pipeline-utilities §10.15: the records are apart; a resumed invocation keeps its id and its completed nodes.
#[tokio::test]
async fn a_suspended_invocation_is_saved_before_and_after_its_pause() {
    for (marked, positions_at_end) in
        [(true, ["0.0 a", "1.0 ask", "2.0 b", "3.0 c"]), (false, ["0.0 a", "2.0 ask", "3.0 b", "4.0 c"])]
    {
        let diary = Diary::default();
        let keeper = Keeper::new();
        let graph = asking(&diary, marked).checkpointer(keeper.clone()).compile().unwrap();
        suspended(graph.invoke(started(), named("one")).await);
        assert_eq!(keeper.saved().iter().map(positions).collect::<Vec<_>>(), [["0.0 a"]]);
        let payload = map(json!({"answer": 1}));
        // It dies after b; c is left.
        let saves = if marked { 1 } else { 2 };
        assert!(keeper.crash(saves, graph.resume(&invocation("one"), payload, named("ignored"))).await);
        assert_eq!(keeper.last().invocation_id, invocation("one"));
        diary.take();
        completed(graph.recover(&invocation("one"), InvokeOptions::new()).await);
        assert_eq!(diary.take(), ["c"]);
        assert_eq!(positions(&keeper.last()), positions_at_end);
    }
}

// A checkpoint of before a pause goes on to the same pause, as an invocation of its own.
#[tokio::test]
async fn a_checkpoint_from_before_a_pause_leads_to_the_pause_again() {
    let diary = Diary::default();
    let keeper = Keeper::new();
    let graph = asking(&diary, true).checkpointer(keeper.clone()).compile().unwrap();
    suspended(graph.invoke(started(), named("one")).await);
    let paused = suspended(graph.recover(&invocation("one"), InvokeOptions::new()).await);
    assert_ne!(paused.identity.invocation_id, invocation("one"));
    let payload = map(json!({"answer": 1}));
    let done = graph.resume(&paused.identity.invocation_id, payload, InvokeOptions::new()).await;
    assert_eq!(completed(done)["log"], json!(["a", "b", "c"]));
    assert_eq!(diary.take(), ["a", "ask", "ask", "b", "c"]);
}

/// Ten instances one after the other; the seventh fails while it is told to.
fn ten(diary: &Diary, fails: &Arc<AtomicBool>) -> Builder {
    let (diary, fails) = (diary.clone(), fails.clone());
    let work = move |cx: Ctx<Snapshot>| {
        let n = number(&cx, "n");
        diary.note(format!("score {n}"));
        let failed = n == 7 && fails.load(Ordering::Relaxed);
        let result: NodeResult<Snapshot> =
            if failed { Err(NodeError::new("seven")) } else { Ok(update(json!({"out": 10 * n}))) };
        std::future::ready(result)
    };
    let inner = over([int("n"), int("out")]).node("score", work).edge("score", END).entry("score");
    let fan = FanOut::over(&inner.compile().unwrap()).concurrency(1);
    over([ints("items"), ints("results")])
        .node("before", sets_items)
        .fan_out("each", fan.items("items", "n").collect("out", "results"))
        .edge("before", "each")
        .edge("each", END)
        .entry("before")
}

fn sets_items(_: Ctx<Snapshot>) -> std::future::Ready<NodeResult<Snapshot>> {
    std::future::ready(Ok(update(json!({"items": (0..10).collect::<Vec<_>>()}))))
}

// spec: pipeline-utilities §10.11.4: saves that were kept back are lost; their nodes run again, and contribute once all
// the same.
#[tokio::test]
async fn saves_that_were_kept_back_are_done_again_and_contribute_once() {
    let (diary, keeper) = (Diary::default(), Keeper::new());
    let fails = Arc::new(AtomicBool::new(true));
    let batched = BatchedCheckpointer::new(keeper.clone(), NonZeroU64::new(5).unwrap());
    let graph = ten(&diary, &fails).checkpointer(Arc::new(batched)).compile().unwrap();
    let error = graph.invoke(started(), named("one")).await.unwrap_err();
    assert_eq!(error.category(), "node_exception");
    // The node before, and the fifth save from inside of the fan-out.
    assert_eq!(keeper.saved().len(), 2);
    let states: Vec<_> = keeper.last().fan_out_progress[0].instances.iter().map(|it| it.state).collect();
    use singletree_durable::InstanceState::{Completed, NotStarted};
    assert_eq!(states, [[Completed; 5], [NotStarted; 5]].concat());
    diary.take();
    fails.store(false, Ordering::Relaxed);
    let done = completed(graph.recover(&invocation("one"), InvokeOptions::new()).await);
    assert_eq!(done["results"], json!((0..10).map(|it| 10 * it).collect::<Vec<_>>()));
    assert_eq!(diary.take(), ["score 5", "score 6", "score 7", "score 8", "score 9"]);
    // One more from inside (the fifth of five), and the fan-out itself at once.
    assert_eq!(keeper.saved().len(), 4);
    assert!(keeper.last().fan_out_progress.is_empty());
}

// spec: pipeline-utilities §10.11.2: fail_fast: completed instances are skipped, the rest runs again.
#[tokio::test]
async fn after_a_failure_only_what_had_not_completed_runs_again() {
    let (diary, keeper) = (Diary::default(), Keeper::new());
    let fails = Arc::new(AtomicBool::new(true));
    let graph = ten(&diary, &fails).checkpointer(keeper.clone()).compile().unwrap();
    graph.invoke(started(), named("one")).await.unwrap_err();
    // A second failure, of a resumed run, keeps the instances completed before the first one.
    let again = graph.recover(&invocation("one"), InvokeOptions::new()).await.unwrap_err();
    assert_eq!(again.category(), "node_exception");
    let second = keeper.last().invocation_id;
    diary.take();
    fails.store(false, Ordering::Relaxed);
    completed(graph.recover(&second, InvokeOptions::new()).await);
    assert_eq!(diary.take(), ["score 7", "score 8", "score 9"]);
}

// A retry around a fan-out runs all of it again in the same run; progress of an earlier run counts for its first
// attempt.
#[tokio::test]
async fn a_retry_around_a_fan_out_begins_all_of_it_again() {
    let (diary, keeper) = (Diary::default(), Keeper::new());
    let fails = Arc::new(AtomicBool::new(true));
    let any = Retry::new().max_attempts(2).classifier(|_, _| true);
    let any = any.backoff(singletree_engine::RetryBackoff::from_function(|_| std::time::Duration::ZERO));
    let graph =
        ten(&diary, &fails).node_middleware("each", any).checkpointer(keeper.clone()).compile().unwrap();
    graph.invoke(started(), named("one")).await.unwrap_err();
    diary.take();
    graph.recover(&invocation("one"), InvokeOptions::new()).await.unwrap_err();
    let all = (0..8).map(|it| format!("score {it}"));
    assert_eq!(diary.take(), ["score 7".to_owned()].into_iter().chain(all).collect::<Vec<_>>());
}

// spec: pipeline-utilities §10.3: a subgraph behind a middleware is gone on with inside.
#[tokio::test]
async fn a_subgraph_with_middleware_goes_on_inside() {
    let diary = Diary::default();
    let keeper = Keeper::new();
    let inner: Graph<Snapshot> = appending(&diary).compile().unwrap();
    let graph = over([log("log"), log("outer")])
        .subgraph("sub", &inner, Projection::default().outputs([("outer", "log")]))
        .node_middleware("sub", Retry::new())
        .edge("sub", END)
        .entry("sub")
        .checkpointer(keeper.clone())
        .compile()
        .unwrap();
    assert!(keeper.crash(1, graph.invoke(started(), named("one"))).await);
    let done = completed(graph.recover(&invocation("one"), InvokeOptions::new()).await);
    assert_eq!(
        (done["outer"].clone(), diary.take()),
        (json!(["a", "b"]), vec!["a".to_owned(), "b".to_owned()])
    );
    let tenant = TenantId::single();
    Checkpointer::delete(&*keeper, &tenant, &invocation("one")).await.unwrap();
    let error = graph.recover(&invocation("one"), InvokeOptions::new()).await.unwrap_err();
    assert_eq!(error.category(), "checkpoint_not_found");
}
