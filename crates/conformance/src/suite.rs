//! Running cases and judging them: passed, failed or declared.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use serde::Serialize;

use crate::case::{RawCase, split};
use crate::dialect::Dialect;
use crate::discover::{FixtureFile, discover};
use crate::execute::execute;
use crate::failure::Failure;
use crate::manifest::Manifest;
use crate::yaml;

/// A case with its place.
#[derive(Debug, Clone)]
pub struct Case {
    /// The capability.
    pub capability: String,
    /// The fixture.
    pub fixture: String,
    /// Its name.
    pub name: String,
    /// Its content, or why there is none.
    pub(crate) content: Result<RawCase, Failure>,
}

impl Case {
    /// Returns the id of the case in all reports: `capability/fixture::case`.
    #[must_use]
    pub fn id(&self) -> String {
        format!("{}/{}::{}", self.capability, self.fixture, self.name)
    }

    /// Runs the case.
    #[must_use]
    pub fn run(&self) -> Vec<Failure> {
        match &self.content {
            Ok(case) => execute(case.clone()),
            Err(failure) => vec![failure.clone()],
        }
    }
}

/// Finds every case below a folder of capabilities.
///
/// # Errors
/// When a folder cannot be read, or holds no fixture.
pub fn load(dir: &Path) -> io::Result<Vec<Case>> {
    let mut cases = Vec::new();
    for file in discover(dir)? {
        let read = std::fs::read_to_string(&file.path)
            .map_err(|error| Failure::reader("the file", error.to_string()));
        let document = read.and_then(|read| {
            yaml::parse(&read).map_err(|error| Failure::reader("the file", error.to_string()))
        });
        match document.and_then(|document| split(document, &file.fixture, Dialect::of(&file.capability))) {
            Ok(found) => {
                let mut names = BTreeSet::new();
                for one in found {
                    let fresh = names.insert(one.name.clone());
                    let twice =
                        || Failure::reader("the file", format!("two cases are called '{}'", one.name));
                    cases.push(case(&file, one.name.clone(), if fresh { Ok(one) } else { Err(twice()) }));
                }
            }
            Err(failure) => cases.push(case(&file, file.fixture.clone(), Err(failure))),
        }
    }
    Ok(cases)
}

fn case(file: &FixtureFile, name: String, content: Result<RawCase, Failure>) -> Case {
    Case { capability: file.capability.clone(), fixture: file.fixture.clone(), name, content }
}

/// How a case was judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Everything is as the fixture expects.
    Passed,
    /// Something is not, and nobody said so before; or it passes although it is declared.
    Failed,
    /// It does not pass, as the manifest says.
    Declared,
}

/// The verdict on a case.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Row {
    /// The capability.
    pub capability: String,
    /// The fixture.
    pub fixture: String,
    /// The case.
    pub case: String,
    /// The verdict.
    pub status: Status,
    /// Why it is not passed.
    pub message: String,
}

/// Runs a case and judges it.
#[must_use]
pub fn judge(case: &Case, manifest: &Manifest) -> Row {
    let failures = case.run();
    let why: Vec<String> = failures.iter().map(ToString::to_string).collect();
    let why = why.join("; ");
    let (status, message) = match (failures.is_empty(), manifest.reason(&case.id())) {
        (true, None) => (Status::Passed, String::new()),
        (true, Some(reason)) => (Status::Failed, format!("it passes, and is declared not to: {reason}")),
        (false, Some(reason)) => (Status::Declared, format!("{reason} [{why}]")),
        (false, None) => (Status::Failed, why),
    };
    Row {
        capability: case.capability.clone(),
        fixture: case.fixture.clone(),
        case: case.name.clone(),
        status,
        message,
    }
}
