//! Whether the store can be written: probed at most once a second, and logged once per change.

use std::sync::Arc;
use std::time::Duration;

use singletree_durable::{DocumentKey, Error as StoreError};
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep, timeout};

use crate::Error;
use crate::caller::operator_tenant;
use crate::shared::ServerState;

/// The time limit of a probe; after that the store counts as unavailable.
const PROBE_TIME: Duration = Duration::from_secs(2);
/// The time for which the result of a probe is reused, however often the readiness is requested.
const BELIEVED: Duration = Duration::from_secs(1);
/// The time between two probes of a writable store without requests for the readiness.
const EVERY_WHILE_WRITABLE: Duration = Duration::from_secs(5);
/// The time between two probes of a store that could not be written.
const EVERY_WHILE_FAILED: Duration = Duration::from_secs(1);

/// The result of the last probe of the store.
#[derive(Debug, Default)]
pub(crate) struct StoreHealth {
    last: Mutex<Option<ProbeResult>>,
}

#[derive(Debug, Clone)]
struct ProbeResult {
    at: Instant,
    trouble: Option<Arc<StoreError>>,
}

impl StoreHealth {
    /// Probes the store, unless that was done within the last second, and returns the error if it cannot be written.
    ///
    /// # Cancellation
    /// If the future is dropped, the next call makes the probe again.
    #[expect(clippy::disallowed_methods, reason = "time limits of connections are those of the runtime")]
    pub(crate) async fn check_writable(&self, shared: &ServerState) -> Result<(), Arc<StoreError>> {
        let mut last = self.last.lock().await;
        let known = last.clone().filter(|known| known.at.elapsed() < BELIEVED);
        let result = match known {
            Some(known) => known,
            None => {
                let trouble = probe_store(shared).await.err().map(Arc::new);
                let before =
                    last.as_ref().and_then(|known| known.trouble.as_deref().map(StoreError::category));
                let now = trouble.as_deref().map(StoreError::category);
                if before != now {
                    shared.telemetry.log_store_change(trouble.as_deref(), shared.clock.as_ref());
                }
                shared.telemetry.metrics().set_store_writable(trouble.is_none());
                last.insert(ProbeResult { at: Instant::now(), trouble }).clone()
            }
        };
        result.trouble.map_or(Ok(()), Err)
    }
}

/// Commits an empty change, and reads a document.
async fn probe_store(shared: &ServerState) -> Result<(), StoreError> {
    let key = DocumentKey::new(operator_tenant(), "ready", "ready");
    let asked = async {
        shared.documents.probe_write().await?;
        shared.documents.read_document(&key).await.map(drop)
    };
    let late = |elapsed: tokio::time::error::Elapsed| {
        Err(StoreError::Unavailable { doing: "commit a probe", source: elapsed.into() })
    };
    timeout(PROBE_TIME, asked).await.unwrap_or_else(late)
}

/// Probes the store from time to time. Returns when another writer has taken over the store: this process can never
/// write again.
pub(crate) async fn watch_until_fenced(shared: &ServerState) -> Error {
    loop {
        let every = match shared.store_health.check_writable(shared).await {
            Ok(()) => EVERY_WHILE_WRITABLE,
            Err(trouble) => match *trouble {
                StoreError::Fenced { held, found } => {
                    return Error::Store(StoreError::Fenced { held, found });
                }
                _ => EVERY_WHILE_FAILED,
            },
        };
        sleep(every).await;
    }
}
