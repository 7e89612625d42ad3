//! Notices of webhooks: each is delivered at least once, and none stays behind.

use std::collections::BTreeSet;
use std::sync::Arc;

use singletree_audit::{AuditedOutcome, StoredSession, StoredTurn};
use singletree_durable::{DocumentStore, SessionKey, TenantId};
use singletree_harness::{Notice, NoticeType};

use super::effects::deleted_sessions;
use crate::agents::EARLY;
use crate::world::SimulatedWorld;

/// How many notices that stayed behind are looked at.
const LEFT_MAX: u64 = 1_000;

/// Checks that the receiver has heard of every turn that waits, goes on after a wait or failed, and that no notice is left.
pub(super) async fn check_notices(
    world: &Arc<SimulatedWorld>,
    documents: &dyn DocumentStore,
    stored: &[(SessionKey, StoredSession)],
) -> Vec<String> {
    let tenant = TenantId::single();
    let mut found = Vec::new();
    let left = documents.read_documents(&tenant, Notice::KIND, None, LEFT_MAX).await.unwrap_or_default();
    found.extend(left.iter().map(|document| format!("stuck: notice {} was not delivered", document.key.id)));
    let deleted = deleted_sessions(world);
    let taken = world.receiver.taken_notices().into_iter();
    let heard: BTreeSet<(String, String)> =
        taken.filter_map(|notice| Some((notice.kind, notice.turn?))).collect();
    for (key, session) in stored.iter().filter(|(key, _)| key.tenant == tenant) {
        let name = format!("{}/{}", key.tenant, key.session);
        for turn in session.turns.iter().filter(|_| !deleted.contains(&name)) {
            for kind in expected_notices(session, turn) {
                if !heard.contains(&(kind.as_str().to_owned(), turn.id.clone())) {
                    let kind = kind.as_str();
                    found.push(format!("lost in {name}: there was no notice '{kind}' of turn {}", turn.id));
                }
            }
        }
    }
    found
}

/// Returns the notices that a turn leads to. A wait whose signal came early ended as it began: nobody hears of it.
fn expected_notices(session: &StoredSession, turn: &StoredTurn) -> Vec<NoticeType> {
    let ended = session.waits.iter().find(|wait| Some(wait.no) == turn.wait);
    let resumed = ended.is_some_and(|wait| !wait.signal.starts_with(EARLY));
    let end = match &turn.end {
        Some(AuditedOutcome::Suspended { signal, .. }) => {
            (!signal.starts_with(EARLY)).then_some(NoticeType::Suspended)
        }
        Some(AuditedOutcome::Errored { .. }) => Some(NoticeType::Errored),
        Some(AuditedOutcome::Completed { .. }) | None => None,
    };
    resumed.then_some(NoticeType::Resumed).into_iter().chain(end).collect()
}
