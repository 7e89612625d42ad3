//! The judgement of a run: every promise is checked against what clients were told, what is stored, and what happened
//! outside.

mod bounds;
mod campaigns;
mod doubt;
mod effects;
mod listeners;
mod notices;

use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError};

use futures_util::StreamExt;
use singletree_audit::{StoredSession, audit_sessions};
use singletree_durable::{InvocationId, Journal, SessionKey, StoredWaitStatus, WaitRowQuery};
use singletree_harness::{Chat, TurnId};

use crate::agents::fields_of_release;
use crate::client::{EventView, SimulatedSessionName, describe_event, describe_http_event, read_turn_events};
use crate::server::SimulatedServer;
use crate::world::SimulatedWorld;
pub(crate) use bounds::check_session_bounds;
pub(crate) use campaigns::is_campaign_under_way;
pub(crate) use doubt::is_outcome_unknown;
pub use doubt::{DoubtfulEffect, EffectDoubt};

/// The judgement of a run.
#[derive(Debug)]
pub(crate) struct RunJudgement {
    /// The broken promises, one line each.
    pub(crate) violations: Vec<String>,
    /// The effects of a user's tools that stayed unknown or happened twice.
    pub(crate) doubtful: Vec<DoubtfulEffect>,
}

/// Checks everything.
pub(crate) async fn judge_run(world: &Arc<SimulatedWorld>) -> RunJudgement {
    let Some(process) = world.current_process() else {
        let violations = vec!["stuck: there is no process at the end".to_owned()];
        return RunJudgement { violations, doubtful: Vec::new() };
    };
    world.examine_store().await;
    let data = world.store.data();
    let (mut found, mut stored) = (Vec::new(), Vec::new());
    for key in world.session_keys() {
        let chat = process.chat.of(key.tenant.clone());
        match StoredSession::read_from_store(&chat, &data, &key).await {
            Ok(session) => {
                found.extend(find_late_answers(&data, &key, &session).await);
                found.extend(find_foreign_texts(&key, &session));
                found.extend(find_former_fields(&data, &key).await);
                found.extend(compare_views(world, &chat, &key, &session).await);
                found.extend(compare_http_views(world, &process.server, &key, &session).await);
                stored.push((key, session));
            }
            Err(error) => found.push(format!("unreadable: {}/{}: {error}", key.tenant, key.session)),
        }
    }
    found.extend(listeners::find_late_listeners(world, &data).await);
    found.extend(bounds::check_bounds(world, &process.chat, &data).await);
    found.extend(bounds::check_budgets(world, &stored));
    found.extend(campaigns::check_campaigns(world, &data).await);
    found.extend(effects::check_effects(world, &data, &stored).await);
    found.extend(notices::check_notices(world, &data, &stored).await);
    let doubtful = doubt::find_doubtful_effects(world, &data, &stored).await;
    let named: Vec<StoredSession> = stored
        .into_iter()
        .map(|(key, session)| StoredSession { session: format!("{}/{}", key.tenant, key.session), ..session })
        .collect();
    let report = audit_sessions(&world.history.records(), &named);
    found.extend(report.violations.iter().map(ToString::to_string));
    found.extend(world.found.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned());
    found.extend(world.store.violations());
    found.extend(world.executor.take_panics());
    RunJudgement { violations: found, doubtful }
}

/// Finds waits that were answered at or after their deadline (D37).
async fn find_late_answers(journal: &dyn Journal, key: &SessionKey, stored: &StoredSession) -> Vec<String> {
    let mut found = Vec::new();
    let invocations: BTreeSet<&str> = stored.waits.iter().map(|wait| wait.invocation.as_str()).collect();
    for invocation in invocations {
        let Ok(invocation) = InvocationId::parse(invocation) else { continue };
        let query = WaitRowQuery::Invocation(key.tenant.clone(), invocation);
        let waits = journal.read_waits(&query).await.unwrap_or_default();
        for (_, wait) in
            waits.into_iter().filter(|(of, wait)| of == key && wait.status == StoredWaitStatus::Consumed)
        {
            let (Some(deadline), Some(ended)) = (wait.deadline, wait.ended_at) else { continue };
            if ended >= deadline {
                let late = ended.duration_since(deadline).as_millis();
                found.push(format!(
                    "contradicted in {}/{}: wait {} was answered {late} ms after its deadline",
                    key.tenant, key.session, wait.no
                ));
            }
        }
    }
    found
}

/// Finds fields that the version of the state which a session has does not know: they were dropped when it was migrated.
async fn find_former_fields(journal: &dyn Journal, key: &SessionKey) -> Vec<String> {
    let Ok(Some(row)) = journal.read_session(key).await else { return Vec::new() };
    let Ok(release) = row.head.schema_version.parse() else { return Vec::new() };
    let known = fields_of_release(&row.head.agent, release);
    let former =
        row.fields.iter().filter(|field| known.is_some_and(|known| !known.contains(&field.name.as_str())));
    former
        .map(|field| {
            format!("stays in {}/{}: field {:?} of a former release", key.tenant, key.session, field.name)
        })
        .collect()
}

/// Finds texts of another tenant: every text names the tenant that it was sent by.
fn find_foreign_texts(key: &SessionKey, stored: &StoredSession) -> Vec<String> {
    let foreign = if key.tenant.as_str() == "default" { " other-" } else { " default-" };
    let seen = stored.messages.iter().map(|message| message.brief.as_str());
    let texts = seen.chain(stored.turns.iter().filter_map(|turn| turn.text.as_deref()));
    let found = texts.filter(|text| text.contains(foreign));
    found.map(|text| format!("tenants: {}/{} holds {text:?}", key.tenant, key.session)).collect()
}

/// Compares the events that clients saw with the log, read back.
async fn compare_views(
    world: &Arc<SimulatedWorld>,
    chat: &Chat,
    key: &SessionKey,
    stored: &StoredSession,
) -> Vec<String> {
    let mut found = Vec::new();
    let name = SimulatedSessionName { tenant: key.tenant.to_string(), session: key.session.to_string() };
    for turn in stored.turns.iter().filter(|turn| turn.end.is_some()) {
        let Ok(id) = turn.id.parse::<TurnId>() else { continue };
        let Ok(read) = chat.turn(&id).await else { continue };
        let mut events = read.events();
        while let Some(Ok(event)) = events.next().await {
            let Some(number) = &event.id else { continue };
            let seen = world.waits.lock().seen.get(&(name.clone(), number.seq, EventView::Chat)).cloned();
            let content = describe_event(&event);
            if let Some(seen) = seen.filter(|seen| *seen != content) {
                let session = name.qualified();
                found.push(format!(
                    "contradicted in {session}: event {} was seen as {seen}, and the log has {content}",
                    number.seq
                ));
            }
        }
    }
    found
}

/// Compares the events that clients saw over HTTP with those that the server reads back.
async fn compare_http_views(
    world: &Arc<SimulatedWorld>,
    server: &SimulatedServer,
    key: &SessionKey,
    stored: &StoredSession,
) -> Vec<String> {
    let name = SimulatedSessionName { tenant: key.tenant.to_string(), session: key.session.to_string() };
    let mut found = Vec::new();
    for turn in stored.turns.iter().filter(|turn| turn.end.is_some()) {
        let has_seen =
            |view: &(SimulatedSessionName, u64, EventView)| view.0 == name && view.2 == EventView::Http;
        if !world.waits.lock().seen.keys().any(has_seen) {
            return found;
        }
        let reading = read_turn_events(server, name.session.as_str(), &turn.id);
        for event in server.run_handler(reading).await {
            let number = event.id.as_deref().and_then(|id| id.rsplit(':').next()?.parse().ok());
            let Some(seq) = number else { continue };
            let seen = world.waits.lock().seen.get(&(name.clone(), seq, EventView::Http)).cloned();
            let content = describe_http_event(&event);
            if let Some(seen) = seen.filter(|seen| *seen != content) {
                let session = name.qualified();
                found.push(format!(
                    "contradicted in {session}: event {seq} was seen over HTTP as {seen}, and is read as {content}"
                ));
            }
        }
    }
    found
}
