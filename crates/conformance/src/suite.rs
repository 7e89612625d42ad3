//! Running cases and judging them: passed, failed or declared.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use serde::Serialize;

use crate::case::{UnparsedCase, split_cases};
use crate::dialect::FixtureDialect;
use crate::discover::{FixtureFile, discover_fixtures};
use crate::execute::execute_case;
use crate::failure::CaseFailure;
use crate::manifest::Manifest;
use crate::yaml;

/// A case with its place.
#[derive(Debug, Clone)]
pub struct ConformanceCase {
    /// The capability.
    pub capability: String,
    /// The fixture.
    pub fixture: String,
    /// Its name.
    pub name: String,
    /// Its content, or why there is none.
    pub(crate) content: Result<UnparsedCase, CaseFailure>,
}

impl ConformanceCase {
    /// Returns the id of the case in all reports: `capability/fixture::case`.
    #[must_use]
    pub fn qualified_id(&self) -> String {
        format!("{}/{}::{}", self.capability, self.fixture, self.name)
    }

    /// Runs the case.
    #[must_use]
    pub fn run(&self) -> Vec<CaseFailure> {
        match &self.content {
            Ok(case) => execute_case(case.clone()),
            Err(failure) => vec![failure.clone()],
        }
    }
}

/// Finds every case below a folder of capabilities.
///
/// # Errors
/// When a folder cannot be read, or holds no fixture.
pub fn load_cases(dir: &Path) -> io::Result<Vec<ConformanceCase>> {
    let mut cases = Vec::new();
    for file in discover_fixtures(dir)? {
        let read = std::fs::read_to_string(&file.path)
            .map_err(|error| CaseFailure::reader_error("the file", error.to_string()));
        let document = read.and_then(|read| {
            yaml::parse_document(&read)
                .map_err(|error| CaseFailure::reader_error("the file", error.to_string()))
        });
        match document.and_then(|document| {
            split_cases(document, &file.fixture, FixtureDialect::from_capability(&file.capability))
        }) {
            Ok(found) => {
                let mut names = BTreeSet::new();
                for one in found {
                    let fresh = names.insert(one.name.clone());
                    let twice = || {
                        CaseFailure::reader_error("the file", format!("two cases are called '{}'", one.name))
                    };
                    cases.push(build_case(
                        &file,
                        one.name.clone(),
                        if fresh { Ok(one) } else { Err(twice()) },
                    ));
                }
            }
            Err(failure) => cases.push(build_case(&file, file.fixture.clone(), Err(failure))),
        }
    }
    Ok(cases)
}

fn build_case(
    file: &FixtureFile,
    name: String,
    content: Result<UnparsedCase, CaseFailure>,
) -> ConformanceCase {
    ConformanceCase { capability: file.capability.clone(), fixture: file.fixture.clone(), name, content }
}

/// How a case was judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CaseStatus {
    /// Everything is as the fixture expects.
    Passed,
    /// Something is not, and nobody said so before; or it passes although it is declared.
    Failed,
    /// It does not pass, as the manifest says.
    Declared,
}

/// The verdict on a case.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CaseVerdict {
    /// The capability.
    pub capability: String,
    /// The fixture.
    pub fixture: String,
    /// The case.
    pub case: String,
    /// The verdict.
    pub status: CaseStatus,
    /// Why it is not passed.
    pub message: String,
}

/// Runs a case and judges it.
#[must_use]
pub fn judge_case(case: &ConformanceCase, manifest: &Manifest) -> CaseVerdict {
    let failures = case.run();
    let why: Vec<String> = failures.iter().map(ToString::to_string).collect();
    let why = why.join("; ");
    let (status, message) = match (failures.is_empty(), manifest.reason_for_case(&case.qualified_id())) {
        (true, None) => (CaseStatus::Passed, String::new()),
        (true, Some(reason)) => (CaseStatus::Failed, format!("it passes, and is declared not to: {reason}")),
        (false, Some(reason)) => (CaseStatus::Declared, format!("{reason} [{why}]")),
        (false, None) => (CaseStatus::Failed, why),
    };
    CaseVerdict {
        capability: case.capability.clone(),
        fixture: case.fixture.clone(),
        case: case.name.clone(),
        status,
        message,
    }
}
