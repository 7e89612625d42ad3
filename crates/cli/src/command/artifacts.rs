//! `singletree artifacts`: the documents that agents are shown with commands.

use crate::args::{ArtifactVersion, Artifacts};
use crate::artifact_shelf::{ArtifactShelf, print_artifact};
use crate::error::{Error, Result};
use crate::exit::COMPLETED;
use crate::json;
use crate::place::DatabaseLocation;
use crate::print::TerminalOutput;
use crate::served::{self, ChatLocation};
use crate::wire::Workspace;

/// Runs the command; those that only read do it beside a writer or alone.
pub(crate) async fn run_artifacts_command(args: Artifacts) -> Result<u8> {
    let options = args.place_options();
    let place = DatabaseLocation::from_options(&options.common.db)?;
    let last = place.last_session().filter(|_| options.server.url.is_none());
    let missing = || Error::Usage("name a conversation by --session".to_owned());
    let session = options.session.clone().or(last).ok_or_else(missing)?;
    let reads = matches!(args, Artifacts::List { .. } | Artifacts::Show { .. });
    if reads && options.server.url.is_none() {
        let workspace = Workspace::open_read_only(&place).await?;
        return run_at_shelf(args, &ArtifactShelf::in_workspace(&workspace, &session).await?).await;
    }
    let open = Workspace::open_without_agents(&place, "artifacts");
    match served::locate_chat(&place, &options.server, open).await? {
        ChatLocation::There(served) => run_at_shelf(args, &served.artifact_shelf(&session)).await,
        ChatLocation::Here(workspace) => {
            let ran = match ArtifactShelf::in_workspace(&workspace, &session).await {
                Ok(shelf) => run_at_shelf(args, &shelf).await,
                Err(error) => Err(error),
            };
            workspace.close_gracefully().await;
            ran
        }
    }
}

async fn run_at_shelf(args: Artifacts, shelf: &ArtifactShelf<'_>) -> Result<u8> {
    let as_json = args.place_options().common.json;
    let mut screen = TerminalOutput::standard_output();
    match args {
        Artifacts::List { .. } if as_json => {
            let items = shelf.list().await?;
            json::print_json(&mut screen, &singletree_protocol::native::ArtifactList { items })?;
        }
        Artifacts::List { .. } => shelf.print_list(&mut screen).await?,
        Artifacts::Show { name, .. } => {
            let found = shelf.find(&name).await?;
            match as_json {
                true => json::print_json(&mut screen, &found)?,
                false => print_artifact(&found, &mut screen)?,
            }
        }
        Artifacts::Propose { name, content, .. } => {
            if name.version.is_some() {
                return Err(Error::Usage("a proposal becomes the next version: name none".to_owned()));
            }
            let content = super::send::read_message_text(content).await?;
            let added = shelf.propose((&name.kind, &name.key), content).await?;
            match as_json {
                true => json::print_json(&mut screen, &added)?,
                false => screen.write_line(&format!(
                    "proposed: {}/{}/{} {}",
                    added.kind, added.key, added.version, added.digest
                ))?,
            }
        }
        Artifacts::Approve { name, digest, .. } => {
            if name.version.is_none() {
                return Err(Error::Usage(
                    "an approval is of one version: name it, as in letter/spring/2".to_owned(),
                ));
            }
            let found = shelf.find(&name).await?;
            shelf.approve(&found, &digest).await?;
            let approved = shelf.find(&name).await?;
            match as_json {
                true => json::print_json(&mut screen, &approved)?,
                false => {
                    let ArtifactVersion { kind, key, .. } = name;
                    screen.write_line(&format!("approved: {kind}/{key}/{}", approved.version))?;
                }
            }
        }
    }
    Ok(COMPLETED)
}
