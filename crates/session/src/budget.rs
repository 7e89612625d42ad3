//! Budgets of turns and sessions, and the counting against them (D13).

use std::time::Duration;

use serde::{Deserialize, Serialize};
use singletree_durable::{JsonDocument, WaitRow};

use crate::history::HISTORY;
use crate::limit::Limits;
use crate::{Error, Result};

/// Budgets of the turns and sessions of one agent (D13). A budget that is `None` is bounded by the chat's [`Limits`]
/// alone. A budget cannot exceed the chat's limit: the smaller of the two applies.
///
/// A *turn* is one run in answer to one message or one signal; each turn starts counting at zero. A turn whose process
/// died continues from the counts of its last commit: at level `step` nothing is counted twice or lost; at level `turn`
/// counting starts again, as often as [`Limits::deaths`] allows. Exceeding a budget ends the turn:
/// `chat_budget_exhausted`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Budget {
    /// Node executions of a turn.
    pub steps: Option<u64>,
    /// Tool calls of a turn, as its nodes count them (`TurnBudget::count_tool_calls`).
    pub tool_calls: Option<u64>,
    /// Tokens of a turn, as its nodes count them (`TurnBudget::count_tokens`) from the usage that providers report.
    pub tokens: Option<u64>,
    /// How long a turn may run.
    pub turn_time: Option<Duration>,
    /// Messages of a session's history.
    pub messages: Option<u64>,
    /// Bytes of a session's history, as JSON.
    pub history_bytes: Option<u64>,
}

/// The bounds that hold for an agent: the smaller of its own and the chat's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EffectiveBudget {
    /// Node executions of a turn.
    pub steps: u64,
    /// Tool calls of a turn.
    pub tool_calls: u64,
    /// Tokens of a turn.
    pub tokens: u64,
    /// How long a turn may run.
    pub turn_time: Duration,
    messages: u64,
    history_bytes: u64,
    position_bytes: u64,
    record_bytes: u64,
    wait_bytes: u64,
    field_bytes: u64,
    item_bytes: u64,
    nesting: usize,
    list_items: u64,
    list_bytes: u64,
}

/// How many levels documents that contain other documents add to them.
const ENVELOPE: usize = 16;

/// The highest effective bound on nesting levels: a deeper document could not be read back.
const NESTING_MAX: usize = 100;

/// Returns the bound on levels that holds.
pub fn effective_nesting(limits: &Limits) -> usize {
    limits.nesting.min(NESTING_MAX)
}

/// Checks how deep a document is.
///
/// # Errors
/// `chat_budget_exhausted`.
pub(crate) fn check_nesting_levels(text: &str, max: usize) -> Result<()> {
    check_budget("nesting", JsonDocument::nesting_depth(text) as u64, max as u64)
}

impl EffectiveBudget {
    /// Computes the bounds of an agent from the limits of the chat and its own budget.
    pub fn from_limits(limits: &Limits, budget: &Budget) -> Self {
        let smaller = |own: Option<u64>, outer: u64| own.unwrap_or(outer).min(outer);
        Self {
            steps: smaller(budget.steps, limits.steps),
            tool_calls: smaller(budget.tool_calls, limits.tool_calls),
            tokens: smaller(budget.tokens, limits.tokens),
            turn_time: budget.turn_time.unwrap_or(limits.turn_time).min(limits.turn_time),
            messages: smaller(budget.messages, limits.messages),
            history_bytes: smaller(budget.history_bytes, limits.history_bytes),
            position_bytes: limits.position_bytes as u64,
            record_bytes: limits.record_bytes as u64,
            wait_bytes: limits.wait_bytes as u64,
            field_bytes: limits.field_bytes as u64,
            item_bytes: limits.item_bytes as u64,
            nesting: effective_nesting(limits),
            list_items: limits.list_items,
            list_bytes: limits.list_bytes,
        }
    }

    /// Checks the resulting size of a history.
    ///
    /// # Errors
    /// `chat_budget_exhausted`.
    pub fn check_history_size(&self, messages: u64, bytes: u64) -> Result<()> {
        check_budget("messages", messages, self.messages)?;
        check_budget("history_bytes", bytes, self.history_bytes)
    }
}

impl EffectiveBudget {
    /// Checks the size and nesting of a turn's position before it is stored.
    pub(crate) fn check_position(&self, text: &str) -> Result<()> {
        check_budget("position_bytes", text.len() as u64, self.position_bytes)?;
        check_nesting_levels(text, self.nesting + ENVELOPE)
    }

    /// Checks a record of a node; `held` is the number of bytes that the node has recorded already.
    pub fn check_record(&self, text: &str, held: usize) -> Result<()> {
        check_budget("record_bytes", (held + text.len()) as u64, self.record_bytes)?;
        check_nesting_levels(text, self.nesting + ENVELOPE)
    }

    /// Checks a field that is one value.
    pub(crate) fn check_field(&self, text: &str) -> Result<()> {
        check_budget("field_bytes", text.len() as u64, self.field_bytes)?;
        check_nesting_levels(text, self.nesting)
    }

    /// Checks an item of a list of rows.
    pub(crate) fn check_item(&self, text: &str) -> Result<()> {
        check_budget("item_bytes", text.len() as u64, self.item_bytes)?;
        check_nesting_levels(text, self.nesting)
    }

    /// Checks the resulting size of a list of rows other than the history.
    pub(crate) fn check_list_size(&self, name: &str, items: u64, bytes: u64) -> Result<()> {
        if name == HISTORY {
            return Ok(());
        }
        check_budget("list_items", items, self.list_items)?;
        check_budget("list_bytes", bytes, self.list_bytes)
    }

    /// Checks the nesting of a side record of a message.
    pub(crate) fn check_side_record(&self, text: &str) -> Result<()> {
        check_nesting_levels(text, self.nesting)
    }

    /// Checks the size and nesting of a wait before it is stored.
    pub(crate) fn check_wait(&self, wait: &WaitRow) -> Result<()> {
        let documents = [&wait.metadata, &wait.payload_schema, &wait.on_deadline];
        let texts = || documents.into_iter().flatten().map(JsonDocument::as_str);
        let names = wait.signal.len() + wait.action.as_ref().map_or(0, String::len);
        let bytes = names + texts().map(str::len).sum::<usize>();
        check_budget("wait_bytes", bytes as u64, self.wait_bytes)?;
        texts().try_for_each(|text| check_nesting_levels(text, self.nesting))
    }
}

pub(crate) fn check_budget(budget: &'static str, reached: u64, max: u64) -> Result<()> {
    if reached <= max { Ok(()) } else { Err(Error::Budget { budget, max, reached }) }
}

/// The usage of a turn, as stored with its position.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BudgetUsage {
    /// Node executions.
    #[serde(skip_serializing_if = "is_none")]
    pub steps: u64,
    /// Tool calls.
    #[serde(skip_serializing_if = "is_none")]
    pub tool_calls: u64,
    /// Tokens.
    #[serde(skip_serializing_if = "is_none")]
    pub tokens: u64,
    /// The time that the turn has run, in milliseconds.
    #[serde(skip_serializing_if = "is_none")]
    pub millis: u64,
}

/// Tells whether nothing of a kind was used: then it is not written.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_none(used: &u64) -> bool {
    *used == 0
}

impl BudgetUsage {
    pub(crate) fn is_zero(&self) -> bool {
        *self == Self::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // D13
    #[test]
    fn of_two_bounds_the_smaller_one_counts() {
        let limits = Limits { steps: 5, tokens: 7, ..Limits::default() };
        let bounds = EffectiveBudget::from_limits(
            &limits,
            &Budget { steps: Some(9), tokens: Some(3), ..Budget::default() },
        );
        assert_eq!((bounds.steps, bounds.tokens, bounds.tool_calls), (5, 3, limits.tool_calls));
    }
}
