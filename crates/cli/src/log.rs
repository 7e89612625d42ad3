//! The log of a server: lines on the standard error, written by a thread of their own.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use singletree_server::LogSink;

/// Lines that may wait to be written: where the standard error is read slowly, no turn waits for it.
const LINES: usize = 4096;

/// Lines on the standard error. Lines that come faster than they are read are dropped; a line reports how many were.
#[derive(Debug)]
pub(crate) struct ErrorLog {
    lines: SyncSender<String>,
    dropped: Arc<AtomicU64>,
    /// Never set back.
    dropped_in_all: AtomicU64,
}

impl ErrorLog {
    /// Starts writing. It ends with the last line when the log is dropped.
    pub(crate) fn start_thread() -> io::Result<Arc<Self>> {
        let (lines, waiting) = sync_channel(LINES);
        let dropped = Arc::new(AtomicU64::new(0));
        let counted = dropped.clone();
        std::thread::Builder::new().name("log".to_owned()).spawn(move || write_lines(&waiting, &counted))?;
        Ok(Arc::new(Self { lines, dropped, dropped_in_all: AtomicU64::new(0) }))
    }

    /// Returns how many lines were dropped since the start.
    pub(crate) fn dropped_line_count(&self) -> u64 {
        self.dropped_in_all.load(Ordering::Relaxed)
    }
}

impl LogSink for ErrorLog {
    fn write_line(&self, line: &str) {
        if self.lines.try_send(format!("{line}\n")).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
            self.dropped_in_all.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn write_lines(waiting: &Receiver<String>, dropped: &AtomicU64) {
    while let Ok(line) = waiting.recv() {
        let mut text = line;
        match dropped.swap(0, Ordering::Relaxed) {
            0 => {}
            lines => text += &format!("{{\"kind\":\"dropped\",\"lines\":{lines}}}\n"),
        }
        // Where nobody reads, nobody can be told.
        io::stderr().lock().write_all(text.as_bytes()).unwrap_or_default();
    }
}

/// How long the process waits for a last word to be read.
const LAST_WORD: Duration = Duration::from_secs(1);

/// Writes to the standard error, but waits no longer for somebody to read it than a second: a pipe that nobody reads
/// must not keep a process from ending.
pub(crate) fn write_with_timeout(write: impl FnOnce() + Send + 'static) {
    let (done, written) = sync_channel::<()>(1);
    let said = std::thread::Builder::new().name("last-word".to_owned()).spawn(move || {
        write();
        done.send(()).unwrap_or_default();
    });
    if said.is_ok() {
        // Said, or too late: either way it goes on.
        written.recv_timeout(LAST_WORD).unwrap_or_default();
    }
}
