//! Identifiers.

use std::fmt;

/// Generates identifiers.
pub trait IdGenerator: fmt::Debug + Send + Sync {
    /// Returns a new UUID of version 4, in its usual text form.
    fn generate_uuid(&self) -> String;
}
