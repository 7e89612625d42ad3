//! Reducers of the application's own, and keys that cannot be compared, through a whole graph (graph-engine §§2, 4).

use std::sync::Arc;

use serde_json::{Value, json};
use singletree_durable::MemoryStore;
use singletree_engine::{
    Branch, Branches, CustomReducer, END, Error, FanOut, FieldContent, FieldShape, FieldSpec, InvokeOptions,
    KeyExtractor, Projection, Reducer, ReducerFault, format_error_chain,
};

use crate::rig::{completed, described, fail, field, int, over, run, session, sets, update};

/// Adds numbers up.
struct Sum;

impl CustomReducer for Sum {
    fn name(&self) -> &'static str {
        "sum"
    }
    fn reduce_update(
        &self,
        prior: &FieldContent,
        update: FieldContent,
    ) -> Result<FieldContent, ReducerFault> {
        let number = |it: &FieldContent| match it.to_json()? {
            Value::Number(number) => Ok(number.as_i64().unwrap_or_default()),
            Value::Array(all) => Ok(all.iter().filter_map(Value::as_i64).sum()),
            other => Err(ReducerFault::new(format!("{other} is no number"))),
        };
        Ok(FieldContent::from_json(json!(number(prior)? + number(&update)?)))
    }
    fn is_round_trip_idempotent(&self) -> Option<bool> {
        Some(false)
    }
}

fn total() -> FieldSpec {
    int("total").reducer(Reducer::Custom(Arc::new(Sum)))
}

// spec: graph-engine §2: it is asked wherever something is merged, once for each contribution.
#[tokio::test]
async fn a_reducer_of_ones_own_merges_whatever_is_contributed() {
    let inner =
        over([int("n")]).node("x", sets(json!({"n": 5}))).edge("x", END).entry("x").compile().unwrap();
    let five = || Branch::new().call(sets(json!({"total": 5})));
    let store = Arc::new(MemoryStore::new().session_store());
    let graph = over([total()])
        .node("node", sets(json!({"total": 1})))
        .subgraph("sub", &inner, Projection::by_name().outputs([("total", "n")]))
        .fan_out("fan", FanOut::over(&inner).count(3).collect("n", "total"))
        .branches("fork", Branches::new().branch("a", five()).branch("b", five()))
        .edge("node", "sub")
        .edge("sub", "fan")
        .edge("fan", "fork")
        .edge("fork", END)
        .entry("node")
        .session_store(store)
        .compile()
        .unwrap();
    assert_eq!(run(&graph, json!({"total": 100})).await, json!({"total": 100 + 1 + 5 + 15 + 10}));
    // R1: merged onto a session's stored value, too.
    for expected in [131, 131 + 131] {
        let options = InvokeOptions::new().session(session("s"));
        let ended = graph.invoke(update(json!({"total": 100})), options).await;
        assert_eq!(completed(ended), json!({"total": expected}));
    }
}

// spec: graph-engine §2: it says itself whether a round trip is harmless.
#[test]
fn a_reducer_of_ones_own_may_be_warned_of() {
    let child = over([total()]).node("x", sets(json!({}))).edge("x", END).entry("x").compile().unwrap();
    let both = Projection::by_name().projects_in(["total"]).projects_out(["total"]);
    let graph = over([total()]).subgraph("sub", &child, both).edge("sub", END).entry("sub");
    let graph = graph.compile().unwrap();
    let warned: Vec<_> = graph.warnings().iter().map(|it| it.field.as_deref()).collect();
    assert_eq!(warned, [Some("total")]);
}

// spec: graph-engine §2: a value that is no scalar cannot be a key, nor can one on which the key function fails; prior
// items count, too.
#[tokio::test]
async fn a_key_that_cannot_be_compared_is_a_reducer_error() {
    let failing = || KeyExtractor::from_function(|_| Err(ReducerFault::new("no key today")));
    let id = || KeyExtractor::field("id");
    let cases: [(Reducer, Value, Value, &str); 8] = [
        (Reducer::DedupeAppend(None), json!([]), json!([{"a": 1}]), "not hashable"),
        (Reducer::DedupeAppend(None), json!([[1]]), json!([1]), "not hashable"),
        (Reducer::DedupeAppend(Some(id())), json!([]), json!([{"id": [1]}]), "not hashable"),
        (Reducer::DedupeAppend(Some(id())), json!([]), json!([{"no": 1}]), "no field 'id'"),
        (Reducer::DedupeAppend(Some(failing())), json!([]), json!([1]), "no key today"),
        (Reducer::MergeByKey(Some(id())), json!([]), json!([{"id": {"x": 1}}]), "not hashable"),
        (Reducer::MergeByKey(Some(id())), json!([{"id": {}}]), json!([{"id": 1}]), "not hashable"),
        (Reducer::MergeByKey(Some(failing())), json!([]), json!([1]), "no key today"),
    ];
    for (reducer, prior, given, why) in cases {
        let name = reducer.name().to_owned();
        let items = field("items", FieldShape::Any.list(), json!([])).reducer(reducer);
        let graph = over([items]).node("a", sets(json!({"items": given.clone()}))).edge("a", END).entry("a");
        let error = fail(&graph.compile().unwrap(), json!({"items": prior.clone()})).await;
        let before = Some(json!({"items": prior}));
        assert_eq!(described(&error), ("reducer_error", Some("a".into()), before), "{name} {given}");
        let Error::Reducer { field, reducer, .. } = &error else { panic!("{error:?}") };
        assert_eq!((field.as_str(), reducer), ("items", &name));
        assert!(format_error_chain(&error).contains(why), "{name} {given}: {}", format_error_chain(&error));
    }
}
