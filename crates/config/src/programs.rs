//! Whether the programs of MCP servers are on this machine.
//!
//! That is no mistake of the file: one that comes later, or went away with an upgrade, keeps no agent from answering
//! with the tools that are left. Who looks for mistakes is told, though.

use std::collections::BTreeSet;
use std::path::Path;

use crate::config::Config;
use crate::report::{MistakeCollector, MistakeKind};
use crate::resolve::ReadyServer;
use crate::section::printable_name;
use crate::server::ServerTransport;
use crate::spot::LocatedValue;

impl Config {
    /// Takes down which programs of the servers that agents use cannot be found, and returns the places of those
    /// servers.
    pub(crate) fn report_missing_programs(&self, faults: &MistakeCollector) -> BTreeSet<usize> {
        let mut absent = BTreeSet::new();
        for ready in &self.resolved.servers {
            let Some(table) = self.file.servers.get(ready.index) else { continue };
            if let ServerTransport::Command { program, folder, .. } = &table.reach {
                let folder =
                    folder.as_ref().map_or_else(|| self.folder.clone(), |folder| self.resolve_path(folder));
                if !report_missing_program(
                    &table.name.value,
                    program,
                    (&folder, program_search_path(ready)),
                    faults,
                ) {
                    absent.insert(ready.index);
                }
            }
        }
        absent
    }
}

/// Returns the `PATH` that a server gets: the file's own goes before ours.
fn program_search_path(ready: &ReadyServer) -> Option<&str> {
    let own = ready.settings.iter().rfind(|(name, _, _)| name == "PATH").map(|(_, value, _)| value.expose());
    own.or_else(|| ready.inherited.iter().find(|(name, _)| name == "PATH").map(|(_, value)| value.as_str()))
}

/// Looks for a program as the system would that starts it; false when it was told that there is none.
fn report_missing_program(
    server: &str,
    program: &LocatedValue<String>,
    (folder, path): (&Path, Option<&str>),
    faults: &MistakeCollector,
) -> bool {
    let name = program.value.as_str();
    let Some((why, hint)) = explain_absence(name, folder, path) else { return true };
    let what = format!("`mcp.{server}.command` is `{}`, {why}", printable_name(name));
    faults.add_with_hint(program.at, MistakeKind::Unavailable, what, hint);
    false
}

/// Returns why a program cannot be started, and a hint; nothing where it can be.
fn explain_absence(name: &str, folder: &Path, path: Option<&str>) -> Option<(&'static str, String)> {
    if !folder.is_dir() {
        let hint = "`folder` is relative to the folder of this file".to_owned();
        return Some(("whose folder is not there", hint));
    }
    if name.contains('/') {
        let hint = "a relative path starts where the server does: in its `folder`, else in that of this file";
        return match program_file_kind(&folder.join(name)) {
            ProgramFileKind::Program => None,
            ProgramFileKind::File => Some((
                "which nobody may run",
                format!("make it a program: chmod +x {}", printable_name(name)),
            )),
            ProgramFileKind::Nothing => Some(("which is not there", hint.to_owned())),
        };
    }
    // Without a list of folders the system has its own, which nobody knows here.
    let mut folders = path?.split(':').map(|part| folder.join(part));
    let is_there = folders.any(|folder| program_file_kind(&folder.join(name)) == ProgramFileKind::Program);
    let hint = "install it, correct its name, or write its whole path";
    (!is_there).then(|| ("which is in no folder of PATH", hint.to_owned()))
}

/// The kind of file at a path.
#[derive(Debug, PartialEq, Eq)]
enum ProgramFileKind {
    Program,
    File,
    Nothing,
}

#[cfg(unix)]
fn program_file_kind(path: &Path) -> ProgramFileKind {
    use std::os::unix::fs::PermissionsExt;

    match std::fs::metadata(path) {
        Ok(it) if it.is_file() && it.permissions().mode() & 0o111 != 0 => ProgramFileKind::Program,
        Ok(it) if it.is_file() => ProgramFileKind::File,
        Ok(_) | Err(_) => ProgramFileKind::Nothing,
    }
}

/// Elsewhere endings are added to names: only the code that starts a program knows which files it can start.
#[cfg(not(unix))]
fn program_file_kind(_path: &Path) -> ProgramFileKind {
    ProgramFileKind::Program
}
