//! The gauges of system resources.

use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

use crate::system::SystemUsage;

/// One gauge for each field of [`SystemUsage`]; 0 if the value is unknown.
#[derive(Debug, Default)]
pub(super) struct SystemGauges {
    open_descriptors: Gauge,
    descriptor_limit: Gauge,
    database: Gauge,
    wal: Gauge,
    disk_free: Gauge,
    dropped_log_lines: Gauge,
}

impl SystemGauges {
    pub(super) fn register_gauges(&self, to: &mut Registry) {
        to.register("descriptors_open", "Descriptors that are open", self.open_descriptors.clone());
        to.register("descriptors_limit", "Descriptors that may be open", self.descriptor_limit.clone());
        let bytes = |to: &mut Registry, name: &str, help: &str, gauge: &Gauge| {
            to.register_with_unit(name, help, Unit::Bytes, gauge.clone());
        };
        bytes(to, "database", "Bytes of the database's file", &self.database);
        bytes(to, "database_wal", "Bytes of the database's write-ahead log", &self.wal);
        bytes(to, "disk_free", "Bytes that are free on the disk of the database", &self.disk_free);
        let dropped = "Lines of the log that were dropped because they were not read fast enough";
        to.register("log_lines_dropped", dropped, self.dropped_log_lines.clone());
    }

    pub(super) fn set_from_usage(&self, usage: SystemUsage) {
        let set = |gauge: &Gauge, value: Option<u64>| {
            gauge.set(value.map_or(0, |value| i64::try_from(value).unwrap_or(i64::MAX)));
        };
        set(&self.open_descriptors, usage.open_descriptors);
        set(&self.descriptor_limit, usage.descriptor_limit);
        set(&self.database, usage.database_bytes);
        set(&self.wal, usage.wal_bytes);
        set(&self.disk_free, usage.disk_free_bytes);
        set(&self.dropped_log_lines, usage.dropped_log_lines);
    }
}
