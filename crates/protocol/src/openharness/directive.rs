//! What an engine wants shown or done (spec: OpenHarness §10).

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::given::{read_optional_field, read_optional_whole_number, read_text, words};

/// One thing that the engine wants shown or done.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ActionDirective {
    /// What: a name of the protocol or of a vendor.
    #[serde(deserialize_with = "read_text")]
    pub action_type: String,
    /// How urgent it is.
    #[serde(default, deserialize_with = "read_optional_field", skip_serializing_if = "Option::is_none")]
    pub priority: Option<Priority>,
    /// Whether it may be done beside its neighbours.
    #[serde(default, deserialize_with = "read_optional_field", skip_serializing_if = "Option::is_none")]
    pub execution: Option<Execution>,
    /// How dangerous it is.
    #[serde(default, deserialize_with = "read_optional_field", skip_serializing_if = "Option::is_none")]
    pub risk_tier: Option<RiskTier>,
    /// Whether the person must agree first.
    #[serde(default, deserialize_with = "read_optional_field", skip_serializing_if = "Option::is_none")]
    pub requires_user_approval: Option<bool>,
    /// How many milliseconds after its receipt it is too late.
    #[serde(
        default,
        deserialize_with = "read_optional_whole_number",
        skip_serializing_if = "Option::is_none"
    )]
    pub deadline_ms: Option<u64>,
    /// What it is about; its shape goes with the type.
    #[serde(default, deserialize_with = "read_optional_field", skip_serializing_if = "Option::is_none")]
    pub payload: Option<Map<String, Value>>,
    /// What vendors add.
    #[serde(default, deserialize_with = "read_optional_field", skip_serializing_if = "Option::is_none")]
    pub extensions: Option<Map<String, Value>>,
}

impl ActionDirective {
    /// Makes a directive that says nothing but its type.
    #[must_use]
    pub fn new(action_type: impl Into<String>) -> Self {
        Self {
            action_type: action_type.into(),
            priority: None,
            execution: None,
            risk_tier: None,
            requires_user_approval: None,
            deadline_ms: None,
            payload: None,
            extensions: None,
        }
    }

    /// Returns a text of the payload.
    #[must_use]
    pub fn payload_text(&self, name: &str) -> Option<&str> {
        self.payload.as_ref()?.get(name)?.as_str()
    }
}

/// How urgent a directive is. A word that is not known is [`Priority::Normal`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Priority {
    /// When there is time.
    Low,
    /// As usual.
    #[default]
    Normal,
    /// Soon.
    High,
    /// Before anything else.
    Critical,
}

/// Whether a directive may be done beside its neighbours. A word that is not known is [`Execution::Sequential`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Execution {
    /// After the one before it.
    #[default]
    Sequential,
    /// Beside those around it that say the same.
    Parallel,
}

/// How dangerous a directive is. A word that is not known is [`RiskTier::Dangerous`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RiskTier {
    /// Harmless.
    #[default]
    Safe,
    /// Changes something that can be changed back.
    Caution,
    /// Cannot be taken back, or nobody knows.
    Dangerous,
}

words!(Priority, "low" => Low, "normal" => Normal, "high" => High, "critical" => Critical, _ => Normal);
words!(Execution, "sequential" => Sequential, "parallel" => Parallel, _ => Sequential);
words!(RiskTier, "safe" => Safe, "caution" => Caution, "dangerous" => Dangerous, _ => Dangerous);
