//! Notices of webhooks: each is delivered at least once, and none stays behind.

use std::collections::BTreeSet;
use std::sync::Arc;

use singletree_audit::{AuditedOutcome, StoredSession};
use singletree_durable::{DocumentStore, SessionKey, TenantId};
use singletree_harness::{Notice, NoticeType};

use super::effects::deleted_sessions;
use crate::agents::EARLY;
use crate::world::SimulatedWorld;

/// How many notices that stayed behind are looked at.
const LEFT_MAX: u64 = 1_000;

/// Checks that the receiver has heard of every turn that waits or has waited, and that no notice is left.
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
    let suspended = NoticeType::Suspended.as_str();
    let taken = world.receiver.taken_notices().into_iter().filter(|notice| notice.kind == suspended);
    let heard: BTreeSet<String> = taken.filter_map(|notice| notice.turn).collect();
    for (key, session) in stored.iter().filter(|(key, _)| key.tenant == tenant) {
        let name = format!("{}/{}", key.tenant, key.session);
        for turn in session.turns.iter().filter(|_| !deleted.contains(&name)) {
            // A wait whose signal came early ended as it began: nobody hears of it.
            let waits = matches!(&turn.end, Some(AuditedOutcome::Suspended { signal, .. })
                if !signal.starts_with(EARLY));
            if waits && !heard.contains(&turn.id) {
                found.push(format!("lost in {name}: nobody was told that turn {} waits", turn.id));
            }
        }
    }
    found
}
