//! The memory that a session holds (INV-12).
//!
//! The count is a cheap estimate: twice the length of the JSON text of all held items, because an item that was
//! accessed also holds its decoded form, plus a constant for each item.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use singletree_durable::{FieldRow, FieldValue, PausedInvocation};
use singletree_graph::FieldContent;

use crate::codec::stored::StoredField;

/// The overhead of an item beside its text, in bytes.
const ITEM: u64 = 160;

/// The bytes that one session holds, as part of the sum over all.
#[derive(Debug, Default)]
pub(crate) struct HeldBytes {
    own: u64,
    all: Arc<AtomicU64>,
}

impl HeldBytes {
    pub(crate) fn with_total(all: &Arc<AtomicU64>) -> Self {
        Self { own: 0, all: all.clone() }
    }

    pub(crate) fn update_bytes(&mut self, bytes: u64) {
        self.all.fetch_add(bytes, Ordering::Relaxed);
        self.all.fetch_sub(std::mem::replace(&mut self.own, bytes), Ordering::Relaxed);
    }

    pub(crate) fn own_bytes(&self) -> u64 {
        self.own
    }
}

impl Drop for HeldBytes {
    fn drop(&mut self) {
        self.update_bytes(0);
    }
}

fn estimate_bytes(text: u64, items: u64) -> u64 {
    text.saturating_mul(2).saturating_add(items.saturating_mul(ITEM))
}

/// Counts the bytes that fields hold. Of a list without its first items, only the held part counts.
pub(crate) fn count_field_bytes(fields: &[StoredField]) -> u64 {
    let bytes = |field: &StoredField| match &field.slot {
        FieldContent::One(_) => estimate_bytes(field.bytes, 1),
        FieldContent::Many(list) => {
            let (len, missing) = (list.len(), list.first_held_position());
            let here = len.saturating_sub(missing);
            let part = u128::from(field.bytes) * u128::from(here) / u128::from(len.max(1));
            estimate_bytes(u64::try_from(part).unwrap_or(u64::MAX), here)
        }
    };
    fields.iter().map(bytes).sum()
}

/// Counts the values of rows that were read ahead.
pub(crate) fn count_row_bytes(rows: &[FieldRow]) -> u64 {
    let bytes = |row: &FieldRow| match &row.value {
        FieldValue::Value(json) => json.as_str().len() as u64,
        FieldValue::List { .. } => 0,
    };
    rows.iter().map(bytes).sum()
}

/// Counts the bytes of the position and records that were read of a suspended turn.
pub(crate) fn count_paused_bytes(paused: &PausedInvocation) -> u64 {
    let records: usize = paused.records.iter().map(|record| record.body.as_str().len()).sum();
    (paused.position.body.as_str().len() + records) as u64
}
