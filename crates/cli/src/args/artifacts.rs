//! Arguments of `artifacts`.

use std::str::FromStr;

use super::{Common, parse_session_id};
use crate::served::ServerAddress;

/// `singletree artifacts`.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Artifacts {
    /// List the artifacts of a session: every version, with its digest.
    List {
        #[command(flatten)]
        place: ArtifactPlace,
    },
    /// Show what an artifact says.
    Show {
        /// Which one, as in letter/spring; the newest version unless one is named, as in letter/spring/2.
        #[arg(value_name = "KIND/KEY[/VERSION]")]
        name: ArtifactVersion,
        #[command(flatten)]
        place: ArtifactPlace,
    },
    /// Add a version of an artifact. No model is shown it before it is approved.
    Propose {
        /// Which one, as in letter/spring; it becomes the next version.
        #[arg(value_name = "KIND/KEY")]
        name: ArtifactVersion,
        /// What it says; `-` reads it from the standard input.
        #[arg(value_name = "TEXT")]
        content: String,
        #[command(flatten)]
        place: ArtifactPlace,
    },
    /// Approve one version of an artifact: from then on the agent is shown it with every command.
    Approve {
        /// Which one, as in letter/spring/2.
        #[arg(value_name = "KIND/KEY/VERSION")]
        name: ArtifactVersion,
        /// The digest of what you have read, as `list` and `show` print it.
        #[arg(value_name = "DIGEST")]
        digest: String,
        #[command(flatten)]
        place: ArtifactPlace,
    },
}

/// In which session, and where that is.
#[derive(Debug, clap::Args)]
pub(crate) struct ArtifactPlace {
    /// Which conversation; by default the last one. Needed with --url.
    #[arg(long, value_name = "ID", value_parser = parse_session_id)]
    pub(crate) session: Option<String>,
    #[command(flatten)]
    pub(crate) server: ServerAddress,
    #[command(flatten)]
    pub(crate) common: Common,
}

impl Artifacts {
    /// Returns what all of them take.
    pub(crate) fn place_options(&self) -> &ArtifactPlace {
        match self {
            Self::List { place }
            | Self::Show { place, .. }
            | Self::Propose { place, .. }
            | Self::Approve { place, .. } => place,
        }
    }
}

/// The name of an artifact, with or without a version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ArtifactVersion {
    pub(crate) kind: String,
    pub(crate) key: String,
    pub(crate) version: Option<u64>,
}

impl FromStr for ArtifactVersion {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut parts = text.split('/');
        let (kind, key, version, more) = (parts.next(), parts.next(), parts.next(), parts.next());
        let (Some(kind), Some(key), None) = (kind, key, more) else {
            return Err("it is written as in letter/spring, or letter/spring/2".to_owned());
        };
        let version = version.map(str::parse::<u64>).transpose();
        let version = version.map_err(|_| "a version is a number".to_owned())?;
        Ok(Self { kind: kind.to_owned(), key: key.to_owned(), version })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_artifact_is_named_by_kind_key_and_version() {
        let name =
            |version| Ok(ArtifactVersion { kind: "letter".to_owned(), key: "spring".to_owned(), version });
        assert_eq!("letter/spring".parse(), name(None));
        assert_eq!("letter/spring/2".parse(), name(Some(2)));
        for wrong in ["", "letter", "letter/spring/x", "letter/spring/2/3", "letter/spring/-1"] {
            assert!(wrong.parse::<ArtifactVersion>().is_err(), "{wrong}");
        }
    }
}
