//! Converts a message to its session and its wish (spec: OpenHarness §9; D16).

use serde_json::Value;
use singletree_durable::SessionId;
use singletree_llm::canonical_json;
use singletree_protocol::openharness::{
    AttachmentRef, Context, Continuation, EnvironmentState, Malformed, PrivacyTier, RequestMessage,
    find_embedded_bytes,
};

/// The maximum number of attachments of one message (INV-12).
pub(super) const ATTACHMENTS_MAX: usize = 16;

/// A request that can be executed.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct AdmittedShellRequest {
    pub(super) place: ShellThreadRef,
    pub(super) wish: RequestPurpose,
    /// The device's state, as far as models may see it.
    pub(super) environment: Option<EnvironmentState>,
    /// The request as one text, equal for equal requests, without data that may not be stored in any form.
    pub(super) text: String,
}

/// The session and the thread of a request, as the shell names them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct ShellThreadRef {
    pub(super) session_id: Option<String>,
    pub(super) conversation_id: Option<String>,
}

/// The purpose of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RequestPurpose {
    /// The person sends a message.
    Say(PersonMessageContent),
    /// The person answers a question.
    Decide { token: String, run_id: Option<String> },
    /// The shell asks for the state of a run.
    Show { run_id: String },
}

/// The content of a person's message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PersonMessageContent {
    pub(super) intent: String,
    pub(super) sop_id: Option<String>,
    pub(super) attachments: Vec<AttachmentRef>,
}

/// Reads a message, and checks that its parts are consistent.
pub(super) fn admit_request(
    message: &RequestMessage,
    raw: &Value,
) -> Result<AdmittedShellRequest, Malformed> {
    if let Some(place) = raw.get("request").and_then(find_embedded_bytes) {
        return Err(Malformed::at_field(place, "holds bytes; send a reference instead"));
    }
    let empty = Context::default();
    let context = message.request.context.as_ref().unwrap_or(&empty);
    let place = read_thread_ref(message, context)?;
    let attachments = context.attachments.clone().unwrap_or_default();
    check_attachments(&attachments)?;
    let sop_id = read_sop_id(context)?;
    let intent = context.user_intent.clone().filter(|user_intent| !user_intent.trim().is_empty());
    let go_on = context.continuation.clone().unwrap_or_default();
    let wish = match (go_on, intent, &sop_id) {
        (Continuation { continuation_token: Some(token), run_id, .. }, ..) => {
            RequestPurpose::Decide { token, run_id }
        }
        (_, Some(intent), _) => RequestPurpose::Say(PersonMessageContent { intent, sop_id, attachments }),
        (Continuation { run_id: Some(run_id), .. }, None, _) => RequestPurpose::Show { run_id },
        (_, None, Some(sop)) => {
            let business = context.task_hint.as_ref().and_then(|hint| hint.business_key.as_deref());
            RequestPurpose::Say(PersonMessageContent {
                intent: start_procedure_text(sop, business),
                sop_id,
                attachments,
            })
        }
        (_, None, None) if !attachments.is_empty() => {
            RequestPurpose::Say(PersonMessageContent { intent: String::new(), sop_id, attachments })
        }
        // The intent is recommended (spec: OpenHarness §9), but the request has to ask for something.
        (_, None, None) => {
            let why = "is missing, and nothing else says what to do";
            return Err(Malformed::at_field("context.user_intent", why));
        }
    };
    let environment = context
        .environment_state
        .clone()
        .filter(|environment_state| environment_state.privacy_tier() != PrivacyTier::Secret);
    Ok(AdmittedShellRequest { place, wish, environment, text: storable_request_text(raw) })
}

/// Returns the message of a request that names a procedure and has no intent.
pub(super) fn start_procedure_text(sop: &str, business: Option<&str>) -> String {
    match business.filter(|key| !key.trim().is_empty()) {
        Some(key) => format!("Start the procedure `{sop}` for `{key}`."),
        None => format!("Start the procedure `{sop}`."),
    }
}

fn read_thread_ref(message: &RequestMessage, context: &Context) -> Result<ShellThreadRef, Malformed> {
    let known = message.request.auth.as_ref().and_then(|auth| auth.session_id.clone());
    let session_id = match (context.session_id.clone(), known) {
        (Some(one), Some(other)) if one != other => {
            return Err(Malformed::at_field("auth.session_id", "is not the session of the context"));
        }
        (one, other) => one.or(other),
    };
    let place = ShellThreadRef { session_id, conversation_id: context.conversation_id.clone() };
    // Checks the parts, and then the session id made from them, which is longer.
    let parts =
        [("context.session_id", &place.session_id), ("context.conversation_id", &place.conversation_id)];
    for (field, part) in parts {
        part.as_ref()
            .map(SessionId::parse)
            .transpose()
            .map_err(|error| Malformed::at_field(field, error.to_string()))?;
    }
    let whole = place.to_session_id().map(SessionId::parse).transpose();
    whole.map_err(|error| Malformed::at_field("context.session_id", error.to_string()))?;
    Ok(place)
}

impl ShellThreadRef {
    /// Returns the harness's session, if the shell names one.
    ///
    /// Without a thread it is the shell's own id, so that other clients find the session under it. A thread has a
    /// session of its own: both parts with `#` between them. `#` and `%` in a part are written as `%23` and `%25`, so
    /// that two places never share a session.
    pub(super) fn to_session_id(&self) -> Option<String> {
        let session = escape_part(self.session_id.as_ref()?);
        Some(match &self.conversation_id {
            Some(conversation) => format!("{session}#{}", escape_part(conversation)),
            None => session,
        })
    }

    /// Returns the shell's names for a session of the harness.
    pub(super) fn from_session_id(session: &str) -> Self {
        let (session_id, conversation_id) = match session.split_once('#') {
            Some((session, conversation)) => (session, Some(unescape_part(conversation))),
            None => (session, None),
        };
        Self { session_id: Some(unescape_part(session_id)), conversation_id }
    }
}

fn escape_part(part: &str) -> String {
    part.replace('%', "%25").replace('#', "%23")
}

fn unescape_part(part: &str) -> String {
    part.replace("%23", "#").replace("%25", "%")
}

fn read_sop_id(context: &Context) -> Result<Option<String>, Malformed> {
    let hinted = context.task_hint.as_ref().and_then(|task_hint| task_hint.sop_id.clone());
    let continued = context.continuation.as_ref().and_then(|continuation| continuation.sop_id.clone());
    match (hinted, continued) {
        (Some(one), Some(other)) if one != other => {
            Err(Malformed::at_field("context.continuation.sop_id", "is not that of the task hint"))
        }
        (one, other) => Ok(one.or(other)),
    }
}

// spec: OpenHarness §9.1
fn check_attachments(attachments: &[AttachmentRef]) -> Result<(), Malformed> {
    if attachments.len() > ATTACHMENTS_MAX {
        return Err(Malformed::at_field("context.attachments", format!("has more than {ATTACHMENTS_MAX}")));
    }
    match attachments.iter().position(|attachment| !attachment.has_reference()) {
        Some(at) => {
            let why = "refers to nothing: it needs a ref_id, a uri or an asset_id";
            Err(Malformed::at_field(format!("context.attachments[{at}]"), why))
        }
        None => Ok(()),
    }
}

/// Returns the part of a request that may be digested and stored: without the device's state, unless it is public.
fn storable_request_text(raw: &Value) -> String {
    let mut raw = raw.clone();
    if let Some(Value::Object(context)) = raw.pointer_mut("/request/context") {
        let tier =
            context.get("environment_state").and_then(|it| it.get("privacy_tier")).and_then(Value::as_str);
        if tier != Some(PrivacyTier::Public.as_str()) {
            context.remove("environment_state");
        }
    }
    canonical_json(&raw)
}

#[cfg(test)]
mod tests;
