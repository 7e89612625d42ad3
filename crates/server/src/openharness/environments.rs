//! The states that devices report with their requests, while these are answered (spec: OpenHarness §8).
//!
//! A public or restricted state may be shown to a model and to nobody else: it is in memory as long as its request is
//! answered, and in no store, transcript or log. A secret state never reaches this module.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Map, Value, json};
use singletree_agent::SnapshotSource;
use singletree_durable::{SessionId, SessionKey, TenantId};
use singletree_llm::{BoxError, BoxFuture};
use singletree_protocol::openharness::EnvironmentState;

/// The states that devices report with their requests, while these are answered: an agent shows them to its model
/// with a command.
///
/// Of several simultaneous requests to one session the last one counts. A turn that another process takes up has no
/// state.
#[derive(Default)]
pub struct Environments {
    shown: Mutex<VisibleDeviceStates>,
}

/// The state of a device, by the number of the request that showed it.
type State = (u64, Map<String, Value>);

#[derive(Default)]
struct VisibleDeviceStates {
    next: u64,
    by_session: HashMap<SessionKey, Vec<State>>,
}

/// Keeps a state visible until it is dropped.
#[derive(Debug)]
pub(super) struct DeviceStateGuard {
    environments: Arc<Environments>,
    session: SessionKey,
    no: u64,
}

impl Environments {
    /// Makes a state visible to the turns of a session until the returned value is dropped.
    pub(super) fn make_state_visible(
        self: &Arc<Self>,
        tenant: TenantId,
        session: &str,
        state: &EnvironmentState,
    ) -> Option<DeviceStateGuard> {
        let session = SessionKey::new(tenant, SessionId::parse(session).ok()?);
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        shown.next += 1;
        let no = shown.next;
        shown.by_session.entry(session.clone()).or_default().push((no, state.facts.clone()));
        Some(DeviceStateGuard { environments: self.clone(), session, no })
    }
}

impl SnapshotSource for Environments {
    fn read_snapshot<'a>(&'a self, session: &'a SessionKey) -> BoxFuture<'a, Result<Value, BoxError>> {
        let shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        let last = shown.by_session.get(session).and_then(|it| it.last());
        let state = last.map_or(Value::Null, |(_, facts)| json!({ "device": facts }));
        Box::pin(async { Ok(state) })
    }
}

impl Drop for DeviceStateGuard {
    fn drop(&mut self) {
        let mut shown = self.environments.shown.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(states) = shown.by_session.get_mut(&self.session) {
            states.retain(|(no, _)| *no != self.no);
            if states.is_empty() {
                shown.by_session.remove(&self.session);
            }
        }
    }
}

impl fmt::Debug for Environments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Environments").finish_non_exhaustive()
    }
}
