//! Token budgets: the expected number of tokens of a call with a prompt.

use serde::Serialize;
use serde_json::Value;

use crate::TokenUsage;

/// How many tokens a call with this prompt is expected to use at most (spec: prompt-management §3).
///
/// Advisory: the budget is not sent, and no call is refused for it. `sampling.max_tokens` limits the answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct TokenBudget {
    /// The tokens of the prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_max_tokens: Option<u64>,
    /// The tokens of prompt and answer together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_max_tokens: Option<u64>,
}

impl TokenBudget {
    /// Reads the configuration of a backend, which must never break a call (spec: prompt-management §5).
    ///
    /// Unknown keys are ignored, and so is a bound that is no whole number from 0 on. `None` when no bound is left.
    #[must_use]
    pub fn from_config(config: &Value) -> Option<Self> {
        let bound = |key: &str| config.get(key).and_then(Value::as_u64);
        let budget =
            Self { input_max_tokens: bound("input_max_tokens"), total_max_tokens: bound("total_max_tokens") };
        (budget != Self::default()).then_some(budget)
    }

    /// Compares each declared bound with the tokens that a call used (spec: observability §5.5.15). A bound whose counter was not
    /// reported is left out.
    #[must_use]
    pub fn evaluate(&self, usage: &TokenUsage) -> Vec<EvaluatedBound> {
        let sum =
            || usage.prompt_tokens.zip(usage.completion_tokens).map(|(one, two)| one.saturating_add(two));
        let total = usage.total_tokens.or_else(sum);
        let bounds =
            [("input", usage.prompt_tokens, self.input_max_tokens), ("total", total, self.total_max_tokens)];
        let evaluated = bounds
            .into_iter()
            .filter_map(|(kind, used, bound)| Some(EvaluatedBound { kind, used: used?, bound: bound? }));
        evaluated.collect()
    }
}

/// One declared bound of a budget whose counter was reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EvaluatedBound {
    /// Which bound: `input` or `total`.
    pub kind: &'static str,
    /// How many tokens the call used.
    pub used: u64,
    /// How many it should use at most.
    pub bound: u64,
}

impl EvaluatedBound {
    /// Tells whether the call used more.
    #[must_use]
    pub fn is_exceeded(self) -> bool {
        self.used > self.bound
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    // spec: prompt-management §5
    #[test]
    fn a_malformed_budget_is_read_as_far_as_it_makes_sense() {
        let budget = |input, total| Some(TokenBudget { input_max_tokens: input, total_max_tokens: total });
        for (config, read) in [
            (json!({"input_max_tokens": 10, "total_max_tokens": 20}), budget(Some(10), Some(20))),
            (json!({"input_max_tokens": 10, "unknown": 5}), budget(Some(10), None)),
            (json!({"input_max_tokens": -1, "total_max_tokens": 0}), budget(None, Some(0))),
            (json!({"input_max_tokens": "10"}), None),
            (json!({"total_max_tokens": 1.5}), None),
            (json!({"unknown": 5}), None),
            (json!({}), None),
            (json!([1]), None),
            (json!(7), None),
        ] {
            assert_eq!(TokenBudget::from_config(&config), read, "{config}");
        }
    }

    // spec: observability §5.5.15
    #[test]
    fn bounds_are_evaluated_where_their_counters_are_reported() {
        let budget = TokenBudget { input_max_tokens: Some(10), total_max_tokens: Some(20) };
        let usage = |prompt, completion, total| TokenUsage {
            prompt_tokens: prompt,
            completion_tokens: completion,
            total_tokens: total,
            ..TokenUsage::default()
        };
        let found = |used: &TokenUsage| {
            let bounds = budget.evaluate(used);
            bounds.iter().map(|bound| (bound.kind, bound.used, bound.is_exceeded())).collect::<Vec<_>>()
        };
        assert_eq!(found(&usage(Some(10), Some(11), None)), [("input", 10, false), ("total", 21, true)]);
        assert_eq!(found(&usage(Some(11), None, None)), [("input", 11, true)]);
        assert_eq!(found(&usage(None, Some(1), Some(20))), [("total", 20, false)]);
        assert_eq!(found(&TokenUsage::default()), []);
    }
}
