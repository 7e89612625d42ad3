//! Checks the lock file against a folder of advisories in the layout of RustSec's database.
//!
//! An advisory is a Markdown file under `crates/PACKAGE/` that begins with a block of TOML. It holds for a version of
//! its package that neither one of its `patched` nor one of its `unaffected` requirements matches. One that was
//! withdrawn holds for nothing; one that is only informational (unmaintained, unsound, a notice) is listed and fails
//! nothing.

use std::cmp::Ordering;
use std::fmt;
use std::io;
use std::path::Path;

use serde::Deserialize;

/// The result of checking the packages of a lock file.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct AdvisoryReport {
    /// How many packages were looked at.
    pub packages: usize,
    /// How many advisories were read.
    pub advisories: usize,
    /// Vulnerabilities: id, package, version, title.
    pub vulnerabilities: Vec<String>,
    /// Advisories that are only informational.
    pub notes: Vec<String>,
}

impl AdvisoryReport {
    /// Tells whether no package has a known vulnerability.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.vulnerabilities.is_empty()
    }
}

impl fmt::Display for AdvisoryReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for note in &self.notes {
            writeln!(f, "note: {note}")?;
        }
        for vulnerability in &self.vulnerabilities {
            writeln!(f, "vulnerability: {vulnerability}")?;
        }
        let Self { packages, advisories, vulnerabilities, notes } = self;
        writeln!(
            f,
            "advisories: {packages} packages against {advisories} advisories: {} vulnerabilities, {} notes",
            vulnerabilities.len(),
            notes.len()
        )
    }
}

#[derive(Deserialize)]
struct AdvisoryDocument {
    advisory: SecurityAdvisory,
    #[serde(default)]
    versions: AdvisoryVersions,
}

#[derive(Deserialize)]
struct SecurityAdvisory {
    id: String,
    package: String,
    title: Option<String>,
    informational: Option<toml::Value>,
    withdrawn: Option<toml::Value>,
}

#[derive(Deserialize, Default)]
struct AdvisoryVersions {
    #[serde(default)]
    patched: Vec<String>,
    #[serde(default)]
    unaffected: Vec<String>,
}

/// Checks the packages of a lock file against a folder of advisories.
///
/// # Errors
/// A folder without any advisory, and one with a file that cannot be read: both would let everything pass.
pub fn check_advisories(lock: &str, folder: &Path) -> io::Result<AdvisoryReport> {
    let packages = foreign_packages(lock);
    let mut report = AdvisoryReport { packages: packages.len(), ..AdvisoryReport::default() };
    let crates = folder.join("crates");
    let mut folders = vec![if crates.is_dir() { crates } else { folder.to_owned() }];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).map_err(|error| add_path_to_error(&folder, error))? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                let text = std::fs::read_to_string(&path)?;
                // A page that explains the folder has no block of TOML.
                if let Some(front) = front_matter(&text) {
                    report.advisories += 1;
                    check_advisory(front, &packages, &mut report)
                        .map_err(|error| add_path_to_error(&path, error))?;
                }
            }
        }
    }
    if report.advisories == 0 {
        let why = format!("{} has no advisories in RustSec's layout", folder.display());
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    report.vulnerabilities.sort();
    report.notes.sort();
    Ok(report)
}

fn add_path_to_error(path: &Path, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

/// Returns the block of TOML that a file begins with.
fn front_matter(text: &str) -> Option<&str> {
    let rest = text.trim_start().strip_prefix("```toml")?;
    rest.split_once("\n```").map(|(front, _)| front)
}

fn check_advisory(front: &str, packages: &[(String, String)], report: &mut AdvisoryReport) -> io::Result<()> {
    let invalid = |why: String| io::Error::new(io::ErrorKind::InvalidData, why);
    let AdvisoryDocument { advisory, versions } =
        toml::from_str(front).map_err(|error| invalid(error.to_string()))?;
    if advisory.withdrawn.is_some() {
        return Ok(());
    }
    for (name, version) in packages.iter().filter(|(name, _)| *name == advisory.package) {
        let mut safe = false;
        for requirement in versions.patched.iter().chain(&versions.unaffected) {
            let unreadable = || invalid(format!("'{requirement}' is no requirement that can be read"));
            safe |= matches_requirement(requirement, version).ok_or_else(unreadable)?;
        }
        if !safe {
            let title = advisory.title.as_deref().unwrap_or("no title");
            let line = format!("{}: {name} {version}: {title}", advisory.id);
            match advisory.informational {
                Some(_) => report.notes.push(line),
                None => report.vulnerabilities.push(line),
            }
        }
    }
    Ok(())
}

/// Returns the packages of a lock file that come from elsewhere, with their versions.
fn foreign_packages(lock: &str) -> Vec<(String, String)> {
    let mut packages = Vec::new();
    for block in lock.split("[[package]]").skip(1) {
        let value = |key: &str| {
            let line = block.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = "));
            line.map(|line| line.trim_matches('"').to_owned())
        };
        if let (Some(name), Some(version), Some(_)) = (value("name"), value("version"), value("source")) {
            packages.push((name, version));
        }
    }
    packages
}

/// A version: its numbers, and its pre-release parts.
type Version<'a> = ([u64; 3], Option<&'a str>);

/// Reads a version; also how many of its numbers were given, since a requirement may leave some out.
fn parse_version(text: &str) -> Option<(Version<'_>, usize)> {
    let text = text.split('+').next().unwrap_or_default();
    let (numbers, pre) = text.split_once('-').map_or((text, None), |(numbers, pre)| (numbers, Some(pre)));
    let mut parsed = [0; 3];
    let mut given = 0;
    for part in numbers.split('.') {
        *parsed.get_mut(given)? = part.trim().parse().ok()?;
        given += 1;
    }
    Some(((parsed, pre), given))
}

/// Compares as semantic versioning orders: a pre-release comes before its release.
fn compare_versions(one: Version<'_>, other: Version<'_>) -> Ordering {
    let numbers = one.0.cmp(&other.0);
    numbers.then_with(|| match (one.1, other.1) {
        (None, None) => Ordering::Equal,
        (None, Some(_)) => Ordering::Greater,
        (Some(_), None) => Ordering::Less,
        (Some(one), Some(other)) => compare_dotted_parts(one, other),
    })
}

fn compare_dotted_parts(one: &str, other: &str) -> Ordering {
    let (mut ones, mut others) = (one.split('.'), other.split('.'));
    loop {
        let order = match (ones.next(), others.next()) {
            (None, None) => return Ordering::Equal,
            (None, Some(_)) => Ordering::Less,
            (Some(_), None) => Ordering::Greater,
            (Some(one), Some(other)) => match (one.parse::<u64>(), other.parse::<u64>()) {
                (Ok(one), Ok(other)) => one.cmp(&other),
                (Ok(_), Err(_)) => Ordering::Less,
                (Err(_), Ok(_)) => Ordering::Greater,
                (Err(_), Err(_)) => one.cmp(other),
            },
        };
        if order != Ordering::Equal {
            return order;
        }
    }
}

/// Tells whether a version fits a requirement: comparisons with commas between them. None when it cannot be read.
fn matches_requirement(requirement: &str, version: &str) -> Option<bool> {
    let (version, _) = parse_version(version)?;
    let mut fits = true;
    for part in requirement.split(',').map(str::trim) {
        let digits = part.find(|it: char| it.is_ascii_digit())?;
        let (operator, bound) = part.split_at(digits);
        let (bound, given) = parse_version(bound.trim())?;
        let order = compare_versions(version, bound);
        fits &= match operator.trim() {
            ">=" => order != Ordering::Less,
            ">" => order == Ordering::Greater,
            "<" => order == Ordering::Less,
            "<=" => order != Ordering::Greater,
            "=" => version.0.get(..given) == bound.0.get(..given) && version.1 == bound.1,
            "~" => order != Ordering::Less && version.0.get(..given.min(2)) == bound.0.get(..given.min(2)),
            "" | "^" => {
                // Up to and with the first number that is not 0.
                let kept = bound.0.iter().position(|it| *it > 0).map_or(given, |it| it + 1).min(given);
                order != Ordering::Less && version.0.get(..kept) == bound.0.get(..kept)
            }
            _ => return None,
        };
    }
    Some(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCK: &str = "version = 4\n\n[[package]]\nname = \"own\"\nversion = \"0.1.0\"\n\n[[package]]\nname = \"leaf\"\n\
        version = \"1.2.3\"\nsource = \"registry\"\n\n[[package]]\nname = \"leaf\"\nversion = \"2.0.0\"\nsource = \"registry\"\n";

    fn advisory(id: &str, more: &str, versions: &str) -> String {
        format!(
            "```toml\n[advisory]\nid = \"{id}\"\npackage = \"leaf\"\ndate = \"2026-01-01\"\ntitle = \"It leaks\"\n{more}\n\
             [versions]\n{versions}\n```\n\n# It leaks\n\n```toml\nno = \"front\"\n```\n"
        )
    }

    /// Plants advisories in a folder and returns the report about them.
    fn found(name: &str, advisories: &[String]) -> io::Result<AdvisoryReport> {
        let folder = std::env::temp_dir().join(format!("advisories-{name}-{}", std::process::id()));
        let crates = folder.join("crates").join("leaf");
        std::fs::create_dir_all(&crates)?;
        std::fs::write(folder.join("crates").join("README.md"), "# Advisories\n")?;
        for (at, text) in advisories.iter().enumerate() {
            std::fs::write(crates.join(format!("{at}.md")), text)?;
        }
        let report = check_advisories(LOCK, &folder);
        std::fs::remove_dir_all(&folder)?;
        report
    }

    #[test]
    fn an_advisory_holds_for_the_versions_that_are_neither_patched_nor_unaffected() {
        let report = found(
            "holds",
            &[
                advisory("A-1", "", "patched = [\">= 2.0.0\"]"),
                advisory("A-2", "", "patched = [\"^1.2.3\", \">= 2.0.0\"]"),
                advisory("A-3", "", "patched = []\nunaffected = [\"< 2.0.0\"]"),
                advisory(
                    "A-4",
                    "informational = \"unmaintained\"",
                    "patched = []\nunaffected = [\"<= 1.9\"]",
                ),
                advisory("A-5", "withdrawn = \"2026-02-02\"", "patched = []"),
            ],
        );
        let report = report.expect("a report");
        assert_eq!(report.vulnerabilities, ["A-1: leaf 1.2.3: It leaks", "A-3: leaf 2.0.0: It leaks"]);
        assert_eq!(report.notes, ["A-4: leaf 2.0.0: It leaks"]);
        assert_eq!((report.packages, report.advisories, report.is_clean()), (2, 5, false));
    }

    #[test]
    fn what_would_let_everything_pass_is_an_error() {
        assert!(found("empty", &[]).is_err());
        assert!(found("unreadable", &[advisory("A-1", "", "patched = [\"newer\"]")]).is_err());
        assert!(check_advisories(LOCK, Path::new("/there/is/no/such/folder")).is_err());
    }

    #[test]
    fn requirements_are_read_as_cargo_reads_them() {
        for (requirement, version, fits) in [
            (">= 1.2.3", "1.2.3", true),
            (">= 1.2.3", "1.2.3-rc.1", false),
            ("> 1.2.3-rc.2", "1.2.3-rc.10", true),
            (">= 1.2, < 1.4", "1.3.9", true),
            (">= 1.2, < 1.4", "1.4.0", false),
            ("^0.3.1", "0.3.9", true),
            ("^0.3.1", "0.4.0", false),
            ("^1.2", "1.9.0", true),
            ("0.0.3", "0.0.4", false),
            ("~1.2.3", "1.2.9", true),
            ("~1.2.3", "1.3.0", false),
            ("= 1.2", "1.2.7", true),
            ("<= 2", "2.0.0+build", true),
        ] {
            assert_eq!(matches_requirement(requirement, version), Some(fits), "{requirement} of {version}");
        }
        assert_eq!(matches_requirement("newer", "1.0.0"), None);
    }
}
