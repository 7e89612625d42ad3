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
pub(crate) async fn run_health_command(args: Health) -> Result<u8> {
    match check_server_ready(&args).await {
        Ok(()) => {
            TerminalOutput::standard_output().write_line("ready")?;
            Ok(COMPLETED)
        }
        Err(error) => {
            TerminalOutput::standard_error().write_line(&format!("not ready: {error}"))?;
            Ok(ERRORED)
        }
    }
}

async fn check_server_ready(args: &Health) -> Result<()> {
    let server = match &args.url {
        // The route asks nobody for a key.
        Some(url) => OperatorClient::new(url, Secret::new(""))?,
        None => {
            let place = DatabaseLocation::from_options(&args.db)?;
            let nobody = || Error::Usage(format!("no server runs over {}", place.shown_name()));
            OperatorClient::find_for_database(&place)?.ok_or_else(nobody)?
        }
    };
    let answer: Ready = server.request_json(Method::Get, "/readyz", None::<&()>).await?;
    match answer.ready {
        true => Ok(()),
        false => Err(Error::Usage("the server says that it is not ready".to_owned())),
    }
}
