//! Compile errors: each category alone, and their order (graph-engine §2).

use serde_json::json;
use singletree_engine::{
    END, Error, FieldShape, FieldSpec, Graph, GraphProblemKind, KeyExtractor, Projection, Reducer,
    SessionShape, Snapshot, StateMigrations, Target,
};

use crate::rig::{Builder, field, int, log, over, sets, text};

fn kinds(builder: Builder) -> Vec<GraphProblemKind> {
    match builder.compile() {
        Err(Error::Compile { problems }) => problems.into_iter().map(|it| it.kind).collect(),
        other => panic!("it does not compile, but gave {other:?}"),
    }
}

#[track_caller]
fn check(builder: Builder, expected: GraphProblemKind, category: &str) {
    assert_eq!(kinds(builder), [expected]);
    assert_eq!(expected.category(), category);
}

/// One node that leads to the end.
fn one(fields: Vec<FieldSpec>) -> Builder {
    over(fields).node("a", sets(json!({}))).edge("a", END).entry("a")
}

fn child() -> Graph<Snapshot> {
    one(vec![int("x"), log("log")]).compile().unwrap()
}

fn around(projection: Projection) -> Builder {
    over([int("x"), log("other")]).subgraph("sub", &child(), projection).edge("sub", END).entry("sub")
}

// spec: graph-engine §2
#[test]
fn a_reducer_with_impossible_parameters_is_refused() {
    for reducer in [Reducer::BoundedAppend(0), Reducer::BoundedAppend(-3), Reducer::MergeByKey(None)] {
        let list = field("list", FieldShape::Any.list(), json!([])).reducer(reducer);
        check(
            one(vec![list]),
            GraphProblemKind::ReducerConfigurationInvalid,
            "reducer_configuration_invalid",
        );
    }
    let fine = Reducer::MergeByKey(Some(KeyExtractor::field("id")));
    assert!(one(vec![field("list", FieldShape::Any.list(), json!([])).reducer(fine)]).compile().is_ok());
}

#[test]
fn a_field_has_one_reducer() {
    let twice = log("log").reducer(Reducer::LastWriteWins);
    check(one(vec![twice]), GraphProblemKind::ConflictingReducers, "conflicting_reducers");
}

#[test]
fn a_default_is_of_its_fields_type_and_names_are_declared_once() {
    let wrong = field("n", FieldShape::Int, json!("one"));
    check(one(vec![wrong]), GraphProblemKind::InvalidDeclaration, "invalid_declaration");
    check(one(vec![int("n"), text("n")]), GraphProblemKind::InvalidDeclaration, "invalid_declaration");
    let nodes = one(vec![]).node("a", sets(json!({})));
    check(nodes, GraphProblemKind::InvalidDeclaration, "invalid_declaration");
}

#[test]
fn an_entry_is_declared_and_is_a_node() {
    let without = over([]).node("a", sets(json!({}))).edge("a", END);
    check(without, GraphProblemKind::NoDeclaredEntry, "no_declared_entry");
    check(one(vec![]).entry("ghost"), GraphProblemKind::NoDeclaredEntry, "no_declared_entry");
}

#[test]
fn edges_name_declared_nodes_at_both_ends() {
    check(one(vec![]).edge("ghost", END), GraphProblemKind::DanglingEdge, "dangling_edge");
    let to = over([]).node("a", sets(json!({}))).edge("a", "ghost").entry("a");
    check(to, GraphProblemKind::DanglingEdge, "dangling_edge");
    let declared = over([]).node("a", sets(json!({}))).entry("a");
    let declared = declared.conditional_edge_to("a", [END.into(), Target::from("ghost")], |_: &Snapshot| END);
    check(declared, GraphProblemKind::DanglingEdge, "dangling_edge");
}

#[test]
fn a_node_has_one_outgoing_edge() {
    check(one(vec![]).edge("a", END), GraphProblemKind::MultipleOutgoingEdges, "multiple_outgoing_edges");
    let mixed = one(vec![]).conditional_edge("a", |_: &Snapshot| END);
    check(mixed, GraphProblemKind::MultipleOutgoingEdges, "multiple_outgoing_edges");
}

#[test]
fn projections_and_session_shapes_name_declared_fields() {
    for projection in [
        Projection::by_name().inputs([("ghost", "x")]),
        Projection::by_name().inputs([("x", "ghost")]),
        Projection::by_name().outputs([("ghost", "x")]),
        Projection::by_name().outputs([("x", "ghost")]),
        // Declared on one side only: a same-name field is checked on both.
        Projection::by_name().projects_in(["log"]),
        Projection::by_name().projects_out(["other"]),
    ] {
        check(
            around(projection),
            GraphProblemKind::MappingReferencesUndeclaredField,
            "mapping_references_undeclared_field",
        );
    }
    check(
        one(vec![int("x")]).session_shape(SessionShape::from_field_names(["ghost"])),
        GraphProblemKind::MappingReferencesUndeclaredField,
        "mapping_references_undeclared_field",
    );
}

#[test]
fn a_projection_has_one_form() {
    for mixed in [
        Projection::by_name().projects_in(["x"]).inputs([("x", "x")]),
        Projection::by_name().projects_out([]).outputs([("x", "x")]),
        Projection::by_name().projects_in([]).outputs([]),
    ] {
        check(around(mixed), GraphProblemKind::ConflictingProjectionForms, "conflicting_projection_forms");
    }
}

#[test]
fn every_node_has_a_path_from_the_entry() {
    let island = || one(vec![]).node("b", sets(json!({}))).edge("b", "a");
    check(island(), GraphProblemKind::UnreachableNode, "unreachable_node");
    let declared = over([]).node("a", sets(json!({}))).node("b", sets(json!({}))).edge("b", END).entry("a");
    let declared = declared.conditional_edge_to("a", [END.into()], |_: &Snapshot| END);
    check(declared, GraphProblemKind::UnreachableNode, "unreachable_node");
    // R20: a function that declares no targets may lead anywhere.
    let opaque = over([]).node("a", sets(json!({}))).node("b", sets(json!({}))).edge("b", END).entry("a");
    assert!(opaque.conditional_edge("a", |_: &Snapshot| END).compile().is_ok());
}

// D23
#[test]
fn all_problems_are_told_in_a_fixed_order() {
    let fields = [
        log("twice").reducer(Reducer::Merge),
        field("bounded", FieldShape::Any.list(), json!([])).reducer(Reducer::BoundedAppend(0)),
    ];
    let builder = over(fields)
        .node("island", sets(json!({})))
        .subgraph("sub", &child(), Projection::by_name().inputs([("x", "ghost")]).projects_in([]))
        .edge("sub", END)
        .edge("sub", "nowhere")
        .entry("sub");
    assert_eq!(
        kinds(builder),
        [
            GraphProblemKind::ReducerConfigurationInvalid,
            GraphProblemKind::ConflictingReducers,
            GraphProblemKind::DanglingEdge,
            GraphProblemKind::MultipleOutgoingEdges,
            GraphProblemKind::ConflictingProjectionForms,
            GraphProblemKind::UnreachableNode,
        ]
    );
    let without_entry = over([]).node("a", sets(json!({}))).edge("a", "ghost");
    assert_eq!(kinds(without_entry), [GraphProblemKind::NoDeclaredEntry, GraphProblemKind::DanglingEdge]);
}

// spec: sessions §10, §13
#[test]
fn ambiguous_migrations_are_found_before_any_session_is() {
    let twice = StateMigrations::new().with("1", "2", Ok).with("1", "2", Ok);
    let error = one(vec![]).session_migrations(twice).compile().unwrap_err();
    assert_eq!(error.category(), "session_state_migration_chain_ambiguous");
}
