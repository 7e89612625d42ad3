//! A write on its way: it lands once or never, and it is answered once or never.

use std::fmt;

use futures_util::FutureExt;
use singletree_durable::{BoxFuture, Error, Result, SessionKey};
use tokio::sync::oneshot;

/// A write in the queue, whatever it answers.
pub(super) trait PendingWrite: Send {
    /// Returns the session that it is about, if it is about one.
    fn session(&self) -> Option<&SessionKey>;

    /// Describes it for the trace.
    fn label(&self) -> &str;

    /// Lets it land; returns a description of the result.
    fn land(&mut self) -> WriteLanding;

    /// Returns the function that answers the caller: with this error, or with the result of the landing.
    fn take_answer(&mut self, error: Option<Error>) -> Option<Box<dyn FnOnce() + Send>>;
}

/// The result of a landing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WriteLanding {
    /// It was written.
    Written,
    /// It was refused by this category.
    Refused(&'static str),
    /// It has landed before.
    Again,
}

impl fmt::Display for WriteLanding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Written => "written",
            Self::Refused(category) => category,
            Self::Again => "again",
        })
    }
}

/// A write of the memory store, which is complete when the function has returned.
pub(super) struct TypedWrite<T, F> {
    session: Option<SessionKey>,
    label: String,
    action: Option<F>,
    landed: Option<Result<T>>,
    answer: Option<oneshot::Sender<Result<T>>>,
}

impl<T, F> TypedWrite<T, F>
where
    T: Send + 'static,
    F: FnOnce() -> BoxFuture<'static, Result<T>> + Send,
{
    pub(super) fn new(
        session: Option<SessionKey>,
        label: String,
        action: F,
    ) -> (Self, oneshot::Receiver<Result<T>>) {
        let (answer, answered) = oneshot::channel();
        (Self { session, label, action: Some(action), landed: None, answer: Some(answer) }, answered)
    }
}

impl<T, F> PendingWrite for TypedWrite<T, F>
where
    T: Send + 'static,
    F: FnOnce() -> BoxFuture<'static, Result<T>> + Send,
{
    fn session(&self) -> Option<&SessionKey> {
        self.session.as_ref()
    }

    fn label(&self) -> &str {
        &self.label
    }

    fn land(&mut self) -> WriteLanding {
        let Some(action) = self.action.take() else { return WriteLanding::Again };
        let landed = action().now_or_never().unwrap_or(Err(Error::Closed));
        let landing = match &landed {
            Ok(_) => WriteLanding::Written,
            Err(error) => WriteLanding::Refused(error.category()),
        };
        self.landed = Some(landed);
        landing
    }

    fn take_answer(&mut self, error: Option<Error>) -> Option<Box<dyn FnOnce() + Send>> {
        let (answer, landed) = (self.answer.take()?, self.landed.take());
        // A write that was refused was told so, also when its commit is told as failed: nothing of it was to be written.
        let result = match (error, landed) {
            (Some(error), _) => Err(error),
            (None, Some(landed)) => landed,
            (None, None) => Err(Error::Closed),
        };
        // The caller may be dead.
        Some(Box::new(move || drop(answer.send(result))))
    }
}
