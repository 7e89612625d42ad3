//! Listeners that stay until the end hear everything.

use std::sync::Arc;
use std::time::Duration;

use singletree_durable::{Journal, MemoryStore};

use crate::follower::FollowedSession;
use crate::world::SimulatedWorld;

/// How long a listener may take once nothing happens any more. Longer than its reads may hang, one after the other.
const BOUND: Duration = Duration::from_secs(30 * 60);

/// How often it is looked.
const TICK: Duration = Duration::from_secs(2);

/// Waits until every listener has heard the last event of its session; finds those that do not.
pub(super) async fn find_late_listeners(world: &Arc<SimulatedWorld>, data: &MemoryStore) -> Vec<String> {
    let until = world.executor.now() + BOUND;
    loop {
        let mut late = Vec::new();
        for followed in world.followed_sessions() {
            late.extend(describe_missing(data, &followed).await);
        }
        if late.is_empty() || world.executor.now() >= until {
            return late;
        }
        world.executor.sleep_for(TICK).await;
    }
}

/// Describes which events a listener has not heard, if so.
async fn describe_missing(data: &MemoryStore, followed: &FollowedSession) -> Option<String> {
    let FollowedSession { session, last } = followed;
    let next = last.map_or(0, |seq| seq + 1);
    let missing = data.read_events(&session.key()?, next, 1).await.ok()?.into_iter().next()?;
    let name = session.qualified();
    Some(format!("stuck in {name}: a listener has not heard event {}", missing.seq))
}
