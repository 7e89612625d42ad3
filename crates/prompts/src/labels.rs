//! Which label a prompt is fetched under when the caller names none (spec: prompt-management §7).

use std::collections::BTreeMap;
use std::fmt;

/// The label where nobody says another.
pub const DEFAULT_LABEL: &str = "production";

/// Chooses labels: one prompt can be moved to another version without changing code.
///
/// Pure: the same name gives the same label while the resolver's data is the same.
pub trait LabelResolver: fmt::Debug + Send + Sync {
    /// Returns the label for the prompt of this name: its own, else the resolver's default, else
    /// [`production`](DEFAULT_LABEL).
    fn resolve_label(&self, name: &str) -> String;
}

/// Labels by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PromptLabels {
    by_name: BTreeMap<String, String>,
}

/// The key of the default, as in a mapping that is read from a file.
const DEFAULT_KEY: &str = "default";

impl PromptLabels {
    /// Makes a resolver that knows no names.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the label of a name. The name `default` is that of all others.
    #[must_use]
    pub fn with_label(mut self, name: impl Into<String>, label: impl Into<String>) -> Self {
        self.by_name.insert(name.into(), label.into());
        self
    }
}

impl<N: Into<String>, L: Into<String>> FromIterator<(N, L)> for PromptLabels {
    fn from_iter<I: IntoIterator<Item = (N, L)>>(labels: I) -> Self {
        labels.into_iter().fold(Self::new(), |all, (name, label)| all.with_label(name, label))
    }
}

impl LabelResolver for PromptLabels {
    fn resolve_label(&self, name: &str) -> String {
        let found = self.by_name.get(name).or_else(|| self.by_name.get(DEFAULT_KEY));
        found.map_or_else(|| DEFAULT_LABEL.to_owned(), Clone::clone)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: prompt-management §7
    #[test]
    fn a_name_goes_before_the_default_and_the_default_before_production() {
        let labels: PromptLabels = [("default", "staging"), ("greeting", "variant-a")].into_iter().collect();
        assert_eq!(labels.resolve_label("greeting"), "variant-a");
        assert_eq!(labels.resolve_label("other"), "staging");
        assert_eq!(PromptLabels::new().with_label("greeting", "x").resolve_label("other"), "production");
    }
}
