//! Narration as it is held: sinks put it in, sections of the server read it.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use singletree_engine::{Clock, IdGenerator};
use singletree_http::Redactor;
use singletree_narration::{NarrationMessage, NarrationOwner, NarrationSink, NoNarration};

use super::file::NarrationFile;
use super::follow::NarrationFollowers;
use super::limits::NarrationLimits;
use super::ring::{NarrationRingEntry, NarrationRingOwner, NarrationRings};

/// The narration of a server, for those who look at it: a ring for each session in memory, and a file if one is wanted.
/// Create it first; give [`NarrationLog::sink`] to the chat and the log itself to the server.
///
/// It can be emptied at any moment: only the narration that people are shown changes (INV-9). That is why only the
/// server can read it: the log's public methods add and remove entries, and none returns them.
#[derive(Clone)]
pub struct NarrationLog(Option<Arc<NarrationLogInner>>);

pub(super) struct NarrationLogInner {
    /// Tells this run of the server from others: numbers begin anew with each.
    run: String,
    limits: NarrationLimits,
    clock: Arc<dyn Clock>,
    redactor: Redactor,
    /// Guards the rings; held for a moment, never across an await.
    rings: Mutex<NarrationRings>,
    followers: NarrationFollowers,
    file: Option<NarrationFile>,
}

/// Puts narration into a log. It cannot look.
struct NarrationLogSink(Arc<NarrationLogInner>);

impl NarrationLog {
    /// Holds narration within limits. The redactor removes secrets from every entry first (INV-16).
    #[must_use]
    pub fn new(
        limits: NarrationLimits,
        redactor: Redactor,
        clock: Arc<dyn Clock>,
        ids: &dyn IdGenerator,
    ) -> Self {
        Self::with_optional_file(limits, (redactor, clock, ids), None)
    }

    /// Holds narration, and also appends it to a file of its own: one line of JSON for each entry. A full file is
    /// rotated; the server never reads it, it is for people.
    ///
    /// # Errors
    /// When the file cannot be opened. Later failures are not reported.
    pub fn writing(
        limits: NarrationLimits,
        (redactor, clock, ids): (Redactor, Arc<dyn Clock>, &dyn IdGenerator),
        file: PathBuf,
    ) -> io::Result<Self> {
        let file = NarrationFile::open_with_writer(file, &limits)?;
        Ok(Self::with_optional_file(limits, (redactor, clock, ids), Some(file)))
    }

    fn with_optional_file(
        limits: NarrationLimits,
        (redactor, clock, ids): (Redactor, Arc<dyn Clock>, &dyn IdGenerator),
        file: Option<NarrationFile>,
    ) -> Self {
        let run = ids.generate_uuid();
        let run = run.split('-').next().unwrap_or_default().to_owned();
        let rings = Mutex::new(NarrationRings::new(limits.clone()));
        let followers = NarrationFollowers::default();
        Self(Some(Arc::new(NarrationLogInner { run, limits, clock, redactor, rings, followers, file })))
    }

    /// Holds nothing: narration is off.
    #[must_use]
    pub fn new_disabled() -> Self {
        Self(None)
    }

    /// Returns the sink that puts narration into this log, to be given to the chat.
    #[must_use]
    pub fn sink(&self) -> Arc<dyn NarrationSink> {
        match &self.0 {
            Some(log) => Arc::new(NarrationLogSink(log.clone())),
            None => Arc::new(NoNarration),
        }
    }

    /// Tells whether anything is held at all.
    #[must_use]
    pub fn is_enabled(&self) -> bool {
        self.0.is_some()
    }

    /// Drops everything that is held about a session, in memory and in the file.
    pub fn forget_session(&self, whose: NarrationOwner<'_>) {
        if let Some(log) = &self.0 {
            log.forget_session(&NarrationRingOwner::from_narration_owner(whose));
        }
    }

    /// Drops everything.
    pub fn forget_all_sessions(&self) {
        let Some(log) = &self.0 else { return };
        log.lock_rings().forget_all_sessions();
        if let Some(file) = &log.file {
            file.forget_all_sessions();
        }
    }

    pub(super) fn inner_log(&self) -> Option<&Arc<NarrationLogInner>> {
        self.0.as_ref()
    }
}

impl NarrationLogInner {
    fn lock_rings(&self) -> MutexGuard<'_, NarrationRings> {
        self.rings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn forget_session(&self, owner: &NarrationRingOwner) {
        self.lock_rings().forget_session(owner);
        if let Some(file) = &self.file {
            file.forget_session(owner);
        }
    }

    /// Returns the entries of a session after a number.
    pub(super) fn entries_after(&self, owner: &NarrationRingOwner, no: u64) -> Vec<NarrationRingEntry> {
        self.lock_rings().entries_after(owner, no, self.clock.now())
    }

    /// Returns who is told when there is more to read of a session.
    pub(super) fn followers(&self) -> &NarrationFollowers {
        &self.followers
    }

    /// Names a piece.
    pub(super) fn format_entry_id(&self, no: u64) -> String {
        format!("{}.{no}", self.run)
    }

    /// Reads a name: one of another run, or none at all, is before everything.
    pub(super) fn parse_entry_number(&self, id: &str) -> u64 {
        let own = id.rsplit_once('.').filter(|(run, _)| *run == self.run);
        own.and_then(|(_, no)| no.parse().ok()).unwrap_or_default()
    }
}

impl NarrationSink for NarrationLogSink {
    fn emit_narration(&self, whose: NarrationOwner<'_>, narration: NarrationMessage) {
        let (log, owner) = (&self.0, NarrationRingOwner::from_narration_owner(whose));
        let content = log.redactor.redact(&narration.content);
        let end = content.floor_char_boundary(log.limits.content_bytes);
        let content = match content.get(..end) {
            Some(cut) if end < content.len() => format!("{cut}…"),
            Some(_) | None => content.into_owned(),
        };
        let narration = NarrationMessage { content, ..narration };
        if let Some(file) = &log.file {
            file.enqueue_line(&owner, &narration);
        }
        log.lock_rings().push_entry(&owner, narration, log.clock.now());
        log.followers.notify_followers(&owner);
    }

    fn forget_session(&self, whose: NarrationOwner<'_>) {
        self.0.forget_session(&NarrationRingOwner::from_narration_owner(whose));
    }
}

impl fmt::Debug for NarrationLogSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LogSink")
    }
}

impl fmt::Debug for NarrationLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NarrationLog({})", if self.is_enabled() { "on" } else { "off" })
    }
}
