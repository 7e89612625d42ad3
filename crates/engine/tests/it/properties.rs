//! Properties: typed and run-time states are one engine; a pause anywhere changes nothing.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value, json};
use singletree_engine::{
    Ctx, DeclaredState, END, FieldContent, FieldShape, FieldSpec, Graph, InvokeOptions, Projection, Reducer,
    RunOutcome, Signal, Snapshot, StateSchema, StateUpdate,
};
use singletree_macros::State;

use crate::rig::{completed, field, log, over, state, update};

#[derive(Debug, State)]
#[state(engine = singletree_engine)]
struct Typed {
    number: i64,
    #[state(append)]
    list: Vec<i64>,
    #[state(bounded_append = 3)]
    bounded: Vec<i64>,
    #[state(dedupe_append)]
    unique: Vec<i64>,
    #[state(merge)]
    map: BTreeMap<String, i64>,
    #[state(concat_flatten)]
    flat: Vec<i64>,
    #[state(merge_all)]
    all: BTreeMap<String, i64>,
}

/// The same fields, declared at run time.
fn dynamic() -> StateSchema {
    let (int, list, map) =
        (FieldShape::Int, FieldShape::Int.list(), FieldShape::Dict(Box::new(FieldShape::Int)));
    let of = |name, shape, default: Value, reducer| {
        FieldSpec::new(name, shape, FieldContent::from_json(default)).reducer(reducer)
    };
    StateSchema::new(
        "Typed",
        vec![
            of("number", int, json!(0), Reducer::LastWriteWins),
            of("list", list.clone(), json!([]), Reducer::Append),
            of("bounded", list.clone(), json!([]), Reducer::BoundedAppend(3)),
            of("unique", list.clone(), json!([]), Reducer::DedupeAppend(None)),
            of("map", map.clone(), json!({}), Reducer::Merge),
            of("flat", list, json!([]), Reducer::ConcatFlatten),
            of("all", map, json!({}), Reducer::MergeAll),
        ],
    )
}

/// One contribution: which field, and the numbers of it.
type Change = (u8, Vec<i64>);

fn keyed(numbers: &[i64]) -> BTreeMap<String, i64> {
    numbers.iter().map(|it| ((it % 3).to_string(), *it)).collect()
}

fn typed_update((field, numbers): &Change) -> TypedUpdate {
    let it = Typed::update();
    match field {
        0 => it.number(numbers.iter().sum::<i64>()),
        1 => it.list(numbers.clone()),
        2 => it.bounded(numbers.clone()),
        3 => it.unique(numbers.clone()),
        4 => it.map(keyed(numbers)),
        5 => it.flat([numbers.clone(), numbers.clone()]),
        _ => it.all([keyed(numbers), keyed(&numbers[..numbers.len() / 2])]),
    }
}

fn json_update((field, numbers): &Change) -> StateUpdate {
    update(match field {
        0 => json!({"number": numbers.iter().sum::<i64>()}),
        1 => json!({"list": numbers}),
        2 => json!({"bounded": numbers}),
        3 => json!({"unique": numbers}),
        4 => json!({"map": keyed(numbers)}),
        5 => json!({"flat": [numbers, numbers]}),
        _ => json!({"all": [keyed(numbers), keyed(&numbers[..numbers.len() / 2])]}),
    })
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(work)
}

/// A line of nodes, one for each change.
fn typed_line(changes: &[Change]) -> Graph<Typed> {
    let mut builder = Graph::<Typed>::builder();
    for (at, change) in changes.iter().cloned().enumerate() {
        let node = move |_: Ctx<Typed>| std::future::ready(Ok(typed_update(&change)));
        builder = builder.node(format!("n{at}"), node);
    }
    for at in 0..changes.len() {
        let last = at + 1 == changes.len();
        builder = if last {
            builder.edge(format!("n{at}"), END)
        } else {
            builder.edge(format!("n{at}"), format!("n{}", at + 1))
        };
    }
    builder.entry("n0").compile().unwrap()
}

fn dynamic_line(changes: &[Change]) -> Graph<Snapshot> {
    let mut builder = Graph::builder_with(dynamic());
    for (at, change) in changes.iter().cloned().enumerate() {
        builder = builder.node(format!("n{at}"), move |_| std::future::ready(Ok(json_update(&change))));
    }
    for at in 0..changes.len() {
        let last = at + 1 == changes.len();
        builder = if last {
            builder.edge(format!("n{at}"), END)
        } else {
            builder.edge(format!("n{at}"), format!("n{}", at + 1))
        };
    }
    builder.entry("n0").compile().unwrap()
}

fn changes() -> impl Strategy<Value = Vec<Change>> {
    prop::collection::vec((0u8..7, prop::collection::vec(-9i64..9, 0..6)), 1..12)
}

/// A graph of "a" (suspends when `at` says so), a subgraph of the same kind, and "b", run through to the end.
fn pausing(at: Option<usize>, completed: bool) -> Graph<Snapshot> {
    let build = |names: &'static [&'static str], first: usize| {
        let mut builder = over([log("log"), field("seen", FieldShape::Bool, json!(false))]);
        for (offset, name) in names.iter().copied().enumerate() {
            let pauses = at == Some(first + offset);
            builder = builder.node(name, move |cx: Ctx<Snapshot>| async move {
                let seen = cx.state().get("seen").unwrap().to_json()? == json!(true);
                if pauses && !seen {
                    // A completed node logs nothing itself: its entry must come from the payload.
                    return cx.suspend(Signal::new(name).mark_node_completed(completed)).await;
                }
                Ok(update(json!({"log": [name]})))
            });
        }
        builder
    };
    let inner = build(&["x", "y"], 1).edge("x", "y").edge("y", END).entry("x").compile().unwrap();
    let projection = Projection::by_name().projects_out(["log"]);
    let outer = build(&["a"], 0).subgraph("sub", &inner, projection);
    let outer = outer.node("b", {
        let pauses = at == Some(3);
        move |cx: Ctx<Snapshot>| async move {
            let seen = cx.state().get("seen").unwrap().to_json()? == json!(true);
            if pauses && !seen {
                return cx.suspend(Signal::new("b").mark_node_completed(completed)).await;
            }
            Ok(update(json!({"log": ["b"]})))
        }
    });
    outer.edge("a", "sub").edge("sub", "b").edge("b", END).entry("a").compile().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    // One engine: a typed and a run-time graph with equal fields end in equal states.
    #[test]
    fn typed_and_dynamic_graphs_end_in_the_same_state(changes in changes()) {
        let (typed, dynamic) = block_on(async {
            let typed = typed_line(&changes);
            let port_free = typed.invoke(StateUpdate::new(), InvokeOptions::new()).await.unwrap();
            let dynamic = dynamic_line(&changes).invoke(StateUpdate::new(), InvokeOptions::new()).await;
            (port_free, completed(dynamic))
        });
        let RunOutcome::Completed(typed) = typed else { panic!("it completes") };
        let it = typed.state;
        let typed = json!({
            "number": it.number, "list": it.list, "bounded": it.bounded, "unique": it.unique, "map": it.map,
            "flat": it.flat, "all": it.all,
        });
        prop_assert_eq!(typed, dynamic);
        prop_assert_eq!(Typed::schema().fields().len(), 7);
    }
}

// spec: suspension §3, §7, §8.1: with the node run again, a pause at any node ends where no pause ends.
#[tokio::test]
async fn a_pause_at_any_node_changes_nothing() {
    let through = pausing(None, true).invoke(StateUpdate::new(), InvokeOptions::new()).await;
    assert_eq!(completed(through), json!({"log": ["a", "x", "y", "b"], "seen": false}));
    for at in 0..4 {
        let name = ["a", "x", "y", "b"][at];
        let again = resumed(&pausing(Some(at), false)).await;
        assert_eq!(again["log"], json!(["a", "x", "y", "b"]), "{name} runs again");
        // Completed by its pause, the node contributes nothing, and nothing else is lost.
        let skipped: Vec<_> = ["a", "x", "y", "b"].into_iter().filter(|it| *it != name).collect();
        assert_eq!(resumed(&pausing(Some(at), true)).await["log"], json!(skipped), "{name} is done");
    }
}

async fn resumed(graph: &Graph<Snapshot>) -> Value {
    let paused = crate::rig::suspended(graph.invoke(StateUpdate::new(), InvokeOptions::new()).await);
    assert_eq!(state(&paused.state)["seen"], json!(false));
    let payload = crate::rig::map(json!({"seen": true}));
    completed(graph.resume(&paused.identity.invocation_id, payload, InvokeOptions::new()).await)
}
