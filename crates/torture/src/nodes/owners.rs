//! Which node has acquired a session last, as far as the nodes said so.

use std::collections::BTreeMap;

/// The fences under which nodes have acquired sessions.
#[derive(Debug, Default)]
pub(super) struct SessionOwners {
    /// The highest fence of each session.
    newest: BTreeMap<String, u64>,
    /// The last fence of each session that a node's process has acquired.
    acquired: BTreeMap<(usize, String), u64>,
}

impl SessionOwners {
    pub(super) fn note_acquired(&mut self, node: usize, session: &str, fence: u64) {
        let newest = self.newest.entry(session.to_owned()).or_default();
        *newest = fence.max(*newest);
        self.acquired.insert((node, session.to_owned()), fence);
    }

    /// The process of a node has ended.
    pub(super) fn forget_node(&mut self, node: usize) {
        self.acquired.retain(|(of, _), _| *of != node);
    }

    /// Returns the highest fence of a session: a call that is asked from now on has to be answered under this one or a
    /// later one.
    pub(super) fn newest_fence(&self, session: &str) -> u64 {
        self.newest.get(session).copied().unwrap_or_default()
    }

    /// Tells whether a node had lost a session to another one before a call was asked that it has answered.
    pub(super) fn is_former(&self, node: usize, session: &str, asked_under: u64) -> bool {
        self.acquired.get(&(node, session.to_owned())).copied().unwrap_or_default() < asked_under
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_answered_by_who_has_acquired_the_session_since_it_was_asked_or_last_before() {
        let mut owners = SessionOwners::default();
        owners.note_acquired(0, "s", 5);
        let early = owners.newest_fence("s");
        owners.note_acquired(1, "s", 9);
        let late = owners.newest_fence("s");
        assert!(!owners.is_former(0, "s", early), "it was asked before the other had it");
        assert!(owners.is_former(0, "s", late));
        assert!(!owners.is_former(1, "s", late));
        owners.note_acquired(0, "s", 12);
        assert!(!owners.is_former(0, "s", late));
        owners.forget_node(1);
        assert!(owners.is_former(1, "s", late), "its next process has not acquired it");
    }
}
