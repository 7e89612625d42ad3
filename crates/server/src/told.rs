//! A stream of the values that a future sends: some streams are easier to write as a sequence of steps.

use std::future::Future;
use std::task::Poll;

use futures_core::Stream;
use futures_util::stream::poll_fn;
use tokio::sync::mpsc;

/// The sender of the values.
#[derive(Debug)]
pub(crate) struct StreamSender<T>(mpsc::Sender<T>);

impl<T> StreamSender<T> {
    /// Sends a value. Returns when the reader has taken the value before it.
    pub(crate) async fn send_value(&self, what: T) {
        // Without a reader the work is not polled, so an error needs no handling.
        drop(self.0.send(what).await);
    }
}

/// Returns the values that the work sends, until it is done. The work runs while the stream is read, and is dropped
/// with it.
pub(crate) fn stream_from_work<T, F>(work: impl FnOnce(StreamSender<T>) -> F) -> impl Stream<Item = T> + Send
where
    T: Send + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    let (teller, mut heard) = mpsc::channel(1);
    let mut work = Some(Box::pin(work(StreamSender(teller))));
    poll_fn(move |cx| {
        if let Poll::Ready(Some(it)) = heard.poll_recv(cx) {
            return Poll::Ready(Some(it));
        }
        if work.as_mut().is_some_and(|work| work.as_mut().poll(cx).is_ready()) {
            // This drops the sender: the last values still come, and then the end.
            work = None;
        }
        heard.poll_recv(cx)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::StreamExt;

    #[tokio::test]
    async fn all_that_is_told_comes_in_order_and_then_the_end() {
        let stream = stream_from_work(|teller| async move {
            for it in 0..5 {
                teller.send_value(it).await;
                if it % 2 == 0 {
                    tokio::task::yield_now().await;
                }
            }
        });
        assert_eq!(stream.collect::<Vec<_>>().await, [0, 1, 2, 3, 4]);
        assert_eq!(stream_from_work(|_: StreamSender<()>| async {}).collect::<Vec<_>>().await, []);
    }

    #[tokio::test]
    async fn work_goes_no_further_than_it_is_read() {
        let (far, mut seen) = mpsc::unbounded_channel();
        let mut stream = Box::pin(stream_from_work(|teller| async move {
            for it in 0..10 {
                far.send(it).unwrap();
                teller.send_value(it).await;
            }
        }));
        assert_eq!(stream.next().await, Some(0));
        drop(stream);
        let mut reached = Vec::new();
        while let Some(it) = seen.recv().await {
            reached.push(it);
        }
        assert!(reached.len() <= 3, "{reached:?}");
    }
}
