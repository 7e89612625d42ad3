//! Streams of the entries of campaigns' logs.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_core::Stream;
use futures_util::stream::unfold;
use singletree_campaign::CampaignLogEntry;
use tokio::sync::watch;

use crate::core::{CampaignKey, ControllerCore};
use crate::error::{Error, Result};

/// How many entries are read at once.
const PAGE: u64 = 100;

/// How often it is looked whether another process has changed a campaign that is followed, where several share the store.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Tells streams that a campaign has changed.
#[derive(Debug, Default)]
pub(crate) struct FollowerHub {
    /// The campaigns that are followed; held for a moment.
    followed: Mutex<HashMap<CampaignKey, FollowedCampaign>>,
}

#[derive(Debug)]
struct FollowedCampaign {
    changes: watch::Sender<u64>,
    /// How often its followers looked for changes of other processes.
    looks: u64,
}

/// A place among the followers of a campaign, until it is dropped.
#[derive(Debug)]
struct FollowerPlace {
    hub: Arc<FollowerHub>,
    key: CampaignKey,
    changes: Option<watch::Receiver<u64>>,
}

impl FollowerHub {
    /// Tells those who follow a campaign that it has changed.
    pub(crate) fn announce_change(&self, key: &CampaignKey) {
        if let Some(campaign) = self.lock_followed().get(key) {
            campaign.changes.send_modify(|changes| *changes += 1);
        }
    }

    /// Counts how often the followers of a campaign looked for changes of other processes.
    fn count_looks(&self, key: &CampaignKey) -> u64 {
        self.lock_followed().get(key).map_or(0, |campaign| campaign.looks)
    }

    /// Begins a look, unless another follower of the campaign has looked since the looks were counted: one looks for all.
    fn begin_look(&self, key: &CampaignKey, counted: u64) -> bool {
        let mut followed = self.lock_followed();
        let Some(campaign) = followed.get_mut(key).filter(|campaign| campaign.looks == counted) else {
            return false;
        };
        campaign.looks += 1;
        true
    }

    fn lock_followed(&self) -> MutexGuard<'_, HashMap<CampaignKey, FollowedCampaign>> {
        self.followed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add_follower(self: &Arc<Self>, key: &CampaignKey, max: usize) -> Result<FollowerPlace> {
        let mut followed = self.lock_followed();
        let count: usize = followed.values().map(|campaign| campaign.changes.receiver_count()).sum();
        if count >= max {
            return Err(Error::FollowersFull { max });
        }
        let unseen = || FollowedCampaign { changes: watch::Sender::new(0), looks: 0 };
        let changes = followed.entry(key.clone()).or_insert_with(unseen).changes.subscribe();
        Ok(FollowerPlace { hub: self.clone(), key: key.clone(), changes: Some(changes) })
    }
}

impl Drop for FollowerPlace {
    fn drop(&mut self) {
        drop(self.changes.take());
        let mut followed = self.hub.lock_followed();
        if followed.get(&self.key).is_some_and(|campaign| campaign.changes.receiver_count() == 0) {
            followed.remove(&self.key);
        }
    }
}

/// Where a stream is.
struct FollowerState {
    core: Arc<ControllerCore>,
    place: FollowerPlace,
    after: u64,
    read: VecDeque<CampaignLogEntry>,
    /// Whether other processes may change the campaign.
    is_store_shared: bool,
}

impl FollowerState {
    /// Returns the next entry, when there is one.
    async fn next_entry(&mut self) -> Result<CampaignLogEntry> {
        // Whether it looks for changes of another process.
        let mut is_look = false;
        loop {
            if let Some(entry) = self.read.pop_front() {
                self.after = entry.seq;
                return Ok(entry);
            }
            if let Some(changes) = &mut self.place.changes {
                // What is committed from here on is announced again.
                changes.mark_unchanged();
            }
            let key = &self.place.key;
            let read = self.core.store.read_log(&key.tenant, &key.id, (self.after, PAGE)).await?;
            self.read = read.into();
            // Its log is deleted with a campaign.
            let is_gone =
                self.read.is_empty() && self.core.store.load_head(&key.tenant, &key.id).await?.is_none();
            if is_look && (is_gone || !self.read.is_empty()) {
                self.core.followers.announce_change(key);
            }
            if is_gone {
                return Err(Error::Unknown { id: key.id.clone() });
            }
            if self.read.is_empty() {
                is_look = self.wait_for_change().await;
            }
        }
    }

    /// Waits until the campaign has changed in this process, or until it is to be looked whether it has in another one; tells
    /// whether it is the latter.
    async fn wait_for_change(&mut self) -> bool {
        let Some(changes) = &mut self.place.changes else { return false };
        if !self.is_store_shared {
            // The hub outlives its followers.
            drop(changes.changed().await);
            return false;
        }
        let (hub, key) = (&self.place.hub, &self.place.key);
        loop {
            let counted = hub.count_looks(key);
            if self.core.env.timer.run_with_timeout(LOOK_EVERY, changes.changed()).await.is_ok() {
                return false;
            }
            if hub.begin_look(key, counted) {
                return true;
            }
        }
    }
}

impl ControllerCore {
    /// Follows the log of a campaign after an entry.
    pub(crate) fn follow_log(
        self: &Arc<Self>,
        key: &CampaignKey,
        after: u64,
        is_store_shared: bool,
    ) -> Result<impl Stream<Item = Result<CampaignLogEntry>> + Send + use<>> {
        let place = self.followers.add_follower(key, self.limits.followers)?;
        let state =
            FollowerState { core: self.clone(), place, after, read: VecDeque::new(), is_store_shared };
        Ok(unfold(Some(state), |state| async {
            let mut state = state?;
            match state.next_entry().await {
                Ok(entry) => Some((Ok(entry), Some(state))),
                Err(error) => Some((Err(error), None)),
            }
        }))
    }
}
