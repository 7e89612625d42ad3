//! The system resources that the process uses, and its limit of open descriptors.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use singletree_server::{SystemProbe, SystemUsage};

use crate::log::ErrorLog;

/// Measures the system resources that a server and its database use.
#[derive(Debug)]
pub(crate) struct ServerUsage {
    database: PathBuf,
    descriptor_limit: Option<u64>,
    log: Option<Arc<ErrorLog>>,
}

impl ServerUsage {
    /// Looks at a database, and at a log if there is one.
    pub(crate) fn new(database: &Path, descriptor_limit: Option<u64>, log: Option<Arc<ErrorLog>>) -> Self {
        Self { database: database.to_owned(), descriptor_limit, log }
    }
}

impl SystemProbe for ServerUsage {
    fn measure_usage(&self) -> SystemUsage {
        let bytes = |path: &Path| fs::metadata(path).ok().map(|metadata| metadata.len());
        let mut wal = self.database.clone().into_os_string();
        wal.push("-wal");
        SystemUsage {
            open_descriptors: count_open_descriptors(),
            descriptor_limit: self.descriptor_limit,
            database_bytes: bytes(&self.database),
            wal_bytes: bytes(Path::new(&wal)),
            disk_free_bytes: disk_free(&self.database),
            dropped_log_lines: self.log.as_ref().map(|log| log.dropped_line_count()),
        }
    }
}

/// Counts the descriptors that are open, where the system lists them.
fn count_open_descriptors() -> Option<u64> {
    let listed = fs::read_dir("/proc/self/fd").or_else(|_| fs::read_dir("/dev/fd")).ok()?;
    // The listing itself is one.
    u64::try_from(listed.count()).ok().map(|count| count.saturating_sub(1))
}

#[cfg(unix)]
fn disk_free(path: &Path) -> Option<u64> {
    let disk = rustix::fs::statvfs(path).ok()?;
    Some(disk.f_bavail.saturating_mul(disk.f_frsize))
}

#[cfg(not(unix))]
fn disk_free(_: &Path) -> Option<u64> {
    None
}

/// Raises the number of descriptors that the process may open as far as it may by itself, and returns it; none where
/// the system sets no such limit.
#[cfg(unix)]
pub(crate) fn raise_descriptor_limit() -> Option<u64> {
    use rustix::process::{Resource, getrlimit, setrlimit};

    let before = getrlimit(Resource::Nofile);
    // Some systems refuse their own maximum: then the limit stays unchanged.
    let wanted = rustix::process::Rlimit { current: before.maximum, maximum: before.maximum };
    setrlimit(Resource::Nofile, wanted).unwrap_or_default();
    getrlimit(Resource::Nofile).current
}

#[cfg(not(unix))]
pub(crate) fn raise_descriptor_limit() -> Option<u64> {
    None
}

/// Returns how many connections may be open at once: the configured number, but at most three quarters of the
/// descriptors. The rest is for the database, the models and the administration.
pub(crate) fn limit_connections(configured: usize, descriptor_limit: Option<u64>) -> usize {
    let fitting = descriptor_limit.map_or(u64::MAX, |limit| (limit / 4).saturating_mul(3).max(1));
    configured.min(usize::try_from(fitting).unwrap_or(usize::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_a_quarter_of_the_descriptors() {
        assert_eq!(limit_connections(4096, Some(1024)), 768);
        assert_eq!(limit_connections(100, Some(1024)), 100);
        assert_eq!(limit_connections(4096, None), 4096);
        assert_eq!(limit_connections(4096, Some(2)), 1);
    }

    #[cfg(unix)]
    #[test]
    fn what_a_database_uses_is_read_from_the_system() {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("s.db");
        std::fs::write(&database, [0; 100]).unwrap();
        std::fs::write(folder.path().join("s.db-wal"), [0; 10]).unwrap();
        let usage = ServerUsage::new(&database, raise_descriptor_limit(), None).measure_usage();
        assert_eq!((usage.database_bytes, usage.wal_bytes), (Some(100), Some(10)));
        assert!(usage.disk_free_bytes.is_some_and(|disk_free_bytes| disk_free_bytes > 0), "{usage:?}");
        assert!(usage.open_descriptors.is_some_and(|open_descriptors| open_descriptors > 0), "{usage:?}");
    }
}
