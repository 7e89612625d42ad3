//! `singletree chat` beside a server, or at one elsewhere: each message waits for its reply.

use std::io::{self, IsTerminal};

use singletree_protocol::native::Wait;

use super::chat::{Decision, OPEN_QUESTION, QUESTION, decision};
use crate::args;
use crate::error::{Error, Result};
use crate::exit::{COMPLETED, SUSPENDED};
use crate::place::Place;
use crate::print::{Screen, Style};
use crate::prompt::{Prompt, Said, next_line};
use crate::served::{ServedChat, show_wait};
use crate::turn_view::PROMPT;
use crate::wire::fresh;

/// Runs the command.
pub(super) async fn run(args: args::Chat, place: &Place, served: &ServedChat) -> Result<u8> {
    let is_beside = args.server.url.is_none();
    let last = place.last_session().filter(|_| is_beside && !args.new);
    let session = args.session.or(last).unwrap_or_else(fresh);
    if is_beside {
        place.remember(&session)?;
    }
    let mut talk = Talk { served, session, agent: args.agent };
    if !(io::stdin().is_terminal() && io::stdout().is_terminal()) {
        return talk.read_lines().await;
    }
    let mut screen = Screen::out().live();
    screen.styled(Style::Dim, &format!("singletree {}. /quit leaves.", env!("CARGO_PKG_VERSION")))?;
    screen.styled(Style::Dim, &format!("server:   {}", served.url()))?;
    screen.styled(Style::Dim, &format!("session:  {}", talk.session))?;
    place.make()?;
    let mut prompt = Prompt::new(place.typed())?;
    talk.ask_all(&mut prompt, &mut screen).await?;
    talk.converse(&mut prompt, &mut screen).await?;
    Ok(COMPLETED)
}

/// A conversation behind a server.
struct Talk<'a> {
    served: &'a ServedChat,
    session: String,
    agent: Option<String>,
}

impl Talk<'_> {
    /// Sends each line of the input as a message; returns the code of the last turn.
    async fn read_lines(&mut self) -> Result<u8> {
        let mut screen = Screen::out();
        let mut code = COMPLETED;
        while let Some(line) = next_line().await? {
            if !line.trim().is_empty() {
                code = self.send(line.trim(), &mut screen).await?;
            }
        }
        Ok(code)
    }

    async fn send(&self, text: &str, screen: &mut Screen) -> Result<u8> {
        let message = (text.to_owned(), self.agent.clone(), None);
        self.served.send(&self.session, message, (false, screen)).await
    }

    async fn converse(&mut self, prompt: &mut Prompt, screen: &mut Screen) -> Result<()> {
        loop {
            let coloured = screen.paint(Style::Strong, PROMPT);
            let Said::Line(line) = prompt.read(PROMPT, coloured).await? else { return Ok(()) };
            match line.as_str() {
                "" => continue,
                "/quit" => return Ok(()),
                "/pending" => {
                    self.ask_all(prompt, screen).await?;
                    continue;
                }
                command if command.starts_with('/') => {
                    screen.line("beside a server there are /pending and /quit")?;
                    continue;
                }
                _ => {}
            }
            prompt.remember(&line)?;
            match self.send(&line, screen).await {
                Ok(code) => {
                    if code == SUSPENDED {
                        self.decide_all(prompt, screen).await?;
                    }
                    screen.line("")?;
                }
                Err(error @ Error::Client(_)) => screen.error(error.category(), &error.text())?,
                Err(error) => return Err(error),
            }
        }
    }

    /// Shows everything that waits in this session, and asks about it.
    async fn ask_all(&mut self, prompt: &mut Prompt, screen: &mut Screen) -> Result<()> {
        let waits = match self.served.waiting(&self.session).await {
            Ok(waits) => waits,
            // The session does not exist yet.
            Err(Error::Client(error)) if error.category() == "chat_session_unknown" => return Ok(()),
            Err(error) => return Err(error),
        };
        for wait in &waits {
            show_wait(wait, screen)?;
        }
        self.decide_all(prompt, screen).await
    }

    /// Asks about what waits and stands on the screen, until nothing does or the user puts it off.
    async fn decide_all(&mut self, prompt: &mut Prompt, screen: &mut Screen) -> Result<()> {
        loop {
            let waits = match self.served.waiting(&self.session).await {
                Ok(waits) => waits,
                Err(Error::Client(error)) if error.category() == "chat_session_unknown" => return Ok(()),
                Err(error) => return Err(error),
            };
            let mut is_suspended_again = false;
            for wait in &waits {
                is_suspended_again |= self.decide(wait, prompt, screen).await? == SUSPENDED;
            }
            if !is_suspended_again {
                return Ok(());
            }
        }
    }

    async fn decide(&mut self, wait: &Wait, prompt: &mut Prompt, screen: &mut Screen) -> Result<u8> {
        let question = if wait.action.is_some() { QUESTION } else { OPEN_QUESTION };
        loop {
            let coloured = screen.paint(Style::Strong, question);
            let Said::Line(line) = prompt.read(question, coloured).await? else { return Ok(COMPLETED) };
            match decision(&line) {
                Decision::Later => {
                    screen.styled(Style::Dim, "  later: /pending asks again")?;
                    return Ok(COMPLETED);
                }
                Decision::Now(reply) => return self.served.decide(wait, reply, screen).await,
                Decision::Unclear => {}
            }
        }
    }
}
