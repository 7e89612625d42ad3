//! Bounds are never exceeded: of memory, of deaths, of what waits in a session, and of the budget of a turn (INV-12).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use singletree_audit::StoredSession;
use singletree_durable::{Journal, SessionKey, StoredTurnKind, TurnRowQuery};
use singletree_harness::{Chat, Limits, TurnId};
use singletree_llm::Role;

use crate::agents::MODEL_CALLS_MAX;
use crate::world::SimulatedWorld;

/// Checks the bounds of memory and of deaths: idle sessions hold no more bytes than they may (INV-12), and an orderly stop
/// is no death of a turn (D24).
pub(super) async fn check_bounds(
    world: &Arc<SimulatedWorld>,
    chat: &Chat,
    journal: &dyn Journal,
) -> Vec<String> {
    let mut found = Vec::new();
    let (held, most) = (chat.loaded().bytes, world.settings.limits.loaded_bytes);
    let (kills, takeovers) = (world.kills.load(Ordering::Relaxed), world.store.takeovers());
    let mut is_idle = world.open_count() == 0;
    for key in world.all_session_keys() {
        let (query, chat) = (TurnRowQuery::From { no: 0, limit: u64::MAX >> 1 }, chat.of(key.tenant.clone()));
        for turn in journal.read_turns(&key, &query).await.unwrap_or_default() {
            // A process that has not noticed that it lost a session still runs its turn, which another one has ended.
            let id = TurnId { invocation: turn.invocation.clone(), ordinal: turn.ordinal };
            is_idle &= takeovers == 0 || chat.activity(&id).is_none();
            if u64::from(turn.deaths) > kills + takeovers {
                found.push(format!(
                    "bounds: turn {} of {}/{} has {} deaths, and {kills} processes were killed",
                    turn.no, key.tenant, key.session, turn.deaths
                ));
            }
        }
    }
    if held > most && is_idle {
        found.push(format!("bounds: idle sessions hold {held} bytes, and {most} are allowed"));
    }
    found
}

/// Checks what waits in a session: the turns that wait in its queue, beside the one that runs, and its early signals.
pub(crate) async fn check_session_bounds(
    limits: &Limits,
    journal: &dyn Journal,
    key: &SessionKey,
) -> Vec<String> {
    let mut found = Vec::new();
    let open = journal.read_turns(key, &TurnRowQuery::Open).await.unwrap_or_default();
    let waiting = open.iter().filter(|turn| turn.kind == StoredTurnKind::Message).count();
    if waiting > limits.queue + 1 {
        found.push(format!("bounds: {waiting} turns wait in {}/{}", key.tenant, key.session));
    }
    let mail = journal.read_early_signals(key).await.unwrap_or_default();
    if mail.len() > limits.mail {
        found.push(format!("bounds: {}/{} keeps {} early signals", key.tenant, key.session, mail.len()));
    }
    found
}

/// Checks that no turn asked its model more often, or called more tools, than it may.
pub(super) fn check_budgets(
    world: &Arc<SimulatedWorld>,
    stored: &[(SessionKey, StoredSession)],
) -> Vec<String> {
    if world.agents.is_some() {
        return Vec::new();
    }
    let mut found = Vec::new();
    for (key, session) in stored {
        let mut answers: BTreeMap<u64, u64> = BTreeMap::new();
        for message in session.messages.iter().filter(|message| message.role == Role::Assistant) {
            if let Some(turn) = message.turn {
                *answers.entry(turn).or_default() += 1;
            }
        }
        for (turn, count) in answers.into_iter().filter(|(_, count)| *count > MODEL_CALLS_MAX) {
            let name = format!("{}/{}", key.tenant, key.session);
            found.push(format!("bounds: turn {turn} of {name} has {count} answers of its model"));
        }
    }
    found
}
