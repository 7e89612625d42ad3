//! The one way to look at narration: for sections of the server, of one session at a time.

use std::collections::VecDeque;
use std::sync::Arc;

use futures_core::Stream;
use futures_util::stream;
use singletree_durable::TenantId;
use singletree_narration::{NarrationMessage, NarrationOwner};

use super::log::{NarrationLog, NarrationLogInner};
use super::ring::NarrationRingOwner;

/// Looks at the narration of one session. For sections that show it to people; nothing else may be made of it (INV-9).
pub(crate) struct NarrationView {
    log: Option<Arc<NarrationLogInner>>,
    owner: NarrationRingOwner,
}

/// One piece, as it is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DisplayedNarration {
    /// Its id, which a reader sends as the last entry that it saw.
    pub(crate) id: String,
    /// The narration.
    pub(crate) narration: Arc<NarrationMessage>,
}

impl NarrationView {
    /// Looks at a session of a tenant. One that is not there has no narration (INV-14).
    pub(crate) fn for_session(log: &NarrationLog, tenant: &TenantId, session: &str) -> Self {
        let owner =
            NarrationRingOwner::from_narration_owner(NarrationOwner { tenant: tenant.as_str(), session });
        Self { log: log.inner_log().cloned(), owner }
    }

    /// Returns the held entries after `after`. Entries that are no longer held are left out silently.
    pub(crate) fn entries_after(&self, after: Option<&str>) -> Vec<DisplayedNarration> {
        let Some(log) = &self.log else { return Vec::new() };
        read_entries_after(log, &self.owner, after.map_or(0, |after| log.parse_entry_number(after))).1
    }

    /// Returns the held entries after `after`, then each new entry as it comes; the stream does not end. A slow reader
    /// misses entries that are no longer held, and delays no other.
    pub(crate) fn follow_entries(
        self,
        after: Option<&str>,
    ) -> impl Stream<Item = DisplayedNarration> + Send + use<> {
        let seen = self.log.as_ref().zip(after).map_or(0, |(log, it)| log.parse_entry_number(it));
        let follower = self.log.as_ref().map(|log| log.followers().follow_session(&self.owner));
        stream::unfold((self, follower, seen, VecDeque::new()), |going| async move {
            let (view, mut follower, mut seen, mut ready) = going;
            loop {
                if let Some(next) = ready.pop_front() {
                    return Some((next, (view, follower, seen, ready)));
                }
                let (Some(log), Some(following)) = (&view.log, follower.as_mut()) else {
                    std::future::pending::<()>().await;
                    continue;
                };
                let (last, told) = read_entries_after(log, &view.owner, seen);
                (seen, ready) = (last, told.into());
                if ready.is_empty() {
                    following.wait_for_more().await;
                }
            }
        })
    }
}

/// Returns the held entries after a number, and the number of the last of them.
fn read_entries_after(
    log: &NarrationLogInner,
    owner: &NarrationRingOwner,
    no: u64,
) -> (u64, Vec<DisplayedNarration>) {
    let held = log.entries_after(owner, no);
    let last = held.last().map_or(no, |held| held.no);
    (
        last,
        held.into_iter()
            .map(|it| DisplayedNarration { id: log.format_entry_id(it.no), narration: it.narration })
            .collect(),
    )
}
