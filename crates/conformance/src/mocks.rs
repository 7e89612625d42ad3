//! Runs the failure mocks. Their counters outlive an invocation and end with the case.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Map, Value};
use singletree::NodeError;

use crate::nodes::{Fails, Mock, Raised};

/// The counters of a case's mocks.
#[derive(Debug, Clone, Default)]
pub(crate) struct Mocks(Arc<Mutex<Book>>);

#[derive(Debug, Default)]
struct Book {
    /// The number of the invocation, from 0; a resumed one is not the first.
    invocation: usize,
    calls: BTreeMap<Call, usize>,
}

/// The key of a call counter: the mock, the fan-out instance if any, and the invocation where it matters.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Call {
    mock: Vec<String>,
    instance: Option<Vec<Option<u64>>>,
    invocation: Option<usize>,
}

/// Who calls a mock.
#[derive(Debug, Clone)]
pub(crate) struct Caller<'a> {
    /// The names of the graph and the node that the mock is.
    pub(crate) mock: Vec<String>,
    /// The indexes of the fan-out instances that the call is in.
    pub(crate) instance: Vec<Option<u64>>,
    /// The state that the node received.
    pub(crate) state: &'a Map<String, Value>,
}

impl Mocks {
    fn book(&self) -> MutexGuard<'_, Book> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins another invocation of the same story.
    pub(crate) fn next_invocation(&self) {
        self.book().invocation += 1;
    }

    /// Begins the story anew: whatever ran before is forgotten.
    pub(crate) fn forget(&self) {
        *self.book() = Book::default();
    }

    /// Counts a call, from 0.
    fn count(&self, call: Call) -> usize {
        let mut book = self.book();
        let count = book.calls.entry(call).or_default();
        *count += 1;
        *count - 1
    }

    /// Tells how this call ends: with an error, or not.
    pub(crate) fn raises(&self, mock: &Mock, caller: &Caller<'_>) -> Option<Raised> {
        let call = Call { mock: caller.mock.clone(), instance: None, invocation: None };
        let invocation = self.book().invocation;
        match &mock.fails {
            Fails::Attempts(list) => list.get(self.count(call))?.clone(),
            Fails::FirstInvocation => (invocation == 0).then(|| Raised::plain(None)),
            Fails::Item(item, raised) => {
                let is = item_of(mock, caller.state).and_then(Value::as_i64) == Some(*item);
                is.then(|| raised.clone())
            }
            Fails::EachInstance(count, raised) => {
                let instance = Some(caller.instance.clone());
                let calls = self.count(Call { instance, ..call });
                usize::try_from(*count).is_ok_and(|count| calls < count).then(|| raised.clone())
            }
            Fails::Indices { first, always } => {
                let index = caller.instance.iter().rev().flatten().next();
                let index = index.and_then(|index| i64::try_from(*index).ok())?;
                let fails = always.contains(&index) || (invocation == 0 && first.contains(&index));
                // The budget of a retry is spent: the default classifier tries these again.
                fails.then(|| Raised::plain(Some("provider_unavailable".into())))
            }
            Fails::Invocations { first, resumed, raised } => {
                let calls = self.count(Call { invocation: Some(invocation), ..call });
                let count = if invocation == 0 { first } else { resumed };
                usize::try_from(*count).is_ok_and(|count| calls < count).then(|| raised.clone())
            }
        }
    }
}

/// The value of a fan-out's item in an instance: that of the field that the mock reads.
fn item_of<'a>(mock: &Mock, state: &'a Map<String, Value>) -> Option<&'a Value> {
    let sources = mock.success.iter().flatten();
    sources.filter_map(|(_, it)| it.as_str()).find_map(|source| state.get(source))
}

/// Makes the error that a mock raises, chained to its cause.
#[must_use]
pub(crate) fn error_of(raised: &Raised) -> NodeError {
    let mut error = NodeError::new(raised.message.clone());
    if let Some(category) = &raised.category {
        error = error.with_category(category.clone());
    }
    if raised.transient {
        error = error.transient();
    }
    match &raised.cause {
        Some(cause) => error.caused_by(error_of(cause)),
        None => error,
    }
}
