//! Telling that a backend was passed over.

use std::fmt;

use crate::error::Error;

/// A backend could not be reached, and the next one answered (spec: prompt-management §9): worth a warning.
#[derive(Debug)]
pub struct Fallback<'a> {
    /// The name that was asked for.
    pub name: &'a str,
    /// The label that was asked for.
    pub label: &'a str,
    /// Which backend answered, counted from 0 in the manager's order.
    pub answered: usize,
    /// Why those before it did not, in order.
    pub passed_over: &'a [Error],
}

/// Who is told.
pub(crate) struct FallbackListener(pub(crate) Box<dyn Fn(&Fallback<'_>) + Send + Sync>);

impl fmt::Debug for FallbackListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Listener")
    }
}
