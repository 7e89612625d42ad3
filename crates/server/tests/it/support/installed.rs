//! Programs of others that `.ci/tools/install` brings.

use std::io::Write as _;
use std::path::PathBuf;

/// Where the file of an installed program is, if it is there; else it is said that the test is not run.
pub(crate) fn installed(test: &str, file: &str) -> Option<PathBuf> {
    let missing = |reason: &str| {
        // `eprintln!` of a test that passes is swallowed.
        writeln!(std::io::stderr(), "not run: {test}: {reason}")
            .expect("the test's error stream takes a line");
        None
    };
    let Some(tools) = std::env::var_os("SINGLETREE_TOOLS").map(PathBuf::from) else {
        return missing("SINGLETREE_TOOLS is not set; .ci/run sets it");
    };
    let path = tools.join(file);
    if path.exists() { Some(path) } else { missing(&format!("{file} is not installed")) }
}
