//! The events of tenants where several processes write the store: they are read from the commits of all of them.
//!
//! A commit of this process wakes the reader, so that its events come at once; those of others come within a second. All
//! pass through the same log, so that the events of a session are in order when it moves from one process to another.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use singletree_durable::ChangeFollower;
use tokio::sync::{Mutex, Notify};

/// The reader of the commits of all processes.
#[derive(Debug)]
pub(crate) struct TenantLog {
    /// None where this process writes the store alone: then its events are published as they are committed.
    pub(crate) follower: Option<Mutex<Box<dyn ChangeFollower>>>,
    /// Rung by commits of this process, and at shutdown.
    pub(crate) bell: Arc<Notify>,
    /// Whether it is read in the background.
    pub(crate) is_running: AtomicBool,
    /// Whether reading has failed since it last succeeded.
    pub(crate) has_failed: AtomicBool,
}

impl TenantLog {
    pub(crate) fn new(follower: Option<Box<dyn ChangeFollower>>) -> Self {
        Self {
            follower: follower.map(Mutex::new),
            bell: Arc::default(),
            is_running: AtomicBool::new(false),
            has_failed: AtomicBool::new(false),
        }
    }

    /// Tells whether events are read from here, and not published by the commits that make them.
    pub(crate) fn is_used(&self) -> bool {
        self.follower.is_some()
    }

    /// Has a commit of this process read soon.
    pub(crate) fn wake_reader(&self) {
        self.bell.notify_one();
    }
}
