//! Schemas: the fields of a state, declared at compile time by a derive or at run time.

use std::any::TypeId;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use crate::field::FieldFault;
use crate::guard::catch_panic;
use crate::item::Item;
use crate::reducer::Reducer;
use crate::shape::FieldShape;
use crate::slot::FieldContent;

/// The schema version of a state that declares none (R27).
pub const UNVERSIONED: &str = "unversioned";

/// A check that goes beyond the shape: a typed field's own decoding.
pub type ValueCheck = Arc<dyn Fn(&Item) -> Result<(), String> + Send + Sync>;

/// One declared field (graph-engine §2).
#[derive(Clone)]
pub struct FieldSpec {
    pub(crate) name: Arc<str>,
    pub(crate) shape: FieldShape,
    pub(crate) default: Option<FieldContent>,
    pub(crate) reducers: Vec<Reducer>,
    pub(crate) check: Option<ValueCheck>,
    /// The Rust type, for fields of a typed state; its check then implies the shape.
    pub(crate) rust: Option<TypeId>,
}

impl FieldSpec {
    /// Declares a required field: a graph cannot start from defaults alone while it has one.
    pub fn required(name: impl Into<Arc<str>>, shape: FieldShape) -> Self {
        Self { name: name.into(), shape, default: None, reducers: Vec::new(), check: None, rust: None }
    }

    /// Declares a field with a default.
    pub fn new(name: impl Into<Arc<str>>, shape: FieldShape, default: FieldContent) -> Self {
        Self { default: Some(default), ..Self::required(name, shape) }
    }

    /// Declares how updates are merged. A field has at most one reducer; a second one is reported when a graph with
    /// this schema is compiled.
    #[must_use]
    pub fn reducer(mut self, reducer: Reducer) -> Self {
        self.reducers.push(reducer);
        self
    }

    /// Adds a check of each value (of each element, for a list) that goes beyond the shape.
    #[must_use]
    pub fn with_value_check(mut self, check: ValueCheck) -> Self {
        self.check = Some(check);
        self
    }

    /// Returns the field's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the declared type.
    #[must_use]
    pub fn shape(&self) -> &FieldShape {
        &self.shape
    }

    /// Returns the default, or nothing for a required field.
    #[must_use]
    pub fn default_content(&self) -> Option<&FieldContent> {
        self.default.as_ref()
    }

    /// Returns the reducer: last write wins unless declared otherwise.
    #[must_use]
    pub fn effective_reducer(&self) -> &Reducer {
        self.reducers.first().unwrap_or(&Reducer::LastWriteWins)
    }

    /// Returns the reducers as they were declared: a valid field has one at most.
    #[must_use]
    pub fn declared_reducers(&self) -> &[Reducer] {
        &self.reducers
    }

    /// Checks one value, or one element of a list field.
    fn check_single_item(&self, shape: &FieldShape, item: &Item) -> Result<(), String> {
        if self.rust.is_none() && !shape.allows_any_value() {
            shape.check_value(item.json().map_err(|error| error.to_string())?)?;
        }
        self.check.as_ref().map_or(Ok(()), |check| check(item))
    }

    /// Checks a whole value.
    ///
    /// # Errors
    /// Why the value does not match, as text.
    pub fn check_content(&self, slot: &FieldContent) -> Result<(), String> {
        self.check_content_from(slot, 0)
    }

    /// Checks a value, of which list elements before `from` are known to be right. A check that panics has refused.
    pub(crate) fn check_content_from(&self, slot: &FieldContent, from: u64) -> Result<(), String> {
        if self.check.is_none() {
            return self.check_values_uncaught(slot, from);
        }
        catch_panic(|| self.check_values_uncaught(slot, from))
            .unwrap_or_else(|panicked| Err(format!("its check {panicked}")))
    }

    fn check_values_uncaught(&self, slot: &FieldContent, from: u64) -> Result<(), String> {
        match (slot, self.shape.element_shape()) {
            (FieldContent::Many(list), Some(_)) if self.shape.allows_any_value() => match &self.check {
                // A check of a field that may be anything is one of the whole value.
                Some(check) => check(&Item::from_json(list.to_json().map_err(|error| error.to_string())?)),
                None => Ok(()),
            },
            (FieldContent::Many(list), Some(element)) => {
                list.iter_from(from).enumerate().try_for_each(|(at, item)| {
                    self.check_single_item(element, item)
                        .map_err(|error| format!("element {}: {error}", from + at as u64))
                })
            }
            (FieldContent::Many(_), None) => Err(format!("expected {}, found a list", self.shape)),
            (FieldContent::One(item), Some(_)) if !self.shape.allows_any_value() => {
                let absent = matches!(self.shape, FieldShape::Optional(_)) && item.is_null();
                if absent { Ok(()) } else { Err(format!("expected {}, found no list", self.shape)) }
            }
            (FieldContent::One(item), _) => self.check_single_item(&self.shape, item),
        }
    }
}

impl FieldSpec {
    /// Checks whether each value that passed this field's check would also pass the other's.
    #[must_use]
    pub fn implies_checks_of(&self, other: &Self) -> bool {
        let checked = match (&self.check, &other.check) {
            (_, None) => self.rust.is_none() || self.rust == other.rust,
            (Some(ours), Some(theirs)) => {
                Arc::ptr_eq(ours, theirs) || (self.rust.is_some() && self.rust == other.rust)
            }
            (None, Some(_)) => false,
        };
        self.shape == other.shape && checked
    }
}

impl fmt::Debug for FieldSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} by {}", self.name, self.shape, self.effective_reducer().name())
    }
}

/// The fields of a state (graph-engine §2).
#[derive(Debug)]
pub struct StateSchema {
    name: String,
    version: String,
    fields: Vec<FieldSpec>,
    by_name: HashMap<Arc<str>, usize>,
    repeated: Vec<Arc<str>>,
}

impl StateSchema {
    /// Puts a schema together.
    #[must_use]
    pub fn new(name: impl Into<String>, fields: Vec<FieldSpec>) -> Self {
        let mut by_name = HashMap::with_capacity(fields.len());
        let mut repeated = Vec::new();
        for (at, field) in fields.iter().enumerate() {
            if by_name.insert(field.name.clone(), at).is_some() {
                repeated.push(field.name.clone());
            }
        }
        Self { name: name.into(), version: UNVERSIONED.into(), fields, by_name, repeated }
    }

    /// Gives the schema a version, which stored state is labelled with (sessions §7).
    #[must_use]
    pub fn with_version(mut self, version: impl Into<String>) -> Self {
        self.version = version.into();
        self
    }

    /// Returns the schema's name, for people.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the schema's version; [`UNVERSIONED`] unless it declares one.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Returns the fields in the order of declaration.
    #[must_use]
    pub fn fields(&self) -> &[FieldSpec] {
        &self.fields
    }

    /// Returns the field of this name.
    #[must_use]
    pub fn find_field(&self, name: &str) -> Option<&FieldSpec> {
        self.find_field_index(name).map(|index| &self.fields[index])
    }

    /// Returns the position of a field.
    #[must_use]
    pub fn find_field_index(&self, name: &str) -> Option<usize> {
        self.by_name.get(name).copied()
    }

    /// Checks one value against its field, list elements included: for values from a store, a migration or another
    /// untrusted source.
    ///
    /// # Errors
    /// A field that is not declared, or a value that is not of its type.
    pub fn check_field_content(&self, field: &str, value: &FieldContent) -> Result<(), FieldFault> {
        let fault = |problem: String| FieldFault::new(field, problem);
        let declared = self.find_field(field).ok_or_else(|| fault("is not declared".into()))?;
        declared.check_content(value).map_err(fault)
    }

    /// Returns the names that were declared more than once.
    #[must_use]
    pub fn repeated_field_names(&self) -> &[Arc<str>] {
        &self.repeated
    }
}
