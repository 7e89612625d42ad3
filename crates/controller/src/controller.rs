//! The controller: the calls of applications about campaigns.

use std::sync::Arc;

use futures_core::Stream;
use singletree_agent::{ArtifactName, SessionArtifact};
use singletree_campaign::{
    Campaign, CampaignBoard, CampaignEvent, CampaignLogEntry, CampaignScope, Error as CampaignError,
    PersonCommand, PlanTask, ProofPolicy, campaign_session, decide_command, record_artifact_approval,
};
use singletree_durable::{DocumentStore, TenantId};
use singletree_harness::{Chat, CreateOptions, TurnPromptPolicy};

use crate::admission::CampaignAdmission;
use crate::answer::{build_answer_change, check_answer_room};
use crate::builder::ControllerBuilder;
use crate::caller::CampaignCaller;
use crate::core::{CampaignDecision, CampaignKey, ControllerCore};
use crate::cycle::CYCLE_AGENT;
use crate::error::{Error, Result};
use crate::template::{CampaignTemplate, NewCampaign};

/// How many bytes of a goal are the name of a campaign that has none.
const NAME_BYTES: usize = 80;
/// The tenant's campaigns are listed at most so many at once.
const LIST_MAX: u64 = 500;

/// Drives campaigns: it holds the truth about them, lets their agents propose, and records what was decided and done.
/// Clones are the same controller.
///
/// Every call names the tenant (INV-14). A change of a campaign is one commit, with the entries of its log; of two
/// callers that decide about the same thing, the first one wins and the other one gets `campaign_changed`.
///
/// # Example
/// ```
/// use std::sync::Arc;
///
/// use singletree_agent::Agent;
/// use singletree_campaign::PersonCommand;
/// use singletree_controller::{CampaignCaller, Controller, NewCampaign};
/// use singletree_durable::{MemoryStore, TenantId};
/// use singletree_harness::Chat;
/// use singletree_llm::{Script, ScriptedProvider};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let model = ScriptedProvider::new(Script::replies(["…"]));
/// let (agent, resources) = Agent::new("writer", model).build_with_resources()?;
/// let store = MemoryStore::new();
/// let parts = Controller::builder(Arc::new(store.clone())).agent(resources).build()?;
/// let chat = Chat::builder().agent(agent).agent(parts.cycle_agent()).open(store)?;
/// let controller = parts.with_chat(chat);
///
/// let (tenant, ann) = (TenantId::single(), CampaignCaller::with_all_scopes("Ann"));
/// let board = controller.create(&tenant, NewCampaign::with_goal("Write to every customer."), &ann).await?;
/// let id = board.campaign.id;
/// controller.command(&tenant, &id, PersonCommand::Pause, &ann).await?;
/// assert_eq!(controller.get(&tenant, &id).await?.status.as_str(), "paused");
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct Controller {
    pub(crate) core: Arc<ControllerCore>,
    pub(crate) chat: Chat,
    admission: Option<Arc<dyn CampaignAdmission>>,
}

impl Controller {
    /// Begins a controller whose campaigns are kept in this store: the one of the chat's sessions, so that a campaign is
    /// deleted with its session.
    #[must_use]
    pub fn builder(documents: Arc<dyn DocumentStore>) -> ControllerBuilder {
        ControllerBuilder::new(documents)
    }

    pub(crate) fn new(core: Arc<ControllerCore>, chat: Chat) -> Self {
        let chat = chat.with_reserved_sessions();
        Self { core, chat, admission: None }
    }

    /// Lets each cycle ask whether its tenant may use more. Without it cycles have no quota but the budgets of their
    /// campaigns.
    #[must_use]
    pub fn admitting(mut self, admission: Arc<dyn CampaignAdmission>) -> Self {
        self.admission = Some(admission);
        self
    }

    /// Returns the templates, in the order of the configuration.
    #[must_use]
    pub fn templates(&self) -> &[CampaignTemplate] {
        &self.core.templates
    }

    /// Returns the names of the agents that may pursue campaigns.
    pub fn agents(&self) -> impl Iterator<Item = &str> {
        self.core.agents.keys().map(String::as_str)
    }

    /// Creates a campaign, with the plan and the schedules that it begins with. The runner begins at once: without a
    /// plan the agent is asked for one; a plan waits for approval.
    ///
    /// # Errors
    /// `campaign_scope_missing` without the scope `write`; `campaign_template_unknown`, `campaign_agent_unknown`,
    /// `campaign_record_invalid`, `campaign_plan_invalid`, `campaign_proof_invalid`, `campaign_schedule_invalid`;
    /// `server_quota_exceeded`, `store_unavailable` and its kin.
    ///
    /// # Cancellation
    /// A dropped call has created the campaign, with all of that, or has not; one that was created is run.
    pub async fn create(
        &self,
        tenant: &TenantId,
        new: NewCampaign,
        caller: &CampaignCaller,
    ) -> Result<CampaignBoard> {
        caller.check_scope(CampaignScope::Write)?;
        let template = new.template.as_deref().map(|name| self.find_template(name)).transpose()?;
        let (campaign, tasks) = self.describe_campaign(tenant, &new, template)?;
        campaign.check()?;
        let agent = self.core.find_agent(&campaign.agent)?;
        let policy = self.core.read_proof_policy(agent).await;
        let now = self.core.env.clock.now();
        let schedules = template.map(|template| template.schedules.as_slice()).unwrap_or_default();
        let mut changes = caller.changes().to_vec();
        let mut timers = Vec::new();
        for new in schedules {
            let schedule = new.build_schedule(&campaign.id, now)?;
            let named = (self.draw_schedule_id(), schedule);
            let (added, change) = self.core.store.build_added_schedule(tenant, (&named.0, named.1))?;
            changes.push(change);
            timers.push(added);
        }
        let key = CampaignKey::new(tenant, &campaign.id);
        let events = begin_with_plan(&campaign, tasks, (caller.name(), &policy))?;
        // The session comes first: a tenant with campaigns has sessions, and the documents of a campaign are deleted with
        // its session.
        let options = CreateOptions::new()
            .session(campaign_session(&campaign.id))
            .agent(CYCLE_AGENT)
            .policy(TurnPromptPolicy::Command);
        let session_chat = match &new.subject {
            Some(subject) => self.tenant_chat(tenant).on_behalf_of(parse_subject(subject)?),
            None => self.tenant_chat(tenant),
        };
        match session_chat.create_session(options).await {
            // An attempt that was cut off has made the session; a campaign of this id is refused below.
            Err(singletree_harness::Error::SessionExists { .. }) if new.id.is_some() => {}
            created => drop(created?),
        }
        let core = self.core.clone();
        let creating = async move {
            let created = core.store.create_with(campaign, events.clone(), changes).await;
            for added in timers {
                core.watch_schedule(&key, &added.id, (added.schedule.next_at, created.is_ok()));
            }
            let board = created.inspect_err(|error| core.recheck_after_failure(&key, error))?.board;
            core.narrator.narrate_creation(&key, &board);
            core.narrator.narrate_events(&key, &events, (&board, &board), now);
            core.queue.wake_campaign(&key, &board);
            Ok::<_, Error>(board)
        };
        self.core.run_in_task(creating).await
    }

    /// Lists the campaigns of a tenant by id, from past the given id on, at most `limit` and at most 500. The boards
    /// have neither the tasks of their plan nor their progress: [`Controller::get`] has them.
    ///
    /// # Errors
    /// `campaign_log_corrupt`, `store_unavailable` and its kin.
    pub async fn list(
        &self,
        tenant: &TenantId,
        past: Option<&str>,
        limit: u64,
    ) -> Result<Vec<CampaignBoard>> {
        Ok(self.core.store.list(tenant, past, limit.min(LIST_MAX)).await?)
    }

    /// Reads the board of a campaign: everything that decisions about it depend on.
    ///
    /// # Errors
    /// `campaign_unknown`, `campaign_log_corrupt`, `store_unavailable` and its kin.
    pub async fn get(&self, tenant: &TenantId, id: &str) -> Result<CampaignBoard> {
        Ok(self.core.load_campaign(&CampaignKey::new(tenant, id)).await?.board)
    }

    /// Reads the log of a campaign after an entry (0: from the beginning), at most `limit` entries and at most 500.
    ///
    /// # Errors
    /// `campaign_unknown`, `campaign_log_corrupt`, `store_unavailable` and its kin.
    pub async fn log(
        &self,
        tenant: &TenantId,
        id: &str,
        (after, limit): (u64, u64),
    ) -> Result<Vec<CampaignLogEntry>> {
        let read = self.core.store.read_log(tenant, id, (after, limit.min(LIST_MAX))).await?;
        if read.is_empty() && self.core.store.load_head(tenant, id).await?.is_none() {
            return Err(Error::Unknown { id: id.to_owned() });
        }
        Ok(read)
    }

    /// Follows the log of a campaign: the entries after the given one (0: from the beginning), then each new one as it
    /// is committed. The number of an entry is its id: a client that was cut off continues after the last one it saw.
    /// The stream ends with an error only, such as `campaign_unknown` when the campaign is deleted. Where several
    /// processes share the store, entries that another one commits are seen within two seconds.
    ///
    /// # Errors
    /// `chat_subscriptions_full` when too many streams follow campaigns; in the stream those of [`Controller::log`].
    ///
    /// # Cancellation
    /// Dropping the stream changes nothing.
    pub fn follow(
        &self,
        tenant: &TenantId,
        id: &str,
        after: u64,
    ) -> Result<impl Stream<Item = Result<CampaignLogEntry>> + Send + use<>> {
        let is_store_shared = self.chat.has_other_writers();
        self.core.follow_log(&CampaignKey::new(tenant, id), after, is_store_shared)
    }

    /// Carries out the command of a person. It is decided over the campaign as it is; where somebody else changes it at
    /// the same time, it is decided anew, so that of two commands that contradict each other exactly one is carried
    /// out. The changes of the caller land in the same commit.
    ///
    /// # Errors
    /// `campaign_scope_missing` without the scope of [`PersonCommand::required_scope`]; `campaign_unknown`; those of
    /// [`decide_command`](singletree_campaign::decide_command); `campaign_agent_unknown` for an edited plan of an agent
    /// that is not there; `artifact_refused` for an answer when the campaign has 256 artifacts; `store_unavailable` and
    /// its kin.
    ///
    /// # Cancellation
    /// A dropped call has committed the command or nothing. A committed command takes effect.
    pub async fn command(
        &self,
        tenant: &TenantId,
        id: &str,
        command: PersonCommand,
        caller: &CampaignCaller,
    ) -> Result<CampaignBoard> {
        caller.check_scope(command.required_scope())?;
        let key = CampaignKey::new(tenant, id);
        let policy = match &command {
            PersonCommand::EditPlan { .. } => {
                let head = self.core.store.load_head(tenant, id).await?;
                let head = head.ok_or_else(|| Error::Unknown { id: id.to_owned() })?;
                self.core.read_proof_policy(self.core.find_agent(&head.campaign.agent)?).await
            }
            PersonCommand::Answer { .. } => {
                check_answer_room(&self.core, &key).await?;
                ProofPolicy::default()
            }
            _ => ProofPolicy::default(),
        };
        self.commit_command(&key, &command, (caller, &policy)).await
    }

    /// Lists the artifacts of a campaign, ordered by kind, key and version.
    ///
    /// # Errors
    /// `campaign_unknown`, `store_unavailable` and its kin.
    pub async fn artifacts(&self, tenant: &TenantId, id: &str) -> Result<Vec<SessionArtifact>> {
        let session = CampaignKey::new(tenant, id).session_key()?;
        let listed = self.core.artifacts.list_artifacts(&session).await?;
        if listed.is_empty() && self.core.store.load_head(tenant, id).await?.is_none() {
            return Err(Error::Unknown { id: id.to_owned() });
        }
        Ok(listed)
    }

    /// Approves a version of an artifact: exactly the content of this digest. Approval and entry of the log are one
    /// commit. Approving it again changes nothing.
    ///
    /// # Errors
    /// `campaign_scope_missing` without the scope `approve`; `campaign_unknown`; `artifact_refused` when there is none
    /// of this name, or it says something else; `campaign_status_unfit` when the campaign is over; `campaign_changed`,
    /// `store_unavailable` and its kin.
    ///
    /// # Cancellation
    /// A dropped call has approved it or has not.
    pub async fn approve_artifact(
        &self,
        tenant: &TenantId,
        id: &str,
        (name, digest): (&ArtifactName, &str),
        caller: &CampaignCaller,
    ) -> Result<CampaignBoard> {
        caller.check_scope(CampaignScope::Approve)?;
        let key = CampaignKey::new(tenant, id);
        let session = key.session_key()?;
        self.core.load_campaign(&key).await?;
        let approval =
            self.core.artifacts.build_approval_change(&session, (name, digest), caller.name()).await?;
        let Some(approval) = approval else { return self.get(tenant, id).await };
        let committed = self.core.decide(&key, |board| {
            if board.status.is_over() {
                let why = "nothing of it is approved any more".to_owned();
                return Err(CampaignError::Status { status: board.status.as_str(), why }.into());
            }
            let version = (name.kind.as_str(), name.key.as_str(), name.version);
            let events = record_artifact_approval(board, version, caller.name());
            let changes = std::iter::once(approval.clone()).chain(caller.changes().iter().cloned()).collect();
            Ok(CampaignDecision { events, changes })
        });
        Ok(committed.await?.board)
    }

    /// Deletes a campaign with everything of it: its log, its artifacts, its schedules, its session. A cycle that runs
    /// is cancelled; a call that was begun may have had its effect.
    ///
    /// # Errors
    /// `campaign_scope_missing` without the scope `admin`; `campaign_unknown`; `store_unavailable` and its kin.
    ///
    /// # Cancellation
    /// Dropping the future cancels nothing: the campaign is deleted all the same.
    pub async fn delete(&self, tenant: &TenantId, id: &str, caller: &CampaignCaller) -> Result<()> {
        caller.check_scope(CampaignScope::Admin)?;
        let key = CampaignKey::new(tenant, id);
        key.session_key()?;
        if self.core.store.load_head(tenant, id).await?.is_none() {
            return Err(Error::Unknown { id: id.to_owned() });
        }
        let session = self.tenant_chat(tenant).session(campaign_session(id));
        let (core, by) = (self.core.clone(), caller.name().to_owned());
        let deleting = async move {
            session.delete(Some(&by)).await?;
            core.queue.forget_campaign(&key);
            core.followers.announce_change(&key);
            Ok::<_, Error>(())
        };
        self.core.run_in_task(deleting).await
    }

    /// Returns the chat for the sessions of a tenant's campaigns.
    pub(crate) fn tenant_chat(&self, tenant: &TenantId) -> Chat {
        let chat = self.chat.of(tenant.clone()).with_reserved_sessions();
        match self.admission.as_ref().and_then(|admission| admission.admission_of_tenant(tenant)) {
            Some(admission) => chat.admitting(admission),
            None => chat,
        }
    }

    async fn commit_command(
        &self,
        key: &CampaignKey,
        command: &PersonCommand,
        (caller, policy): (&CampaignCaller, &ProofPolicy),
    ) -> Result<CampaignBoard> {
        let session = key.session_key()?;
        let committed = self.core.decide(key, |board| {
            let events = decide_command(board, command, (caller.name(), policy))?;
            let answered = match command {
                PersonCommand::Answer { answer, .. } => {
                    Some(build_answer_change(&self.core, (&session, board), answer, caller.name())?)
                }
                _ => None,
            };
            let changes = answered.into_iter().chain(caller.changes().iter().cloned()).collect();
            Ok(CampaignDecision { events, changes })
        });
        Ok(committed.await?.board)
    }

    fn find_template(&self, name: &str) -> Result<&CampaignTemplate> {
        let found = self.core.templates.iter().find(|template| template.name == name);
        found.ok_or_else(|| Error::TemplateUnknown { template: name.to_owned() })
    }

    /// Puts a campaign together from what was said and its template.
    fn describe_campaign(
        &self,
        tenant: &TenantId,
        new: &NewCampaign,
        template: Option<&CampaignTemplate>,
    ) -> Result<(Campaign, Vec<PlanTask>)> {
        let goal = new.goal.clone().or_else(|| template.and_then(|template| template.goal.clone()));
        let goal = goal.unwrap_or_default();
        let named = new.name.clone().or_else(|| template.map(|template| template.name.clone()));
        let name = named.unwrap_or_else(|| {
            let line = goal.trim().lines().next().unwrap_or_default();
            line[..line.floor_char_boundary(NAME_BYTES)].to_owned()
        });
        let agent = new.agent.clone().or_else(|| template.and_then(|template| template.agent.clone()));
        let agent = agent.or_else(|| self.core.default_agent.clone()).unwrap_or_default();
        let budget = new.budget.or_else(|| template.map(|template| template.budget)).unwrap_or_default();
        let tasks = match (new.tasks.is_empty(), template) {
            (true, Some(template)) => template.tasks.clone(),
            _ => new.tasks.clone(),
        };
        let draw_id = || format!("cmp_{}", self.core.env.ids.generate_uuid().replace('-', ""));
        let campaign = Campaign {
            id: new.id.clone().unwrap_or_else(draw_id),
            tenant: tenant.to_string(),
            subject: new.subject.clone(),
            name,
            goal,
            agent,
            budget,
            created_at: self.core.env.clock.now(),
        };
        Ok((campaign, tasks))
    }
}

/// Returns the events by which a campaign has its first plan from the beginning; none without tasks.
fn begin_with_plan(
    campaign: &Campaign,
    tasks: Vec<PlanTask>,
    (by, policy): (&str, &ProofPolicy),
) -> Result<Vec<CampaignEvent>> {
    if tasks.is_empty() {
        return Ok(Vec::new());
    }
    let event = CampaignEvent::Created { campaign: Box::new(campaign.clone()) };
    let empty =
        CampaignBoard::from_first_entry(&CampaignLogEntry { seq: 1, at: campaign.created_at, event })?;
    Ok(decide_command(&empty, &PersonCommand::EditPlan { version: 0, tasks }, (by, policy))?)
}

fn parse_subject(subject: &str) -> Result<singletree_durable::SubjectId> {
    singletree_durable::SubjectId::parse(subject)
        .map_err(|error| CampaignError::Record { why: error.to_string() }.into())
}
