//! The optional narration file, for people. The server never reads it, except to remove the lines of a session.
//!
//! A thread of its own writes the file. Callers queue their lines and go on. Lines that the thread cannot keep up with,
//! or that do not fit on the disk, are dropped.

use std::collections::{HashMap, HashSet, VecDeque};
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use serde::Serialize;
use singletree_narration::NarrationMessage;

use super::limits::NarrationLimits;
use super::ring::NarrationRingOwner;

/// How many sessions of one tenant may wait to be removed; beyond that, all lines of this tenant are removed, and none
/// of another tenant (INV-14).
const FORGOTTEN: usize = 1_000;
/// How long the end of a server waits for the file.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// A file that narration is written to, line by line.
#[derive(Debug)]
pub(super) struct NarrationFile {
    desk: Arc<NarrationFileQueue>,
}

/// The queue that callers share with the writer thread.
#[derive(Debug)]
struct NarrationFileQueue {
    waiting: Mutex<PendingFileLines>,
    changed: Condvar,
    waiting_bytes: usize,
}

#[derive(Debug, Default)]
struct PendingFileLines {
    lines: VecDeque<(NarrationRingOwner, String)>,
    bytes: usize,
    forgotten: ForgottenTenants,
    all: bool,
    closed: bool,
    /// Whether the writer has ended.
    over: bool,
}

/// Whose lines are to be taken out: of some sessions of a tenant, or of all of them.
#[derive(Debug, Default)]
struct ForgottenTenants(HashMap<String, ForgottenSessions>);

#[derive(Debug)]
enum ForgottenSessions {
    These(HashSet<String>),
    All,
}

impl ForgottenTenants {
    fn add_session(&mut self, owner: &NarrationRingOwner) {
        let new = || ForgottenSessions::These(HashSet::new());
        let sessions = self.0.entry(owner.tenant.clone()).or_insert_with(new);
        if let ForgottenSessions::These(these) = sessions {
            these.insert(owner.session.clone());
            if these.len() > FORGOTTEN {
                *sessions = ForgottenSessions::All;
            }
        }
    }

    fn is_tenant_forgotten(&self, tenant: &str) -> bool {
        matches!(self.0.get(tenant), Some(ForgottenSessions::All))
    }

    /// Returns how the lines begin that are to be taken out.
    fn line_prefixes(&self) -> Vec<String> {
        let of_tenant = |(tenant, sessions): (&String, &ForgottenSessions)| match sessions {
            ForgottenSessions::All => vec![line_prefix(tenant, None)],
            ForgottenSessions::These(these) => {
                these.iter().map(|session| line_prefix(tenant, Some(session))).collect()
            }
        };
        self.0.iter().flat_map(of_tenant).collect()
    }
}

/// Says that the writer has ended, however it did.
struct WriterEndGuard(Arc<NarrationFileQueue>);

impl Drop for WriterEndGuard {
    fn drop(&mut self) {
        self.0.lock_pending_lines().over = true;
        self.0.changed.notify_all();
    }
}

/// One line. Whose it is comes first: lines are found by how they begin, and read by nobody.
#[derive(Serialize)]
struct NarrationFileLine<'a> {
    tenant: &'a str,
    session: &'a str,
    #[serde(flatten)]
    narration: &'a NarrationMessage,
}

impl NarrationFile {
    /// Opens the file, and lets a thread write it.
    pub(super) fn open_with_writer(path: PathBuf, limits: &NarrationLimits) -> io::Result<Self> {
        if !open_for_append(&path)?.metadata()?.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "narration is written to a plain file"));
        }
        let waiting_bytes = limits.waiting_bytes;
        let desk = Arc::new(NarrationFileQueue {
            waiting: Mutex::default(),
            changed: Condvar::new(),
            waiting_bytes,
        });
        let (shared, max) = (desk.clone(), limits.file_bytes);
        let writing = move || {
            let over = WriterEndGuard(shared.clone());
            NarrationFileWriter { path, max }.run_until_closed(&shared);
            drop(over);
        };
        thread::Builder::new().name("narration".into()).spawn(writing)?;
        Ok(Self { desk })
    }

    /// Leaves a piece to be written; the oldest that waits is dropped where there is no room.
    pub(super) fn enqueue_line(&self, owner: &NarrationRingOwner, narration: &NarrationMessage) {
        let line = NarrationFileLine { tenant: &owner.tenant, session: &owner.session, narration };
        let Ok(mut line) = serde_json::to_string(&line) else { return };
        line.push('\n');
        let mut waiting = self.desk.lock_pending_lines();
        waiting.bytes += line.len();
        waiting.lines.push_back((owner.clone(), line));
        while waiting.bytes > self.desk.waiting_bytes
            && let Some((_, dropped)) = waiting.lines.pop_front()
        {
            waiting.bytes -= dropped.len();
        }
        drop(waiting);
        self.desk.changed.notify_all();
    }

    /// Takes the lines of a session out.
    pub(super) fn forget_session(&self, owner: &NarrationRingOwner) {
        let mut waiting = self.desk.lock_pending_lines();
        waiting.forgotten.add_session(owner);
        let PendingFileLines { lines, bytes, forgotten, .. } = &mut *waiting;
        // Those of sessions that were forgotten before were said since, unless all of the tenant goes.
        let everything = forgotten.is_tenant_forgotten(&owner.tenant);
        lines.retain(|(of, _)| of != owner && !(everything && of.tenant == owner.tenant));
        *bytes = lines.iter().map(|(_, line)| line.len()).sum();
        drop(waiting);
        self.desk.changed.notify_all();
    }

    /// Takes everything out.
    pub(super) fn forget_all_sessions(&self) {
        self.desk.lock_pending_lines().forget_all_sessions();
        self.desk.changed.notify_all();
    }
}

impl Drop for NarrationFile {
    /// Waits until the queued lines are written, for [`LAST_WORDS`] at most in case the disk does not respond.
    fn drop(&mut self) {
        let mut waiting = self.desk.lock_pending_lines();
        waiting.closed = true;
        self.desk.changed.notify_all();
        let end = self.desk.changed.wait_timeout_while(waiting, LAST_WORDS, |changed| !changed.over);
        drop(end);
    }
}

impl NarrationFileQueue {
    /// Locks the queue for a moment. A poisoned lock is usable: the queue is consistent between any two statements.
    fn lock_pending_lines(&self) -> MutexGuard<'_, PendingFileLines> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for something to do; none when there is nothing and never will be.
    fn take_pending_work(&self) -> Option<PendingFileLines> {
        let mut waiting = self.lock_pending_lines();
        loop {
            if !waiting.is_idle() {
                let closed = waiting.closed;
                return Some(std::mem::replace(
                    &mut *waiting,
                    PendingFileLines { closed, ..PendingFileLines::default() },
                ));
            }
            if waiting.closed {
                return None;
            }
            waiting = self.changed.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl PendingFileLines {
    fn is_idle(&self) -> bool {
        self.lines.is_empty() && self.forgotten.0.is_empty() && !self.all
    }

    fn forget_all_sessions(&mut self) {
        *self = Self { all: true, closed: self.closed, over: self.over, ..Self::default() };
    }
}

/// The state of the writer thread.
struct NarrationFileWriter {
    path: PathBuf,
    max: u64,
}

impl NarrationFileWriter {
    /// Writes until the queue is closed and empty. Lines that cannot be written are dropped: the next attempt may
    /// succeed.
    fn run_until_closed(&self, desk: &NarrationFileQueue) {
        while let Some(waiting) = desk.take_pending_work() {
            if waiting.all {
                drop(fs::remove_file(self.rotated_path()));
                drop(fs::write(&self.path, ""));
            } else if !waiting.forgotten.0.is_empty() {
                for path in [&self.rotated_path(), &self.path] {
                    if remove_forgotten_lines(path, &waiting.forgotten).is_err() {
                        // If the lines cannot be removed, the whole file is emptied: deleted lines must not stay.
                        drop(fs::write(path, ""));
                    }
                }
            }
            drop(self.append_lines(waiting.lines.iter().map(|(_, line)| line.as_str())));
        }
    }

    fn append_lines<'a>(&self, lines: impl Iterator<Item = &'a str>) -> io::Result<()> {
        let mut file = open_for_append(&self.path)?;
        let mut len = file.metadata()?.len();
        for line in lines {
            if len > 0 && len.saturating_add(line.len() as u64) > self.max {
                fs::rename(&self.path, self.rotated_path())?;
                file = open_for_append(&self.path)?;
                len = 0;
            }
            file.write_all(line.as_bytes())?;
            len += line.len() as u64;
        }
        Ok(())
    }

    /// Names the file that was put aside.
    fn rotated_path(&self) -> PathBuf {
        path_with_suffix(&self.path, ".1")
    }
}

fn path_with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(suffix);
    path.with_file_name(name)
}

/// Opens a file that only its owner reads, to write at its end.
fn open_for_append(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.append(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Writes a file anew without the lines that are to be forgotten.
fn remove_forgotten_lines(path: &Path, forgotten: &ForgottenTenants) -> io::Result<()> {
    let file = match File::open(path) {
        Ok(file) => BufReader::new(file),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    let beginnings = forgotten.line_prefixes();
    let new = path_with_suffix(path, ".new");
    drop(fs::remove_file(&new));
    let mut kept = BufWriter::new(open_for_append(&new)?);
    for line in file.lines() {
        let line = line?;
        if !beginnings.iter().any(|beginning| line.starts_with(beginning)) {
            kept.write_all(line.as_bytes())?;
            kept.write_all(b"\n")?;
        }
    }
    kept.into_inner().map_err(io::IntoInnerError::into_error)?;
    fs::rename(new, path)
}

/// Returns how the lines of a session begin; without one, how those of all sessions of a tenant do.
fn line_prefix(tenant: &str, session: Option<&str>) -> String {
    let quoted = |text: &str| serde_json::Value::from(text).to_string();
    let session = session.map(|session| format!("{},", quoted(session))).unwrap_or_default();
    format!("{{\"tenant\":{},\"session\":{session}", quoted(tenant))
}

#[cfg(test)]
mod tests;
