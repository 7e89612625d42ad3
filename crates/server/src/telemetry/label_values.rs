//! Values of labels that come from outside.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

/// How many values a label from outside may have: every further value counts as `others` (INV-12).
const VALUES_MAX: usize = 1000;

/// The label of all values beyond [`VALUES_MAX`].
const OTHERS: &str = "others";

/// The values of a label that came from outside, as many as there may be.
#[derive(Debug, Default)]
pub(super) struct LabelValues(Mutex<BTreeSet<String>>);

impl LabelValues {
    pub(super) fn bounded_value(&self, value: &str) -> String {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !known.contains(value) {
            if known.len() >= VALUES_MAX {
                return OTHERS.to_owned();
            }
            known.insert(value.to_owned());
        }
        value.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // INV-12
    #[test]
    fn a_label_from_outside_takes_so_many_values_and_no_more() {
        let values = LabelValues::default();
        for number in 0..VALUES_MAX {
            assert_eq!(values.bounded_value(&number.to_string()), number.to_string());
        }
        assert_eq!(
            (values.bounded_value("one more"), values.bounded_value("7")),
            (OTHERS.to_owned(), "7".to_owned())
        );
    }
}
