//! Ids of names, kept in memory: few texts stand in nearly every row that is written.

use std::cell::RefCell;
use std::collections::HashMap;

/// How many names are kept; beyond that all of them are forgotten and looked up again.
const KEPT: usize = 1024;

/// The ids of names as the writer's transaction sees them.
///
/// Only the writer adds names and nobody changes them, so that an id that was committed stays true. One that was added
/// by something that is undone does not: whoever undoes, forgets.
#[derive(Debug, Default)]
pub(crate) struct NameIdCache(RefCell<HashMap<Box<str>, i64>>);

impl NameIdCache {
    /// Returns the id of a name, if it is known.
    pub(crate) fn find_name_id(&self, text: &str) -> Option<i64> {
        self.0.borrow().get(text).copied()
    }

    /// Keeps the id of a name.
    pub(crate) fn remember_name_id(&self, text: &str, id: i64) {
        let mut kept = self.0.borrow_mut();
        if kept.len() >= KEPT {
            kept.clear();
        }
        kept.insert(text.into(), id);
    }

    /// Forgets all of them.
    pub(crate) fn forget_names(&self) {
        self.0.borrow_mut().clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_kept_up_to_a_limit_and_forgotten_on_demand() {
        // INV-12
        let names = NameIdCache::default();
        for id in 0..3_000_i64 {
            names.remember_name_id(&id.to_string(), id);
            assert_eq!(names.find_name_id(&id.to_string()), Some(id));
            assert!(names.0.borrow().len() <= KEPT);
        }
        names.forget_names();
        assert_eq!(names.find_name_id("2999"), None);
    }
}
