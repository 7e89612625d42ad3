//! A conversation of a person with an engine, through a shell.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use singletree_protocol::openharness::{Continuation, RequestMessage};

use super::perform::{ActionExecutor, Confirmation, Performance, PersonInterface};
use super::plan::{DirectiveNote, ResponseStep};
use super::question::EngineQuestion;
use super::speaker::ShellSession;
use super::text::to_plain_text;
use crate::engine::EngineClient;
use crate::error::Result;

/// The parts of a conversation.
pub struct ShellConversationParts<'a> {
    /// The engine that it talks to.
    pub engine: EngineClient,
    /// The shell, which plans the steps of each response.
    pub shell: ShellSession,
    /// The person who reads and decides.
    pub person: &'a mut dyn PersonInterface,
    /// The hands, which carry actions out.
    pub hands: &'a mut dyn ActionExecutor,
    /// Draws the ids of requests (INV-11).
    pub ids: &'a dyn Fn() -> String,
    /// Returns the time since an arbitrary start (INV-11).
    pub clock: &'a dyn Fn() -> Duration,
}

/// A conversation of a person with an engine.
pub struct ShellConversation<'a> {
    parts: ShellConversationParts<'a>,
}

/// How a round of a conversation ended.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ConversationRound {
    /// The code of the engine's error, if the last answer was one.
    pub failed: Option<String>,
    /// The questions that were left open.
    pub open: Vec<EngineQuestion>,
}

impl<'a> ShellConversation<'a> {
    /// Begins.
    #[must_use]
    pub fn new(parts: ShellConversationParts<'a>) -> Self {
        Self { parts }
    }

    /// Returns the shell, as it stands.
    #[must_use]
    pub fn shell(&self) -> &ShellSession {
        &self.parts.shell
    }

    /// Sends a text, carries out the steps of the response as far as they are allowed, and goes on with the decisions
    /// of the person, until nothing is left to do.
    ///
    /// # Errors
    /// As [`EngineClient::send_request`].
    ///
    /// # Cancellation
    /// Dropping the future ends the round; requests that the engine accepted are kept there.
    pub async fn send_intent(&mut self, intent: &str) -> Result<ConversationRound> {
        let request = self.parts.shell.request_for_intent(intent, (self.parts.ids)());
        self.run_round(request).await
    }

    /// Goes on with an answer to a question that was left open.
    ///
    /// # Errors
    /// As [`ShellConversation::send_intent`].
    ///
    /// # Cancellation
    /// As [`ShellConversation::send_intent`].
    pub async fn send_decision(&mut self, continuation: &Continuation) -> Result<ConversationRound> {
        let request = self.parts.shell.request_for_decision(continuation, (self.parts.ids)());
        self.run_round(request).await
    }

    async fn run_round(&mut self, first: RequestMessage) -> Result<ConversationRound> {
        let mut ended = ConversationRound::default();
        let mut requests = VecDeque::from([first]);
        while let Some(request) = requests.pop_front() {
            let answer = self.parts.engine.send_request(&request).await?;
            let received = (self.parts.clock)();
            self.parts.shell.apply_response(&answer);
            let plan = self.parts.shell.plan_response(&answer);
            for note in &plan.notes {
                self.parts.person.report_note(note);
            }
            ended.failed = plan.failed.as_ref().map(|(code, _)| code.clone());
            if let Some((code, words)) = &plan.failed {
                self.parts.person.show_text(if words.is_empty() { code } else { words });
            }
            for step in plan.steps {
                self.run_step(step, received, (&mut requests, &mut ended)).await;
            }
        }
        Ok(ended)
    }

    async fn run_step(
        &mut self,
        step: ResponseStep,
        received: Duration,
        (requests, ended): (&mut VecDeque<RequestMessage>, &mut ConversationRound),
    ) {
        match step {
            ResponseStep::Show { text, confirm, deadline } => {
                if let Some(asked) = &confirm
                    && !self.is_confirmed(asked, received, deadline).await
                {
                    return;
                }
                self.parts.person.show_text(&text);
            }
            ResponseStep::Ask { question, deadline } => {
                if self.is_past_deadline(received, deadline) {
                    self.parts.person.report_note(&DirectiveNote::TooLate(question.action));
                    return;
                }
                let chosen = self.parts.person.ask_question(&question).await;
                // A person may have taken their time.
                if self.is_past_deadline(received, deadline) {
                    self.parts.person.report_note(&DirectiveNote::TooLate(question.action));
                    return;
                }
                match chosen.and_then(|chosen| question.options.get(chosen)) {
                    Some(option) => {
                        requests.push_back(
                            self.parts.shell.request_for_decision(&option.continuation, (self.parts.ids)()),
                        );
                    }
                    None => ended.open.push(*question),
                }
            }
            ResponseStep::Perform(performance) => self.perform_action(&performance, received).await,
        }
    }

    async fn perform_action(&mut self, performance: &Performance, received: Duration) {
        let name = to_plain_text(&performance.directive.action_type);
        match &performance.confirm {
            Some(asked) if !self.is_confirmed(asked, received, performance.deadline).await => return,
            None if self.is_past_deadline(received, performance.deadline) => {
                self.parts.person.report_note(&DirectiveNote::TooLate(name));
                return;
            }
            Some(_) | None => {}
        }
        if let Err(why) = self.parts.hands.perform_action(&performance.directive).await {
            self.parts.person.report_note(&DirectiveNote::Failed(to_plain_text(&why)));
        }
    }

    /// Asks a person whether a directive may be carried out; a no, and a yes that comes too late, are noted.
    async fn is_confirmed(
        &mut self,
        asked: &Confirmation,
        received: Duration,
        deadline: Option<Duration>,
    ) -> bool {
        if !self.parts.person.ask_confirmation(asked).await {
            self.parts.person.report_note(&DirectiveNote::Declined(asked.action.clone()));
            return false;
        }
        // A person may have taken their time.
        if self.is_past_deadline(received, deadline) {
            self.parts.person.report_note(&DirectiveNote::TooLate(asked.action.clone()));
            return false;
        }
        true
    }

    fn is_past_deadline(&self, received: Duration, deadline: Option<Duration>) -> bool {
        deadline.is_some_and(|deadline| (self.parts.clock)().saturating_sub(received) >= deadline)
    }
}

impl fmt::Debug for ShellConversationParts<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShellConversationParts").field("shell", &self.shell).finish_non_exhaustive()
    }
}

impl fmt::Debug for ShellConversation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShellConversation").field("shell", &self.parts.shell).finish_non_exhaustive()
    }
}
