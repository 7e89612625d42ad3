//! Streams of the entries of campaigns' logs.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use futures_core::Stream;
use futures_util::stream::unfold;
use singletree_campaign::CampaignLogEntry;
use tokio::sync::watch;

use crate::core::{CampaignKey, ControllerCore};
use crate::error::{Error, Result};

/// How many entries are read at once.
const PAGE: u64 = 100;

/// Tells streams that a campaign has changed in this process.
#[derive(Debug, Default)]
pub(crate) struct FollowerHub {
    /// The campaigns that are followed; held for a moment.
    followed: Mutex<HashMap<CampaignKey, watch::Sender<u64>>>,
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
        let followed = self.followed.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sender) = followed.get(key) {
            sender.send_modify(|changes| *changes += 1);
        }
    }

    fn add_follower(self: &Arc<Self>, key: &CampaignKey, max: usize) -> Result<FollowerPlace> {
        let mut followed = self.followed.lock().unwrap_or_else(PoisonError::into_inner);
        let count: usize = followed.values().map(watch::Sender::receiver_count).sum();
        if count >= max {
            return Err(Error::FollowersFull { max });
        }
        let changes = followed.entry(key.clone()).or_insert_with(|| watch::Sender::new(0)).subscribe();
        Ok(FollowerPlace { hub: self.clone(), key: key.clone(), changes: Some(changes) })
    }
}

impl Drop for FollowerPlace {
    fn drop(&mut self) {
        drop(self.changes.take());
        let mut followed = self.hub.followed.lock().unwrap_or_else(PoisonError::into_inner);
        if followed.get(&self.key).is_some_and(|sender| sender.receiver_count() == 0) {
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
}

impl FollowerState {
    /// Returns the next entry, when there is one.
    async fn next_entry(&mut self) -> Result<CampaignLogEntry> {
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
            if !self.read.is_empty() {
                continue;
            }
            // Its log is deleted with a campaign.
            if self.core.store.load_head(&key.tenant, &key.id).await?.is_none() {
                return Err(Error::Unknown { id: key.id.clone() });
            }
            if let Some(changes) = &mut self.place.changes {
                // The hub outlives its followers.
                drop(changes.changed().await);
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
    ) -> Result<impl Stream<Item = Result<CampaignLogEntry>> + Send + use<>> {
        let place = self.followers.add_follower(key, self.limits.followers)?;
        let state = FollowerState { core: self.clone(), place, after, read: VecDeque::new() };
        Ok(unfold(Some(state), |state| async {
            let mut state = state?;
            match state.next_entry().await {
                Ok(entry) => Some((Ok(entry), Some(state))),
                Err(error) => Some((Err(error), None)),
            }
        }))
    }
}
