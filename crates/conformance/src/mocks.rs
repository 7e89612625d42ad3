//! Runs the failure mocks. Their counters outlive an invocation and end with the case.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Map, Value};
use singletree::NodeError;

use crate::nodes::{FlakyMockSpec, MockErrorSpec, MockFailureMode};

/// The counters of a case's mocks.
#[derive(Debug, Clone, Default)]
pub(crate) struct MockCallCounters(Arc<Mutex<CallCountTable>>);

#[derive(Debug, Default)]
struct CallCountTable {
    /// The number of the invocation, from 0; a resumed one is not the first.
    invocation: usize,
    calls: BTreeMap<MockCallKey, usize>,
}

/// The key of a call counter: the mock, the fan-out instance if any, and the invocation where it matters.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct MockCallKey {
    mock: Vec<String>,
    instance: Option<Vec<Option<u64>>>,
    invocation: Option<usize>,
}

/// Who calls a mock.
#[derive(Debug, Clone)]
pub(crate) struct MockCallSite<'a> {
    /// The names of the graph and the node that the mock is.
    pub(crate) mock: Vec<String>,
    /// The indexes of the fan-out instances that the call is in.
    pub(crate) instance: Vec<Option<u64>>,
    /// The state that the node received.
    pub(crate) state: &'a Map<String, Value>,
}

impl MockCallCounters {
    fn lock_counts(&self) -> MutexGuard<'_, CallCountTable> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins another invocation of the same story.
    pub(crate) fn begin_next_invocation(&self) {
        self.lock_counts().invocation += 1;
    }

    /// Begins the story anew: whatever ran before is forgotten.
    pub(crate) fn forget_all_calls(&self) {
        *self.lock_counts() = CallCountTable::default();
    }

    /// Counts a call, from 0.
    fn count_call(&self, call: MockCallKey) -> usize {
        let mut book = self.lock_counts();
        let count = book.calls.entry(call).or_default();
        *count += 1;
        *count - 1
    }

    /// Tells how this call ends: with an error, or not.
    pub(crate) fn error_for_call(
        &self,
        mock: &FlakyMockSpec,
        caller: &MockCallSite<'_>,
    ) -> Option<MockErrorSpec> {
        let call = MockCallKey { mock: caller.mock.clone(), instance: None, invocation: None };
        let invocation = self.lock_counts().invocation;
        match &mock.fails {
            MockFailureMode::Attempts(list) => list.get(self.count_call(call))?.clone(),
            MockFailureMode::FirstInvocation => {
                (invocation == 0).then(|| MockErrorSpec::with_default_message(None))
            }
            MockFailureMode::Item(item, raised) => {
                let is = fan_out_item(mock, caller.state).and_then(Value::as_i64) == Some(*item);
                is.then(|| raised.clone())
            }
            MockFailureMode::EachInstance(count, raised) => {
                let instance = Some(caller.instance.clone());
                let calls = self.count_call(MockCallKey { instance, ..call });
                usize::try_from(*count).is_ok_and(|count| calls < count).then(|| raised.clone())
            }
            MockFailureMode::Indices { first, always } => {
                let index = caller.instance.iter().rev().flatten().next();
                let index = index.and_then(|index| i64::try_from(*index).ok())?;
                let fails = always.contains(&index) || (invocation == 0 && first.contains(&index));
                // The budget of a retry is spent: the default classifier tries these again.
                fails.then(|| MockErrorSpec::with_default_message(Some("provider_unavailable".into())))
            }
            MockFailureMode::Invocations { first, resumed, raised } => {
                let calls = self.count_call(MockCallKey { invocation: Some(invocation), ..call });
                let count = if invocation == 0 { first } else { resumed };
                usize::try_from(*count).is_ok_and(|count| calls < count).then(|| raised.clone())
            }
        }
    }
}

/// The value of a fan-out's item in an instance: that of the field that the mock reads.
fn fan_out_item<'a>(mock: &FlakyMockSpec, state: &'a Map<String, Value>) -> Option<&'a Value> {
    let sources = mock.success.iter().flatten();
    sources.filter_map(|(_, it)| it.as_str()).find_map(|source| state.get(source))
}

/// Makes the error that a mock raises, chained to its cause.
#[must_use]
pub(crate) fn build_node_error(raised: &MockErrorSpec) -> NodeError {
    let mut error = NodeError::new(raised.message.clone());
    if let Some(category) = &raised.category {
        error = error.with_category(category.clone());
    }
    if raised.transient {
        error = error.mark_transient();
    }
    match &raised.cause {
        Some(cause) => error.caused_by(build_node_error(cause)),
        None => error,
    }
}
