//! The parts of a request that are read first: the ids that the answer returns, and the version.

use serde_json::Value;
use singletree_protocol::openharness::{ErrorCode, ErrorObject, ProtocolVersion, SUPPORTED};

use super::failure::EngineErrorResponse;

/// The ids of a request, as far as they can be returned (spec: OpenHarness §5.2): none is invented.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct ReturnableRequestIds {
    pub(super) request_id: Option<String>,
    pub(super) correlation_id: Option<String>,
}

impl ReturnableRequestIds {
    pub(super) fn from_message(message: &Value) -> Self {
        let id = |name: &str| {
            let text = message.get(name).and_then(Value::as_str);
            text.filter(|text| !text.is_empty()).map(ToOwned::to_owned)
        };
        Self { request_id: id("request_id"), correlation_id: id("correlation_id") }
    }
}

/// Checks the version before anything else is read: another version may give the rest another meaning (§3, D18).
pub(super) fn check_protocol_version(message: &Value) -> Result<(), EngineErrorResponse> {
    let version = message.get("protocol_version").and_then(Value::as_str);
    match version.map(str::parse::<ProtocolVersion>) {
        Some(Ok(version)) if !version.is_supported() => {
            let why = format!("this engine takes the versions {} of the wire format", supported_versions());
            Err(ErrorObject::new(ErrorCode::ProtocolVersionUnsupported, why).into())
        }
        // A version that cannot be parsed is reported with its field later, as every other mistake.
        Some(Ok(_) | Err(_)) | None => Ok(()),
    }
}

/// Returns the supported versions, for people.
pub(super) fn supported_versions() -> String {
    let major = SUPPORTED.split('.').next().unwrap_or(SUPPORTED);
    format!("{major}.x.y")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    // spec: OpenHarness §5.2
    #[test]
    fn ids_come_back_that_are_texts_and_none_is_made_up() {
        let opening = ReturnableRequestIds::from_message(
            &json!({"request_id": "r", "correlation_id": 7, "request": []}),
        );
        assert_eq!(opening, ReturnableRequestIds { request_id: Some("r".into()), correlation_id: None });
        assert_eq!(
            ReturnableRequestIds::from_message(&json!({"request_id": ""})),
            ReturnableRequestIds::default()
        );
    }

    // spec: OpenHarness §3
    #[test]
    fn only_another_major_version_is_unsupported() {
        let code = |version: Value| {
            let checked = check_protocol_version(&json!({"protocol_version": version, "request": 7}));
            checked.err().map(|it| it.error.code)
        };
        assert_eq!(code(json!("1.9.0-rc.1")), None);
        assert_eq!(code(json!("2.0.0")).as_deref(), Some("protocol_version_unsupported"));
        assert_eq!([code(json!("two")), code(json!(2)), code(Value::Null)], [None, None, None]);
    }
}
