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
pub(crate) async fn run(args: Cancel) -> Result<u8> {
    let place = DatabaseLocation::of(args.common.db.db.as_deref())?;
    let open = Workspace::open(&place, &args.who, "cancel");
    let house = match served::reach(&place, &args.server, open).await? {
        ChatLocation::Here(house) => *house,
        ChatLocation::There(served) => {
            let session = match (&args.session, &args.server.url) {
                (Some(session), _) => session.clone(),
                (None, None) => {
                    Workspace::look(&place).await?.chat.turn(&args.turn).await?.session().to_owned()
                }
                (None, Some(_)) => return Err(Error::Usage("with --url, name the --session".to_owned())),
            };
            let turn = args.turn.to_string();
            let mut screen = TerminalOutput::out();
            return served.cancel((&session, &turn), (args.common.json, &mut screen)).await;
        }
    };
    let code = cancel(&args, &house).await;
    let code = house.clean(code);
    house.close().await;
    code
}

async fn cancel(args: &Cancel, house: &Workspace) -> Result<u8> {
    let turn = house.chat.cancel(&args.turn).await?;
    let outcome = turn.outcome().await;
    let cancelled = matches!(
        outcome.as_ref(),
        ChatTurnOutcome::Errored(it) if it.error_category == "chat_turn_cancelled"
    );
    let mut screen = TerminalOutput::out();
    if args.common.json {
        json::print(&mut screen, &json::PrintedOutcome::of(turn.session(), &outcome))?;
    } else if cancelled {
        screen.line(&format!("cancelled: {}", args.turn))?;
    } else {
        screen.line(&format!("had ended already: {}, {}", args.turn, outcome.as_str()))?;
    }
    Ok(if cancelled { COMPLETED } else { ERRORED })
}
