//! Why a case does not pass: it could not be read, could not be built, or an assertion failed.

use std::fmt;

/// What kind of failure it is. The report tells them apart: a reader that refuses is no engine that fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FailureKind {
    /// The fixture says something that the runner does not know.
    Reader,
    /// What the fixture describes could not be built.
    Build,
    /// Something is not as the fixture expects.
    Assertion,
}

/// One reason why a case does not pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// What kind it is.
    pub kind: FailureKind,
    /// Where in the case, as a path of keys.
    pub path: String,
    /// What is wrong.
    pub what: String,
}

/// The result of reading or checking a part of a case.
pub(crate) type Outcome<T> = Result<T, Failure>;

impl Failure {
    /// Says that the fixture holds something unknown.
    pub(crate) fn reader(path: impl Into<String>, what: impl Into<String>) -> Self {
        Self { kind: FailureKind::Reader, path: path.into(), what: what.into() }
    }

    /// Says that something could not be built.
    pub(crate) fn build(path: impl Into<String>, what: impl Into<String>) -> Self {
        Self { kind: FailureKind::Build, path: path.into(), what: what.into() }
    }

    /// Says that an assertion failed.
    pub(crate) fn assertion(path: impl Into<String>, what: impl Into<String>) -> Self {
        Self { kind: FailureKind::Assertion, path: path.into(), what: what.into() }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            FailureKind::Reader => "not understood",
            FailureKind::Build => "not built",
            FailureKind::Assertion => "assertion",
        };
        write!(f, "{kind}: {}: {}", self.path, self.what)
    }
}
