//! The token budget of a call beside what it used (spec: observability §5.5.15).

use singletree_llm::{TokenBudget, TokenUsage};

/// One declared bound whose counter was reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EvaluatedBound {
    /// Which bound: `input` or `total`.
    pub(crate) kind: &'static str,
    pub(crate) used: u64,
    pub(crate) bound: u64,
}

impl EvaluatedBound {
    pub(crate) fn is_exceeded(self) -> bool {
        self.used > self.bound
    }
}

/// Evaluates the bounds of a budget. A bound whose counter was not reported is not evaluated.
pub(crate) fn evaluate_budget(budget: TokenBudget, usage: &TokenUsage) -> Vec<EvaluatedBound> {
    let sum = || usage.prompt_tokens.zip(usage.completion_tokens).map(|(one, two)| one.saturating_add(two));
    let total = usage.total_tokens.or_else(sum);
    let bounds =
        [("input", usage.prompt_tokens, budget.input_max_tokens), ("total", total, budget.total_max_tokens)];
    let evaluated = bounds
        .into_iter()
        .filter_map(|(kind, used, bound)| Some(EvaluatedBound { kind, used: used?, bound: bound? }));
    evaluated.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

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
            let bounds = evaluate_budget(budget, used);
            bounds.iter().map(|bound| (bound.kind, bound.used, bound.is_exceeded())).collect::<Vec<_>>()
        };
        assert_eq!(found(&usage(Some(10), Some(11), None)), [("input", 10, false), ("total", 21, true)]);
        assert_eq!(found(&usage(Some(11), None, None)), [("input", 11, true)]);
        assert_eq!(found(&usage(None, Some(1), Some(20))), [("total", 20, false)]);
        assert_eq!(found(&TokenUsage::default()), []);
    }
}
