//! Reads the frames of a stored position back.

use std::collections::BTreeMap;
use std::sync::Arc;

use singletree_durable::{ItemRange, Journal, SessionKey};
use singletree_engine::{FieldContent, Fields, Item, PersistentList};
use singletree_session::{
    EncodedField, FieldStorage, HistoryWindow, ItemNumbering, StoredFields, find_field,
};

use crate::Error;
use crate::error::store_corrupt_error;
use crate::runtime::field_reads::read_stored_list;

/// Reads encoded frames back.
pub(crate) struct FrameDecoder<'a> {
    pub(crate) journal: &'a dyn Journal,
    pub(crate) key: &'a SessionKey,
    pub(crate) stored: &'a StoredFields,
    /// Pairs of (session field, state field), where the states have the version of these pairs. With none, a field of
    /// the session has the same name in the state.
    pub(crate) names: Option<&'a [(Arc<str>, Arc<str>)]>,
    pub(crate) numbers: &'a mut ItemNumbering,
    pub(crate) window: Option<HistoryWindow>,
}

impl FrameDecoder<'_> {
    /// Reads frames as they were written: in the terms of the schema of then.
    pub(crate) async fn decode_frames(
        &mut self,
        encoded: Vec<BTreeMap<String, EncodedField>>,
    ) -> Result<Vec<Fields>, Error> {
        let mut frames = Vec::with_capacity(encoded.len());
        for (depth, fields) in encoded.into_iter().enumerate() {
            let mut frame: Fields = Vec::new();
            if depth == 0 && !fields.values().any(|field| matches!(field, EncodedField::Held(_))) {
                let held =
                    self.stored.iter().filter_map(|item| Some((self.state_field_name(&item.name)?, item)));
                let held = held.filter(|(state, _)| !fields.contains_key(state.as_ref()));
                frame.extend(held.map(|(state, it)| (state, it.slot.clone())));
            }
            for (name, value) in fields {
                let slot = match value {
                    EncodedField::Value(value) => FieldContent::from_json(value),
                    EncodedField::Held(session) => self.held_field_content(&session)?,
                    EncodedField::List { base, items } => {
                        FieldContent::Many(self.decode_list(base, items).await?)
                    }
                };
                frame.push((name.into(), slot));
            }
            frames.push(frame);
        }
        Ok(frames)
    }

    fn state_field_name(&self, session: &Arc<str>) -> Option<Arc<str>> {
        match self.names {
            Some(names) => names.iter().find(|(held, _)| held == session).map(|(_, state)| state.clone()),
            None => Some(session.clone()),
        }
    }

    fn held_field_content(&self, session: &str) -> Result<FieldContent, Error> {
        let found = find_field(self.stored, session).map(|it| it.slot.clone());
        found.ok_or_else(|| store_corrupt_error(format!("field '{session}' of the session is missing"), None))
    }

    async fn decode_list(
        &mut self,
        base: Option<(String, u64, u64)>,
        items: Vec<(u64, u64)>,
    ) -> Result<PersistentList, Error> {
        let start = match base {
            None => PersistentList::default(),
            Some((field, generation, len)) => self.read_list_base(&field, generation, len).await?,
        };
        let mut tail = Vec::new();
        for (from, to) in items {
            let rows = self.journal.read_items(self.key, &ItemRange::Numbers { from, to }).await?;
            if rows.len() as u64 != to - from {
                return Err(store_corrupt_error(format!("items {from} to {to} are not all there"), None));
            }
            for row in rows {
                let item = Item::from_text(row.body.as_str());
                self.numbers.insert_number(&item, row.no);
                tail.push(item);
            }
        }
        Ok(start.append_items(tail))
    }

    async fn read_list_base(&self, field: &str, generation: u64, len: u64) -> Result<PersistentList, Error> {
        let held = find_field(self.stored, field).and_then(|it| match (&it.slot, it.kept) {
            (FieldContent::Many(list), FieldStorage::Rows { generation: held }) if held == generation => {
                Some(list)
            }
            _ => None,
        });
        match held {
            Some(list) if list.len() == len => Ok(list.clone()),
            _ => read_stored_list((self.journal, self.key, self.window), field, generation, len).await,
        }
    }
}
