//! The stored content of a session, as the harness holds it: fields with their slots, and how each is kept.

use std::sync::Arc;

use singletree_durable::JsonDocument;
use singletree_graph::{FieldContent, Fields, PersistentList};

use crate::Error;
use crate::codec::window::HistoryWindow;
use crate::history::HISTORY;

/// One field of a session, as committed.
#[derive(Debug, Clone)]
pub struct StoredField {
    /// The name of the field.
    pub name: Arc<str>,
    /// Its content.
    pub slot: FieldContent,
    /// The form in which it is stored.
    pub kept: FieldStorage,
    /// The bytes of its JSON: of its rows, or of its one value.
    pub bytes: u64,
}

/// How a field is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldStorage {
    /// As one value.
    Value,
    /// As rows of a generation.
    /// The generation of the rows.
    Rows {
        /// The number of the generation.
        generation: u64,
    },
}

/// A session's fields, as committed.
pub type StoredFields = Vec<StoredField>;

/// Finds a field by its name.
pub fn find_field<'a>(fields: &'a [StoredField], name: &str) -> Option<&'a StoredField> {
    fields.iter().find(|field| field.name.as_ref() == name)
}

/// Returns the rows' list of a field.
pub fn find_list_field<'a>(fields: &'a [StoredField], name: &str) -> Option<&'a PersistentList> {
    find_field(fields, name).and_then(|it| it.slot.as_list())
}

/// Cuts the history to a window. None when more is needed than is held.
pub fn cut_history(
    mut fields: StoredFields,
    window: Option<HistoryWindow>,
) -> Result<Option<StoredFields>, Error> {
    let history = fields.iter_mut().find(|field| field.name.as_ref() == HISTORY);
    let Some(FieldContent::Many(list)) = history.map(|history| &mut history.slot) else {
        return Ok(Some(fields));
    };
    match window {
        Some(window) if window.is_held_by(list)? => *list = window.cut_list(list)?,
        None if list.first_held_position() == 0 => {}
        Some(_) | None => return Ok(None),
    }
    Ok(Some(fields))
}

/// Reads a field's value.
///
/// # Errors
/// `store_corrupt`.
pub fn decode_field_value(json: &JsonDocument, name: &str) -> Result<serde_json::Value, Error> {
    json.decode()
        .map_err(|source| store_corrupt_error(format!("the value of field '{name}'"), Some(source.into())))
}

/// Makes the error for stored data that cannot be read.
pub fn store_corrupt_error(what: String, source: Option<singletree_durable::BoxError>) -> Error {
    singletree_durable::Error::Corrupt { what, source }.into()
}

/// Returns the fields by name, for the engine.
pub fn to_engine_fields(fields: &[StoredField]) -> Fields {
    fields.iter().map(|field| (field.name.clone(), field.slot.clone())).collect()
}
