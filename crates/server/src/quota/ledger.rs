//! Decides whether a caller may use something, and counts it.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use singletree_durable::{TenantBlobTotals, Timestamp};
use singletree_engine::Clock;
use singletree_harness::{Admission, QuotaExceeded, TurnPermit};

use super::limits::Quotas;
use super::meter::{QuotaRate, RateMeter};
use super::usage::{QuotaUsage, UsageTable};
use crate::caller::Caller;
use crate::telemetry::ServerMetrics;

/// Bytes of the usage table: enough for some 30,000 keys that are active within a minute.
const TABLE_BYTES: usize = 16 << 20;

/// A quota that is no bound: nothing is counted for it.
const UNBOUNDED: u64 = u64::MAX;

const MINUTE: Duration = Duration::from_mins(1);
const HOUR: Duration = Duration::from_hours(1);
/// The `retry_after` of a quota that is free again when a stream or a turn of the key or tenant ends.
const SOON: Duration = Duration::from_secs(1);

/// Decides by the quotas of a server whether a caller may use something.
pub(crate) struct QuotaLedger {
    /// None where nobody is asked for a key.
    quotas: Option<Quotas>,
    /// Streams of a tenant that half of the descriptors of this process allow.
    streams_max: u64,
    clock: Arc<dyn Clock>,
    metrics: Arc<ServerMetrics>,
    table: Mutex<UsageTable>,
}

/// A resource that is counted while it is in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CountedResource {
    Stream,
    Turn,
}

/// A part of a quota that is given back when this is dropped.
pub(crate) struct QuotaUsePermit {
    ledger: Arc<QuotaLedger>,
    tenant: String,
    key: String,
    held: CountedResource,
}

/// A quota with a number for a key and one for its tenant: a rate, or a count of resources in use.
struct CallerQuota {
    name: &'static str,
    unit: &'static str,
    key: u64,
    tenant: u64,
}

impl QuotaLedger {
    pub(crate) fn new(
        quotas: Option<Quotas>,
        descriptors: Option<u64>,
        clock: Arc<dyn Clock>,
        metrics: Arc<ServerMetrics>,
    ) -> Arc<Self> {
        let streams_max = descriptors.map_or(u64::MAX, |descriptors| descriptors / 2);
        let table = Mutex::new(UsageTable::new(TABLE_BYTES));
        Arc::new(Self { quotas, streams_max, clock, metrics, table })
    }

    /// Returns the quotas that a caller has; the operator has none, so that keys can be revoked at any time.
    pub(crate) fn quotas_of_caller(&self, caller: &Caller) -> Option<&Quotas> {
        self.quotas.as_ref().filter(|_| !caller.is_operator())
    }

    /// Counts a request. One that manages keys counts for its key alone.
    ///
    /// # Errors
    /// The quota that is used up.
    pub(crate) fn admit_request(&self, caller: &Caller, manages_keys: bool) -> Result<(), QuotaExceeded> {
        let Some(Quotas { key, tenant }) = self.quotas_of_caller(caller) else { return Ok(()) };
        let (key, tenant) = (key.requests, if manages_keys { UNBOUNDED } else { tenant.requests });
        let quota = CallerQuota { name: "requests", unit: "requests a minute", key, tenant };
        self.count_rate_use(caller, &quota, MINUTE, |usage| &mut usage.requests)
    }

    /// Counts a new session.
    ///
    /// # Errors
    /// The quota that is used up.
    fn admit_session(&self, caller: &Caller) -> Result<(), QuotaExceeded> {
        let Some(Quotas { key, tenant }) = self.quotas_of_caller(caller) else { return Ok(()) };
        let (key, tenant) = (key.sessions, tenant.sessions);
        let quota = CallerQuota { name: "sessions", unit: "new sessions a minute", key, tenant };
        self.count_rate_use(caller, &quota, MINUTE, |usage| &mut usage.sessions)
    }

    /// Counts a sign-in on the page.
    ///
    /// # Errors
    /// The quota that is used up.
    pub(crate) fn admit_sign_in(&self, caller: &Caller) -> Result<(), QuotaExceeded> {
        let Some(Quotas { tenant, .. }) = self.quotas_of_caller(caller) else { return Ok(()) };
        let (key, tenant) = (UNBOUNDED, tenant.sign_ins);
        let quota = CallerQuota { name: "sign_ins", unit: "sign-ins an hour", key, tenant };
        self.count_rate_use(caller, &quota, HOUR, |usage| &mut usage.sign_ins)
    }

    /// Looks whether a tenant that has used so many tokens may use more.
    ///
    /// # Errors
    /// The quota that is used up.
    fn admit_tokens(&self, caller: &Caller, used: u64) -> Result<(), QuotaExceeded> {
        let Some(limit) = self.quotas_of_caller(caller).and_then(|quotas| quotas.tenant.tokens) else {
            return Ok(());
        };
        if used < limit {
            return Ok(());
        }
        let quota = CallerQuota { name: "tokens", unit: "tokens of models", key: u64::MAX, tenant: limit };
        // Somebody has to raise it: nobody knows when that is.
        let exceeded = self.remember_refusal(caller, quota.exceeded_by_tenant(HOUR));
        Err(self.count_refusal(exceeded))
    }

    /// Keeps a refusal for those to whom only its category comes.
    fn remember_refusal(&self, caller: &Caller, exceeded: QuotaExceeded) -> QuotaExceeded {
        let now = self.clock.now();
        if let Some((_, one)) = self.lock_table().usage_of_key((caller.tenant.as_str(), &caller.name), now) {
            one.refused = Some(exceeded.clone());
        }
        exceeded
    }

    /// Checks whether a blob fits into the quotas of a caller and its tenant.
    ///
    /// # Errors
    /// The quota that is used up.
    fn admit_blob(&self, caller: &Caller, bytes: u64, kept: TenantBlobTotals) -> Result<(), QuotaExceeded> {
        let Some(Quotas { key, tenant }) = self.quotas_of_caller(caller) else { return Ok(()) };
        let (key, tenant) = (key.blob_bytes, tenant.blob_bytes);
        let quota = CallerQuota { name: "blob_bytes", unit: "bytes of blobs", key, tenant };
        // There is room again when a session is deleted: nobody knows when that is.
        let exceeded = if kept.holder_bytes.saturating_add(bytes) > key {
            quota.exceeded_by_key(HOUR)
        } else if kept.tenant_bytes.saturating_add(bytes) > tenant {
            quota.exceeded_by_tenant(HOUR)
        } else {
            return Ok(());
        };
        Err(self.count_refusal(exceeded))
    }

    /// Takes the place of a stream; none is needed where no quota applies.
    ///
    /// # Errors
    /// The quota that is used up.
    pub(crate) fn open_stream(
        self: &Arc<Self>,
        caller: &Caller,
    ) -> Result<Option<QuotaUsePermit>, QuotaExceeded> {
        let Some(Quotas { key, tenant }) = self.quotas_of_caller(caller) else { return Ok(None) };
        let (key, tenant) = (key.streams, tenant.streams.min(self.streams_max));
        let quota = CallerQuota { name: "streams", unit: "open streams", key, tenant };
        self.hold_resource(caller, &quota, CountedResource::Stream).map(Some)
    }

    /// Takes the place of a turn; none is needed where no quota applies.
    fn begin_turn(self: &Arc<Self>, caller: &Caller) -> Result<Option<QuotaUsePermit>, QuotaExceeded> {
        let Some(Quotas { key, tenant }) = self.quotas_of_caller(caller) else { return Ok(None) };
        let (key, tenant) = (key.turns, tenant.turns);
        let quota = CallerQuota { name: "turns", unit: "running turns", key, tenant };
        self.hold_resource(caller, &quota, CountedResource::Turn).map(Some)
    }

    /// Looks whether another turn of a caller would be admitted now: for those who answer before they send.
    ///
    /// # Errors
    /// The quota that is used up.
    pub(crate) fn check_turn_quota(self: &Arc<Self>, caller: &Caller) -> Result<(), QuotaExceeded> {
        self.begin_turn(caller).map(drop)
    }

    /// Makes the admission of a caller's turns and sessions; none where no quota applies.
    pub(crate) fn admission_of_caller(self: &Arc<Self>, caller: &Caller) -> Option<Arc<dyn Admission>> {
        self.quotas_of_caller(caller)?;
        Some(Arc::new(CallerAdmission { ledger: self.clone(), caller: caller.clone() }))
    }

    /// Returns the last refusal of a caller, for places that received only the category.
    pub(crate) fn last_refusal(&self, caller: &Caller) -> Option<QuotaExceeded> {
        let now = self.clock.now();
        self.lock_table().usage_of_key((caller.tenant.as_str(), &caller.name), now)?.1.refused.clone()
    }

    /// Counts a refusal.
    fn count_refusal(&self, exceeded: QuotaExceeded) -> QuotaExceeded {
        self.metrics.count_quota_refusal(exceeded.quota, exceeded.scope);
        exceeded
    }

    fn lock_table(&self) -> MutexGuard<'_, UsageTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts one more of a rate, for a key and its tenant or for neither.
    fn count_rate_use(
        &self,
        caller: &Caller,
        quota: &CallerQuota,
        period: Duration,
        meter: impl Fn(&mut QuotaUsage) -> &mut RateMeter,
    ) -> Result<(), QuotaExceeded> {
        let now = self.clock.now();
        let (of_key, of_tenant) = (QuotaRate::new(quota.key, period), QuotaRate::new(quota.tenant, period));
        let mut table = self.lock_table();
        let found = table.usage_of_key((caller.tenant.as_str(), &caller.name), now);
        let Some((whole, one)) = found else { return Err(self.count_refusal(table_full_refusal())) };
        let by_key = meter(one).required_wait(of_key, now).filter(|_| quota.key != UNBOUNDED);
        let by_tenant = meter(whole).required_wait(of_tenant, now).filter(|_| quota.tenant != UNBOUNDED);
        let by_key = by_key.map(|wait| quota.exceeded_by_key(wait));
        if let Some(exceeded) = by_key.or_else(|| by_tenant.map(|wait| quota.exceeded_by_tenant(wait))) {
            one.refused = Some(exceeded.clone());
            return Err(self.count_refusal(exceeded));
        }
        if quota.key != UNBOUNDED {
            meter(one).count_one_use(of_key, now);
        }
        if quota.tenant != UNBOUNDED {
            meter(whole).count_one_use(of_tenant, now);
        }
        Ok(())
    }

    /// Counts one more resource in use, for both the key and its tenant or for neither.
    fn hold_resource(
        self: &Arc<Self>,
        caller: &Caller,
        quota: &CallerQuota,
        held: CountedResource,
    ) -> Result<QuotaUsePermit, QuotaExceeded> {
        let now = self.clock.now();
        let mut table = self.lock_table();
        let found = table.usage_of_key((caller.tenant.as_str(), &caller.name), now);
        let Some((whole, one)) = found else { return Err(self.count_refusal(table_full_refusal())) };
        let exceeded =
            match (*held.usage_count_mut(one) >= quota.key, *held.usage_count_mut(whole) >= quota.tenant) {
                (true, _) => Some(quota.exceeded_by_key(SOON)),
                (false, true) => Some(quota.exceeded_by_tenant(SOON)),
                (false, false) => None,
            };
        if let Some(exceeded) = exceeded {
            one.refused = Some(exceeded.clone());
            return Err(self.count_refusal(exceeded));
        }
        *held.usage_count_mut(one) += 1;
        *held.usage_count_mut(whole) += 1;
        drop(table);
        let (tenant, key) = (caller.tenant.to_string(), caller.name.clone());
        Ok(QuotaUsePermit { ledger: self.clone(), tenant, key, held })
    }

    fn release_resource(&self, (tenant, key): (&str, &str), held: CountedResource, now: Timestamp) {
        // The entry is there as long as it holds something.
        if let Some((whole, one)) = self.lock_table().usage_of_key((tenant, key), now) {
            for usage in [whole, one] {
                let count = held.usage_count_mut(usage);
                *count = count.saturating_sub(1);
            }
        }
    }
}

impl CountedResource {
    fn usage_count_mut(self, usage: &mut QuotaUsage) -> &mut u64 {
        match self {
            Self::Stream => &mut usage.streams,
            Self::Turn => &mut usage.turns,
        }
    }
}

impl CallerQuota {
    fn exceeded_by_key(&self, retry_after: Duration) -> QuotaExceeded {
        let (quota, unit, limit) = (self.name, self.unit, self.key);
        QuotaExceeded { quota, scope: "key", limit, unit, retry_after }
    }

    fn exceeded_by_tenant(&self, retry_after: Duration) -> QuotaExceeded {
        QuotaExceeded { scope: "tenant", limit: self.tenant, ..self.exceeded_by_key(retry_after) }
    }
}

/// Returns the refusal of a key for which the usage table has no room.
fn table_full_refusal() -> QuotaExceeded {
    let (quota, scope, unit) = ("callers", "server", "bytes for what keys use at once");
    QuotaExceeded { quota, scope, limit: TABLE_BYTES as u64, unit, retry_after: MINUTE }
}

impl Drop for QuotaUsePermit {
    fn drop(&mut self) {
        let now = self.ledger.clock.now();
        self.ledger.release_resource((&self.tenant, &self.key), self.held, now);
    }
}

/// Admits the turns and sessions of one caller.
#[derive(Debug)]
struct CallerAdmission {
    ledger: Arc<QuotaLedger>,
    caller: Caller,
}

impl Admission for CallerAdmission {
    fn admit_turn(&self) -> Result<TurnPermit, QuotaExceeded> {
        Ok(Box::new(self.ledger.begin_turn(&self.caller)?))
    }

    fn admit_session(&self) -> Result<(), QuotaExceeded> {
        self.ledger.admit_session(&self.caller)
    }

    fn counts_tokens(&self) -> bool {
        self.ledger.quotas_of_caller(&self.caller).is_some_and(|quotas| quotas.tenant.tokens.is_some())
    }

    fn admit_tokens(&self, used: u64) -> Result<(), QuotaExceeded> {
        self.ledger.admit_tokens(&self.caller, used)
    }

    fn account_holder(&self) -> &str {
        &self.caller.name
    }

    fn admit_blob(&self, bytes: u64, kept: TenantBlobTotals) -> Result<(), QuotaExceeded> {
        self.ledger.admit_blob(&self.caller, bytes, kept)
    }
}

impl fmt::Debug for QuotaLedger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QuotaLedger").field("quotas", &self.quotas).finish_non_exhaustive()
    }
}

impl fmt::Debug for QuotaUsePermit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UsePermit({:?})", self.held)
    }
}
