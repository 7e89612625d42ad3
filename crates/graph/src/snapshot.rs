//! A running state: a schema and one slot for each field. Shared, never copied.

use std::any::{Any, TypeId};
use std::fmt;
use std::sync::{Arc, OnceLock};

use serde_json::{Map, Value};

use crate::field::FieldFault;
use crate::reducer::ReducerFault;
use crate::schema::StateSchema;
use crate::slot::FieldContent;
use crate::state::State;
use crate::update::StateUpdate;

/// The state of a graph at one moment. Cloning and keeping it costs nothing that depends on its size (INV-5).
#[derive(Clone)]
pub struct Snapshot(Arc<SnapshotInner>);

struct SnapshotInner {
    schema: Arc<StateSchema>,
    slots: Vec<FieldContent>,
    /// The typed view that nodes of this graph ask for, made once.
    view: OnceLock<Arc<dyn Any + Send + Sync>>,
}

/// Why an update could not become part of a state.
#[derive(Debug, Clone, PartialEq)]
pub enum MergeFault {
    /// A reducer refused.
    Reducer {
        /// The field.
        field: String,
        /// The reducer's name.
        reducer: String,
        /// Why.
        fault: ReducerFault,
    },
    /// The merged value does not match the schema, or the field is not declared.
    Invalid(FieldFault),
}

impl Snapshot {
    /// Starts from the schema's defaults, with some fields set.
    ///
    /// # Errors
    /// A field that is neither set nor has a default, or a set one that is not declared or not of its type.
    pub fn from_defaults_with(
        schema: &Arc<StateSchema>,
        set: Vec<(usize, FieldContent)>,
    ) -> Result<Self, FieldFault> {
        let mut slots: Vec<Option<FieldContent>> =
            schema.fields().iter().map(|field| field.default_content().cloned()).collect();
        for (at, slot) in set {
            slots[at] = Some(slot);
        }
        let missing = |at: usize| FieldFault::new(schema.fields()[at].name(), "is required and has no value");
        let slots = slots.into_iter().enumerate().map(|(at, slot)| slot.ok_or_else(|| missing(at)));
        Ok(Self::from_slots(schema.clone(), slots.collect::<Result<_, _>>()?))
    }

    fn from_slots(schema: Arc<StateSchema>, slots: Vec<FieldContent>) -> Self {
        Self(Arc::new(SnapshotInner { schema, slots, view: OnceLock::new() }))
    }

    /// Returns the schema.
    #[must_use]
    pub fn schema(&self) -> &Arc<StateSchema> {
        &self.0.schema
    }

    /// Returns the content of a field.
    #[must_use]
    pub fn get(&self, field: &str) -> Option<&FieldContent> {
        self.0.schema.find_field_index(field).map(|index| &self.0.slots[index])
    }

    /// Returns the content of the field at this position of the schema.
    ///
    /// # Panics
    /// If there is no such position.
    #[must_use]
    pub fn field_content_at(&self, index: usize) -> &FieldContent {
        &self.0.slots[index]
    }

    /// Iterates over the fields in the order of declaration.
    pub fn iter_fields(&self) -> impl Iterator<Item = (&str, &FieldContent)> {
        self.0.schema.fields().iter().map(|field| field.name()).zip(&self.0.slots)
    }

    /// Tells whether both are one and the same state, in constant time.
    #[must_use]
    pub fn is_same_state(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Returns the state as a JSON map.
    ///
    /// # Errors
    /// When a typed value cannot be represented in JSON.
    pub fn to_json(&self) -> serde_json::Result<Map<String, Value>> {
        self.iter_fields().map(|(name, slot)| Ok((name.to_owned(), slot.to_json()?))).collect()
    }

    /// Returns the state as a typed value. The value is kept for the first type that is asked for; other types are read
    /// anew.
    ///
    /// # Errors
    /// When a field is not of its declared type: only for damaged stored state, since merged values are checked.
    pub fn typed_view<S: State>(&self) -> Result<Arc<S>, FieldFault> {
        if let Some(Ok(view)) = self.0.view.get().map(|it| it.clone().downcast::<S>()) {
            return Ok(view);
        }
        let view = Arc::new(S::read(self)?);
        // A snapshot that holds itself would never be freed.
        if TypeId::of::<S>() != TypeId::of::<Self>() {
            drop(self.0.view.set(view.clone()));
        }
        Ok(view)
    }

    /// Returns the state with some fields replaced, reducers not consulted. Middleware uses this to hand another state
    /// inwards. The last value of a field counts.
    ///
    /// # Errors
    /// A field that is not declared, or a value that is not of its type.
    pub fn with_replaced_fields(&self, fields: impl Into<StateUpdate>) -> Result<Self, FieldFault> {
        let fields = fields.into();
        let fields: Vec<_> = fields.iter_entries().map(|(name, slot)| (name, slot.clone())).collect();
        self.overlay_fields(&fields)
    }

    /// Merges an update by each field's reducer, and checks the changed fields (graph-engine §2, §3).
    ///
    /// # Errors
    /// The first field whose reducer refuses, or whose merged value does not match the schema.
    pub fn merge_update(&self, update: StateUpdate) -> Result<Self, MergeFault> {
        if update.is_empty() {
            return Ok(self.clone());
        }
        let mut slots = self.0.slots.clone();
        for (name, value) in update.into_entries() {
            let at = self.find_declared_index(&name).map_err(MergeFault::Invalid)?;
            let field = &self.0.schema.fields()[at];
            let reducer = field.effective_reducer();
            let merged = reducer.reduce_update(&slots[at], value).map_err(|fault| MergeFault::Reducer {
                field: field.name().to_owned(),
                reducer: reducer.name().to_owned(),
                fault,
            })?;
            let known = shared_prefix_length(&slots[at], &merged);
            let checked = field.check_content_from(&merged, known);
            checked.map_err(|error| MergeFault::Invalid(FieldFault::new(field.name(), error)))?;
            slots[at] = merged;
        }
        Ok(Self::from_slots(self.0.schema.clone(), slots))
    }

    /// Overwrites fields, reducers not consulted (suspension §6), and checks the new values.
    ///
    /// # Errors
    /// A field that is not declared, or a value that is not of its type.
    pub(crate) fn overlay_fields(&self, fields: &[(&str, FieldContent)]) -> Result<Self, FieldFault> {
        let mut slots = self.0.slots.clone();
        for (name, value) in fields {
            let at = self.find_declared_index(name)?;
            let field = &self.0.schema.fields()[at];
            field.check_content(value).map_err(|error| FieldFault::new(field.name(), error))?;
            slots[at] = value.clone();
        }
        Ok(Self::from_slots(self.0.schema.clone(), slots))
    }

    fn find_declared_index(&self, name: &str) -> Result<usize, FieldFault> {
        self.0.schema.find_field_index(name).ok_or_else(|| FieldFault::new(name, "is not declared"))
    }

    /// Overwrites the fields that a signal's payload names and this state declares (suspension §6, R17). Others are
    /// dropped.
    ///
    /// # Errors
    /// A value that is not of its field's type.
    pub fn overlay_payload(&self, payload: &Map<String, Value>) -> Result<Self, FieldFault> {
        let declared = payload.iter().filter(|(name, _)| self.schema().find_field_index(name).is_some());
        let fields: Vec<_> =
            declared.map(|(name, value)| (name.as_str(), FieldContent::from_json(value.clone()))).collect();
        self.overlay_fields(&fields)
    }

    /// Checks every field against the schema, as the specification asks at entry and exit (graph-engine §2).
    ///
    /// Lists are taken as checked: their items were, where they came from (merge, initial state, load).
    ///
    /// # Errors
    /// The first field that does not match.
    pub fn validate_fields(&self) -> Result<(), FieldFault> {
        for (field, slot) in self.0.schema.fields().iter().zip(&self.0.slots) {
            let known = slot.as_list().map_or(0, crate::list::PersistentList::len);
            field.check_content_from(slot, known).map_err(|error| FieldFault::new(field.name(), error))?;
        }
        Ok(())
    }
}

/// Returns the number of leading items that the merged list shares with the prior one.
fn shared_prefix_length(prior: &FieldContent, merged: &FieldContent) -> u64 {
    match (prior.as_list(), merged.as_list()) {
        (Some(prior), Some(merged)) if merged.is_extension_of(prior) => prior.len(),
        _ => 0,
    }
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter_fields()).finish()
    }
}

/// Snapshots are equal when their fields have the same names and equal content.
impl PartialEq for Snapshot {
    fn eq(&self, other: &Self) -> bool {
        self.is_same_state(other) || self.iter_fields().eq(other.iter_fields())
    }
}
