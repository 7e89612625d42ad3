//! The quotas of a tenant, for its campaigns.

use std::sync::Arc;

use singletree_controller::CampaignAdmission;
use singletree_durable::{TenantBlobTotals, TenantId};
use singletree_harness::{Admission, QuotaExceeded, TurnPermit};

use super::ledger::QuotaLedger;
use crate::caller::Caller;

/// The name under which the campaigns of a tenant use its quotas.
const ACCOUNT: &str = "campaigns";

/// Decides how much the campaigns of tenants may use.
#[derive(Debug)]
pub(crate) struct CampaignQuotas(pub(crate) Arc<QuotaLedger>);

impl CampaignAdmission for CampaignQuotas {
    fn admission_of_tenant(&self, tenant: &TenantId) -> Option<Arc<dyn Admission>> {
        let (tenant, name) = (tenant.clone(), ACCOUNT.to_owned());
        let caller = Caller { tenant, name, scopes: Vec::new(), valid_until: None, subject: None };
        self.0.admission_of_caller(&caller).map(|of_caller| Arc::new(CycleAdmission(of_caller)) as Arc<_>)
    }
}

/// Admits the cycles of a tenant's campaigns. Their tokens and blobs count as those of all turns. Their number does not:
/// the runner bounds how many run at once, and a cycle that would have to wait for a moment pauses nothing.
#[derive(Debug)]
struct CycleAdmission(Arc<dyn Admission>);

impl Admission for CycleAdmission {
    fn admit_turn(&self) -> Result<TurnPermit, QuotaExceeded> {
        Ok(Box::new(()))
    }

    fn admit_session(&self) -> Result<(), QuotaExceeded> {
        Ok(())
    }

    fn counts_tokens(&self) -> bool {
        self.0.counts_tokens()
    }

    fn admit_tokens(&self, used: u64) -> Result<(), QuotaExceeded> {
        self.0.admit_tokens(used)
    }

    fn account_holder(&self) -> &str {
        self.0.account_holder()
    }

    fn admit_blob(&self, bytes: u64, kept: TenantBlobTotals) -> Result<(), QuotaExceeded> {
        self.0.admit_blob(bytes, kept)
    }
}
