//! What a shell asks (spec: OpenHarness §5.1, §6, §7, §9).

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::attachment::AttachmentRef;
use super::environment::EnvironmentState;
use super::given::{
    read_object, read_optional_field, read_optional_object, read_optional_objects, read_optional_text,
};
use super::version::ProtocolVersion;

/// Features by their names; the values are for who knows the feature (§5.3).
pub type Capabilities = Map<String, Value>;

/// A request, whole.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RequestMessage {
    /// The version of the wire format.
    pub protocol_version: ProtocolVersion,
    /// What makes the same request the same; comes back with the answer.
    #[serde(default, deserialize_with = "read_optional_text", skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// What traces and logs go by; comes back with the answer.
    #[serde(default, deserialize_with = "read_optional_text", skip_serializing_if = "Option::is_none")]
    pub correlation_id: Option<String>,
    /// What the shell can do, or asks for.
    #[serde(default, deserialize_with = "read_optional_field", skip_serializing_if = "Option::is_none")]
    pub capabilities: Option<Capabilities>,
    /// What is asked.
    #[serde(deserialize_with = "read_object")]
    pub request: RequestPayload,
}

impl RequestMessage {
    /// Makes a request of the version that we speak.
    #[must_use]
    pub fn new(request: RequestPayload) -> Self {
        let protocol_version = ProtocolVersion::supported();
        Self { protocol_version, request_id: None, correlation_id: None, capabilities: None, request }
    }
}

/// What is asked.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct RequestPayload {
    /// References to who asks; never a secret.
    #[serde(default, deserialize_with = "read_optional_object", skip_serializing_if = "Option::is_none")]
    pub auth: Option<Auth>,
    /// What it is about.
    #[serde(default, deserialize_with = "read_optional_object", skip_serializing_if = "Option::is_none")]
    pub context: Option<Context>,
    /// What vendors add.
    #[serde(default, deserialize_with = "read_optional_field", skip_serializing_if = "Option::is_none")]
    pub extensions: Option<Map<String, Value>>,
}

/// References to who asks: the transport says who it is (§7).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Auth {
    /// The tenant.
    #[serde(default, deserialize_with = "read_optional_field", skip_serializing_if = "Option::is_none")]
    pub tenant_id: Option<String>,
    /// A name of the credential that the transport carries.
    #[serde(default, deserialize_with = "read_optional_field", skip_serializing_if = "Option::is_none")]
    pub credential_ref: Option<String>,
    /// The session, as in the context.
    #[serde(default, deserialize_with = "read_optional_field", skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
}

/// What a request is about (§9).
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Context {
    /// The long-lived line between a person and the engine.
    #[serde(default, deserialize_with = "read_optional_field", skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// A thread of it.
    #[serde(default, deserialize_with = "read_optional_field", skip_serializing_if = "Option::is_none")]
    pub conversation_id: Option<String>,
    /// What the person wants, in their words.
    #[serde(default, deserialize_with = "read_optional_field", skip_serializing_if = "Option::is_none")]
    pub user_intent: Option<String>,
    /// Hints for routing.
    #[serde(default, deserialize_with = "read_optional_object", skip_serializing_if = "Option::is_none")]
    pub task_hint: Option<TaskHint>,
    /// What to go on with.
    #[serde(default, deserialize_with = "read_optional_object", skip_serializing_if = "Option::is_none")]
    pub continuation: Option<Continuation>,
    /// The state of the device.
    #[serde(default, deserialize_with = "read_optional_field", skip_serializing_if = "Option::is_none")]
    pub environment_state: Option<EnvironmentState>,
    /// References to files and pictures.
    #[serde(default, deserialize_with = "read_optional_objects", skip_serializing_if = "Option::is_none")]
    pub attachments: Option<Vec<AttachmentRef>>,
    /// Who the shell is.
    #[serde(default, deserialize_with = "read_optional_object", skip_serializing_if = "Option::is_none")]
    pub shell: Option<ShellIdentity>,
    /// What vendors add.
    #[serde(default, deserialize_with = "read_optional_field", skip_serializing_if = "Option::is_none")]
    pub extensions: Option<Map<String, Value>>,
}

/// Hints for routing.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TaskHint {
    /// Which procedure is to be followed.
    #[serde(default, deserialize_with = "read_optional_field", skip_serializing_if = "Option::is_none")]
    pub sop_id: Option<String>,
    /// Which plugin is meant.
    #[serde(default, deserialize_with = "read_optional_field", skip_serializing_if = "Option::is_none")]
    pub plugin_id: Option<String>,
    /// What it is about, in the business's own terms.
    #[serde(default, deserialize_with = "read_optional_field", skip_serializing_if = "Option::is_none")]
    pub business_key: Option<String>,
}

/// What to go on with: opaque names that the engine gave (§9.2). `Debug` does not show the token.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Continuation {
    /// The run.
    #[serde(default, deserialize_with = "read_optional_field", skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    /// The procedure.
    #[serde(default, deserialize_with = "read_optional_field", skip_serializing_if = "Option::is_none")]
    pub sop_id: Option<String>,
    /// The next step.
    #[serde(default, deserialize_with = "read_optional_field", skip_serializing_if = "Option::is_none")]
    pub continuation_token: Option<String>,
}

impl fmt::Debug for Continuation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Continuation")
            .field("run_id", &self.run_id)
            .field("sop_id", &self.sop_id)
            .field("continuation_token", &self.continuation_token.as_ref().map(|_| ".."))
            .finish()
    }
}

/// Who the shell is (§6).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ShellIdentity {
    /// Its family.
    #[serde(default, deserialize_with = "read_optional_text", skip_serializing_if = "Option::is_none")]
    pub shell_kind: Option<String>,
    /// Its version.
    #[serde(default, deserialize_with = "read_optional_field", skip_serializing_if = "Option::is_none")]
    pub shell_version: Option<String>,
    /// The person's language, as BCP 47 has it.
    #[serde(default, deserialize_with = "read_optional_field", skip_serializing_if = "Option::is_none")]
    pub locale: Option<String>,
    /// The person's time zone, by its IANA name.
    #[serde(default, deserialize_with = "read_optional_field", skip_serializing_if = "Option::is_none")]
    pub timezone: Option<String>,
}
