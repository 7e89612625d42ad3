//! Who follows the narration of which session.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use super::ring::NarrationRingOwner;

/// Who follows which session: as many entries as sessions that are followed.
#[derive(Debug, Clone, Default)]
pub(super) struct NarrationFollowers(Arc<Mutex<HashMap<NarrationRingOwner, watch::Sender<u64>>>>);

/// One who follows.
#[derive(Debug)]
pub(super) struct NarrationFollower {
    all: NarrationFollowers,
    owner: NarrationRingOwner,
    told: watch::Receiver<u64>,
}

impl NarrationFollowers {
    fn lock_senders(&self) -> MutexGuard<'_, HashMap<NarrationRingOwner, watch::Sender<u64>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins to follow.
    pub(super) fn follow_session(&self, owner: &NarrationRingOwner) -> NarrationFollower {
        let mut all = self.lock_senders();
        let told = all.entry(owner.clone()).or_insert_with(|| watch::Sender::new(0)).subscribe();
        drop(all);
        NarrationFollower { all: self.clone(), owner: owner.clone(), told }
    }

    /// Tells those who follow a session that there is more.
    pub(super) fn notify_followers(&self, owner: &NarrationRingOwner) {
        if let Some(told) = self.lock_senders().get(owner) {
            told.send_modify(|told| *told += 1);
        }
    }
}

impl NarrationFollower {
    /// Waits until there is more than when it was last asked.
    pub(super) async fn wait_for_more(&mut self) {
        // The sender goes with the last who follows.
        drop(self.told.changed().await);
    }
}

impl Drop for NarrationFollower {
    fn drop(&mut self) {
        let mut all = self.all.lock_senders();
        // The last one, which is this one.
        if all.get(&self.owner).is_some_and(|all| all.receiver_count() <= 1) {
            all.remove(&self.owner);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use singletree_narration::NarrationOwner;

    use super::*;

    #[test]
    fn those_who_follow_a_session_are_told_and_leave_nothing_behind() {
        let owner =
            |session| NarrationRingOwner::from_narration_owner(NarrationOwner { tenant: "t", session });
        let followers = NarrationFollowers::default();
        let (mut one, mut two) =
            (followers.follow_session(&owner("s")), followers.follow_session(&owner("s")));
        let mut other = followers.follow_session(&owner("r"));
        followers.notify_followers(&owner("s"));
        followers.notify_followers(&owner("nobody"));
        assert!(one.wait_for_more().now_or_never().is_some());
        drop(one);
        assert!(two.wait_for_more().now_or_never().is_some());
        assert!(two.wait_for_more().now_or_never().is_none(), "told once");
        assert!(other.wait_for_more().now_or_never().is_none());
        followers.notify_followers(&owner("s"));
        assert!(two.wait_for_more().now_or_never().is_some(), "the others are told when one has gone");
        drop((two, other));
        assert!(followers.lock_senders().is_empty());
    }
}
