//! Timers.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use std::{error, fmt, future};

use pin_project_lite::pin_project;

use crate::boxed::BoxFuture;

/// Lets time pass.
pub trait Timer: fmt::Debug + Send + Sync {
    /// Returns after this span.
    ///
    /// # Cancellation
    /// Dropping the future ends the wait and has no other effect.
    fn sleep_for(&self, span: Duration) -> BoxFuture<'_, ()>;
}

impl dyn Timer + '_ {
    /// Waits for a future, but not longer than this span. The span begins when the future is first not ready. A future
    /// that is ready when the span has passed wins.
    ///
    /// # Errors
    /// [`Elapsed`] when the span has passed; the inner future is dropped with the returned one.
    ///
    /// # Cancellation
    /// Dropping the returned future drops the inner one.
    pub fn run_with_timeout<F: Future>(&self, span: Duration, work: F) -> Timeout<'_, F> {
        Timeout { work, timer: self, span, sleep: None }
    }
}

pin_project! {
    /// A future with a time limit, as the method `run_with_timeout` of a [`Timer`] returns it.
    ///
    /// It is no `async fn`: that would keep its argument beside the pinned copy of it, so that each limit doubled the
    /// size of the limited future.
    ///
    /// # Cancellation
    /// Dropping it drops the limited future.
    #[must_use = "futures do nothing unless they are awaited"]
    pub struct Timeout<'a, F> {
        #[pin]
        work: F,
        timer: &'a (dyn Timer + 'a),
        span: Duration,
        sleep: Option<BoxFuture<'a, ()>>,
    }
}

impl<F: Future> Future for Timeout<'_, F> {
    type Output = Result<F::Output, Elapsed>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        if let Poll::Ready(output) = this.work.poll(context) {
            return Poll::Ready(Ok(output));
        }
        let (timer, span) = (*this.timer, *this.span);
        let sleep = this.sleep.get_or_insert_with(|| timer.sleep_for(span));
        sleep.as_mut().poll(context).map(|()| Err(Elapsed(())))
    }
}

impl<F> fmt::Debug for Timeout<'_, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Timeout").field("span", &self.span).finish_non_exhaustive()
    }
}

/// The error of a timeout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Elapsed(());

impl fmt::Display for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("deadline has elapsed")
    }
}

impl error::Error for Elapsed {}

/// A timer whose waits take no time.
#[derive(Debug, Clone, Copy, Default)]
pub struct InstantTimer;

impl Timer for InstantTimer {
    fn sleep_for(&self, _span: Duration) -> BoxFuture<'_, ()> {
        Box::pin(future::ready(()))
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn a_future_that_is_ready_wins_against_the_timer() {
        let timer: &dyn Timer = &InstantTimer;
        assert_eq!(timer.run_with_timeout(Duration::ZERO, async { 7 }).now_or_never(), Some(Ok(7)));
        let late = timer.run_with_timeout(Duration::from_secs(1), future::pending::<u8>()).now_or_never();
        let late = late.expect("the timer takes no time").unwrap_err();
        assert_eq!(late.to_string(), "deadline has elapsed");
    }

    #[test]
    fn a_limited_future_is_kept_once() {
        let timer: &dyn Timer = &InstantTimer;
        let work = future::ready([0_u8; 4096]);
        let size = size_of_val(&work);
        let limited = timer.run_with_timeout(Duration::ZERO, work);
        assert!(size_of_val(&limited) < size + 128, "{}", size_of_val(&limited));
    }
}
