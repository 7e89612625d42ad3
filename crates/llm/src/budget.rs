//! Token budgets: the expected number of tokens of a call with a prompt.

use serde::Serialize;
use serde_json::Value;

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
}
