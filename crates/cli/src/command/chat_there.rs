//! `singletree chat` beside a server, or at one elsewhere: each message waits for its reply.

use std::io::{self, IsTerminal};

use singletree_protocol::native::Wait;

use super::artifact_command::ArtifactCommand;
use super::chat::{OPEN_QUESTION, QUESTION, TypedDecision, parse_decision};
use super::slash::NOTHING_SAID;
use crate::args::{self, PolicyName};
use crate::error::{Error, Result};
use crate::exit::{COMPLETED, SUSPENDED};
use crate::place::DatabaseLocation;
use crate::print::{TerminalOutput, TextStyle};
use crate::prompt::{PromptEditor, PromptInput, read_stdin_line};
use crate::served::{ServedChat, show_remote_wait};
use crate::turn_view::PROMPT;

/// The line about commands that there are not.
const COMMANDS: &str = "beside a server there are /sessions, /history, /narration, /artifacts, /show, /propose, \
                        /approve, /pending, /retry and /quit";

/// Runs the command.
pub(super) async fn run_remote_chat(
    args: args::Chat,
    place: &DatabaseLocation,
    served: &ServedChat,
) -> Result<u8> {
    let is_beside = args.server.url.is_none();
    let last = place.last_session().filter(|_| is_beside && !args.new);
    let session = served.choose_session((args.session, last), args.policy).await?;
    if is_beside {
        place.remember_session(&session)?;
    }
    let mut talk = RemoteConversation { served, session, agent: args.agent, policy: args.policy, seen: None };
    if !(io::stdin().is_terminal() && io::stdout().is_terminal()) {
        return talk.send_input_lines().await;
    }
    let mut screen = TerminalOutput::standard_output().into_interactive();
    screen.write_styled_line(
        TextStyle::Dim,
        &format!("singletree {}. /quit leaves.", env!("CARGO_PKG_VERSION")),
    )?;
    screen.write_styled_line(TextStyle::Dim, &format!("server:   {}", served.server_url()))?;
    screen.write_styled_line(TextStyle::Dim, &format!("session:  {}", talk.session))?;
    place.create_folder()?;
    let mut prompt = PromptEditor::new(place.input_history_path())?;
    talk.ask_about_all_waits(&mut prompt, &mut screen).await?;
    talk.run_input_loop(&mut prompt, &mut screen).await?;
    Ok(COMPLETED)
}

/// A conversation behind a server.
struct RemoteConversation<'a> {
    served: &'a ServedChat,
    session: String,
    agent: Option<String>,
    policy: Option<PolicyName>,
    /// The last piece of narration that was shown.
    seen: Option<String>,
}

impl RemoteConversation<'_> {
    /// Sends each line of the input as a message; returns the code of the last turn.
    async fn send_input_lines(&mut self) -> Result<u8> {
        let mut screen = TerminalOutput::standard_output();
        let mut code = COMPLETED;
        while let Some(line) = read_stdin_line().await? {
            if !line.trim().is_empty() {
                code = self.send_message(line.trim(), &mut screen).await?;
            }
        }
        Ok(code)
    }

    async fn send_message(&self, text: &str, screen: &mut TerminalOutput) -> Result<u8> {
        let message = (text.to_owned(), self.agent.clone(), self.policy);
        self.served.send_message(&self.session, message, None, (false, screen)).await
    }

    /// Shows what was narrated meanwhile, where the agent takes commands.
    async fn show_new_narration(&mut self, screen: &mut TerminalOutput) -> Result<()> {
        if self.served.takes_commands(&self.session).await {
            self.served.show_new_narration(&self.session, &mut self.seen, screen).await?;
        }
        Ok(())
    }

    async fn retry_last_failed_turn(&self, screen: &mut TerminalOutput) -> Result<u8> {
        let failed = match self.served.find_last_failed_turn(&self.session).await {
            Ok(failed) => failed,
            Err(Error::Client(error)) if error.category() == "chat_session_unknown" => {
                screen.write_line(NOTHING_SAID)?;
                return Ok(COMPLETED);
            }
            Err(error) => return Err(error),
        };
        self.served.retry_turn((&self.session, &failed), None, (false, screen)).await
    }

    async fn run_input_loop(&mut self, prompt: &mut PromptEditor, screen: &mut TerminalOutput) -> Result<()> {
        loop {
            let coloured = screen.apply_style(TextStyle::Strong, PROMPT);
            let PromptInput::Line(line) = prompt.read_line(PROMPT, coloured).await? else { return Ok(()) };
            match line.as_str() {
                "" => continue,
                "/quit" => return Ok(()),
                "/pending" => {
                    self.ask_about_all_waits(prompt, screen).await?;
                    continue;
                }
                "/history" | "/sessions" | "/narration" => {
                    let shown = match line.as_str() {
                        "/history" => self.served.show_history(&self.session, screen).await,
                        "/narration" => self.served.show_narration(&self.session, screen).await,
                        _ => self.served.list_sessions(screen).await,
                    };
                    match shown {
                        // The key has no permission to read, or the server is unreachable: the chat continues.
                        Err(error @ Error::Client(_)) => error.show_error(screen)?,
                        shown => shown?,
                    }
                    continue;
                }
                "/retry" => {}
                command if command.starts_with('/') => {
                    match ArtifactCommand::from_line(&command[1..]) {
                        Some(command) => self.run_artifact_command(command, prompt, screen).await?,
                        None => screen.write_line(COMMANDS)?,
                    }
                    continue;
                }
                _ => {}
            }
            prompt.remember_line(&line)?;
            let told = match line.as_str() {
                "/retry" => self.retry_last_failed_turn(screen).await,
                text => self.send_message(text, screen).await,
            };
            match told {
                Ok(code) => {
                    self.show_new_narration(screen).await?;
                    if code == SUSPENDED {
                        self.decide_all_waits(true, prompt, screen).await?;
                    }
                    screen.write_line("")?;
                }
                Err(error @ (Error::Client(_) | Error::Usage(_))) => error.show_error(screen)?,
                Err(error) => return Err(error),
            }
        }
    }

    async fn run_artifact_command(
        &self,
        command: ArtifactCommand,
        prompt: &mut PromptEditor,
        screen: &mut TerminalOutput,
    ) -> Result<()> {
        let shelf = self.served.artifact_shelf(&self.session);
        match command.run_at_shelf(&shelf, prompt, screen).await {
            // The server refused it, or is unreachable: the chat continues.
            Err(error @ (Error::Client(_) | Error::Usage(_))) => Ok(error.show_error(screen)?),
            ran => ran,
        }
    }

    /// Shows and asks about each pending wait of this session, until there is none or the user puts it off.
    async fn ask_about_all_waits(
        &mut self,
        prompt: &mut PromptEditor,
        screen: &mut TerminalOutput,
    ) -> Result<()> {
        self.decide_all_waits(false, prompt, screen).await
    }

    /// Asks about each pending wait, until there is none or the user puts it off. With `is_shown`, a single wait is
    /// already on the screen; of several, each is shown before its question, so that nobody approves the wrong one.
    async fn decide_all_waits(
        &mut self,
        is_shown: bool,
        prompt: &mut PromptEditor,
        screen: &mut TerminalOutput,
    ) -> Result<()> {
        let mut is_shown = is_shown;
        loop {
            let waits = match self.served.list_pending_waits(&self.session).await {
                Ok(waits) => waits,
                // The session does not exist yet.
                Err(Error::Client(error)) if error.category() == "chat_session_unknown" => return Ok(()),
                Err(error) => return Err(error),
            };
            let mut is_suspended_again = false;
            for wait in &waits {
                if !is_shown || waits.len() > 1 {
                    show_remote_wait(wait, screen)?;
                }
                is_suspended_again |= self.decide_wait(wait, prompt, screen).await? == SUSPENDED;
            }
            if !is_suspended_again {
                return Ok(());
            }
            // The outcome of the resumed turn has shown its wait.
            is_shown = true;
        }
    }

    async fn decide_wait(
        &mut self,
        wait: &Wait,
        prompt: &mut PromptEditor,
        screen: &mut TerminalOutput,
    ) -> Result<u8> {
        let question = if wait.action.is_some() { QUESTION } else { OPEN_QUESTION };
        loop {
            let coloured = screen.apply_style(TextStyle::Strong, question);
            let PromptInput::Line(line) = prompt.read_line(question, coloured).await? else {
                return Ok(COMPLETED);
            };
            match parse_decision(&line) {
                TypedDecision::Later => {
                    screen.write_styled_line(TextStyle::Dim, "  later: /pending asks again")?;
                    return Ok(COMPLETED);
                }
                TypedDecision::Now(reply) => {
                    match self.served.answer_at_terminal(wait, reply, screen).await {
                        // The wait may have expired, or somebody else answered it: the chat goes on.
                        Err(error @ Error::Client(_)) => {
                            error.show_error(screen)?;
                            return Ok(COMPLETED);
                        }
                        decided => return decided,
                    }
                }
                TypedDecision::Unclear => {}
            }
        }
    }
}
