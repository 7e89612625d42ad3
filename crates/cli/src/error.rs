//! The errors of the binary, and their exit codes.

use std::io;
use std::path::PathBuf;

use singletree::config::ConfigReport;
use singletree::harness::ErroredTurn;
use singletree::http::Redactor;
use singletree::{agent, config, durable, engine, harness};

use crate::exit::{ERRORED, STORE_REFUSED, USAGE};
use crate::print::{TerminalOutput, to_single_line};
use crate::shell_word::quote_shell_word;

/// The result of the binary's functions.
pub(crate) type Result<T, E = Error> = std::result::Result<T, E>;

/// Everything that can go wrong in the binary.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The command line asks for something that does not exist or that cannot be done.
    #[error("{0}")]
    Usage(String),
    /// A folder or a file beside the database cannot be used.
    #[error("cannot {doing} {}", path.display())]
    Place {
        /// The attempted operation, as the text names it.
        doing: &'static str,
        /// The path of the folder or file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The database cannot be opened.
    #[error("the database cannot be opened")]
    Open {
        /// Why not.
        source: durable::Error,
    },
    /// The agent cannot be made.
    #[error("the agent cannot be made")]
    Agent {
        /// Why not.
        source: agent::Error,
    },
    /// The file of the agents is wrong, or its agents cannot be made.
    #[error(transparent)]
    Config(#[from] config::Error),
    /// The file to write is there already.
    #[error("{} is there already, and stays as it is", .0.display())]
    Exists(PathBuf),
    /// The database to restore to is there already.
    #[error("{} is there already, and stays as it is", path.display())]
    DatabaseExists {
        /// The database.
        path: PathBuf,
        /// The process that has it open for writing, and its command.
        writer: Option<(u32, String)>,
    },
    /// A database that is to be imported, or was, breaks promises.
    #[error("the database {database} has {count} findings{}", if repair.is_some() { "; nothing was imported" } else { "" })]
    Unsound {
        /// The database, without a password.
        database: String,
        /// How many.
        count: usize,
        /// The file to repair, where nothing was imported.
        repair: Option<PathBuf>,
    },
    /// Another error whose text held a key.
    #[error("{text}")]
    Redacted {
        /// Its category.
        category: String,
        /// Its text without the key.
        text: String,
        /// Its exit code.
        exit: u8,
    },
    /// The chat harness refused.
    #[error(transparent)]
    Harness(harness::Error),
    /// A message or an answer was refused before it became a turn.
    #[error("{}", _0.diagnostic)]
    Refused(Box<ErroredTurn>),
    /// An answer found nothing that waits for it.
    #[error("{}; looked in {db}", turn.diagnostic)]
    Unawaited {
        /// Why it was refused.
        turn: Box<ErroredTurn>,
        /// The database in which was looked.
        db: String,
    },
    /// The document to import cannot be read.
    #[error("the document is not a session")]
    Document {
        /// Why not.
        source: serde_json::Error,
    },
    /// The terminal or the standard input cannot be read.
    #[error("the input cannot be read")]
    Input {
        /// Why not.
        source: io::Error,
    },
    /// The server cannot be started, or a key cannot be made or changed.
    #[error(transparent)]
    Server(#[from] singletree_server::Error),
    /// A running server refused the request.
    #[error("{text}")]
    Answered {
        /// Its category.
        category: String,
        /// Its words.
        text: String,
    },
    /// A server that runs cannot be asked.
    #[error(transparent)]
    Http(#[from] singletree::http::Error),
    /// An engine or a server of somebody's cannot be talked to.
    #[error(transparent)]
    Client(#[from] singletree_client::Error),
    /// The connection to a server was lost while a turn ran.
    #[error("the connection to the server was lost while turn {turn} of session {session} ran")]
    TurnLost {
        /// The turn; the server keeps it.
        turn: String,
        /// Its session.
        session: String,
        /// The error that broke the connection; none where the stream only ended.
        source: Option<singletree_client::Error>,
    },
    /// Campaigns cannot be served.
    #[error(transparent)]
    Campaigns(#[from] singletree::controller::Error),
    /// Traces cannot be sent.
    #[error(transparent)]
    Export(#[from] singletree::export::Error),
    /// A torture came to no verdict.
    #[error(transparent)]
    Torture(Box<singletree_torture::Error>),
    /// The output cannot be written.
    #[error("the output cannot be written")]
    Output(#[from] io::Error),
}

impl Error {
    /// Returns the stable, machine-readable category: the harness's and the store's words where they have one.
    pub(crate) fn category(&self) -> &str {
        match self {
            Self::Usage(_) => "usage",
            Self::Place { .. } => "place_unavailable",
            Self::Open { source } => source.category(),
            Self::Agent { source } => source.category(),
            Self::Config(error) => error.category(),
            Self::Exists(_) | Self::DatabaseExists { .. } => "file_exists",
            Self::Unsound { .. } => "store_unsound",
            Self::Redacted { category, .. } => category,
            Self::Harness(error) => error.category(),
            Self::Refused(turn) | Self::Unawaited { turn, .. } => &turn.error_category,
            Self::Document { .. } => "document_invalid",
            Self::Input { .. } => "input_unavailable",
            Self::Server(error) => error.category(),
            Self::Answered { category, .. } => category,
            Self::Http(error) => error.category(),
            Self::Client(error) => error.category(),
            Self::TurnLost { source, .. } => {
                source.as_ref().map_or("http_broken_off", |source| source.category())
            }
            Self::Campaigns(error) => error.category(),
            Self::Export(error) => error.category(),
            Self::Torture(error) => error.category(),
            Self::Output(_) => "output_unavailable",
        }
    }

    /// Returns the exit code.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Usage(_) | Self::Exists(_) | Self::DatabaseExists { .. } => USAGE,
            Self::Config(config::Error::Invalid(_) | config::Error::Unreadable { .. }) => USAGE,
            Self::Redacted { exit, .. } => *exit,
            Self::Server(singletree_server::Error::Open { .. } | singletree_server::Error::Tenant { .. }) => {
                USAGE
            }
            Self::Server(_) if self.category().starts_with("store_") => STORE_REFUSED,
            Self::Place { .. } | Self::Open { .. } => STORE_REFUSED,
            Self::Harness(_) | Self::Refused(_) if self.category().starts_with("store_") => STORE_REFUSED,
            Self::Agent { .. }
            | Self::Config(_)
            | Self::Harness(_)
            | Self::Refused(_)
            | Self::Unawaited { .. }
            | Self::Document { .. }
            | Self::Input { .. }
            | Self::Server(_)
            | Self::Answered { .. }
            | Self::Http(_)
            | Self::Client(_)
            | Self::TurnLost { .. }
            | Self::Unsound { .. }
            | Self::Campaigns(_)
            | Self::Export(_)
            | Self::Torture(_)
            | Self::Output(_) => ERRORED,
        }
    }

    /// Returns the mistakes in a configuration file, if they are the error.
    pub(crate) fn config_report(&self) -> Option<&ConfigReport> {
        match self {
            Self::Config(config::Error::Invalid(report)) => Some(report),
            _ => None,
        }
    }

    /// Returns advice for the user, where it fits one sentence.
    pub(crate) fn find_hint(&self) -> Option<String> {
        match self {
            Self::Open { source: durable::Error::Locked { pid, command } } => Some(format!(
                "one process writes to a database: stop process {pid} ({command}), then run this again"
            )),
            Self::Client(singletree_client::Error::Refused(refused)) if refused.hint.is_some() => {
                refused.hint.clone()
            }
            Self::Harness(_) | Self::Refused(_) | Self::Client(_) => {
                harness::hint_for_error(self.category()).map(str::to_owned)
            }
            Self::DatabaseExists { writer, .. } => Some(match writer {
                Some((pid, command)) => format!(
                    "restore to another --db; or stop process {pid} ({command}), and move this database away"
                ),
                None => "restore to another --db, or move this database away".to_owned(),
            }),
            Self::Unsound { repair: Some(file), .. } => Some(format!(
                "singletree doctor --repair --db {}",
                quote_shell_word(&file.display().to_string())
            )),
            Self::Unsound { repair: None, .. } => {
                Some("look at it with `singletree doctor`; the imported file is as it was".to_owned())
            }
            Self::TurnLost { session, .. } => Some(format!(
                "the turn is kept and goes on where the server runs: singletree sessions show {session}"
            )),
            _ => None,
        }
    }

    /// Writes the error, and the advice for the user where there is one.
    pub(crate) fn show_error(&self, screen: &mut TerminalOutput) -> io::Result<()> {
        screen.write_error(self.category(), &self.text_with_causes())?;
        match self.find_hint() {
            Some(hint) => screen.write_line(&format!("hint: {}", to_single_line(&hint))),
            None => Ok(()),
        }
    }

    /// Takes keys out of the text.
    pub(crate) fn into_redacted(self, redactor: &Redactor) -> Self {
        let text = self.text_with_causes();
        match redactor.redact(&text) {
            clean if clean == text => self,
            clean => {
                let (category, exit) = (self.category().to_owned(), self.exit_code());
                Self::Redacted { category, text: clean.into_owned(), exit }
            }
        }
    }

    /// Returns the whole text, causes included, on one line.
    pub(crate) fn text_with_causes(&self) -> String {
        engine::format_error_chain(self).replace(['\n', '\r'], " ")
    }
}

impl From<singletree_torture::Error> for Error {
    fn from(error: singletree_torture::Error) -> Self {
        Self::Torture(Box::new(error))
    }
}

impl From<harness::Error> for Error {
    fn from(error: harness::Error) -> Self {
        match error {
            harness::Error::Refused(turn) => Self::Refused(turn),
            other => Self::Harness(other),
        }
    }
}
