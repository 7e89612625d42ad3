//! The stored position of an invocation: the cursor, and the fields of each frame. A field of the outermost frame that
//! the session holds with the same value is stored as a reference. The references are left out when the frame has all
//! fields of the session and each reference is to the field of its own name. A position may be read by a process whose
//! states have another schema version: it names the version of its own states, unless that is the session's.
//!
//! A list is stored as the stored list that it begins with, a generation up to a length, and the numbers of the items
//! after that; never by content (INV-4).

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use singletree_durable::{ItemRange, Journal, JsonDocument, SessionKey};
use singletree_engine::{Descriptor, FieldContent, Fields, GraphCursor, Item, PersistentList, Snapshot};

use crate::Error;
use crate::budget::BudgetUsage;
use crate::session::batch::{BatchBuilder, ItemNumbering, TurnIdentity};
use crate::steer::SteeredPosition;
use crate::stored::{self, FieldStorage, StoredField, StoredFields};
use crate::usage::TurnModelUsage;
use crate::window::HistoryWindow;

/// The stored form of a position.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StoredPosition {
    /// Which agent, and which graph (D28).
    pub(crate) agent: String,
    pub(crate) graph: String,
    /// The version of the state's schema, where it is another than the session's as stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) schema_version: Option<String>,
    /// The session's version that it stands on (D1).
    pub(crate) version: u64,
    pub(crate) marks: HistoryMarks,
    /// The turn's use of its budgets up to here (D13).
    #[serde(default, skip_serializing_if = "BudgetUsage::is_zero")]
    pub(crate) spent: BudgetUsage,
    /// The turn's model usage up to here; empty where the turn suspended, since its outcome has the usage.
    #[serde(default, skip_serializing_if = "TurnModelUsage::is_empty")]
    pub(crate) used: TurnModelUsage,
    /// Whether the invocation recorded the intent of a call that changes something (D29).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) effects: bool,
    /// The messages that the turn has taken, which steer it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) taken: Vec<SteeredPosition>,
    pub(crate) cursor: GraphCursor,
    pub(crate) frames: Vec<BTreeMap<String, EncodedField>>,
    /// The awaited signal, when the invocation is suspended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) descriptor: Option<Descriptor>,
}

/// Where the turn's messages stand in the history (D6, D17).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct HistoryMarks {
    /// The position of the first message that the turn adds.
    pub(crate) first: u64,
    /// The position of the first one after the user's own: the boundary of the tail.
    pub(crate) boundary: u64,
    /// Up to where messages were announced by events.
    pub(crate) announced: u64,
}

/// One field of a frame.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum EncodedField {
    /// A value.
    Value(Value),
    /// A reference to the session's field of this name, which holds the value.
    Held(String),
    /// A list.
    List {
        /// The stored list that it begins with: session field, generation, length.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        base: Option<(String, u64, u64)>,
        /// The items after that, as ranges of numbers (from, past the end).
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        items: Vec<(u64, u64)>,
    },
}

/// The parts of a run that its encoding needs.
pub(crate) struct FrameEncoder<'a> {
    pub(crate) author: &'a TurnIdentity,
    pub(crate) stored: &'a StoredFields,
    /// Pairs of (session field, state field).
    pub(crate) names: &'a [(Arc<str>, Arc<str>)],
    pub(crate) numbers: &'a mut ItemNumbering,
}

impl FrameEncoder<'_> {
    /// Encodes the frames, outermost first; writes the items that are not written yet.
    pub(crate) fn encode_frames(
        &mut self,
        writing: &mut BatchBuilder,
        frames: &[Snapshot],
    ) -> Result<Vec<BTreeMap<String, EncodedField>>, Error> {
        let mut encoded = Vec::with_capacity(frames.len());
        for (depth, frame) in frames.iter().enumerate() {
            let mut fields = BTreeMap::new();
            for (name, slot) in frame.iter_fields() {
                let held = if depth == 0 { self.find_held_field(name, slot) } else { None };
                let encoded = match held {
                    Some(session) => EncodedField::Held(session.to_owned()),
                    None => self.encode_field(writing, slot)?,
                };
                fields.insert(name.to_owned(), encoded);
            }
            if depth == 0 && self.holds_all_fields(&fields) {
                fields.retain(|_, it| !matches!(it, EncodedField::Held(_)));
            }
            encoded.push(fields);
        }
        Ok(encoded)
    }

    /// Checks whether the frame has all stored fields and every reference is to the field of its own name: then the
    /// references need not be stored.
    fn holds_all_fields(&self, fields: &BTreeMap<String, EncodedField>) -> bool {
        let own =
            |(name, it): (&String, &EncodedField)| !matches!(it, EncodedField::Held(held) if held != name);
        self.stored.iter().all(|item| fields.contains_key(item.name.as_ref())) && fields.iter().all(own)
    }

    /// Returns the session's field that holds exactly this already.
    fn find_held_field(&self, state_field: &str, slot: &FieldContent) -> Option<&str> {
        let (session, _) = self.names.iter().find(|(_, state)| state.as_ref() == state_field)?;
        stored::find_field(self.stored, session)
            .filter(|it| it.slot.is_same_content(slot))
            .map(|_| session.as_ref())
    }

    fn encode_field(
        &mut self,
        writing: &mut BatchBuilder,
        slot: &FieldContent,
    ) -> Result<EncodedField, Error> {
        let unfit = |it: serde_json::Error| {
            stored::store_corrupt_error("a field that JSON cannot represent".into(), Some(it.into()))
        };
        match slot {
            FieldContent::One(item) => Ok(EncodedField::Value(item.json().map_err(unfit)?.clone())),
            FieldContent::Many(list) => self.encode_list(writing, list),
        }
    }

    fn encode_list(
        &mut self,
        writing: &mut BatchBuilder,
        list: &PersistentList,
    ) -> Result<EncodedField, Error> {
        let base = self.stored.iter().find_map(|item| find_list_base(item, list));
        let from = base.as_ref().map_or(0, |(_, _, len)| *len);
        let mut items: Vec<(u64, u64)> = Vec::new();
        for item in list.iter_from(from) {
            let no = writing.write_item_once(self.author, item, self.numbers)?;
            match items.last_mut() {
                Some((_, to)) if *to == no => *to = no + 1,
                _ => items.push((no, no + 1)),
            }
        }
        Ok(EncodedField::List { base, items })
    }
}

/// Says how far a stored list is the beginning of this one, or this one the beginning of it.
fn find_list_base(field: &StoredField, list: &PersistentList) -> Option<(String, u64, u64)> {
    let (FieldContent::Many(stored), FieldStorage::Rows { generation }) = (&field.slot, field.kept) else {
        return None;
    };
    let len = if list.is_extension_of(stored) {
        stored.len()
    } else if stored.is_extension_of(list) {
        list.len()
    } else {
        return None;
    };
    Some((field.name.as_ref().to_owned(), generation, len))
}

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
        let found = stored::find_field(self.stored, session).map(|it| it.slot.clone());
        found.ok_or_else(|| {
            stored::store_corrupt_error(format!("field '{session}' of the session is missing"), None)
        })
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
                return Err(stored::store_corrupt_error(
                    format!("items {from} to {to} are not all there"),
                    None,
                ));
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
        let held = stored::find_field(self.stored, field).and_then(|it| match (&it.slot, it.kept) {
            (FieldContent::Many(list), FieldStorage::Rows { generation: held }) if held == generation => {
                Some(list)
            }
            _ => None,
        });
        match held {
            Some(list) if list.len() == len => Ok(list.clone()),
            _ => {
                stored::read_stored_list((self.journal, self.key, self.window), field, generation, len).await
            }
        }
    }
}

impl StoredPosition {
    pub(crate) fn to_json_document(&self) -> Result<JsonDocument, Error> {
        JsonDocument::from_serializable(self).map_err(|error| {
            stored::store_corrupt_error("a position that JSON cannot represent".into(), Some(error.into()))
        })
    }
}
