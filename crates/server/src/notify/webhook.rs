//! Where a tenant's notices are told, which, and how.

use std::collections::BTreeSet;
use std::time::Duration;

use singletree_durable::TenantId;
use singletree_harness::NoticeType;
use singletree_http::{Secret, is_this_machine};

use super::sign::SigningKey;
use crate::{Error, Result};

/// How long a deadline is off when it is told of, unless something else is said.
const LEAD: Duration = Duration::from_hours(1);
/// For how long it is tried to tell a notice, unless something else is said.
const GIVE_UP: Duration = Duration::from_hours(24);
/// For how long at most: notices are not kept longer.
const GIVE_UP_MAX: Duration = Duration::from_hours(7 * 24);
/// How long an endpoint may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Where a tenant's notices are told, which, and how. `Debug` shows no secret.
#[derive(Debug, Clone)]
pub struct Webhook {
    pub(super) tenant: TenantId,
    pub(super) url: String,
    pub(super) keys: Vec<SigningKey>,
    pub(super) types: BTreeSet<NoticeType>,
    pub(super) lead: Duration,
    pub(super) give_up: Duration,
    pub(super) patience: Duration,
    pub(super) link: Option<String>,
    /// Whether it may be on the private network. On this machine it may where its address says so.
    pub(super) private: bool,
}

impl Webhook {
    /// Sends the notices of a tenant, of all types, to an address: one that begins with `https://`, or one with
    /// `http://` on this machine.
    ///
    /// The secret signs the requests. It is `whsec_` and base64 of 24 bytes or more, or any text of 24 bytes or more.
    ///
    /// # Errors
    /// `server_webhook_invalid`.
    pub fn new(tenant: TenantId, url: impl Into<String>, secret: &Secret) -> Result<Self> {
        let url = url.into();
        let invalid = |why: &str| Error::Webhook { tenant: tenant.to_string(), why: why.to_owned() };
        let here = is_this_machine(&url).map_err(|error| invalid(&error.to_string()))?;
        if !url.starts_with("https://") && !here {
            return Err(invalid("the address must begin with https://, unless it is on this machine"));
        }
        let key = SigningKey::from_secret(secret).map_err(invalid)?;
        Ok(Self {
            tenant,
            url,
            keys: vec![key],
            types: NoticeType::ALL.into(),
            lead: LEAD,
            give_up: GIVE_UP,
            patience: PATIENCE,
            link: None,
            private: false,
        })
    }

    /// Signs with the secret of before, too, until everybody knows the new one.
    ///
    /// # Errors
    /// `server_webhook_invalid`.
    pub fn old_secret(mut self, secret: &Secret) -> Result<Self> {
        let key = SigningKey::from_secret(secret);
        let tenant = self.tenant.to_string();
        self.keys.push(key.map_err(|why| Error::Webhook { tenant, why: why.to_owned() })?);
        Ok(self)
    }

    /// Sets which notices are told; all types otherwise.
    #[must_use]
    pub fn notice_types(mut self, types: impl IntoIterator<Item = NoticeType>) -> Self {
        self.types = types.into_iter().collect();
        self
    }

    /// Sets how long before a deadline its notice is sent; an hour otherwise. For a short wait it is sent when half of
    /// its time has passed.
    #[must_use]
    pub fn expiring_before(mut self, lead: Duration) -> Self {
        self.lead = lead;
        self
    }

    /// Sets for how long it is tried to tell a notice; a day otherwise, a week at most.
    #[must_use]
    pub fn give_up_after(mut self, age: Duration) -> Self {
        self.give_up = age.min(GIVE_UP_MAX);
        self
    }

    /// Sets how long the endpoint may take to answer; ten seconds otherwise.
    #[must_use]
    pub fn response_timeout(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Sets the address for people in a notice: a template in which `{tenant}`, `{session}` and `{signal}` stand for
    /// those of the notice.
    #[must_use]
    pub fn link_template(mut self, link: impl Into<String>) -> Self {
        self.link = Some(link.into());
        self
    }

    /// Lets the endpoint be on the private network. Otherwise its name must resolve to public addresses.
    #[must_use]
    pub fn private_network(mut self, private: bool) -> Self {
        self.private = private;
        self
    }

    /// Returns whose notices it tells.
    #[must_use]
    pub fn tenant(&self) -> &TenantId {
        &self.tenant
    }

    /// Returns which notices it tells.
    pub fn wanted_types(&self) -> impl Iterator<Item = NoticeType> {
        self.types.iter().copied()
    }
}
