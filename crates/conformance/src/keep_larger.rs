//! A reducer that is none of the canonical ones, as an application would write it (graph-engine §2).

use singletree::engine::{CustomReducer, FieldContent, ReducerFault};

/// The name of the reducer in fixtures.
pub(crate) const NAME: &str = "dev.singletree.keep_larger";

/// Keeps the larger of two whole numbers; refuses everything else.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KeepLarger;

impl CustomReducer for KeepLarger {
    fn name(&self) -> &str {
        NAME
    }

    fn reduce_update(
        &self,
        prior: &FieldContent,
        update: FieldContent,
    ) -> Result<FieldContent, ReducerFault> {
        let (before, after) = (slot_to_number(prior)?, slot_to_number(&update)?);
        Ok(if after > before { update } else { prior.clone() })
    }

    fn is_round_trip_idempotent(&self) -> Option<bool> {
        Some(true)
    }
}

fn slot_to_number(slot: &FieldContent) -> Result<i64, ReducerFault> {
    let value = slot.to_json()?;
    value.as_i64().ok_or_else(|| ReducerFault::new(format!("{value} is no whole number")))
}
