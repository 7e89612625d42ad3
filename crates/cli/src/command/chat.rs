//! `singletree chat`: a conversation in a terminal.

use std::io::{self, IsTerminal};

use singletree::harness::{PendingWait, TurnPromptPolicy};
use singletree::{Chat, ChatMessage, ChatTurnOutcome, SendOptions, Turn, TurnId};

use super::{chat_there, piped, sessions, slash};
use crate::args::{self, AnswerArgument, PolicyName};
use crate::ask;
use crate::error::{Error, Result};
use crate::exit::COMPLETED;
use crate::follow::{InterruptEffect, follow_turn};
use crate::narration_screen::TerminalNarration;
use crate::place::DatabaseLocation;
use crate::print::{TerminalOutput, TextStyle};
use crate::prompt::{PromptEditor, PromptInput};
use crate::served::{self, ChatLocation};
use crate::turn_view::{PROMPT, TurnView};
use crate::wire::Workspace;

/// The question about an action.
pub(super) const QUESTION: &str = "approve, reject or later? ";
/// The question about any other wait.
pub(super) const OPEN_QUESTION: &str = "a JSON object, or later? ";
/// Who answers at a terminal, as it is recorded.
const FROM: &str = "terminal";

/// One conversation, and where it is shown.
pub(super) struct TerminalConversation<'a> {
    pub(super) chat: &'a Chat,
    pub(super) session: &'a str,
    /// Which agent was asked for.
    pub(super) agent: Option<&'a str>,
    /// What a new session shows its model.
    pub(super) policy: Option<PolicyName>,
    pub(super) workspace: &'a Workspace,
    pub(super) screen: TerminalOutput,
}

/// Runs the command.
pub(crate) async fn run_chat_command(args: args::Chat) -> Result<u8> {
    let place = DatabaseLocation::from_options(&args.db)?;
    let open = Workspace::open_with_agents(&place, &args.who, "chat");
    let workspace = match served::locate_chat(&place, &args.server, open).await? {
        ChatLocation::Here(workspace) => *workspace,
        ChatLocation::There(served) => return chat_there::run_remote_chat(args, &place, &served).await,
    };
    let code = chat_in_workspace(args, &place, &workspace).await;
    let code = workspace.redact_result(code);
    workspace.close_gracefully().await;
    code
}

async fn chat_in_workspace(args: args::Chat, place: &DatabaseLocation, workspace: &Workspace) -> Result<u8> {
    workspace.check_agent(args.agent.as_deref())?;
    let last = place.last_session().filter(|_| !args.new);
    let asked = (args.agent.as_deref(), args.policy);
    let session = workspace.choose_session(args.session.clone(), last, asked).await?;
    place.remember_session(&session)?;
    let typed = io::stdin().is_terminal() && io::stdout().is_terminal();
    let screen = if typed {
        TerminalOutput::standard_output().into_interactive()
    } else {
        TerminalOutput::standard_output()
    };
    let chat = &workspace.chat;
    let (agent, policy) = (args.agent.as_deref(), args.policy);
    let mut talk = TerminalConversation { chat, session: &session, agent, policy, workspace, screen };
    // From a pipe the output is the conversation's alone.
    let mut err = TerminalOutput::standard_error();
    talk.show_introduction(place, workspace.about.as_deref(), if typed { None } else { Some(&mut err) })
        .await?;
    let interrupt = if typed { InterruptEffect::CancelsTurn } else { InterruptEffect::EndsProcess };
    talk.finish_accepted_turns(interrupt).await?;
    if !typed {
        piped::show_pending_waits(&mut talk).await?;
        return piped::run_piped_chat(&mut talk).await;
    }
    let mut prompt = PromptEditor::new(place.input_history_path())?;
    talk.ask_about_all_waits(&mut prompt).await?;
    talk.run_input_loop(&mut prompt).await?;
    Ok(COMPLETED)
}

impl TerminalConversation<'_> {
    /// Says where the conversation is kept, and which one it is.
    async fn show_introduction(
        &mut self,
        place: &DatabaseLocation,
        about: Option<&str>,
        elsewhere: Option<&mut TerminalOutput>,
    ) -> Result<()> {
        let known = match self.chat.session(self.session).info().await {
            Ok(info) => {
                let kind =
                    if info.prompt_policy == TurnPromptPolicy::Command { ", takes commands" } else { "" };
                format!("{}, {}{kind}", info.agent, sessions::format_message_count(info.messages))
            }
            Err(singletree::harness::Error::SessionUnknown { .. }) => "new".to_owned(),
            Err(error) => return Err(error.into()),
        };
        let hint = if elsewhere.is_none() { ". /help lists the commands." } else { "" };
        let screen = elsewhere.unwrap_or(&mut self.screen);
        screen
            .write_styled_line(TextStyle::Dim, &format!("singletree {}{hint}", env!("CARGO_PKG_VERSION")))?;
        screen.write_styled_line(TextStyle::Dim, &format!("database: {}", place.shown_name()))?;
        if let Some(about) = about {
            screen.write_styled_line(TextStyle::Dim, &format!("agents:   {about}"))?;
        }
        screen.write_styled_line(TextStyle::Dim, &format!("session:  {} ({known})", self.session))?;
        let mut others = ask::list_pending_waits(self.chat, None).await?;
        others.retain(|other| other.session != self.session);
        if !others.is_empty() {
            let count = ask::describe_wait_count(&others, "other ");
            screen.write_styled_line(
                TextStyle::Strong,
                &format!("waiting:  {count}: singletree pending{}", place.database_option()),
            )?;
        }
        Ok(())
    }

    /// Finishes the turns that were accepted before a process died: those of this session on the screen, others in
    /// the background.
    async fn finish_accepted_turns(&mut self, interrupt: InterruptEffect) -> Result<()> {
        let (ours, others): (Vec<Turn>, Vec<Turn>) =
            self.chat.sweep().await?.into_iter().partition(|it| it.session() == self.session);
        if !others.is_empty() {
            let text = format!("finishing in other sessions: {}", others.len());
            self.screen.write_styled_line(TextStyle::Dim, &text)?;
        }
        if !ours.is_empty() {
            self.screen.write_styled_line(TextStyle::Dim, "finishing what was accepted before:")?;
        }
        for turn in ours {
            let view = TurnView::with_user_messages().narrating(self.live_narration().await);
            follow_turn(self.chat, &turn, view, &mut self.screen, interrupt).await?;
        }
        Ok(())
    }

    /// Reads messages and commands until the user leaves.
    async fn run_input_loop(&mut self, prompt: &mut PromptEditor) -> Result<()> {
        loop {
            let coloured = self.screen.apply_style(TextStyle::Strong, PROMPT);
            let PromptInput::Line(line) = prompt.read_line(PROMPT, coloured).await? else { return Ok(()) };
            if line.is_empty() {
                continue;
            }
            prompt.remember_line(&line)?;
            if let Some(command) = line.strip_prefix('/') {
                if slash::run_slash_command(self, prompt, command).await? == slash::SlashOutcome::Leave {
                    return Ok(());
                }
                continue;
            }
            match self.send_message(&line).await {
                Ok(true) => self.ask_about_all_waits(prompt).await?,
                Ok(false) => {}
                // Refused: nothing happened, and the conversation goes on.
                Err(error @ (Error::Refused(_) | Error::Harness(_))) => {
                    error.show_error(&mut self.screen)?;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Sends a message, shows its turn, and returns whether something waits now.
    async fn send_message(&mut self, text: &str) -> Result<bool> {
        let options = SendOptions::new().listen();
        let options = match self.agent {
            Some(agent) => options.agent(agent),
            None => options,
        };
        let options = match self.policy {
            Some(policy) => options.policy(policy.to_prompt_policy()),
            None => options,
        };
        let turn = self.chat.session(self.session).submit(ChatMessage::user(text), options).await?;
        self.show_turn(&turn, TurnView::with_indentation()).await
    }

    /// Retries a turn, shows the new one, and returns whether something waits now.
    pub(super) async fn retry_turn(&mut self, failed: &TurnId) -> Result<bool> {
        let turn = self.chat.retry(failed, SendOptions::new().listen()).await?;
        self.show_turn(&turn, TurnView::with_indentation()).await
    }

    /// Returns the narration that is shown while a turn runs: where the agent takes commands.
    pub(super) async fn live_narration(&self) -> Option<(TerminalNarration, String)> {
        let info = self.chat.session(self.session).info().await.ok()?;
        let takes_commands = info.prompt_policy == TurnPromptPolicy::Command;
        takes_commands.then(|| (self.workspace.narration.clone(), self.session.to_owned()))
    }

    async fn show_turn(&mut self, turn: &Turn, view: TurnView) -> Result<bool> {
        let view = view.narrating(self.live_narration().await);
        let outcome =
            follow_turn(self.chat, turn, view, &mut self.screen, InterruptEffect::CancelsTurn).await?;
        // A turn stands apart from the next one.
        self.screen.write_line("")?;
        Ok(matches!(outcome.as_ref(), ChatTurnOutcome::Suspended(_)))
    }

    /// Asks about everything that waits in this session, until nothing does or the user puts it off.
    pub(super) async fn ask_about_all_waits(&mut self, prompt: &mut PromptEditor) -> Result<()> {
        loop {
            let waits = ask::list_pending_waits(self.chat, Some(self.session)).await?;
            let mut again = false;
            for (at, wait) in waits.iter().enumerate() {
                if waits.len() > 1 {
                    self.screen
                        .write_styled_line(TextStyle::Dim, &format!("{} of {}:", at + 1, waits.len()))?;
                }
                match self.ask_about_wait(prompt, wait).await {
                    Ok(suspended) => again |= suspended,
                    // It expired meanwhile, or somebody else answered.
                    Err(error @ (Error::Refused(_) | Error::Harness(_))) => {
                        error.show_error(&mut self.screen)?;
                    }
                    Err(error) => return Err(error),
                }
            }
            if !again {
                return Ok(());
            }
        }
    }

    /// Asks about one wait, and returns whether its answer led to another.
    async fn ask_about_wait(&mut self, prompt: &mut PromptEditor, wait: &PendingWait) -> Result<bool> {
        ask::show_pending_wait(wait, &mut self.screen)?;
        let question = if wait.wait.action.is_some() { QUESTION } else { OPEN_QUESTION };
        let reply = loop {
            let coloured = self.screen.apply_style(TextStyle::Strong, question);
            let PromptInput::Line(line) = prompt.read_line(question, coloured).await? else { break None };
            match parse_decision(&line) {
                TypedDecision::Later => break None,
                TypedDecision::Now(reply) => break Some(reply),
                TypedDecision::Unclear if line.is_empty() => {}
                TypedDecision::Unclear => {
                    self.screen.write_styled_line(TextStyle::Dim, "  one of the words, or y or n")?
                }
            }
        };
        let Some(reply) = reply else {
            self.screen.write_styled_line(TextStyle::Dim, "  later: /pending asks again")?;
            return Ok(false);
        };
        let view = TurnView::with_indentation();
        let view = match (&reply, &wait.descriptor.metadata) {
            (AnswerArgument::Approved(true), Some(metadata)) => view.awaiting_call(metadata),
            _ => view,
        };
        let turn = ask::answer_shown_wait(self.chat, wait, reply, Some(FROM.to_owned())).await?;
        self.show_turn(&turn, view).await
    }
}

/// A person's decision.
#[derive(Debug, PartialEq)]
pub(super) enum TypedDecision {
    Now(AnswerArgument),
    Later,
    Unclear,
}

/// Reads a decision: a word or its first letter, `reject` also with a reason behind it, or an object. Whatever else
/// stands behind a word makes it unclear.
pub(super) fn parse_decision(line: &str) -> TypedDecision {
    let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let rest = rest.trim();
    match (word.to_lowercase().as_str(), rest) {
        ("later" | "l", "") => TypedDecision::Later,
        ("approve" | "a" | "yes" | "y", "") => TypedDecision::Now(AnswerArgument::Approved(true)),
        ("reject" | "r" | "no" | "n", "") => TypedDecision::Now(AnswerArgument::Approved(false)),
        ("reject", reason) => {
            let reason = reason.strip_prefix("because ").unwrap_or(reason).trim();
            let fields = [("approved".to_owned(), false.into()), ("reason".to_owned(), reason.into())];
            TypedDecision::Now(AnswerArgument::Fields(fields.into_iter().collect()))
        }
        _ => line.parse().map_or(TypedDecision::Unclear, TypedDecision::Now),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_their_first_letters_and_objects_are_decisions() {
        let check = |line: &str, expect: TypedDecision| assert_eq!(parse_decision(line), expect, "{line}");
        check("approve", TypedDecision::Now(AnswerArgument::Approved(true)));
        check("Reject", TypedDecision::Now(AnswerArgument::Approved(false)));
        check("later", TypedDecision::Later);
        check("{\"a\": 1}", TypedDecision::Now("{\"a\": 1}".parse().unwrap()));
        for yes in ["y", "a", "Yes", "A"] {
            check(yes, TypedDecision::Now(AnswerArgument::Approved(true)));
        }
        for no in ["n", "r", "no"] {
            check(no, TypedDecision::Now(AnswerArgument::Approved(false)));
        }
        let reason = "{\"approved\": false, \"reason\": \"Bob left\"}".parse().unwrap();
        check("reject because Bob left", TypedDecision::Now(reason));
        for unclear in ["", "approve it", "yes but later", "no way", "1", "[]"] {
            check(unclear, TypedDecision::Unclear);
        }
    }
}
