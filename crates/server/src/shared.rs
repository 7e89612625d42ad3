//! What all sections share.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use singletree_agent::ChatAgent;
use singletree_durable::{Documents, TenantId, Timestamp};
use singletree_engine::{Clock, Ids};
use singletree_harness::Chat;
use singletree_http::{Redactor, Transport};
use singletree_llm::Pace;
use tokio::sync::{Semaphore, watch};

use crate::caller::Caller;
use crate::entropy::Entropy;
use crate::keys::{Access, Audit};
use crate::narration::{NarrationLog, NarrationView};
use crate::notify::Endpoint;
use crate::openharness::Environments;
use crate::quota::QuotaLedger;
use crate::settings::ServerLimits;
use crate::store_health::StoreHealth;
use crate::system::SystemProbe;
use crate::telemetry::Telemetry;

/// What all sections share.
pub(crate) struct Shared {
    /// The chat, of which each tenant sees its own part.
    pub(crate) chat: Chat,
    /// What is kept beside the conversations.
    pub(crate) documents: Arc<dyn Documents>,
    /// The agents, as clients list them.
    pub(crate) agents: Vec<ChatAgent>,
    /// The bounds.
    pub(crate) limits: ServerLimits,
    /// The time.
    pub(crate) clock: Arc<dyn Clock>,
    /// Names.
    pub(crate) ids: Arc<dyn Ids>,
    /// What nobody can guess.
    pub(crate) entropy: Arc<dyn Entropy>,
    /// What keeps secrets out of texts (INV-16).
    pub(crate) redactor: Redactor,
    /// What fetches from addresses that callers name; where there is none, nothing is fetched.
    pub(crate) fetch: Option<Arc<dyn Transport>>,
    /// What devices say of themselves while their requests are answered.
    pub(crate) environments: Arc<Environments>,
    /// What people are told beside the conversations.
    pub(crate) narration: NarrationLog,
    /// Where notices are told.
    pub(crate) endpoints: Vec<Endpoint>,
    /// Lets time pass.
    pub(crate) pace: Arc<dyn Pace>,
    /// How many more blobs may be in memory.
    pub(crate) blobs: Arc<Semaphore>,
    /// Who may ask.
    pub(crate) access: Access,
    /// Who did what.
    pub(crate) audit: Arc<Audit>,
    /// How much of the server a key and a tenant may use.
    pub(crate) quotas: Arc<QuotaLedger>,
    /// What an operator sees.
    pub(crate) telemetry: Telemetry,
    /// Becomes true when what a process before this one left was taken over.
    pub(crate) ready: AtomicBool,
    /// What tells what the process uses of the system under it.
    pub(crate) system: Option<Arc<dyn SystemProbe>>,
    /// Whether the store can be written.
    pub(crate) store_health: StoreHealth,
    /// Becomes true when streams are to end: what runs has ended, or had its time.
    pub(crate) closing: watch::Sender<bool>,
}

impl Shared {
    /// Returns the caller's part of the chat (INV-14).
    pub(crate) fn chat(&self, caller: &Caller) -> Chat {
        let chat = self.chat_of(caller.tenant.clone());
        let chat = match &caller.subject {
            Some(subject) => chat.on_behalf_of(subject.clone()),
            None => chat,
        };
        match self.quotas.admission(caller) {
            Some(admission) => chat.admitting(admission),
            None => chat,
        }
    }

    /// Looks at the narration of a session, for those who show it to people.
    pub(crate) fn narration_of(&self, tenant: &TenantId, session: &str) -> NarrationView {
        NarrationView::of(&self.narration, tenant, session)
    }

    /// Returns a tenant's part of the chat.
    pub(crate) fn chat_of(&self, tenant: TenantId) -> Chat {
        self.chat.of(tenant)
    }

    /// Returns the present time.
    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("limits", &self.limits).finish_non_exhaustive()
    }
}
