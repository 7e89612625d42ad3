//! The inputs of a prompt's rendering.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;
use singletree_llm::{ChatMessage, Map};

/// The replacement of a secret value wherever it would be shown.
const REDACTED: &str = "[redacted]";

/// Variables, and messages for placeholders.
///
/// A variable that is a secret is rendered like any other; but results and errors know only that there was one.
/// `Debug` shows no values.
#[derive(Clone, Default, PartialEq)]
pub struct PromptInputs {
    pub(crate) variables: Map,
    pub(crate) placeholders: BTreeMap<String, Vec<Arc<ChatMessage>>>,
    secrets: BTreeSet<String>,
}

impl PromptInputs {
    /// Makes inputs without anything.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Gives a variable its value.
    #[must_use]
    pub fn variable(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.variables.insert(name.into(), value.into());
        self
    }

    /// Gives several variables their values.
    #[must_use]
    pub fn variables(mut self, variables: impl IntoIterator<Item = (String, Value)>) -> Self {
        self.variables.extend(variables);
        self
    }

    /// Gives a variable a value that is not to be told.
    #[must_use]
    pub fn secret_variable(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        let name = name.into();
        self.secrets.insert(name.clone());
        self.variable(name, value)
    }

    /// Fills a placeholder; no messages are fine, too.
    #[must_use]
    pub fn placeholder(
        mut self,
        name: impl Into<String>,
        messages: impl IntoIterator<Item = impl Into<Arc<ChatMessage>>>,
    ) -> Self {
        self.placeholders.insert(name.into(), messages.into_iter().map(Into::into).collect());
        self
    }

    /// Returns the variables as they may be told: every name, no secret value.
    pub(crate) fn redacted_variables(&self) -> Map {
        let told = |(name, value): (&String, &Value)| {
            let value = if self.secrets.contains(name) { Value::from(REDACTED) } else { value.clone() };
            (name.clone(), value)
        };
        self.variables.iter().map(told).collect()
    }

    /// Takes every text of a secret value out of a description.
    pub(crate) fn redact_secrets(&self, description: String) -> String {
        let mut texts = Vec::new();
        for value in self.secrets.iter().filter_map(|secret| self.variables.get(secret)) {
            collect_texts(value, &mut texts);
        }
        // The longest first: one secret may be a part of another.
        texts.sort_by_key(|text| std::cmp::Reverse(text.len()));
        texts.iter().fold(description, |told, it| told.replace(it.as_str(), REDACTED))
    }
}

fn collect_texts(value: &Value, texts: &mut Vec<String>) {
    match value {
        Value::Null | Value::Bool(_) => {}
        Value::Number(it) => texts.push(it.to_string()),
        Value::String(it) if it.is_empty() => {}
        // As it is, and as the engine quotes it.
        Value::String(it) => texts.extend([it.clone(), it.escape_debug().to_string()]),
        Value::Array(items) => items.iter().for_each(|item| collect_texts(item, texts)),
        Value::Object(map) => map.values().for_each(|it| collect_texts(it, texts)),
    }
}

impl std::fmt::Debug for PromptInputs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let counts: BTreeMap<_, _> = self.placeholders.iter().map(|(name, it)| (name, it.len())).collect();
        f.debug_struct("PromptInputs")
            .field("variables", &self.variables.keys().collect::<Vec<_>>())
            .field("placeholders", &counts)
            .finish()
    }
}
