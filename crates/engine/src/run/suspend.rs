//! How a node's request to suspend reaches the driver (suspension §3).
//!
//! Suspension is no error that user code could catch: the node posts a request and waits; the driver stops polling the
//! run, records the pause, and drops the run. Only when recording fails does the node hear of it.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use tokio::sync::oneshot;

use super::fault::NodeError;
use super::scope::NodeAttempt;
use super::signal::Signal;
use crate::error::Error;

/// A node that wants to suspend.
pub(crate) struct SuspendRequest {
    pub(crate) scope: Arc<NodeAttempt>,
    pub(crate) signal: Signal,
    refuse: oneshot::Sender<Error>,
    /// Whether the node's body has returned without waiting for the answer.
    abandoned: bool,
}

impl SuspendRequest {
    /// Tells the node that its pause could not be recorded. Returns the error when the node is not there to hear it:
    /// then it is the run's.
    pub(crate) fn refuse_suspension(self, error: Error) -> Option<(Arc<NodeAttempt>, Error)> {
        if self.abandoned {
            return Some((self.scope, error));
        }
        self.refuse.send(error).err().map(|it| (self.scope, it))
    }
}

/// An error that ends the invocation and that nothing on the way out can catch.
pub(crate) struct AbortRequest {
    pub(crate) error: Error,
    /// The attempts that end with it, innermost first.
    pub(crate) scopes: Vec<Arc<NodeAttempt>>,
}

/// A request to the driver.
pub(crate) enum DriverRequest {
    Pause(SuspendRequest),
    Abort(AbortRequest),
}

/// Where requests wait for the driver. The lock guards two fields that change together and is never held across an
/// await.
#[derive(Default)]
pub(crate) struct DriverRequests(Mutex<PendingRequests>);

#[derive(Default)]
struct PendingRequests {
    requests: VecDeque<SuspendRequest>,
    abort: Option<AbortRequest>,
    /// Whether nobody takes requests any more.
    over: bool,
    driver: Option<Waker>,
}

impl DriverRequests {
    fn lock_pending(&self) -> MutexGuard<'_, PendingRequests> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a node's body has returned. Returns true when the body had asked to suspend and did not wait for the
    /// answer: its return value is void then, since asking was its last act (suspension §3). Otherwise it cannot ask
    /// any more.
    pub(crate) fn settle_returned_node(&self, scope: &Arc<NodeAttempt>) -> bool {
        let mut waiting = self.lock_pending();
        match waiting.requests.iter_mut().find(|request| Arc::ptr_eq(&request.scope, scope)) {
            Some(request) => {
                request.abandoned = true;
                true
            }
            None => {
                scope.ended.store(true, Ordering::Relaxed);
                false
            }
        }
    }

    /// Asks to suspend; returns only when that could not be recorded.
    pub(crate) async fn request_suspension(&self, scope: Arc<NodeAttempt>, signal: Signal) -> NodeError {
        let (refuse, refused) = oneshot::channel();
        let driver = {
            let mut waiting = self.lock_pending();
            if waiting.over || scope.ended.load(Ordering::Relaxed) {
                return Error::SuspensionContext { context: "after its node ended".into(), state: None }
                    .into();
            }
            waiting.requests.push_back(SuspendRequest { scope, signal, refuse, abandoned: false });
            waiting.driver.take()
        };
        if let Some(driver) = driver {
            driver.wake();
        }
        match refused.await {
            Ok(error) => error.into(),
            // The run that this node belonged to is over; a task that it spawned has nothing left to wait for.
            Err(_) => {
                Error::SuspensionContext { context: "after its invocation ended".into(), state: None }.into()
            }
        }
    }

    /// Ends the invocation with an error that nobody on the way out can catch. Does not return: the run is dropped.
    pub(crate) async fn request_abort<T>(&self, abort: AbortRequest) -> T {
        let driver = {
            let mut waiting = self.lock_pending();
            // The first one is the reason.
            if waiting.abort.is_none() {
                waiting.abort = Some(abort);
            }
            waiting.driver.take()
        };
        if let Some(driver) = driver {
            driver.wake();
        }
        std::future::pending().await
    }

    /// Tells whether the driver is asked for something: then nothing else of the run goes on.
    pub(crate) fn has_requests(&self) -> bool {
        let waiting = self.lock_pending();
        waiting.abort.is_some() || !waiting.requests.is_empty()
    }

    /// Tells whether nobody takes requests any more.
    pub(crate) fn is_run_over(&self) -> bool {
        self.lock_pending().over
    }

    /// Closes the queue: the run is over. Pending requests are dropped, which tells their nodes.
    pub(crate) fn close_requests(&self) {
        let left = {
            let mut waiting = self.lock_pending();
            waiting.over = true;
            std::mem::take(&mut waiting.requests)
        };
        drop(left);
    }

    /// Takes the next request, or stores the waker to call for it. An abort comes before any pause.
    pub(crate) fn take_request(&self, driver: &Waker) -> Option<DriverRequest> {
        let mut waiting = self.lock_pending();
        let abort = waiting.abort.take().map(DriverRequest::Abort);
        let asked = abort.or_else(|| waiting.requests.pop_front().map(DriverRequest::Pause));
        if asked.is_none() && !waiting.driver.as_ref().is_some_and(|it| it.will_wake(driver)) {
            waiting.driver = Some(driver.clone());
        }
        asked
    }
}
