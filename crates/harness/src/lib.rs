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
//! All decisions about sessions are made in `session/`, which is pure: the session state, and transitions (`apply/`) that
//! fill one batch each. `commit` is the only path from a decision to the store and to listeners. `runner` runs the
//! turns of a session in order, `journal_port` implements the engine's port, `adopt` takes over the unfinished turns of a
//! dead process. `doctor` checks whether stored data keeps the invariants.
//!
//! # Invariants
//! INV-1 to INV-9, INV-12 (see ARCHITECTURE.md).

mod bucket;
mod budget;
mod calls;
mod erase;
mod error;
mod event;
mod hint;
mod history;
mod idempotency;
mod limit;
mod mail;
mod outcome;
mod payload;
mod policy;
mod reply;
mod turn_id;

mod activity;
mod admission;
mod agent;
mod answer;
mod blobs;
mod branch;
mod chat;
mod chat_session;
mod commit;
mod create;
mod deed;
mod delete;
mod failed_turns;
mod fork;
mod listen;
mod loaded;
mod notice;
mod noticing;
mod resumed;
mod retention;
mod retry;
mod send_options;
mod session;
mod sessions;
mod side;
mod stateless;
mod steer;
mod stream;
mod submit;
mod subscribe;
mod tenant_events;
mod timeline;
mod transcript;
mod turn;
mod turn_context;
mod turns;
mod usage;

mod adopt;
mod chat_inner;
mod chronicle;
mod feed;
mod forget;
mod journal_port;
mod loaded_session;
mod made;
mod narrate;
mod narrator;
mod position;
mod prepare;
mod readers;
mod record;
mod replay;
mod runner;
mod stopped_run;
mod stored;
mod tasks;
mod tool_message;
mod unrun;
mod waits;
mod watcher;
mod window;

mod base;
mod doctor;

pub use activity::{TurnActivity, TurnActivityState};
pub use admission::{Admission, QuotaExceeded, TurnPermit};
pub use agent::{Agent, Durability, OnDisconnect, WhileSuspended};
pub use answer::{Answer, PendingWait, SignalAddress};
pub use base::{
    BuildState, EngineInvocation, Harness, HarnessBuilder, HarnessMode, HarnessOutcome, InboundIntent,
    InboundRequest, MemoryCoordinator, ResolveSession, SignalArrival, SignalCoordinator, SignalTarget,
    TurnFailure, TurnReport,
};
pub use blobs::{BlobLimits, BlobReference, Blobs, TurnPictures};
pub use branch::MessageAddress;
pub use bucket::{BucketTable, Disposition, FailureBucket, HarnessSurface};
pub use budget::{Budget, TurnBudget};
pub use calls::ToolCallLog;
pub use chat::{Chat, ChatBuilder};
pub use chat_session::{Session, SessionEvents, SessionWait};
pub use create::CreateOptions;
pub use deed::AuditRecord;
pub use doctor::{DoctorFinding, Examination, FindingKind, RepairReport, StoreDoctor};
pub use erase::ErasureScope;
pub use error::{Error, Result};
pub use event::{ChatEvent, ChatEventId, ChatEventKind};
pub use failed_turns::FailedTurnEntry;
pub use fork::ForkOptions;
pub use hint::hint_for_error;
pub use history::{HISTORY, MESSAGE_SHAPE, Messages};
pub use limit::Limits;
pub use loaded::LoadedSessions;
pub use mail::{EarlySignal, SignalDelivery};
pub use narrator::Narrator;
pub use notice::{Notice, NoticeKind, NoticeType, PendingWaitSummary};
pub use noticing::{NoticeDelivery, NoticeReceiver, NoticeSettings};
pub use outcome::{
    AnswerEnd, ChatTurnOutcome, CompletedTurn, DispatchPath, ErroredTurn, SuspendedTurn, SuspensionTerms,
};
pub use policy::{COMMAND, TurnPromptPolicy, UnknownPromptPolicy};
pub use reply::{ErrorReplies, Redact};
pub use resumed::{CatchUpOutcome, ResumedReply};
pub use retention::{Retention, RetentionReport};
pub use send_options::SendOptions;
pub use sessions::{
    ExportedListItem, ExportedSession, HistoryEntry, SessionForkPoint, SessionInfo, SessionListing,
};
pub use side::{EMPTY_ANSWER, FINISH_REASON, SideRecords};
pub use stateless::{StatelessRequest, StatelessRun};
pub use steer::SteeringInbox;
pub use stream::{MessageStream, TurnStream};
pub use subscribe::OutcomeSubscription;
pub use tenant_events::{LiveTenantEvent, LiveTenantEventKind, TenantEventId, TenantEvents};
pub use timeline::{
    CallSpan, CallStatus, InvocationPosition, KeptEvents, NodeProvenance, OpenCall, OpenCallState,
    SpanStatus, Timeline, TimelineEntry, TimelineEntryKind, TurnCause, TurnError, TurnSpan, WaitSpan,
};
pub use transcript::{Transcript, TranscriptEntry};
pub use turn::Turn;
pub use turn_context::TurnContext;
pub use turn_id::{MessageId, TurnId};
pub use turns::{TurnInfo, TurnPage};
pub use usage::ModelTokenUsage;
pub use watcher::{ChatWorkload, TurnEndReport, TurnWatcher};
