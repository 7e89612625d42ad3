//! The stored content of a session, as the harness holds it: fields with their slots, and how each is kept.

use std::ops::Range;
use std::sync::Arc;

use singletree_durable::{FieldRow, FieldValue, ItemRange, Journal, JsonDocument, SessionKey};
use singletree_engine::{FieldContent, Fields, Graph, Item, PersistentList, Snapshot};

use crate::Error;
use crate::history::HISTORY;
use crate::window::HistoryWindow;

/// One field of a session, as committed.
#[derive(Debug, Clone)]
pub(crate) struct StoredField {
    pub(crate) name: Arc<str>,
    pub(crate) slot: FieldContent,
    pub(crate) kept: FieldStorage,
    /// The bytes of its JSON: of its rows, or of its one value.
    pub(crate) bytes: u64,
}

/// How a field is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FieldStorage {
    /// As one value.
    Value,
    /// As rows of a generation.
    Rows { generation: u64 },
}

/// A session's fields, as committed.
pub(crate) type StoredFields = Vec<StoredField>;

pub(crate) fn find_field<'a>(fields: &'a [StoredField], name: &str) -> Option<&'a StoredField> {
    fields.iter().find(|field| field.name.as_ref() == name)
}

/// Returns the rows' list of a field.
pub(crate) fn find_list_field<'a>(fields: &'a [StoredField], name: &str) -> Option<&'a PersistentList> {
    find_field(fields, name).and_then(|it| it.slot.as_list())
}

/// Reads the fields of a session with the items of its lists; of the history only a window, if there is one.
pub(crate) async fn read_fields(
    journal: &dyn Journal,
    key: &SessionKey,
    rows: Vec<FieldRow>,
    window: Option<HistoryWindow>,
) -> Result<StoredFields, Error> {
    let mut fields = Vec::with_capacity(rows.len());
    for FieldRow { name, value } in rows {
        let (slot, kept, bytes) = match value {
            FieldValue::Value(json) => {
                let bytes = json.as_str().len() as u64;
                (FieldContent::from_json(decode_field_value(&json, &name)?), FieldStorage::Value, bytes)
            }
            FieldValue::List { generation, len, bytes } => {
                let list = read_stored_list((journal, key, window), &name, generation, len).await?;
                (FieldContent::Many(list), FieldStorage::Rows { generation }, bytes)
            }
        };
        fields.push(StoredField { name: name.into(), slot, kept, bytes });
    }
    Ok(fields)
}

/// Cuts the history to a window. None when more is needed than is held.
pub(crate) fn cut_history(
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

fn decode_field_value(json: &JsonDocument, name: &str) -> Result<serde_json::Value, Error> {
    json.decode()
        .map_err(|source| store_corrupt_error(format!("the value of field '{name}'"), Some(source.into())))
}

pub(crate) fn store_corrupt_error(what: String, source: Option<singletree_durable::BoxError>) -> Error {
    singletree_durable::Error::Corrupt { what, source }.into()
}

/// Reads the first `len` items of a generation; of the history only a window on them, if there is one.
pub(crate) async fn read_stored_list(
    (journal, key, window): (&dyn Journal, &SessionKey, Option<HistoryWindow>),
    field: &str,
    generation: u64,
    len: u64,
) -> Result<PersistentList, Error> {
    if let Some(window) = window.filter(|_| field == HISTORY) {
        return window.read_messages(journal, key, (generation, len)).await;
    }
    Ok(PersistentList::new(read_stored_items((journal, key), (field, generation), 0..len).await?))
}

/// Reads items of a generation, all of which must be there.
pub(crate) async fn read_stored_items(
    (journal, key): (&dyn Journal, &SessionKey),
    (field, generation): (&str, u64),
    places: Range<u64>,
) -> Result<Vec<Item>, Error> {
    let wanted = places.end.saturating_sub(places.start);
    if wanted == 0 {
        return Ok(Vec::new());
    }
    let range = ItemRange::List { field: field.to_owned(), generation, from: places.start, limit: wanted };
    let rows = journal.read_items(key, &range).await?;
    if rows.len() as u64 != wanted {
        let what = format!("field '{field}' has {} of {wanted} items from {} on", rows.len(), places.start);
        return Err(store_corrupt_error(what, None));
    }
    Ok(rows.into_iter().map(|row| Item::from_text(row.body.into_text())).collect())
}

/// Returns the fields by name, for the engine.
pub(crate) fn to_engine_fields(fields: &[StoredField]) -> Fields {
    fields.iter().map(|field| (field.name.clone(), field.slot.clone())).collect()
}

/// Tells whether a session field is a list that only extends, and so is kept as rows (INV-4).
pub(crate) fn is_kept_as_rows(graph: &Graph<Snapshot>, state_field: &str) -> bool {
    let field = graph.schema().find_field(state_field);
    field.is_some_and(|field| field.shape().is_list() && field.effective_reducer().only_appends_items())
}
