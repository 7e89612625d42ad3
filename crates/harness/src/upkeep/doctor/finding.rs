//! The kinds of damage of a stored session, why each matters, and the repairs.

use singletree_durable::{InvocationId, SessionKey, StoredTurnStatus};

/// One kind of damage found in a stored session.
#[derive(Debug, Clone, PartialEq)]
pub struct DoctorFinding {
    /// The damaged session.
    pub session: SessionKey,
    /// The kind of damage.
    pub symptom: FindingKind,
    /// A description, with the numbers of the rows.
    pub what: String,
    /// The repair, if one is possible.
    pub(super) mend: Option<RepairAction>,
}

impl DoctorFinding {
    /// Describes the repair; none when nothing can be done without losing data.
    #[must_use]
    pub fn describe_repair(&self) -> Option<&'static str> {
        self.mend.as_ref().map(RepairAction::describe_action)
    }
}

macro_rules! symptoms {
    ($($(#[$doc:meta])* $name:ident => ($code:literal, $invariant:literal, $why:literal),)*) => {
        /// The kinds of harm that a stored session can have taken.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum FindingKind {
            $($(#[$doc])* $name,)*
        }

        impl FindingKind {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// Returns the stable, machine-readable name.
            #[must_use]
            pub fn code(self) -> &'static str {
                match self { $(Self::$name => $code,)* }
            }

            /// Returns the number of the invariant that is broken (see ARCHITECTURE.md).
            #[must_use]
            pub fn invariant(self) -> u32 {
                match self { $(Self::$name => $invariant,)* }
            }

            /// Says why it matters.
            #[must_use]
            pub fn why(self) -> &'static str {
                match self { $(Self::$name => $why,)* }
            }
        }
    };
}

symptoms! {
    /// A next free number is not above the numbers in use.
    CountersLow => ("counters_low", 4,
        "the next turn, message or event would take a number that is in use, and be refused"),
    /// The places of a list have a gap.
    ListGap => ("list_gap", 4,
        "an item of the list is missing: the session cannot be read"),
    /// A list is said to be longer or shorter than it is.
    ListLength => ("list_length", 4,
        "the session cannot be read, or its newest items are not seen"),
    /// An item belongs to nothing.
    ItemOrphaned => ("item_orphaned", 4,
        "it is kept for a turn that is not there; it takes space and does no harm"),
    /// An event tells of an item that is missing.
    EventItemMissing => ("event_item_missing", 4,
        "who catches up by the event log cannot be told what was said"),
    /// A turn has an outcome and is not marked as ended.
    EndUnmarked => ("turn_end_unmarked", 2,
        "the turn would be run again although it has its outcome"),
    /// A turn is marked as ended and has no outcome.
    OutcomeMissing => ("turn_outcome_missing", 2,
        "who asks how the turn ended gets no answer"),
    /// The outcome of a turn cannot be read.
    OutcomeUnreadable => ("turn_outcome_unreadable", 2,
        "who asks how the turn ended gets an error"),
    /// The outcome of a turn says something else than its status.
    OutcomeContradicts => ("turn_outcome_contradicts", 2,
        "the turn has two ends, and callers are told one or the other"),
    /// The message of a turn is missing.
    MessageMissing => ("turn_message_missing", 2,
        "an accepted message is lost; its turn can never run"),
    /// The message of a turn that ran to an end is not in the history.
    MessageNotHistory => ("turn_message_not_history", 2,
        "the history does not hold what the user said"),
    /// Replies that an outcome names are missing.
    RepliesMissing => ("turn_replies_missing", 2,
        "the outcome that is told now is not the one that was"),
    /// A turn without outcome was accepted under a fence that no process has had.
    TurnUnclaimable => ("turn_unclaimable", 2,
        "no start takes the turn over: it never runs"),
    /// An invocation goes on after its end.
    InvocationBroken => ("invocation_broken", 8,
        "a turn follows one that did not suspend; which of them counts cannot be said"),
    /// A resuming turn cannot go on.
    ResumeUnable => ("turn_resume_unable", 8,
        "the turn answers a wait that does not lead to it, or from a place that is gone: it can only fail"),
    /// A turn that ends a wait has no outcome.
    CloseUnfinished => ("turn_close_unfinished", 8,
        "such a turn is recorded with its end or not at all; it can only fail"),
    /// A suspended invocation waits for nothing.
    SuspendedWithoutWait => ("suspended_without_wait", 8,
        "nothing can ever answer it"),
    /// Where a suspended invocation or an unfinished turn stands is missing or damaged.
    PositionDamaged => ("position_damaged", 8,
        "no answer can make it go on"),
    /// A wait waits for an invocation that is not suspended.
    WaitOrphaned => ("wait_orphaned", 8,
        "it is offered for an answer that nobody awaits, and holds messages back"),
    /// More than one wait of a session is pending.
    WaitsDoubled => ("waits_doubled", 8,
        "a session waits for one thing at a time; the others are not seen until it ends"),
    /// A position is kept of an invocation that has ended, or that no turn is of.
    PositionOrphaned => ("position_orphaned", 8,
        "it takes space, and a later turn could mistake it for its own"),
    /// An early signal cannot be read.
    MailDamaged => ("mail_damaged", 8,
        "the turn that comes to wait for it fails, each time"),
    /// An early signal is kept beside the wait that it is for.
    MailUntaken => ("mail_untaken", 8,
        "its sender was told that it is kept, and the wait goes on without it"),
    /// Records are kept of a turn that has ended.
    RecordOrphaned => ("record_orphaned", 8,
        "they take space and are never read"),
    /// An item of the history is no message.
    MessageInvalid => ("message_invalid", 6,
        "no model can be asked with this history"),
    /// A call of a tool is followed by something else than its result.
    CallOpen => ("call_open", 6,
        "providers refuse a history in which a call has no result"),
    /// A turn ended early and left calls open.
    CallLeftOpen => ("call_left_open", 6,
        "providers refuse a history in which a call has no result; the next turn would have to close it"),
    /// A tool's result answers no call.
    ResultOrphaned => ("result_orphaned", 6,
        "providers refuse a result without its call"),
    /// A call has two results.
    ResultDoubled => ("result_doubled", 6,
        "providers refuse a second result, and the effect may have happened twice"),
    /// The log tells of a turn that is missing.
    TurnLost => ("turn_lost", 2,
        "an accepted turn is lost"),
    /// The log begins with the session and does not tell that a turn was accepted.
    AcceptUntold => ("turn_accept_untold", 2,
        "who follows the session by its events is not told what was said"),
    /// The log does not tell a message that a turn added to the history.
    MessageUntold => ("message_untold", 4,
        "who follows the session by its events misses a message"),
    /// The wait that a turn answers is missing.
    WaitMissing => ("turn_wait_missing", 8,
        "what was asked and who answered is lost"),
    /// The turns of a session used more of a model than the session is said to have used.
    UsageLow => ("usage_low", 4,
        "what is counted or billed is less than what was used"),
    /// The log does not tell the end of a turn that it told the beginning of.
    EndUntold => ("turn_end_untold", 2,
        "who follows the session by its events waits for ever"),
    /// The log tells another end than the turn has, or two.
    EndContradicts => ("turn_end_contradicts", 2,
        "callers and followers are told different ends"),
}

/// A repair. Each is one batch.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum RepairAction {
    /// Raises the next free numbers.
    Counters,
    /// Sets a list's length to the number of its items.
    Length { field: String, generation: u64, len: u64 },
    /// Marks a turn as ended, as its outcome says.
    MarkEnded { turn: u64, status: StoredTurnStatus },
    /// Puts a turn under the lowest fence, so that the next start takes it over.
    GiveUp { turn: u64 },
    /// Ends a turn that can only fail, and closes its calls.
    CloseTurn { turn: u64, what: String },
    /// Ends a suspended invocation by a turn of its own, its wait as cancelled, and closes its calls.
    EndInvocation { turn: u64, what: String },
    /// Ends a wait as cancelled.
    CancelWait { wait: u64 },
    /// Removes a position.
    DropPosition { invocation: InvocationId },
    /// Removes an early signal that cannot be read.
    DropMail { signal: String },
    /// Removes the records of a turn.
    DropRecords { turn: u64 },
    /// Answers open calls as unknown.
    CloseCalls,
}

impl RepairAction {
    fn describe_action(&self) -> &'static str {
        match self {
            Self::Counters => "raises the counters above the numbers in use",
            Self::Length { .. } => "sets the length to the number of items that are there",
            Self::MarkEnded { .. } => "marks the turn as ended, as its outcome says",
            Self::GiveUp { .. } => "hands the turn to the next start, which runs it",
            Self::CloseTurn { .. } => "ends the turn as errored and closes its open calls",
            Self::EndInvocation { .. } => "ends the invocation as errored, its wait as cancelled",
            Self::CancelWait { .. } => "ends the wait as cancelled",
            Self::DropPosition { .. } => "removes the position",
            Self::DropMail { .. } => {
                "removes the signal, of which nothing can be read; its sender may send it again"
            }
            Self::DropRecords { .. } => "removes the records",
            Self::CloseCalls => "answers the open calls as unknown",
        }
    }
}
