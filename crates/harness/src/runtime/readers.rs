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
    pub(crate) fn move_to_event(&self, next: u64) {
        self.0.store(next, Ordering::Release);
    }
}

impl LogReaders {
    fn lock_readers(&self) -> MutexGuard<'_, Vec<Weak<AtomicU64>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps the log from this event on for a reader, unless there are as many as there may be.
    pub(crate) fn add_reader(&self, next: u64, max: usize) -> Option<ReaderPosition> {
        let at = Arc::new(AtomicU64::new(next));
        let mut all = self.lock_readers();
        all.retain(|item| item.strong_count() > 0);
        if all.len() >= max {
            return None;
        }
        all.push(Arc::downgrade(&at));
        Some(ReaderPosition(at))
    }

    /// Tells whether another reader may come.
    pub(crate) fn has_reader_room(&self, max: usize) -> bool {
        self.reader_count() < max
    }

    /// Counts the readers.
    pub(crate) fn reader_count(&self) -> usize {
        self.lock_readers().iter().filter(|reader| reader.strong_count() > 0).count()
    }

    /// Returns the first event that somebody still wants.
    pub(crate) fn lowest_position(&self) -> Option<u64> {
        self.lock_readers().iter().filter_map(Weak::upgrade).map(|item| item.load(Ordering::Acquire)).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_reader_counts_until_it_goes() {
        let readers = LogReaders::default();
        assert_eq!(readers.lowest_position(), None);
        let (slow, fast) = (readers.add_reader(3, 2).unwrap(), readers.add_reader(3, 2).unwrap());
        assert!(!readers.has_reader_room(2) && readers.add_reader(3, 2).is_none());
        fast.move_to_event(9);
        assert_eq!(readers.lowest_position(), Some(3));
        slow.move_to_event(5);
        assert_eq!(readers.lowest_position(), Some(5));
        drop(slow);
        assert_eq!(readers.lowest_position(), Some(9));
        drop(fast);
        assert_eq!(readers.lowest_position(), None);
    }
}
