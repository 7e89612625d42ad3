//! How much the campaigns of a tenant may use.

use std::fmt;
use std::sync::Arc;

use singletree_durable::TenantId;
use singletree_harness::Admission;

/// Decides how much the campaigns of tenants may use ([`Controller::admitting`](crate::Controller::admitting)).
pub trait CampaignAdmission: fmt::Debug + Send + Sync {
    /// Returns the admission of the cycles of a tenant's campaigns; none where they have no quota. A cycle that is refused
    /// pauses its campaign with the category of the refusal, until a person resumes it.
    fn admission_of_tenant(&self, tenant: &TenantId) -> Option<Arc<dyn Admission>>;
}
