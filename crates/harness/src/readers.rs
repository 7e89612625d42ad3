//! How far each listener of a session has read its log: events that one of them has not read yet are kept.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// Everybody who reads a session's log in this process.
#[derive(Debug, Default)]
pub(crate) struct LogReaders(Mutex<Vec<Weak<AtomicU64>>>);

/// The next event that one reader wants; forgotten when it is dropped.
#[derive(Debug)]
pub(crate) struct ReaderPosition(Arc<AtomicU64>);

impl ReaderPosition {
    /// Notes that everything before this event was read.
    pub(crate) fn move_to(&self, next: u64) {
        self.0.store(next, Ordering::Release);
    }
}

impl LogReaders {
    fn all(&self) -> MutexGuard<'_, Vec<Weak<AtomicU64>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps the log from this event on for a reader, unless there are as many as there may be.
    pub(crate) fn enter(&self, next: u64, max: usize) -> Option<ReaderPosition> {
        let at = Arc::new(AtomicU64::new(next));
        let mut all = self.all();
        all.retain(|item| item.strong_count() > 0);
        if all.len() >= max {
            return None;
        }
        all.push(Arc::downgrade(&at));
        Some(ReaderPosition(at))
    }

    /// Tells whether another reader may come.
    pub(crate) fn has_room(&self, max: usize) -> bool {
        self.count() < max
    }

    /// Counts the readers.
    pub(crate) fn count(&self) -> usize {
        self.all().iter().filter(|reader| reader.strong_count() > 0).count()
    }

    /// Returns the first event that somebody still wants.
    pub(crate) fn lowest(&self) -> Option<u64> {
        self.all().iter().filter_map(Weak::upgrade).map(|item| item.load(Ordering::Acquire)).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_reader_counts_until_it_goes() {
        let readers = LogReaders::default();
        assert_eq!(readers.lowest(), None);
        let (slow, fast) = (readers.enter(3, 2).unwrap(), readers.enter(3, 2).unwrap());
        assert!(!readers.has_room(2) && readers.enter(3, 2).is_none());
        fast.move_to(9);
        assert_eq!(readers.lowest(), Some(3));
        slow.move_to(5);
        assert_eq!(readers.lowest(), Some(5));
        drop(slow);
        assert_eq!(readers.lowest(), Some(9));
        drop(fast);
        assert_eq!(readers.lowest(), None);
    }
}
