//! Running turns for the tests of transitions: a turn on a committed history, and a batch to write into.

use singletree_durable::{BatchPrecondition, RecordRow};
use singletree_graph::{
    CursorFrame, Deadline, Descriptor, FieldContent, FieldShape, FieldSpec, FramePosition, GraphCursor,
    Identity, PausedRun, PersistentList, Reducer, RunProgress, SessionState as SessionSlice, Snapshot,
    StateSchema, WaitTerms,
};
use singletree_llm::{ChatMessage, ToolCall};

use super::*;
use crate::batch::{BatchBuilder, ItemNumbering};
use crate::bucket::FailureBucket;
use crate::budget::{Budget, BudgetUsage, EffectiveBudget};
use crate::codec::calls::{EffectIntent, Records, ToolCallLog};
use crate::codec::position::HistoryMarks;
use crate::codec::provenance::ProvenanceTracker;
use crate::codec::stored::{FieldStorage, StoredField};
use crate::early_signals::SignalMailbox;
use crate::history::{HISTORY, MESSAGE_SHAPE, item_from_message};
use crate::limit::Limits;
use crate::outcome::{DispatchPath, ErroredTurn};
use crate::policy::TurnPromptPolicy;
use crate::side::SideRecords;
use crate::stopped_run::StoppedRun;
use crate::turn::{FieldNames, TurnState, UnknownRows};
use crate::usage::TurnModelUsage;

/// The time of every transition in these tests.
pub(super) const NOW: i64 = 1_000;

/// Begins a batch for the session of these tests.
pub(super) fn begin_batch() -> BatchBuilder {
    begin_batch_at(&loaded(), NOW)
}

pub(super) fn begin_batch_at(state: &SessionState<Caller>, now: i64) -> BatchBuilder {
    let key = batch([]).key;
    let limits = Limits::default();
    BatchBuilder::new(&key, FencingToken(1), state.next_numbers(), Timestamp::from_millis(now), &"e".into())
        .with_mailbox(SignalMailbox::from_state(state, &limits))
        .with_limits(&limits)
}

/// Makes a history of messages.
pub(super) fn history(messages: impl IntoIterator<Item = ChatMessage>) -> PersistentList {
    PersistentList::new(messages.into_iter().map(item_from_message))
}

/// A message of the user, and the answer of a model that calls a tool.
pub(super) fn called() -> [ChatMessage; 2] {
    let call = ToolCall::new("call", "pay", serde_json::Map::new());
    [ChatMessage::user("pay"), ChatMessage::assistant("").with_tool_calls([call])]
}

/// The records of that call: its intent and its result.
pub(super) fn paid() -> Records {
    Records::from([ToolCallLog::intent_record(1, 0), ToolCallLog::result_record(1, 0, "paid", None)])
}

pub(super) fn bounds() -> EffectiveBudget {
    EffectiveBudget::from_limits(&Limits::default(), &Budget::default())
}

/// Field names of a session that has the history alone.
pub(super) fn names() -> FieldNames {
    Arc::from([(HISTORY.into(), HISTORY.into())])
}

/// A turn that answers the message `no`, on a session whose committed history is given. The message itself is the
/// first one behind it.
pub(super) fn turn_on(no: u64, committed: &PersistentList) -> TurnState {
    let field = StoredField {
        name: HISTORY.into(),
        slot: FieldContent::Many(committed.clone()),
        kept: FieldStorage::Rows { generation: 0 },
        bytes: 0,
    };
    let first = committed.len();
    TurnState {
        row: row(no),
        head: head(1),
        policy: TurnPromptPolicy::Conversation,
        stored: vec![field],
        unread: false,
        names: names(),
        rows: Arc::new([HISTORY.to_owned()].into()),
        numbers: ItemNumbering::default(),
        marks: HistoryMarks { first, boundary: first + 1, announced: first },
        path: DispatchPath::ExistingSession,
        positioned: false,
        runs_before: 0,
        stands: false,
        unknown_rows: UnknownRows::None,
        migrated: None,
        records: Records::new(),
        bounds: bounds(),
        spent: BudgetUsage::default(),
        used: TurnModelUsage::default(),
        making: ProvenanceTracker::new(true),
        taken: Vec::new(),
        sides: SideRecords::default(),
        effects: EffectIntent::None,
        trace: None,
    }
}

/// That turn, after a tool was called that changes something, and gave its result.
pub(super) fn turn_with_effects() -> TurnState {
    let mut turn = turn_on(0, &history([]));
    (turn.records, turn.effects) = (paid(), EffectIntent::Intended);
    turn
}

fn schema() -> Arc<StateSchema> {
    let empty = FieldContent::Many(PersistentList::default());
    let field = FieldSpec::new(HISTORY, FieldShape::Record(MESSAGE_SHAPE.into()).list(), empty);
    Arc::new(StateSchema::new("test", vec![field.reducer(Reducer::Append)]).with_version("1"))
}

/// The state of a graph whose history is given.
pub(super) fn state_of(messages: &PersistentList) -> Snapshot {
    Snapshot::from_defaults_with(&schema(), vec![(0, FieldContent::Many(messages.clone()))]).unwrap()
}

/// The session's slice of that state.
pub(super) fn slice_of(messages: &PersistentList) -> SessionSlice {
    let fields = vec![(HISTORY.into(), FieldContent::Many(messages.clone()))];
    SessionSlice { schema_version: "1".into(), fields }
}

/// A run that stands behind its first node.
pub(super) fn progress_of(messages: &PersistentList) -> RunProgress {
    let frame = CursorFrame { node: "node".into(), at: FramePosition::After, attempt: 0 };
    let cursor = GraphCursor { frames: vec![frame], next_step: 1 };
    RunProgress { cursor, frames: vec![state_of(messages)], containers: Vec::new() }
}

pub(super) fn stopped_at(messages: &PersistentList) -> StoppedRun {
    StoppedRun::from_progress(&progress_of(messages), &names(), "1").unwrap()
}

/// A run that waits for `signal`.
pub(super) fn paused_on(messages: &PersistentList, deadline: Option<i64>) -> PausedRun {
    let identity = Identity {
        invocation_id: row(0).invocation,
        correlation_id: "c".into(),
        session_id: Some(batch([]).key.session),
    };
    let deadline = deadline.map(|at| Deadline::At(Timestamp::from_millis(at)));
    PausedRun {
        identity: Arc::new(identity),
        progress: progress_of(messages),
        descriptor: Descriptor { signal_id: "signal".into(), metadata: None },
        terms: WaitTerms { deadline, ..WaitTerms::default() },
        mark_node_completed: true,
        node_name: "node".into(),
        namespace: Arc::from(["node".into()]),
        completed: singletree_durable::PositionHistory::new(),
    }
}

/// The failure of a turn, whose message may be sent again.
pub(super) fn failure(category: &str) -> ErroredTurn {
    ErroredTurn {
        error_bucket: FailureBucket::RetryableTransient,
        error_category: category.into(),
        retry_safe: true,
        ..errored()
    }
}

/// Returns the texts of the messages that a batch makes part of the history, by position.
pub(super) fn written_history(writing: &BatchBuilder) -> Vec<(u64, String)> {
    let text = |body: &str| Item::from_text(body).decode_shared::<ChatMessage>().unwrap().text().into_owned();
    let bodies: Vec<_> = writing
        .batch
        .puts
        .iter()
        .filter_map(|put| match put {
            RowMutation::Item(item) => Some((item.no, item.placement.clone(), text(item.body.as_str()))),
            _ => None,
        })
        .collect();
    let mut placed: Vec<(u64, String)> = bodies
        .iter()
        .filter_map(|(_, placement, text)| Some((placement.as_ref()?.seq, text.clone())))
        .collect();
    placed.extend(writing.batch.puts.iter().filter_map(|put| match put {
        RowMutation::Place { item, placement } => {
            let (.., text) = bodies.iter().find(|(no, ..)| no == item)?;
            Some((placement.seq, text.clone()))
        }
        _ => None,
    }));
    placed.sort();
    placed
}

/// Returns the row of a turn as a batch writes it.
pub(super) fn written_turn(writing: &BatchBuilder, no: u64) -> Option<TurnRow> {
    writing.batch.puts.iter().rev().find_map(|put| match put {
        RowMutation::Turn(row) if row.no == no => Some(row.clone()),
        _ => None,
    })
}

/// Returns the wait that a batch writes.
pub(super) fn written_wait(writing: &BatchBuilder) -> Option<WaitRow> {
    writing.batch.puts.iter().rev().find_map(|put| match put {
        RowMutation::Wait(row) => Some(row.clone()),
        _ => None,
    })
}

/// Returns the records that a batch writes.
pub(super) fn written_records(writing: &BatchBuilder) -> Vec<&RecordRow> {
    let records = writing.batch.puts.iter().filter_map(|put| match put {
        RowMutation::Record(row) => Some(row),
        _ => None,
    });
    records.collect()
}

/// The precondition of every transition of the running turn: it has no outcome yet (INV-2).
pub(super) fn accepted(no: u64) -> BatchPrecondition {
    BatchPrecondition::Turn { no, status: StoredTurnStatus::Accepted }
}
