//! Panics of user code become errors of the run they belong to.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

use singletree_graph::{OfState, Snapshot, catch_panic};

use super::fault::NodeError;

/// Asks a function of the state, once.
pub(crate) fn call_state_function<T>(function: &OfState<T>, state: &Snapshot) -> Result<T, NodeError> {
    let called = catch_panic(|| function(state)).map_err(NodeError::new)?;
    called.map_err(|error| NodeError::new(error.to_string()).with_cause(error))
}

/// Runs a future of the application's; a panic becomes a message.
pub(crate) async fn catch_future_panic<T>(
    mut future: Pin<Box<dyn Future<Output = T> + Send + '_>>,
) -> Result<T, String> {
    poll_fn(move |cx| match catch_panic(|| future.as_mut().poll(cx)) {
        Ok(Poll::Ready(value)) => Poll::Ready(Ok(value)),
        Ok(Poll::Pending) => Poll::Pending,
        Err(message) => Poll::Ready(Err(message)),
    })
    .await
}
