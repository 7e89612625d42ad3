//! A question of the engine, as a person sees it.

use singletree_protocol::openharness::{ApprovalOption, Continuation, Decision, RequestApproval, RiskTier};

use super::text::to_plain_text;

/// A question of the engine: whether something may be done there. Everything in it that people read is [`to_plain_text`].
#[derive(Debug, Clone, PartialEq)]
pub struct EngineQuestion {
    /// A few words.
    pub title: String,
    /// The question.
    pub prompt: String,
    /// The action that needs approval.
    pub action: String,
    /// Its arguments.
    pub arguments: String,
    /// The digest of them.
    pub params_sha256: String,
    /// How dangerous it is.
    pub risk: RiskTier,
    /// Until when, as RFC 3339 has it.
    pub expires_at: Option<String>,
    /// The name under which it waits.
    pub signal_id: String,
    /// The answers that there are; none where it is answered elsewhere.
    pub options: Vec<ApprovalOption>,
}

impl EngineQuestion {
    pub(super) fn from_approval(asked: &RequestApproval, risk: RiskTier) -> Self {
        // An answer that carries nothing is none.
        let usable = |it: &&ApprovalOption| it.continuation.continuation_token.is_some();
        let options = asked.options.iter().filter(usable);
        let shown = |it: &ApprovalOption| ApprovalOption { label: to_plain_text(&it.label), ..it.clone() };
        Self {
            title: to_plain_text(&asked.title),
            prompt: to_plain_text(&asked.prompt),
            action: to_plain_text(&asked.action.name),
            arguments: to_plain_text(&asked.action.params_summary),
            params_sha256: to_plain_text(&asked.action.params_sha256),
            risk,
            expires_at: asked.expires_at.as_deref().map(to_plain_text),
            signal_id: to_plain_text(&asked.signal_id),
            options: options.map(shown).collect(),
        }
    }

    /// Returns the continuation that a request with this decision carries.
    #[must_use]
    pub fn continuation_for(&self, decision: Decision) -> Option<&Continuation> {
        self.options.iter().find(|option| option.id == decision.as_str()).map(|option| &option.continuation)
    }
}
