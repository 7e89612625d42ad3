//! The repository as the checks see it: its files, packages and lock file, all read once.

use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;

use crate::lock::CargoLockfile;
use crate::packages::{WorkspacePackage, read_workspace_packages};
use crate::rust_source::RustSource;

/// Everything the checks look at.
#[derive(Debug, Default)]
pub struct Repository {
    pub(crate) files: Vec<SourceFile>,
    pub(crate) packages: Vec<WorkspacePackage>,
    pub(crate) lock: CargoLockfile,
}

/// A text file of the repository.
#[derive(Debug)]
pub(crate) struct SourceFile {
    /// Where it lies below the root, with `/` between the parts.
    pub(crate) path: String,
    /// Its content.
    pub(crate) text: String,
    /// Its code apart from its comments and strings, if it is Rust.
    pub(crate) rust: Option<RustSource>,
}

impl Repository {
    /// Reads the repository whose root folder is given.
    ///
    /// Files that are not UTF-8 are left out: no rule speaks of them.
    ///
    /// # Errors
    ///
    /// Returns the error of reading the folder, the lock file or cargo's metadata.
    pub fn open(root: &Path) -> io::Result<Self> {
        let paths = match list_git_files(root) {
            Some(paths) => paths,
            None => list_folder_files(root)?,
        };
        let read = |path: String| {
            let bytes = fs::read(root.join(&path)).ok()?; // listed, but deleted since
            Some(SourceFile::new(path, String::from_utf8(bytes).ok()?))
        };
        Ok(Self {
            files: paths.into_iter().filter_map(read).collect(),
            packages: read_workspace_packages(root)?,
            lock: CargoLockfile::parse(&fs::read_to_string(root.join("Cargo.lock"))?),
        })
    }

    /// Returns the file at this path.
    pub(crate) fn find_file(&self, path: &str) -> Option<&SourceFile> {
        self.files.iter().find(|file| file.path == path)
    }

    /// Returns the Rust files and their scanned sources.
    pub(crate) fn rust_files(&self) -> impl Iterator<Item = (&SourceFile, &RustSource)> {
        self.files.iter().filter_map(|file| Some((file, file.rust.as_ref()?)))
    }

    /// Builds a repository from paths and texts, for tests of the checks.
    #[cfg(test)]
    pub(crate) fn from_texts(files: &[(&str, &str)]) -> Self {
        let files = files.iter().map(|(path, text)| SourceFile::new((*path).into(), (*text).into()));
        Self { files: files.collect(), ..Self::default() }
    }
}

impl SourceFile {
    fn new(path: String, text: String) -> Self {
        let rust = path.ends_with(".rs").then(|| RustSource::scan(&text));
        Self { path, text, rust }
    }

    /// Returns the last part of its path.
    pub(crate) fn file_name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }

    /// Returns its folder, empty for the root.
    pub(crate) fn folder(&self) -> &str {
        self.path.rsplit_once('/').map_or("", |(folder, _)| folder)
    }

    /// Tells whether all of it is tests: `tests.rs`, or anything in a folder `tests`.
    pub(crate) fn is_only_tests(&self) -> bool {
        self.file_name() == "tests.rs" || self.folder().split('/').any(|part| part == "tests")
    }

    /// Returns the line, from 1, where its tests begin.
    pub(crate) fn first_test_line(&self) -> Option<usize> {
        if self.is_only_tests() { Some(1) } else { self.rust.as_ref()?.first_test_line() }
    }
}

/// Asks git for the tracked files and those that could be; none where there is no git.
fn list_git_files(root: &Path) -> Option<Vec<String>> {
    let output = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    let mut paths: Vec<String> =
        String::from_utf8_lossy(&output.stdout).split_terminator('\0').map(ToOwned::to_owned).collect();
    paths.sort();
    paths.dedup(); // a file in conflict is listed once per side
    Some(paths).filter(|paths| !paths.is_empty())
}

/// Walks the folder, build output and git's own files left out.
fn list_folder_files(root: &Path) -> io::Result<Vec<String>> {
    let mut paths = Vec::new();
    let mut folders = vec![String::new()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root.join(&folder))? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let kind = entry.file_type()?;
            if kind.is_dir() && name != "target" && name != ".git" {
                folders.push(format!("{folder}{name}/"));
            } else if kind.is_file() {
                paths.push(format!("{folder}{name}"));
            }
        }
    }
    paths.sort();
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_walk_and_git_agree_that_this_file_is_here_and_build_output_is_not() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        for paths in [list_folder_files(&root).unwrap(), list_git_files(&root).unwrap_or_default()] {
            // A checkout without git has no listing; the walk is for it.
            if !paths.is_empty() {
                assert!(paths.iter().any(|path| path == "xtask/src/repo.rs"));
                assert!(!paths.iter().any(|path| path.starts_with("target/")));
            }
        }
    }

    #[test]
    fn tests_are_known_by_file_name_by_folder_and_by_module() {
        let check = |path: &str, text: &str, expect: Option<usize>| {
            assert_eq!(SourceFile::new(path.into(), text.into()).first_test_line(), expect, "{path}");
        };
        check("a/src/x/tests.rs", "", Some(1));
        check("a/tests/it/x.rs", "", Some(1));
        check("a/src/x.rs", "fn x() {}\n\n#[cfg(test)]\nmod tests {}\n", Some(3));
        check("a/src/contests.rs", "fn x() {}\n", None);
    }
}
