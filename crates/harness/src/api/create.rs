//! Making a session before anything is said in it.

use std::sync::Arc;

use singletree_durable::Error as StoreError;
use singletree_session::{TurnPromptPolicy, apply};

use crate::api::chat::Chat;
use crate::api::sessions::SessionInfo;
use crate::runtime::chat_inner::ServedAgent;
use crate::runtime::loaded_session::LoadedSession;
use crate::{Error, Result};

/// How a session is made.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CreateOptions {
    session: Option<String>,
    agent: Option<String>,
    policy: Option<TurnPromptPolicy>,
}

impl CreateOptions {
    /// Makes options of a session under an id that is drawn, of the first agent.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the session's id.
    #[must_use]
    pub fn session(mut self, id: impl Into<String>) -> Self {
        self.session = Some(id.into());
        self
    }

    /// Names the agent that answers in it.
    #[must_use]
    pub fn agent(mut self, agent: impl Into<String>) -> Self {
        self.agent = Some(agent.into());
        self
    }

    /// Says which texts reach the model; the policy of its agent otherwise
    /// ([`GraphAgent::prompt_policy`](crate::GraphAgent::prompt_policy)).
    #[must_use]
    pub fn policy(mut self, policy: TurnPromptPolicy) -> Self {
        self.policy = Some(policy);
        self
    }
}

impl Chat {
    /// Makes a session in which nothing was said yet, and returns it. A message to a session that is not there makes
    /// one too; this is for those who want to name its agent first, or to listen before anybody speaks.
    ///
    /// # Errors
    /// `chat_session_exists`, `chat_agent_unknown`, `chat_policy_unsupported`, `harness_session_id_unresolved`,
    /// `chat_sessions_full`, `chat_shutting_down`, `store_unavailable` and its kin.
    ///
    /// # Cancellation
    /// A dropped call has made the session or has not.
    pub async fn create_session(&self, options: CreateOptions) -> Result<SessionInfo> {
        let id = options.session.unwrap_or_else(|| self.inner.env.ids.generate_uuid());
        let key = self.session_key(&id)?;
        self.check_not_reserved(&id)?;
        if self.inner.is_closing() {
            return Err(Error::ShuttingDown);
        }
        let agent = options.agent.as_deref().unwrap_or(&self.inner.default_agent);
        let served = self.find_agent_for_session(agent, &id)?.clone();
        let policy = options.policy.unwrap_or(served.agent.prompt_policy);
        policy.check_agent(&served.agent.describe_version())?;
        let loaded = self.inner.session_in_memory(&key)?;
        self.inner.ensure_session_ready(&loaded).await?;
        if loaded.lock_state().session_head().is_none() {
            self.admit_session()?;
        }
        match self.commit_new_session(&loaded, &served, policy).await {
            // A message made it in the meantime, or a writer came after us: the store knows.
            Err(Error::Store { source: StoreError::Refused { .. } })
                if self.read_session_row(&id).await.is_ok() =>
            {
                return Err(Error::SessionExists { session: id });
            }
            made => made?,
        }
        self.session(&id).info().await
    }

    async fn commit_new_session(
        &self,
        loaded: &Arc<LoadedSession>,
        served: &ServedAgent,
        policy: TurnPromptPolicy,
    ) -> Result<()> {
        let ((), commit) = self.inner.commit_decision(loaded, |state, writing| {
            let (agent, subject) = (served.agent.describe_version(), self.session_subject().cloned());
            apply::create::create_session(state, writing, agent, policy, subject)
        })?;
        self.inner.await_commit_in_task(loaded, commit).await
    }
}
