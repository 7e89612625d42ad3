//! Rows by number, made to be appended to.

/// How many rows a chunk has at most.
const WIDTH: usize = 64;

/// Rows ordered by number, in chunks.
///
/// Adding past the end and finding a row among numbers without gaps take constant time and move no other row, however
/// many there are. Numbers may come in any order and have gaps, at a price.
#[derive(Debug, Clone)]
pub(super) struct NumberedRows<T> {
    /// None of them is empty.
    chunks: Vec<Vec<(u64, T)>>,
}

/// Which chunk, and which row of it.
type Place = (usize, usize);

/// Compares the rows; how they lie in chunks is no difference.
impl<T: PartialEq> PartialEq for NumberedRows<T> {
    fn eq(&self, other: &Self) -> bool {
        self.iter_rows().eq(other.iter_rows())
    }
}

impl<T: Eq> Eq for NumberedRows<T> {}

impl<T> Default for NumberedRows<T> {
    fn default() -> Self {
        Self { chunks: Vec::new() }
    }
}

impl<T> NumberedRows<T> {
    /// Returns the row of this number.
    pub(super) fn get(&self, no: u64) -> Option<&T> {
        self.find_place(no).ok().map(|(chunk, at)| &self.chunks[chunk][at].1)
    }

    /// Returns the row of this number, to change it.
    pub(super) fn get_mut(&mut self, no: u64) -> Option<&mut T> {
        self.find_place(no).ok().map(|(chunk, at)| &mut self.chunks[chunk][at].1)
    }

    /// Returns the row of this number, made if there is none.
    pub(super) fn get_or_default(&mut self, no: u64) -> &mut T
    where
        T: Default,
    {
        let (chunk, at) = match self.find_place(no) {
            Ok(place) => place,
            Err(place) => self.insert_at_place(place, (no, T::default())),
        };
        &mut self.chunks[chunk][at].1
    }

    /// Sets the row of this number and returns the one that stood there.
    pub(super) fn set_row(&mut self, no: u64, row: T) -> Option<T> {
        match self.find_place(no) {
            Ok((chunk, at)) => Some(std::mem::replace(&mut self.chunks[chunk][at].1, row)),
            Err(place) => {
                self.insert_at_place(place, (no, row));
                None
            }
        }
    }

    /// Removes the row of this number.
    pub(super) fn remove_row(&mut self, no: u64) {
        if let Ok((chunk, at)) = self.find_place(no) {
            self.chunks[chunk].remove(at);
            if self.chunks[chunk].is_empty() {
                self.chunks.remove(chunk);
            }
        }
    }

    /// Removes the rows of lower numbers.
    pub(super) fn remove_rows_before(&mut self, no: u64) {
        let (chunk, at) = self.find_place(no).unwrap_or_else(|place| place);
        if let Some(rows) = self.chunks.get_mut(chunk) {
            rows.drain(..at);
            let gone = if rows.is_empty() { chunk + 1 } else { chunk };
            self.chunks.drain(..gone);
        }
    }

    /// Iterates over all rows with their numbers.
    pub(super) fn iter_rows(&self) -> impl Iterator<Item = (u64, &T)> {
        self.iter_rows_from(0)
    }

    /// Iterates over the rows from this number on.
    pub(super) fn iter_rows_from(&self, no: u64) -> impl Iterator<Item = (u64, &T)> {
        let (chunk, at) = self.find_place(no).unwrap_or_else(|place| place);
        let chunks = self.chunks.get(chunk..).unwrap_or_default();
        chunks.iter().flatten().skip(at).map(|(no, row)| (*no, row))
    }

    /// Returns where the row of this number is, or where it would be inserted.
    fn find_place(&self, no: u64) -> Result<Place, Place> {
        let (Some(first), Some(last)) = (self.chunks.first(), self.chunks.last()) else {
            return Err((0, 0));
        };
        if last.last().is_none_or(|(it, _)| no > *it) {
            return Err((self.chunks.len() - 1, last.len()));
        }
        let dense = first.first().and_then(|(it, _)| usize::try_from(no.checked_sub(*it)?).ok());
        let dense = dense.map(|dense| (dense / WIDTH, dense % WIDTH));
        let is_there = |&(chunk, at): &Place| {
            self.chunks.get(chunk).and_then(|chunk| chunk.get(at)).is_some_and(|(it, _)| *it == no)
        };
        if let Some(place) = dense.filter(is_there) {
            return Ok(place);
        }
        let begins_before = |it: &Vec<(u64, T)>| it.first().is_some_and(|(it, _)| *it <= no);
        let chunk = self.chunks.partition_point(begins_before).saturating_sub(1);
        let found = self.chunks[chunk].binary_search_by_key(&no, |(it, _)| *it);
        found.map(|at| (chunk, at)).map_err(|at| (chunk, at))
    }

    /// Inserts a row where it belongs and returns its place.
    fn insert_at_place(&mut self, (chunk, at): Place, row: (u64, T)) -> Place {
        if self.chunks.is_empty() {
            // The first chunk grows on demand, so that a list of few rows takes little memory.
            self.chunks.push(Vec::new());
        }
        let rows = &mut self.chunks[chunk];
        if rows.len() < WIDTH {
            rows.insert(at, row);
            return (chunk, at);
        }
        let mut rest = Vec::with_capacity(WIDTH);
        if at == WIDTH {
            rest.push(row);
            self.chunks.insert(chunk + 1, rest);
            return (chunk + 1, 0);
        }
        rest.extend(rows.drain(WIDTH / 2..));
        let place = if at <= WIDTH / 2 { (chunk, at) } else { (chunk + 1, at - WIDTH / 2) };
        self.chunks.insert(chunk + 1, rest);
        self.chunks[place.0].insert(place.1, row);
        place
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    use super::{NumberedRows, WIDTH};

    fn numbered(numbers: &[u64]) -> NumberedRows<u64> {
        let mut rows = NumberedRows::default();
        for &no in numbers {
            rows.set_row(no, no);
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
            assert!(rows.iter_rows().is_sorted());
        }
    }

    #[test]
    fn rows_are_read_from_a_number_on() {
        let rows = numbered(&[2, 3, 5, 9]);
        let from = |no| rows.iter_rows_from(no).map(|(no, _)| no).collect::<Vec<_>>();
        assert_eq!(
            [from(0), from(3), from(4), from(10)],
            [vec![2, 3, 5, 9], vec![3, 5, 9], vec![5, 9], vec![]]
        );
        assert_eq!(NumberedRows::<u64>::default().iter_rows().count(), 0);
    }

    // INV-5
    #[test]
    fn a_row_at_the_end_moves_no_other() {
        let mut rows = numbered(&(0..10 * WIDTH as u64).collect::<Vec<_>>());
        let places = |rows: &NumberedRows<u64>| {
            rows.iter_rows().map(|(_, it)| std::ptr::from_ref(it)).collect::<Vec<_>>()
        };
        let before = places(&rows);
        rows.set_row(10 * WIDTH as u64, 0);
        assert_eq!(places(&rows)[..before.len()], before);
        assert_eq!(rows.chunks.last().map(Vec::len), Some(1));
    }

    proptest! {
        #[test]
        fn rows_are_what_a_map_is(changes in prop::collection::vec((0u64..400, 0..100), 0..600)) {
            let (mut rows, mut model) = (NumberedRows::default(), BTreeMap::new());
            for (at, (no, change)) in changes.into_iter().enumerate() {
                match change {
                    0 => {
                        rows.remove_rows_before(no / 4);
                        model.retain(|it, _| *it >= no / 4);
                    }
                    1..30 => {
                        rows.remove_row(no);
                        model.remove(&no);
                    }
                    _ => prop_assert_eq!(rows.set_row(no, at), model.insert(no, at)),
                }
                prop_assert!(rows.chunks.iter().all(|chunk| !chunk.is_empty() && chunk.len() <= WIDTH));
            }
            prop_assert!(rows.iter_rows().map(|(no, it)| (no, *it)).eq(model.iter().map(|(no, it)| (*no, *it))));
            for no in 0..400 {
                prop_assert_eq!(rows.get(no), model.get(&no));
                prop_assert!(rows.iter_rows_from(no).map(|(no, _)| no).eq(model.range(no..).map(|(no, _)| *no)));
            }
        }
    }
}
