//! Every name that our engine uses: what it can emit, deny and fail with. The truth table is made of it.

/// The namespace of our extensions and directives (D18).
pub const NAMESPACE: &str = "dev.singletree";

macro_rules! names {
    ($(#[$doc:meta])+ $name:ident { $($(#[$each:meta])+ $value:ident = $text:literal,)+ }) => {
        $(#[$doc])+
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $name { $($(#[$each])+ $value,)+ }

        impl $name {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$value,)+];

            /// Returns its name on the wire.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$value => $text,)+ }
            }

            /// Finds the one of this name.
            #[must_use]
            pub fn from_name(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|item| item.as_str() == name)
            }
        }
    };
}

names! {
    /// The types of directives that we know (§12).
    ActionType {
        /// Shows something richer than text.
        RenderUi = "render_ui",
        /// Acts as if the person had.
        SimulateAction = "simulate_action",
        /// Shows a text.
        RenderMessage = "render_message",
        /// Asks the person whether something may be done.
        RequestApproval = "request_approval",
        /// Does nothing.
        Noop = "noop",
        /// Tells that the run waits for something that is no yes or no: ours.
        RequestSignal = "dev.singletree.request_signal",
    }
}

/// To which side of a message something belongs: what is drawn for a person, or what decides what is done. Nothing of the
/// second depends on anything of the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MessageClass {
    /// Drawn.
    Chat,
    /// Decides.
    Machine,
}

impl ActionType {
    /// Those that our engine emits.
    pub const EMITTED: &[Self] = &[Self::RenderMessage, Self::RequestApproval, Self::RequestSignal];

    /// Returns its class.
    #[must_use]
    pub fn message_class(self) -> MessageClass {
        match self {
            Self::RenderUi | Self::RenderMessage | Self::Noop => MessageClass::Chat,
            Self::SimulateAction | Self::RequestApproval | Self::RequestSignal => MessageClass::Machine,
        }
    }
}

names! {
    /// The features that we know (§5.3). Others are ignored.
    Capability {
        /// Answers in pieces.
        Streaming = "openharness.streaming",
        /// Directives side by side.
        ParallelActions = "openharness.actions.parallel",
        /// References to files.
        Attachments = "openharness.attachments.upload",
        /// More than text.
        RichCards = "openharness.ui.rich_cards",
        /// Questions whether something may be done.
        Approval = "openharness.ui.approval",
    }
}

names! {
    /// Why a feature is denied.
    DenialCode {
        /// This engine does not have it.
        NotSupported = "not_supported",
        /// Who asks may not have it.
        DisabledByPolicy = "disabled_by_policy",
    }
}

names! {
    /// What can go wrong (§13).
    ErrorCode {
        /// The request says something that the protocol or the agent does not take.
        InvalidRequest = "invalid_request",
        /// The request is of a version that we do not speak.
        ProtocolVersionUnsupported = "protocol_version_unsupported",
        /// Nobody said who asks.
        Unauthorized = "unauthorized",
        /// Who asks may not.
        Forbidden = "forbidden",
        /// The session cannot go on.
        SessionTerminated = "session_terminated",
        /// It took too long.
        EngineTimeout = "engine_timeout",
        /// Something that is needed does not answer.
        EngineUnavailable = "engine_unavailable",
        /// Too much at once.
        RateLimited = "rate_limited",
        /// The id was used for another request.
        IdempotencyConflict = "idempotency_conflict",
        /// There is nothing to go on with by this continuation.
        ContinuationInvalid = "continuation_invalid",
        /// It was too late to go on.
        ContinuationExpired = "continuation_expired",
        /// An attachment cannot be had.
        AttachmentUnresolvable = "attachment_unresolvable",
        /// A rule of the operator forbids it.
        PolicyDenied = "policy_denied",
        /// The turn used up what it may use.
        BudgetExhausted = "budget_exhausted",
        /// A fault of the engine.
        InternalError = "internal_error",
    }
}

impl ErrorCode {
    /// Tells whether the same again may go well.
    #[must_use]
    pub fn is_retryable(self) -> bool {
        match self {
            Self::EngineTimeout | Self::EngineUnavailable | Self::RateLimited => true,
            Self::InvalidRequest
            | Self::ProtocolVersionUnsupported
            | Self::Unauthorized
            | Self::Forbidden
            | Self::SessionTerminated
            | Self::IdempotencyConflict
            | Self::ContinuationInvalid
            | Self::ContinuationExpired
            | Self::AttachmentUnresolvable
            | Self::PolicyDenied
            | Self::BudgetExhausted
            | Self::InternalError => false,
        }
    }
}
