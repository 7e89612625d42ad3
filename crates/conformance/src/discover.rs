//! Finding fixtures: `DIR/<capability>/conformance/*.yaml`.

use std::io;
use std::path::{Path, PathBuf};

/// A fixture file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FixtureFile {
    /// The capability's folder name.
    pub(crate) capability: String,
    /// The file's name without its ending.
    pub(crate) fixture: String,
    /// Where it is.
    pub(crate) path: PathBuf,
}

/// Where the capabilities stand in a folder of several specifications.
const SPECIFICATION: &str = "openarmature";

/// Finds every fixture below a folder of capabilities, sorted. It may also be the folder that holds theirs.
///
/// # Errors
/// When a folder cannot be read, or there is no fixture at all.
pub(crate) fn discover_fixtures(dir: &Path) -> io::Result<Vec<FixtureFile>> {
    let within = dir.join(SPECIFICATION);
    let dir = if within.is_dir() { within.as_path() } else { dir };
    let mut found = Vec::new();
    for capability in std::fs::read_dir(dir)? {
        let folder = capability?.path().join("conformance");
        if !folder.is_dir() {
            continue;
        }
        for file in std::fs::read_dir(&folder)? {
            let path = file?.path();
            if path.extension().is_some_and(|extension| extension == "yaml" || extension == "yml") {
                found.push(FixtureFile {
                    capability: file_name(folder.parent()),
                    fixture: file_stem(&path),
                    path,
                });
            }
        }
    }
    if found.is_empty() {
        let what = format!("no <capability>/conformance/*.yaml below {}", dir.display());
        return Err(io::Error::new(io::ErrorKind::NotFound, what));
    }
    found.sort();
    Ok(found)
}

fn file_name(path: Option<&Path>) -> String {
    path.and_then(Path::file_name).map(|it| it.to_string_lossy().into_owned()).unwrap_or_default()
}

fn file_stem(path: &Path) -> String {
    path.file_stem().map(|file_stem| file_stem.to_string_lossy().into_owned()).unwrap_or_default()
}
