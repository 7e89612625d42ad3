//! The command line of the chores: `cargo xtask tidy|language|edges|errors|doc|release|advisories`.

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use xtask::Repository;

const USAGE: &str = "usage: cargo xtask COMMAND

  tidy     print the crate edges, then every finding; exit 1 if there is one
  language print the measures of names and comments with their bounds
  edges    print the crate edges as they are
  errors   list the error categories that have no page in docs/errors
  doc      build the documentation, warnings denied
  advisories FOLDER
           check Cargo.lock against a folder of advisories in RustSec's layout; exit 1 if one holds
  release  build and pack the binary: an archive, a Debian package, checksums
";

fn main() -> io::Result<ExitCode> {
    let command = std::env::args().nth(1).unwrap_or_default();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut out = io::stdout().lock();
    match command.as_str() {
        "tidy" => print_tidy_findings(&Repository::open(&root)?, &mut out),
        "language" => {
            for measure in xtask::measure_language(&Repository::open(&root)?) {
                writeln!(out, "{measure}")?;
            }
            Ok(ExitCode::SUCCESS)
        }
        "edges" => {
            write!(out, "{}", xtask::describe_crate_edges(&Repository::open(&root)?))?;
            Ok(ExitCode::SUCCESS)
        }
        "errors" => print_missing_pages(&Repository::open(&root)?, &mut out),
        "doc" => Ok(if xtask::build_documentation(&root)? { ExitCode::SUCCESS } else { ExitCode::FAILURE }),
        "advisories" => {
            let folder = std::env::args().nth(2).unwrap_or_default();
            print_advisories(&root, Path::new(&folder), &mut out)
        }
        "release" => {
            let packed = xtask::build_release(&root.canonicalize()?, env!("CARGO_PKG_VERSION"))?;
            writeln!(out, "{}", packed.display())?;
            Ok(ExitCode::SUCCESS)
        }
        _ => {
            write!(out, "{USAGE}")?;
            Ok(ExitCode::from(2))
        }
    }
}

fn print_tidy_findings(repo: &Repository, out: &mut impl Write) -> io::Result<ExitCode> {
    write!(out, "{}", xtask::describe_crate_edges(repo))?;
    let findings = xtask::find_violations(repo);
    for finding in &findings {
        writeln!(out, "{finding}")?;
    }
    writeln!(out, "findings: {}", findings.len())?;
    Ok(if findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn print_missing_pages(repo: &Repository, out: &mut impl Write) -> io::Result<ExitCode> {
    let missing = xtask::missing_error_pages(repo);
    for page in &missing {
        writeln!(out, "{page}")?;
    }
    Ok(if missing.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn print_advisories(root: &Path, folder: &Path, out: &mut impl Write) -> io::Result<ExitCode> {
    let lock = std::fs::read_to_string(root.join("Cargo.lock"))?;
    let report = xtask::check_advisories(&lock, folder)?;
    write!(out, "{report}")?;
    Ok(if report.is_clean() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
