//! Fan-outs as declared and as compiled: the inputs of each instance and the outputs (pipeline-utilities §9).

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde_json::Value;
use singletree_graph::{
    FieldContent, FieldFault, FieldShape, Item, OfState, PersistentList, Snapshot, StateSchema, StateUpdate,
};

use super::policy::ErrorPolicy;
use super::problem::{GraphProblem, GraphProblemKind, GraphWarning};
use super::projection::{MappingChecker, ResolvedProjection, extract_contribution};

/// The behaviour of a fan-out that has no instances.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum EmptyFanOutPolicy {
    /// It fails (`fan_out_empty`): an empty list is usually a mistake.
    #[default]
    Raise,
    /// It completes without having run anything.
    Noop,
}

/// A number that is fixed or a function of the state.
#[derive(Clone)]
pub(crate) enum FixedOrComputed<T> {
    Fixed(T),
    Function(OfState<T>),
}

impl<T: fmt::Debug> fmt::Debug for FixedOrComputed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(number) => number.fmt(f),
            Self::Function(_) => f.write_str("by the state"),
        }
    }
}

/// A fan-out as declared, by names.
#[derive(Debug, Clone)]
pub(crate) struct FanOutDraft {
    /// (parent field, child field)
    pub(crate) items: Option<(String, String)>,
    pub(crate) count: Option<FixedOrComputed<i64>>,
    /// (child field, parent field)
    pub(crate) collect: Option<(String, String)>,
    /// (child field, parent field)
    pub(crate) inputs: Vec<(String, String)>,
    /// (parent field, child field)
    pub(crate) extra_outputs: Vec<(String, String)>,
    pub(crate) concurrency: FixedOrComputed<Option<i64>>,
    pub(crate) error_policy: ErrorPolicy,
    pub(crate) errors_field: Option<String>,
    pub(crate) on_empty: EmptyFanOutPolicy,
    pub(crate) count_field: Option<String>,
}

/// Where the instances come from.
#[derive(Debug, Clone)]
pub(crate) enum InstanceSource {
    /// One for each item of a parent's list, which goes into a child field.
    Items { from: usize, to: usize },
    /// So many.
    Count(FixedOrComputed<i64>),
}

/// A contribution as records have it: the collected value, and the others by the parent's field.
type StoredContribution<'a> = (Option<Item>, Vec<(&'a str, Item)>);

/// A fan-out with its names resolved.
#[derive(Debug, Clone)]
pub(crate) struct FanOutPlan {
    pub(crate) source: InstanceSource,
    inputs: ResolvedProjection,
    /// Pairs of (parent field, child field): the collected one first.
    outputs: Vec<(usize, usize)>,
    /// Whether the first of them is the collected one.
    collects: bool,
    pub(crate) concurrency: FixedOrComputed<Option<i64>>,
    pub(crate) error_policy: ErrorPolicy,
    errors_field: Option<usize>,
    pub(crate) on_empty: EmptyFanOutPolicy,
    count_field: Option<usize>,
    parent: Arc<StateSchema>,
    child: Arc<StateSchema>,
}

impl FanOutDraft {
    /// Checks the declaration of a node against both schemas and resolves its names.
    pub(crate) fn resolve_fan_out(
        &self,
        node: &str,
        parent: &Arc<StateSchema>,
        child: &Arc<StateSchema>,
        problems: &mut Vec<GraphProblem>,
    ) -> Option<FanOutPlan> {
        let before = problems.len();
        let source = self.resolve_instance_source(node, (parent, child), problems);
        let mut check = MappingChecker { node, problems };
        let inward =
            self.inputs.iter().filter_map(|(to, from)| check.find_copied_fields((child, to), (parent, from)));
        let inputs = ResolvedProjection::from_inward_pairs(inward.collect(), parent, child);
        let collected = self.collect.iter().map(|(from, to)| (to, from));
        let extra = self.extra_outputs.iter().map(|(to, from)| (to, from));
        let outputs = collected.chain(extra).filter_map(|(to, from)| {
            let (at, source) = check.find_field_pair((parent, to), (child, from))?;
            let (target, each) = (&parent.fields()[at], &child.fields()[source]);
            // The merged value is a list of the instances' values; each value is checked when it is there (R25).
            check.check_shapes_may_fit(
                &FieldShape::Any.list(),
                (each, target),
                &target.effective_reducer().update_shape_for(target.shape()),
            );
            Some((at, source))
        });
        let outputs = outputs.collect();
        let errors_field = self
            .errors_field
            .as_ref()
            .and_then(|errors_field| check.find_records_field(parent, errors_field));
        let count_field =
            self.count_field.as_ref().and_then(|count_field| check.find_field(parent, count_field));
        self.check_concurrency_and_count(node, parent, count_field, problems);
        let source = source.filter(|_| problems.len() == before)?;
        Some(FanOutPlan {
            source,
            inputs,
            outputs,
            collects: self.collect.is_some(),
            concurrency: self.concurrency.clone(),
            error_policy: self.error_policy,
            errors_field,
            on_empty: self.on_empty,
            count_field,
            parent: parent.clone(),
            child: child.clone(),
        })
    }

    fn resolve_instance_source(
        &self,
        node: &str,
        (parent, child): (&StateSchema, &StateSchema),
        problems: &mut Vec<GraphProblem>,
    ) -> Option<InstanceSource> {
        match (&self.items, &self.count) {
            (Some((from, to)), None) => {
                let mut check = MappingChecker { node, problems };
                let (to, from) = check.find_field_pair((child, to), (parent, from))?;
                let (field, item) = (&parent.fields()[from], &child.fields()[to]);
                match field.shape() {
                    FieldShape::List(element) => {
                        check.check_shapes_may_fit(element, (field, item), item.shape())
                    }
                    _ => {
                        let message = format!(
                            "fan-out '{node}' takes its items from field '{}', which is no list",
                            field.name()
                        );
                        problems.push(GraphProblem::new(GraphProblemKind::FanOutFieldNotList, message));
                    }
                }
                Some(InstanceSource::Items { from, to })
            }
            (None, Some(count)) => {
                if let FixedOrComputed::Fixed(count @ ..0) = count {
                    let message = format!("fan-out '{node}' has a count of {count}");
                    problems.push(GraphProblem::new(GraphProblemKind::FanOutInvalidCount, message));
                }
                Some(InstanceSource::Count(count.clone()))
            }
            (items, _) => {
                let declares =
                    if items.is_some() { "both items and a count" } else { "neither items nor a count" };
                let message = format!("fan-out '{node}' declares {declares}");
                problems.push(GraphProblem::new(GraphProblemKind::FanOutCountModeAmbiguous, message));
                None
            }
        }
    }

    /// Checks the fixed concurrency and the type of the count field.
    fn check_concurrency_and_count(
        &self,
        node: &str,
        parent: &StateSchema,
        count: Option<usize>,
        problems: &mut Vec<GraphProblem>,
    ) {
        if let FixedOrComputed::Fixed(Some(limit @ ..1)) = self.concurrency {
            let message = format!("fan-out '{node}' has a concurrency of {limit}");
            problems.push(GraphProblem::new(GraphProblemKind::FanOutInvalidConcurrency, message));
        }
        if let Some(at) = count
            && *parent.fields()[at].shape() != FieldShape::Int
        {
            MappingChecker { node, problems }.report_unfit_field(&parent.fields()[at], "whole number");
        }
    }
}

impl FanOutPlan {
    /// Makes the state with which an instance starts: the child's defaults, the inputs, and its item.
    ///
    /// # Errors
    /// A required field without an input, or a value that is not of the child's type.
    pub(crate) fn make_start_state(&self, parent: &Snapshot, index: u64) -> Result<Snapshot, FieldFault> {
        let item = match self.source {
            InstanceSource::Count(_) => None,
            InstanceSource::Items { from, to } => {
                let list = parent.field_content_at(from).as_list();
                let name = || self.parent.fields()[from].name();
                let item = list.and_then(|list| list.get(list.first_held_position() + index));
                let item = item.ok_or_else(|| FieldFault::new(name(), format!("has no item {index}")))?;
                Some((to, item_to_content(item, self.child.fields()[to].shape())))
            }
        };
        self.inputs.make_start_state_with(parent, &self.child, item)
    }

    /// Returns the contribution of a finished instance: the fields that are collected or go out, by their names in the
    /// child.
    pub(crate) fn extract_contribution(&self, ended: &Snapshot) -> StateUpdate {
        extract_contribution(&self.outputs, ended)
    }

    /// Combines the contributions of all instances, in the order of their indexes: a list for each field, with null
    /// where an instance has no value for it; then the errors and the count.
    ///
    /// # Errors
    /// A typed value that cannot be represented in JSON.
    pub(crate) fn combine_contributions(
        &self,
        contributions: &[&StateUpdate],
        errors: Vec<Item>,
        count: u64,
    ) -> serde_json::Result<StateUpdate> {
        let mut update = StateUpdate::new();
        for (to, from) in &self.outputs {
            let name = self.child.fields()[*from].name();
            let values = contributions
                .iter()
                .map(|contribution| contributed_value(contribution, name))
                .collect::<serde_json::Result<PersistentList>>()?;
            update = update.with(self.parent.fields()[*to].name().to_owned(), FieldContent::Many(values));
        }
        if let Some(at) = self.errors_field {
            let name = self.parent.fields()[at].name().to_owned();
            update = update.with(name, FieldContent::Many(errors.into_iter().collect()));
        }
        if let Some(at) = self.count_field {
            update = update.with_json(self.parent.fields()[at].name().to_owned(), Value::from(count));
        }
        Ok(update)
    }

    /// Takes a contribution apart for a record: the collected value, and the others by the parent's field.
    ///
    /// # Errors
    /// A typed value that cannot be represented in JSON.
    pub(crate) fn split_contribution(
        &self,
        update: &StateUpdate,
    ) -> serde_json::Result<StoredContribution<'_>> {
        let of = |from: usize| contributed_value(update, self.child.fields()[from].name());
        let (collected, extra) = self.outputs.split_at(usize::from(self.collects));
        let extra = extra.iter().map(|(to, from)| Ok((self.parent.fields()[*to].name(), of(*from)?)));
        let collected = collected.first().map(|(_, from)| of(*from)).transpose()?;
        Ok((collected, extra.collect::<serde_json::Result<_>>()?))
    }

    /// Makes a contribution from a record. Fields that the record lacks are absent, as from an instance that has no
    /// value for them.
    ///
    /// # Errors
    /// A message that names the field, when the record has a field that this fan-out does not output.
    pub(crate) fn restore_contribution(
        &self,
        collected: Option<Value>,
        mut extra: BTreeMap<&str, Value>,
    ) -> Result<StateUpdate, String> {
        let (first, others) = self.outputs.split_at(usize::from(self.collects));
        let name = |from: usize| self.child.fields()[from].name().to_owned();
        let mut update = StateUpdate::new();
        // Else nobody asks for it any more, or nobody asked then.
        if let (Some((_, from)), Some(value)) = (first.first(), collected) {
            update = update.with_json(name(*from), value);
        }
        for (to, from) in others {
            if let Some(value) = extra.remove(self.parent.fields()[*to].name()) {
                update = update.with_json(name(*from), value);
            }
        }
        match extra.keys().next() {
            Some(name) => Err(format!("contributes to '{name}', which the fan-out does not")),
            None => Ok(update),
        }
    }

    /// Fields that are sent round through a reducer that would merge them twice: by the inputs and an output, or as the
    /// items and the collected field.
    pub(crate) fn find_round_trips(&self) -> Vec<&str> {
        let seeded = |to: usize, from: usize| {
            let spread = match self.source {
                InstanceSource::Items { from: items, to: item } => items == to && item == from,
                InstanceSource::Count(_) => false,
            };
            self.inputs.copies_field(from, to) || spread
        };
        let round = self.outputs.iter().filter(|(to, from)| {
            seeded(*to, *from) && self.parent.fields()[*to].effective_reducer().breaks_round_trip()
        });
        round.map(|(to, _)| self.parent.fields()[*to].name()).collect()
    }

    /// Warns of fields that are sent round.
    pub(crate) fn round_trip_warnings(&self, node: &str) -> Vec<GraphWarning> {
        self.find_round_trips().into_iter().map(|it| GraphWarning::for_round_trip(node, it)).collect()
    }
}

/// An item of a list, as the value of a field.
fn item_to_content(item: &Item, shape: &FieldShape) -> FieldContent {
    if shape.element_shape().is_none() {
        return FieldContent::One(item.clone());
    }
    match item.json() {
        Ok(array @ Value::Array(_)) => FieldContent::from_json(array.clone()),
        _ => FieldContent::One(item.clone()),
    }
}

/// The value that an update has for a field, as an item of a list.
fn contributed_value(update: &StateUpdate, field: &str) -> serde_json::Result<Item> {
    match update.find_last_value(field) {
        Some(FieldContent::One(item)) => Ok(item.clone()),
        Some(FieldContent::Many(list)) => Ok(Item::from_json(list.to_json()?)),
        None => Ok(Item::from_json(Value::Null)),
    }
}
