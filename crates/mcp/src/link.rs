//! The state of a connection that its two sides share.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// The state of a connection that its transport and its callers share.
#[derive(Debug)]
pub(crate) struct ConnectionLink {
    closed: AtomicBool,
    changes: AtomicU64,
    probed: AtomicBool,
    discovered_late: AtomicBool,
    process: OnceLock<u32>,
    end: Mutex<Option<ConnectionEnd>>,
    said: Mutex<Vec<u8>>,
    said_bytes: usize,
}

/// How a connection ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ConnectionEnd {
    /// The program ended, or shut its output.
    Gone(String),
    /// It said more at once than it may.
    TooLarge(usize),
}

impl ConnectionLink {
    pub(crate) fn new(said_bytes: usize) -> Self {
        Self {
            closed: AtomicBool::new(false),
            changes: AtomicU64::new(0),
            probed: AtomicBool::new(false),
            discovered_late: AtomicBool::new(false),
            process: OnceLock::new(),
            end: Mutex::default(),
            said: Mutex::default(),
            said_bytes,
        }
    }

    /// Takes down that nothing comes any more.
    pub(crate) fn mark_closed(&self) {
        self.closed.store(true, Ordering::Release);
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Takes down that the question after the revision is answered, or given up.
    pub(crate) fn mark_probed(&self) {
        self.probed.store(true, Ordering::Release);
    }

    pub(crate) fn is_probed(&self) -> bool {
        self.probed.load(Ordering::Acquire)
    }

    /// Records that the server speaks the revision without `initialize`, and answered so after the probe was given up.
    pub(crate) fn mark_discovered_late(&self) {
        self.discovered_late.store(true, Ordering::Release);
    }

    pub(crate) fn is_discovered_late(&self) -> bool {
        self.discovered_late.load(Ordering::Acquire)
    }

    /// Takes down that the tools are no longer those that were listed.
    pub(crate) fn record_tool_change(&self) {
        self.changes.fetch_add(1, Ordering::AcqRel);
    }

    /// Returns how often the tools have changed.
    pub(crate) fn tool_change_count(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// Takes down the number of the program's process.
    pub(crate) fn record_process_id(&self, process: Option<u32>) {
        if let Some(process) = process {
            self.process.get_or_init(|| process);
        }
    }

    pub(crate) fn process_id(&self) -> Option<u32> {
        self.process.get().copied()
    }

    /// Takes down how it ended; the first reason stays.
    pub(crate) fn record_end(&self, end: ConnectionEnd) {
        lock_ignoring_poison(&self.end).get_or_insert(end);
    }

    pub(crate) fn recorded_end(&self) -> Option<ConnectionEnd> {
        lock_ignoring_poison(&self.end).clone()
    }

    /// Records output of the program on its standard error; the oldest bytes are dropped.
    pub(crate) fn record_stderr(&self, bytes: &[u8]) {
        let mut said = lock_ignoring_poison(&self.said);
        said.extend_from_slice(bytes);
        let surplus = said.len().saturating_sub(self.said_bytes);
        said.drain(..surplus);
    }

    /// Returns the last lines that the program wrote on its standard error. A line whose beginning is forgotten is left
    /// out: half of a secret is not recognised.
    pub(crate) fn last_stderr_lines(&self) -> String {
        let said = lock_ignoring_poison(&self.said);
        let text = String::from_utf8_lossy(&said);
        if said.len() < self.said_bytes {
            return text.into_owned();
        }
        text.split_once('\n').map(|(_, whole)| whole.to_owned()).unwrap_or_default()
    }
}

fn lock_ignoring_poison<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    // INV-12, INV-16: half of a secret is not recognised, so a line whose beginning is forgotten is not told.
    #[test]
    fn the_last_whole_lines_are_kept() {
        let link = ConnectionLink::new(12);
        link.record_stderr(b"one\ntwo\n");
        assert_eq!(link.last_stderr_lines(), "one\ntwo\n");
        link.record_stderr(b"three\nfour");
        assert_eq!(link.last_stderr_lines(), "three\nfour");
        link.record_stderr(b" and a line without an end");
        assert_eq!(link.last_stderr_lines(), "");
    }
}
