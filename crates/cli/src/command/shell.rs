//! `singletree shell`: a strict OpenHarness shell in a terminal, and from a pipe.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{self, IsTerminal};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::LocalBoxFuture;
use singletree::engine::{Ids, RandomIds};
use singletree::http::{HttpClient, HttpLimits, Secret};
use singletree_client::{
    Confirmation, Connection, Conversation, ConversationParts, Ended, EngineClient, NoHands, Note, Person,
    Question, Retry, Shell, ShellProfile,
};
use singletree_protocol::openharness::{Decision, RiskTier};

use crate::args;
use crate::error::{Error, Result};
use crate::exit::{COMPLETED, ERRORED, SUSPENDED};
use crate::place::Place;
use crate::print::{Screen, Style};
use crate::prompt::{Prompt, Said, next_line};
use crate::who::variable;

/// The prompt before a line of input.
const PROMPT: &str = "> ";
/// The prompt for a question of the engine.
const QUESTION: &str = "approve, reject or later? ";
/// The prompt for the confirmation of a local action.
const CONFIRM: &str = "yes or no? ";
/// How often an engine is asked that says it may go well the next time, and the pause before the second time.
const ATTEMPTS: u32 = 4;
const FIRST_PAUSE: Duration = Duration::from_millis(500);

/// Runs the command.
pub(crate) async fn run(args: args::Shell) -> Result<u8> {
    let key = args.key_env.as_deref().map(key).transpose()?;
    let transport = Arc::new(HttpClient::new(HttpLimits::standard())?);
    let connection = Connection::new(transport, &args.url, key)?;
    let retry = Retry::new(ATTEMPTS, FIRST_PAUSE, |span| Box::pin(tokio::time::sleep(span)));
    let typed = io::stdin().is_terminal() && io::stdout().is_terminal();
    let lines = Lines::new(typed)?;
    let mut terminal = Terminal { screen: Screen::out(), lines: lines.clone(), broken: None };
    if typed {
        let about = format!("talking with {}. /quit leaves.", connection.base());
        terminal.screen.styled(Style::Dim, &about)?;
    }
    let began = tokio::time::Instant::now();
    let (ids, clock) = (|| format!("req_{}", RandomIds.uuid()), || began.elapsed());
    let mut hands = NoHands;
    let mut talk = Conversation::new(ConversationParts {
        engine: EngineClient::new(connection, retry),
        shell: shell(&args),
        person: &mut terminal,
        hands: &mut hands,
        ids: &ids,
        clock: &clock,
    });
    let code = converse(&mut talk, &lines).await;
    match terminal.broken {
        Some(error) => Err(error.into()),
        None => code,
    }
}

fn key(name: &str) -> Result<Secret> {
    let key = variable(name).filter(|variable| !variable.trim().is_empty());
    // It may be the key itself.
    let missing = || Error::Usage("the variable that --key-env names is not set".to_owned());
    key.map(|key| Secret::new(key.trim())).ok_or_else(missing)
}

fn shell(args: &args::Shell) -> Shell {
    let profile = ShellProfile::text("dev.singletree.cli", env!("CARGO_PKG_VERSION"));
    // Without one, an engine may take each line for a conversation of its own.
    let session = args.session.clone().unwrap_or_else(|| format!("shell-{}", RandomIds.uuid()));
    let shell = Shell::new(profile, Some(session));
    let shell = match &args.conversation {
        Some(id) => shell.conversation(id),
        None => shell,
    };
    match &args.sop {
        Some(id) => shell.sop(id),
        None => shell,
    }
}

/// Where lines come from: a person who types, or the standard input as it is.
#[derive(Clone)]
struct Lines {
    typed: bool,
    /// There while no line is read, where somebody types.
    prompt: Rc<RefCell<Option<Prompt>>>,
}

impl Lines {
    fn new(typed: bool) -> Result<Self> {
        let prompt = if typed {
            let place = Place::of(None)?;
            place.make()?;
            Some(Prompt::new(place.typed())?)
        } else {
            None
        };
        Ok(Self { typed, prompt: Rc::new(RefCell::new(prompt)) })
    }

    /// Reads a line, without space around it; none at the end.
    async fn read(&self, prompt: &str) -> Result<Option<String>> {
        if !self.typed {
            return Ok(next_line().await?.map(|line| line.trim().to_owned()));
        }
        let Some(mut editor) = self.prompt.take() else { return Ok(None) };
        let said = editor.read(prompt, None).await;
        if let Ok(Said::Line(line)) = &said
            && !line.is_empty()
        {
            editor.remember(line)?;
        }
        self.prompt.replace(Some(editor));
        match said? {
            Said::Line(line) => Ok(Some(line)),
            Said::Nothing => Ok(None),
        }
    }
}

/// Reads the person's input until they leave; returns the exit code of the last round.
async fn converse(talk: &mut Conversation<'_>, lines: &Lines) -> Result<u8> {
    let mut open = VecDeque::<Question>::new();
    let mut code = COMPLETED;
    while let Some(line) = lines.read(PROMPT).await? {
        if matches!(line.as_str(), "/quit" | "/exit") {
            break;
        }
        if line.is_empty() {
            continue;
        }
        code = match round(talk, &line, &mut open).await {
            Ok(Ended { failed: Some(_), .. }) => ERRORED,
            Ok(_) if !open.is_empty() => SUSPENDED,
            Ok(_) => COMPLETED,
            // A person can try again.
            Err(error @ (Error::Client(_) | Error::Usage(_))) if lines.typed => {
                Screen::err().error(error.category(), &error.text())?;
                ERRORED
            }
            Err(error) => return Err(error),
        };
    }
    Ok(code)
}

/// Runs one line of input: an intent, or a decision about the oldest open question.
async fn round(talk: &mut Conversation<'_>, line: &str, open: &mut VecDeque<Question>) -> Result<Ended> {
    let decision = match line {
        "/approve" => Some(Decision::Approve),
        "/reject" => Some(Decision::Reject),
        command if command.starts_with('/') => {
            return Err(Error::Usage(format!("there is no command {command}: /approve, /reject, /quit")));
        }
        _ => None,
    };
    let ended = match decision {
        None => talk.say(line).await?,
        Some(decision) => {
            let continuation = open.front().and_then(|item| item.continuation(decision));
            let none = || Error::Usage("no question is open that could be decided so".to_owned());
            let ended = talk.decide(continuation.ok_or_else(none)?).await?;
            open.pop_front();
            ended
        }
    };
    open.extend(ended.open.iter().cloned());
    Ok(ended)
}

/// A person at a terminal, or whatever reads the output. From a pipe nobody is there to ask: questions stay open.
struct Terminal {
    screen: Screen,
    lines: Lines,
    /// Why nothing can be shown any more.
    broken: Option<io::Error>,
}

impl Terminal {
    fn line(&mut self, style: Style, text: &str) {
        if let Err(error) = self.screen.styled(style, text) {
            self.broken.get_or_insert(error);
        }
    }

    /// Asks until one of the words is said; none when nothing is said any more.
    async fn choose(&mut self, prompt: &str, words: &[&str]) -> Option<usize> {
        loop {
            let said = self.lines.read(prompt).await.ok().flatten()?;
            if let Some(at) = words.iter().position(|word| said.eq_ignore_ascii_case(word)) {
                return Some(at);
            }
        }
    }

    async fn decide(&mut self, question: &Question) -> Option<usize> {
        self.line(Style::Strong, &format!("{} (risk: {})", question.title, risk(question.risk)));
        self.line(Style::Plain, &question.prompt);
        if let Some(until) = &question.expires_at {
            self.line(Style::Dim, &format!("    until {until}"));
        }
        if question.options.is_empty() {
            self.line(Style::Dim, &format!("    it is decided elsewhere, as {}", question.signal_id));
            return None;
        }
        if !self.lines.typed {
            self.line(Style::Dim, "    /approve or /reject");
            return None;
        }
        let words = [Decision::Approve.as_str(), Decision::Reject.as_str(), "later"];
        let chosen = self.choose(QUESTION, &words).await?;
        question.options.iter().position(|option| option.id == words[chosen])
    }
}

impl Person for Terminal {
    fn show(&mut self, text: &str) {
        self.line(Style::Plain, text);
    }

    fn note(&mut self, note: &Note) {
        let told = Screen::err().styled(Style::Dim, &words(note));
        if let Err(error) = told {
            self.broken.get_or_insert(error);
        }
    }

    fn ask<'a>(&'a mut self, question: &'a Question) -> LocalBoxFuture<'a, Option<usize>> {
        Box::pin(self.decide(question))
    }

    fn confirm<'a>(&'a mut self, asked: &'a Confirmation) -> LocalBoxFuture<'a, bool> {
        Box::pin(async {
            self.line(Style::Strong, &format!("{} (risk: {})", asked.action, risk(asked.risk)));
            self.line(Style::Plain, &asked.details);
            self.lines.typed && self.choose(CONFIRM, &["yes", "no"]).await == Some(0)
        })
    }
}

fn risk(risk: RiskTier) -> &'static str {
    match risk {
        RiskTier::Safe => "safe",
        RiskTier::Caution => "caution",
        RiskTier::Dangerous => "dangerous",
    }
}

fn words(note: &Note) -> String {
    match note {
        Note::UnknownActionType(name) => format!("unknown_action_type: {name}; nothing was done"),
        Note::Denied(name) => format!("denied by the engine: {name}; nothing was done"),
        Note::Malformed(name) => format!("not understood: {name}; nothing was done"),
        Note::TooMany(count) => format!("too long: {count} directives were not looked at"),
        Note::TooLate(name) => format!("too late: {name}; nothing was done"),
        Note::Declined(name) => format!("declined: {name}"),
        Note::Failed(why) => format!("failed: {why}"),
    }
}
