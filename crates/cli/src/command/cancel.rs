//! `singletree cancel`: the end of a turn, for scripts.

use singletree::ChatTurnOutcome;

use crate::args::Cancel;
use crate::error::{Error, Result};
use crate::exit::{COMPLETED, ERRORED};
use crate::json;
use crate::place::DatabaseLocation;
use crate::print::TerminalOutput;
use crate::served::{self, ChatLocation};
use crate::wire::Workspace;

/// Runs the command: it succeeds when the turn ended by it, or by an earlier one.
pub(crate) async fn run_cancel_command(args: Cancel) -> Result<u8> {
    let place = DatabaseLocation::from_options(&args.common.db)?;
    let open = Workspace::open_with_agents(&place, &args.who, "cancel");
    let workspace = match served::locate_chat(&place, &args.server, open).await? {
        ChatLocation::Here(workspace) => *workspace,
        ChatLocation::There(served) => {
            let session = match (&args.session, &args.server.url) {
                (Some(session), _) => session.clone(),
                (None, None) => {
                    Workspace::open_read_only(&place).await?.chat.turn(&args.turn).await?.session().to_owned()
                }
                (None, Some(_)) => return Err(Error::Usage("with --url, name the --session".to_owned())),
            };
            let turn = args.turn.to_string();
            let mut screen = TerminalOutput::standard_output();
            return served.cancel_turn((&session, &turn), (args.common.json, &mut screen)).await;
        }
    };
    let code = cancel_in_workspace(&args, &workspace).await;
    let code = workspace.redact_result(code);
    workspace.close_gracefully().await;
    code
}

async fn cancel_in_workspace(args: &Cancel, workspace: &Workspace) -> Result<u8> {
    let turn = workspace.chat.cancel(&args.turn).await?;
    let outcome = turn.outcome().await;
    let cancelled = matches!(
        outcome.as_ref(),
        ChatTurnOutcome::Errored(it) if it.error_category == "chat_turn_cancelled"
    );
    let mut screen = TerminalOutput::standard_output();
    if args.common.json {
        json::print_json(&mut screen, &json::PrintedOutcome::from_outcome(turn.session(), &outcome))?;
    } else if cancelled {
        screen.write_line(&format!("cancelled: {}", args.turn))?;
    } else {
        screen.write_line(&format!("had ended already: {}, {}", args.turn, outcome.as_str()))?;
    }
    Ok(if cancelled { COMPLETED } else { ERRORED })
}
