//! The narration of campaigns: a pure function of the log, the language and the verbosity (agent-chat-output §5.1). It is
//! written after the commit, and nothing of it is read back (INV-9).

mod sentence;

mod chinese;
mod english;
mod french;
mod german;
mod japanese;
mod spanish;

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use singletree_campaign::{CampaignBoard, CampaignEvent, PauseReason, campaign_session};
use singletree_env::Timestamp;
use singletree_harness::{Redact, narrate_arguments};
use singletree_narration::{
    Locale, NarrationMessage, NarrationOwner, NarrationPurpose, NarrationSink, NarrationSpeaker,
    NarrationVerbosity, narrated_rationale,
};

use crate::core::CampaignKey;
use sentence::CampaignSentence;

/// How many bytes of a text that somebody else wrote are told.
const QUOTED_BYTES: usize = 2_000;
/// How many bytes of a name.
const NAME_BYTES: usize = 200;

/// Narrates campaigns to people.
#[derive(Clone)]
pub(crate) struct CampaignNarrator {
    pub(crate) sink: Arc<dyn NarrationSink>,
    pub(crate) locale: Locale,
    pub(crate) verbosity: NarrationVerbosity,
    pub(crate) redact: Redact,
}

/// A piece of narration of a campaign without its time.
#[derive(Debug, Clone, PartialEq, Eq)]
struct CampaignPiece {
    speaker: NarrationSpeaker,
    purpose: NarrationPurpose,
    content: String,
}

impl CampaignNarrator {
    pub(crate) fn new(sink: Arc<dyn NarrationSink>) -> Self {
        let redact: Redact = Arc::new(str::to_owned);
        Self { sink, locale: Locale::default(), verbosity: NarrationVerbosity::default(), redact }
    }

    /// Narrates the events of one commit.
    pub(crate) fn narrate_events(
        &self,
        key: &CampaignKey,
        events: &[CampaignEvent],
        (before, after): (&CampaignBoard, &CampaignBoard),
        at: Timestamp,
    ) {
        for event in events {
            let piece = self.compose_piece(event, before, after);
            if let Some(piece) = piece.filter(|piece| self.is_told(piece.purpose)) {
                self.emit_piece(key, piece, at);
            }
        }
    }

    /// Narrates that a campaign was created.
    pub(crate) fn narrate_creation(&self, key: &CampaignKey, board: &CampaignBoard) {
        let name = board.campaign.name.as_str();
        let piece = self.say(NarrationPurpose::Status, CampaignSentence::Created, &[("name", name)]);
        if self.is_told(piece.purpose) {
            self.emit_piece(key, piece, board.campaign.created_at);
        }
    }

    /// Tells why the agent proposes something, in its words, before anything of it is done. A reason that claims a memory
    /// of earlier chat is replaced (agent-chat-output §11).
    pub(crate) fn narrate_rationale(&self, key: &CampaignKey, why: &str, at: Timestamp) {
        let content = cut_text(&(self.redact)(narrated_rationale(why.trim())), QUOTED_BYTES);
        if !content.is_empty() && self.verbosity != NarrationVerbosity::Quiet {
            let (speaker, purpose) = (NarrationSpeaker::Agent, NarrationPurpose::Explanation);
            self.emit_piece(key, CampaignPiece { speaker, purpose, content }, at);
        }
    }

    fn is_told(&self, purpose: NarrationPurpose) -> bool {
        match self.verbosity {
            NarrationVerbosity::Quiet => matches!(
                purpose,
                NarrationPurpose::Ask | NarrationPurpose::Error | NarrationPurpose::Explanation
            ),
            NarrationVerbosity::Normal | NarrationVerbosity::Full => true,
        }
    }

    /// Hands a piece to the sink. The result of the sink is ignored, even a panic.
    fn emit_piece(&self, key: &CampaignKey, piece: CampaignPiece, at: Timestamp) {
        let CampaignPiece { speaker: role, purpose: kind, content } = piece;
        let session = campaign_session(&key.id);
        let owner = NarrationOwner { tenant: key.tenant.as_str(), session: &session };
        let message = NarrationMessage { timestamp: at.to_system_time(), role, kind, content };
        drop(catch_unwind(AssertUnwindSafe(|| self.sink.emit_narration(owner, message))));
    }

    fn say(
        &self,
        purpose: NarrationPurpose,
        sentence: CampaignSentence,
        values: &[(&str, &str)],
    ) -> CampaignPiece {
        let content = sentence.fill(self.locale, values);
        CampaignPiece { speaker: NarrationSpeaker::System, purpose, content }
    }

    fn compose_piece(
        &self,
        event: &CampaignEvent,
        before: &CampaignBoard,
        after: &CampaignBoard,
    ) -> Option<CampaignPiece> {
        use NarrationPurpose::{Ask, Explanation, Status};
        let quote = |text: &str| cut_text(&(self.redact)(text), QUOTED_BYTES);
        Some(match event {
            CampaignEvent::CommandGiven { text, .. } => CampaignPiece {
                speaker: NarrationSpeaker::User,
                purpose: Status,
                content: quote(text.trim()),
            },
            CampaignEvent::PlanChanged { plan, by } => {
                let (version, tasks) = (plan.version.to_string(), plan.tasks.len().to_string());
                let by = by.as_deref().map(name_text);
                let values = [
                    ("version", version.as_str()),
                    ("tasks", &tasks),
                    ("digest", &plan.digest),
                    ("by", by.as_deref().unwrap_or_default()),
                ];
                let sentence = match by {
                    Some(_) => CampaignSentence::PlanEdited,
                    None => CampaignSentence::PlanProposed,
                };
                self.say(Ask, sentence, &values)
            }
            CampaignEvent::PlanApproved { version, by, .. } => {
                let values = [("version", version.to_string()), ("by", name_text(by))];
                self.say_names(Status, CampaignSentence::PlanApproved, &values)
            }
            CampaignEvent::PlanRejected { version, reason, by } => {
                let reason = quote(reason.as_deref().unwrap_or("—"));
                let values = [("version", version.to_string()), ("by", name_text(by)), ("reason", reason)];
                self.say_names(Status, CampaignSentence::PlanRejected, &values)
            }
            CampaignEvent::ProposalRefused { why, .. } => {
                self.say(Explanation, CampaignSentence::Refused, &[("why", &quote(why))])
            }
            CampaignEvent::NothingProposed => self.say(Status, CampaignSentence::NothingProposed, &[]),
            CampaignEvent::QuestionAsked { question, .. } => {
                self.say(Ask, CampaignSentence::QuestionAsked, &[("question", &quote(question))])
            }
            CampaignEvent::QuestionAnswered { by, .. } => {
                self.say(Status, CampaignSentence::QuestionAnswered, &[("by", &name_text(by))])
            }
            CampaignEvent::ArtifactProposed { kind, key, version, task } => {
                let artifact = name_text(&format!("{kind}/{key}/{version}"));
                let values = [("artifact", artifact), ("task", name_text(task))];
                self.say_names(Ask, CampaignSentence::ArtifactProposed, &values)
            }
            CampaignEvent::ArtifactApproved { kind, key, version, by } => {
                let artifact = name_text(&format!("{kind}/{key}/{version}"));
                let values = [("artifact", artifact), ("by", name_text(by))];
                self.say_names(Status, CampaignSentence::ArtifactApproved, &values)
            }
            CampaignEvent::Created { .. }
            | CampaignEvent::CycleBegan { .. }
            | CampaignEvent::CycleMeasured { .. } => return None,
            CampaignEvent::ActionProposed { .. }
            | CampaignEvent::ActionDecided { .. }
            | CampaignEvent::ActionBegan { .. }
            | CampaignEvent::ActionDone { .. } => return self.compose_action(event, before, after),
            other => return self.compose_progress(other),
        })
    }

    /// Tells about calls. An approval has the arguments that it is about, and the digest that a decision names.
    fn compose_action(
        &self,
        event: &CampaignEvent,
        before: &CampaignBoard,
        after: &CampaignBoard,
    ) -> Option<CampaignPiece> {
        use NarrationPurpose::{Ask, Explanation, Progress, Status};
        let open = before.action.as_ref().or(after.action.as_ref()).map(|open| &open.action);
        let tool = open.map(|action| name_text(&action.tool)).unwrap_or_default();
        Some(match event {
            CampaignEvent::ActionProposed { action, needs_approval } => {
                let (tool, task) = (name_text(&action.tool), name_text(&action.task));
                let is_full = self.verbosity == NarrationVerbosity::Full;
                let arguments = narrate_arguments(
                    &action.args,
                    Some(&action.digest),
                    (self.redact.as_ref(), self.locale),
                );
                let (purpose, sentence) = match (needs_approval, is_full) {
                    (true, _) => (Ask, CampaignSentence::ApproveCall),
                    (false, true) => (Progress, CampaignSentence::CallProposedWith),
                    (false, false) => (Progress, CampaignSentence::CallProposed),
                };
                let values = [
                    ("tool", tool.as_str()),
                    ("task", &task),
                    ("arguments", &arguments),
                    ("digest", &action.digest),
                ];
                self.say(purpose, sentence, &values)
            }
            CampaignEvent::ActionDecided { approved: true, by, .. } => {
                let values = [("tool", tool), ("by", name_text(by))];
                self.say_names(Status, CampaignSentence::CallApproved, &values)
            }
            CampaignEvent::ActionDecided { approved: false, by, reason, .. } => {
                let reason = cut_text(reason.as_deref().unwrap_or("—"), QUOTED_BYTES);
                let values = [("tool", tool), ("by", name_text(by)), ("reason", reason)];
                self.say_names(Explanation, CampaignSentence::CallRejected, &values)
            }
            CampaignEvent::ActionBegan { .. } => {
                self.say(Progress, CampaignSentence::CallBegan, &[("tool", &tool)])
            }
            CampaignEvent::ActionDone { success, text, tool, .. } => {
                let (purpose, sentence) = match (success, closed_status(text)) {
                    (true, _) => (Progress, CampaignSentence::CallSucceeded),
                    (false, Some("unknown")) => (Explanation, CampaignSentence::CallInDoubt),
                    (false, Some("denied")) => (Explanation, CampaignSentence::CallNotMade),
                    (false, _) => (Progress, CampaignSentence::CallFailed),
                };
                self.say(purpose, sentence, &[("tool", &name_text(tool))])
            }
            _ => return None,
        })
    }

    /// Tells about tasks and the status.
    fn compose_progress(&self, event: &CampaignEvent) -> Option<CampaignPiece> {
        use NarrationPurpose::{Error, Explanation, Progress, Status};
        let quote = |text: &str| cut_text(&(self.redact)(text), QUOTED_BYTES);
        Some(match event {
            CampaignEvent::TaskSelected { task } => {
                self.say(Progress, CampaignSentence::TaskSelected, &[("task", &name_text(task))])
            }
            CampaignEvent::Confirmed { task, by, .. } => {
                let values = [("task", name_text(task)), ("by", name_text(by))];
                self.say_names(Status, CampaignSentence::Confirmed, &values)
            }
            CampaignEvent::TaskCompleted { task, .. } => {
                self.say(Progress, CampaignSentence::TaskCompleted, &[("task", &name_text(task))])
            }
            CampaignEvent::TaskBlocked { task, why } => {
                let values = [("task", name_text(task)), ("why", quote(why))];
                self.say_names(Explanation, CampaignSentence::TaskBlocked, &values)
            }
            CampaignEvent::TaskUnblocked { task, by } => {
                let values = [("task", name_text(task)), ("by", name_text(by))];
                self.say_names(Status, CampaignSentence::TaskUnblocked, &values)
            }
            CampaignEvent::TaskRetried { task, by } => {
                let values = [("task", name_text(task)), ("by", name_text(by))];
                self.say_names(Status, CampaignSentence::TaskRetried, &values)
            }
            CampaignEvent::Paused { reason } => self.compose_pause(reason),
            CampaignEvent::Resumed { by: Some(by) } => {
                self.say(Status, CampaignSentence::Resumed, &[("by", &name_text(by))])
            }
            CampaignEvent::Resumed { by: None } => self.say(Status, CampaignSentence::Recovered, &[]),
            CampaignEvent::BudgetChanged { by, .. } => {
                self.say(Status, CampaignSentence::BudgetChanged, &[("by", &name_text(by))])
            }
            CampaignEvent::Completed => self.say(Status, CampaignSentence::Completed, &[]),
            CampaignEvent::Failed { category } => {
                self.say(Error, CampaignSentence::Failed, &[("category", category)])
            }
            CampaignEvent::Cancelled { by } => {
                self.say(Explanation, CampaignSentence::Cancelled, &[("by", &name_text(by))])
            }
            _ => return None,
        })
    }

    fn compose_pause(&self, reason: &PauseReason) -> CampaignPiece {
        use NarrationPurpose::Explanation;
        match reason {
            PauseReason::Person { by } => {
                self.say(Explanation, CampaignSentence::PausedByPerson, &[("by", &name_text(by))])
            }
            PauseReason::Budget { part } => {
                self.say(Explanation, CampaignSentence::PausedByBudget, &[("part", part)])
            }
            PauseReason::NoReadyTask => self.say(Explanation, CampaignSentence::PausedWithoutTask, &[]),
            PauseReason::NothingToPropose => self.say(Explanation, CampaignSentence::PausedIdle, &[]),
            PauseReason::Transient { category, .. } => {
                self.say(Explanation, CampaignSentence::PausedByFailure, &[("category", category)])
            }
            PauseReason::Quota { category } => {
                self.say(Explanation, CampaignSentence::PausedByQuota, &[("category", category)])
            }
        }
    }

    fn say_names(
        &self,
        purpose: NarrationPurpose,
        sentence: CampaignSentence,
        values: &[(&str, String)],
    ) -> CampaignPiece {
        let values: Vec<(&str, &str)> = values.iter().map(|(name, value)| (*name, value.as_str())).collect();
        self.say(purpose, sentence, &values)
    }
}

impl fmt::Debug for CampaignNarrator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CampaignNarrator")
            .field("locale", &self.locale)
            .field("verbosity", &self.verbosity)
            .finish_non_exhaustive()
    }
}

/// Returns the status of a call that was closed without a result of its tool.
fn closed_status(text: &str) -> Option<&'static str> {
    let closed: serde_json::Value = serde_json::from_str(text).ok()?;
    match closed.get("status")?.as_str()? {
        "unknown" => Some("unknown"),
        "denied" => Some("denied"),
        _ => None,
    }
}

fn name_text(name: &str) -> String {
    cut_text(name, NAME_BYTES)
}

/// Returns a text, or its beginning.
fn cut_text(text: &str, max: usize) -> String {
    if text.len() <= max {
        return text.to_owned();
    }
    format!("{}…", &text[..text.floor_char_boundary(max)])
}
