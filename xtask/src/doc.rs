//! Builds the documentation with every warning denied.

use std::io;
use std::path::Path;
use std::process::Command;

/// Runs `cargo doc` over the workspace and returns whether it passed.
///
/// Public items without docs and links that lead nowhere fail it.
///
/// # Errors
///
/// Returns the error of starting cargo.
pub fn build_documentation(root: &Path) -> io::Result<bool> {
    let status = Command::new("cargo")
        .args(["doc", "--workspace", "--no-deps", "--locked"])
        .env("RUSTDOCFLAGS", "-Dwarnings")
        .current_dir(root)
        .status()?;
    Ok(status.success())
}
