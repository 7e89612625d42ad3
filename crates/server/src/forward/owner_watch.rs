//! Whether the server lives that a request was sent on to: one that stands still, or is cut off, answers nothing and closes no
//! connection.

use std::future::{pending, ready};
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use futures_core::Stream;
use futures_util::StreamExt;
use futures_util::future::{Either, select};
use futures_util::stream;
use singletree_env::Timer;
use singletree_http::{BoxStream, Error, HttpResponse, Result};

use crate::nodes::NodeDirectory;

/// How often it is looked whether the server lives.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How often in a row it has to count as dead: one whose lease has ended is not registered for a moment before it goes on.
const LOOKS: u32 = 2;

/// Watches the server at an address. A clone watches the same one.
#[derive(Debug, Clone)]
pub(super) struct OwnerWatch {
    pub(super) nodes: Option<Arc<dyn NodeDirectory>>,
    pub(super) timer: Arc<dyn Timer>,
    pub(super) address: String,
}

impl OwnerWatch {
    /// Waits for an answer, as long as the server lives, and passes its body on as long as it does.
    ///
    /// # Errors
    /// Those of `answer`, and `http_broken_off` when the server counts as dead.
    pub(super) async fn wait_for_answer(
        self,
        answer: impl Future<Output = Result<HttpResponse>>,
    ) -> Result<HttpResponse> {
        let (answer, dead) = (std::pin::pin!(answer), std::pin::pin!(self.clone().wait_until_dead()));
        let answer = match select(answer, dead).await {
            Either::Left((answer, _)) => answer?,
            Either::Right(((), _)) => return Err(self.dead_error()),
        };
        Ok(HttpResponse { body: self.watch_body(answer.body), ..answer })
    }

    /// Passes a body on; breaks it off when the server counts as dead.
    fn watch_body(self, body: BoxStream<'static, Result<Bytes>>) -> BoxStream<'static, Result<Bytes>> {
        let error = self.dead_error();
        let broken = stream::once(async move {
            self.wait_until_dead().await;
            Err(error)
        });
        Box::pin(end_with_first(body, broken))
    }

    /// Returns when the server counts as dead; never where that cannot be known.
    async fn wait_until_dead(self) {
        let Some(nodes) = self.nodes else { return pending().await };
        let mut looks = 0;
        while looks < LOOKS {
            self.timer.sleep_for(LOOK_EVERY).await;
            looks = if nodes.has_died(&self.address) { looks + 1 } else { 0 };
        }
    }

    fn dead_error(&self) -> Error {
        Error::Broken {
            host: self.address.clone(),
            source: "the server does not renew its lease any more".into(),
        }
    }
}

/// Passes on the items of two streams, until one of them ends.
fn end_with_first<T: Send>(
    first: impl Stream<Item = Result<T>> + Send,
    second: impl Stream<Item = Result<T>> + Send,
) -> impl Stream<Item = Result<T>> + Send {
    let first = first.map(Some).chain(stream::once(ready(None)));
    let second = second.map(Some).chain(stream::once(ready(None)));
    stream::select(first, second).take_while(|next| ready(next.is_some())).filter_map(ready)
}
