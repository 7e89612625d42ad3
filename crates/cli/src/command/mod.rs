//! One module per command.

mod answer;
mod artifact_command;
mod artifacts;
mod backup;
mod campaign;
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
mod import;
mod init;
mod keys;
mod man;
mod mcp;
mod nodes;
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
mod simulated_agents;
mod simulation;
pub(crate) mod slash;
mod telemetry;
mod torture;
mod torture_child;
mod turn;

pub(crate) use retry::not_failed_error;

use std::sync::Arc;

use singletree::ChatTurnOutcome;

use crate::args::Command;
use crate::error::Result;
use crate::print::TerminalOutput;
use crate::wire::Workspace;
use crate::{ask, exit, json};

/// Runs a command and returns the exit code.
pub(crate) async fn run_command(command: Command) -> Result<u8> {
    match command {
        Command::Init(args) => init::run_init_command(&args),
        Command::Check(args) => check::run_check_command(&args).await,
        Command::Chat(args) => chat::run_chat_command(args).await,
        Command::Send(args) => send::run_send_command(args).await,
        Command::Pending(args) => pending::run_pending_command(args).await,
        Command::Answer(args) => answer::run_answer_command(args).await,
        Command::Cancel(args) => cancel::run_cancel_command(args).await,
        Command::Retry(args) => retry::run_retry_command(args).await,
        Command::Fork(args) => fork::run_fork_command(args).await,
        Command::Retain(args) => retain::run_retain_command(args).await,
        Command::Sessions(args) => sessions::run_sessions_command(args).await,
        Command::Artifacts(args) => artifacts::run_artifacts_command(args).await,
        Command::Campaign(args) => campaign::run_campaign_command(args).await,
        Command::Outbox(args) => outbox::run_outbox_command(args).await,
        Command::Mcp(args) => mcp::run_mcp_command(args).await,
        Command::Graph(args) => graph::run_graph_command(args).await,
        Command::Turn(args) => turn::run_turn_command(args).await,
        Command::Doctor(args) => doctor::run_doctor_command(args).await,
        Command::Nodes(args) => nodes::run_nodes_command(args).await,
        Command::Telemetry(args) => telemetry::run_telemetry_command(args).await,
        Command::Serve(args) => serve::run_serve_command(args).await,
        Command::Health(args) => health::run_health_command(args).await,
        Command::Shell(args) => shell::run_shell_command(args).await,
        Command::Keys(args) => keys::run_keys_command(args).await,
        Command::Backup(args) => backup::run_backup_command(args).await,
        Command::Restore(args) => restore::run_restore_command(args).await,
        Command::Import(args) => import::run_import_command(args).await,
        Command::Erase(args) => erase::run_erase_command(args).await,
        Command::Torture(args) => torture::run_torture_command(args).await,
        Command::Sim(args) => simulation::run_sim_command(args).await,
        Command::TortureChild(args) => torture_child::run_torture_child_command(args).await,
        Command::TortureStall(args) => torture_child::run_torture_stall_command(args).await,
        Command::Completions(args) => completions::run_completions_command(&args),
        Command::Man(args) => man::run_man_command(&args),
    }
}

/// Prints how a turn of a script ended, without the parts that were already shown while it ran.
async fn print_turn_outcome(
    workspace: &Workspace,
    session: &str,
    outcome: &Arc<ChatTurnOutcome>,
    (as_json, screen): (bool, &mut TerminalOutput),
) -> Result<u8> {
    if as_json {
        json::print_json(screen, &json::PrintedOutcome::from_outcome(session, outcome))?;
    } else if let ChatTurnOutcome::Suspended(turn) = outcome.as_ref() {
        let waits = ask::list_pending_waits(&workspace.chat, Some(session)).await?;
        for wait in waits.iter().filter(|wait| wait.invocation == turn.invocation_id) {
            ask::show_pending_wait(wait, screen)?;
            ask::show_answer_commands(&workspace.chat, wait, &workspace.here, screen).await?;
        }
    }
    Ok(exit::exit_code_of_outcome(outcome))
}
