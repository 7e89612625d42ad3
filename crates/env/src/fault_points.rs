//! Points in the code at which a simulation injects faults.

use std::fmt;
use std::sync::Arc;

/// Decides at which fault points a fault happens.
pub trait FaultInjector: fmt::Debug + Send + Sync {
    /// Tells whether the fault of this name happens now. Called each time that the code passes the point.
    fn is_fault_due(&self, name: &'static str) -> bool;
}

/// The fault points of an environment. They are compiled into every build; without an injector no fault happens, and a
/// check costs one comparison.
#[derive(Debug, Clone, Default)]
pub struct FaultPoints(Option<Arc<dyn FaultInjector>>);

impl FaultPoints {
    /// Returns fault points at which no fault ever happens.
    #[must_use]
    pub const fn without_faults() -> Self {
        Self(None)
    }

    /// Returns fault points that ask an injector.
    #[must_use]
    pub fn with_injector(injector: Arc<dyn FaultInjector>) -> Self {
        Self(Some(injector))
    }

    /// Tells whether the fault of this name happens now.
    #[must_use]
    #[inline]
    pub fn is_fault_due(&self, name: &'static str) -> bool {
        self.0.as_ref().is_some_and(|injector| injector.is_fault_due(name))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[derive(Debug, Default)]
    struct EverySecond(Mutex<Vec<&'static str>>);

    impl FaultInjector for EverySecond {
        fn is_fault_due(&self, name: &'static str) -> bool {
            let mut passed = self.0.lock().unwrap();
            passed.push(name);
            passed.len().is_multiple_of(2)
        }
    }

    #[test]
    fn faults_happen_only_where_the_injector_says() {
        assert!(!FaultPoints::without_faults().is_fault_due("commit_lost"));
        assert!(!FaultPoints::default().is_fault_due("commit_lost"));
        let injector = Arc::new(EverySecond::default());
        let faults = FaultPoints::with_injector(injector.clone());
        let hits = ["commit_lost", "busy", "commit_lost"].map(|name| faults.clone().is_fault_due(name));
        assert_eq!(hits, [false, true, false]);
        assert_eq!(*injector.0.lock().unwrap(), ["commit_lost", "busy", "commit_lost"]);
    }
}
