//! Where narration goes.

use std::fmt;

use crate::Narration;

/// Whose narration it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Whose<'a> {
    /// The tenant (INV-14).
    pub tenant: &'a str,
    /// The session of the tenant.
    pub session: &'a str,
}

/// Takes narration.
///
/// # Contract
/// Neither call fails, and neither blocks: a sink that cannot keep up drops. They return nothing, so that nobody can depend on
/// what became of it.
pub trait NarrationSink: fmt::Debug + Send + Sync {
    /// Takes one piece of narration about a session.
    fn emit(&self, whose: Whose<'_>, narration: Narration);

    /// Drops everything that was said about a session: it is deleted (D25). What is said later is about a new one.
    fn forget(&self, whose: Whose<'_>);
}

/// A sink that drops everything: narration is off.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoNarration;

impl NarrationSink for NoNarration {
    fn emit(&self, _whose: Whose<'_>, narration: Narration) {
        drop(narration);
    }

    fn forget(&self, _whose: Whose<'_>) {}
}
