//! The plan of a response: computed here, carried out elsewhere.
//!
//! Each directive is judged by itself: a directive that only draws never affects another one. So the steps that act,
//! and the questions, are the same whatever else the response shows.

use std::time::Duration;

use singletree_protocol::openharness::{
    ActionDirective, ActionType, MessageClass, RequestApproval, ResponseMessage, RiskTier, Status,
};

use super::perform::{Confirmation, Performance};
use super::profile::ShellProfile;
use super::question::EngineQuestion;
use super::speaker::ShellSession;
use super::text::to_plain_text;

/// The steps of a shell for one response, in order.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ResponsePlan {
    /// The code and the words of the engine's error, where the answer is one. Then there are no steps.
    pub failed: Option<(String, String)>,
    /// The steps.
    pub steps: Vec<ResponseStep>,
    /// Notes about them, for the developer of the shell.
    pub notes: Vec<DirectiveNote>,
}

/// One thing to do.
#[derive(Debug, Clone, PartialEq)]
pub enum ResponseStep {
    /// Show a text.
    Show {
        /// The text, [`to_plain_text`].
        text: String,
        /// The confirmation that a person must give first; mostly none.
        confirm: Option<Confirmation>,
        /// How long after the receipt of the answer a confirmation is too late. A text that needs none is never late.
        deadline: Option<Duration>,
    },
    /// Ask a person, and send the chosen answer.
    Ask {
        /// The question.
        question: Box<EngineQuestion>,
        /// How long after the receipt of the answer it is too late.
        deadline: Option<Duration>,
    },
    /// Let the hands do something.
    Perform(Box<Performance>),
}

/// A note about a directive that was not carried out as sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DirectiveNote {
    /// A type of action is not known, and nothing was done for it (§11).
    UnknownActionType(String),
    /// A type of action is part of a feature that was denied.
    Denied(String),
    /// A payload does not have the fields of its type.
    Malformed(String),
    /// So many directives were not looked at.
    TooMany(usize),
    /// It was too late for an action.
    TooLate(String),
    /// The person did not want an action.
    Declined(String),
    /// The hands could not do an action.
    Failed(String),
}

/// The step and the note of one directive.
type Judged = (Option<ResponseStep>, Option<DirectiveNote>);

impl ShellSession {
    /// Computes the steps of this shell for a response.
    #[must_use]
    pub fn plan_response(&self, answer: &ResponseMessage) -> ResponsePlan {
        let response = &answer.response;
        if response.status == Status::Error {
            let error = response.error.as_ref();
            let code = error.map_or_else(|| "unknown".to_owned(), |error| to_plain_text(&error.code));
            let words =
                error.and_then(|error| error.message.as_deref()).map(to_plain_text).unwrap_or_default();
            return ResponsePlan { failed: Some((code, words)), ..ResponsePlan::default() };
        }
        let mut plan = ResponsePlan::default();
        let (mut drawn, mut acting, mut dropped) = (0, 0, 0);
        for directive in response.action_directives.iter().flatten() {
            // Counted apart, so that directives that draw do not crowd out those that ask or act.
            let seen = if is_chat_directive(directive) { &mut drawn } else { &mut acting };
            *seen += 1;
            if *seen > self.profile().directives_max {
                dropped += 1;
                continue;
            }
            let (step, note) = self.judge_directive(directive, answer);
            plan.steps.extend(step);
            plan.notes.extend(note);
        }
        plan.notes.extend((dropped > 0).then_some(DirectiveNote::TooMany(dropped)));
        plan
    }

    fn judge_directive(&self, directive: &ActionDirective, answer: &ResponseMessage) -> Judged {
        let name = directive.action_type.as_str();
        let denied =
            ShellProfile::needed_capability(name).is_some_and(|needed| self.is_denied(needed, answer));
        if denied {
            return (show_text_step(directive), Some(DirectiveNote::Denied(to_plain_text(name))));
        }
        match ActionType::from_name(name) {
            Some(ActionType::Noop) => (None, None),
            Some(ActionType::RenderMessage) => judge_message(directive),
            Some(ActionType::RequestApproval) => judge_approval(directive),
            Some(ActionType::RenderUi | ActionType::SimulateAction | ActionType::RequestSignal) | None => {
                if self.profile().actions.contains(name) {
                    (Some(ResponseStep::Perform(Box::new(self.plan_performance(directive)))), None)
                } else {
                    // An unknown action is not carried out; its text can be shown (§11).
                    (show_text_step(directive), Some(DirectiveNote::UnknownActionType(to_plain_text(name))))
                }
            }
        }
    }

    /// Decides whether an action needs a confirmation. An action without a risk tier counts as dangerous.
    fn plan_performance(&self, directive: &ActionDirective) -> Performance {
        let risk = directive.risk_tier.unwrap_or(RiskTier::Dangerous);
        let required = directive.requires_user_approval == Some(true);
        let risky = risk > RiskTier::Safe && risk >= self.profile().confirm_from;
        let confirm = (required || risky).then(|| build_confirmation(directive, risk));
        Performance { directive: directive.clone(), confirm, deadline: action_deadline(directive) }
    }
}

fn judge_message(directive: &ActionDirective) -> Judged {
    let confirm = (directive.requires_user_approval == Some(true))
        .then(|| build_confirmation(directive, directive.risk_tier.unwrap_or_default()));
    match payload_text(directive, &["text", "message", "fallback_message"]) {
        Some(text) => {
            (Some(ResponseStep::Show { text, confirm, deadline: action_deadline(directive) }), None)
        }
        None => (None, Some(DirectiveNote::Malformed(to_plain_text(&directive.action_type)))),
    }
}

/// A question to a person. Asking it needs no approval of its own.
fn judge_approval(directive: &ActionDirective) -> Judged {
    match directive.payload_as::<RequestApproval>() {
        Some(asked) => {
            let risk = directive.risk_tier.unwrap_or(RiskTier::Dangerous);
            let question = Box::new(EngineQuestion::from_approval(&asked, risk));
            (Some(ResponseStep::Ask { question, deadline: action_deadline(directive) }), None)
        }
        None => {
            (show_text_step(directive), Some(DirectiveNote::Malformed(to_plain_text(&directive.action_type))))
        }
    }
}

/// Shows the text of a directive, if it has one.
fn show_text_step(directive: &ActionDirective) -> Option<ResponseStep> {
    let text = payload_text(directive, &["message", "fallback_message"])?;
    Some(ResponseStep::Show { text, confirm: None, deadline: None })
}

fn payload_text(directive: &ActionDirective, names: &[&str]) -> Option<String> {
    names.iter().find_map(|name| directive.payload_text(name)).map(to_plain_text)
}

fn build_confirmation(directive: &ActionDirective, risk: RiskTier) -> Confirmation {
    let payload = directive.payload.clone().map(serde_json::Value::Object).unwrap_or_default();
    Confirmation {
        action: to_plain_text(&directive.action_type),
        details: to_plain_text(&payload.to_string()),
        risk,
    }
}

fn action_deadline(directive: &ActionDirective) -> Option<Duration> {
    directive.deadline_ms.map(Duration::from_millis)
}

fn is_chat_directive(directive: &ActionDirective) -> bool {
    ActionType::from_name(&directive.action_type).is_some_and(|it| it.message_class() == MessageClass::Chat)
}
