//! The budget of a running turn, and the counting against it (D13).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use singletree_env::{Env, MonotonicClock, Timer};
use singletree_llm::TokenUsage;
use singletree_session::{BudgetUsage, EffectiveBudget, TurnModelUsage};

use crate::{Error, Result};

/// The remaining budget of the running turn. Nodes get it from their [`TurnContext`](crate::TurnContext) and count their
/// usage. The harness counts node executions and time.
#[derive(Debug, Clone)]
pub struct TurnBudget(Arc<TurnBudgetInner>);

#[derive(Debug)]
struct TurnBudgetInner {
    bounds: EffectiveBudget,
    /// The reading of the clock when this run began, and the time that the turn had run before it.
    begun: Duration,
    before: Duration,
    clock: Arc<dyn MonotonicClock>,
    timer: Arc<dyn Timer>,
    /// Guards the counts, which change together; held for a moment, never across an await.
    ledger: Mutex<BudgetLedger>,
}

#[derive(Debug, Default)]
struct BudgetLedger {
    /// Usage by completed nodes. A run that resumes after them continues from these counts.
    settled: BudgetUsage,
    /// `settled` plus the usage of the running node.
    open: BudgetUsage,
    /// Model usage, including that of nodes that have not completed: it was consumed anyway.
    used: TurnModelUsage,
    /// The budget that was exceeded first, its bound, and the count that exceeded it.
    exceeded: Option<(&'static str, u64, u64)>,
}

impl TurnBudget {
    pub(crate) fn new(env: &Env, bounds: EffectiveBudget, spent: BudgetUsage, used: TurnModelUsage) -> Self {
        let ledger = Mutex::new(BudgetLedger { settled: spent, open: spent, used, exceeded: None });
        let before = Duration::from_millis(spent.millis);
        let (clock, timer) = (env.monotonic.clone(), env.timer.clone());
        let begun = clock.elapsed_since_origin();
        Self(Arc::new(TurnBudgetInner { bounds, begun, before, clock, timer, ledger }))
    }

    /// Returns the timer by which the turn's time passes.
    pub(crate) fn timer(&self) -> &dyn Timer {
        self.0.timer.as_ref()
    }

    fn lock_ledger(&self) -> MutexGuard<'_, BudgetLedger> {
        self.0.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts tool calls before they are made.
    ///
    /// # Errors
    /// `chat_budget_exhausted` when they are more than the turn may make: none of them may be made then, and the turn
    /// ends at the latest with the node, whatever that makes of the error.
    pub fn count_tool_calls(&self, calls: u64) -> Result<()> {
        let mut ledger = self.lock_ledger();
        ledger.open.tool_calls = ledger.open.tool_calls.saturating_add(calls);
        let reached = ledger.open.tool_calls;
        ledger.check_count("tool_calls", reached, self.0.bounds.tool_calls)
    }

    /// Counts tokens once they are known to be used.
    ///
    /// # Errors
    /// As [`TurnBudget::count_tool_calls`].
    pub fn count_tokens(&self, tokens: u64) -> Result<()> {
        let mut ledger = self.lock_ledger();
        ledger.open.tokens = ledger.open.tokens.saturating_add(tokens);
        let reached = ledger.open.tokens;
        ledger.check_count("tokens", reached, self.0.bounds.tokens)
    }

    /// Counts an answer of a model, with the tokens that its provider reports: they are kept with the turn by model
    /// ([`Session::usage`](crate::Session::usage)), however it ends, and are tokens of the turn's budget.
    ///
    /// # Errors
    /// As [`TurnBudget::count_tool_calls`].
    pub fn count_model_call(&self, model: &str, usage: &TokenUsage) -> Result<()> {
        self.lock_ledger().used.count_answer(model, usage);
        let parts = usage.prompt_tokens.unwrap_or(0).saturating_add(usage.completion_tokens.unwrap_or(0));
        self.count_tokens(usage.total_tokens.unwrap_or(parts))
    }

    /// Returns the model usage so far.
    pub(crate) fn model_usage(&self) -> TurnModelUsage {
        self.lock_ledger().used.clone()
    }

    /// Counts a node execution that is about to begin. Earlier nodes are complete, unless the node is one of several
    /// that run concurrently.
    pub(crate) fn begin_step(&self, is_member: bool) -> Result<()> {
        let mut ledger = self.lock_ledger();
        ledger.check_not_exceeded()?;
        if !is_member {
            ledger.settled = ledger.open;
        }
        ledger.open.steps = ledger.open.steps.saturating_add(1);
        let reached = ledger.open.steps;
        ledger.check_count("steps", reached, self.0.bounds.steps)
    }

    /// Tells that the node that ran has completed.
    pub(crate) fn complete_step(&self) -> Result<()> {
        let mut ledger = self.lock_ledger();
        ledger.check_not_exceeded()?;
        ledger.settled = ledger.open;
        Ok(())
    }

    /// Fails once a budget was exceeded.
    pub(crate) fn check_not_exceeded(&self) -> Result<()> {
        self.lock_ledger().check_not_exceeded()
    }

    /// Returns the usage to store: counts up to the last completed node, and the time up to now.
    pub(crate) fn settled_usage(&self) -> BudgetUsage {
        let millis = u64::try_from(self.elapsed_time().as_millis()).unwrap_or(u64::MAX);
        BudgetUsage { millis, ..self.lock_ledger().settled }
    }

    fn elapsed_time(&self) -> Duration {
        let run = self.0.clock.elapsed_since_origin().saturating_sub(self.0.begun);
        self.0.before.saturating_add(run)
    }

    /// Waits until the turn has run for as long as it may, and returns the error that this is.
    pub(crate) async fn wait_for_timeout(&self) -> Error {
        let max = self.0.bounds.turn_time;
        self.0.timer.sleep_for(max.saturating_sub(self.elapsed_time())).await;
        let reached = self.elapsed_time().max(max).as_secs();
        Error::Budget { budget: "turn_time", max: max.as_secs(), reached }
    }
}

impl BudgetLedger {
    fn check_count(&mut self, budget: &'static str, reached: u64, max: u64) -> Result<()> {
        if reached > max && self.exceeded.is_none() {
            self.exceeded = Some((budget, max, reached));
        }
        self.check_not_exceeded()
    }

    /// Fails once a budget was exceeded: a node that goes on all the same does not go far.
    fn check_not_exceeded(&self) -> Result<()> {
        match self.exceeded {
            None => Ok(()),
            Some((budget, max, reached)) => Err(Error::Budget { budget, max, reached }),
        }
    }
}

#[cfg(test)]
mod tests {
    use singletree_session::{Budget, Limits};

    use super::*;

    fn bounds(budget: Budget) -> EffectiveBudget {
        EffectiveBudget::from_limits(&Limits::default(), &budget)
    }

    fn told(result: Result<()>) -> Option<String> {
        result.err().map(|it| it.to_string())
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_node_used_that_did_not_complete_is_not_stored() {
        let budget = TurnBudget::new(
            &Env::from_system(),
            bounds(Budget { tool_calls: Some(3), ..Budget::default() }),
            BudgetUsage::default(),
            TurnModelUsage::default(),
        );
        budget.begin_step(false).unwrap();
        budget.count_tool_calls(2).unwrap();
        assert_eq!(budget.settled_usage(), BudgetUsage::default());
        budget.complete_step().unwrap();
        tokio::time::advance(Duration::from_millis(5)).await;
        let spent = BudgetUsage { steps: 1, tool_calls: 2, tokens: 0, millis: 5 };
        assert_eq!(budget.settled_usage(), spent);
        let later = TurnBudget::new(
            &Env::from_system(),
            bounds(Budget { tool_calls: Some(3), ..Budget::default() }),
            spent,
            TurnModelUsage::default(),
        );
        later.begin_step(false).unwrap();
        let exhausted = "the budget tool_calls of 3 is exhausted: the turn came to 4";
        assert_eq!(told(later.count_tool_calls(2)).as_deref(), Some(exhausted));
        assert_eq!(told(later.count_tokens(1)).as_deref(), Some(exhausted), "the first one is told");
        assert_eq!(told(later.complete_step()).as_deref(), Some(exhausted));
    }

    #[tokio::test(start_paused = true)]
    #[expect(clippy::disallowed_methods, reason = "the paused time of the runtime is measured")]
    async fn the_time_of_earlier_runs_counts() {
        let bounds = bounds(Budget { turn_time: Some(Duration::from_secs(9)), ..Budget::default() });
        let budget = TurnBudget::new(
            &Env::from_system(),
            bounds,
            BudgetUsage { millis: 4_000, ..BudgetUsage::default() },
            TurnModelUsage::default(),
        );
        let begun = tokio::time::Instant::now();
        let error = budget.wait_for_timeout().await;
        assert_eq!(begun.elapsed(), Duration::from_secs(5));
        assert_eq!(error.to_string(), "the budget turn_time of 9 is exhausted: the turn came to 9");
    }
}
