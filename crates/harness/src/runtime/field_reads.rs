//! Reads the stored fields of a session, and the items of its lists.

use std::ops::Range;

use serde_json::{Value, json};
use singletree_durable::{FieldRow, FieldValue, ItemRange, Journal, JsonDocument, SessionKey};
use singletree_engine::{FieldContent, Item, PersistentList};
use singletree_session::{
    FieldStorage, HISTORY, HistoryWindow, StoredField, StoredFields, decode_field_value,
};

use crate::Error;
use crate::error::store_corrupt_error;
use crate::runtime::chat_inner::ChatInner;
use crate::runtime::loaded_session::LoadedSession;

/// How many messages are read at a time while looking for the beginning of a turn.
const STRIDE: u64 = 64;

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

/// Reads the first `len` items of a generation; of the history only a window on them, if there is one.
pub(crate) async fn read_stored_list(
    (journal, key, window): (&dyn Journal, &SessionKey, Option<HistoryWindow>),
    field: &str,
    generation: u64,
    len: u64,
) -> Result<PersistentList, Error> {
    if let Some(window) = window.filter(|_| field == HISTORY) {
        return read_window_messages(window, (journal, key), (generation, len)).await;
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

/// Reads the window on a stored history of `len` messages.
async fn read_window_messages(
    window: HistoryWindow,
    place: (&dyn Journal, &SessionKey),
    (generation, len): (u64, u64),
) -> Result<PersistentList, Error> {
    let list = (HISTORY, generation);
    let mut first = len.saturating_sub(window.min_messages());
    let mut items = read_stored_items(place, list, first..len).await?;
    loop {
        let held = PersistentList::from_window(first, items.iter().cloned());
        if first == 0 || window.find_start(&held)?.is_some() {
            return Ok(window.cut_list(&held)?);
        }
        let from = first.saturating_sub(STRIDE);
        let earlier = read_stored_items(place, list, from..first).await?;
        items.splice(0..0, earlier);
        first = from;
    }
}

impl ChatInner {
    /// Reads the number and the side record of one item; none when they cannot be read.
    pub(crate) async fn read_item_side(
        &self,
        loaded: &LoadedSession,
        range: &ItemRange,
    ) -> Option<(u64, Value)> {
        let row = self
            .await_store_read(self.journal.read_items(&loaded.key, range))
            .await
            .ok()?
            .into_iter()
            .next()?;
        let side = row.side.as_ref().map(JsonDocument::decode).transpose().ok()?;
        Some((row.no, side.unwrap_or_else(|| json!({}))))
    }
}
