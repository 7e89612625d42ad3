//! The model usage of turns: tokens by model, durable with the commit that ends or suspends the turn (INV-3).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use singletree_durable::UsageRow;
use singletree_llm::TokenUsage;

/// The usage of one model, as its provider reported it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ModelTokenUsage {
    /// The model.
    pub model: String,
    /// How many answers were reported on.
    pub calls: u64,
    /// Tokens of prompts.
    pub prompt_tokens: u64,
    /// Tokens of answers.
    pub completion_tokens: u64,
    /// Tokens of prompts that came from a cache; they are among those of prompts.
    pub cached_tokens: u64,
    /// Tokens of prompts that were written to a cache.
    pub cache_creation_tokens: u64,
}

/// How many models one turn is counted under; further ones are counted under [`OTHERS`] (INV-12).
const MODELS_MAX: usize = 32;

/// The bytes that a model's name may have; a longer one is cut.
const NAME_BYTES_MAX: usize = 200;

/// The name under which the models beyond [`MODELS_MAX`] are counted.
const OTHERS: &str = "others";

/// More tokens than any call takes. A higher number from a provider is counted as this one.
const TOKENS_MAX: u64 = 1 << 40;

/// The usage of one turn so far, by model, as it is stored with its position and its outcome.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TurnModelUsage(BTreeMap<String, ModelUsageCounts>);

/// The counts of one model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct ModelUsageCounts {
    calls: u64,
    #[serde(skip_serializing_if = "is_none")]
    prompt_tokens: u64,
    #[serde(skip_serializing_if = "is_none")]
    completion_tokens: u64,
    #[serde(skip_serializing_if = "is_none")]
    cached_tokens: u64,
    #[serde(skip_serializing_if = "is_none")]
    cache_creation_tokens: u64,
}

/// Tells whether nothing of a kind was used: then it is not written.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_none(used: &u64) -> bool {
    *used == 0
}

impl TurnModelUsage {
    /// Tells whether nothing was used.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Counts one answer. A provider that reports nothing is not counted.
    pub fn count_answer(&mut self, model: &str, usage: &TokenUsage) {
        let reported = [
            usage.prompt_tokens,
            usage.completion_tokens,
            usage.total_tokens,
            usage.cached_tokens,
            usage.cache_creation_tokens,
        ];
        if reported.iter().all(Option::is_none) {
            return;
        }
        let tokens = |reported: Option<u64>| reported.unwrap_or(0).min(TOKENS_MAX);
        let model = &model[..model.floor_char_boundary(NAME_BYTES_MAX)];
        let is_one_more = !self.0.contains_key(model) && self.0.len() >= MODELS_MAX;
        let counts = self.0.entry(if is_one_more { OTHERS } else { model }.to_owned()).or_default();
        counts.calls = counts.calls.saturating_add(1);
        for (count, reported) in [
            (&mut counts.prompt_tokens, usage.prompt_tokens),
            (&mut counts.completion_tokens, usage.completion_tokens),
            (&mut counts.cached_tokens, usage.cached_tokens),
            (&mut counts.cache_creation_tokens, usage.cache_creation_tokens),
        ] {
            *count = count.saturating_add(tokens(reported));
        }
    }

    /// Returns the rows that add this to the stored usage.
    pub fn to_usage_rows(&self) -> impl Iterator<Item = UsageRow> {
        self.0.iter().map(|(model, it)| UsageRow {
            model: model.clone(),
            calls: it.calls,
            prompt_tokens: it.prompt_tokens,
            completion_tokens: it.completion_tokens,
            cached_tokens: it.cached_tokens,
            cache_creation_tokens: it.cache_creation_tokens,
        })
    }

    /// Returns the usage by model.
    pub fn to_token_usages(&self) -> Vec<ModelTokenUsage> {
        self.to_usage_rows().map(ModelTokenUsage::from).collect()
    }
}

impl From<UsageRow> for ModelTokenUsage {
    fn from(row: UsageRow) -> Self {
        let UsageRow { model, calls, prompt_tokens, completion_tokens, cached_tokens, cache_creation_tokens } =
            row;
        Self { model, calls, prompt_tokens, completion_tokens, cached_tokens, cache_creation_tokens }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(prompt: u64, completion: u64) -> TokenUsage {
        TokenUsage {
            prompt_tokens: Some(prompt),
            completion_tokens: Some(completion),
            ..TokenUsage::default()
        }
    }

    fn line(used: &TurnModelUsage) -> Vec<String> {
        let told = used.to_token_usages().into_iter();
        told.map(|told| {
            format!("{} {} {} {}", told.model, told.calls, told.prompt_tokens, told.completion_tokens)
        })
        .collect()
    }

    #[test]
    fn calls_of_a_model_add_up_and_what_is_not_reported_is_not_counted() {
        let mut used = TurnModelUsage::default();
        used.count_answer("b", &TokenUsage::default());
        assert!(used.is_empty());
        used.count_answer("b", &usage(1, 2));
        used.count_answer("a", &usage(3, 4));
        used.count_answer("b", &usage(10, 20));
        used.count_answer("b", &TokenUsage { total_tokens: Some(5), ..TokenUsage::default() });
        assert_eq!(line(&used), ["a 1 3 4", "b 3 11 22"]);
        let stored = serde_json::to_string(&used).unwrap();
        assert_eq!(stored.matches("cached").count(), 0, "{stored}");
        assert_eq!(serde_json::from_str::<TurnModelUsage>(&stored).unwrap(), used);
    }

    // INV-12
    #[test]
    fn names_and_numbers_of_a_provider_have_bounds() {
        let mut used = TurnModelUsage::default();
        for no in 0..MODELS_MAX + 5 {
            used.count_answer(&format!("m{no:02}"), &usage(1, 1));
        }
        assert_eq!(used.0.len(), MODELS_MAX + 1);
        assert_eq!(line(&used).last().map(String::as_str), Some("others 5 5 5"));
        let mut used = TurnModelUsage::default();
        used.count_answer(&"é".repeat(150), &usage(u64::MAX, 0));
        assert_eq!(line(&used), [format!("{} 1 {TOKENS_MAX} 0", "é".repeat(100))]);
    }
}
