//! One module per command.

mod answer;
mod backup;
mod cancel;
mod chat;
mod chat_there;
mod check;
mod completions;
mod doctor;
mod erase;
mod fork;
mod graph;
mod health;
mod init;
mod keys;
mod man;
mod mcp;
mod outbox;
mod pending;
mod piped;
mod restore;
mod retain;
mod retry;
mod send;
mod serve;
pub(crate) mod sessions;
mod shell;
pub(crate) mod slash;
mod torture;
mod torture_child;
mod turn;

pub(crate) use retry::not_failed;

use std::sync::Arc;

use singletree::ChatTurnOutcome;

use crate::args::Command;
use crate::error::Result;
use crate::print::TerminalOutput;
use crate::wire::Workspace;
use crate::{ask, exit, json};

/// Runs a command and returns the exit code.
pub(crate) async fn run(command: Command) -> Result<u8> {
    match command {
        Command::Init(args) => init::run(&args),
        Command::Check(args) => check::run(&args).await,
        Command::Chat(args) => chat::run(args).await,
        Command::Send(args) => send::run(args).await,
        Command::Pending(args) => pending::run(args).await,
        Command::Answer(args) => answer::run(args).await,
        Command::Cancel(args) => cancel::run(args).await,
        Command::Retry(args) => retry::run(args).await,
        Command::Fork(args) => fork::run(args).await,
        Command::Retain(args) => retain::run(args).await,
        Command::Sessions(args) => sessions::run(args).await,
        Command::Outbox(args) => outbox::run(args).await,
        Command::Mcp(args) => mcp::run(args).await,
        Command::Graph(args) => graph::run(args).await,
        Command::Turn(args) => turn::run(args).await,
        Command::Doctor(args) => doctor::run(args).await,
        Command::Serve(args) => serve::run(args).await,
        Command::Health(args) => health::run(args).await,
        Command::Shell(args) => shell::run(args).await,
        Command::Keys(args) => keys::run(args).await,
        Command::Backup(args) => backup::run(args).await,
        Command::Restore(args) => restore::run(args).await,
        Command::Erase(args) => erase::run(args).await,
        Command::Torture(args) => torture::run(args).await,
        Command::TortureChild(args) => torture_child::run(args).await,
        Command::Completions(args) => completions::run(&args),
        Command::Man(args) => man::run(&args),
    }
}

/// Prints how a turn of a script ended, without the parts that were already shown while it ran.
async fn tell(
    house: &Workspace,
    session: &str,
    outcome: &Arc<ChatTurnOutcome>,
    (as_json, screen): (bool, &mut TerminalOutput),
) -> Result<u8> {
    if as_json {
        json::print(screen, &json::PrintedOutcome::of(session, outcome))?;
    } else if let ChatTurnOutcome::Suspended(turn) = outcome.as_ref() {
        let waits = ask::waiting(&house.chat, Some(session)).await?;
        for wait in waits.iter().filter(|wait| wait.invocation == turn.invocation_id) {
            ask::show(wait, screen)?;
            ask::show_how(&house.chat, wait, &house.here, screen).await?;
        }
    }
    Ok(exit::of(outcome))
}
