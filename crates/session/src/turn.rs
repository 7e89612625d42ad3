//! A turn while it runs: its row, the committed state of its session, and its writes so far.

use std::sync::Arc;

use singletree_durable::{
    BatchPrecondition, JsonDocument, RowMutation, SessionHead, StoredTurnStatus, TurnRow,
};
use singletree_env::TraceHeaders;
use singletree_graph::{FieldContent, PersistentList, SessionState, Snapshot};
use singletree_llm::ChatMessage;

use crate::Error;
use crate::apply::steer::SteeredMessage;
use crate::batch::{
    BatchBuilder, ItemMetadata, ItemNumbering, RowFields, TurnIdentity, write_changed_fields,
};
use crate::budget::{BudgetUsage, EffectiveBudget};
use crate::codec::calls::{EffectIntent, Records};
use crate::codec::position::HistoryMarks;
use crate::codec::provenance::ProvenanceTracker;
use crate::codec::record::{self, OutcomeRecord, ReplyRange, TurnRowExt};
use crate::codec::stored::{self, FieldStorage, StoredFields};
use crate::early_signals::SignalMailbox;
use crate::event::ChatEventKind;
use crate::history::HISTORY;
use crate::outcome::{AnswerEnd, ChatTurnOutcome, DispatchPath, ErroredTurn};
use crate::policy::TurnPromptPolicy;
use crate::side::SideRecords;
use crate::turn_id::MessageId;
use crate::usage::TurnModelUsage;

/// Pairs of (session field, state field).
pub type FieldNames = Arc<[(Arc<str>, Arc<str>)]>;

/// Whether rows of a turn may be stored that are not known to the process that runs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnknownRows {
    /// All stored rows are known.
    None,
    /// The reply to a commit was lost.
    Possible,
}

/// A turn while it runs.
#[derive(Debug, Clone)]
pub struct TurnState {
    /// The row of the turn.
    pub row: TurnRow,
    /// The head of the session as committed.
    pub head: SessionHead,
    /// Which texts reach the model.
    pub policy: TurnPromptPolicy,
    /// The session's fields as committed.
    pub stored: StoredFields,
    /// Whether they could not be read: then the turn can only end, and the fields here are not the session's.
    pub unread: bool,
    /// The names of the fields in the session and in the state.
    pub names: FieldNames,
    /// The fields that are stored as rows.
    pub rows: RowFields,
    /// The numbers of the items whose bodies are stored.
    pub numbers: ItemNumbering,
    /// The marks in the history.
    pub marks: HistoryMarks,
    /// The path on which the turn was dispatched.
    pub path: DispatchPath,
    /// Whether a position of the invocation is stored.
    pub positioned: bool,
    /// How often it may have been run before, as far as deaths tell; at least once if it may have been at all.
    pub runs_before: u32,
    /// Whether the position that is stored is this turn's own.
    pub stands: bool,
    /// Whether a position or records of the turn may be stored that are not known here.
    pub unknown_rows: UnknownRows,
    /// The session as it was migrated for this turn, when it was: then nothing of the old version may be written again.
    pub migrated: Option<SessionState>,
    /// The records of the turn that are stored (D7).
    pub records: Records,
    /// The bounds of the agent.
    pub bounds: EffectiveBudget,
    /// The turn's use of its budgets, as it is stored with its position.
    pub spent: BudgetUsage,
    /// The turn's model usage.
    pub used: TurnModelUsage,
    /// The provenance of the next commit, as far as it is known.
    pub making: ProvenanceTracker,
    /// The messages that the turn has taken, and whose turns end with it.
    pub taken: Vec<SteeredMessage>,
    /// The side records that its nodes set for the messages that they make.
    pub sides: SideRecords,
    /// Whether its invocation recorded the intent of a call that changes something (D29).
    pub effects: EffectIntent,
    /// The trace in which its invocation was called.
    pub trace: Option<Arc<TraceHeaders>>,
}

impl TurnState {
    pub(crate) fn turn_identity(&self) -> TurnIdentity {
        TurnIdentity { no: self.row.no, id: self.row.turn_id() }
    }

    /// Returns the position of the user's message in the history, when the turn has one.
    fn own_message_position(&self) -> Option<u64> {
        self.row.message.and(self.marks.boundary.checked_sub(1))
    }

    /// Writes and announces the messages that were not announced yet.
    pub(crate) fn announce_messages(
        &mut self,
        writing: &mut BatchBuilder,
        messages: &PersistentList,
    ) -> Result<(), Error> {
        self.take_offered_messages(writing, messages);
        let author = self.turn_identity();
        let own = self.own_message_position();
        for (position, item) in (self.marks.announced..).zip(messages.iter_from(self.marks.announced)) {
            if Some(position) == own {
                continue;
            }
            let side = self.sides.side_record_at(position);
            let beside = ItemMetadata { placement: None, side: side.as_ref().map(JsonDocument::from) };
            beside.side.as_ref().map_or(Ok(()), |side| self.bounds.check_side_record(side.as_str()))?;
            let (no, side) = match self.numbers.find_number(item) {
                // Its body was written before it had a side record; that a steering message was taken is told now.
                Some(no) => (no, self.write_taken_side(writing, (no, position), side)),
                None => (writing.write_new_item(&author, item, beside, &mut self.numbers)?, side),
            };
            let id = MessageId { turn: author.id.clone(), k: position.saturating_sub(self.marks.first) };
            let body = self.making.encode_message_event(id.k);
            let what = ChatEventKind::MessageAppended { id, message: record::decode_message(item)?, side };
            writing.add_event(&author, Some(no), Some(body), what);
        }
        self.marks.announced = self.marks.announced.max(messages.len());
        Ok(())
    }

    /// Writes the changed fields of the session, and raises its version.
    ///
    /// # Errors
    /// `chat_budget_exhausted` when the history would be longer than it may be (D13). Transitions that end a turn early
    /// do not check that: they close calls in any case.
    pub fn write_session(&mut self, writing: &mut BatchBuilder, session: &SessionState) -> Result<(), Error> {
        self.migrated = None;
        self.head.schema_version.clone_from(&session.schema_version);
        self.write_state_fields(writing, &session.fields)?;
        let history = stored::find_field(&self.stored, HISTORY);
        history.map_or(Ok(()), |history| {
            self.bounds
                .check_history_size(history.slot.as_list().map_or(0, PersistentList::len), history.bytes)
        })
    }

    /// Writes the history alone (D10, D11): the other fields stay as they are stored.
    pub(crate) fn write_history(
        &mut self,
        writing: &mut BatchBuilder,
        messages: &PersistentList,
    ) -> Result<(), Error> {
        let mut fields = match &self.migrated {
            Some(migrated) => {
                self.head.schema_version.clone_from(&migrated.schema_version);
                migrated.fields.clone()
            }
            None => stored::to_engine_fields(&self.stored),
        };
        match fields.iter_mut().find(|(name, _)| name.as_ref() == HISTORY) {
            Some((_, slot)) => *slot = FieldContent::Many(messages.clone()),
            None => fields.push((HISTORY.into(), FieldContent::Many(messages.clone()))),
        }
        self.write_state_fields(writing, &fields)
    }

    pub(crate) fn write_state_fields(
        &mut self,
        writing: &mut BatchBuilder,
        fields: &[(Arc<str>, FieldContent)],
    ) -> Result<(), Error> {
        let author = self.turn_identity();
        let how = (&self.rows.clone(), &mut self.numbers, &self.bounds);
        self.stored = write_changed_fields(writing, &author, fields, (&self.stored, self.head.version), how)?;
        // These fields were made from this version; on another version they would undo later changes (INV-3).
        writing.require(BatchPrecondition::SessionVersion(self.head.version));
        self.head.version += 1;
        self.head.updated_at = writing.now;
        self.head.agent.clone_from(&self.row.agent);
        self.head.graph.clone_from(&self.row.graph);
        writing.add_mutation(RowMutation::Head(self.head.clone()));
        let fields = (!self.unread).then(|| self.stored.clone());
        writing.landed.session = Some((self.head.clone(), fields));
        Ok(())
    }

    /// Writes the end of the turn: its row, its event, and that nothing unfinished is left of it.
    pub(crate) fn write_turn_end(
        &mut self,
        writing: &mut BatchBuilder,
        recorded: &OutcomeRecord,
        outcome: Arc<ChatTurnOutcome>,
    ) -> Result<(), Error> {
        let errored = match outcome.as_ref() {
            ChatTurnOutcome::Errored(errored) => Some(errored),
            ChatTurnOutcome::Completed(_) | ChatTurnOutcome::Suspended(_) => None,
        };
        self.end_taken_turns(writing, errored)?;
        self.row.status = record::status_of_outcome(&outcome);
        self.row.ended_at = Some(writing.now);
        self.row.outcome = Some(recorded.to_json_with_usage(&self.used)?);
        self.used.to_usage_rows().for_each(|row| writing.add_mutation(RowMutation::Usage(row)));
        writing.add_mutation(RowMutation::Turn(self.row.clone()));
        if self.row.status != StoredTurnStatus::Suspended {
            SignalMailbox::clear_if_work_ended(writing, &self.row);
        }
        if (self.positioned || self.unknown_rows == UnknownRows::Possible)
            && self.row.status != StoredTurnStatus::Suspended
        {
            writing.add_mutation(RowMutation::DropPosition(self.row.invocation.clone()));
        }
        if !self.records.is_empty() || self.unknown_rows == UnknownRows::Possible {
            writing.add_mutation(RowMutation::DropRecords { turn: self.row.no });
        }
        let at = self.making.encode_turn_end_event();
        let (what, at) = match *outcome {
            ChatTurnOutcome::Completed(_) => (ChatEventKind::TurnCompleted { outcome }, None),
            ChatTurnOutcome::Suspended(_) => (ChatEventKind::TurnSuspended { outcome }, at),
            ChatTurnOutcome::Errored(_) => (ChatEventKind::TurnErrored { outcome }, at),
        };
        writing.add_event(&self.turn_identity(), None, at, what);
        Ok(())
    }

    /// Returns the generation of the rows in which a list of the state is kept, if it is.
    pub fn list_generation(&self, state_field: &str) -> Option<u64> {
        let (session, _) = self.names.iter().find(|(_, state)| state.as_ref() == state_field)?;
        match stored::find_field(&self.stored, session)?.kept {
            FieldStorage::Rows { generation } => Some(generation),
            FieldStorage::Value => None,
        }
    }

    /// Names the messages that the turn added after the user's own, as they are stored.
    pub(crate) fn reply_range(&self, len: u64) -> ReplyRange {
        let generation = match stored::find_field(&self.stored, HISTORY).map(|it| it.kept) {
            Some(FieldStorage::Rows { generation }) => generation,
            Some(FieldStorage::Value) | None => 0,
        };
        let existing = self.path == DispatchPath::ExistingSession;
        ReplyRange {
            generation,
            from: self.marks.boundary.min(len),
            to: len,
            existing,
            answer: AnswerEnd::default(),
        }
    }

    /// Returns the stored form of the outcome of a failed turn.
    pub(crate) fn failure_record(&self, errored: &ErroredTurn) -> OutcomeRecord {
        let place = (!self.unread).then(|| self.committed_history().len());
        OutcomeRecord::from_errored_turn(errored).with_effects_and_place(self.effects.is_intended(), place)
    }

    /// Returns the bytes of the committed history.
    pub fn history_bytes(&self) -> u64 {
        stored::find_field(&self.stored, HISTORY).map_or(0, |it| it.bytes)
    }

    /// Returns the committed history.
    pub fn committed_history(&self) -> PersistentList {
        stored::find_list_field(&self.stored, HISTORY).cloned().unwrap_or_default()
    }
}

/// Returns the history of a state.
pub fn history_of_state(state: &Snapshot) -> PersistentList {
    state.get(HISTORY).and_then(FieldContent::as_list).cloned().unwrap_or_default()
}

/// Returns the messages from a position on.
pub fn messages_from(list: &PersistentList, position: u64) -> Result<Vec<Arc<ChatMessage>>, Error> {
    list.iter_from(position).map(record::decode_message).collect()
}
