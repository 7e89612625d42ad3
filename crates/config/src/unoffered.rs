//! Tools that an agent should have and does not.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How many reasons are remembered of a server, so that none of them is told twice.
const REASONS: usize = 16;

/// Tools of a server that its agents should have and do not have now. The agents go on without them.
///
/// `Display` is for people, on one line.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnofferedTools {
    /// Which server, by its name in the file.
    pub server: String,
    /// The tool that the server does not have, by its own name; none when nothing of the server can be had.
    pub tool: Option<String>,
    /// Why not. It went through the redactor of the server.
    pub why: String,
    /// How to correct it, where that is known.
    pub hint: Option<String>,
}

impl fmt::Display for UnofferedTools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { server, tool, why, hint } = self;
        match tool {
            Some(tool) => write!(f, "the tool `{server}.{tool}` is not offered: {why}")?,
            None => write!(f, "the tools of `{server}` are not offered: {why}")?,
        }
        match hint {
            Some(hint) => write!(f, " ({hint})"),
            None => Ok(()),
        }
    }
}

/// Who is told of tools that are not offered: in the turn that would have them, so it has to return at once.
pub type OnUnoffered = Arc<dyn Fn(&UnofferedTools) + Send + Sync>;

/// The tool that is not offered, or none for the whole server; and why.
type Reason = (Option<String>, String);

/// Tells of each server and reason once, until the server can be had again.
#[derive(Clone)]
pub(crate) struct UnofferedReporter {
    to: Option<OnUnoffered>,
    told: Arc<Mutex<BTreeSet<Reason>>>,
}

impl UnofferedReporter {
    pub(crate) fn new(to: Option<OnUnoffered>) -> Self {
        Self { to, told: Arc::default() }
    }

    pub(crate) fn report_unoffered(&self, unoffered: &UnofferedTools) {
        let Some(to) = &self.to else { return };
        let mut told = self.lock_told_reasons();
        let is_new = told.len() < REASONS && told.insert((unoffered.tool.clone(), unoffered.why.clone()));
        drop(told);
        if is_new {
            to(unoffered);
        }
    }

    /// Takes down that the server can be had: its next silence is news.
    pub(crate) fn clear_server_reasons(&self) {
        self.lock_told_reasons().retain(|(tool, _)| tool.is_some());
    }

    fn lock_told_reasons(&self) -> MutexGuard<'_, BTreeSet<Reason>> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for UnofferedReporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UnofferedReporter").finish_non_exhaustive()
    }
}
