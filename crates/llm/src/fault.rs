//! A mistake in a value, with the place where it is.

use std::fmt;

use crate::error::{Error, ProviderErrorDetail};
use crate::response::Response;

/// One mistake: the path of the field, and the problem there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct InvalidField {
    path: String,
    problem: String,
}

impl InvalidField {
    /// Makes a fault at a path; the empty path is the whole value.
    pub(crate) fn at_path(path: impl Into<String>, problem: impl Into<String>) -> Self {
        Self { path: path.into(), problem: problem.into() }
    }

    /// Puts the fault below `outer`, as seen from the value around it.
    #[must_use]
    pub(crate) fn nest_under(self, outer: &str) -> Self {
        let path = match (outer.is_empty(), self.path.is_empty()) {
            (true, _) => self.path,
            (false, true) => outer.to_owned(),
            (false, false) if self.path.starts_with('[') => format!("{outer}{}", self.path),
            (false, false) => format!("{outer}.{}", self.path),
        };
        Self { path, problem: self.problem }
    }

    /// Adds an explanation of the mistake.
    #[must_use]
    pub(crate) fn with_note(mut self, note: &str) -> Self {
        self.problem = format!("{} ({note})", self.problem);
        self
    }

    /// Calls it a mistake of the request.
    pub(crate) fn into_request_error(self) -> Error {
        Error::InvalidRequest(ProviderErrorDetail::new(self.to_string()))
    }

    /// Calls it a mistake of the response, which the error carries.
    pub(crate) fn into_response_error(self, response: Response) -> Error {
        Error::InvalidResponse(ProviderErrorDetail::new(format!("response {self}")).with_response(response))
    }
}

impl fmt::Display for InvalidField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() {
            f.write_str(&self.problem)
        } else {
            write!(f, "{}: {}", self.path, self.problem)
        }
    }
}
