//! `singletree chat`: a conversation in a terminal.

use std::io::{self, IsTerminal};

use singletree::harness::PendingWait;
use singletree::{Chat, ChatMessage, ChatTurnOutcome, SendOptions, Turn, TurnId};

use super::{chat_there, piped, sessions, slash};
use crate::args::{self, AnswerArgument};
use crate::ask::{self, AnswerInstructions};
use crate::error::{Error, Result};
use crate::exit::COMPLETED;
use crate::follow::{InterruptEffect, follow};
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
    /// How somebody could answer who is not asked.
    pub(super) here: &'a AnswerInstructions,
    pub(super) screen: TerminalOutput,
}

/// Runs the command.
pub(crate) async fn run(args: args::Chat) -> Result<u8> {
    let place = DatabaseLocation::of(args.db.db.as_deref())?;
    let open = Workspace::open(&place, &args.who, "chat");
    let house = match served::reach(&place, &args.server, open).await? {
        ChatLocation::Here(house) => *house,
        ChatLocation::There(served) => return chat_there::run(args, &place, &served).await,
    };
    let code = talk(args, &place, &house).await;
    let code = house.clean(code);
    house.close().await;
    code
}

async fn talk(args: args::Chat, place: &DatabaseLocation, house: &Workspace) -> Result<u8> {
    house.check_agent(args.agent.as_deref())?;
    let last = place.last_session().filter(|_| !args.new);
    let session = house.session(args.session.clone(), last, args.agent.as_deref()).await?;
    place.remember(&session)?;
    let typed = io::stdin().is_terminal() && io::stdout().is_terminal();
    let screen = if typed { TerminalOutput::out().live() } else { TerminalOutput::out() };
    let chat = &house.chat;
    let (agent, here) = (args.agent.as_deref(), &house.here);
    let mut talk = TerminalConversation { chat, session: &session, agent, here, screen };
    // From a pipe the output is the conversation's alone.
    let mut err = TerminalOutput::err();
    talk.introduce(place, house.about.as_deref(), if typed { None } else { Some(&mut err) }).await?;
    let interrupt = if typed { InterruptEffect::CancelsTurn } else { InterruptEffect::EndsProcess };
    talk.finish_accepted(interrupt).await?;
    if !typed {
        piped::show_waiting(&mut talk).await?;
        return piped::run(&mut talk).await;
    }
    let mut prompt = PromptEditor::new(place.typed())?;
    talk.ask_all(&mut prompt).await?;
    talk.converse(&mut prompt).await?;
    Ok(COMPLETED)
}

impl TerminalConversation<'_> {
    /// Says where the conversation is kept, and which one it is.
    async fn introduce(
        &mut self,
        place: &DatabaseLocation,
        about: Option<&str>,
        elsewhere: Option<&mut TerminalOutput>,
    ) -> Result<()> {
        let known = match self.chat.session_info(self.session).await {
            Ok(info) => format!("{}, {}", info.agent, sessions::count(info.messages)),
            Err(singletree::harness::Error::SessionUnknown { .. }) => "new".to_owned(),
            Err(error) => return Err(error.into()),
        };
        let hint = if elsewhere.is_none() { ". /help lists the commands." } else { "" };
        let screen = elsewhere.unwrap_or(&mut self.screen);
        screen.styled(TextStyle::Dim, &format!("singletree {}{hint}", env!("CARGO_PKG_VERSION")))?;
        screen.styled(TextStyle::Dim, &format!("database: {}", place.db().display()))?;
        if let Some(about) = about {
            screen.styled(TextStyle::Dim, &format!("agents:   {about}"))?;
        }
        screen.styled(TextStyle::Dim, &format!("session:  {} ({known})", self.session))?;
        let mut others = ask::waiting(self.chat, None).await?;
        others.retain(|other| other.session != self.session);
        if !others.is_empty() {
            let count = ask::count(&others, "other ");
            screen.styled(
                TextStyle::Strong,
                &format!("waiting:  {count}: singletree pending{}", place.again()),
            )?;
        }
        Ok(())
    }

    /// Finishes the turns that were accepted before a process died: those of this session on the screen, others in
    /// the background.
    async fn finish_accepted(&mut self, interrupt: InterruptEffect) -> Result<()> {
        let (ours, others): (Vec<Turn>, Vec<Turn>) =
            self.chat.sweep().await?.into_iter().partition(|it| it.session() == self.session);
        if !others.is_empty() {
            let text = format!("finishing in other sessions: {}", others.len());
            self.screen.styled(TextStyle::Dim, &text)?;
        }
        if !ours.is_empty() {
            self.screen.styled(TextStyle::Dim, "finishing what was accepted before:")?;
        }
        for turn in ours {
            follow(self.chat, &turn, TurnView::echoing(), &mut self.screen, interrupt).await?;
        }
        Ok(())
    }

    /// Reads messages and commands until the user leaves.
    async fn converse(&mut self, prompt: &mut PromptEditor) -> Result<()> {
        loop {
            let coloured = self.screen.paint(TextStyle::Strong, PROMPT);
            let PromptInput::Line(line) = prompt.read(PROMPT, coloured).await? else { return Ok(()) };
            if line.is_empty() {
                continue;
            }
            prompt.remember(&line)?;
            if let Some(command) = line.strip_prefix('/') {
                if slash::run(self, prompt, command).await? == slash::SlashOutcome::Leave {
                    return Ok(());
                }
                continue;
            }
            match self.send(&line).await {
                Ok(true) => self.ask_all(prompt).await?,
                Ok(false) => {}
                // Refused: nothing happened, and the conversation goes on.
                Err(error @ (Error::Refused(_) | Error::Harness(_))) => {
                    error.show(&mut self.screen)?;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Sends a message, shows its turn, and returns whether something waits now.
    async fn send(&mut self, text: &str) -> Result<bool> {
        let options = SendOptions::new().listen();
        let options = match self.agent {
            Some(agent) => options.agent(agent),
            None => options,
        };
        let turn = self.chat.submit(self.session, ChatMessage::user(text), options).await?;
        self.follow(&turn).await
    }

    /// Retries a turn, shows the new one, and returns whether something waits now.
    pub(super) async fn retry(&mut self, failed: &TurnId) -> Result<bool> {
        let turn = self.chat.retry(failed, SendOptions::new().listen()).await?;
        self.follow(&turn).await
    }

    async fn follow(&mut self, turn: &Turn) -> Result<bool> {
        let view = TurnView::indenting();
        let outcome = follow(self.chat, turn, view, &mut self.screen, InterruptEffect::CancelsTurn).await?;
        // A turn stands apart from the next one.
        self.screen.line("")?;
        Ok(matches!(outcome.as_ref(), ChatTurnOutcome::Suspended(_)))
    }

    /// Asks about everything that waits in this session, until nothing does or the user puts it off.
    pub(super) async fn ask_all(&mut self, prompt: &mut PromptEditor) -> Result<()> {
        loop {
            let waits = ask::waiting(self.chat, Some(self.session)).await?;
            let mut again = false;
            for (at, wait) in waits.iter().enumerate() {
                if waits.len() > 1 {
                    self.screen.styled(TextStyle::Dim, &format!("{} of {}:", at + 1, waits.len()))?;
                }
                match self.ask(prompt, wait).await {
                    Ok(suspended) => again |= suspended,
                    // It expired meanwhile, or somebody else answered.
                    Err(error @ (Error::Refused(_) | Error::Harness(_))) => {
                        error.show(&mut self.screen)?;
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
    async fn ask(&mut self, prompt: &mut PromptEditor, wait: &PendingWait) -> Result<bool> {
        ask::show(wait, &mut self.screen)?;
        let question = if wait.wait.action.is_some() { QUESTION } else { OPEN_QUESTION };
        let reply = loop {
            let coloured = self.screen.paint(TextStyle::Strong, question);
            let PromptInput::Line(line) = prompt.read(question, coloured).await? else { break None };
            match decision(&line) {
                TypedDecision::Later => break None,
                TypedDecision::Now(reply) => break Some(reply),
                TypedDecision::Unclear if line.is_empty() => {}
                TypedDecision::Unclear => {
                    self.screen.styled(TextStyle::Dim, "  one of the words, or y or n")?
                }
            }
        };
        let Some(reply) = reply else {
            self.screen.styled(TextStyle::Dim, "  later: /pending asks again")?;
            return Ok(false);
        };
        let turn = ask::answer(self.chat, wait, reply, Some(FROM.to_owned())).await?;
        self.follow(&turn).await
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
pub(super) fn decision(line: &str) -> TypedDecision {
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
        let check = |line: &str, expect: TypedDecision| assert_eq!(decision(line), expect, "{line}");
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
