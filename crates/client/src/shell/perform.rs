//! The actors of a conversation: a person who reads and decides, and hands that carry out the decisions.

use std::time::Duration;

use futures_util::future::LocalBoxFuture;
use singletree_protocol::openharness::{ActionDirective, RiskTier};

use super::plan::DirectiveNote;
use super::question::EngineQuestion;

/// An action for the hands.
#[derive(Debug, Clone, PartialEq)]
pub struct Performance {
    /// The action to carry out.
    pub directive: ActionDirective,
    /// The confirmation that a person must give first.
    pub confirm: Option<Confirmation>,
    /// How long after the receipt of the answer it is too late.
    pub deadline: Option<Duration>,
}

/// The confirmation that a person must give before an action runs here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Confirmation {
    /// The type of the action.
    pub action: String,
    /// The details of the action.
    pub details: String,
    /// How dangerous it is.
    pub risk: RiskTier,
}

/// Somebody who reads and decides.
pub trait PersonInterface {
    /// Shows a text.
    fn show_text(&mut self, text: &str);

    /// Reports a decision or a failure of the shell.
    fn report_note(&mut self, note: &DirectiveNote);

    /// Asks a question of the engine; returns which of its options was chosen, nothing when it is left open.
    fn ask_question<'a>(&'a mut self, question: &'a EngineQuestion) -> LocalBoxFuture<'a, Option<usize>>;

    /// Asks whether something may be done here. Whatever is not a clear yes is a no.
    fn ask_confirmation<'a>(&'a mut self, asked: &'a Confirmation) -> LocalBoxFuture<'a, bool>;
}

/// Carries out actions of the types that the shell's profile lists.
pub trait ActionExecutor {
    /// Does it, or says why it cannot be done.
    fn perform_action<'a>(
        &'a mut self,
        directive: &'a ActionDirective,
    ) -> LocalBoxFuture<'a, Result<(), String>>;
}

/// An executor that does nothing: for shells that only show and ask.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoActionExecutor;

impl ActionExecutor for NoActionExecutor {
    fn perform_action<'a>(
        &'a mut self,
        directive: &'a ActionDirective,
    ) -> LocalBoxFuture<'a, Result<(), String>> {
        let why = format!("this shell does nothing of the type {}", directive.action_type);
        Box::pin(std::future::ready(Err(why)))
    }
}
