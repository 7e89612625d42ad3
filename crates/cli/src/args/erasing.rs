//! Arguments of `erase`, `import` and `restore`.

use std::path::PathBuf;

use singletree::durable::{SubjectId, TenantId};

use super::Common;

/// `singletree erase`.
#[derive(Debug, clap::Args)]
#[command(group(clap::ArgGroup::new("whom").required(true).multiple(true).args(["tenant", "subject"])))]
pub(crate) struct Erase {
    /// Everything of this tenant; with --subject, what is kept for the subject in this tenant.
    #[arg(long, value_name = "TENANT", value_parser = parse_tenant_id)]
    pub(crate) tenant: Option<TenantId>,
    /// The conversations that were made on behalf of this subject, with their forks, in all tenants: the id of a key, the `sub` of a
    /// token, or what was said in X-Subject.
    #[arg(long, value_name = "SUBJECT", value_parser = parse_subject_id)]
    pub(crate) subject: Option<SubjectId>,
    /// The file of the agents, whose `narration_file` is cleared of what is erased; by default singletree.toml in this folder.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// `singletree restore`.
#[derive(Debug, clap::Args)]
pub(crate) struct Restore {
    /// The backup; it stays as it is. Not with a PostgreSQL database, which its own programs restore before.
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// A list of the data that was erased since the backup was made: the file of --list-erased, of each machine. Beside a database that
    /// is a file and beside the backup, FILE.erased, it is found by itself.
    #[arg(long, value_name = "FILE")]
    pub(crate) erased: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// `singletree import`.
#[derive(Debug, clap::Args)]
pub(crate) struct Import {
    /// The database to read, a file of SQLite. No server may use it. Its conversations stay; a file of an older version is brought to
    /// this one.
    #[arg(long, value_name = "FILE")]
    pub(crate) from: PathBuf,
    #[command(flatten)]
    pub(crate) common: Common,
}

fn parse_tenant_id(text: &str) -> Result<TenantId, String> {
    singletree_server::parse_tenant_name(text).map_err(|error| error.to_string())
}

fn parse_subject_id(text: &str) -> Result<SubjectId, String> {
    SubjectId::parse(text).map_err(|error| error.to_string())
}
