//! Some of the tools of a server.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use singletree_llm::BoxFuture;
use singletree_tools::{Offer, Tool, Toolset};

/// Those tools of a set whose names are listed. What is not listed is not there, for the model as for who calls.
#[derive(Debug)]
pub(crate) struct Picked {
    all: Arc<dyn Toolset>,
    names: BTreeSet<String>,
    /// What was given out last, and what it was made of: as long as nothing changes it is the same.
    last: Mutex<Option<(Tools, Tools)>>,
}

type Tools = Arc<[Arc<dyn Tool>]>;

impl Picked {
    pub(crate) fn new(all: Arc<dyn Toolset>, names: impl IntoIterator<Item = String>) -> Self {
        Self { all, names: names.into_iter().collect(), last: Mutex::default() }
    }

    fn pick(&self, all: Tools) -> Tools {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((of, picked)) = &*last
            && Arc::ptr_eq(of, &all)
        {
            return picked.clone();
        }
        let picked: Tools =
            all.iter().filter(|it| self.names.contains(it.definition().name())).cloned().collect();
        *last = Some((all, picked.clone()));
        picked
    }
}

impl Toolset for Picked {
    fn name(&self) -> &str {
        self.all.name()
    }

    fn tools(&self) -> BoxFuture<'_, Offer> {
        Box::pin(async move { self.all.tools().await.map(|all| self.pick(all)) })
    }
}

#[cfg(test)]
mod tests {
    use singletree_tools::{Calculator, Clock};

    use super::*;

    #[derive(Debug)]
    struct Two(Tools);

    impl Toolset for Two {
        fn name(&self) -> &str {
            "two"
        }

        fn tools(&self) -> BoxFuture<'_, Offer> {
            Box::pin(async { Ok(self.0.clone()) })
        }
    }

    #[tokio::test]
    async fn only_what_is_listed_is_there_and_it_stays_the_same() {
        let clock: Arc<dyn Tool> = Arc::new(Clock::new(|| std::time::SystemTime::UNIX_EPOCH).unwrap());
        let calculator: Arc<dyn Tool> = Arc::new(Calculator::new().unwrap());
        let two = Two([clock, calculator].into());
        let picked = Picked::new(Arc::new(two), ["calculator".to_owned(), "other".to_owned()]);
        let first = picked.tools().await.unwrap();
        assert_eq!(first.iter().map(|it| it.definition().name()).collect::<Vec<_>>(), ["calculator"]);
        assert!(Arc::ptr_eq(&first, &picked.tools().await.unwrap()));
    }
}
