//! A persistent list: shared chunks, so that a snapshot is O(1), an append copies a bounded part, and a tail is a slice.
//!
//! Three levels of fixed width (items in chunks, chunks in nodes, nodes in the list) keep what an append copies nearly
//! independent of the length: at most one chunk, one node and one pointer for every 4,096 items (INV-5).

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::Value;

use super::item::Item;

/// Items in a chunk, and chunks in a node.
const WIDTH: usize = 64;
/// Items in a node.
const NODE: usize = WIDTH * WIDTH;

/// An immutable list of items.
///
/// Positions are absolute: a list of which only a window is held (D22) still counts from the first item that ever was.
#[derive(Clone)]
pub struct List {
    nodes: Arc<Vec<Arc<Vec<Chunk>>>>,
    held: usize,
    first: u64,
    line: Arc<AtomicU64>,
}

type Chunk = Arc<Vec<Entry>>;

/// An item with a stamp that no other append of the same line of lists gives.
#[derive(Clone)]
struct Entry {
    stamp: u64,
    item: Item,
}

impl Default for List {
    fn default() -> Self {
        Self::window(0, [])
    }
}

impl List {
    /// Makes a list of these items.
    pub fn new(items: impl IntoIterator<Item = Item>) -> Self {
        Self::window(0, items)
    }

    /// Makes a list that had `first` items more before these, which are not held.
    pub fn window(first: u64, items: impl IntoIterator<Item = Item>) -> Self {
        let empty = Self { nodes: Arc::default(), held: 0, first, line: Arc::default() };
        empty.append(items)
    }

    /// Returns how many items the list has, held or not.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.first + self.held as u64
    }

    /// Tells whether the list never had an item.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the position of the first item that is held.
    #[must_use]
    pub fn first_held(&self) -> u64 {
        self.first
    }

    /// Returns the item at an absolute position, if it is held.
    #[must_use]
    pub fn get(&self, position: u64) -> Option<&Item> {
        self.entry(position).map(|it| &it.item)
    }

    fn entry(&self, position: u64) -> Option<&Entry> {
        let at = usize::try_from(position.checked_sub(self.first)?).ok()?;
        self.nodes.get(at / NODE)?.get(at % NODE / WIDTH)?.get(at % WIDTH)
    }

    /// Returns the last item.
    #[must_use]
    pub fn last(&self) -> Option<&Item> {
        self.len().checked_sub(1).and_then(|it| self.get(it))
    }

    /// Iterates over the items from an absolute position on; held ones only.
    pub fn iter_from(&self, position: u64) -> impl DoubleEndedIterator<Item = &Item> + ExactSizeIterator {
        let start = usize::try_from(position.saturating_sub(self.first)).unwrap_or(usize::MAX).min(self.held);
        (start..self.held).map(|at| {
            let entry = &self.nodes[at / NODE][at % NODE / WIDTH][at % WIDTH];
            &entry.item
        })
    }

    /// Iterates over the held items.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Item> + ExactSizeIterator {
        self.iter_from(self.first)
    }

    /// Returns this list with more items at its end.
    #[must_use]
    pub fn append(&self, items: impl IntoIterator<Item = Item>) -> Self {
        let mut items = items.into_iter().peekable();
        if items.peek().is_none() {
            return self.clone();
        }
        let mut grown = self.clone();
        let nodes = Arc::make_mut(&mut grown.nodes);
        for item in items {
            let stamp = self.line.fetch_add(1, Ordering::Relaxed);
            push(nodes, grown.held, Entry { stamp, item });
            grown.held += 1;
        }
        grown
    }

    /// Tells whether this list is `earlier` with zero or more items appended, in constant time.
    ///
    /// Equal content that was built separately does not count.
    #[must_use]
    pub fn extends(&self, earlier: &Self) -> bool {
        if !Arc::ptr_eq(&self.line, &earlier.line) || self.len() < earlier.len() {
            return false;
        }
        match earlier.len().checked_sub(1) {
            None => true,
            Some(last) => match (self.entry(last), earlier.entry(last)) {
                (Some(ours), Some(theirs)) => ours.stamp == theirs.stamp,
                (None, None) => earlier.held == 0,
                (Some(_), None) | (None, Some(_)) => false,
            },
        }
    }

    /// Tells whether both are one and the same list.
    #[must_use]
    pub fn same(&self, other: &Self) -> bool {
        self.len() == other.len() && self.extends(other)
    }

    /// Returns the held items as a JSON array.
    ///
    /// # Errors
    /// As [`Item::json`].
    pub fn to_json(&self) -> serde_json::Result<Value> {
        let items = self.iter().map(|it| it.json().cloned());
        items.collect::<Result<Vec<_>, _>>().map(Value::Array)
    }
}

/// Puts an entry at position `at`, which is the end.
fn push(nodes: &mut Vec<Arc<Vec<Chunk>>>, at: usize, entry: Entry) {
    if at.is_multiple_of(NODE) {
        nodes.push(Arc::default());
    }
    let node = Arc::make_mut(nodes.last_mut().expect("a node was pushed when the last was full"));
    if at.is_multiple_of(WIDTH) {
        node.push(Arc::default());
    }
    let chunk = node.last_mut().expect("a chunk was pushed when the last was full");
    Arc::make_mut(chunk).push(entry);
}

impl fmt::Debug for List {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.first > 0 {
            write!(f, "({} not held) ", self.first)?;
        }
        f.debug_list().entries(self.iter()).finish()
    }
}

/// Lists are equal when they have the same length and hold equal items.
impl PartialEq for List {
    fn eq(&self, other: &Self) -> bool {
        self.same(other)
            || (self.len() == other.len() && self.held == other.held && self.iter().eq(other.iter()))
    }
}

impl FromIterator<Item> for List {
    fn from_iter<I: IntoIterator<Item = Item>>(items: I) -> Self {
        Self::new(items)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn numbers(range: std::ops::Range<usize>) -> impl Iterator<Item = Item> {
        range.map(|it| Item::from_json(json!(it)))
    }

    #[test]
    fn an_append_leaves_the_earlier_list_as_it_was() {
        let one = List::new(numbers(0..70));
        let two = one.append(numbers(70..5000));
        assert_eq!((one.len(), two.len()), (70, 5000));
        assert_eq!(one.to_json().unwrap(), json!((0..70).collect::<Vec<_>>()));
        assert_eq!(two.get(4999), Some(&Item::from_json(json!(4999))));
    }

    // INV-5
    #[test]
    fn an_append_copies_a_bounded_part_whatever_the_length() {
        for len in [10, 5_000, 200_000] {
            let long = List::new(numbers(0..len));
            let longer = long.append(numbers(len..len + 2));
            let kept = |it: &(&Arc<Vec<Chunk>>, &Arc<Vec<Chunk>>)| Arc::ptr_eq(it.0, it.1);
            let shared = long.nodes.iter().zip(longer.nodes.iter()).filter(kept).count();
            assert!(longer.nodes.len() - shared <= 2, "only the last nodes of {len} items are copied");
            let (old, new) = (long.nodes.last().unwrap(), &longer.nodes[long.nodes.len() - 1]);
            let chunks = old.iter().zip(new.iter()).filter(|(a, b)| Arc::ptr_eq(a, b)).count();
            assert!(new.len() - chunks <= 2, "only the last chunks of {len} items are copied");
        }
    }

    #[test]
    fn only_descendants_extend_a_list() {
        let base = List::new(numbers(0..3));
        let shared = Item::from_json(json!("same"));
        let left = base.append([Item::from_json(json!("a")), shared.clone()]);
        let right = base.append([Item::from_json(json!("b")), shared]);
        assert!(left.extends(&base) && right.extends(&base) && base.extends(&base));
        assert!(!left.extends(&right) && !right.extends(&left) && !base.extends(&left));
        assert!(!List::new(numbers(0..3)).extends(&base));
    }

    #[test]
    fn a_window_counts_from_the_first_item_that_ever_was() {
        let window = List::window(1000, numbers(1000..1003)).append(numbers(1003..1004));
        assert_eq!((window.len(), window.first_held()), (1004, 1000));
        assert_eq!(window.get(999), None);
        assert_eq!(window.get(1003), Some(&Item::from_json(json!(1003))));
        assert_eq!(window.iter_from(1002).len(), 2);
    }

    proptest! {
        #[test]
        fn a_list_is_what_a_vector_is(parts in prop::collection::vec(0usize..300, 0..30)) {
            let (mut list, mut model) = (List::default(), Vec::new());
            for part in parts {
                let next = list.append(numbers(model.len()..model.len() + part));
                prop_assert!(next.extends(&list));
                model.extend(model.len()..model.len() + part);
                list = next;
            }
            prop_assert_eq!(list.to_json().unwrap(), json!(model));
            for at in (0..model.len()).step_by(97) {
                prop_assert_eq!(list.get(at as u64), Some(&Item::from_json(json!(model[at]))));
            }
        }
    }
}
