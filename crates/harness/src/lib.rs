//! Durable chat turns, from message to outcome, across crashes.
//!
//! [`Chat`] is the chat harness: `send(session, message)` gives an outcome, completed, suspended or errored. A message
//! is accepted durably before it runs; every accepted turn reaches exactly one outcome; turns of one session run one at
//! a time. It implements the harness and harness-chat specifications.
//!
//! [`Harness`] is the abstract harness, for other runtimes than a chat: any graph, with sessions or without.
//!
//! # Vocabulary
//! A *turn* is one bounded execution in answer to one message or one signal. An *invocation* is the chain of turns that
//! one message started: its turn and every turn that resumes it. A *wait* is the record of a suspension; a *signal* is
//! the answer to it. An *event* is an entry of a session's durable log.
//!
//! # Inside
//! All decisions about sessions are made in the crate `session`, which is pure: the session state, and transitions that
//! fill one batch each. The folders of this crate are floors, from the lowest to the highest; a module imports from its
//! own floor and from lower ones (checked by: tidy):
//! - `agents/`: the agents that a chat serves, and who may begin turns;
//! - `runtime/`: the sessions in memory, `commit` (the only path from a decision to the store and to listeners), the
//!   background tasks, and the publication of committed changes;
//! - `turn/`: one running turn, with `journal_port`, which implements the engine's port;
//! - `dispatch/`: `runner` runs the turns of a session in order, `adopt` takes over the unfinished turns of a dead
//!   process, `waits` ends waits;
//! - `upkeep/`: retention, blobs, and `doctor`, which checks whether stored data keeps the invariants;
//! - `base/`: the abstract harness;
//! - `api/`: the calls of applications.
//!
//! # Invariants
//! INV-1 to INV-9, INV-12 (see ARCHITECTURE.md).

mod error;

mod agents;
mod api;
mod base;
mod dispatch;
mod runtime;
mod turn;
mod upkeep;

pub use agents::admission::{Admission, QuotaExceeded, TurnPermit};
pub use agents::agent::{Durability, GraphAgent, IntoAgent, OnDisconnect, ResumedReply};
pub use agents::history::Messages;
pub use agents::reply::{ErrorReplies, Redact};
pub use api::answer::{Answer, SignalAddress};
pub use api::branch::MessageAddress;
pub use api::chat::{Chat, ChatBuilder};
pub use api::chat_session::{Session, SessionEvents, SessionName, SessionWait};
pub use api::create::CreateOptions;
pub use api::erase::ErasureScope;
pub use api::failed_turns::FailedTurnEntry;
pub use api::fork::ForkOptions;
pub use api::loaded::LoadedSessions;
pub use api::mail::{EarlySignal, SignalDelivery};
pub use api::resumed::CatchUpOutcome;
pub use api::send_options::SendOptions;
pub use api::sessions::{
    ExportedListItem, ExportedSession, HistoryEntry, SessionForkPoint, SessionInfo, SessionListing,
};
pub use api::stateless::{StatelessRequest, StatelessRun};
pub use api::subscribe::OutcomeSubscription;
pub use api::timeline::{
    CallSpan, InvocationPosition, KeptEvents, NodeProvenance, OpenCall, OpenCallState, SpanStatus, Timeline,
    TimelineEntry, TimelineEntryKind, TurnCause, TurnError, TurnSpan, WaitSpan,
};
pub use api::transcript::{Transcript, TranscriptEntry};
pub use api::turn::Turn;
pub use api::turn_trace::TurnTrace;
pub use api::turns::{TurnInfo, TurnPage};
pub use base::{
    EngineInvocation, Harness, HarnessBuilder, HarnessMode, HarnessOutcome, InboundIntent, InboundRequest,
    MemoryCoordinator, SignalArrival, SignalCoordinator, SignalTarget, TurnFailure, TurnReport,
};
pub use error::{Error, Result};
pub use runtime::blobs::{BlobLimits, BlobReference, Blobs};
pub use runtime::call_status::CallStatus;
pub use runtime::deed::AuditRecord;
pub use runtime::narrate::narrate_arguments;
pub use runtime::narrator::Narrator;
pub use runtime::notice::{Notice, NoticeKind, NoticeType, PendingWaitSummary};
pub use runtime::noticing::{NoticeDelivery, NoticeReceiver, NoticeSettings};
pub use runtime::pending_wait::PendingWait;
pub use runtime::retention::{Retention, RetentionReport};
pub use runtime::tenant_events::{LiveTenantEvent, LiveTenantEventKind, TenantEventId, TenantEvents};
pub use runtime::unsent_turns::{UnsentTurn, UnsentTurns};
pub use runtime::watcher::{ChatWorkload, TurnEndReport, TurnWatcher};
pub use singletree_session::{
    AnswerEnd, BucketTable, Budget, COMMAND, ChatEvent, ChatEventId, ChatEventKind, ChatTurnOutcome,
    CompletedTurn, DispatchPath, Disposition, EMPTY_ANSWER, Error as SessionError, ErroredTurn,
    FINISH_REASON, FailureBucket, HISTORY, HarnessSurface, Limits, MESSAGE_SHAPE, MessageId, ModelTokenUsage,
    SideRecords, SuspendedTurn, SuspensionTerms, ToolCallLog, TurnId, TurnPromptPolicy, UnknownPromptPolicy,
    WhileSuspended, hint_for_error,
};
pub use turn::activity_events::{TurnActivity, TurnActivityState};
pub use turn::budget::TurnBudget;
pub use turn::pictures::TurnPictures;
pub use turn::steering_inbox::SteeringInbox;
pub use turn::stream::{MessageStream, TurnStream};
pub use turn::turn_context::TurnContext;
pub use upkeep::doctor::{DoctorFinding, Examination, FindingKind, RepairReport, StoreDoctor};
