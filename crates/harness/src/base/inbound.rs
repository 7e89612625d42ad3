//! The input that a transport hands to a harness (harness §3).

use serde_json::{Map, Value};

/// The intent of the caller, where the transport knows it (harness §3.1 to §3.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum InboundIntent {
    /// To begin a session (§3.1).
    NewSession,
    /// To go on with one (§3.2).
    ExistingSession,
    /// To resume a suspended invocation (§3.3).
    SignalResume,
}

/// The address of an arriving signal (harness §6).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum SignalTarget {
    /// The name that the suspended node gave the signal.
    Signal(String),
    /// The suspended invocation, regardless of the signal that it waits for now. A sender that may send twice should
    /// name the signal: at the second time the invocation may wait for another one.
    Invocation(String),
}

/// A signal that arrived.
#[derive(Debug, Clone, PartialEq)]
pub struct SignalArrival {
    /// The signal or invocation that it is for.
    pub target: SignalTarget,
    /// The fields that it sets (suspension §6); empty is a payload, too.
    pub payload: Map<String, Value>,
}

impl SignalArrival {
    /// Makes a signal that is known by its name.
    pub fn for_signal(signal_id: impl Into<String>, payload: Map<String, Value>) -> Self {
        Self { target: SignalTarget::Signal(signal_id.into()), payload }
    }

    /// Makes a signal that is known by the invocation that waits for it.
    pub fn for_invocation(invocation_id: impl Into<String>, payload: Map<String, Value>) -> Self {
        Self { target: SignalTarget::Invocation(invocation_id.into()), payload }
    }
}

/// One transmission, as a transport received it: nothing of it is checked yet.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct InboundRequest {
    /// The session that it names. Not looked at in stateless mode, nor when it is a signal.
    pub session_id: Option<String>,
    /// The intent of the caller.
    pub intent: Option<InboundIntent>,
    /// The fields of the message, from which the initial state is built.
    pub fields: Map<String, Value>,
    /// The signal, when it is one.
    pub signal: Option<SignalArrival>,
}

impl InboundRequest {
    /// Makes a transmission that carries a message.
    #[must_use]
    pub fn message(fields: Map<String, Value>) -> Self {
        Self { fields, ..Self::default() }
    }

    /// Makes a transmission that carries a signal.
    #[must_use]
    pub fn signal(signal: SignalArrival) -> Self {
        Self { signal: Some(signal), ..Self::default() }
    }

    /// Names the session.
    #[must_use]
    pub fn session(mut self, session_id: impl Into<String>) -> Self {
        self.session_id = Some(session_id.into());
        self
    }

    /// Sets the intent of the caller.
    #[must_use]
    pub fn intent(mut self, intent: InboundIntent) -> Self {
        self.intent = Some(intent);
        self
    }
}
