//! The licences of the code that is linked into the binary, which ask to be passed on with it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::{cargo_command, read_command_output};

#[derive(Deserialize)]
struct LicenceMetadata {
    packages: Vec<LicensedPackage>,
}

#[derive(Deserialize)]
struct LicensedPackage {
    name: String,
    version: String,
    license: Option<String>,
    manifest_path: PathBuf,
    source: Option<String>,
}

/// Writes the authors and licences of the binary's parts: each crate that is linked into it, the libraries of the
/// page, and every text that comes with them, once.
pub(super) fn collect_notices(root: &Path) -> io::Result<String> {
    let tree =
        ["tree", "-p", "singletree-cli", "-e", "normal,no-proc-macro", "--prefix", "none", "-f", "{p}"];
    let tree = read_command_output(cargo_command(root).args(tree).arg("--locked"))?;
    let linked: BTreeSet<(&str, &str)> = tree
        .lines()
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            Some((words.next()?, words.next()?.strip_prefix('v')?))
        })
        .collect();
    let metadata =
        read_command_output(cargo_command(root).args(["metadata", "--format-version", "1", "--locked"]))?;
    let metadata: LicenceMetadata = serde_json::from_str(&metadata)?;
    let mut list = String::new();
    let mut texts = BTreeMap::new();
    for it in &metadata.packages {
        if it.source.is_none() || !linked.contains(&(it.name.as_str(), it.version.as_str())) {
            continue;
        }
        let name = format!("{} {}", it.name, it.version);
        list.push_str(&format!("{name}: {}\n", it.license.as_deref().unwrap_or("see its licence below")));
        collect_folder_texts(it.manifest_path.parent().unwrap_or(root), &name, &mut texts)?;
    }
    for entry in fs::read_dir(root.join("web/vendor"))? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().replace('-', " ");
        list.push_str(&format!("{name}: see its licence below\n"));
        collect_folder_texts(&path, &name, &mut texts)?;
    }
    let mut lines: Vec<&str> = list.lines().collect();
    lines.sort_unstable();
    let mut text = format!("singletree holds these works of others.\n\n{}\n", lines.join("\n"));
    for (licence, names) in texts {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        text.push_str(&format!("\n{}\n{}\n\n{licence}\n", "=".repeat(80), names.join(", ")));
    }
    Ok(text)
}

/// Collects the texts of a folder, with the name of the work they are of.
fn collect_folder_texts(
    folder: &Path,
    name: &str,
    texts: &mut BTreeMap<String, BTreeSet<String>>,
) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let file = path.file_name().unwrap_or_default().to_string_lossy().to_ascii_uppercase();
        let is_one = ["LICENSE", "LICENCE", "COPYING", "NOTICE", "UNLICENSE"]
            .iter()
            .any(|item| file.starts_with(item));
        if is_one && path.is_file() {
            let text = String::from_utf8_lossy(&fs::read(&path)?).trim().to_owned();
            texts.entry(text).or_default().insert(name.to_owned());
        }
    }
    Ok(())
}
