//! The usage of quotas: a table of the tenants and keys that have used something.

use std::collections::HashMap;

use singletree_durable::Timestamp;
use singletree_harness::QuotaExceeded;

use super::meter::RateMeter;

/// Bytes that an entry takes beside its name, about.
const ENTRY_BYTES: usize = 256;

/// The usage of a key or a tenant.
#[derive(Debug, Clone, Default)]
pub(super) struct QuotaUsage {
    pub(super) requests: RateMeter,
    pub(super) sessions: RateMeter,
    pub(super) sign_ins: RateMeter,
    pub(super) streams: u64,
    pub(super) turns: u64,
    /// The last refusal.
    pub(super) refused: Option<QuotaExceeded>,
}

impl QuotaUsage {
    /// Tells whether it says no more than no entry would.
    fn is_idle(&self, now: Timestamp) -> bool {
        let meters = [&self.requests, &self.sessions, &self.sign_ins];
        self.streams == 0 && self.turns == 0 && meters.iter().all(|meter| meter.is_free(now))
    }
}

/// The usage of a tenant, and of each of its keys.
#[derive(Debug, Default)]
pub(super) struct TenantUsage {
    pub(super) whole: QuotaUsage,
    pub(super) keys: HashMap<String, QuotaUsage>,
}

/// The usage of all tenants. It is bounded in bytes (INV-12): an entry is removed when its usage is zero.
#[derive(Debug)]
pub(super) struct UsageTable {
    tenants: HashMap<String, TenantUsage>,
    bytes: usize,
    max_bytes: usize,
}

impl UsageTable {
    pub(super) fn new(max_bytes: usize) -> Self {
        Self { tenants: HashMap::new(), bytes: 0, max_bytes }
    }

    /// Returns the usage of a tenant and of one of its keys; none when the table is full of active entries.
    pub(super) fn usage_of_key(
        &mut self,
        (tenant, key): (&str, &str),
        now: Timestamp,
    ) -> Option<(&mut QuotaUsage, &mut QuotaUsage)> {
        let known = self.tenants.get(tenant).is_some_and(|tenants| tenants.keys.contains_key(key));
        if !known {
            if self.bytes + self.missing_bytes(tenant, key) > self.max_bytes {
                self.remove_idle_entries(now);
            }
            let bytes = self.missing_bytes(tenant, key);
            if self.bytes + bytes > self.max_bytes {
                return None;
            }
            self.bytes += bytes;
        }
        if !self.tenants.contains_key(tenant) {
            self.tenants.insert(tenant.to_owned(), TenantUsage::default());
        }
        let TenantUsage { whole, keys } = self.tenants.get_mut(tenant)?;
        if !keys.contains_key(key) {
            keys.insert(key.to_owned(), QuotaUsage::default());
        }
        Some((whole, keys.get_mut(key)?))
    }

    /// Returns the bytes that the entry of a new key takes, and that of its tenant where there is none.
    fn missing_bytes(&self, tenant: &str, key: &str) -> usize {
        let of_tenant = if self.tenants.contains_key(tenant) { 0 } else { tenant.len() + ENTRY_BYTES };
        of_tenant + key.len() + ENTRY_BYTES
    }

    /// Removes the entries without usage.
    pub(super) fn remove_idle_entries(&mut self, now: Timestamp) {
        for tenant in self.tenants.values_mut() {
            tenant.keys.retain(|_, usage| !usage.is_idle(now));
        }
        self.tenants.retain(|_, tenant| !tenant.keys.is_empty() || !tenant.whole.is_idle(now));
        let bytes = |(name, tenant): (&String, &TenantUsage)| {
            name.len() + ENTRY_BYTES + tenant.keys.keys().map(|key| key.len() + ENTRY_BYTES).sum::<usize>()
        };
        self.bytes = self.tenants.iter().map(bytes).sum();
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.tenants.values().map(|tenant| tenant.keys.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::meter::QuotaRate;
    use super::*;

    // INV-12
    #[test]
    fn the_table_is_bounded_in_bytes_and_what_is_idle_makes_room() {
        let rate = QuotaRate::new(10, Duration::from_mins(1));
        let now = Timestamp::from_millis(1_000_000);
        let mut table = UsageTable::new(8 * ENTRY_BYTES);
        let mut admitted = Vec::new();
        for key in ["a", "b", "c", "d", "e", "f", "g", "h", "i"] {
            if let Some((whole, used)) = table.usage_of_key(("tenant", key), now) {
                whole.requests.count_one_use(rate, now);
                used.requests.count_one_use(rate, now);
                admitted.push(key);
            }
            assert!(table.bytes <= 8 * ENTRY_BYTES, "{}", table.bytes);
        }
        assert_eq!(
            admitted,
            ["a", "b", "c", "d", "e", "f"],
            "a seventh key would take more than the table may"
        );
        // An entry that holds a stream stays, whatever time it is.
        table.usage_of_key(("tenant", "b"), now).unwrap().1.streams = 1;
        let later = now.saturating_add(Duration::from_mins(2));
        assert!(table.usage_of_key(("other", "x"), later).is_some());
        assert_eq!(table.len(), 2);
        assert_eq!(table.usage_of_key(("tenant", "b"), later).unwrap().1.streams, 1);
    }
}
