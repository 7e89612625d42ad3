//! What the directives of our engine are about.

use std::fmt;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::directive::{ActionDirective, RiskTier};
use super::given::{read_object, read_objects};
use super::registry::ActionType;
use super::request::Continuation;

/// What `render_message` shows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RenderMessage {
    /// The text.
    pub text: String,
    /// How it is written: `markdown` or `plain`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<String>,
    /// Which message it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_id: Option<String>,
    /// The text for shells that do not know the type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fallback_message: Option<String>,
}

/// What `request_approval` asks. To execute it is to ask: it needs no approval of its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestApproval {
    /// The name of the question.
    pub signal_id: String,
    /// The run that waits.
    pub run_id: String,
    /// A few words.
    pub title: String,
    /// The question.
    pub prompt: String,
    /// What would be done.
    #[serde(deserialize_with = "read_object")]
    pub action: Action,
    /// The answers that there are; none where the person has to answer elsewhere.
    #[serde(default, deserialize_with = "read_objects")]
    pub options: Vec<ApprovalOption>,
    /// Until when, as RFC 3339 has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
    /// The text for shells that do not know the type.
    pub fallback_message: String,
}

/// What would be done: exactly this, and nothing else (D2).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Action {
    /// The tool.
    pub name: String,
    /// Its arguments, for people.
    pub params_summary: String,
    /// The digest of its arguments as canonical JSON.
    pub params_sha256: String,
}

/// One answer to a question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovalOption {
    /// Which: see [`Decision`].
    pub id: String,
    /// What stands on the button.
    pub label: String,
    /// What a request carries that gives this answer.
    #[serde(deserialize_with = "read_object")]
    pub continuation: Continuation,
}

/// Yes or no.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Decision {
    /// It may be done.
    Approve,
    /// It may not.
    Reject,
}

impl Decision {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Approve, Self::Reject];

    /// Returns its name, which is the id of its option.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Approve => "approve",
            Self::Reject => "reject",
        }
    }
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl RequestApproval {
    /// Returns the answer of a name.
    #[must_use]
    pub fn option_for(&self, decision: Decision) -> Option<&ApprovalOption> {
        self.options.iter().find(|option| option.id == decision.as_str())
    }
}

/// What our `request_signal` tells: the run waits for something that is no yes or no, and is given it elsewhere.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SignalRequest {
    /// What is waited for.
    pub signal_id: String,
    /// The run that waits.
    pub run_id: String,
    /// The number of the wait in its session.
    pub wait: u64,
    /// What the application says about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub about: Option<Value>,
    /// The JSON Schema of what is waited for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload_schema: Option<Value>,
    /// Until when, as RFC 3339 has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
    /// The text for shells that do not know the type.
    pub fallback_message: String,
}

impl ActionDirective {
    /// Makes a directive that shows a text.
    #[must_use]
    pub fn render_message(payload: &RenderMessage) -> Self {
        Self { risk_tier: Some(RiskTier::Safe), ..Self::with_payload(ActionType::RenderMessage, payload) }
    }

    /// Makes a directive that asks; `risk` is that of the action.
    #[must_use]
    pub fn request_approval(payload: &RequestApproval, risk: RiskTier) -> Self {
        Self { risk_tier: Some(risk), ..Self::with_payload(ActionType::RequestApproval, payload) }
    }

    /// Makes a directive that tells what is waited for.
    #[must_use]
    pub fn request_signal(payload: &SignalRequest) -> Self {
        Self { risk_tier: Some(RiskTier::Safe), ..Self::with_payload(ActionType::RequestSignal, payload) }
    }

    fn with_payload(action_type: ActionType, payload: &impl Serialize) -> Self {
        let payload = match serde_json::to_value(payload) {
            Ok(Value::Object(fields)) => Some(fields),
            _ => None,
        };
        Self { payload, ..Self::new(action_type.as_str()) }
    }

    /// Reads the payload as that of a type; none when it is not of its shape.
    #[must_use]
    pub fn payload_as<T: DeserializeOwned>(&self) -> Option<T> {
        let payload: Map<String, Value> = self.payload.clone()?;
        serde_json::from_value(Value::Object(payload)).ok()
    }
}
