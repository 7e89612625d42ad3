//! The command line.

mod artifacts;
mod campaigns;
mod conversation;
mod erasing;
mod outbox;
mod picture;
mod serving;
mod simulation;
mod telemetry;
mod torture;
mod turn_operation;

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Parser, Subcommand};
use serde_json::{Map, Value};
use singletree::durable::SessionId;

pub(crate) use artifacts::{ArtifactVersion, Artifacts};
pub(crate) use campaigns::Campaign;
pub(crate) use conversation::{Chat, PolicyName, Send};
pub(crate) use erasing::{Erase, Import, Restore};
pub(crate) use outbox::{Mcp, Outbox};
pub(crate) use picture::{Graph, GraphFormat, Turn, TurnFormat};
pub(crate) use serving::{Health, Keys, KeysOf, ScopeName, Serve, Shell, Switch};
pub(crate) use simulation::Sim;
pub(crate) use telemetry::{PastTime, Telemetry};
pub(crate) use torture::{Torture, TortureChild, TortureStall};
pub(crate) use turn_operation::{Cancel, Retry};

use crate::served::ServerAddress;
use crate::store_url::StoreUrl;
use crate::who::Who;

/// Durable chat in a terminal: conversations that never lose a turn.
///
/// Exit codes: 0 completed, 1 errored, 2 wrong usage, 3 suspended (an answer is awaited), 4 the store refused.
#[derive(Debug, Parser)]
#[command(name = "singletree", version)]
pub(crate) struct Args {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

/// What there is to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Write a commented singletree.toml to begin with.
    Init(Init),
    /// Look for mistakes in singletree.toml: each with its line and what to do.
    ///
    /// Exit codes: 0 nothing is wrong, 1 something is, 2 the file cannot be read.
    Check(Check),
    /// Talk with an agent; from a pipe, one message a line.
    Chat(Chat),
    /// Send one message and print what comes of it.
    Send(Send),
    /// List what waits for an answer. Works beside a running chat.
    Pending(Pending),
    /// Answer what waits, and print what comes of it.
    Answer(Answer),
    /// Cancel a turn: one that runs, or one that waits for an answer.
    Cancel(Cancel),
    /// Retry a turn that failed, and print what comes of it.
    ///
    /// A turn without effects has its message sent again. One with effects goes on from what it did; its message is not sent again.
    /// Only the newest turn of a conversation can be retried, once.
    Retry(Retry),
    /// Make another conversation with the beginning of one, which stays as it is; prints its id.
    Fork(Fork),
    /// Forget records of turns and events that need not be kept; messages stay.
    Retain(Retain),
    /// List, show, move and delete sessions.
    #[command(subcommand)]
    Sessions(Sessions),
    /// List, show, propose and approve the documents that agents are shown with commands.
    #[command(subcommand)]
    Artifacts(Artifacts),
    /// Goals that an agent pursues over many cycles: create, run, decide, show.
    #[command(subcommand)]
    Campaign(Campaign),
    /// List, show and deliver the messages that agents have sent.
    #[command(subcommand)]
    Outbox(Outbox),
    /// Accept what MCP servers say of their tools.
    #[command(subcommand)]
    Mcp(Mcp),
    /// Draw the graph of an agent.
    #[command(subcommand)]
    Graph(Graph),
    /// Show what happened in a turn, and when.
    #[command(subcommand)]
    Turn(Turn),
    /// Look whether the database keeps its promises. Works beside a running chat.
    ///
    /// Exit codes: 0 nothing is wrong, 1 something is, 2 it cannot be read.
    Doctor(Doctor),
    /// Show the turns that wait to be exported as traces, or send those of before.
    #[command(subcommand)]
    Telemetry(Telemetry),
    /// List the processes that share a PostgreSQL database. Works beside them.
    Nodes(Nodes),
    /// Serve the agents over HTTP, until it is interrupted.
    ///
    /// Turns that were accepted are kept when it ends; a second interrupt ends it at once.
    Serve(Serve),
    /// Ask a running server whether it is ready: it can write to its store, and took over the turns of the process before it.
    ///
    /// Exit codes: 0 it is ready, 1 it is not, or does not answer.
    Health(Health),
    /// Make, list, rotate and revoke the keys of a server. Works beside a running one.
    #[command(subcommand)]
    Keys(Keys),
    /// Talk with an OpenHarness engine, of this server or another, as a strict shell: it shows texts, asks what the engine asks,
    /// and does nothing else. From a pipe, one line is one intent.
    ///
    /// `/approve` and `/reject` decide what was left open, `/quit` leaves. Exit codes: 0 done, 1 the engine failed, 2 wrong usage,
    /// 3 a question is open.
    Shell(Shell),
    /// Copy the database to a new file. Works beside a running chat.
    Backup(Backup),
    /// Make a database of a backup, without what was erased since the backup was made.
    Restore(Restore),
    /// Move a database of SQLite into an empty PostgreSQL database (--store). Both are checked as doctor does.
    ///
    /// Exit codes: 0 it is moved, 1 one of them has findings, 2 wrong usage, 4 a database refused.
    Import(Import),
    /// Erase everything that is kept for a person or a tenant, for good; also from backups that are restored later.
    Erase(Erase),
    /// Kill a chat of its own again and again under load, and look what is left.
    ///
    /// Exit codes: 0 nothing was lost, doubled, orphaned, contradicted or stuck, 1 something was.
    Torture(Torture),
    /// Run the whole harness in a simulated world, with faults, under many seeds, and check every promise.
    ///
    /// Everything follows from the seed: time, order of tasks, faults, clients. The first seed that fails is shrunk and printed.
    ///
    /// Exit codes: 0 every promise was kept, 1 one was broken, or 1,000 seeds or more have missed a fault or a case.
    Sim(Sim),
    /// What `torture` kills.
    #[command(hide = true)]
    TortureChild(TortureChild),
    /// What makes the database of `torture` stand still.
    #[command(hide = true)]
    TortureStall(TortureStall),
    /// Print what makes a shell complete this command line.
    Completions(Completions),
    /// Write the manual pages, one for each command.
    #[command(hide = true)]
    Man(Man),
}

/// Where the conversations are.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Db {
    /// The database; by default singletree/singletree.db in your data folder.
    #[arg(long, value_name = "FILE")]
    pub(crate) db: Option<PathBuf>,
    /// Instead of a file: a PostgreSQL database, as postgres://USER@HOST/DATABASE.
    #[arg(long, value_name = "URL", conflicts_with = "db")]
    pub(crate) store: Option<StoreUrl>,
    /// The environment variable that holds the address of the PostgreSQL database, with its password.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["db", "store"])]
    pub(crate) store_env: Option<String>,
    /// With a PostgreSQL database: the file in which erased data and revoked keys are listed, for `singletree restore`. A database
    /// that is a file always has one beside it, FILE.erased.
    #[arg(long, value_name = "FILE", conflicts_with = "db")]
    pub(crate) list_erased: Option<PathBuf>,
}

/// Where the conversations are, and how to print.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Common {
    #[command(flatten)]
    pub(crate) db: Db,
    /// Print one JSON document, also for errors.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `singletree init`.
#[derive(Debug, clap::Args)]
pub(crate) struct Init {
    /// Where to; a file that does not exist yet.
    #[arg(value_name = "FILE", default_value = "singletree.toml")]
    pub(crate) file: PathBuf,
    /// Print one JSON document, also for errors.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `singletree check`.
#[derive(Debug, clap::Args)]
pub(crate) struct Check {
    /// Which file.
    #[arg(value_name = "FILE", default_value = "singletree.toml")]
    pub(crate) file: PathBuf,
    /// Start the MCP servers that agents use, and look whether they have the tools that the file names.
    #[arg(long)]
    pub(crate) connect: bool,
    /// Print one JSON document, also for errors.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `singletree pending`.
#[derive(Debug, clap::Args)]
pub(crate) struct Pending {
    /// Only in this conversation.
    #[arg(long, value_name = "ID", value_parser = parse_session_id)]
    pub(crate) session: Option<String>,
    /// The file of the agents that are to go on; by default singletree.toml in this folder, or the demo where there is none.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// `singletree answer`.
#[derive(Debug, clap::Args)]
#[command(allow_missing_positional = true)]
pub(crate) struct Answer {
    /// The id of what waits, as `pending` prints it; not needed where one thing waits.
    #[arg(value_name = "SIGNAL")]
    pub(crate) signal: Option<String>,
    /// `approve`, `reject`, or a JSON object.
    #[arg(value_name = "ANSWER", required = true, value_parser = clap::value_parser!(AnswerArgument))]
    pub(crate) reply: AnswerArgument,
    /// In which conversation, where more than one waits for this id.
    #[arg(long, value_name = "ID", value_parser = parse_session_id)]
    pub(crate) session: Option<String>,
    /// Who answers; it is recorded.
    #[arg(long, value_name = "WHO")]
    pub(crate) from: Option<String>,
    #[command(flatten)]
    pub(crate) who: Who,
    #[command(flatten)]
    pub(crate) server: ServerAddress,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// `singletree fork`.
#[derive(Debug, clap::Args)]
pub(crate) struct Fork {
    /// Which conversation.
    #[arg(value_name = "SESSION", value_parser = parse_session_id)]
    pub(crate) session: String,
    /// Copy only the messages before this place, counted from 0; all of them otherwise.
    #[arg(long, value_name = "SEQ")]
    pub(crate) at: Option<u64>,
    /// The id of the new conversation; by default one is drawn.
    #[arg(long, value_name = "ID", value_parser = parse_session_id)]
    pub(crate) to: Option<String>,
    #[command(flatten)]
    pub(crate) server: ServerAddress,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// `singletree retain`.
#[derive(Debug, clap::Args)]
#[command(group(clap::ArgGroup::new("bound").required(true).multiple(true).args(["turns", "events", "days"])))]
pub(crate) struct Retain {
    /// Keep the records of this many last turns of each conversation.
    #[arg(long, value_name = "N")]
    pub(crate) turns: Option<u64>,
    /// Keep this many last events of each conversation.
    #[arg(long, value_name = "N")]
    pub(crate) events: Option<u64>,
    /// Keep nothing that is over for more than this many days.
    #[arg(long, value_name = "N")]
    pub(crate) days: Option<u32>,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// `singletree sessions`.
#[derive(Debug, Subcommand)]
pub(crate) enum Sessions {
    /// List all sessions. Works beside a running chat.
    List {
        #[command(flatten)]
        common: Common,
    },
    /// Show one session and its history. Works beside a running chat.
    Show {
        /// Which session.
        #[arg(value_name = "ID", value_parser = parse_session_id)]
        session: String,
        #[command(flatten)]
        common: Common,
    },
    /// Delete a session and everything that is known of it.
    Delete {
        /// Which session.
        #[arg(value_name = "ID", value_parser = parse_session_id)]
        session: String,
        #[command(flatten)]
        server: ServerAddress,
        #[command(flatten)]
        common: Common,
    },
    /// Print a session as one JSON document. Works beside a running chat.
    Export {
        /// Which session.
        #[arg(value_name = "ID", value_parser = parse_session_id)]
        session: String,
        #[command(flatten)]
        common: Common,
    },
    /// Make a session of a document that `export` printed.
    Import {
        /// The document; `-` reads it from the standard input.
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// Under which id, if not its own.
        #[arg(long, value_name = "ID", value_parser = parse_session_id)]
        session: Option<String>,
        #[command(flatten)]
        common: Common,
    },
}

/// `singletree doctor`.
#[derive(Debug, clap::Args)]
pub(crate) struct Doctor {
    /// Mend what can be mended without losing anything. Needs the database for itself.
    #[arg(long)]
    pub(crate) repair: bool,
    /// The file of the agents: its [notify] tables say who hears of turns that a repair ends; by default singletree.toml in this folder.
    #[arg(long, value_name = "FILE", requires = "repair")]
    pub(crate) config: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// `singletree nodes`.
#[derive(Debug, clap::Args)]
pub(crate) struct Nodes {
    #[command(flatten)]
    pub(crate) common: Common,
}

/// `singletree backup`.
#[derive(Debug, clap::Args)]
pub(crate) struct Backup {
    /// Where to; a file that does not exist yet.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// `singletree completions`.
#[derive(Debug, clap::Args)]
pub(crate) struct Completions {
    /// Which shell.
    #[arg(value_enum, value_name = "SHELL")]
    pub(crate) shell: clap_complete::Shell,
}

/// `singletree man`.
#[derive(Debug, clap::Args)]
pub(crate) struct Man {
    /// Where to: a folder that exists.
    #[arg(value_name = "DIR")]
    pub(crate) folder: PathBuf,
}

/// What a person answers.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum AnswerArgument {
    /// Yes or no to an action.
    Approved(bool),
    /// Fields of the graph's state.
    Fields(Map<String, Value>),
}

impl AnswerArgument {
    /// Returns what is sent to the harness.
    pub(crate) fn into_payload(self) -> Map<String, Value> {
        match self {
            Self::Approved(approved) => Map::from_iter([("approved".to_owned(), approved.into())]),
            Self::Fields(fields) => fields,
        }
    }
}

impl FromStr for AnswerArgument {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "approve" => Ok(Self::Approved(true)),
            "reject" => Ok(Self::Approved(false)),
            json => serde_json::from_str(json)
                .map(Self::Fields)
                .map_err(|error| format!("neither approve nor reject nor a JSON object ({error})")),
        }
    }
}

impl Command {
    /// Says whether the output is to be JSON, errors included.
    pub(crate) fn wants_json(&self) -> bool {
        match self {
            Self::Init(it) => it.json,
            Self::Check(it) => it.json,
            Self::Chat(_) => false,
            Self::Send(it) => it.common.json,
            Self::Pending(it) => it.common.json,
            Self::Answer(it) => it.common.json,
            Self::Cancel(it) => it.common.json,
            Self::Retry(it) => it.common.json,
            Self::Fork(it) => it.common.json,
            Self::Retain(it) => it.common.json,
            Self::Sessions(it) => it.common_options().json,
            Self::Artifacts(it) => it.place_options().common.json,
            Self::Campaign(it) => it.options().common.json,
            Self::Outbox(it) => it.common_options().json,
            Self::Mcp(Mcp::Accept { common, .. }) => common.json,
            Self::Graph(it) => it.wants_json(),
            Self::Turn(it) => it.wants_json(),
            Self::Doctor(it) => it.common.json,
            Self::Nodes(it) => it.common.json,
            Self::Telemetry(it) => it.common_options().json,
            Self::Serve(_) | Self::Shell(_) => false,
            Self::Keys(it) => it.keyring_options().common.json,
            Self::Backup(it) => it.common.json,
            Self::Restore(it) => it.common.json,
            Self::Import(it) => it.common.json,
            Self::Erase(it) => it.common.json,
            Self::Torture(it) => it.json,
            Self::Sim(it) => it.json,
            Self::TortureChild(_)
            | Self::TortureStall(_)
            | Self::Completions(_)
            | Self::Man(_)
            | Self::Health(_) => false,
        }
    }
}

impl Sessions {
    /// Returns what all of them take.
    pub(crate) fn common_options(&self) -> &Common {
        match self {
            Self::List { common }
            | Self::Show { common, .. }
            | Self::Delete { common, .. }
            | Self::Export { common, .. }
            | Self::Import { common, .. } => common,
        }
    }
}

/// Parses the address of a server: a scheme, a host, perhaps a port.
fn parse_server_url(text: &str) -> Result<String, String> {
    let host = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
    match host {
        Some(host) if !host.is_empty() && !host.contains(['/', '@', ' ']) => Ok(text.to_owned()),
        _ => Err("write a scheme and a host, as in https://10.0.0.5:8787".to_owned()),
    }
}

fn parse_session_id(text: &str) -> Result<String, String> {
    SessionId::parse(text).map(|parsed| parsed.to_string()).map_err(|error| error.to_string())
}
