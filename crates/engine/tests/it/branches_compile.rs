//! Problems and warnings about branches at compile time (pipeline-utilities §§11.1, 11.2, 11.4, 11.9).

use serde_json::json;
use singletree_engine::{
    Branch, Branches, END, Error, FailureIsolation, FieldShape, Graph, Reducer, Retry, Snapshot, StateUpdate,
    Timing,
};

use crate::branches::{call, forking, graph, setting};
use crate::rig::{field, int, log, over, sets, text};

fn check(branches: Branches<Snapshot>, expected: &[&str]) {
    match forking(branches).compile() {
        Ok(_) => assert!(expected.is_empty(), "it compiles"),
        Err(Error::Compile { problems }) => {
            let found: Vec<_> = problems.iter().map(|it| it.kind.category()).collect();
            assert_eq!(found, expected, "{problems:?}");
        }
        Err(other) => panic!("{other:?}"),
    }
}

fn one(branch: Branch<Snapshot>) -> Branches<Snapshot> {
    Branches::new().branch("one", branch)
}

// spec: pipeline-utilities §11.9: an empty mapping.
#[test]
fn there_is_at_least_one_branch() {
    check(Branches::new(), &["parallel_branches_no_branches"]);
    check(one(call(json!({}))), &[]);
}

// spec: pipeline-utilities §§11.1.1, 11.9: exactly one of a graph and a function; a function has no projection.
#[test]
fn a_branch_is_a_graph_or_a_function() {
    const INVALID: &[&str] = &["parallel_branches_invalid_branch_spec"];
    check(one(Branch::new()), INVALID);
    check(one(graph(1, "a").call(sets(json!({})))), INVALID);
    check(one(Branch::new().input("out", "a").when(|_| true)), INVALID);
    check(one(call(json!({})).input("a", "a")), INVALID);
    check(one(call(json!({})).output("a", "a")), INVALID);
    check(one(graph(1, "a")).branch("two", call(json!({}))), &[]);
    // Every problem is told.
    let both = one(Branch::new()).branch("two", Branch::new().call(sets(json!({}))).output("a", "a"));
    check(both, &["parallel_branches_invalid_branch_spec"; 2]);
}

// spec: pipeline-utilities §11.1: names are not empty, and a mapping has each once.
#[test]
fn names_are_there_and_their_own() {
    check(Branches::new().branch("", call(json!({}))), &["invalid_declaration"]);
    check(one(graph(1, "a")).branch("one", graph(2, "b")), &["invalid_declaration"]);
}

// spec: pipeline-utilities §§11.2, 11.9: every field that is named is declared where it is named.
#[test]
fn every_field_is_declared() {
    const UNDECLARED: &[&str] = &["mapping_references_undeclared_field"];
    check(one(graph(1, "nowhere")), UNDECLARED);
    check(one(graph(1, "a").output("b", "nowhere")), UNDECLARED);
    check(one(graph(1, "a").input("nowhere", "a")), UNDECLARED);
    check(one(graph(1, "a").input("out", "nowhere")), UNDECLARED);
    check(one(graph(1, "a")).errors_field("nowhere"), UNDECLARED);
    // And of the right kind.
    check(one(graph(1, "a")).errors_field("c"), UNDECLARED);
    check(one(graph(1, "a")).errors_field("errors"), &[]);
}

#[test]
fn problems_say_which_branch_they_are_about() {
    let Err(Error::Compile { problems }) = forking(one(graph(1, "nowhere"))).compile() else {
        panic!("it does not compile")
    };
    let expected =
        "the projection of node 'fork', branch 'one' names field 'nowhere', which 'test' does not declare";
    assert_eq!(problems[0].message, expected);
    let Err(Error::Compile { problems }) = forking(one(Branch::new())).compile() else {
        panic!("it does not compile")
    };
    let expected = "branch 'one' of node 'fork' declares neither a subgraph nor a function";
    assert_eq!(problems[0].message, expected);
}

// Middleware of branches is placed as others are.
#[test]
fn middleware_that_cannot_stand_around_a_branch_is_a_problem() {
    const INVALID: &[&str] = &["invalid_declaration"];
    check(one(graph(1, "a").middleware(Retry::new().max_attempts(0))), INVALID);
    check(one(call(json!({})).middleware(FailureIsolation::new("", StateUpdate::new()))), INVALID);
    // spec: pipeline-utilities §11.7: a degraded update may cover as little as it likes.
    check(one(graph(1, "a").middleware(FailureIsolation::new("e", StateUpdate::new()))), &[]);
    check(one(graph(1, "a").middleware(Timing::for_each_site(|_| async { Ok(()) }))), &[]);
}

// spec: pipeline-utilities §11.4; graph-engine §2: a field that goes in and comes back by the same field of a branch.
#[test]
fn round_trips_are_warned_of() {
    let inner = setting([log("lines"), log("others"), int("n"), text("t")], json!({}));
    let warned = |branch: Branch<Snapshot>| {
        let graph = forking(one(call(json!({}))).branch("inner", branch)).compile().unwrap();
        let warnings = graph.warnings().iter().map(|it| (it.kind.category(), it.field.clone().unwrap()));
        warnings.collect::<Vec<_>>()
    };
    let through = |to: &str, from: &str| {
        Branch::new().subgraph(&inner).input("lines", "log").input("n", "a").output(to, from)
    };
    assert_eq!(warned(through("log", "lines")), [("projection_reducer_round_trip", "log".to_owned())]);
    assert_eq!(warned(through("log", "others")), []);
    // Last write wins merges nothing twice.
    assert_eq!(warned(through("a", "n")), []);
    assert_eq!(warned(Branch::new().subgraph(&inner)), []);
}

// spec: D28: the structure that a cursor depends on; functions are not told apart.
#[test]
fn the_digest_knows_the_branches() {
    let digest = |branches| forking(branches).compile().unwrap().digest().to_owned();
    let base = digest(one(call(json!({}))));
    assert_eq!(base, digest(one(call(json!({"a": 1})))));
    let others = [
        digest(one(graph(1, "a"))),
        digest(Branches::new().branch("two", call(json!({})))),
        digest(one(call(json!({}))).branch("two", call(json!({})))),
    ];
    assert!(others.iter().all(|it| *it != base), "{others:?}");
    let inner = |field_: &'static str| {
        let fields = [field(field_, FieldShape::Int.list(), json!([])).reducer(Reducer::Append)];
        let inner: Graph<Snapshot> =
            over(fields).node("x", sets(json!({}))).edge("x", END).entry("x").compile().unwrap();
        digest(one(Branch::new().subgraph(&inner)))
    };
    assert_ne!(inner("m"), inner("n"));
}
