//! `singletree health`: asks a running server whether it is ready, for supervisors and containers.

use singletree::http::{Method, Secret};
use singletree_protocol::native::Ready;

use crate::args::Health;
use crate::error::{Error, Result};
use crate::exit::{COMPLETED, ERRORED};
use crate::operator::OperatorClient;
use crate::place::DatabaseLocation;
use crate::print::TerminalOutput;

/// Runs the command. Container engines know two results, 0 and 1, so that every failure is 1.
pub(crate) async fn run(args: Health) -> Result<u8> {
    match ask_ready(&args).await {
        Ok(()) => {
            TerminalOutput::out().line("ready")?;
            Ok(COMPLETED)
        }
        Err(error) => {
            TerminalOutput::err().line(&format!("not ready: {error}"))?;
            Ok(ERRORED)
        }
    }
}

async fn ask_ready(args: &Health) -> Result<()> {
    let server = match &args.url {
        // The route asks nobody for a key.
        Some(url) => OperatorClient::new(url, Secret::new(""))?,
        None => {
            let place = DatabaseLocation::of(args.db.db.as_deref())?;
            let nobody = || Error::Usage(format!("no server runs over {}", place.db().display()));
            OperatorClient::beside(&place)?.ok_or_else(nobody)?
        }
    };
    let answer: Ready = server.ask(Method::Get, "/readyz", None::<&()>).await?;
    match answer.ready {
        true => Ok(()),
        false => Err(Error::Usage("the server says that it is not ready".to_owned())),
    }
}
