//! The manifest: which cases are known not to pass, and why.

use serde::Deserialize;

/// The manifest of this repository.
const OURS: &str = include_str!("../manifest.json");

/// Cases that are declared not to pass.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    declared: Vec<DeclaredFailure>,
}

/// One declaration.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeclaredFailure {
    /// Which cases: `capability/fixture::case`, where `*` stands for anything.
    pub cases: String,
    /// Why they do not pass.
    pub reason: String,
}

impl Manifest {
    /// Reads the manifest of this repository.
    ///
    /// # Errors
    /// When it is not readable.
    pub fn load_embedded() -> serde_json::Result<Self> {
        serde_json::from_str(OURS)
    }

    /// Makes a manifest that declares nothing.
    #[must_use]
    pub fn empty() -> Self {
        Self::default()
    }

    /// Returns why a case is declared, if it is.
    #[must_use]
    pub fn reason_for_case(&self, id: &str) -> Option<&str> {
        self.declared.iter().find(|it| matches_pattern(&it.cases, id)).map(|it| it.reason.as_str())
    }

    /// Returns the declarations.
    #[must_use]
    pub fn declared_failures(&self) -> &[DeclaredFailure] {
        &self.declared
    }
}

fn matches_pattern(pattern: &str, id: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = id.strip_prefix(first) else { return false };
    let parts: Vec<_> = parts.collect();
    let Some((last, between)) = parts.split_last() else { return rest.is_empty() };
    for part in between {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_anything_and_nothing_else_does() {
        for (pattern, id, is) in [
            ("a/b::c", "a/b::c", true),
            ("a/b::c", "a/b::cc", false),
            ("a/*", "a/b::c", true),
            ("a/*", "ab/b::c", false),
            ("*::c", "a/b::c", true),
            ("a/*::c", "a/b::d", false),
            ("a/*b*::c", "a/xbx::c", true),
        ] {
            assert_eq!(matches_pattern(pattern, id), is, "{pattern} {id}");
        }
    }

    #[test]
    fn every_declaration_has_a_reason() {
        let manifest = Manifest::load_embedded().unwrap();
        assert!(manifest.declared_failures().iter().all(|it| !it.reason.is_empty()));
    }
}
