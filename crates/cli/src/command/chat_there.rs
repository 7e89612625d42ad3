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

    async fn retry(&self, screen: &mut Screen) -> Result<u8> {
        let failed = match self.served.last_failed(&self.session).await {
            Ok(failed) => failed,
            Err(Error::Client(error)) if error.category() == "chat_session_unknown" => {
                screen.line("nothing was said yet")?;
                return Ok(COMPLETED);
            }
            Err(error) => return Err(error),
        };
        self.served.retry((&self.session, &failed), None, (false, screen)).await
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
                "/retry" => {}
                command if command.starts_with('/') => {
                    screen.line("beside a server there are /pending, /retry and /quit")?;
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
    async fn ask_all(&mut self, prompt: &mut Prompt, screen: &mut Screen) -> Result<()> {
        self.decide_all(false, prompt, screen).await
    }

    /// Asks about each pending wait, until there is none or the user puts it off. With `is_shown`, a single wait is
    /// already on the screen; of several, each is shown before its question, so that nobody approves the wrong one.
    async fn decide_all(&mut self, is_shown: bool, prompt: &mut Prompt, screen: &mut Screen) -> Result<()> {
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
                Decision::Now(reply) => match self.served.decide(wait, reply, screen).await {
                    // The wait may have expired, or somebody else answered it: the chat goes on.
                    Err(error @ Error::Client(_)) => {
                        error.show(screen)?;
                        return Ok(COMPLETED);
                    }
                    decided => return decided,
                },
                Decision::Unclear => {}
            }
        }
    }
}
