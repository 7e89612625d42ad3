//! What the process uses of the system under it: told by the binary, shown by metrics, logged when it is nearly used up.

use std::convert::Infallible;
use std::fmt;
use std::time::Duration;

use tokio::time::sleep;

use crate::shared::Shared;

/// How often the use of descriptors is looked at.
const EVERY: Duration = Duration::from_secs(10);

/// What the process uses of the system under it; none where that cannot be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SystemUsage {
    /// Descriptors that are open: connections, files, pipes.
    pub open_descriptors: Option<u64>,
    /// How many may be.
    pub descriptor_limit: Option<u64>,
    /// Bytes of the database's file.
    pub database_bytes: Option<u64>,
    /// Bytes of the database's write-ahead log.
    pub wal_bytes: Option<u64>,
    /// Bytes that are free on the disk of the database.
    pub disk_free_bytes: Option<u64>,
    /// Lines of the log that were dropped since the start, because they were not read fast enough.
    pub dropped_log_lines: Option<u64>,
}

impl SystemUsage {
    /// Tells whether so much of the descriptors is in use, in tenths.
    fn uses_descriptors(self, tenths: u64) -> bool {
        let used = self.open_descriptors.zip(self.descriptor_limit);
        used.is_some_and(|(open, limit)| open.saturating_mul(10) >= limit.saturating_mul(tenths))
    }
}

/// Tells what the process uses of the system under it.
pub trait SystemProbe: fmt::Debug + Send + Sync {
    /// Reads the present use. It is called every few seconds and must not wait.
    fn usage(&self) -> SystemUsage;
}

/// Writes a line to the log when nine tenths of the descriptors are in use, and when no more than eight tenths are again.
pub(crate) async fn watch(shared: &Shared) -> Infallible {
    let mut is_near_limit = false;
    loop {
        if let Some(probe) = &shared.system {
            let usage = probe.usage();
            let tenths = if is_near_limit { 8 } else { 9 };
            let is_near = usage.uses_descriptors(tenths);
            if is_near != is_near_limit {
                shared.telemetry.descriptors_changed(usage, is_near, shared.clock.as_ref());
                is_near_limit = is_near;
            }
        }
        sleep(EVERY).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_are_compared_with_their_limit_where_both_are_known() {
        let usage = |open, limit| SystemUsage {
            open_descriptors: open,
            descriptor_limit: limit,
            ..SystemUsage::default()
        };
        assert!(usage(Some(90), Some(100)).uses_descriptors(9));
        assert!(!usage(Some(89), Some(100)).uses_descriptors(9));
        assert!(usage(Some(80), Some(100)).uses_descriptors(8));
        assert!(!usage(None, Some(100)).uses_descriptors(9));
        assert!(!usage(Some(90), None).uses_descriptors(9));
    }
}
