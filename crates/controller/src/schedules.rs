//! Schedules of campaigns: kept beside them, and fired by one process each time.

use singletree_campaign::{
    CampaignSchedule, CampaignScope, Error as CampaignError, PersonCommand, ProofPolicy, SCHEDULES_MAX,
    StoredSchedule, decide_command,
};
use singletree_durable::TenantId;
use singletree_env::Timestamp;

use crate::caller::CampaignCaller;
use crate::controller::Controller;
use crate::core::{CampaignDecision, CampaignKey, ControllerCore};
use crate::error::{Error, Result};
use crate::template::NewSchedule;

/// How a schedule is named as the author of its commands.
const AUTHOR: &str = "schedule";

impl NewSchedule {
    /// Makes the schedule of a campaign.
    ///
    /// # Errors
    /// `campaign_schedule_invalid`.
    pub(crate) fn build_schedule(&self, campaign: &str, now: Timestamp) -> Result<CampaignSchedule> {
        let when = (self.expression.as_str(), self.zone.as_str());
        Ok(CampaignSchedule::new(campaign, when, (self.missed, &self.command), now)?)
    }
}

impl Controller {
    /// Adds a schedule to a campaign: at each due time the campaign is woken with the stored command.
    ///
    /// # Errors
    /// `campaign_scope_missing` without the scope `write`; `campaign_unknown`; `campaign_schedule_invalid`, also when
    /// the tenant has 100 schedules; `store_unavailable` and its kin.
    ///
    /// # Cancellation
    /// A dropped call has added it or has not. A schedule that was added fires.
    pub async fn add_schedule(
        &self,
        tenant: &TenantId,
        id: &str,
        schedule: NewSchedule,
        caller: &CampaignCaller,
    ) -> Result<StoredSchedule> {
        caller.check_scope(CampaignScope::Write)?;
        let key = CampaignKey::new(tenant, id);
        if self.core.store.load_head(tenant, id).await?.is_none() {
            return Err(Error::Unknown { id: id.to_owned() });
        }
        let schedule = schedule.build_schedule(id, self.core.env.clock.now())?;
        if self.core.store.list_schedules(tenant, None).await?.len() as u64 >= SCHEDULES_MAX {
            let why = format!("the tenant has {SCHEDULES_MAX} schedules already");
            return Err(CampaignError::Schedule { why }.into());
        }
        let name = self.draw_schedule_id();
        let changes = caller.changes().to_vec();
        let (core, tenant) = (self.core.clone(), tenant.clone());
        let adding = async move {
            let next_at = schedule.next_at;
            let added = core.store.add_schedule(&tenant, (&name, schedule), changes).await;
            core.watch_schedule(&key, &name, (next_at, added.is_ok()));
            Ok::<_, Error>(added?)
        };
        self.core.run_in_task(adding).await
    }

    /// Removes a schedule of a campaign.
    ///
    /// # Errors
    /// `campaign_scope_missing` without the scope `write`; `campaign_schedule_unknown`; `store_unavailable` and its kin.
    ///
    /// # Cancellation
    /// A dropped call has removed it or has not.
    pub async fn remove_schedule(
        &self,
        tenant: &TenantId,
        id: &str,
        schedule: &str,
        caller: &CampaignCaller,
    ) -> Result<()> {
        caller.check_scope(CampaignScope::Write)?;
        let found = self.core.store.load_schedule(tenant, id, schedule).await?;
        let found = found.ok_or_else(|| Error::ScheduleUnknown { schedule: schedule.to_owned() })?;
        Ok(self.core.store.remove_schedule(tenant, &found, caller.changes().to_vec()).await?)
    }

    /// Lists the schedules of a campaign.
    ///
    /// # Errors
    /// `campaign_unknown`, `store_unavailable` and its kin.
    pub async fn schedules(&self, tenant: &TenantId, id: &str) -> Result<Vec<StoredSchedule>> {
        let listed = self.core.store.list_schedules(tenant, Some(id)).await?;
        if listed.is_empty() && self.core.store.load_head(tenant, id).await?.is_none() {
            return Err(Error::Unknown { id: id.to_owned() });
        }
        Ok(listed)
    }

    pub(crate) fn draw_schedule_id(&self) -> String {
        format!("sch_{}", self.core.env.ids.generate_uuid().replace('-', ""))
    }

    /// Looks at a schedule whose time has come: it wakes its campaign, or waits for the cycle that runs. The next due
    /// time is written in the commit of the command, so that one process fires it.
    pub(crate) async fn fire_schedule(&self, key: &CampaignKey, schedule: &str) -> Result<()> {
        let Some(found) = self.core.store.load_schedule(&key.tenant, &key.id, schedule).await? else {
            return Ok(());
        };
        let now = self.core.env.clock.now();
        let head = self.core.store.load_head(&key.tenant, &key.id).await?;
        let is_busy = head.is_some_and(|board| board.is_cycle_open) || self.core.queue.is_running(key);
        let decided = found.schedule.decide(now, is_busy)?;
        if decided.next_at == found.schedule.next_at {
            // It is made up for behind the cycle that runs; or its time has not come.
            let retry = now.saturating_add(self.core.limits.store_retry);
            self.core.queue.set_schedule(key, schedule, decided.next_at.max(retry));
            return Ok(());
        }
        let moved = self.core.store.build_schedule_change(&key.tenant, &found, decided.next_at)?;
        let command = PersonCommand::Free { text: found.schedule.command.clone() };
        let by = format!("{AUTHOR}:{}", found.id);
        let committed = self.core.decide(key, |board| {
            // A campaign that is over, or whose log is full, takes no commands; its schedule goes on without effect.
            let events = match decided.runs && !board.status.is_over() && !board.is_log_full() {
                true => decide_command(board, &command, (&by, &ProofPolicy::default()))?,
                false => Vec::new(),
            };
            Ok(CampaignDecision { events, changes: vec![moved.clone()] })
        });
        committed.await?;
        self.core.queue.set_schedule(key, schedule, decided.next_at);
        Ok(())
    }
}

impl ControllerCore {
    /// Sets the timer of a schedule that was committed. If the store answered with an error, the schedule is read a little
    /// later instead: the commit may have landed, and a timer for a schedule that does not exist must not stay.
    pub(crate) fn watch_schedule(
        &self,
        key: &CampaignKey,
        id: &str,
        (next_at, is_committed): (Timestamp, bool),
    ) {
        let retry_at = self.env.clock.now().saturating_add(self.limits.store_retry);
        self.queue.set_schedule(key, id, if is_committed { next_at } else { retry_at });
    }
}
