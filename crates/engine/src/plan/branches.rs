//! Parallel branches as declared and as compiled: which branches run, their inputs and their outputs
//! (pipeline-utilities §11).

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use singletree_graph::{
    FieldContent, FieldFault, Item, OfState, PersistentList, Snapshot, StateSchema, StateUpdate,
};

use super::policy::ErrorPolicy;
use super::problem::{GraphProblem, GraphProblemKind, GraphWarning};
use super::projection::{MappingChecker, Projection, ResolvedProjection, extract_contribution};

/// Parallel branches as declared, by names.
#[derive(Debug, Clone, Default)]
pub(crate) struct BranchesDraft {
    pub(crate) branches: Vec<BranchDraft>,
    pub(crate) error_policy: ErrorPolicy,
    pub(crate) errors_field: Option<String>,
}

/// One branch as declared.
#[derive(Clone, Default)]
pub(crate) struct BranchDraft {
    pub(crate) name: String,
    /// The schema of the graph that it runs.
    pub(crate) subgraph: Option<Arc<StateSchema>>,
    /// Whether it calls a function.
    pub(crate) call: bool,
    /// (child field, parent field)
    pub(crate) inputs: Vec<(String, String)>,
    /// (parent field, child field)
    pub(crate) outputs: Vec<(String, String)>,
    pub(crate) when: Option<OfState<bool>>,
}

impl fmt::Debug for BranchDraft {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BranchDraft")
            .field("name", &self.name)
            .field("inputs", &self.inputs)
            .field("outputs", &self.outputs)
            .finish_non_exhaustive()
    }
}

/// Parallel branches with their names resolved.
#[derive(Debug)]
pub(crate) struct BranchesPlan {
    /// In the order of declaration.
    pub(crate) branches: Vec<BranchPlan>,
    pub(crate) names: Arc<[Arc<str>]>,
    pub(crate) error_policy: ErrorPolicy,
    errors_field: Option<usize>,
    parent: Arc<StateSchema>,
}

/// One branch with its names resolved.
pub(crate) struct BranchPlan {
    pub(crate) name: Arc<str>,
    /// The fields that cross the boundary of its graph; none for a function, which works on the parent's state.
    inner: Option<(ResolvedProjection, Arc<StateSchema>)>,
    pub(crate) when: Option<OfState<bool>>,
}

impl fmt::Debug for BranchPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BranchPlan")
            .field("name", &self.name)
            .field("inner", &self.inner)
            .finish_non_exhaustive()
    }
}

impl BranchesDraft {
    /// Checks the declaration of a node and resolves its names.
    pub(crate) fn resolve_branches(
        &self,
        node: &str,
        parent: &Arc<StateSchema>,
        problems: &mut Vec<GraphProblem>,
    ) -> Option<BranchesPlan> {
        let before = problems.len();
        if self.branches.is_empty() {
            let message = format!("node '{node}' declares no branches");
            problems.push(GraphProblem::new(GraphProblemKind::ParallelBranchesNoBranches, message));
        }
        let mut names = HashSet::new();
        for branch in &self.branches {
            if branch.name.is_empty() {
                let message = format!("a branch of node '{node}' has no name");
                problems.push(GraphProblem::new(GraphProblemKind::InvalidDeclaration, message));
            } else if !names.insert(branch.name.as_str()) {
                let message = format!("branch '{}' of node '{node}' is declared twice", branch.name);
                problems.push(GraphProblem::new(GraphProblemKind::InvalidDeclaration, message));
            }
        }
        let branches: Vec<_> =
            self.branches.iter().filter_map(|branch| branch.resolve_branch(node, parent, problems)).collect();
        let mut check = MappingChecker { node, problems };
        let errors_field = self
            .errors_field
            .as_ref()
            .and_then(|errors_field| check.find_records_field(parent, errors_field));
        (problems.len() == before).then(|| BranchesPlan {
            names: branches.iter().map(|branch| branch.name.clone()).collect(),
            branches,
            error_policy: self.error_policy,
            errors_field,
            parent: parent.clone(),
        })
    }
}

impl BranchDraft {
    fn resolve_branch(
        &self,
        node: &str,
        parent: &StateSchema,
        problems: &mut Vec<GraphProblem>,
    ) -> Option<BranchPlan> {
        let named = format!("branch '{}' of node '{node}'", self.name);
        let mut invalid = |what: &str| {
            let message = format!("{named} declares {what}");
            problems.push(GraphProblem::new(GraphProblemKind::ParallelBranchesInvalidBranchSpec, message));
        };
        let inner = match (&self.subgraph, self.call) {
            (Some(child), false) => Some(child),
            (None, true) => {
                if !(self.inputs.is_empty() && self.outputs.is_empty()) {
                    invalid("a projection for a function, which has no state of its own");
                }
                None
            }
            (Some(_), true) => {
                invalid("both a subgraph and a function");
                return None;
            }
            (None, false) => {
                invalid("neither a subgraph nor a function");
                return None;
            }
        };
        let inner = inner.map(|child| {
            // A branch without declared outputs has none; fields of the same name are not matched (R37).
            let projection = Projection::by_name().inputs(borrow_field_pairs(&self.inputs));
            let projection = projection.outputs(borrow_field_pairs(&self.outputs));
            // Quoted as one name in problems: node 'a', branch 'b'.
            let node = format!("{node}', branch '{}", self.name);
            (projection.resolve_projection(&node, parent, child, problems), child.clone())
        });
        Some(BranchPlan { name: self.name.as_str().into(), inner, when: self.when.clone() })
    }
}

fn borrow_field_pairs(pairs: &[(String, String)]) -> impl Iterator<Item = (&str, &str)> {
    pairs.iter().map(|(to, from)| (to.as_str(), from.as_str()))
}

impl BranchPlan {
    /// Makes the state with which the branch starts: the child's defaults and the inputs; for a function the parent's
    /// state itself.
    ///
    /// # Errors
    /// A required field without an input, or a value that is not of the child's type.
    pub(crate) fn make_start_state(&self, parent: &Snapshot) -> Result<Snapshot, FieldFault> {
        match &self.inner {
            Some((crossing, child)) => crossing.make_start_state(parent, child),
            None => Ok(parent.clone()),
        }
    }

    /// Returns the contribution of a finished walk: the fields that go out, by their names in the child.
    pub(crate) fn extract_contribution(&self, ended: &Snapshot) -> StateUpdate {
        self.inner
            .as_ref()
            .map_or_else(StateUpdate::new, |(crossing, _)| extract_contribution(&crossing.outward, ended))
    }

    /// Returns a contribution under the parent's field names. A field that it lacks is left alone (pipeline-utilities
    /// §11.7).
    fn project_outward(&self, parent: &StateSchema, update: &StateUpdate) -> StateUpdate {
        let Some((crossing, child)) = &self.inner else { return update.clone() };
        crossing.outward.iter().fold(StateUpdate::new(), |contributed, (to, from)| {
            let name = child.fields()[*from].name();
            match update.find_last_value(name) {
                Some(slot) => contributed.with(parent.fields()[*to].name().to_owned(), slot.clone()),
                None => contributed,
            }
        })
    }
}

impl BranchesPlan {
    /// Combines the contributions of branches, in the order of declaration: each contribution passes its reducer by
    /// itself. Then the errors.
    pub(crate) fn combine_contributions(
        &self,
        contributed: &[(usize, &StateUpdate)],
        errors: Vec<Item>,
    ) -> StateUpdate {
        let update = contributed.iter().fold(StateUpdate::new(), |update, (branch, contribution)| {
            update.merged_with(self.branches[*branch].project_outward(&self.parent, contribution))
        });
        match self.errors_field {
            Some(at) => {
                let records = FieldContent::Many(errors.into_iter().collect::<PersistentList>());
                update.with(self.parent.fields()[at].name().to_owned(), records)
            }
            None => update,
        }
    }

    /// Warns of fields that a branch sends round through a reducer that would merge them twice.
    pub(crate) fn round_trip_warnings(&self, node: &str) -> Vec<GraphWarning> {
        let crossings = self.branches.iter().filter_map(|branch| branch.inner.as_ref());
        let round = crossings.flat_map(|(crossing, _)| crossing.find_round_trips(&self.parent));
        round.map(|round| GraphWarning::for_round_trip(node, round)).collect()
    }
}
