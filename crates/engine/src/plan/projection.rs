//! Projections: the fields that cross the boundary between a graph and a subgraph (graph-engine §2).

use std::sync::Arc;

use singletree_graph::{FieldContent, FieldFault, FieldShape, FieldSpec, Snapshot, StateSchema, StateUpdate};

use super::problem::{GraphProblem, GraphProblemKind};

/// How state crosses between a graph and a subgraph that is one of its nodes.
///
/// - Nothing declared: nothing in; out by matching field names.
/// - Maps: `inputs` (child field from parent field) adds to nothing in; `outputs` (parent field from child field)
///   replaces name matching. Each is independent of the other.
/// - Sets: `projects_in` and `projects_out` name the fields that cross under the same name; declaring either makes both
///   complete, an omitted one is empty.
///
/// Maps and sets exclude each other.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Projection {
    inputs: Option<Vec<(String, String)>>,
    outputs: Option<Vec<(String, String)>>,
    projects_in: Option<Vec<String>>,
    projects_out: Option<Vec<String>>,
}

fn to_owned_pairs<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Vec<(String, String)> {
    pairs.into_iter().map(|(a, b)| (a.to_owned(), b.to_owned())).collect()
}

fn to_owned_names<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    names.into_iter().map(str::to_owned).collect()
}

impl Projection {
    /// Declares nothing: nothing in, out by matching names.
    #[must_use]
    pub fn by_name() -> Self {
        Self::default()
    }

    /// Copies parent fields into child fields at entry: pairs of (child field, parent field).
    #[must_use]
    pub fn inputs<'a>(mut self, pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        self.inputs = Some(to_owned_pairs(pairs));
        self
    }

    /// Merges child fields into parent fields at exit: pairs of (parent field, child field).
    #[must_use]
    pub fn outputs<'a>(mut self, pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        self.outputs = Some(to_owned_pairs(pairs));
        self
    }

    /// Declares the fields that cross inwards under the same name.
    #[must_use]
    pub fn projects_in<'a>(mut self, fields: impl IntoIterator<Item = &'a str>) -> Self {
        self.projects_in = Some(to_owned_names(fields));
        self
    }

    /// Declares the fields that cross outwards under the same name.
    #[must_use]
    pub fn projects_out<'a>(mut self, fields: impl IntoIterator<Item = &'a str>) -> Self {
        self.projects_out = Some(to_owned_names(fields));
        self
    }

    /// Checks the projection of a node against both schemas and resolves its names.
    pub(crate) fn resolve_projection(
        &self,
        node: &str,
        parent: &StateSchema,
        child: &StateSchema,
        problems: &mut Vec<GraphProblem>,
    ) -> ResolvedProjection {
        let sets = self.projects_in.is_some() || self.projects_out.is_some();
        if sets && (self.inputs.is_some() || self.outputs.is_some()) {
            let message = format!("node '{node}' declares both projection sets and maps");
            problems.push(GraphProblem::new(GraphProblemKind::ConflictingProjectionForms, message));
        }
        let same = |fields: &Option<Vec<String>>| {
            let fields = fields.iter().flatten();
            fields.map(|it| (it.clone(), it.clone())).collect::<Vec<_>>()
        };
        let (inward, outward) = if sets {
            (same(&self.projects_in), Some(same(&self.projects_out)))
        } else {
            (self.inputs.clone().unwrap_or_default(), self.outputs.clone())
        };
        let mut check = MappingChecker { node, problems };
        let inward =
            inward.iter().filter_map(|(to, from)| check.find_copied_fields((child, to), (parent, from)));
        let inward: Vec<_> = inward.collect();
        let outward = match outward {
            Some(pairs) => pairs
                .iter()
                .filter_map(|(to, from)| check.find_merged_fields((parent, to), (child, from)))
                .collect(),
            None => match_fields_by_name(parent, child),
        };
        ResolvedProjection { outward, ..ResolvedProjection::from_inward_pairs(inward, parent, child) }
    }
}

/// Pairs of fields with the same name: (parent, child).
fn match_fields_by_name(parent: &StateSchema, child: &StateSchema) -> Vec<(usize, usize)> {
    let fields = child.fields().iter().enumerate();
    fields.filter_map(|(at, field)| parent.find_field_index(field.name()).map(|to| (to, at))).collect()
}

/// Returns the contribution of a finished member of a container: the fields that go out, by their names in the child,
/// each once.
pub(crate) fn extract_contribution(outward: &[(usize, usize)], ended: &Snapshot) -> StateUpdate {
    outward.iter().fold(StateUpdate::new(), |update, (_, from)| {
        let name = ended.schema().fields()[*from].name();
        match update.find_last_value(name) {
            Some(_) => update,
            None => update.with(name.to_owned(), ended.field_content_at(*from).clone()),
        }
    })
}

/// Checks the names that a node's mappings name.
pub(crate) struct MappingChecker<'a> {
    pub(crate) node: &'a str,
    pub(crate) problems: &'a mut Vec<GraphProblem>,
}

impl MappingChecker<'_> {
    /// Finds a field.
    pub(crate) fn find_field(&mut self, schema: &StateSchema, field: &str) -> Option<usize> {
        let found = schema.find_field_index(field);
        if found.is_none() {
            let message = format!(
                "the projection of node '{}' names field '{field}', which '{}' does not declare",
                self.node,
                schema.name()
            );
            self.problems
                .push(GraphProblem::new(GraphProblemKind::MappingReferencesUndeclaredField, message));
        }
        found
    }

    /// Finds a field that gets records of failed members: a list that is extended by them.
    pub(crate) fn find_records_field(&mut self, schema: &StateSchema, field: &str) -> Option<usize> {
        let at = self.find_field(schema, field)?;
        let found = &schema.fields()[at];
        if !(found.shape().is_list() && found.effective_reducer().adds_list_items()) {
            self.report_unfit_field(found, "list under a reducer that extends it by records");
        }
        Some(at)
    }

    /// Reports a field whose type does not fit the values written into it.
    pub(crate) fn report_unfit_field(&mut self, field: &FieldSpec, wanted: &str) {
        let message = format!("node '{}' writes field '{}', which is no {wanted}", self.node, field.name());
        self.problems.push(GraphProblem::new(GraphProblemKind::MappingReferencesUndeclaredField, message));
    }

    /// Finds two fields of which one is copied into the other.
    pub(crate) fn find_copied_fields(
        &mut self,
        to: (&StateSchema, &str),
        from: (&StateSchema, &str),
    ) -> Option<(usize, usize)> {
        let (at, source) = self.find_field_pair(to, from)?;
        let (target, source_field) = (&to.0.fields()[at], &from.0.fields()[source]);
        self.check_shapes_may_fit(source_field.shape(), (source_field, target), target.shape());
        Some((at, source))
    }

    /// Finds two fields of which one is merged into the other by its reducer.
    pub(crate) fn find_merged_fields(
        &mut self,
        to: (&StateSchema, &str),
        from: (&StateSchema, &str),
    ) -> Option<(usize, usize)> {
        let (at, source) = self.find_field_pair(to, from)?;
        let (target, source_field) = (&to.0.fields()[at], &from.0.fields()[source]);
        let taken = target.effective_reducer().update_shape_for(target.shape());
        self.check_shapes_may_fit(source_field.shape(), (source_field, target), &taken);
        Some((at, source))
    }

    /// Tells of declarations that contradict each other: no such value could ever cross (graph-engine §2). Of values
    /// that may fit or not, each is checked when it crosses.
    pub(crate) fn check_shapes_may_fit(
        &mut self,
        found: &FieldShape,
        (from, to): (&FieldSpec, &FieldSpec),
        wanted: &FieldShape,
    ) {
        if found.may_fit_shape(wanted) {
            return;
        }
        let (node, from, to) = (self.node, from.name(), to.name());
        let message = format!(
            "node '{node}' projects field '{from}' into field '{to}': {found} where {wanted} is taken"
        );
        self.problems.push(GraphProblem::new(GraphProblemKind::MappingReferencesUndeclaredField, message));
    }

    /// Finds two fields.
    pub(crate) fn find_field_pair(
        &mut self,
        to: (&StateSchema, &str),
        from: (&StateSchema, &str),
    ) -> Option<(usize, usize)> {
        let (to, from) = (self.find_field(to.0, to.1), self.find_field(from.0, from.1));
        Some((to?, from?))
    }
}

/// A projection with its names resolved: pairs of (to, from), as indexes into the schemas.
#[derive(Debug, Clone)]
pub(crate) struct ResolvedProjection {
    /// (child field, parent field)
    pub(crate) inward: Vec<(usize, usize)>,
    /// (parent field, child field)
    pub(crate) outward: Vec<(usize, usize)>,
    /// Child fields that are declared otherwise than the parent fields that they are copied from.
    doubted: Vec<usize>,
}

impl ResolvedProjection {
    /// Makes a crossing with inputs only: pairs of (child field, parent field).
    pub(crate) fn from_inward_pairs(
        inward: Vec<(usize, usize)>,
        parent: &StateSchema,
        child: &StateSchema,
    ) -> Self {
        let doubted =
            |(to, from): &(usize, usize)| !parent.fields()[*from].implies_checks_of(&child.fields()[*to]);
        let doubted = inward.iter().filter(|it| doubted(it)).map(|(to, _)| *to).collect();
        Self { inward, outward: Vec::new(), doubted }
    }

    /// Tells whether this parent field goes into this child field.
    pub(crate) fn copies_field(&self, to: usize, from: usize) -> bool {
        self.inward.contains(&(to, from))
    }

    /// Makes the state with which the child starts: its defaults, and the inputs.
    ///
    /// # Errors
    /// A required field without an input, or a value that is not of the child's type.
    pub(crate) fn make_start_state(
        &self,
        parent: &Snapshot,
        child: &Arc<StateSchema>,
    ) -> Result<Snapshot, FieldFault> {
        self.make_start_state_with(parent, child, None)
    }

    /// As [`ResolvedProjection::make_start_state`], with the value of one more child field.
    pub(crate) fn make_start_state_with(
        &self,
        parent: &Snapshot,
        child: &Arc<StateSchema>,
        more: Option<(usize, FieldContent)>,
    ) -> Result<Snapshot, FieldFault> {
        let given = more.as_ref().map(|(at, _)| *at);
        let crossing = self.inward.iter().map(|(to, from)| (*to, parent.field_content_at(*from).clone()));
        let start = Snapshot::from_defaults_with(child, crossing.chain(more).collect())?;
        start.validate_fields()?;
        for at in self.doubted.iter().copied().chain(given) {
            let field = &child.fields()[at];
            field
                .check_content(start.field_content_at(at))
                .map_err(|error| FieldFault::new(field.name(), error))?;
        }
        Ok(start)
    }

    /// Returns the child's contribution to the parent when the child ends.
    pub(crate) fn make_exit_update(&self, parent: &StateSchema, child: &Snapshot) -> StateUpdate {
        self.outward.iter().fold(StateUpdate::new(), |update, (to, from)| {
            update.with(parent.fields()[*to].name().to_owned(), child.field_content_at(*from).clone())
        })
    }

    /// Parent fields that go in and come back by the same child field, into a reducer that would merge them twice
    /// (graph-engine §2, projection_reducer_round_trip).
    pub(crate) fn find_round_trips<'a>(&self, parent: &'a StateSchema) -> Vec<&'a str> {
        let fields = self.outward.iter().filter(|(to, from)| {
            self.copies_field(*from, *to) && parent.fields()[*to].effective_reducer().breaks_round_trip()
        });
        fields.map(|(to, _)| parent.fields()[*to].name()).collect()
    }
}
