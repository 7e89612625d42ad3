//! The session core: the in-memory state of a session, and the decisions about it.
//!
//! Everything here is pure: no tasks, no clock, no I/O (checked by: tidy). The fields of [`SessionState`] are private to
//! this crate; the runtime changes a state by its methods only, under the one lock of the session.
//!
//! # The commit path
//! A decision reads the state and fills a batch. The batch is handed to the journal under the same lock, so that the
//! order of decisions is the order of batches (INV-1). A change of the state that must not be visible before its commit
//! has landed is a [`LandedChange`] of the batch. Only [`SessionState::commit_landed`] makes such a change.

mod agent;
pub mod apply;
mod batch;
mod bucket;
mod budget;
mod codec;
mod early_signals;
mod error;
mod event;
mod held_bytes;
mod hint;
mod history;
mod landed;
mod limit;
mod outcome;
mod payload;
mod policy;
mod queue;
mod side;
mod state;
mod steering;
mod stopped_run;
#[cfg(test)]
mod tests;
mod turn;
mod turn_id;
mod usage;

pub use agent::{AgentVersion, WhileSuspended};
pub use apply::accept::{AcceptanceRefusal, AcceptedMessage, MessageToQueue, RetriedTurn, ReusableKey};
pub use apply::delete::DeletionRefusal;
pub use apply::forget::{RecordsInUse, RetentionBounds};
pub use apply::fork::{ForkSource, find_history_list};
pub use apply::import::ImportedSession;
pub use apply::keep_signal::{KeepRefusal, SignalToKeep};
pub use apply::steer::{
    ACCEPTED_AS, OfferedMessage, SteeredMessage, SteeredPosition, TAKEN_BY, build_taken_side,
    find_offered_places,
};
pub use batch::{BatchBuilder, ItemNumbering, RowFields, TurnIdentity};
pub use bucket::{BucketTable, Disposition, FailureBucket, HarnessSurface, correctable_categories};
pub use budget::{Budget, BudgetUsage, EffectiveBudget, effective_nesting};
pub use codec::calls::{
    ClosingAnswer, EffectIntent, Records, ToolCallLog, has_intent_record, make_closing_messages,
};
pub use codec::position::{EncodedField, HistoryMarks, StoredPosition};
pub use codec::provenance::{CommitProvenance, ProvenanceTracker, entered_outer_node};
pub use codec::record::{
    OutcomeRecord, ReplyRange, StoredOutcome, TurnRowExt, decode_message, decode_wait_descriptor,
    decode_wait_terms,
};
pub use codec::stored::{
    FieldStorage, StoredField, StoredFields, cut_history, decode_field_value, find_field, find_list_field,
    store_corrupt_error, to_engine_fields,
};
pub use codec::telemetry::{StoredTrace, TelemetryPiece, TelemetryRecord};
pub use codec::window::HistoryWindow;
pub use early_signals::{SignalMailbox, decode_payload, is_signal_expired};
pub use error::{Error, Result};
pub use event::{ChatEvent, ChatEventId, ChatEventKind, event_kinds};
pub use hint::hint_for_error;
pub use history::{HISTORY, MESSAGE_SHAPE, locate_open_calls};
pub use landed::{LandedChange, LandedEffects, WaitChange};
pub use limit::Limits;
pub use outcome::{
    AnswerEnd, ChatTurnOutcome, CompletedTurn, DispatchPath, ErroredTurn, SuspendedTurn, SuspensionTerms,
};
pub use payload::{check_against_schema, check_answerer_name, check_payload, check_payload_nesting};
pub use policy::{COMMAND, TurnPromptPolicy, UnknownPromptPolicy};
pub use queue::{
    CallerHandle, CallerIdentity, PendingAnswer, QueueDecision, QueuedTurn, QueuedWork, RunningTurn,
};
pub use side::{EMPTY_ANSWER, FINISH_REASON, SideRecords};
pub use state::SessionState;
pub use stopped_run::{KeptPart, StoppedRun, project_session_state};
pub use turn::{FieldNames, TurnState, UnknownRows, history_of_state, messages_from};
pub use turn_id::{MessageId, TurnId};
pub use usage::{ModelTokenUsage, TurnModelUsage};
