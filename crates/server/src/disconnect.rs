//! Cancelling a turn whose client has gone away, where its request or its agent asks for it (D31).
//!
//! A handler that begins a turn and streams it holds a [`DisconnectGuard`] in the stream. A stream that is dropped
//! before its end was closed by its client. The turn is cancelled ten seconds later at the earliest, so that a page
//! that loads again, or a network that comes back, loses nothing.

use std::sync::Arc;
use std::time::Duration;

use axum::http::HeaderMap;
use futures_core::Stream;
use futures_util::StreamExt;
use futures_util::stream::unfold;
use singletree_durable::StoredTurnStatus;
use singletree_harness::{Chat, Error, OnDisconnect, Turn, TurnId};

use crate::problem::RequestProblem;
use crate::shared::ServerState;

/// The header with the policy of a request for a client that goes away: `cancel` or `continue`.
pub(crate) const ON_DISCONNECT: &str = "x-on-disconnect";

/// The time that a client may be away.
const PATIENCE: Duration = Duration::from_secs(10);

/// Reads the policy of a request; none if the agent decides.
///
/// # Errors
/// `server_request_invalid`.
pub(crate) fn read_disconnect_policy(headers: &HeaderMap) -> Result<Option<OnDisconnect>, RequestProblem> {
    match headers.get(ON_DISCONNECT).map(|value| value.as_bytes()) {
        None => Ok(None),
        Some(b"cancel") => Ok(Some(OnDisconnect::Cancel)),
        Some(b"continue") => Ok(Some(OnDisconnect::Continue)),
        Some(_) => Err(RequestProblem::invalid_request("X-On-Disconnect is `cancel` or `continue`")
            .with_field("X-On-Disconnect")),
    }
}

/// Held by the stream of the request that began a turn. If it is dropped before [`DisconnectGuard::mark_finished`], it
/// cancels the turn later, unless another client follows the turn then.
pub(crate) struct DisconnectGuard {
    shared: Arc<ServerState>,
    chat: Chat,
    /// The policy of the request; none if the agent decides.
    policy: Option<OnDisconnect>,
    /// The turn that the request began, with its session.
    begun: Option<(String, TurnId)>,
}

impl DisconnectGuard {
    /// Makes the guard of a request that has begun no turn yet.
    pub(crate) fn new(shared: Arc<ServerState>, chat: Chat, policy: Option<OnDisconnect>) -> Self {
        Self { shared, chat, policy, begun: None }
    }

    /// Sets the turn that the request has begun; a later turn replaces an earlier one.
    pub(crate) fn guard_turn(&mut self, turn: &Turn) {
        self.begun = Some((turn.session().to_owned(), turn.id().clone()));
    }

    /// Records that the stream has come to its end.
    pub(crate) fn mark_finished(&mut self) {
        self.begun = None;
    }

    /// Makes the guard of a request that has begun this turn; none if the turn existed before.
    pub(crate) fn for_new_turn(
        (shared, chat): (&Arc<ServerState>, &Chat),
        policy: Option<OnDisconnect>,
        turn: &Turn,
    ) -> Option<Self> {
        turn.is_new().then(|| {
            let mut guard = Self::new(shared.clone(), chat.clone(), policy);
            guard.guard_turn(turn);
            guard
        })
    }

    fn can_cancel_turn(&self) -> bool {
        let by_agent =
            |name| self.chat.on_disconnect(name).is_ok_and(|policy| policy == OnDisconnect::Cancel);
        match self.policy {
            Some(policy) => policy == OnDisconnect::Cancel,
            None => self.chat.agents().any(by_agent),
        }
    }
}

/// Holds a guard until a stream has come to its end.
pub(crate) fn guard_stream<T: Send>(
    stream: impl Stream<Item = T> + Send + 'static,
    guard: Option<DisconnectGuard>,
) -> impl Stream<Item = T> + Send + 'static {
    unfold((Box::pin(stream), guard), |(mut stream, mut guard)| async move {
        match stream.next().await {
            Some(item) => Some((item, (stream, guard))),
            None => {
                guard.iter_mut().for_each(DisconnectGuard::mark_finished);
                None
            }
        }
    })
}

impl Drop for DisconnectGuard {
    fn drop(&mut self) {
        // The stop of the server closes streams too, and cancels nothing (D33).
        let is_stopping = *self.shared.closing.borrow();
        let Some((session, turn)) = self.begun.take().filter(|_| !is_stopping && self.can_cancel_turn())
        else {
            return;
        };
        let absence = DisconnectedTurn {
            shared: self.shared.clone(),
            chat: self.chat.clone(),
            policy: self.policy,
            session,
            turn,
        };
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(absence.cancel_when_unfollowed());
        }
    }
}

/// A turn whose client has gone away.
struct DisconnectedTurn {
    shared: Arc<ServerState>,
    chat: Chat,
    policy: Option<OnDisconnect>,
    session: String,
    turn: TurnId,
}

impl DisconnectedTurn {
    /// Cancels the turn as soon as no client follows it, unless it ends before.
    async fn cancel_when_unfollowed(self) {
        let mut closing = self.shared.closing.subscribe();
        loop {
            tokio::select! {
                biased;
                _ = closing.wait_for(|closing| *closing) => return,
                () = self.shared.pace.sleep_for(PATIENCE) => {}
            }
            match self.is_cancel_obsolete().await {
                Ok(true) => return,
                Ok(false) => {}
                // The store may come back.
                Err(_) => continue,
            }
            let is_alone = self.chat.session(&self.session).followers().is_ok_and(|followers| followers == 0);
            // A turn that cannot be cancelled now may be later: the store may come back.
            if is_alone && self.chat.cancel(&self.turn).await.is_ok() {
                return;
            }
        }
    }

    /// Checks whether the turn has ended or must not be cancelled.
    async fn is_cancel_obsolete(&self) -> Result<bool, Error> {
        let info = match self.chat.session(&self.session).turn_info(&self.turn).await {
            Err(Error::TurnUnknown { .. } | Error::SessionUnknown { .. }) => return Ok(true),
            info => info?,
        };
        let policy = match self.policy {
            Some(policy) => policy,
            None => self.chat.on_disconnect(&info.agent).unwrap_or_default(),
        };
        Ok(info.status != StoredTurnStatus::Accepted || policy == OnDisconnect::Continue)
    }
}
