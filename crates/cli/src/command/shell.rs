//! `singletree shell`: a strict OpenHarness shell in a terminal, and from a pipe.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{self, IsTerminal};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::LocalBoxFuture;
use singletree::engine::{IdGenerator, RandomIds};
use singletree::http::{HttpClient, HttpLimits, Secret};
use singletree_client::{
    Confirmation, Connection, ConversationRound, DirectiveNote, EngineClient, EngineQuestion, EngineRetry,
    NoActionExecutor, PersonInterface, ShellConversation, ShellConversationParts, ShellProfile, ShellSession,
};
use singletree_protocol::openharness::{Decision, RiskTier};

use crate::args;
use crate::error::{Error, Result};
use crate::exit::{COMPLETED, ERRORED, SUSPENDED};
use crate::place::DatabaseLocation;
use crate::print::{TerminalOutput, TextStyle};
use crate::prompt::{PromptEditor, PromptInput, read_stdin_line};
use crate::who::read_env_variable;

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
#[expect(clippy::disallowed_methods, reason = "a program measures its own time")]
pub(crate) async fn run_shell_command(args: args::Shell) -> Result<u8> {
    let key = args.key_env.as_deref().map(require_key_variable).transpose()?;
    let transport = Arc::new(HttpClient::new(HttpLimits::standard())?);
    let connection = Connection::new(transport, &args.url, key)?;
    let retry = EngineRetry::new(ATTEMPTS, FIRST_PAUSE, |span| Box::pin(tokio::time::sleep(span)));
    let typed = io::stdin().is_terminal() && io::stdout().is_terminal();
    let lines = ShellLineSource::new(typed)?;
    let mut terminal =
        ShellTerminal { screen: TerminalOutput::standard_output(), lines: lines.clone(), broken: None };
    if typed {
        let about = format!("talking with {}. /quit leaves.", connection.base_url());
        terminal.screen.write_styled_line(TextStyle::Dim, &about)?;
    }
    let began = tokio::time::Instant::now();
    let (ids, clock) = (|| format!("req_{}", RandomIds.generate_uuid()), || began.elapsed());
    let mut hands = NoActionExecutor;
    let mut talk = ShellConversation::new(ShellConversationParts {
        engine: EngineClient::new(connection, retry),
        shell: build_shell_session(&args),
        person: &mut terminal,
        hands: &mut hands,
        ids: &ids,
        clock: &clock,
    });
    let code = run_input_loop(&mut talk, &lines).await;
    match terminal.broken {
        Some(error) => Err(error.into()),
        None => code,
    }
}

fn require_key_variable(name: &str) -> Result<Secret> {
    let key = read_env_variable(name).filter(|variable| !variable.trim().is_empty());
    // It may be the key itself.
    let missing = || Error::Usage("the variable that --key-env names is not set".to_owned());
    key.map(|key| Secret::new(key.trim())).ok_or_else(missing)
}

fn build_shell_session(args: &args::Shell) -> ShellSession {
    let profile = ShellProfile::for_text_shell("dev.singletree.cli", env!("CARGO_PKG_VERSION"));
    // Without one, an engine may take each line for a conversation of its own.
    let session = args.session.clone().unwrap_or_else(|| format!("shell-{}", RandomIds.generate_uuid()));
    let shell = ShellSession::new(profile, Some(session));
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
struct ShellLineSource {
    typed: bool,
    /// There while no line is read, where somebody types.
    prompt: Rc<RefCell<Option<PromptEditor>>>,
}

impl ShellLineSource {
    fn new(typed: bool) -> Result<Self> {
        let prompt = if typed {
            let place = DatabaseLocation::from_path_or_default(None)?;
            place.create_folder()?;
            Some(PromptEditor::new(place.input_history_path())?)
        } else {
            None
        };
        Ok(Self { typed, prompt: Rc::new(RefCell::new(prompt)) })
    }

    /// Reads a line, without space around it; none at the end.
    async fn read_line(&self, prompt: &str) -> Result<Option<String>> {
        if !self.typed {
            return Ok(read_stdin_line().await?.map(|line| line.trim().to_owned()));
        }
        let Some(mut editor) = self.prompt.take() else { return Ok(None) };
        let said = editor.read_line(prompt, None).await;
        if let Ok(PromptInput::Line(line)) = &said
            && !line.is_empty()
        {
            editor.remember_line(line)?;
        }
        self.prompt.replace(Some(editor));
        match said? {
            PromptInput::Line(line) => Ok(Some(line)),
            PromptInput::Nothing => Ok(None),
        }
    }
}

/// Reads the person's input until they leave; returns the exit code of the last round.
async fn run_input_loop(talk: &mut ShellConversation<'_>, lines: &ShellLineSource) -> Result<u8> {
    let mut open = VecDeque::<EngineQuestion>::new();
    let mut code = COMPLETED;
    while let Some(line) = lines.read_line(PROMPT).await? {
        if matches!(line.as_str(), "/quit" | "/exit") {
            break;
        }
        if line.is_empty() {
            continue;
        }
        code = match run_input_line(talk, &line, &mut open).await {
            Ok(ConversationRound { failed: Some(_), .. }) => ERRORED,
            Ok(_) if !open.is_empty() => SUSPENDED,
            Ok(_) => COMPLETED,
            // A person can try again.
            Err(error @ (Error::Client(_) | Error::Usage(_))) if lines.typed => {
                TerminalOutput::standard_error().write_error(error.category(), &error.text_with_causes())?;
                ERRORED
            }
            Err(error) => return Err(error),
        };
    }
    Ok(code)
}

/// Runs one line of input: an intent, or a decision about the oldest open question.
async fn run_input_line(
    talk: &mut ShellConversation<'_>,
    line: &str,
    open: &mut VecDeque<EngineQuestion>,
) -> Result<ConversationRound> {
    let decision = match line {
        "/approve" => Some(Decision::Approve),
        "/reject" => Some(Decision::Reject),
        command if command.starts_with('/') => {
            return Err(Error::Usage(format!("there is no command {command}: /approve, /reject, /quit")));
        }
        _ => None,
    };
    let ended = match decision {
        None => talk.send_intent(line).await?,
        Some(decision) => {
            let continuation = open.front().and_then(|item| item.continuation_for(decision));
            let none = || Error::Usage("no question is open that could be decided so".to_owned());
            let ended = talk.send_decision(continuation.ok_or_else(none)?).await?;
            open.pop_front();
            ended
        }
    };
    open.extend(ended.open.iter().cloned());
    Ok(ended)
}

/// A person at a terminal, or whatever reads the output. From a pipe nobody is there to ask: questions stay open.
struct ShellTerminal {
    screen: TerminalOutput,
    lines: ShellLineSource,
    /// Why nothing can be shown any more.
    broken: Option<io::Error>,
}

impl ShellTerminal {
    fn show_line(&mut self, style: TextStyle, text: &str) {
        if let Err(error) = self.screen.write_styled_line(style, text) {
            self.broken.get_or_insert(error);
        }
    }

    /// Asks until one of the words is said; none when nothing is said any more.
    async fn ask_for_choice(&mut self, prompt: &str, words: &[&str]) -> Option<usize> {
        loop {
            let said = self.lines.read_line(prompt).await.ok().flatten()?;
            if let Some(at) = words.iter().position(|word| said.eq_ignore_ascii_case(word)) {
                return Some(at);
            }
        }
    }

    async fn ask_for_decision(&mut self, question: &EngineQuestion) -> Option<usize> {
        self.show_line(
            TextStyle::Strong,
            &format!("{} (risk: {})", question.title, risk_tier_name(question.risk)),
        );
        self.show_line(TextStyle::Plain, &question.prompt);
        if let Some(until) = &question.expires_at {
            self.show_line(TextStyle::Dim, &format!("    until {until}"));
        }
        if question.options.is_empty() {
            self.show_line(
                TextStyle::Dim,
                &format!("    it is decided elsewhere, as {}", question.signal_id),
            );
            return None;
        }
        if !self.lines.typed {
            self.show_line(TextStyle::Dim, "    /approve or /reject");
            return None;
        }
        let words = [Decision::Approve.as_str(), Decision::Reject.as_str(), "later"];
        let chosen = self.ask_for_choice(QUESTION, &words).await?;
        question.options.iter().position(|option| option.id == words[chosen])
    }
}

impl PersonInterface for ShellTerminal {
    fn show_text(&mut self, text: &str) {
        self.show_line(TextStyle::Plain, text);
    }

    fn report_note(&mut self, note: &DirectiveNote) {
        let told = TerminalOutput::standard_error().write_styled_line(TextStyle::Dim, &describe_note(note));
        if let Err(error) = told {
            self.broken.get_or_insert(error);
        }
    }

    fn ask_question<'a>(&'a mut self, question: &'a EngineQuestion) -> LocalBoxFuture<'a, Option<usize>> {
        Box::pin(self.ask_for_decision(question))
    }

    fn ask_confirmation<'a>(&'a mut self, asked: &'a Confirmation) -> LocalBoxFuture<'a, bool> {
        Box::pin(async {
            self.show_line(
                TextStyle::Strong,
                &format!("{} (risk: {})", asked.action, risk_tier_name(asked.risk)),
            );
            self.show_line(TextStyle::Plain, &asked.details);
            self.lines.typed && self.ask_for_choice(CONFIRM, &["yes", "no"]).await == Some(0)
        })
    }
}

fn risk_tier_name(risk: RiskTier) -> &'static str {
    match risk {
        RiskTier::Safe => "safe",
        RiskTier::Caution => "caution",
        RiskTier::Dangerous => "dangerous",
    }
}

fn describe_note(note: &DirectiveNote) -> String {
    match note {
        DirectiveNote::UnknownActionType(name) => format!("unknown_action_type: {name}; nothing was done"),
        DirectiveNote::Denied(name) => format!("denied by the engine: {name}; nothing was done"),
        DirectiveNote::Malformed(name) => format!("not understood: {name}; nothing was done"),
        DirectiveNote::TooMany(count) => format!("too long: {count} directives were not looked at"),
        DirectiveNote::TooLate(name) => format!("too late: {name}; nothing was done"),
        DirectiveNote::Declined(name) => format!("declined: {name}"),
        DirectiveNote::Failed(why) => format!("failed: {why}"),
    }
}
