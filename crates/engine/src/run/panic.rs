//! Panics of user code become errors of the run they belong to.

use std::any::Any;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::Poll;

use super::fault::NodeError;
use crate::plan::snapshot::Snapshot;
use crate::plan::state::OfState;

/// Says what a panic said.
fn message(panic: &(dyn Any + Send)) -> String {
    let text =
        panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("panicked: {}", text.unwrap_or("without a message"))
}

/// Runs a function of the application's; a panic becomes a message.
///
/// What the function touched is not used again after a panic: the run ends.
pub(crate) fn caught<T>(function: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(function)).map_err(|it| message(&*it))
}

/// Asks a function of the state, once.
pub(crate) fn asked<T>(function: &OfState<T>, state: &Snapshot) -> Result<T, NodeError> {
    let called = caught(|| function(state)).map_err(NodeError::new)?;
    called.map_err(|it| NodeError::new(it.to_string()).with_cause(it))
}

/// Runs a future of the application's; a panic becomes a message.
pub(crate) async fn caught_future<T>(
    mut future: Pin<Box<dyn Future<Output = T> + Send + '_>>,
) -> Result<T, String> {
    poll_fn(move |cx| match caught(|| future.as_mut().poll(cx)) {
        Ok(Poll::Ready(value)) => Poll::Ready(Ok(value)),
        Ok(Poll::Pending) => Poll::Pending,
        Err(message) => Poll::Ready(Err(message)),
    })
    .await
}
