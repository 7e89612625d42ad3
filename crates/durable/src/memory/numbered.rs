//! Rows by number, made to be appended to.

/// Rows ordered by number.
///
/// Adding past the end and finding a row among numbers without gaps take constant time; a range is a slice. Numbers may
/// come in any order and have gaps, at a price.
#[derive(Debug, Clone)]
pub(super) struct Numbered<T> {
    rows: Vec<(u64, T)>,
}

impl<T> Default for Numbered<T> {
    fn default() -> Self {
        Self { rows: Vec::new() }
    }
}

impl<T> Numbered<T> {
    /// Returns the row of this number.
    pub(super) fn get(&self, no: u64) -> Option<&T> {
        self.find(no).ok().map(|at| &self.rows[at].1)
    }

    /// Returns the row of this number, to change it.
    pub(super) fn get_mut(&mut self, no: u64) -> Option<&mut T> {
        self.find(no).ok().map(|at| &mut self.rows[at].1)
    }

    /// Returns the row of this number, made if there is none.
    pub(super) fn or_default(&mut self, no: u64) -> &mut T
    where
        T: Default,
    {
        let at = self.find(no).unwrap_or_else(|at| {
            self.rows.insert(at, (no, T::default()));
            at
        });
        &mut self.rows[at].1
    }

    /// Sets the row of this number and returns the one that stood there.
    pub(super) fn set(&mut self, no: u64, row: T) -> Option<T> {
        match self.find(no) {
            Ok(at) => Some(std::mem::replace(&mut self.rows[at].1, row)),
            Err(at) => {
                self.rows.insert(at, (no, row));
                None
            }
        }
    }

    /// Removes the row of this number.
    pub(super) fn remove(&mut self, no: u64) {
        if let Ok(at) = self.find(no) {
            self.rows.remove(at);
        }
    }

    /// Removes the rows of lower numbers.
    pub(super) fn remove_before(&mut self, no: u64) {
        self.rows.drain(..self.start(no));
    }

    /// Returns all rows.
    pub(super) fn all(&self) -> &[(u64, T)] {
        &self.rows
    }

    /// Returns the rows from this number on, at most `limit`.
    pub(super) fn from(&self, no: u64, limit: u64) -> &[(u64, T)] {
        let rows = &self.rows[self.start(no)..];
        &rows[..usize::try_from(limit).unwrap_or(usize::MAX).min(rows.len())]
    }

    /// Returns the rows from this number on, up to another, without that.
    pub(super) fn between(&self, from: u64, to: u64) -> &[(u64, T)] {
        let from = self.start(from);
        &self.rows[from..self.start(to).max(from)]
    }

    fn start(&self, no: u64) -> usize {
        self.find(no).unwrap_or_else(|at| at)
    }

    /// Returns where the row of this number is, or where it would be inserted.
    fn find(&self, no: u64) -> Result<usize, usize> {
        let (Some((first, _)), Some((last, _))) = (self.rows.first(), self.rows.last()) else {
            return Err(0);
        };
        if no > *last {
            return Err(self.rows.len());
        }
        let dense = no.checked_sub(*first).and_then(|it| usize::try_from(it).ok());
        match dense.filter(|&at| self.rows.get(at).is_some_and(|(it, _)| *it == no)) {
            Some(at) => Ok(at),
            None => self.rows.binary_search_by_key(&no, |(it, _)| *it),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Numbered;

    fn numbered(numbers: &[u64]) -> Numbered<u64> {
        let mut rows = Numbered::default();
        for &no in numbers {
            rows.set(no, no);
        }
        rows
    }

    #[test]
    fn rows_are_found_whatever_the_order_and_the_gaps() {
        for numbers in [&[0, 1, 2, 3][..], &[7, 8, 9], &[9, 2, 5, 0], &[u64::MAX, 0]] {
            let rows = numbered(numbers);
            for no in 0..12 {
                assert_eq!(rows.get(no).is_some(), numbers.contains(&no), "{numbers:?} {no}");
            }
            assert!(rows.all().is_sorted_by_key(|(no, _)| *no));
        }
    }

    #[test]
    fn ranges_are_slices() {
        let rows = numbered(&[2, 3, 5, 9]);
        let numbers = |rows: &[(u64, u64)]| rows.iter().map(|(no, _)| *no).collect::<Vec<_>>();
        assert_eq!(numbers(rows.from(3, 2)), [3, 5]);
        assert_eq!(numbers(rows.from(10, 2)), Vec::<u64>::new());
        assert_eq!(numbers(rows.from(0, u64::MAX)), [2, 3, 5, 9]);
        assert_eq!(numbers(rows.between(3, 9)), [3, 5]);
        assert_eq!(numbers(rows.between(9, 3)), Vec::<u64>::new());
    }
}
