//! `singletree chat` beside a server, or at one elsewhere: each message waits for its reply.

use std::io::{self, IsTerminal};

use singletree_protocol::native::Wait;

use super::chat::{OPEN_QUESTION, QUESTION, TypedDecision, decision};
use super::slash::NOTHING_SAID;
use crate::args;
use crate::error::{Error, Result};
use crate::exit::{COMPLETED, SUSPENDED};
use crate::place::DatabaseLocation;
use crate::print::{TerminalOutput, TextStyle};
use crate::prompt::{PromptEditor, PromptInput, next_line};
use crate::served::{ServedChat, show_wait};
use crate::turn_view::PROMPT;
use crate::wire::fresh;

/// Runs the command.
pub(super) async fn run(args: args::Chat, place: &DatabaseLocation, served: &ServedChat) -> Result<u8> {
    let is_beside = args.server.url.is_none();
    let last = place.last_session().filter(|_| is_beside && !args.new);
    let session = args.session.or(last).unwrap_or_else(fresh);
    if is_beside {
        place.remember(&session)?;
    }
    let mut talk = RemoteConversation { served, session, agent: args.agent };
    if !(io::stdin().is_terminal() && io::stdout().is_terminal()) {
        return talk.read_lines().await;
    }
    let mut screen = TerminalOutput::out().live();
    screen.styled(TextStyle::Dim, &format!("singletree {}. /quit leaves.", env!("CARGO_PKG_VERSION")))?;
    screen.styled(TextStyle::Dim, &format!("server:   {}", served.url()))?;
    screen.styled(TextStyle::Dim, &format!("session:  {}", talk.session))?;
    place.make()?;
    let mut prompt = PromptEditor::new(place.typed())?;
    talk.ask_all(&mut prompt, &mut screen).await?;
    talk.converse(&mut prompt, &mut screen).await?;
    Ok(COMPLETED)
}

/// A conversation behind a server.
struct RemoteConversation<'a> {
    served: &'a ServedChat,
    session: String,
    agent: Option<String>,
}

impl RemoteConversation<'_> {
    /// Sends each line of the input as a message; returns the code of the last turn.
    async fn read_lines(&mut self) -> Result<u8> {
        let mut screen = TerminalOutput::out();
        let mut code = COMPLETED;
        while let Some(line) = next_line().await? {
            if !line.trim().is_empty() {
                code = self.send(line.trim(), &mut screen).await?;
            }
        }
        Ok(code)
    }

    async fn send(&self, text: &str, screen: &mut TerminalOutput) -> Result<u8> {
        let message = (text.to_owned(), self.agent.clone(), None);
        self.served.send(&self.session, message, (false, screen)).await
    }

    async fn retry(&self, screen: &mut TerminalOutput) -> Result<u8> {
        let failed = match self.served.last_failed(&self.session).await {
            Ok(failed) => failed,
            Err(Error::Client(error)) if error.category() == "chat_session_unknown" => {
                screen.line(NOTHING_SAID)?;
                return Ok(COMPLETED);
            }
            Err(error) => return Err(error),
        };
        self.served.retry((&self.session, &failed), None, (false, screen)).await
    }

    async fn converse(&mut self, prompt: &mut PromptEditor, screen: &mut TerminalOutput) -> Result<()> {
        loop {
            let coloured = screen.paint(TextStyle::Strong, PROMPT);
            let PromptInput::Line(line) = prompt.read(PROMPT, coloured).await? else { return Ok(()) };
            match line.as_str() {
                "" => continue,
                "/quit" => return Ok(()),
                "/pending" => {
                    self.ask_all(prompt, screen).await?;
                    continue;
                }
                "/history" | "/sessions" => {
                    let shown = match line.as_str() {
                        "/history" => self.served.show_history(&self.session, screen).await,
                        _ => self.served.list_sessions(screen).await,
                    };
                    match shown {
                        // The key has no permission to read, or the server is unreachable: the chat continues.
                        Err(error @ Error::Client(_)) => error.show(screen)?,
                        shown => shown?,
                    }
                    continue;
                }
                "/retry" => {}
                command if command.starts_with('/') => {
                    screen
                        .line("beside a server there are /sessions, /history, /pending, /retry and /quit")?;
                    continue;
                }
                _ => {}
            }
            prompt.remember(&line)?;
            let told = match line.as_str() {
                "/retry" => self.retry(screen).await,
                text => self.send(text, screen).await,
            };
            match told {
                Ok(code) => {
                    if code == SUSPENDED {
                        self.decide_all(true, prompt, screen).await?;
                    }
                    screen.line("")?;
                }
                Err(error @ (Error::Client(_) | Error::Usage(_))) => error.show(screen)?,
                Err(error) => return Err(error),
            }
        }
    }

    /// Shows and asks about each pending wait of this session, until there is none or the user puts it off.
    async fn ask_all(&mut self, prompt: &mut PromptEditor, screen: &mut TerminalOutput) -> Result<()> {
        self.decide_all(false, prompt, screen).await
    }

    /// Asks about each pending wait, until there is none or the user puts it off. With `is_shown`, a single wait is
    /// already on the screen; of several, each is shown before its question, so that nobody approves the wrong one.
    async fn decide_all(
        &mut self,
        is_shown: bool,
        prompt: &mut PromptEditor,
        screen: &mut TerminalOutput,
    ) -> Result<()> {
        let mut is_shown = is_shown;
        loop {
            let waits = match self.served.waiting(&self.session).await {
                Ok(waits) => waits,
                // The session does not exist yet.
                Err(Error::Client(error)) if error.category() == "chat_session_unknown" => return Ok(()),
                Err(error) => return Err(error),
            };
            let mut is_suspended_again = false;
            for wait in &waits {
                if !is_shown || waits.len() > 1 {
                    show_wait(wait, screen)?;
                }
                is_suspended_again |= self.decide(wait, prompt, screen).await? == SUSPENDED;
            }
            if !is_suspended_again {
                return Ok(());
            }
            // The outcome of the resumed turn has shown its wait.
            is_shown = true;
        }
    }

    async fn decide(
        &mut self,
        wait: &Wait,
        prompt: &mut PromptEditor,
        screen: &mut TerminalOutput,
    ) -> Result<u8> {
        let question = if wait.action.is_some() { QUESTION } else { OPEN_QUESTION };
        loop {
            let coloured = screen.paint(TextStyle::Strong, question);
            let PromptInput::Line(line) = prompt.read(question, coloured).await? else {
                return Ok(COMPLETED);
            };
            match decision(&line) {
                TypedDecision::Later => {
                    screen.styled(TextStyle::Dim, "  later: /pending asks again")?;
                    return Ok(COMPLETED);
                }
                TypedDecision::Now(reply) => match self.served.decide(wait, reply, screen).await {
                    // The wait may have expired, or somebody else answered it: the chat goes on.
                    Err(error @ Error::Client(_)) => {
                        error.show(screen)?;
                        return Ok(COMPLETED);
                    }
                    decided => return decided,
                },
                TypedDecision::Unclear => {}
            }
        }
    }
}
