//! Where a run stood when it was stopped, and how that is kept when the turn had effects (D29).

use serde_json::{Value, json};
use singletree_durable::{ItemRange, JsonDocument, RowMutation};
use singletree_graph::{FieldContent, Fields, GraphCursor, PersistentList, RunProgress, SessionState};

use crate::Error;
use crate::batch::BatchBuilder;
use crate::codec::provenance::CommitProvenance;
use crate::codec::record::TurnRowExt;
use crate::codec::stored::{self, FieldStorage};
use crate::history::HISTORY;
use crate::outcome::ErroredTurn;
use crate::turn::{FieldNames, TurnState, history_of_state};

/// The name under which the side record of a message says that its turn ended early after it, and why.
pub(crate) const STOPPED: &str = "stopped";

/// How much of a stopped run is kept: the most that fits the limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeptPart {
    /// All fields of the session.
    Session,
    /// The history alone.
    History,
    /// Only the part that had been committed before.
    Nothing,
}

impl KeptPart {
    /// All parts, the largest first.
    pub const MOST_FIRST: [Self; 3] = [Self::Session, Self::History, Self::Nothing];
}

/// A run as of its last committed step.
#[derive(Debug, Clone)]
pub struct StoppedRun {
    /// The session's fields; none where the graph of this process does not have them.
    pub session: Option<SessionState>,
    /// The history.
    pub history: PersistentList,
    /// The text that was shown of a message that is no part of the history.
    pub shown: Option<String>,
    /// Where it stood, as far as that is known.
    pub made: Option<CommitProvenance>,
    /// The number and the side record of the history's last message, where that is stored.
    pub last: Option<(u64, Value)>,
}

impl StoppedRun {
    /// Describes a run of this process.
    pub fn from_progress(progress: &RunProgress, names: &FieldNames, version: &str) -> Option<Self> {
        let state = progress.frames.first()?;
        let fields: Fields = state.iter_fields().map(|(name, slot)| (name.into(), slot.clone())).collect();
        Some(Self {
            session: project_session_state(&fields, names, version),
            history: history_of_state(state),
            shown: None,
            made: CommitProvenance::from_cursor(&progress.cursor),
            last: None,
        })
    }

    /// Describes a run by its stored position: the fields of its outermost state.
    pub fn from_fields(fields: &Fields, cursor: &GraphCursor, session: Option<SessionState>) -> Option<Self> {
        let (_, slot) = fields.iter().find(|(name, _)| name.as_ref() == HISTORY)?;
        let history = slot.as_list()?.clone();
        Some(Self { session, history, shown: None, made: CommitProvenance::from_cursor(cursor), last: None })
    }
}

/// Returns the session's slice of a state; none where a field is missing.
pub fn project_session_state(fields: &Fields, names: &FieldNames, version: &str) -> Option<SessionState> {
    let slot = |state: &str| fields.iter().find(|(name, _)| name.as_ref() == state).map(|(_, slot)| slot);
    let slice = names.iter().map(|(session, state)| Some((session.clone(), slot(state)?.clone())));
    Some(SessionState { schema_version: version.to_owned(), fields: slice.collect::<Option<_>>()? })
}

impl TurnState {
    /// Says where the last message of a history is stored, if it is.
    pub fn locate_last_message(&self, history: &PersistentList) -> Option<ItemRange> {
        let last = history.len().checked_sub(1)?;
        if let Some(no) = history.get(last).and_then(|item| self.numbers.find_number(item)) {
            return Some(ItemRange::Numbers { from: no, to: no + 1 });
        }
        let committed = stored::find_field(&self.stored, HISTORY)?;
        match committed.kept {
            FieldStorage::Rows { generation }
                if last < committed.slot.as_list().map_or(0, PersistentList::len) =>
            {
                Some(ItemRange::List { field: HISTORY.to_owned(), generation, from: last, limit: 1 })
            }
            FieldStorage::Rows { .. } | FieldStorage::Value => None,
        }
    }

    /// Writes the run of a stopped turn: its messages, closed calls included, its other fields as far as `part` keeps
    /// them, and, beside the last message, where the run stopped (D29).
    pub(crate) fn write_stopped_run(
        &mut self,
        writing: &mut BatchBuilder,
        stopped: &StoppedRun,
        history: &PersistentList,
        (part, errored): (KeptPart, &ErroredTurn),
    ) -> Result<(), Error> {
        self.mark_stopped_message(writing, stopped, history, errored);
        self.announce_messages(writing, history)?;
        self.write_stopped_state(writing, stopped, (history, part))
    }

    /// Says beside the last message of a history that the turn ended after it.
    pub(crate) fn mark_stopped_message(
        &self,
        writing: &mut BatchBuilder,
        stopped: &StoppedRun,
        history: &PersistentList,
        errored: &ErroredTurn,
    ) {
        let Some(last) = history.len().checked_sub(1) else { return };
        let turn = self.row.turn_id().to_string();
        let mut marker = json!({ "turn": turn, "category": errored.error_category });
        if let Some(made) = &stopped.made {
            marker["node"] = made.node_path().into();
        }
        self.sides.set_side_value(last, STOPPED, marker);
        let is_stored = stopped.history.len() == history.len();
        if let Some((item, stored_side)) = stopped.last.as_ref().filter(|_| is_stored) {
            // Its body was written before: only its side record changes.
            let mut side = stored_side.clone();
            if let (Some(all), Some(Value::Object(noted))) =
                (side.as_object_mut(), self.sides.side_record_at(last))
            {
                all.extend(noted);
            }
            writing.add_mutation(RowMutation::Side { item: *item, side: JsonDocument::from(&side) });
        }
    }

    /// Writes the session as a stopped run had it, as far as `part` keeps it. The length of the history is not checked:
    /// limits must not keep a turn from ending early.
    pub(crate) fn write_stopped_state(
        &mut self,
        writing: &mut BatchBuilder,
        stopped: &StoppedRun,
        (messages, part): (&PersistentList, KeptPart),
    ) -> Result<(), Error> {
        let Some(session) = stopped.session.as_ref().filter(|_| part == KeptPart::Session) else {
            return self.write_history(writing, messages);
        };
        self.migrated = None;
        self.head.schema_version.clone_from(&session.schema_version);
        let mut fields = session.fields.clone();
        if let Some((_, slot)) = fields.iter_mut().find(|(name, _)| name.as_ref() == HISTORY) {
            *slot = FieldContent::Many(messages.clone());
        }
        self.write_state_fields(writing, &fields)
    }
}
