//! A persistent list: shared chunks, so that a snapshot is O(1), an append copies a bounded part, and a tail is a
//! slice.
//!
//! Full chunks form a tree of fixed width; the last chunk, which grows, is kept beside it. An append copies this last
//! chunk and, each time that the chunk was full, one path of the tree. The cost does not depend on the length (INV-5),
//! except for one more level each time that the list is 32 times as long.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::Value;

use crate::item::Item;

/// Items in a chunk, and children of a branch.
const WIDTH: usize = 32;

/// An immutable list of items.
///
/// Positions are absolute: a list of which only a window is held (D22) still counts from the first item that ever was.
#[derive(Clone)]
pub struct PersistentList {
    /// The full chunks, in order.
    tree: Arc<Vec<ChunkTreeNode>>,
    /// How many items a child of the root has when it is full.
    span: usize,
    /// The items after those of the tree.
    last: ItemChunk,
    held: usize,
    first: u64,
    line: Arc<AtomicU64>,
}

type ItemChunk = Arc<Vec<StampedItem>>;

/// A node of the tree: chunks are at the lowest level only, all children but the last of a branch are full.
#[derive(Clone)]
enum ChunkTreeNode {
    Branch(Arc<Vec<Self>>),
    Leaf(ItemChunk),
}

/// An item with a stamp that no other append of the same line of lists gives.
#[derive(Clone)]
struct StampedItem {
    stamp: u64,
    item: Item,
}

impl Default for PersistentList {
    fn default() -> Self {
        Self::from_window(0, [])
    }
}

impl PersistentList {
    /// Makes a list of these items.
    pub fn new(items: impl IntoIterator<Item = Item>) -> Self {
        Self::from_window(0, items)
    }

    /// Makes a list that had `first` items more before these, which are not held.
    pub fn from_window(first: u64, items: impl IntoIterator<Item = Item>) -> Self {
        let (tree, last, line) = Default::default();
        let empty = Self { tree, span: WIDTH, last, held: 0, first, line };
        empty.append_items(items)
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
    pub fn first_held_position(&self) -> u64 {
        self.first
    }

    /// Returns the item at an absolute position, if it is held.
    #[must_use]
    pub fn get(&self, position: u64) -> Option<&Item> {
        self.find_entry(position).map(|it| &it.item)
    }

    fn find_entry(&self, position: u64) -> Option<&StampedItem> {
        self.find_held_entry(usize::try_from(position.checked_sub(self.first)?).ok()?)
    }

    /// Returns the n-th entry that is held.
    fn find_held_entry(&self, at: usize) -> Option<&StampedItem> {
        if let Some(at) = at.checked_sub(self.held - self.last.len()) {
            return self.last.get(at);
        }
        let (mut nodes, mut span) = (&self.tree, self.span);
        loop {
            match nodes.get(at / span % WIDTH)? {
                ChunkTreeNode::Branch(below) => (nodes, span) = (below, span / WIDTH),
                ChunkTreeNode::Leaf(chunk) => return chunk.get(at % WIDTH),
            }
        }
    }

    /// Returns the last item.
    #[must_use]
    pub fn last(&self) -> Option<&Item> {
        self.len().checked_sub(1).and_then(|left| self.get(left))
    }

    /// Iterates over the items from an absolute position on; held ones only.
    pub fn iter_from(&self, position: u64) -> impl DoubleEndedIterator<Item = &Item> + ExactSizeIterator {
        let start = usize::try_from(position.saturating_sub(self.first)).unwrap_or(usize::MAX).min(self.held);
        (start..self.held).map(|at| match self.find_held_entry(at) {
            Some(entry) => &entry.item,
            None => unreachable!("every position below the length is held"),
        })
    }

    /// Iterates over the held items.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Item> + ExactSizeIterator {
        self.iter_from(self.first)
    }

    /// Returns this list with more items at its end.
    #[must_use]
    pub fn append_items(&self, items: impl IntoIterator<Item = Item>) -> Self {
        let mut items = items.into_iter().peekable();
        if items.peek().is_none() {
            return self.clone();
        }
        let mut grown = self.clone();
        while items.peek().is_some() {
            if grown.last.len() == WIDTH {
                grown.move_chunk_into_tree();
            }
            // Allocated at full capacity, so that the chunk is not moved again when it grows.
            let coming = items.size_hint().0.max(1);
            let mut last = Vec::with_capacity(WIDTH.min(grown.last.len() + coming));
            last.extend_from_slice(&grown.last);
            let before = last.len();
            let stamped = |item| StampedItem { stamp: self.line.fetch_add(1, Ordering::Relaxed), item };
            last.extend(items.by_ref().take(WIDTH - before).map(stamped));
            grown.held += last.len() - before;
            grown.last = Arc::new(last);
        }
        grown
    }

    /// Moves the full last chunk into the tree, and starts an empty one.
    fn move_chunk_into_tree(&mut self) {
        let chunk = std::mem::take(&mut self.last);
        let before = self.held - chunk.len();
        if before == self.span * WIDTH {
            let full = std::mem::take(&mut self.tree);
            self.tree = Arc::new(vec![ChunkTreeNode::Branch(full)]);
            self.span *= WIDTH;
        }
        append_chunk_to_branch(&mut self.tree, (self.span, before), chunk);
    }

    /// Tells whether this list is `earlier` with zero or more items appended, in constant time.
    ///
    /// Equal content that was built separately does not count.
    #[must_use]
    pub fn is_extension_of(&self, earlier: &Self) -> bool {
        if !Arc::ptr_eq(&self.line, &earlier.line) || self.len() < earlier.len() {
            return false;
        }
        match earlier.len().checked_sub(1) {
            None => true,
            Some(last) => match (self.find_entry(last), earlier.find_entry(last)) {
                (Some(ours), Some(theirs)) => ours.stamp == theirs.stamp,
                (None, None) => earlier.held == 0,
                (Some(_), None) | (None, Some(_)) => false,
            },
        }
    }

    /// Tells whether both are one and the same list.
    #[must_use]
    pub fn is_same_list(&self, other: &Self) -> bool {
        self.len() == other.len() && self.is_extension_of(other)
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

/// Hangs a chunk behind the `before` items of a branch whose children have room for `span` each.
fn append_chunk_to_branch(
    branch: &mut Arc<Vec<ChunkTreeNode>>,
    (span, before): (usize, usize),
    chunk: ItemChunk,
) {
    let nodes = Arc::make_mut(branch);
    match nodes.last_mut() {
        Some(ChunkTreeNode::Branch(last)) if !before.is_multiple_of(span) => {
            append_chunk_to_branch(last, (span / WIDTH, before % span), chunk);
        }
        _ if span == WIDTH => nodes.push(ChunkTreeNode::Leaf(chunk)),
        _ => {
            let mut below = Arc::default();
            append_chunk_to_branch(&mut below, (span / WIDTH, 0), chunk);
            nodes.push(ChunkTreeNode::Branch(below));
        }
    }
}

impl fmt::Debug for PersistentList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.first > 0 {
            write!(f, "({} not held) ", self.first)?;
        }
        f.debug_list().entries(self.iter()).finish()
    }
}

/// Lists are equal when they have the same length and hold equal items.
impl PartialEq for PersistentList {
    fn eq(&self, other: &Self) -> bool {
        self.is_same_list(other)
            || (self.len() == other.len() && self.held == other.held && self.iter().eq(other.iter()))
    }
}

impl FromIterator<Item> for PersistentList {
    fn from_iter<I: IntoIterator<Item = Item>>(items: I) -> Self {
        Self::new(items)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn numbers(range: std::ops::Range<usize>) -> impl Iterator<Item = Item> {
        range.map(|range| Item::from_json(json!(range)))
    }

    #[test]
    fn an_append_leaves_the_earlier_list_as_it_was() {
        let one = PersistentList::new(numbers(0..70));
        let two = one.append_items(numbers(70..5000));
        assert_eq!((one.len(), two.len()), (70, 5000));
        assert_eq!(one.to_json().unwrap(), json!((0..70).collect::<Vec<_>>()));
        assert_eq!(two.get(4999), Some(&Item::from_json(json!(4999))));
    }

    type Branch = Arc<Vec<ChunkTreeNode>>;

    /// Collects a branch and all below it.
    fn branches<'a>(branch: &'a Branch, into: &mut Vec<&'a Branch>) {
        into.push(branch);
        for node in branch.iter() {
            if let ChunkTreeNode::Branch(below) = node {
                branches(below, into);
            }
        }
    }

    /// Counts the entries and nodes of a list that it does not share with the one that it extends.
    fn copied(list: &PersistentList, from: &PersistentList) -> usize {
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        branches(&list.tree, &mut ours);
        branches(&from.tree, &mut theirs);
        let theirs: HashSet<_> = theirs.into_iter().map(Arc::as_ptr).collect();
        let own = ours.into_iter().filter(|chunk| !theirs.contains(&Arc::as_ptr(chunk)));
        list.last.len() + own.map(|chunk| chunk.len()).sum::<usize>()
    }

    // INV-5
    #[test]
    fn an_append_copies_a_bounded_part_whatever_the_length() {
        for len in [10, 64, 5_000, 32_768, 200_000] {
            let mut long = PersistentList::new(numbers(0..len));
            let (mut sum, mut most) = (0, 0);
            for at in len..len + 64 {
                let longer = long.append_items(numbers(at..at + 1));
                let copied = copied(&longer, &long);
                (sum, most) = (sum + copied, most.max(copied));
                long = longer;
            }
            assert!(sum / 64 <= 20, "{} on average after {len} items", sum / 64);
            assert!(most <= 5 * WIDTH, "{most} at most after {len} items");
        }
    }

    #[test]
    fn only_descendants_extend_a_list() {
        let base = PersistentList::new(numbers(0..3));
        let shared = Item::from_json(json!("same"));
        let left = base.append_items([Item::from_json(json!("a")), shared.clone()]);
        let right = base.append_items([Item::from_json(json!("b")), shared]);
        assert!(left.is_extension_of(&base) && right.is_extension_of(&base) && base.is_extension_of(&base));
        assert!(
            !left.is_extension_of(&right) && !right.is_extension_of(&left) && !base.is_extension_of(&left)
        );
        assert!(!PersistentList::new(numbers(0..3)).is_extension_of(&base));
    }

    #[test]
    fn a_window_counts_from_the_first_item_that_ever_was() {
        let window = PersistentList::from_window(1000, numbers(1000..1003)).append_items(numbers(1003..1004));
        assert_eq!((window.len(), window.first_held_position()), (1004, 1000));
        assert_eq!(window.get(999), None);
        assert_eq!(window.get(1003), Some(&Item::from_json(json!(1003))));
        assert_eq!(window.iter_from(1002).len(), 2);
    }

    proptest! {
        #[test]
        fn a_list_is_what_a_vector_is(parts in prop::collection::vec(0usize..700, 0..30)) {
            let (mut list, mut model) = (PersistentList::default(), Vec::new());
            for part in parts {
                let next = list.append_items(numbers(model.len()..model.len() + part));
                prop_assert!(next.is_extension_of(&list));
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
