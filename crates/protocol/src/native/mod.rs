//! The native API: everything that the harness offers.
//!
//! What clients send is read strictly: a field that is not known is refused, so that a slip does not pass for a default. What
//! they get may grow: who reads it ignores fields that it does not know. Times are RFC 3339 in UTC. Ids are opaque.

mod agent;
mod artifact;
mod audit;
mod blob;
mod campaign;
mod error;
mod event;
mod key;
mod message;
mod narration;
mod node;
mod operation;
mod send;
mod session;
mod tenant_event;
mod time;
mod turn;
mod usage;
mod wait;
mod whole;

/// What an id may be: at most 512 bytes without control characters. Only for ids of ASCII are bytes and characters the same.
pub const ID_PATTERN: &str = r"^([ -~]{1,512}|[^\x00-\x1f\x7f-\x9f]{1,128})$";

pub use agent::{Agent, AgentList};
pub use artifact::{
    AddArtifact, ApproveArtifact, Artifact, ArtifactList, ArtifactSource, ArtifactSummary,
    ArtifactSummaryList,
};
pub use audit::{AuditEntry, AuditList, AuditQuery};
pub use blob::Blob;
pub use campaign::{
    AddSchedule, ApprovePlan, BudgetLimits, BudgetUsage, CallStage, CampaignCommand, CampaignDetail,
    CampaignLogItem, CampaignLogKind, CampaignLogPage, CampaignLogQuery, CampaignPage, CampaignPageQuery,
    CampaignPhase, CampaignPlan, CampaignStreamItem, CampaignSummary, CampaignTask, CampaignTaskPage,
    CreateCampaign, EditPlan, ExactCall, FollowCampaign, MissedDueTimes, PauseCause, PendingDecision,
    PlanSummary, ProofCheck, ProofRule, RejectPlan, ScheduleInfo, ScheduleInfoList, TaskDefinition,
    TaskPageQuery, TaskState, TaskTally, TemplateInfo, TemplateList,
};
pub use error::{ApiError, ErrorBody, ErrorBucket};
pub use event::{Event, EventKind, EventQuery, SignalEnd, StreamFailed, StreamFailedType, StreamItem};
pub use key::{
    ApiKey, CreateKey, KeyList, KeyOfTenant, KeyQuery, KeyScope, KeyState, KeyWithSecret, RotateKey,
};
pub use message::{
    Block, Content, FailedTurn, HistoryMessage, ImageDetail, ImageSource, Message, MessageList, MessageQuery,
    Role, Side, ToolCall, UnkeptMessage,
};
pub use narration::{Narration, NarrationKind, NarrationList, NarrationQuery, NarrationRole};
pub use node::{Node, NodeList};
pub use operation::{Ready, Version};
pub use send::{
    EditMessage, MessageAt, RegenerateReply, SendBlock, SendContent, SendImageSource, SendMessage,
    SenderRole, SignalAnswer,
};
pub use session::{
    CreateSession, ExportedItem, ForkPoint, ForkSession, PromptPolicy, Session, SessionExport, SessionList,
    SessionOrder, SessionQuery,
};
pub use tenant_event::{TenantEvent, TenantEventKind, TenantEventQuery, TenantStreamItem, TurnEnd, WaitEnd};
pub use time::Time;
pub use turn::{
    Activity, ActivityState, Completed, Errored, Outcome, Suspended, Turn, TurnKind, TurnList, TurnQuery,
    TurnStatus,
};
pub use usage::{ModelUsage, Usage, UsageCounts};
pub use wait::{KeptSignal, Wait, WaitList, WaitQuery};
