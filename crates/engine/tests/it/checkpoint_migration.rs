//! Checkpoints of other versions, of other graphs, and those that were made elsewhere (pipeline-utilities §10.10,
//! §10.12).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};
use singletree_durable::{
    BoxFuture, CheckpointFilter, CheckpointRecord, CheckpointSummary, Checkpointer, Error as StoreError,
    InstanceState, InvocationId, MemoryStore, Result as StoreResult, StateMigrations, TenantId,
};
use singletree_engine::{
    Ctx, END, Error, FanOut, FieldShape, FieldSpec, Graph, InvokeOptions, Projection, RunOutcome, Snapshot,
    StateSchema, Target,
};

use crate::checkpoint::{Keeper, named};
use crate::checkpoint_resume::Diary;
use crate::fan_out::ints;
use crate::rig::{Builder, completed, field, int, invocation, map, over, sets, text};

/// A record as somebody else would write it: the specification's fields only.
fn record(version: &str, given: Value) -> CheckpointRecord {
    let mut record = json!({
        "invocation_id": "seeded",
        "correlation_id": "work",
        "schema_version": version,
        "last_saved_at": 5,
    });
    record.as_object_mut().unwrap().extend(map(given));
    serde_json::from_str(&record.to_string()).unwrap()
}

async fn seeded(record: &CheckpointRecord) -> Arc<MemoryStore> {
    let store = MemoryStore::new();
    Checkpointer::save(&store, &TenantId::single(), record).await.unwrap();
    Arc::new(store)
}

async fn recover(graph: Builder, record: &CheckpointRecord) -> Result<RunOutcome<Snapshot>, Error> {
    let graph = graph.checkpointer(seeded(record).await).compile()?;
    graph.recover(&invocation("seeded"), InvokeOptions::new()).await
}

fn versioned(version: &str, fields: Vec<FieldSpec>) -> Builder {
    Graph::builder_with(StateSchema::new("versioned", fields).with_version(version))
}

fn at(namespace: &[&str], node: &str, step: u64) -> Value {
    json!({"namespace": namespace, "node_name": node, "step": step, "attempt_index": 0})
}

/// Two nodes over a state that has a field more than version 1 had.
fn line() -> Builder {
    versioned("v2", vec![int("a"), FieldSpec::required("topic", FieldShape::Str), int("b")])
        .node("first", sets(json!({"a": 9})))
        .node("second", sets(json!({"b": 2})))
        .edge("first", "second")
        .edge("second", END)
        .entry("first")
}

fn old() -> CheckpointRecord {
    record("v1", json!({"state": {"a": 1, "b": 0}, "completed_positions": [at(&[], "first", 0)]}))
}

pub(crate) fn adds(
    name: &'static str,
    to: &'static str,
) -> impl Fn(State) -> Migrated + Send + Sync + 'static {
    move |mut state| {
        state.insert(name.to_owned(), to.into());
        Ok(state)
    }
}

pub(crate) type State = std::collections::BTreeMap<String, Value>;
pub(crate) type Migrated = Result<State, singletree_durable::BoxError>;

// spec: pipeline-utilities §10.12.2
#[tokio::test]
async fn a_chain_of_migrations_brings_a_state_to_the_present_version() {
    let migrations = StateMigrations::new().with("v1.5", "v2", adds("topic", "final")).with(
        "v1",
        "v1.5",
        adds("topic", "draft"),
    );
    let done = recover(line().state_migrations(migrations), &old()).await;
    assert_eq!(completed(done), json!({"a": 1, "topic": "final", "b": 2}));
}

// spec: pipeline-utilities §10.10, §10.12.4: which category, and none of it ran.
#[tokio::test]
async fn each_way_to_fail_has_its_category() {
    let failing = |_| Err("no".into());
    let panicking = |_: State| -> Migrated { panic!("no") };
    let same = |state| Ok(state);
    let twice = || StateMigrations::new().with("v1", "v2", adds("topic", "x"));
    for (migrations, category) in [
        (StateMigrations::new(), "checkpoint_state_migration_missing"),
        (StateMigrations::new().with("v0", "v2", same), "checkpoint_state_migration_missing"),
        (StateMigrations::new().with("v1", "v2", failing), "checkpoint_state_migration_failed"),
        (StateMigrations::new().with("v1", "v2", panicking), "checkpoint_state_migration_failed"),
        (twice().with("v1", "v2", same), "checkpoint_state_migration_chain_ambiguous"),
        (
            StateMigrations::new()
                .with("v1", "x", same)
                .with("v1", "y", same)
                .with("x", "v2", same)
                .with("y", "v2", same),
            "checkpoint_state_migration_chain_ambiguous",
        ),
        (StateMigrations::new().with("v1", "v2", same), "checkpoint_record_invalid"),
    ] {
        let text = migrations.to_string();
        let error = recover(line().state_migrations(migrations), &old()).await.unwrap_err();
        assert_eq!(error.category(), category, "{text}: {error:?}");
    }
}

// spec: pipeline-utilities §10.10: the fields of the error of a missing chain.
#[tokio::test]
async fn a_missing_chain_names_both_versions_and_what_is_registered() {
    let migrations = StateMigrations::new().with("v0", "v2", Ok);
    match recover(line().state_migrations(migrations), &old()).await.unwrap_err() {
        Error::CheckpointMigration { from, to, source } => {
            assert_eq!((from.as_str(), to.as_str()), ("v1", "v2"));
            assert!(source.to_string().contains("1 registered: v0 -> v2"), "{source}");
        }
        other => panic!("{other:?}"),
    }
}

// spec: pipeline-utilities §10.12.3
#[tokio::test]
async fn the_registry_is_not_consulted_when_versions_match() {
    let calls = Arc::new(AtomicU64::new(0));
    let counts = calls.clone();
    let migrations = StateMigrations::new().with("v2", "v3", move |state| {
        counts.fetch_add(1, Ordering::Relaxed);
        Ok(state)
    });
    let present =
        record("v2", json!({"state": {"a": 1, "topic": "t"}, "completed_positions": [at(&[], "first", 0)]}));
    let done = recover(line().state_migrations(migrations), &present).await;
    assert_eq!((completed(done), calls.load(Ordering::Relaxed)), (json!({"a": 1, "topic": "t", "b": 2}), 0));
}

// spec: pipeline-utilities §10.12.2: containing states count as of the same version.
#[tokio::test]
async fn the_states_around_a_subgraph_are_migrated_as_well() {
    let diary = Diary::default();
    let inner = versioned("v2", vec![int("x"), text("topic"), int("done")])
        .node("inner_node", diary.node("inner_node", |_| json!({"done": 1})))
        .edge("inner_node", END)
        .entry("inner_node")
        .compile()
        .unwrap();
    let graph = versioned("v2", vec![int("y"), text("topic"), int("z")])
        .node("before", diary.node("before", |_| json!({})))
        .subgraph("sub", &inner, Projection::default().outputs([("z", "x")]))
        .node("after", diary.node("after", |_| json!({})))
        .edge("before", "sub")
        .edge("sub", "after")
        .edge("after", END)
        .entry("before");
    let calls = Arc::new(AtomicU64::new(0));
    let counts = calls.clone();
    let migrations = StateMigrations::new().with("v1", "v2", move |mut state| {
        counts.fetch_add(1, Ordering::Relaxed);
        state.insert("topic".to_owned(), "migrated".into());
        Ok(state)
    });
    let positions = [at(&[], "before", 0), at(&["sub"], "inner_node", 1)];
    let old = json!({"state": {"x": 3}, "parent_states": [{"y": 5}], "completed_positions": positions});
    let done = recover(graph.state_migrations(migrations), &record("v1", old)).await;
    assert_eq!(completed(done), json!({"y": 5, "topic": "migrated", "z": 3}));
    assert_eq!((calls.load(Ordering::Relaxed), diary.take()), (2, vec!["after".to_owned()]));
}

/// A checkpointer whose records are of live types, or unreadable, or out of reach.
#[derive(Debug)]
struct Odd {
    migrates: bool,
    load: fn() -> StoreResult<Option<CheckpointRecord>>,
}

impl Checkpointer for Odd {
    fn save<'a>(&'a self, _: &'a TenantId, _: &'a CheckpointRecord) -> BoxFuture<'a, StoreResult<()>> {
        Box::pin(async { Ok(()) })
    }

    fn load<'a>(
        &'a self,
        _: &'a TenantId,
        _: &'a InvocationId,
    ) -> BoxFuture<'a, StoreResult<Option<CheckpointRecord>>> {
        Box::pin(async { (self.load)() })
    }

    fn list<'a>(
        &'a self,
        _: &'a TenantId,
        _: &'a CheckpointFilter,
    ) -> BoxFuture<'a, StoreResult<Vec<CheckpointSummary>>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn delete<'a>(&'a self, _: &'a TenantId, _: &'a InvocationId) -> BoxFuture<'a, StoreResult<()>> {
        Box::pin(async { Ok(()) })
    }

    fn supports_state_migration(&self) -> bool {
        self.migrates
    }
}

// spec: pipeline-utilities §10.12.1, §10.12.4; failures of the store itself keep apart.
#[tokio::test]
async fn what_a_checkpointer_cannot_do_or_read_has_its_category() {
    let corrupt = || Err(StoreError::Corrupt { what: "a page".into(), source: None });
    let gone = || Err(StoreError::Unavailable { doing: "load", source: "gone".into() });
    let migration = || StateMigrations::new().with("v1", "v2", adds("topic", "x"));
    let found: fn() -> StoreResult<Option<CheckpointRecord>> = || Ok(Some(old()));
    for (load, migrates, migrations, category) in [
        (found, false, migration(), "checkpoint_record_invalid"),
        (found, false, StateMigrations::new(), "checkpoint_state_migration_missing"),
        (corrupt, true, migration(), "checkpoint_record_invalid"),
        (gone, true, migration(), "checkpoint_load_failed"),
    ] {
        let graph = line().checkpointer(Arc::new(Odd { migrates, load })).state_migrations(migrations);
        let graph = graph.compile().unwrap();
        let error = graph.recover(&invocation("seeded"), InvokeOptions::new()).await.unwrap_err();
        assert_eq!(error.category(), category);
    }
}

// spec: pipeline-utilities §10.10: state shape mismatch, missing fields, places that the graph does not have.
#[tokio::test]
async fn a_record_that_does_not_fit_the_graph_is_refused() {
    let state = json!({"a": 1, "topic": "t"});
    let first = at(&[], "first", 0);
    for (name, given) in [
        (
            "a value of another type",
            json!({"state": {"a": "one", "topic": "t"}, "completed_positions": [first]}),
        ),
        ("a required field missing", json!({"state": {"a": 1}, "completed_positions": [first]})),
        ("a node that is not there", json!({"state": state, "completed_positions": [at(&[], "gone", 0)]})),
        (
            "a node that is no subgraph",
            json!({
                "state": state, "parent_states": [state], "completed_positions": [at(&["first"], "x", 0)],
            }),
        ),
        (
            "fewer states than graphs",
            json!({"state": state, "completed_positions": [at(&["first"], "x", 0)]}),
        ),
        ("a state too many", json!({"state": state, "parent_states": [state], "completed_positions": []})),
        (
            "a damaged cursor",
            json!({"state": state, "completed_positions": [first], "cursor": {"frames": 3}}),
        ),
        (
            "a fan-out that is not there",
            json!({"state": state, "completed_positions": [first], "fan_out_progress": [
                {"fan_out_node_name": "each", "namespace": [], "instance_count": 0, "instances": []},
            ]}),
        ),
    ] {
        let error = recover(line(), &record("v2", given)).await.unwrap_err();
        assert_eq!(error.category(), "checkpoint_record_invalid", "{name}: {error:?}");
    }
}

/// Two rows of three cells; a cell puts ten times its number into `out`.
fn table(diary: &Diary) -> Builder {
    let cell = over([int("n"), int("out")]).node("score", diary.item("score", |n| json!({"out": 10 * n})));
    let cell = cell.edge("score", END).entry("score").compile().unwrap();
    let row = over([ints("items"), ints("results")])
        .fan_out("cells", FanOut::over(&cell).items("items", "n").collect("out", "results"))
        .edge("cells", END)
        .entry("cells")
        .compile()
        .unwrap();
    let rows = field("rows", FieldShape::Int.list().list(), json!([[1, 2, 3], [4, 5, 6]]));
    over([rows, field("all", FieldShape::Int.list().list(), json!([]))])
        .fan_out("rows", FanOut::over(&row).items("rows", "items").collect("results", "all"))
        .edge("rows", END)
        .entry("rows")
}

/// The stored progress of a row in which these cells are completed.
fn cells(row: Option<u64>, count: usize, done: &[i64]) -> Value {
    let instances = (0..count).map(|at| match done.get(at) {
        Some(result) => json!({"state": "completed", "result": result, "result_is_error": false}),
        None => json!({"state": "not_started", "result_is_error": false}),
    });
    let mut entry = json!({"namespace": ["rows"], "fan_out_node_name": "cells", "instance_count": count});
    entry["instances"] = instances.collect();
    if let Some(index) = row {
        let enclosing = json!({"namespace": [], "fan_out_node_name": "rows", "fan_out_index": index});
        entry["enclosing_fan_out_lineage"] = json!([enclosing]);
    }
    entry
}

fn of_table(entries: Vec<Value>) -> CheckpointRecord {
    let in_flight = json!({"state": "in_flight", "result_is_error": false});
    let rows = json!({
        "namespace": [], "fan_out_node_name": "rows", "instance_count": 2, "enclosing_fan_out_lineage": [],
        "instances": [in_flight, in_flight],
    });
    let progress: Vec<_> = [rows].into_iter().chain(entries).collect();
    let state = json!({"rows": [[1, 2, 3], [4, 5, 6]], "all": []});
    record("unversioned", json!({"state": state, "completed_positions": [], "fan_out_progress": progress}))
}

// spec: pipeline-utilities §10.11, no mis-skip: entries are matched by lineage, those without one match nothing nested.
#[tokio::test]
async fn progress_is_taken_by_the_lineage_that_it_is_of_and_no_other() {
    let all = ["score 1", "score 2", "score 3", "score 4", "score 5", "score 6"];
    let wrong = json!([{"namespace": ["rows"], "fan_out_node_name": "rows", "fan_out_index": 0}]);
    let mut astray = cells(None, 3, &[10]);
    astray["enclosing_fan_out_lineage"] = wrong;
    for (name, entries, ran) in [
        (
            "two rows",
            vec![cells(Some(0), 3, &[10, 20]), cells(Some(1), 3, &[40])],
            vec!["score 3", "score 5", "score 6"],
        ),
        ("one row", vec![cells(Some(1), 3, &[40, 50, 60])], vec!["score 1", "score 2", "score 3"]),
        ("without lineage", vec![cells(None, 3, &[10, 20])], all.to_vec()),
        ("of a row that is not", vec![cells(Some(2), 3, &[10, 20])], all.to_vec()),
        ("of what does not contain it", vec![astray], all.to_vec()),
    ] {
        let diary = Diary::default();
        let done = completed(recover(table(&diary), &of_table(entries)).await);
        assert_eq!(done["all"], json!([[10, 20, 30], [40, 50, 60]]), "{name}");
        let mut did = diary.take();
        did.sort();
        assert_eq!(did, ran, "{name}");
    }
}

// R19: whoever wrote the record may have put the state of an instance into it, and the positions of inner nodes; the
// run stands before the fan-out all the same. One that had merged is not entered again.
#[tokio::test]
async fn a_fan_out_is_gone_on_with_whichever_states_were_saved_of_it() {
    let fan_out = of_table(vec![cells(Some(0), 3, &[10, 20])]);
    let mut of_row = fan_out.clone();
    of_row.parent_states = vec![fan_out.state.clone()];
    of_row.state = record("unversioned", json!({"state": {"items": [1, 2, 3], "results": []}})).state;
    let mut inner = at(&["rows", "cells"], "score", 3);
    inner["fan_out_index"] = json!(1);
    let positions = json!({"state": {}, "completed_positions": [inner]});
    of_row.completed_positions = record("unversioned", positions).completed_positions;
    let all = json!([[10, 20, 30], [40, 50, 60]]);
    let mut merged = of_table(vec![]);
    merged.state = record("unversioned", json!({"state": {"rows": [[1], [4]], "all": all}})).state;
    let position = json!({"state": {}, "completed_positions": [at(&[], "rows", 0)]});
    merged.completed_positions = record("unversioned", position).completed_positions;
    // Nothing but an entry from when there were no lineages: it does not even say where the run stood.
    let mut legacy = of_table(vec![cells(None, 3, &[10, 20])]);
    legacy.fan_out_progress.remove(0);
    let every: Vec<_> = (1..=6).map(|it| format!("score {it}")).collect();
    let row = &mut merged.fan_out_progress[0];
    row.instances.iter_mut().for_each(|it| it.state = InstanceState::Completed);
    for (name, record, ran) in [
        ("outer", fan_out, &every[2..]),
        ("inner", of_row, &every[2..]),
        ("merged", merged, &every[..0]),
        ("legacy", legacy, &every),
    ] {
        let diary = Diary::default();
        let done = completed(recover(table(&diary), &record).await);
        let mut did = diary.take();
        did.sort();
        assert_eq!((&done["all"], did.as_slice()), (&all, ran), "{name}");
    }
}

// Progress that no container took belongs to a place that the run has left: a cycle that comes back to it begins anew.
#[tokio::test]
async fn progress_that_nobody_took_is_forgotten_when_the_run_goes_on() {
    let diary = Diary::default();
    let cell = over([int("n"), int("out")]).node("score", diary.item("score", |n| json!({"out": 10 * n})));
    let cell = cell.edge("score", END).entry("score").compile().unwrap();
    let later = |state: &Snapshot| {
        let first = state.get("round").unwrap().to_json().unwrap() == json!(1);
        if first { Target::End } else { Target::Node("cells".into()) }
    };
    let row = over([int("round"), field("items", FieldShape::Int.list(), json!([1, 2])), ints("results")])
        .node("look", sets(json!({})))
        .fan_out("cells", FanOut::over(&cell).items("items", "n").collect("out", "results"))
        .conditional_edge("look", later)
        .edge("cells", END)
        .entry("look")
        .compile()
        .unwrap();
    let again = |state: &Snapshot| {
        let first = state.get("round").unwrap().to_json().unwrap() == json!(1);
        if first { Target::Node("next".into()) } else { Target::End }
    };
    let count = |cx: Ctx<Snapshot>| {
        let round = crate::fan_out::number(&cx, "round");
        std::future::ready(Ok(crate::rig::update(json!({"round": round + 1}))))
    };
    let graph = over([int("round"), field("all", FieldShape::Int.list().list(), json!([]))])
        .node("next", count)
        .fan_out("rows", FanOut::over(&row).count(1).input("round", "round").collect("results", "all"))
        .edge("next", "rows")
        .conditional_edge("rows", again)
        .entry("next");
    let mut stale = cells(Some(0), 2, &[777]);
    stale["execution"] = json!(1);
    let rows = json!({"namespace": [], "fan_out_node_name": "rows", "instance_count": 1,
        "instances": [{"state": "in_flight"}]});
    let given = json!({"state": {"round": 1, "all": []}, "completed_positions": [at(&[], "next", 0)],
        "fan_out_progress": [rows, stale]});
    let done = completed(recover(graph, &record("unversioned", given)).await);
    assert_eq!(done, json!({"round": 2, "all": [[10, 20]]}));
}

// spec: pipeline-utilities §10.11, count drift: neither padded nor cut, and nothing of the fan-out runs.
#[tokio::test]
async fn another_number_of_instances_is_refused_before_any_runs() {
    for (entries, outer) in [
        (vec![cells(Some(0), 2, &[10])], 2),
        (vec![cells(Some(0), 4, &[10])], 2),
        (Vec::new(), 1),
        (Vec::new(), 3),
    ] {
        let diary = Diary::default();
        let mut record = of_table(entries);
        let rows = &mut record.fan_out_progress[0];
        let one = rows.instances[0].clone();
        (rows.instance_count, rows.instances) = (outer, vec![one; usize::try_from(outer).unwrap()]);
        let error = recover(table(&diary), &record).await.unwrap_err();
        assert_eq!(error.category(), "checkpoint_record_invalid");
        assert!(!diary.take().iter().any(|it| ["score 1", "score 2", "score 3"].contains(&it.as_str())));
    }
}

// A run goes on at the same place whether its record has the engine's own cursor or only the specification's fields.
#[tokio::test]
async fn a_record_without_a_cursor_goes_on_at_the_same_place() {
    let diary = Diary::default();
    let make = || table(&diary);
    let keeper = Keeper::new();
    let graph = make().checkpointer(keeper.clone()).compile().unwrap();
    let expected = completed(graph.invoke(crate::checkpoint::started(), named("whole")).await);
    for mut record in keeper.saved() {
        record.cursor = None;
        record.invocation_id = invocation("seeded");
        assert_eq!(completed(recover(make(), &record).await), expected);
    }
}
