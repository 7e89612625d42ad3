//! What is stored in a session, as the harness holds it: fields with their slots, and how each is kept.

use std::sync::Arc;

use singletree_durable::{FieldRow, FieldValue, ItemRange, Journal, Json, SessionKey};
use singletree_engine::{Fields, Graph, Item, List, Slot, Snapshot};

use crate::Error;

/// One field of a session, as committed.
#[derive(Debug, Clone)]
pub(crate) struct StoredField {
    pub(crate) name: Arc<str>,
    pub(crate) slot: Slot,
    pub(crate) kept: Kept,
    /// The bytes of its rows; none when it is kept as one value.
    pub(crate) bytes: u64,
}

/// How a field is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kept {
    /// As one value.
    Value,
    /// As rows of a generation.
    Rows { generation: u64 },
}

/// A session's fields, as committed.
pub(crate) type StoredFields = Vec<StoredField>;

pub(crate) fn find<'a>(fields: &'a [StoredField], name: &str) -> Option<&'a StoredField> {
    fields.iter().find(|it| it.name.as_ref() == name)
}

/// Returns the rows' list of a field.
pub(crate) fn list<'a>(fields: &'a [StoredField], name: &str) -> Option<&'a List> {
    find(fields, name).and_then(|it| it.slot.as_list())
}

/// Reads the fields of a session with the items of its lists.
pub(crate) async fn read(
    journal: &dyn Journal,
    key: &SessionKey,
    rows: Vec<FieldRow>,
) -> Result<StoredFields, Error> {
    let mut fields = Vec::with_capacity(rows.len());
    for FieldRow { name, value } in rows {
        let (slot, kept, bytes) = match value {
            FieldValue::Value(json) => (Slot::from_json(decode(&json, &name)?), Kept::Value, 0),
            FieldValue::List { generation, len, bytes } => {
                let list = read_list(journal, key, &name, generation, len).await?;
                (Slot::Many(list), Kept::Rows { generation }, bytes)
            }
        };
        fields.push(StoredField { name: name.into(), slot, kept, bytes });
    }
    Ok(fields)
}

fn decode(json: &Json, name: &str) -> Result<serde_json::Value, Error> {
    json.decode().map_err(|source| corrupt(format!("the value of field '{name}'"), Some(source.into())))
}

pub(crate) fn corrupt(what: String, source: Option<singletree_durable::BoxError>) -> Error {
    singletree_durable::Error::Corrupt { what, source }.into()
}

/// Reads the first `len` items of a generation.
pub(crate) async fn read_list(
    journal: &dyn Journal,
    key: &SessionKey,
    field: &str,
    generation: u64,
    len: u64,
) -> Result<List, Error> {
    let range = ItemRange::List { field: field.to_owned(), generation, from: 0, limit: len };
    let items = if len == 0 { Vec::new() } else { journal.items(key, &range).await? };
    if items.len() as u64 != len {
        return Err(corrupt(format!("field '{field}' has {} of {len} items", items.len()), None));
    }
    Ok(items.into_iter().map(|it| Item::from_text(it.body.as_str())).collect())
}

/// Returns the fields by name, for the engine.
pub(crate) fn to_fields(fields: &[StoredField]) -> Fields {
    fields.iter().map(|it| (it.name.clone(), it.slot.clone())).collect()
}

/// Tells whether a session field is a list that only extends, and so is kept as rows (INV-4).
pub(crate) fn keeps_rows(graph: &Graph<Snapshot>, state_field: &str) -> bool {
    let field = graph.schema().field(state_field);
    field.is_some_and(|it| it.shape().is_list() && it.merge_by().only_extends())
}
