//! A shell: the requests that it makes, and the state that it keeps from responses.

use std::collections::BTreeSet;

use singletree_protocol::openharness::{
    AttachmentRef, Capability, Context, Continuation, EnvironmentState, Malformed, PrivacyTier,
    RequestMessage, RequestPayload, ResponseMessage, TaskHint, find_embedded_bytes,
};

use super::profile::ShellProfile;

/// A shell: its profile, the session that it talks in, and its denied features.
#[derive(Debug, Clone, PartialEq)]
pub struct ShellSession {
    profile: ShellProfile,
    session_id: Option<String>,
    conversation_id: Option<String>,
    sop_id: Option<String>,
    denied: BTreeSet<String>,
}

impl ShellSession {
    /// Makes a shell that talks in a session, or in a new one.
    #[must_use]
    pub fn new(profile: ShellProfile, session_id: Option<String>) -> Self {
        Self { profile, session_id, conversation_id: None, sop_id: None, denied: BTreeSet::new() }
    }

    /// Talks in a thread of the session.
    #[must_use]
    pub fn conversation(mut self, id: impl Into<String>) -> Self {
        self.conversation_id = Some(id.into());
        self
    }

    /// Follows a procedure.
    #[must_use]
    pub fn sop(mut self, id: impl Into<String>) -> Self {
        self.sop_id = Some(id.into());
        self
    }

    /// Returns the profile.
    #[must_use]
    pub fn profile(&self) -> &ShellProfile {
        &self.profile
    }

    /// Returns the session, once there is one.
    #[must_use]
    pub fn session_id(&self) -> Option<&str> {
        self.session_id.as_deref()
    }

    /// Makes the request for a person's text.
    #[must_use]
    pub fn request_for_intent(&self, intent: &str, request_id: String) -> RequestMessage {
        let context = Context { user_intent: Some(intent.to_owned()), ..self.build_context() };
        self.build_message(context, request_id)
    }

    /// As [`ShellSession::request_for_intent`], with references to files, and with the state of the device's environment.
    ///
    /// The privacy tier of the state is restricted, unless the state names another.
    ///
    /// # Errors
    /// Where bytes stand instead of references, where a reference refers to nothing, and when the engine takes no
    /// files: no request is made.
    pub fn request_with_attachments(
        &self,
        intent: &str,
        attachments: Vec<AttachmentRef>,
        environment: Option<EnvironmentState>,
        request_id: String,
    ) -> Result<RequestMessage, Malformed> {
        const FIELD: &str = "context.attachments";
        if !attachments.is_empty() && self.denied.contains(Capability::Attachments.as_str()) {
            return Err(Malformed::at_field(FIELD, "the engine takes none"));
        }
        if let Some(at) = attachments.iter().position(|attachment| !attachment.has_reference()) {
            return Err(Malformed::at_field(format!("{FIELD}[{at}]"), "refers to nothing"));
        }
        let labelled = |it: EnvironmentState| EnvironmentState {
            privacy_tier: Some(it.privacy_tier.unwrap_or(PrivacyTier::Restricted)),
            ..it
        };
        let context = Context {
            user_intent: Some(intent.to_owned()),
            attachments: Some(attachments).filter(|value| !value.is_empty()),
            environment_state: environment.map(labelled),
            ..self.build_context()
        };
        let message = self.build_message(context, request_id);
        let written = serde_json::to_value(&message.request);
        let written = written.map_err(|_| Malformed::at_field("context", "cannot be written"))?;
        match find_embedded_bytes(&written) {
            Some(place) => Err(Malformed::at_field(place, "holds bytes; send a reference instead")),
            None => Ok(message),
        }
    }

    /// Makes the request for a person's decision: the continuation of the chosen option, as the engine sent it, and no
    /// text of the conversation.
    #[must_use]
    pub fn request_for_decision(&self, continuation: &Continuation, request_id: String) -> RequestMessage {
        let context = Context {
            continuation: Some(continuation.clone()),
            session_id: self.session_id.clone(),
            conversation_id: self.conversation_id.clone(),
            shell: Some(self.profile.identity.clone()),
            ..Context::default()
        };
        self.build_message(context, request_id)
    }

    /// Stores the session and the denied features that a response names.
    pub fn apply_response(&mut self, answer: &ResponseMessage) {
        if self.session_id.is_none() {
            self.session_id = answer.response.issued_names().and_then(|it| it.session_id);
        }
        if let Some(denials) = &answer.capability_denials {
            self.denied = denials.iter().map(|denial| denial.capability.clone()).collect();
        }
    }

    /// Tells whether a feature was denied, in this answer or in the last one that spoke of features.
    pub(super) fn is_denied(&self, capability: Capability, answer: &ResponseMessage) -> bool {
        let name = capability.as_str();
        match &answer.capability_denials {
            Some(denials) => denials.iter().any(|denial| denial.capability == name),
            None => self.denied.contains(name),
        }
    }

    fn build_context(&self) -> Context {
        Context {
            session_id: self.session_id.clone(),
            conversation_id: self.conversation_id.clone(),
            task_hint: self
                .sop_id
                .clone()
                .map(|sop_id| TaskHint { sop_id: Some(sop_id), ..TaskHint::default() }),
            shell: Some(self.profile.identity.clone()),
            ..Context::default()
        }
    }

    fn build_message(&self, context: Context, request_id: String) -> RequestMessage {
        let auth = self.profile.auth.clone();
        let payload = RequestPayload { auth, context: Some(context), extensions: None };
        RequestMessage {
            request_id: Some(request_id),
            capabilities: Some(self.profile.capabilities.clone()),
            ..RequestMessage::new(payload)
        }
    }
}
