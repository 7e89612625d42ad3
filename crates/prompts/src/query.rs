//! The queries of a manager.

use std::time::Duration;

/// A name, and the caller's choice of label and age. A plain name is a query, too.
///
/// ```
/// use std::time::Duration;
/// use singletree_prompts::PromptQuery;
///
/// let fresh = PromptQuery::new("greeting").label("staging").cache_ttl(Duration::ZERO);
/// assert_ne!(fresh, PromptQuery::from("greeting"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptQuery {
    pub(crate) name: String,
    pub(crate) label: Option<String>,
    pub(crate) cache_ttl: Option<Duration>,
}

impl PromptQuery {
    /// Asks for a prompt by its name.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), label: None, cache_ttl: None }
    }

    /// Asks for this label, whatever a resolver says.
    #[must_use]
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = Some(label.into());
        self
    }

    /// Bounds how old a cached prompt may be, whatever the manager's default is; zero asks for a fresh read.
    #[must_use]
    pub fn cache_ttl(mut self, ttl: Duration) -> Self {
        self.cache_ttl = Some(ttl);
        self
    }
}

impl From<&str> for PromptQuery {
    fn from(name: &str) -> Self {
        Self::new(name)
    }
}

impl From<String> for PromptQuery {
    fn from(name: String) -> Self {
        Self::new(name)
    }
}
