//! What an engine answers (spec: OpenHarness §5.2, §13, §14).

use serde::{Deserialize, Serialize};
use serde_json::{Map, Number, Value};

use super::directive::ActionDirective;
use super::given::{
    read_object, read_object_or_nothing, read_optional_amount, read_optional_field, read_optional_object,
    read_optional_objects, read_optional_text, read_text, words,
};
use super::registry::{DenialCode, ErrorCode, NAMESPACE};
use super::request::Capabilities;
use super::version::ProtocolVersion;

/// An answer, whole.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ResponseMessage {
    /// The version of the wire format.
    pub protocol_version: ProtocolVersion,
    /// That of the request, if it had one.
    #[serde(default, deserialize_with = "read_optional_text", skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// That of the request, if it had one.
    #[serde(default, deserialize_with = "read_optional_text", skip_serializing_if = "Option::is_none")]
    pub correlation_id: Option<String>,
    /// The versions that the engine takes.
    #[serde(default, deserialize_with = "read_optional_field", skip_serializing_if = "Option::is_none")]
    pub supported_protocol_versions: Option<Vec<ProtocolVersion>>,
    /// What the shell gets of what it asked for.
    #[serde(default, deserialize_with = "read_optional_field", skip_serializing_if = "Option::is_none")]
    pub supported_capabilities: Option<Capabilities>,
    /// What the shell does not get.
    #[serde(default, deserialize_with = "read_optional_objects", skip_serializing_if = "Option::is_none")]
    pub capability_denials: Option<Vec<CapabilityDenial>>,
    /// The answer.
    #[serde(deserialize_with = "read_object")]
    pub response: ResponsePayload,
    /// What vendors add; the protocol names no such field here, so what is no object is ignored.
    #[serde(default, deserialize_with = "read_object_or_nothing", skip_serializing_if = "Option::is_none")]
    pub extensions: Option<Map<String, Value>>,
}

impl ResponseMessage {
    /// Makes an answer of the version that we speak, to nobody in particular.
    #[must_use]
    pub fn new(response: ResponsePayload) -> Self {
        Self {
            protocol_version: ProtocolVersion::supported(),
            request_id: None,
            correlation_id: None,
            supported_protocol_versions: Some(vec![ProtocolVersion::supported()]),
            supported_capabilities: None,
            capability_denials: None,
            response,
            extensions: None,
        }
    }
}

/// A feature that the shell does not get.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CapabilityDenial {
    /// Which.
    #[serde(deserialize_with = "read_text")]
    pub capability: String,
    /// Why, as a word.
    #[serde(default, deserialize_with = "read_optional_field", skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// Why, for people.
    #[serde(default, deserialize_with = "read_optional_field", skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

impl CapabilityDenial {
    /// Puts the parts together.
    #[must_use]
    pub fn new(capability: impl Into<String>, code: DenialCode, message: impl Into<String>) -> Self {
        let (code, message) = (Some(code.as_str().to_owned()), Some(message.into()));
        Self { capability: capability.into(), code, message }
    }
}

/// Whether it went well.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// It did.
    Success,
    /// It did not: see the error.
    Error,
}

words!(Status, "success" => Success, "error" => Error);

/// The answer itself. Its status is what counts: an error has no directives, a success no error.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ResponsePayload {
    /// Whether it went well.
    pub status: Status,
    /// How long the engine took, in milliseconds.
    #[serde(default, deserialize_with = "read_optional_amount", skip_serializing_if = "Option::is_none")]
    pub engine_latency_ms: Option<Number>,
    /// What is to be shown and done, in order.
    #[serde(default, deserialize_with = "read_optional_objects", skip_serializing_if = "Option::is_none")]
    pub action_directives: Option<Vec<ActionDirective>>,
    /// What went wrong.
    #[serde(default, deserialize_with = "read_optional_object", skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorObject>,
    /// What vendors add; the protocol names no such field here, so what is no object is ignored.
    #[serde(default, deserialize_with = "read_object_or_nothing", skip_serializing_if = "Option::is_none")]
    pub extensions: Option<Map<String, Value>>,
}

impl ResponsePayload {
    /// Makes a success.
    #[must_use]
    pub fn success(directives: Vec<ActionDirective>) -> Self {
        Self {
            status: Status::Success,
            engine_latency_ms: None,
            action_directives: Some(directives),
            error: None,
            extensions: None,
        }
    }

    /// Makes an error.
    #[must_use]
    pub fn error(error: ErrorObject) -> Self {
        Self {
            status: Status::Error,
            engine_latency_ms: None,
            action_directives: None,
            error: Some(error),
            extensions: None,
        }
    }

    /// Adds the names that the engine gave.
    #[must_use]
    pub fn with_issued(mut self, issued: &Issued) -> Self {
        if let Ok(names) = serde_json::to_value(issued) {
            self.extensions.get_or_insert_default().insert(NAMESPACE.to_owned(), names);
        }
        self
    }

    /// Returns the names that the engine gave, if it is one of ours.
    #[must_use]
    pub fn issued_names(&self) -> Option<Issued> {
        let names = self.extensions.as_ref()?.get(NAMESPACE)?;
        serde_json::from_value(names.clone()).ok()
    }
}

/// Names that the engine gave: our extension of an answer, under [`NAMESPACE`].
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Issued {
    /// The session: what a shell that named none goes on with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// The thread of it that the request named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversation_id: Option<String>,
    /// The run: what a continuation names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    /// The turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn_id: Option<String>,
}

/// What went wrong.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ErrorObject {
    /// As a word.
    #[serde(deserialize_with = "read_text")]
    pub code: String,
    /// For people; no secret, and nothing that anybody wrote.
    #[serde(default, deserialize_with = "read_optional_field", skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Whether the same again may go well.
    #[serde(default, deserialize_with = "read_optional_field", skip_serializing_if = "Option::is_none")]
    pub retryable: Option<bool>,
    /// For logs.
    #[serde(default, deserialize_with = "read_optional_field", skip_serializing_if = "Option::is_none")]
    pub details: Option<Map<String, Value>>,
}

impl ErrorObject {
    /// Makes an error of ours: whether it can be tried again goes with the code.
    #[must_use]
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self {
            code: code.as_str().to_owned(),
            message: Some(message.into()),
            retryable: Some(code.is_retryable()),
            details: None,
        }
    }

    /// Adds a detail.
    #[must_use]
    pub fn with_detail(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.details.get_or_insert_default().insert(name.to_owned(), value.into());
        self
    }
}
