//! What a server does by itself: takes over what was left, and lets go of what is over.

use std::convert::Infallible;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::sleep;

use crate::shared::Shared;

/// How long to wait before a store that failed is asked again.
const AGAIN: Duration = Duration::from_secs(1);
/// How often documents are let go whose time is over.
const EXPIRED_EVERY: Duration = Duration::from_mins(10);
/// How many at once: no commit is held up for long.
const EXPIRED: u64 = 1000;

/// Takes over the turns that processes before this one left, then lets go of documents from time to time.
pub(crate) async fn run(shared: &Shared) -> Infallible {
    // Requests are answered meanwhile: what they need of their sessions they take over themselves.
    while shared.chat.sweep().await.is_err() {
        sleep(AGAIN).await;
    }
    shared.ready.store(true, Ordering::Release);
    loop {
        // What cannot be removed now is removed later.
        while shared.documents.expire(shared.now(), EXPIRED).await.is_ok_and(|expire| expire == EXPIRED) {}
        sleep(EXPIRED_EVERY).await;
    }
}
