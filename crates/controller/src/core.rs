//! The shared parts of the controller: the store, the agents, and the one path by which a campaign changes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use singletree_agent::{AgentResources, Artifacts};
use singletree_campaign::{
    CampaignBoard, CampaignEvent, CampaignStore, Error as CampaignError, ProofPolicy, StoredCampaign,
    campaign_session,
};
use singletree_durable::{DocumentChange, SessionId, SessionKey, TenantId};
use singletree_env::Env;
use singletree_tools::Effect;
use tokio::sync::oneshot;

use crate::error::{Error, Result};
use crate::follow::FollowerHub;
use crate::limits::ControllerLimits;
use crate::narrate::CampaignNarrator;
use crate::queue::RunnerQueue;
use crate::template::CampaignTemplate;

/// How often a decision is made anew over a campaign that somebody else has changed in the meantime.
const ATTEMPTS: u32 = 16;

/// The name of a campaign in all tenants.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct CampaignKey {
    pub(crate) tenant: TenantId,
    pub(crate) id: String,
}

impl CampaignKey {
    pub(crate) fn new(tenant: &TenantId, id: &str) -> Self {
        Self { tenant: tenant.clone(), id: id.to_owned() }
    }

    /// Returns the session in which its cycles run.
    ///
    /// # Errors
    /// `campaign_unknown` for an id that can be no campaign's.
    pub(crate) fn session_key(&self) -> Result<SessionKey> {
        let session = SessionId::parse(campaign_session(&self.id));
        let session = session.map_err(|_| Error::Unknown { id: self.id.clone() })?;
        Ok(SessionKey::new(self.tenant.clone(), session))
    }
}

/// The events of one commit, and the documents that change with them.
#[derive(Debug, Default)]
pub(crate) struct CampaignDecision {
    pub(crate) events: Vec<CampaignEvent>,
    pub(crate) changes: Vec<DocumentChange>,
}

impl From<Vec<CampaignEvent>> for CampaignDecision {
    fn from(events: Vec<CampaignEvent>) -> Self {
        Self { events, changes: Vec::new() }
    }
}

/// The shared parts of a controller.
#[derive(Debug)]
pub(crate) struct ControllerCore {
    pub(crate) store: CampaignStore,
    pub(crate) artifacts: Artifacts,
    /// The agents that may pursue campaigns, by name.
    pub(crate) agents: BTreeMap<String, AgentResources>,
    /// The agent of campaigns that name none.
    pub(crate) default_agent: Option<String>,
    pub(crate) templates: Vec<CampaignTemplate>,
    /// The tools of MCP servers that may read proofs, as (server, tool).
    pub(crate) verify_tools: BTreeSet<(String, String)>,
    pub(crate) limits: ControllerLimits,
    pub(crate) env: Env,
    pub(crate) narrator: CampaignNarrator,
    pub(crate) followers: Arc<FollowerHub>,
    pub(crate) queue: RunnerQueue,
}

impl ControllerCore {
    /// Reads a campaign.
    ///
    /// # Errors
    /// `campaign_unknown`, `campaign_log_corrupt`, `store_unavailable` and its kin.
    pub(crate) async fn load_campaign(&self, key: &CampaignKey) -> Result<StoredCampaign> {
        let stored = self.store.load(&key.tenant, &key.id).await?;
        stored.ok_or_else(|| Error::Unknown { id: key.id.clone() })
    }

    /// Decides about a campaign as it is now, and commits the decision. When somebody else commits in between, the
    /// campaign is read and decided about anew. A decision without events and changes commits nothing.
    ///
    /// # Errors
    /// Those of the decision; `campaign_unknown`; `campaign_changed` when others keep changing it; `store_unavailable`
    /// and its kin.
    ///
    /// # Cancellation
    /// A dropped call has committed the decision or nothing. A committed decision takes effect.
    pub(crate) async fn decide(
        self: &Arc<Self>,
        key: &CampaignKey,
        decision: impl Fn(&CampaignBoard) -> Result<CampaignDecision> + Send,
    ) -> Result<StoredCampaign> {
        let mut attempt = 1;
        loop {
            let stored = self.load_campaign(key).await?;
            let decided = decision(&stored.board)?;
            if decided.events.is_empty() && decided.changes.is_empty() {
                return Ok(stored);
            }
            match self.commit_decision(key, stored, decided).await {
                Err(CampaignError::Changed { .. }) if attempt < ATTEMPTS => attempt += 1,
                committed => return Ok(committed?),
            }
        }
    }

    /// Commits events over a campaign, then tells whoever follows it, narrates them, and wakes the runner.
    async fn commit_decision(
        self: &Arc<Self>,
        key: &CampaignKey,
        stored: StoredCampaign,
        CampaignDecision { events, changes }: CampaignDecision,
    ) -> Result<StoredCampaign, CampaignError> {
        let (core, key) = (self.clone(), key.clone());
        let committing = async move {
            let at = core.env.clock.now();
            let committed = core.store.commit(&stored, events.clone(), (at, changes)).await;
            let committed = committed.inspect_err(|error| core.recheck_after_failure(&key, error))?;
            core.followers.announce_change(&key);
            core.narrator.narrate_events(&key, &events, (&stored.board, &committed.board), at);
            core.queue.wake_campaign(&key, &committed.board);
            Ok(committed)
        };
        self.run_in_task(committing).await
    }

    /// Runs a commit and its follow-up in a task of its own: if the caller's future is dropped after the commit, the runner
    /// must still be woken.
    pub(crate) async fn run_in_task<T, E>(
        &self,
        committing: impl Future<Output = Result<T, E>> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<CampaignError> + Send + 'static,
    {
        let (answer, answered) = oneshot::channel();
        self.env.spawner.spawn_task(Box::pin(async move {
            // The caller may have gone.
            drop(answer.send(committing.await));
        }));
        // The task is dropped when its runtime stops.
        answered.await.unwrap_or_else(|_| Err(CampaignError::from(singletree_durable::Error::Closed).into()))
    }

    /// Lets the runner read a campaign again a little later, after the store answered a commit with an error: the commit may
    /// have landed.
    pub(crate) fn recheck_after_failure(&self, key: &CampaignKey, error: &CampaignError) {
        if let CampaignError::Store(_) = error {
            self.queue.set_pause(key, self.env.clock.now().saturating_add(self.limits.store_retry));
        }
    }

    /// Finds the agent of a campaign.
    ///
    /// # Errors
    /// `campaign_agent_unknown`.
    pub(crate) fn find_agent(&self, agent: &str) -> Result<&AgentResources> {
        self.agents.get(agent).ok_or_else(|| Error::AgentUnknown { agent: agent.to_owned() })
    }

    /// Says what is permitted as proof in plans of an agent's campaigns, by its tools as they are now.
    pub(crate) async fn read_proof_policy(&self, agent: &AgentResources) -> ProofPolicy {
        let tools = agent.current_tools().await;
        let reading = tools.list_effects().filter(|(_, effect)| *effect == Effect::Read);
        ProofPolicy {
            verify_tools: self.verify_tools.clone(),
            reading_tools: reading.map(|(name, _)| name.to_owned()).collect(),
        }
    }
}
