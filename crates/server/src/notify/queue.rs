//! Which notice is delivered next, and when: a plain value that takes the time as an argument.
//!
//! Notices of one session are delivered in order: a later one waits until an earlier one was delivered or given up. The
//! one with the fewest attempts comes first, so that a notice that its endpoint never accepts does not delay others.
//! While an endpoint is unreachable, one notice at a time probes it, with growing pauses, until it responds.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use singletree_durable::{SessionId, Timestamp};
use singletree_harness::Notice;

/// How long to wait after the first failure; it doubles with each.
const PAUSE: Duration = Duration::from_secs(1);
/// How long to wait at most before one notice is tried again.
const PAUSE_MAX: Duration = Duration::from_mins(10);
/// How long to wait at most before an endpoint that is away is asked again.
const REST_MAX: Duration = Duration::from_mins(1);
/// How long at most an endpoint may ask to be left alone.
const ASKED_MAX: Duration = Duration::from_hours(1);

/// The outcome of a notice that was taken from the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoticeOutcome {
    /// The endpoint took it, and it is removed from the store.
    Over,
    /// There was nothing to tell any more; the endpoint was not asked.
    Gone,
    /// The endpoint took it, and it could not be removed from the store: that is tried again, and nothing is told.
    Told,
    /// The endpoint does not take this one.
    Refused,
    /// The endpoint is away, or asks to be left alone for so long.
    Away(Option<Duration>),
    /// The store could not be asked.
    Unread,
}

/// A notice to be told.
#[derive(Debug, Clone)]
pub(super) struct QueuedNotice {
    pub(super) notice: Arc<Notice>,
    /// Whether the endpoint has taken it already.
    pub(super) told: bool,
    /// The how-manieth try of this process it is, from 1.
    pub(super) attempt: u32,
}

#[derive(Debug)]
struct NoticeQueueEntry {
    notice: Arc<Notice>,
    attempts: u32,
    due: Timestamp,
    told: bool,
    taken: bool,
}

/// The notices of one endpoint that are to be told, as many as fit.
#[derive(Debug)]
pub(super) struct NoticeQueue {
    /// By session, and within a session in the order of the events.
    sessions: BTreeMap<SessionId, BTreeMap<String, NoticeQueueEntry>>,
    len: usize,
    max: usize,
    /// Whether all that are stored are in it.
    whole: bool,
    taken: usize,
    /// How often in a row the endpoint was away.
    failures: u32,
    /// Until when it is left alone.
    rest: Option<Timestamp>,
}

impl NoticeQueue {
    /// Makes an empty queue whose caller must read the store.
    pub(super) fn new(max: usize) -> Self {
        let (sessions, rest) = (BTreeMap::new(), None);
        Self { sessions, len: 0, max, whole: false, taken: 0, failures: 0, rest }
    }

    /// Adds a notice, unless it is already queued. A notice that does not fit is read from the store later.
    pub(super) fn add_notice(&mut self, notice: Arc<Notice>, now: Timestamp) {
        let full = self.is_full();
        let of_session = self.sessions.entry(notice.session.clone()).or_default();
        if of_session.contains_key(&notice.place) {
            return;
        }
        if full {
            self.whole = false;
            let session = notice.session.clone();
            self.remove_empty_session(&session);
            return;
        }
        let (place, due) = (notice.place.clone(), now);
        of_session.insert(place, NoticeQueueEntry { notice, attempts: 0, due, told: false, taken: false });
        self.len += 1;
    }

    /// Notes that some were written that it was not told of.
    pub(super) fn mark_notices_missed(&mut self) {
        self.whole = false;
    }

    /// Tells whether the store is to be read: there may be more, and there is room.
    pub(super) fn needs_store_read(&self) -> bool {
        !self.whole && self.len <= self.max / 2
    }

    /// Tells whether nothing more fits.
    pub(super) fn is_full(&self) -> bool {
        self.len >= self.max
    }

    /// Notes that the store is being read, from its beginning.
    pub(super) fn begin_store_read(&mut self) {
        self.whole = true;
    }

    /// Takes the next notice that may be told now.
    pub(super) fn take_ready_notice(&mut self, now: Timestamp) -> Option<QueuedNotice> {
        if self.rest.is_some_and(|rest| rest > now) || (self.failures > 0 && self.taken > 0) {
            return None;
        }
        let heads = self.sessions.values_mut().filter_map(|session| session.values_mut().next());
        let ready = heads.filter(|head| !head.taken && head.due <= now);
        let next = ready.min_by_key(|it| (it.attempts, it.due, it.notice.at))?;
        next.taken = true;
        self.taken += 1;
        let attempt = next.attempts.saturating_add(1);
        Some(QueuedNotice { notice: next.notice.clone(), told: next.told, attempt })
    }

    /// Records the outcome of a notice that was taken.
    pub(super) fn settle_notice(&mut self, notice: &Notice, settled: NoticeOutcome, now: Timestamp) {
        let of_session = self.sessions.get_mut(&notice.session);
        let Some(entry) = of_session.and_then(|session| session.get_mut(&notice.place)).filter(|it| it.taken)
        else {
            return;
        };
        (entry.taken, entry.attempts) = (false, entry.attempts.saturating_add(1));
        entry.due = now.saturating_add(retry_pause(entry.attempts, PAUSE_MAX, &notice.id));
        self.taken -= 1;
        match settled {
            NoticeOutcome::Over | NoticeOutcome::Gone => {
                if let Some(of_session) = self.sessions.get_mut(&notice.session) {
                    self.len -= usize::from(of_session.remove(&notice.place).is_some());
                }
                self.remove_empty_session(&notice.session);
            }
            NoticeOutcome::Told => entry.told = true,
            NoticeOutcome::Refused | NoticeOutcome::Unread => {}
            NoticeOutcome::Away(asked) => {
                self.failures = self.failures.saturating_add(1);
                let asked = asked.unwrap_or_default().min(ASKED_MAX);
                self.rest =
                    Some(now.saturating_add(retry_pause(self.failures, REST_MAX, &notice.id).max(asked)));
            }
        }
        if matches!(settled, NoticeOutcome::Over | NoticeOutcome::Told | NoticeOutcome::Refused) {
            (self.failures, self.rest) = (0, None);
        }
    }

    /// Returns the time until the next notice is due; none when nothing is queued, or when a running delivery must end
    /// first.
    pub(super) fn time_until_due(&self, now: Timestamp) -> Option<Duration> {
        if self.failures > 0 && self.taken > 0 {
            return None;
        }
        let heads = self.sessions.values().filter_map(|session| session.values().next());
        let due = heads.filter(|head| !head.taken).map(|it| it.due).min()?;
        Some(self.rest.map_or(due, |rest| rest.max(due)).duration_since(now))
    }

    /// Returns the places of all queued notices.
    pub(super) fn queued_places(&self) -> BTreeSet<String> {
        self.sessions.values().flat_map(|session| session.keys().cloned()).collect()
    }

    fn remove_empty_session(&mut self, session: &SessionId) {
        if self.sessions.get(session).is_some_and(BTreeMap::is_empty) {
            self.sessions.remove(session);
        }
    }
}

/// Returns the longest pause of a notice after an attempt of that number that fails.
pub(super) fn longest_pause(attempt: u32) -> Duration {
    double_pause(attempt, PAUSE_MAX)
}

/// Returns the pause that doubles with each failure.
fn double_pause(failures: u32, max: Duration) -> Duration {
    let doubled = 2_u32.checked_pow(failures.saturating_sub(1)).and_then(|factor| PAUSE.checked_mul(factor));
    doubled.unwrap_or(max).min(max)
}

/// Returns the pause after a number of failures: between half and all of the exponential pause, so that notices that
/// failed together are not all tried again together. The id decides, so the result is deterministic.
fn retry_pause(failures: u32, max: Duration, id: &str) -> Duration {
    let whole = double_pause(failures, max);
    let digits = id.get(id.len().saturating_sub(4)..).and_then(|it| u16::from_str_radix(it, 16).ok());
    let part = f64::from(digits.unwrap_or_default()) / f64::from(u16::MAX);
    whole.mul_f64(0.5 + part / 2.0)
}

#[cfg(test)]
mod tests;
