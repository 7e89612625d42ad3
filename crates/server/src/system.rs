//! The process's use of the system's resources: measured by the binary, shown by metrics, logged when nearly used up.

use std::convert::Infallible;
use std::fmt;
use std::time::Duration;

use tokio::time::sleep;

use crate::shared::ServerState;

/// The time between two checks of the descriptors.
const EVERY: Duration = Duration::from_secs(10);

/// The process's use of the system's resources; `None` for a value that cannot be measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SystemUsage {
    /// The number of open descriptors: connections, files, pipes.
    pub open_descriptors: Option<u64>,
    /// The maximum number of open descriptors.
    pub descriptor_limit: Option<u64>,
    /// The size of the database's file, in bytes.
    pub database_bytes: Option<u64>,
    /// The size of the database's write-ahead log, in bytes.
    pub wal_bytes: Option<u64>,
    /// The free space on the disk of the database, in bytes.
    pub disk_free_bytes: Option<u64>,
    /// The number of log lines that were dropped since the start, because they were not read fast enough.
    pub dropped_log_lines: Option<u64>,
}

impl SystemUsage {
    /// Checks whether at least this many tenths of the descriptors are in use.
    fn uses_descriptors(self, tenths: u64) -> bool {
        let used = self.open_descriptors.zip(self.descriptor_limit);
        used.is_some_and(|(open, limit)| open.saturating_mul(10) >= limit.saturating_mul(tenths))
    }
}

/// Measures the process's use of the system's resources.
pub trait SystemProbe: fmt::Debug + Send + Sync {
    /// Reads the present use. It is called every few seconds and must not wait.
    fn measure_usage(&self) -> SystemUsage;
}

/// Logs when nine tenths of the descriptors are in use, and again when less than eight tenths are.
pub(crate) async fn watch_descriptors(shared: &ServerState) -> Infallible {
    let mut is_near_limit = false;
    loop {
        if let Some(probe) = &shared.system {
            let usage = probe.measure_usage();
            let tenths = if is_near_limit { 8 } else { 9 };
            let is_near = usage.uses_descriptors(tenths);
            if is_near != is_near_limit {
                shared.telemetry.log_descriptor_change(usage, is_near, shared.clock.as_ref());
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
