//! Which server owns the session that a request has come to.

use std::future::ready;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::response::Response;
use futures_core::Stream;
use futures_util::StreamExt;
use futures_util::stream::once;
use singletree_durable::{
    AcquiredSession, BoxFuture, Error, FencingToken, Journal, JournalLayer, JournalMaintenance,
    MaintenanceLayer, Result, SessionId, SessionKey, TenantId,
};
use singletree_env::Spawner;

use crate::nodes::NodeDirectory;
use crate::shared::ServerState;
use crate::sse::ServerSentEvent;

/// Who owns the session that a request has come to.
#[derive(Debug)]
pub(super) enum SessionOwner {
    ThisServer,
    /// The server at this address.
    Other(String),
}

/// None until the request has come to a session. Of several, one that is this server's decides: sessions of others that its
/// work comes to, such as those of a tool of its turn, are not its own.
pub(super) type OwnerFound = Arc<Mutex<Option<SessionOwner>>>;

tokio::task_local! {
    static OWNER_FOUND: OwnerFound;
}

fn lock_owner(found: &OwnerFound) -> MutexGuard<'_, Option<SessionOwner>> {
    found.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Notes an owner for the request that this task belongs to. Other work has nobody to tell it to.
fn note_owner(owner: SessionOwner) {
    let note = |found: &OwnerFound| {
        let mut found = lock_owner(found);
        if found.is_none() || matches!(owner, SessionOwner::ThisServer) {
            *found = Some(owner);
        }
    };
    OWNER_FOUND.try_with(note).unwrap_or_default();
}

/// Has the stream of a session's events sent on to another server that owns the session. Where there is none, the stream ends
/// as soon as there is one, with the hint to come back: then it is sent on. One that cannot be reached ends none.
pub(crate) async fn follow_owner(
    shared: &ServerState,
    (tenant, session): (&TenantId, &str),
    frames: impl Stream<Item = ServerSentEvent> + Send + 'static,
) -> impl Stream<Item = ServerSentEvent> + Send + 'static {
    let (Some(nodes), Ok(session)) = (find_directory(shared).cloned(), SessionId::parse(session)) else {
        return frames.left_stream();
    };
    let key = SessionKey::new(tenant.clone(), session);
    // Without an answer of the database the stream stays here.
    let first = nodes.find_owner(&key).await.unwrap_or_default();
    first.iter().for_each(|owner| note_owner(SessionOwner::Other(owner.clone())));
    let pace = shared.pace.clone();
    let owner_appears = async move {
        loop {
            pace.sleep_for(LOOK_EVERY).await;
            match nodes.find_owner(&key).await {
                Ok(Some(owner)) if first.as_ref() != Some(&owner) => return,
                Ok(_) | Err(_) => {}
            }
        }
    };
    let come_back = once(ready(ServerSentEvent::from_retry_millis(RECONNECT_MILLIS)));
    frames.take_until(Box::pin(owner_appears)).chain(come_back).right_stream()
}

/// Returns the directory of the servers that a request can be sent on to; none where there are no others.
fn find_directory(shared: &ServerState) -> Option<&Arc<dyn NodeDirectory>> {
    shared.nodes.as_ref().filter(|_| shared.peers.is_some() && shared.is_store_shared)
}

/// Marks an answer that counts only where no other server owns the session, or where that one cannot be reached.
#[derive(Debug, Clone, Copy)]
pub(super) struct Substitute;

/// Has a request answered by another server that owns the session, if there is one, since only its memory has the
/// answer.
pub(crate) async fn defer_to_owner(
    shared: &ServerState,
    (tenant, session): (&TenantId, &str),
    mut answer: Response,
) -> Response {
    if let (Some(nodes), Ok(session)) = (find_directory(shared), SessionId::parse(session)) {
        // Without an answer of the database this server's counts.
        let owner = nodes.find_owner(&SessionKey::new(tenant.clone(), session)).await;
        if let Some(address) = owner.unwrap_or_default() {
            note_owner(SessionOwner::Other(address));
            answer.extensions_mut().insert(Substitute);
        }
    }
    answer
}

/// How often a stream looks whether another server owns its session.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The time after which a reader reconnects whose session has another owner.
const RECONNECT_MILLIS: u64 = 10;

/// Notes the owners of sessions that requests come to, for [`ServerBuilder::peer_transport`](crate::ServerBuilder::peer_transport): give the returned store to
/// the chat. A store of one process has no other owners.
pub fn note_session_owners<S: Journal + JournalMaintenance>(
    store: S,
) -> impl Journal + JournalMaintenance + use<S> {
    OwnerNotingStore(store)
}

#[derive(Debug)]
struct OwnerNotingStore<S>(S);

impl<S: Journal + JournalMaintenance> JournalLayer for OwnerNotingStore<S> {
    type Journal = S;

    fn inner_journal(&self) -> &S {
        &self.0
    }

    fn acquire_session<'a>(&'a self, key: &'a SessionKey) -> BoxFuture<'a, Result<AcquiredSession>> {
        Box::pin(async move {
            let acquired = self.0.acquire(key).await;
            match &acquired {
                Ok(_) => note_owner(SessionOwner::ThisServer),
                Err(Error::HeldElsewhere { address: Some(address), .. }) => {
                    note_owner(SessionOwner::Other(address.clone()));
                }
                Err(_) => {}
            }
            acquired
        })
    }

    fn check_session_lease<'a>(
        &'a self,
        key: &'a SessionKey,
        fence: FencingToken,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            self.0.check_lease(key, fence).await?;
            note_owner(SessionOwner::ThisServer);
            Ok(())
        })
    }
}

impl<S: Journal + JournalMaintenance> MaintenanceLayer for OwnerNotingStore<S> {
    type Maintenance = S;

    fn inner_maintenance(&self) -> &S {
        &self.0
    }
}

/// Makes tasks that are started for a request belong to it, so that the owners that they come to are noted: give the
/// returned spawner to the chat.
#[must_use]
pub fn spawn_for_requests(spawner: Arc<dyn Spawner>) -> Arc<dyn Spawner> {
    Arc::new(RequestSpawner(spawner))
}

#[derive(Debug)]
struct RequestSpawner(Arc<dyn Spawner>);

impl Spawner for RequestSpawner {
    fn spawn_task(&self, task: singletree_env::BoxFuture<'static, ()>) {
        let task = match OWNER_FOUND.try_with(Arc::clone) {
            Ok(found) => Box::pin(OWNER_FOUND.scope(found, task)),
            Err(_) => task,
        };
        self.0.spawn_task(task);
    }
}

/// Runs the work of a request, and notes the owners that it comes to.
pub(super) async fn note_for<T>(found: OwnerFound, work: impl Future<Output = T>) -> T {
    OWNER_FOUND.scope(found, work).await
}

/// Returns the address of the server that owns the session that a request has come to, if it is another one.
pub(super) fn take_other(found: &OwnerFound) -> Option<String> {
    match lock_owner(found).take() {
        Some(SessionOwner::Other(address)) => Some(address),
        Some(SessionOwner::ThisServer) | None => None,
    }
}
