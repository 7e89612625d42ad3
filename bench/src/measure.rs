//! Clocks, counters and figures from their readings.

use std::io;
use std::time::{Duration, Instant};

use nix::time::{ClockId, clock_gettime};
use serde_json::Value;
use stats_alloc::INSTRUMENTED_SYSTEM;

use crate::Figures;

/// A reading of everything that is measured, at one moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ResourceReading {
    at: Instant,
    cpu_s: f64,
    allocated: usize,
}

/// The difference of two readings.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ResourceUsage {
    pub(crate) wall_s: f64,
    /// User and system time of all threads.
    pub(crate) cpu_s: f64,
    /// Bytes that were asked of the allocator, whether given back or not.
    pub(crate) allocated: f64,
}

impl ResourceReading {
    #[expect(clippy::disallowed_methods, reason = "measuring time is what this program is for")]
    pub(crate) fn now() -> Self {
        let cpu = clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).expect("every Linux has this clock");
        Self {
            at: Instant::now(),
            cpu_s: Duration::from(cpu).as_secs_f64(),
            allocated: INSTRUMENTED_SYSTEM.stats().bytes_allocated,
        }
    }

    /// Returns the difference between this reading and now.
    pub(crate) fn elapsed_usage(self) -> ResourceUsage {
        self.usage_until(Self::now())
    }

    /// Returns the difference between this reading and a later one.
    pub(crate) fn usage_until(self, now: Self) -> ResourceUsage {
        ResourceUsage {
            wall_s: now.at.duration_since(self.at).as_secs_f64(),
            cpu_s: now.cpu_s - self.cpu_s,
            allocated: now.allocated.wrapping_sub(self.allocated) as f64,
        }
    }
}

impl ResourceUsage {
    /// Adds another span to this one.
    pub(crate) fn add(&mut self, other: Self) {
        self.wall_s += other.wall_s;
        self.cpu_s += other.cpu_s;
        self.allocated += other.allocated;
    }
}

/// Returns the nearest-rank percentile.
pub(crate) fn percentile(values: &[f64], q: f64) -> f64 {
    let sorted = sorted_values(values);
    let rank = (q / 100.0 * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.clamp(1, sorted.len().max(1)) - 1).copied().unwrap_or(f64::NAN)
}

/// Returns the middle value, or the mean of the two in the middle.
pub(crate) fn median(values: &[f64]) -> f64 {
    let sorted = sorted_values(values);
    let n = sorted.len();
    if n == 0 { f64::NAN } else { (sorted[n / 2] + sorted[(n - 1) / 2]) / 2.0 }
}

fn sorted_values(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

/// Returns the most memory that the process ever had resident, in MiB.
pub(crate) fn peak_rss_mib() -> io::Result<f64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<f64>().ok());
    kib.map(|kib| kib / 1024.0).ok_or_else(|| io::Error::other("/proc/self/status has no VmHWM"))
}

/// Makes figures of a JSON object; of anything else, none.
pub(crate) fn figures_from_json(value: Value) -> Figures {
    match value {
        Value::Object(figures) => figures,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            Figures::new()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{median, percentile};

    #[test]
    fn percentiles_are_nearest_ranks_and_a_median_is_between_the_middle_two() {
        let hundred: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        assert_eq!([50.0, 99.0, 100.0, 0.0].map(|q| percentile(&hundred, q)), [50.0, 99.0, 100.0, 1.0]);
        assert_eq!(percentile(&[7.0], 99.0), 7.0);
        assert_eq!((median(&hundred), median(&[3.0, 1.0, 2.0])), (50.5, 2.0));
    }
}
