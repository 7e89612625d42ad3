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
use singletree_durable::JsonDocument;
use singletree_env::TraceHeaders;
use singletree_graph::{Descriptor, FieldContent, GraphCursor, PersistentList, Snapshot};

use crate::Error;
use crate::apply::steer::SteeredPosition;
use crate::batch::{BatchBuilder, ItemNumbering, TurnIdentity};
use crate::budget::BudgetUsage;
use crate::codec::stored::{self, FieldStorage, StoredField, StoredFields};
use crate::usage::TurnModelUsage;

/// The stored form of a position.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoredPosition {
    /// Which agent, and which graph (D28).
    pub agent: String,
    /// The digest of the agent's graph.
    pub graph: String,
    /// The version of the state's schema, where it is another than the session's as stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema_version: Option<String>,
    /// The session's version that it stands on (D1).
    pub version: u64,
    /// The marks in the history.
    pub marks: HistoryMarks,
    /// The turn's use of its budgets up to here (D13).
    #[serde(default, skip_serializing_if = "BudgetUsage::is_zero")]
    pub spent: BudgetUsage,
    /// The turn's model usage up to here; empty where the turn suspended, since its outcome has the usage.
    #[serde(default, skip_serializing_if = "TurnModelUsage::is_empty")]
    pub used: TurnModelUsage,
    /// Whether the invocation recorded the intent of a call that changes something (D29).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub effects: bool,
    /// The messages that the turn has taken, which steer it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub taken: Vec<SteeredPosition>,
    /// The trace in which the invocation was called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<TraceHeaders>,
    /// The cursor of the run.
    pub cursor: GraphCursor,
    /// The fields of each frame, outermost first.
    pub frames: Vec<BTreeMap<String, EncodedField>>,
    /// The awaited signal, when the invocation is suspended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub descriptor: Option<Descriptor>,
}

/// Where the turn's messages stand in the history (D6, D17).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct HistoryMarks {
    /// The position of the first message that the turn adds.
    pub first: u64,
    /// The position of the first one after the user's own: the boundary of the tail.
    pub boundary: u64,
    /// Up to where messages were announced by events.
    pub announced: u64,
}

/// One field of a frame.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EncodedField {
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
    pub author: &'a TurnIdentity,
    pub stored: &'a StoredFields,
    /// Pairs of (session field, state field).
    pub names: &'a [(Arc<str>, Arc<str>)],
    pub numbers: &'a mut ItemNumbering,
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

impl StoredPosition {
    pub(crate) fn to_json_document(&self) -> Result<JsonDocument, Error> {
        JsonDocument::from_serializable(self).map_err(|error| {
            stored::store_corrupt_error("a position that JSON cannot represent".into(), Some(error.into()))
        })
    }
}
