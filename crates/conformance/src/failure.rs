//! Why a case does not pass: it could not be read, could not be built, or an assertion failed.

use std::fmt;

/// The kind of a failure. The report tells them apart: a fixture that the reader refuses is not a failure of the
/// engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CaseFailureKind {
    /// The fixture says something that the runner does not know.
    Reader,
    /// The runner could not build the parts that the fixture describes.
    Build,
    /// Something is not as the fixture expects.
    Assertion,
}

/// One reason why a case does not pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CaseFailure {
    /// The kind of the failure.
    pub kind: CaseFailureKind,
    /// Where in the case, as a path of keys.
    pub path: String,
    /// A description of the failure.
    pub what: String,
}

/// The result of reading or checking a part of a case.
pub(crate) type Outcome<T> = Result<T, CaseFailure>;

impl CaseFailure {
    /// Says that the fixture holds something unknown.
    pub(crate) fn reader_error(path: impl Into<String>, what: impl Into<String>) -> Self {
        Self { kind: CaseFailureKind::Reader, path: path.into(), what: what.into() }
    }

    /// Says that something could not be built.
    pub(crate) fn build_error(path: impl Into<String>, what: impl Into<String>) -> Self {
        Self { kind: CaseFailureKind::Build, path: path.into(), what: what.into() }
    }

    /// Says that an assertion failed.
    pub(crate) fn assertion_error(path: impl Into<String>, what: impl Into<String>) -> Self {
        Self { kind: CaseFailureKind::Assertion, path: path.into(), what: what.into() }
    }
}

impl fmt::Display for CaseFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            CaseFailureKind::Reader => "not understood",
            CaseFailureKind::Build => "not built",
            CaseFailureKind::Assertion => "assertion",
        };
        write!(f, "{kind}: {}: {}", self.path, self.what)
    }
}
