//! The output of `--json`: types of the binary's own, so that scripts do not depend on internal types.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;
use singletree::agent::ConversationSummary;
use singletree::config::ConfigReport;
use singletree::durable::Timestamp;
use singletree::harness::{
    FailedTurnEntry, HistoryEntry, PendingWait, SessionForkPoint, SessionInfo, SuspensionTerms,
    TurnPromptPolicy,
};
use singletree::{ChatMessage, ChatTurnOutcome};

use crate::error::Error;
use crate::print::TerminalOutput;

/// Prints one document.
pub(crate) fn print_json(screen: &mut TerminalOutput, document: &impl Serialize) -> io::Result<()> {
    screen.write_json(&serde_json::to_string_pretty(document).map_err(io::Error::other)?)
}

/// Writes a time for people and machines: RFC 3339, UTC, to the second.
pub(crate) fn format_time(at: Timestamp) -> String {
    // Beyond these years the form ends, and no clock stands there.
    const YEAR_10000: Duration = Duration::from_millis(253_402_300_800_000);
    let last = Timestamp::from_millis(0).saturating_add(YEAR_10000 - Duration::from_millis(1));
    let at = at.clamp(Timestamp::from_millis(0), last);
    humantime::format_rfc3339_seconds(at.to_system_time()).to_string()
}

/// `{"error": …}`.
#[derive(Debug, Serialize)]
pub(crate) struct PrintedErrorDocument {
    error: PrintedError,
}

#[derive(Debug, Serialize)]
struct PrintedError {
    category: String,
    message: String,
    /// Advice for the user.
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
    /// The mistakes in the file of the agents, if they are the error.
    #[serde(skip_serializing_if = "Option::is_none")]
    report: Option<ConfigReport>,
}

impl PrintedErrorDocument {
    /// Describes an error.
    pub(crate) fn from_error(error: &Error) -> Self {
        let (category, message) = (error.category().to_owned(), error.text_with_causes());
        Self {
            error: PrintedError {
                category,
                message,
                hint: error.find_hint(),
                report: error.config_report().cloned(),
            },
        }
    }
}

/// How a turn ended.
#[derive(Debug, Serialize)]
pub(crate) struct PrintedOutcome<'a> {
    session: &'a str,
    turn: Option<String>,
    #[serde(flatten)]
    how: PrintedOutcomeDetails<'a>,
}

#[derive(Debug, Serialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
enum PrintedOutcomeDetails<'a> {
    Completed {
        replies: &'a [Arc<ChatMessage>],
    },
    Suspended {
        invocation: &'a str,
        #[serde(flatten)]
        wait: PrintedWait<'a>,
        pending_messages: &'a [Arc<ChatMessage>],
        resumed_by: Option<String>,
    },
    Errored {
        bucket: &'static str,
        category: &'a str,
        reply: String,
        diagnostic: &'a str,
        retry_safe: bool,
        recorded: bool,
    },
}

impl<'a> PrintedOutcome<'a> {
    /// Describes an outcome.
    pub(crate) fn from_outcome(session: &'a str, outcome: &'a ChatTurnOutcome) -> Self {
        let how = match outcome {
            ChatTurnOutcome::Completed(it) => PrintedOutcomeDetails::Completed { replies: &it.replies },
            ChatTurnOutcome::Suspended(it) => PrintedOutcomeDetails::Suspended {
                invocation: it.invocation_id.as_str(),
                wait: PrintedWait::from_suspension_terms(
                    &it.signal_descriptor.signal_id,
                    it.signal_descriptor.metadata.as_ref(),
                    &it.wait,
                ),
                pending_messages: &it.pending_messages,
                resumed_by: it.resumed_by.as_ref().map(ToString::to_string),
            },
            ChatTurnOutcome::Errored(it) => PrintedOutcomeDetails::Errored {
                bucket: it.error_bucket.as_str(),
                category: &it.error_category,
                reply: it.reply.text().into_owned(),
                diagnostic: &it.diagnostic,
                retry_safe: it.retry_safe,
                recorded: it.recorded,
            },
        };
        Self { session, turn: outcome.turn_id().map(ToString::to_string), how }
    }
}

/// The signal that a turn waits for.
#[derive(Debug, Serialize)]
struct PrintedWait<'a> {
    signal: &'a str,
    wait: u64,
    /// The digest of the exact action, for approvals.
    action: Option<&'a str>,
    metadata: Option<&'a Value>,
    deadline: Option<String>,
    payload_schema: Option<&'a Value>,
}

impl<'a> PrintedWait<'a> {
    fn from_suspension_terms(
        signal: &'a str,
        metadata: Option<&'a Value>,
        wait: &'a SuspensionTerms,
    ) -> Self {
        Self {
            signal,
            wait: wait.no,
            action: wait.action.as_deref(),
            metadata,
            deadline: wait.deadline.map(format_time),
            payload_schema: wait.payload_schema.as_ref(),
        }
    }
}

/// `{"pending": […]}`.
#[derive(Debug, Serialize)]
pub(crate) struct PrintedPendingWaits<'a> {
    pending: Vec<PrintedPendingWait<'a>>,
}

#[derive(Debug, Serialize)]
struct PrintedPendingWait<'a> {
    session: &'a str,
    invocation: &'a str,
    since: String,
    #[serde(flatten)]
    wait: PrintedWait<'a>,
}

impl<'a> PrintedPendingWaits<'a> {
    /// Describes pending waits.
    pub(crate) fn from_waits(waits: &'a [PendingWait]) -> Self {
        let waiting = |it: &'a PendingWait| PrintedPendingWait {
            session: &it.session,
            invocation: it.invocation.as_str(),
            since: format_time(it.since),
            wait: PrintedWait::from_suspension_terms(
                &it.descriptor.signal_id,
                it.descriptor.metadata.as_ref(),
                &it.wait,
            ),
        };
        Self { pending: waits.iter().map(waiting).collect() }
    }
}

/// A session in a list.
#[derive(Debug, Serialize)]
pub(crate) struct PrintedSession<'a> {
    session: &'a str,
    agent: &'a str,
    /// Only of sessions that take commands.
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_policy: Option<TurnPromptPolicy>,
    messages: u64,
    created_at: String,
    updated_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent: Option<&'a SessionForkPoint>,
}

impl<'a> PrintedSession<'a> {
    /// Describes a session.
    pub(crate) fn from_session_info(info: &'a SessionInfo) -> Self {
        Self {
            session: &info.session,
            agent: &info.agent,
            prompt_policy: Some(info.prompt_policy).filter(|policy| *policy == TurnPromptPolicy::Command),
            messages: info.messages,
            created_at: format_time(info.created_at),
            updated_at: format_time(info.updated_at),
            parent: info.parent.as_ref(),
        }
    }
}

/// `{"sessions": […]}`.
#[derive(Debug, Serialize)]
pub(crate) struct PrintedSessionList<'a> {
    /// The sessions, ordered by id.
    pub(crate) sessions: Vec<PrintedSession<'a>>,
}

/// A session with its history.
#[derive(Debug, Serialize)]
pub(crate) struct PrintedSessionDetails<'a> {
    #[serde(flatten)]
    session: PrintedSession<'a>,
    /// The summary that replaces the beginning in the prompt, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    summary: Option<&'a ConversationSummary>,
    history: Vec<PrintedHistoryEntry<'a>>,
    /// The turns that failed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    failed: Vec<PrintedFailedTurn<'a>>,
    /// How many turns failed before those; none is left out where it is missing.
    #[serde(skip_serializing_if = "is_zero")]
    failed_before: u64,
}

/// A turn that failed, and where in the history it stands.
#[derive(Debug, Serialize)]
struct PrintedFailedTurn<'a> {
    turn: String,
    place: u64,
    effects: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'a ChatMessage>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    made: Vec<PrintedMadeMessage<'a>>,
    category: &'a str,
    diagnostic: &'a str,
}

/// A message that a failed turn made, as in the native API: the side record stands in the message.
#[derive(Debug, Serialize)]
struct PrintedMadeMessage<'a> {
    #[serde(flatten)]
    message: &'a ChatMessage,
    #[serde(skip_serializing_if = "Option::is_none")]
    side: Option<&'a Value>,
}

impl<'a> PrintedFailedTurn<'a> {
    fn from_failed_turn(turn: &'a FailedTurnEntry) -> Self {
        Self {
            turn: turn.turn.id.to_string(),
            place: turn.place,
            effects: turn.effects,
            message: turn.message.as_ref().map(|(message, _)| message.as_ref()),
            made: turn
                .made
                .iter()
                .map(|(message, side)| PrintedMadeMessage { message, side: side.as_ref() })
                .collect(),
            category: &turn.error.error_category,
            diagnostic: &turn.error.diagnostic,
        }
    }
}

#[derive(Debug, Serialize)]
struct PrintedHistoryEntry<'a> {
    seq: u64,
    message: &'a ChatMessage,
    #[serde(skip_serializing_if = "Option::is_none")]
    side: Option<&'a Value>,
}

impl<'a> PrintedSessionDetails<'a> {
    /// Describes a session and its history.
    pub(crate) fn from_session_parts(
        info: &'a SessionInfo,
        summary: Option<&'a ConversationSummary>,
        history: &'a [HistoryEntry],
        (failed, failed_before): (&'a [FailedTurnEntry], u64),
    ) -> Self {
        let failed = failed.iter().map(PrintedFailedTurn::from_failed_turn).collect();
        let entry = |it: &'a HistoryEntry| PrintedHistoryEntry {
            seq: it.seq,
            message: &it.message,
            side: it.side.as_ref(),
        };
        let history = history.iter().map(entry).collect();
        Self { session: PrintedSession::from_session_info(info), summary, history, failed, failed_before }
    }
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// The numbers of removed records: `{"turns": N, "events": N, "sessions": N}`.
#[derive(Debug, Serialize)]
pub(crate) struct PrintedRemovalCounts {
    sessions: u64,
    turns: u64,
    events: u64,
}

impl PrintedRemovalCounts {
    /// Says how much it was.
    pub(crate) fn from_retention_report(it: singletree::harness::RetentionReport) -> Self {
        Self { sessions: it.sessions, turns: it.turns, events: it.events }
    }
}

/// The effect of a command: `{"deleted": ID}`, `{"imported": ID}`, `{"forked": ID}` with the id of the new session,
/// `{"backup": FILE}`, `{"restored": FILE}`, `{"erased": NUMBER}` or `{"written": FILE}`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum PrintedCommandEffect<'a> {
    /// It is gone.
    Deleted(&'a str),
    /// It is here.
    Imported(&'a str),
    /// It was made.
    Forked(&'a str),
    /// The database was copied.
    Backup(&'a str),
    /// A database was made of a backup.
    Restored(&'a str),
    /// So many sessions were erased.
    Erased(u64),
    /// The file was written.
    Written(&'a str),
}
