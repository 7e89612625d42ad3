//! The call that tells how much there is to do.

use crate::api::chat::Chat;
use crate::runtime::watcher::ChatWorkload;

impl Chat {
    /// Returns how much there is to do at this moment, of all tenants. Looks at every session in memory: for who asks
    /// every few seconds.
    #[must_use]
    pub fn load(&self) -> ChatWorkload {
        let mut load = ChatWorkload::default();
        for loaded in self.inner.loaded_sessions() {
            let streams = loaded.feed.listener_count();
            let state = loaded.lock_state();
            load.sessions += 1;
            load.running += usize::from(state.running_turn().is_some());
            load.waiting += state.count_accepted_turns();
            load.streams += streams;
            load.pending_waits += usize::from(state.pending_wait().is_some());
        }
        load
    }
}
