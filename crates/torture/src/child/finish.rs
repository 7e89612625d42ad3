//! Waits until no turn is under way. An orderly stop lets running turns end and leaves those that are queued to the
//! next process; at the very end of a torture there is none.

use std::time::Duration;

use singletree_durable::{Journal, StoredTurnKind, TenantId, TurnRowQuery, WaitRowQuery};

use super::watched::ReportingStore;
use crate::error::Result;

/// How long nothing may be committed while turns are under way: a turn that has not ended by then is stuck, and stays
/// for the verdict to find.
const STILL: Duration = Duration::from_secs(20);

/// How often it looks.
const TICK: Duration = Duration::from_millis(20);

/// Waits until every turn has its outcome, but for messages that are queued behind a wait.
pub(super) async fn wait_until_finished(store: &ReportingStore) -> Result<()> {
    let (mut committed, mut still) = (store.commit_count(), Duration::ZERO);
    while still < STILL && is_under_way(store).await.map_err(singletree_harness::Error::from)? {
        tokio::time::sleep(TICK).await;
        let now = store.commit_count();
        still = if now == committed { still + TICK } else { Duration::ZERO };
        committed = now;
    }
    Ok(())
}

async fn is_under_way(store: &ReportingStore) -> singletree_durable::Result<bool> {
    let tenant = TenantId::single();
    let mut from = None;
    loop {
        let page = store.read_session_page(&tenant, from.as_ref(), PAGE).await?;
        for session in page.sessions {
            let key = session.key;
            let open = store.read_turns(&key, &TurnRowQuery::Open).await?;
            let runs = open.iter().any(|item| item.kind != StoredTurnKind::Message);
            if runs || (!open.is_empty() && store.read_waits(&WaitRowQuery::Pending(key)).await?.is_empty()) {
                return Ok(true);
            }
        }
        match page.next {
            Some(next) => from = Some(next),
            None => return Ok(false),
        }
    }
}

const PAGE: u64 = 100;
