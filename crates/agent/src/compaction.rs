//! When the beginning of a long conversation is summarised, and how it is shown then (D27).

use std::ops::Range;
use std::sync::Arc;

use singletree_harness::Messages;
use singletree_llm::{ChatMessage, Provider, Role};

use crate::summary::ConversationSummary;

/// How many messages more than those that are kept there must be, unless something else is said.
const EVERY: u64 = 40;

/// Summarises the beginning of long conversations for the model: an agent that has one shows its model a
/// [`ConversationSummary`] and the last messages. Nothing is deleted, the summary stands beside the conversation and
/// names the messages that it stands for, and one that fails leaves the one before (D27). There is none unless an agent
/// is given one.
#[derive(Debug, Clone)]
pub struct Compaction {
    kept: u64,
    every: u64,
    by_itself: bool,
    command: Option<String>,
    pub(crate) provider: Option<Arc<dyn Provider>>,
}

impl Compaction {
    /// Keeps the last so many messages as they are, and before them the other messages of the same turn. Older messages
    /// are summarised at the beginning of a turn, whenever 40 of them have accumulated.
    #[must_use]
    pub fn with_kept_messages(messages: u64) -> Self {
        Self { kept: messages.max(1), every: EVERY, by_itself: true, command: None, provider: None }
    }

    /// Sets how many messages come together before they are summarised.
    #[must_use]
    pub fn summarise_every(mut self, messages: u64) -> Self {
        self.every = messages.max(1);
        self
    }

    /// Summarises when a message of the user is this text, and nothing else, as `/compact`; the answer reports the
    /// outcome.
    #[must_use]
    pub fn summarise_on_command(mut self, text: impl Into<String>) -> Self {
        self.command = Some(text.into());
        self
    }

    /// Summarises on command only.
    #[must_use]
    pub fn only_on_command(mut self, text: impl Into<String>) -> Self {
        self.by_itself = false;
        self.summarise_on_command(text)
    }

    /// Sets the model that summarises; that of the agent otherwise.
    #[must_use]
    pub fn with_provider(mut self, provider: Arc<dyn Provider>) -> Self {
        self.provider = Some(provider);
        self
    }

    /// Returns how many messages have to be in memory.
    pub(crate) fn held_message_limit(&self) -> u64 {
        self.kept.saturating_add(self.every)
    }

    /// Tells whether the turn is a command to summarise.
    pub(crate) fn is_commanded(&self, messages: &Messages) -> bool {
        let last = messages.last().filter(|message| message.role == Role::User);
        last.zip(self.command.as_ref()).is_some_and(|(message, text)| message.text().trim() == text)
    }

    /// Returns the messages that a new summary takes in, if it is time for one.
    pub(crate) fn find_due_range(
        &self,
        messages: &Messages,
        summary: Option<&ConversationSummary>,
        commanded: bool,
    ) -> Option<Range<u64>> {
        let covered = summary.map_or(0, |summary| summary.to);
        let start = messages.window_start(self.kept)?;
        let new = start.checked_sub(covered)?;
        let enough = if commanded { new > 0 } else { self.by_itself && new >= self.every };
        enough.then_some(covered..start)
    }

    /// Returns the messages that are shown after the summary: all that it does not cover. If more messages than may be
    /// held are not summarised, because summaries have failed for long or are made on command only, returns the end
    /// only, as with a window.
    pub(crate) fn unsummarised_messages(
        &self,
        messages: &Messages,
        summary: Option<&ConversationSummary>,
    ) -> impl Iterator<Item = Arc<ChatMessage>> {
        let covered = summary.map_or(0, |summary| summary.to);
        let longest = messages.window_start(self.held_message_limit()).unwrap_or_default();
        messages.iter_from(longest.max(covered))
    }
}
