//! Problems of a graph's structure, and warnings.

/// A kind of structural problem of a graph (graph-engine §2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum GraphProblemKind {
    /// A reducer was given parameters it cannot work with.
    ReducerConfigurationInvalid,
    /// A field declares more than one reducer.
    ConflictingReducers,
    /// A field or node is declared twice, a default is not of its field's type, or a middleware stands where it cannot.
    InvalidDeclaration,
    /// No entry node is declared, or it is no node.
    NoDeclaredEntry,
    /// An edge names a node that is not declared.
    DanglingEdge,
    /// A node has more than one outgoing edge.
    MultipleOutgoingEdges,
    /// A projection names a field that a schema does not declare, or two whose declared types contradict each other.
    MappingReferencesUndeclaredField,
    /// A projection declares both sets and maps.
    ConflictingProjectionForms,
    /// A fan-out's items are no list.
    FanOutFieldNotList,
    /// A fan-out declares both items and a count, or neither.
    FanOutCountModeAmbiguous,
    /// A fan-out's fixed count is negative.
    FanOutInvalidCount,
    /// A fan-out's fixed concurrency is not positive.
    FanOutInvalidConcurrency,
    /// A fixed degraded update for the instances of a fan-out lacks the field that is collected.
    FanOutDegradedUpdateMissingCollectField,
    /// A node that dispatches parallel branches declares none.
    ParallelBranchesNoBranches,
    /// A branch declares both a subgraph and a function, or neither; or a projection for a function.
    ParallelBranchesInvalidBranchSpec,
    /// A node has no path from the entry.
    UnreachableNode,
}

impl GraphProblemKind {
    /// Returns the stable, machine-readable category.
    #[must_use]
    pub fn category(self) -> &'static str {
        match self {
            Self::ReducerConfigurationInvalid => "reducer_configuration_invalid",
            Self::ConflictingReducers => "conflicting_reducers",
            Self::InvalidDeclaration => "invalid_declaration",
            Self::NoDeclaredEntry => "no_declared_entry",
            Self::DanglingEdge => "dangling_edge",
            Self::MultipleOutgoingEdges => "multiple_outgoing_edges",
            Self::MappingReferencesUndeclaredField => "mapping_references_undeclared_field",
            Self::ConflictingProjectionForms => "conflicting_projection_forms",
            Self::FanOutFieldNotList => "fan_out_field_not_list",
            Self::FanOutCountModeAmbiguous => "fan_out_count_mode_ambiguous",
            Self::FanOutInvalidCount => "fan_out_invalid_count",
            Self::FanOutInvalidConcurrency => "fan_out_invalid_concurrency",
            Self::FanOutDegradedUpdateMissingCollectField => "fan_out_degraded_update_missing_collect_field",
            Self::ParallelBranchesNoBranches => "parallel_branches_no_branches",
            Self::ParallelBranchesInvalidBranchSpec => "parallel_branches_invalid_branch_spec",
            Self::UnreachableNode => "unreachable_node",
        }
    }
}

/// One structural problem of a graph.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GraphProblem {
    /// Its kind.
    pub kind: GraphProblemKind,
    /// A message that describes the problem and names its place.
    pub message: String,
}

impl GraphProblem {
    pub(crate) fn new(kind: GraphProblemKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }
}

/// A kind of warning about a graph (graph-engine §2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum GraphWarningKind {
    /// A projection sends a field round through a reducer that merges it twice.
    ProjectionReducerRoundTrip,
}

impl GraphWarningKind {
    /// Returns the stable, machine-readable category.
    #[must_use]
    pub fn category(self) -> &'static str {
        match self {
            Self::ProjectionReducerRoundTrip => "projection_reducer_round_trip",
        }
    }
}

/// Something about a graph that compiles, but is likely not meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GraphWarning {
    /// Its kind.
    pub kind: GraphWarningKind,
    /// A message that describes the likely mistake and names its place.
    pub message: String,
    /// The field, when it is about one.
    pub field: Option<String>,
}

impl GraphWarning {
    /// Warns of a field that a node sends round through a reducer that merges it twice.
    pub(crate) fn for_round_trip(node: &str, field: &str) -> Self {
        let message = format!(
            "node '{node}' projects field '{field}' in and back out, where its reducer merges the same value a second time"
        );
        let field = Some(field.to_owned());
        Self { kind: GraphWarningKind::ProjectionReducerRoundTrip, message, field }
    }
}
