//! Where narration goes.

use std::fmt;

use crate::NarrationMessage;

/// Whose narration it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NarrationOwner<'a> {
    /// The tenant (INV-14).
    pub tenant: &'a str,
    /// The session of the tenant.
    pub session: &'a str,
}

/// Takes narration.
///
/// # Contract
/// Neither call fails, and neither blocks: a sink that cannot keep up drops narration. The calls return nothing, so
/// that no caller can depend on delivery.
pub trait NarrationSink: fmt::Debug + Send + Sync {
    /// Takes one piece of narration about a session.
    fn emit_narration(&self, whose: NarrationOwner<'_>, narration: NarrationMessage);

    /// Drops all narration about a session: it is deleted (D25). Later narration is about a new session.
    fn forget_session(&self, whose: NarrationOwner<'_>);
}

/// A sink that drops everything: narration is off.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoNarration;

impl NarrationSink for NoNarration {
    fn emit_narration(&self, _whose: NarrationOwner<'_>, narration: NarrationMessage) {
        drop(narration);
    }

    fn forget_session(&self, _whose: NarrationOwner<'_>) {}
}
