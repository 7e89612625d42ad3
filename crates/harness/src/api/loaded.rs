//! The number and memory of the loaded sessions, and their release when it exceeds the limit (INV-12).

use std::sync::atomic::Ordering;

use crate::api::chat::Chat;
use crate::api::chat_session::Session;
use crate::runtime::chat_inner::ChatInner;
use crate::runtime::loaded_session::LoadedSession;
use crate::{Error, Result};

/// The number and memory of the loaded sessions of a chat.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LoadedSessions {
    /// Sessions in memory.
    pub sessions: usize,
    /// The bytes of their state and history that are held, as they are counted against
    /// [`Limits::loaded_bytes`](crate::Limits::loaded_bytes).
    pub bytes: u64,
}

impl ChatInner {
    /// Frees the state of idle sessions, least recently used first, until the sum is within its limit. The state can be
    /// read again. A session in which a turn is queued or running keeps it.
    pub(crate) fn trim_loaded_sessions(&self) {
        let limit = self.limits.loaded_bytes;
        if self.held_bytes.load(Ordering::Relaxed) <= limit {
            return;
        }
        let mut loaded = self.loaded_sessions();
        loaded.sort_unstable_by_key(|loaded| loaded.last_used.load(Ordering::Relaxed));
        // Somewhat below the limit, so that not every turn that ends looks at all sessions.
        let goal = limit - limit / 8;
        for loaded in &loaded {
            if self.held_bytes.load(Ordering::Relaxed) <= goal {
                return;
            }
            loaded.lock_state().free_cached_rows();
        }
    }

    /// Notes that a session is used now.
    pub(crate) fn note_session_use(&self, loaded: &LoadedSession) {
        loaded.last_used.store(self.uses.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
    }
}

impl Session {
    /// Makes this process the owner of the session, as the next message would do it, and takes over turns that a former owner
    /// has left. For callers that want to know beforehand whether another process owns it; nothing else is done.
    ///
    /// # Errors
    /// `session_moving` where another process that lives owns the session; `harness_session_id_unresolved`,
    /// `chat_session_reserved`, `chat_sessions_full`, `chat_shutting_down`; `store_unavailable` and its kin.
    ///
    /// # Cancellation
    /// A dropped call has acquired the session or has not.
    pub async fn acquire(&self) -> Result<()> {
        let key = self.chat.session_key(&self.id)?;
        self.chat.check_not_reserved(&self.id)?;
        if self.chat.inner.is_closing() {
            return Err(Error::ShuttingDown);
        }
        let loaded = self.chat.inner.session_in_memory(&key)?;
        self.chat.inner.ensure_session_ready(&loaded).await.map(drop)
    }

    /// Takes the session out of memory where nothing of it runs, waits or is listened to; the next call reads it again.
    /// For components that know that a session is not used for a while; a chat makes room by itself otherwise.
    pub fn unload(&self) {
        if let Ok(key) = self.chat.session_key(&self.id) {
            self.chat.inner.unload_session(&key);
        }
    }
}

impl Chat {
    /// Returns the number of sessions in memory and the bytes that they hold, of all tenants. Cheap enough for metrics.
    #[must_use]
    pub fn loaded(&self) -> LoadedSessions {
        let bytes = self.inner.held_bytes.load(Ordering::Relaxed);
        LoadedSessions { sessions: self.inner.loaded_count(), bytes }
    }
}
