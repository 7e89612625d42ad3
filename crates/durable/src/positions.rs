//! Node positions of a run: a list that is only ever appended to, and shared between records.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A node execution whose update was merged (pipeline-utilities §10.2).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodePosition {
    /// The nodes that contain it, outermost first; empty in the outermost graph.
    #[serde(default)]
    pub namespace: Vec<String>,
    /// The node.
    pub node_name: String,
    /// The number of the execution in the invocation.
    pub step: u64,
    /// The attempt that counted.
    #[serde(default)]
    pub attempt_index: u32,
    /// The innermost fan-out instance that it ran in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fan_out_index: Option<u64>,
}

/// The positions of a run, in order.
///
/// A record for each completed node holds all positions before it. To make this cheap, lists share their common
/// beginning: cloning and appending take constant time, whatever the length. Each list has a digest, by which a store
/// recognizes the positions that it has stored already.
#[derive(Clone, Default)]
pub struct PositionHistory {
    /// Guards the entries that lists with a common origin share; held for a push or a copy. Grows only at its end.
    line: Arc<Mutex<Vec<PositionEntry>>>,
    len: usize,
}

#[derive(Clone)]
struct PositionEntry {
    position: NodePosition,
    /// Of this entry and all before it.
    digest: u64,
}

impl PositionHistory {
    /// Makes an empty list.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn lock_entries(&self) -> MutexGuard<'_, Vec<PositionEntry>> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns how many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Tells whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Appends one. Lists that were cloned off this one stay as they are.
    pub fn push(&mut self, position: NodePosition) {
        let mut line = self.lock_entries();
        let before = self.len.checked_sub(1).map_or(OFFSET, |at| line[at].digest);
        let entry = PositionEntry { digest: extend_digest(before, &position), position };
        if line.len() > self.len {
            // Somebody else has gone on from here.
            let mut own = line[..self.len].to_vec();
            own.push(entry);
            drop(line);
            self.line = Arc::new(Mutex::new(own));
        } else {
            line.push(entry);
            drop(line);
        }
        self.len += 1;
    }

    /// Returns the last one.
    #[must_use]
    pub fn last(&self) -> Option<NodePosition> {
        self.len.checked_sub(1).map(|at| self.lock_entries()[at].position.clone())
    }

    /// Returns those from a number on.
    #[must_use]
    pub fn positions_from(&self, first: usize) -> Vec<NodePosition> {
        let line = self.lock_entries();
        line[first.min(self.len)..self.len].iter().map(|it| it.position.clone()).collect()
    }

    /// Returns them all.
    #[must_use]
    pub fn to_vec(&self) -> Vec<NodePosition> {
        self.positions_from(0)
    }

    /// Returns a digest of the first `len` positions, or nothing when there are fewer: lists that begin alike have the
    /// same one, in any process.
    #[must_use]
    pub fn prefix_digest(&self, len: usize) -> Option<u64> {
        match len.checked_sub(1) {
            None => Some(OFFSET),
            Some(at) => (len <= self.len).then(|| self.lock_entries()[at].digest),
        }
    }
}

/// FNV-1a, of 64 bits.
const OFFSET: u64 = 0xCBF2_9CE4_8422_2325;
const PRIME: u64 = 0x0000_0100_0000_01B3;

fn extend_digest(before: u64, position: &NodePosition) -> u64 {
    let bytes = |hash: u64, bytes: &[u8]| {
        let hash = bytes.iter().fold(hash, |hash, it| (hash ^ u64::from(*it)).wrapping_mul(PRIME));
        // 0xFF occurs in no UTF-8 text, so it marks the end of one.
        (hash ^ 0xFF).wrapping_mul(PRIME)
    };
    let NodePosition { namespace, node_name, step, attempt_index, fan_out_index } = position;
    let hash = namespace.iter().fold(before, |hash, it| bytes(hash, it.as_bytes()));
    let hash = bytes(bytes(hash, &[]), node_name.as_bytes());
    let hash = bytes(bytes(hash, &step.to_le_bytes()), &attempt_index.to_le_bytes());
    fan_out_index.map_or(hash, |fan_out_index| bytes(hash, &fan_out_index.to_le_bytes()))
}

impl FromIterator<NodePosition> for PositionHistory {
    fn from_iter<T: IntoIterator<Item = NodePosition>>(positions: T) -> Self {
        let mut all = Self::new();
        positions.into_iter().for_each(|position| all.push(position));
        all
    }
}

impl PartialEq for PositionHistory {
    fn eq(&self, other: &Self) -> bool {
        self.len == other.len && (Arc::ptr_eq(&self.line, &other.line) || self.to_vec() == other.to_vec())
    }
}

impl Eq for PositionHistory {}

impl fmt::Debug for PositionHistory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.to_vec()).finish()
    }
}

impl Serialize for PositionHistory {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.to_vec().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for PositionHistory {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Vec::deserialize(deserializer).map(|it: Vec<NodePosition>| it.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(step: u64) -> NodePosition {
        NodePosition {
            namespace: vec!["outer".into()],
            node_name: format!("node {step}"),
            step,
            attempt_index: 0,
            fan_out_index: None,
        }
    }

    #[test]
    fn lists_that_went_on_from_a_common_beginning_do_not_see_each_other() {
        let common: PositionHistory = (0..3).map(at).collect();
        let (mut one, mut other) = (common.clone(), common.clone());
        one.push(at(3));
        other.push(at(7));
        other.push(at(8));
        assert_eq!(common.to_vec(), [at(0), at(1), at(2)]);
        assert_eq!(one.to_vec(), [at(0), at(1), at(2), at(3)]);
        assert_eq!(other.to_vec(), [at(0), at(1), at(2), at(7), at(8)]);
        assert_eq!(one.positions_from(2), [at(2), at(3)]);
        assert_eq!((common.last(), PositionHistory::new().last()), (Some(at(2)), None));
    }

    #[test]
    fn a_digest_tells_whether_lists_begin_alike() {
        let (one, other): (PositionHistory, PositionHistory) =
            ((0..4).map(at).collect(), [0, 1, 5].map(at).into_iter().collect());
        assert_eq!(
            (0..=2).map(|it| one.prefix_digest(it)).collect::<Vec<_>>(),
            (0..=2).map(|it| other.prefix_digest(it)).collect::<Vec<_>>()
        );
        assert_ne!(one.prefix_digest(3), other.prefix_digest(3));
        assert_eq!(other.prefix_digest(4), None);
        let inner = NodePosition { fan_out_index: Some(0), ..at(0) };
        let shifted = NodePosition { namespace: Vec::new(), node_name: "outernode 0".into(), ..at(0) };
        for changed in [inner, shifted] {
            assert_ne!(
                [changed].into_iter().collect::<PositionHistory>().prefix_digest(1),
                one.prefix_digest(1)
            );
        }
    }

    #[test]
    fn json_leads_back() {
        let positions: PositionHistory = (0..3).map(at).collect();
        let json = serde_json::to_string(&positions).unwrap();
        assert_eq!(serde_json::from_str::<PositionHistory>(&json).unwrap(), positions);
    }
}
