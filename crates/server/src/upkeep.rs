//! The background work of a server: takes over the turns of earlier processes, runs campaigns, exports traces and metrics, and deletes
//! expired documents.

use std::convert::Infallible;
use std::future::pending;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::sleep;

use crate::shared::ServerState;
use crate::telemetry::send_metrics;

/// The time between two looks for turns of servers that have died.
const SWEEP_EVERY: Duration = Duration::from_millis(500);
/// The time to wait before another attempt after the store failed.
const AGAIN: Duration = Duration::from_secs(1);
/// The time between two deletions of expired documents.
const EXPIRED_EVERY: Duration = Duration::from_mins(10);
/// The maximum number of documents in one deletion, so that other commits do not wait for long.
const EXPIRED: u64 = 1000;

/// Takes over the turns of earlier processes, then runs campaigns, exports traces, and deletes expired documents from time
/// to time. Sends metrics from the beginning.
pub(crate) async fn run_upkeep(shared: &ServerState) -> Infallible {
    // Metrics tell of a store in trouble, too.
    tokio::join!(export_metrics(shared), work_on_store(shared)).0
}

async fn work_on_store(shared: &ServerState) -> Infallible {
    // Requests are answered meanwhile: they take over the sessions that they need.
    while shared.chat.sweep().await.is_err() {
        sleep(AGAIN).await;
    }
    shared.ready.store(true, Ordering::Release);
    let of_others = async { tokio::join!(take_over_turns(shared), heed_revocations(shared)) };
    tokio::join!(expire_documents(shared), run_campaigns(shared), export_traces(shared), of_others).0
}

/// Takes over the turns of other servers over the same database that have died, where there may be some.
async fn take_over_turns(shared: &ServerState) -> Infallible {
    if !shared.is_store_shared {
        return pending().await;
    }
    loop {
        sleep(SWEEP_EVERY).await;
        // Turns that cannot be taken over now are taken over later.
        drop(shared.chat.sweep().await);
    }
}

/// Has open streams look at their keys again, which another server over the same database may have taken back.
async fn heed_revocations(shared: &ServerState) -> Infallible {
    if !shared.is_store_shared {
        return pending().await;
    }
    loop {
        sleep(SWEEP_EVERY).await;
        shared.access.keyring().notify_change();
    }
}

/// Gives the campaigns of all tenants their cycles, until the future is dropped: then no further cycle begins.
async fn run_campaigns(shared: &ServerState) -> Infallible {
    if let Some(controller) = &shared.campaigns {
        controller.run(pending()).await;
    }
    pending().await
}

/// Exports the traces of turns, until the future is dropped: the next process exports the others.
async fn export_traces(shared: &ServerState) -> Infallible {
    if let Some(exporter) = &shared.trace_exporter {
        exporter.run(pending()).await;
    }
    pending().await
}

/// Sends the metrics, until the future is dropped.
async fn export_metrics(shared: &ServerState) -> Infallible {
    if let Some(export) = &shared.metric_export {
        send_metrics(shared, export).await;
    }
    pending().await
}

async fn expire_documents(shared: &ServerState) -> Infallible {
    loop {
        // Documents that cannot be deleted now are deleted later.
        while shared
            .documents
            .expire_documents(shared.now(), EXPIRED)
            .await
            .is_ok_and(|expire| expire == EXPIRED)
        {}
        sleep(EXPIRED_EVERY).await;
    }
}
