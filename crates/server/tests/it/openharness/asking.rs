//! A shell that asks, and looks at every answer as a strict one would.

use bytes::Bytes;
use hyper::Method;
use serde_json::{Value, json};
use singletree_protocol::openharness::{ActionType, DenialCode, ErrorCode, ResponseMessage};

use super::schema;
use crate::support::{Answer, Client, Rig};

pub(super) const PATH: &str = "/v1/openharness";

/// Somebody who asks an engine.
#[derive(Debug, Clone)]
pub(super) struct Shell(pub(super) Client);

impl Shell {
    pub(super) fn of(rig: &Rig) -> Self {
        Self(rig.client())
    }

    /// Sends a message, which has to be understood as one.
    pub(super) async fn ask(&self, message: &Value) -> Value {
        let answer = self.post(message).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()
    }

    /// Sends a message.
    pub(super) async fn post(&self, message: &Value) -> Answer {
        checked(self.0.post(PATH, message).await)
    }

    /// Sends any bytes.
    pub(super) async fn post_bytes(&self, bytes: impl Into<Bytes>) -> Answer {
        let client = self.0.clone().with("content-type", "application/json");
        checked(client.send_bytes(Method::POST, PATH, bytes.into()).await)
    }

    /// Says something in a session.
    pub(super) async fn say(&self, session: &str, intent: &str) -> Value {
        self.ask(&saying(session, intent)).await
    }

    /// Uses a continuation.
    pub(super) async fn decide(&self, continuation: &Value) -> Value {
        self.ask(&message(json!({ "continuation": continuation }))).await
    }
}

/// Checks that an answer is one of the protocol, and says nothing that is not in the table.
pub(super) fn checked(answer: Answer) -> Answer {
    let value = answer.json();
    schema::check_response(&value);
    let read = ResponseMessage::from_json_bytes(&answer.body).unwrap();
    let directives = read.response.action_directives.unwrap_or_default();
    for directive in &directives {
        let known = ActionType::from_name(&directive.action_type);
        assert!(known.is_some_and(|it| ActionType::EMITTED.contains(&it)), "{directive:?}");
    }
    for denial in read.capability_denials.iter().flatten() {
        assert!(denial.code.as_deref().and_then(DenialCode::from_name).is_some(), "{denial:?}");
    }
    let failed = value["response"]["status"] == "error";
    assert_eq!(failed, read.response.error.is_some(), "{value}");
    assert!(!failed || directives.is_empty(), "{value}");
    if let Some(error) = read.response.error {
        let code = ErrorCode::from_name(&error.code).unwrap();
        assert_eq!(error.retryable, Some(code.is_retryable()), "{value}");
    }
    answer
}

/// A message about something.
pub(super) fn message(context: Value) -> Value {
    json!({ "protocol_version": "1.0.0", "request": { "context": context } })
}

/// A message that says something in a session.
pub(super) fn saying(session: &str, intent: &str) -> Value {
    message(json!({ "session_id": session, "user_intent": intent }))
}

/// The same with an id.
pub(super) fn with_id(mut message: Value, id: &str) -> Value {
    message["request_id"] = id.into();
    message
}

/// The directives of an answer.
pub(super) fn directives(answer: &Value) -> Vec<Value> {
    answer["response"]["action_directives"].as_array().cloned().unwrap_or_else(|| panic!("{answer}"))
}

/// The texts that an answer shows.
pub(super) fn texts(answer: &Value) -> Vec<String> {
    let shown = directives(answer).into_iter().filter(|it| it["action_type"] == "render_message");
    shown.map(|it| it["payload"]["text"].as_str().unwrap().to_owned()).collect()
}

/// The question that an answer asks.
pub(super) fn question(answer: &Value) -> Value {
    let asked = directives(answer).into_iter().find(|it| it["action_type"] == "request_approval");
    asked.unwrap_or_else(|| panic!("{answer}"))
}

/// The continuation of one decision.
pub(super) fn option(answer: &Value, decision: &str) -> Value {
    let options = question(answer)["payload"]["options"].clone();
    let one = options.as_array().unwrap().iter().find(|it| it["id"] == decision).cloned();
    one.unwrap_or_else(|| panic!("{answer}"))["continuation"].clone()
}

/// The error of an answer: its code and the place of the mistake.
pub(super) fn error(answer: &Value) -> (String, Option<String>) {
    let error = &answer["response"]["error"];
    let text = |it: &Value| it.as_str().map(ToOwned::to_owned);
    (text(&error["code"]).unwrap_or_else(|| panic!("{answer}")), text(&error["details"]["field"]))
}
