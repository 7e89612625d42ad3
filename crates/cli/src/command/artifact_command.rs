//! The commands about artifacts inside of a chat.

use super::chat::{TypedDecision, parse_decision};
use crate::args::{AnswerArgument, ArtifactVersion};
use crate::artifact_shelf::{ArtifactShelf, print_artifact};
use crate::error::{Error, Result};
use crate::print::{TerminalOutput, TextStyle};
use crate::prompt::{PromptEditor, PromptInput};

/// The question about an artifact.
const QUESTION: &str = "approve or later? ";

/// A command about artifacts.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ArtifactCommand {
    /// Lists them.
    List,
    /// Shows the one of this name.
    Show(String),
    /// Adds a version of the one of this name.
    Propose(String, String),
    /// Shows the one of this name, and asks whether to approve it.
    Approve(String),
}

impl ArtifactCommand {
    /// Reads a line without its slash; `None` for every other command.
    pub(super) fn from_line(line: &str) -> Option<Self> {
        let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let rest = rest.trim();
        match word {
            "artifacts" => Some(Self::List),
            "show" => Some(Self::Show(rest.to_owned())),
            "approve" => Some(Self::Approve(rest.to_owned())),
            "propose" => {
                let (name, content) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
                Some(Self::Propose(name.to_owned(), content.trim().to_owned()))
            }
            _ => None,
        }
    }

    /// Carries the command out.
    pub(super) async fn run_at_shelf(
        self,
        shelf: &ArtifactShelf<'_>,
        prompt: &mut PromptEditor,
        screen: &mut TerminalOutput,
    ) -> Result<()> {
        match self {
            Self::List => shelf.print_list(screen).await,
            Self::Show(name) => Ok(print_artifact(&shelf.find(&parse_name(&name)?).await?, screen)?),
            Self::Propose(name, content) => {
                let name = parse_name(&name)?;
                if content.is_empty() {
                    return Err(Error::Usage(
                        "write what it says: /propose letter/spring Dear all".to_owned(),
                    ));
                }
                let added = shelf.propose((&name.kind, &name.key), content).await?;
                let line = format!("proposed: {}/{}/{}", added.kind, added.key, added.version);
                Ok(screen.write_line(&line)?)
            }
            Self::Approve(name) => {
                let found = shelf.find(&parse_name(&name)?).await?;
                print_artifact(&found, screen)?;
                if found.approved_by.is_some() {
                    return Ok(screen.write_line("it is approved already")?);
                }
                let coloured = screen.apply_style(TextStyle::Strong, QUESTION);
                let PromptInput::Line(line) = prompt.read_line(QUESTION, coloured).await? else {
                    return Ok(());
                };
                if parse_decision(&line) != TypedDecision::Now(AnswerArgument::Approved(true)) {
                    return Ok(screen.write_line("it is not approved")?);
                }
                // The digest is that of the text on the screen: another version is not approved by this.
                shelf.approve(&found, &found.digest).await?;
                Ok(screen.write_line(&format!("approved: {}/{}/{}", found.kind, found.key, found.version))?)
            }
        }
    }
}

fn parse_name(name: &str) -> Result<ArtifactVersion> {
    name.parse().map_err(Error::Usage)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_command_about_artifacts_by_its_first_word() {
        let check = |line: &str, expected: Option<ArtifactCommand>| {
            assert_eq!(ArtifactCommand::from_line(line), expected, "{line}");
        };
        let name = || "letter/spring".to_owned();
        check("artifacts", Some(ArtifactCommand::List));
        check("show letter/spring", Some(ArtifactCommand::Show(name())));
        check("approve  letter/spring", Some(ArtifactCommand::Approve(name())));
        let content = "Dear all".to_owned();
        check("propose letter/spring  Dear all", Some(ArtifactCommand::Propose(name(), content)));
        check("approved", None);
        check("sessions", None);
    }
}
