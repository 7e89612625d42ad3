//! Run-time errors: categories, and the state that can be recovered (graph-engine §4).

use std::sync::Arc;

use serde_json::json;
use singletree_engine::{
    CustomReducer, END, Error, FieldContent, FieldShape, FieldSpec, Graph, InvokeOptions, NodeError, Reducer,
    ReducerFault, Snapshot, StateUpdate, format_error_chain,
};

use crate::rig::{Builder, described, fail, field, int, log, over, run, sets, text, update};

/// A node "first" that sets v to 1, then "second".
fn after_first(fields: Vec<FieldSpec>) -> Builder {
    let builder = over([int("v"), log("log")].into_iter().chain(fields)).node("first", sets(json!({"v": 1})));
    builder.edge("first", "second").edge("second", END).entry("first")
}

fn second(builder: Builder, value: serde_json::Value) -> Graph<Snapshot> {
    builder.node("second", sets(value)).compile().unwrap()
}

#[derive(Debug, thiserror::Error)]
#[error("the line is down")]
struct Down;

// spec: graph-engine §4
#[tokio::test]
async fn a_failed_node_leaves_the_state_before_it_and_its_cause() {
    let failing = |_| async { Err::<StateUpdate, NodeError>(Down.into()) };
    let graph = after_first(vec![]).node("second", failing).compile().unwrap();
    let error = fail(&graph, json!({})).await;
    assert_eq!(
        described(&error),
        ("node_exception", Some("second".into()), Some(json!({"v": 1, "log": []})))
    );
    assert_eq!(
        (error.derived_category(), format_error_chain(&error)),
        ("node_exception", "node 'second' failed: the line is down".into())
    );
    let Error::Node { source, .. } = &error else { panic!("{error:?}") };
    assert!(source.original_error().is_some_and(<dyn std::error::Error>::is::<Down>));
}

#[tokio::test]
async fn a_node_may_give_its_failure_a_category_and_a_cause() {
    let failing = |_| async {
        let error = NodeError::new("no model").with_category("provider_unavailable").with_cause(Down);
        Err::<StateUpdate, _>(error)
    };
    let graph = after_first(vec![]).node("second", failing).compile().unwrap();
    let error = fail(&graph, json!({})).await;
    assert_eq!((error.category(), error.derived_category()), ("node_exception", "provider_unavailable"));
    assert_eq!(format_error_chain(&error), "node 'second' failed: no model: the line is down");
}

#[tokio::test]
async fn a_panic_is_the_nodes_failure_wherever_it_happens() {
    let before_the_future = |_| -> std::future::Ready<Result<StateUpdate, NodeError>> { panic!("early") };
    let graph = after_first(vec![]).node("second", before_the_future).compile().unwrap();
    assert_eq!(format_error_chain(&fail(&graph, json!({})).await), "node 'second' failed: panicked: early");
    let inside = |_| async {
        tokio::task::yield_now().await;
        if true {
            panic!("{}", String::from("late"));
        }
        Ok(StateUpdate::new())
    };
    let graph = after_first(vec![]).node("second", inside).compile().unwrap();
    let error = fail(&graph, json!({})).await;
    assert_eq!(format_error_chain(&error), "node 'second' failed: panicked: late");
    assert_eq!(
        described(&error),
        ("node_exception", Some("second".into()), Some(json!({"v": 1, "log": []})))
    );
}

// spec: graph-engine §4
#[tokio::test]
async fn a_failed_merge_names_field_reducer_and_node() {
    let error = fail(&second(after_first(vec![]), json!({"v": 2, "log": "no list"})), json!({})).await;
    assert_eq!(described(&error), ("reducer_error", Some("second".into()), Some(json!({"v": 1, "log": []}))));
    let Error::Reducer { field, reducer, source, .. } = &error else { panic!("{error:?}") };
    assert_eq!((field.as_str(), reducer.as_str()), ("log", "append"));
    assert_eq!(source.message, "the update is not a list but a string (\"no list\")");
}

struct Moody;

impl CustomReducer for Moody {
    fn name(&self) -> &'static str {
        "moody"
    }
    fn reduce_update(&self, _: &FieldContent, update: FieldContent) -> Result<FieldContent, ReducerFault> {
        match update.to_json()?.as_str() {
            Some("panic") => panic!("not today"),
            Some("refuse") => Err(ReducerFault::new("no")),
            _ => Ok(update),
        }
    }
    fn is_round_trip_idempotent(&self) -> Option<bool> {
        None
    }
}

#[tokio::test]
async fn a_custom_reducer_may_refuse_and_even_panic() {
    let fields = || vec![field("m", FieldShape::Any, json!(null)).reducer(Reducer::Custom(Arc::new(Moody)))];
    let refused = fail(&second(after_first(fields()), json!({"m": "refuse"})), json!({})).await;
    assert_eq!(refused.category(), "reducer_error");
    assert_eq!(
        refused.to_string(),
        "reducer moody could not merge what node 'second' returned for field 'm'"
    );
    let panicked = fail(&second(after_first(fields()), json!({"m": "panic"})), json!({})).await;
    assert_eq!(described(&panicked).2, Some(json!({"v": 1, "log": [], "m": null})));
    assert_eq!(panicked.category(), "reducer_error");
    assert_eq!(
        format_error_chain(&panicked),
        "reducer moody could not merge what node 'second' returned for field 'm': panicked: not today"
    );
}

// spec: graph-engine §4: a merged value must match the schema; the error names the field.
#[tokio::test]
async fn a_merged_value_of_the_wrong_type_is_a_validation_error() {
    let before = Some(json!({"v": 1, "log": []}));
    for (value, why) in [
        (json!({"v": "two"}), "field 'v': expected int, found a string"),
        (json!({"v": 1.5}), "field 'v': expected int, found a fraction"),
        (json!({"v": true}), "field 'v': expected int, found a bool"),
        (json!({"v": [1]}), "field 'v': expected int, found a list"),
        (json!({"log": ["a", 2]}), "field 'log': element 1: expected string, found a whole number"),
        (json!({"ghost": 1}), "field 'ghost': is not declared"),
    ] {
        let error = fail(&second(after_first(vec![]), value), json!({})).await;
        assert_eq!(described(&error), ("state_validation_error", Some("second".into()), before.clone()));
        assert!(format_error_chain(&error).contains(why), "{}", format_error_chain(&error));
    }
}

// spec: graph-engine §2: state is validated at entry, before any node.
#[tokio::test]
async fn the_initial_state_is_checked_before_any_node_runs() {
    let must = || vec![FieldSpec::required("must", FieldShape::Str)];
    let never = |_| async { panic!("a node ran") };
    let graph =
        over(must().into_iter().chain([int("v"), log("log")])).node("a", never).edge("a", END).entry("a");
    let graph = graph.compile().unwrap();
    for initial in
        [json!({}), json!({"must": 1}), json!({"must": "x", "ghost": 1}), json!({"must": "x", "log": [1]})]
    {
        let error = fail(&graph, initial).await;
        assert_eq!(described(&error), ("state_validation_error", None, None));
    }
}

#[tokio::test]
async fn a_second_contribution_to_an_initial_field_is_reduced() {
    let graph =
        over([log("log"), text("t")]).node("a", sets(json!({}))).edge("a", END).entry("a").compile().unwrap();
    let initial =
        update(json!({"log": ["a"], "t": "x"})).merged_with(update(json!({"log": ["b"], "t": "y"})));
    let ended = graph.invoke(initial, InvokeOptions::new()).await;
    assert_eq!(crate::rig::completed(ended), json!({"log": ["a", "b"], "t": "y"}));
    assert_eq!(run(&graph, json!({"log": ["z"]})).await, json!({"log": ["z"], "t": ""}));
}
