//! The runner: it gives each campaign that can go on one cycle after the other, all of them in turn.

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use singletree_campaign::{
    CampaignBoard, CampaignStep, CycleCost, campaign_session, fail_cycle, fail_with_quota, measure_cycle,
    project_command, wake_after_pause,
};
use singletree_durable::TenantId;
use singletree_harness::{ChatTurnOutcome, ErroredTurn, FailureBucket, SendOptions, TurnPromptPolicy};
use singletree_llm::ChatMessage;
use std::convert::Infallible;
use std::pin::pin;

use crate::controller::Controller;
use crate::core::{CampaignDecision, CampaignKey};
use crate::cycle::CYCLE_AGENT;
use crate::error::Result;
use crate::queue::RunnerTimer;

/// How many tenants, and how many campaigns of one, are read at once.
const PAGE: u64 = 200;

/// The category of a turn that waits for the next process.
const SHUTTING_DOWN: &str = "chat_shutting_down";
/// The category of a refusal because another process holds the session, and runs the campaign.
const HELD_ELSEWHERE: &str = "session_moving";
/// The category of a turn that a person has cancelled.
const CANCELLED: &str = "chat_turn_cancelled";
/// The category of a refusal by a quota.
const QUOTA: &str = "server_quota_exceeded";

impl Controller {
    /// Runs the campaigns of all tenants until `shutdown` is ready: finds those that can go on, gives each one cycle
    /// after the other, in turn, and wakes when a person has said something, when the pause after a failure is over and
    /// when a schedule is due. A campaign that waits or is paused has no task and no loaded session. Where other processes
    /// share the store, it leaves a campaign to the one that holds its session, and looks every
    /// [`ControllerLimits::look_every`](crate::ControllerLimits::look_every) for those that one has left.
    ///
    /// One runner at a time; the others return at once. [`Chat::sweep`](singletree_harness::Chat::sweep) comes first: it
    /// continues the cycle that an earlier process was in.
    ///
    /// # Cancellation
    /// When the future is dropped, or `shutdown` is ready, no further cycle begins; those that run are turns of the chat
    /// and end, or are continued by the next process.
    pub async fn run(&self, shutdown: impl Future<Output = ()> + Send) {
        let queue = &self.core.queue;
        if !queue.open() {
            return;
        }
        let _closing = CloseOnDrop(self);
        let mut shutdown = pin!(shutdown);
        tokio::select! {
            biased;
            () = &mut shutdown => return,
            () = self.find_runnable_campaigns() => {}
        }
        let mut looking = pin!(self.find_campaigns_of_others());
        let mut running = FuturesUnordered::new();
        loop {
            while running.len() < self.core.limits.cycles_at_once.max(1)
                && let Some(key) = queue.take_ready()
            {
                running.push(self.run_queued_cycle(key));
            }
            let now = self.core.env.clock.now();
            for timer in queue.take_due_timers(now) {
                self.act_on_timer(timer).await;
            }
            if queue.has_ready() && running.len() < self.core.limits.cycles_at_once.max(1) {
                continue;
            }
            let wait = queue.next_timer().map(|at| at.duration_since(now));
            let next_timer = async {
                match wait {
                    Some(wait) => self.core.env.timer.sleep_for(wait).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = &mut shutdown => return,
                Some(()) = running.next() => {}
                () = queue.bell.notified() => {}
                () = next_timer => {}
                never = &mut looking => match never {},
            }
        }
    }

    /// Runs one campaign until nothing can be done without a person, or until it pauses after a failure that may pass;
    /// then returns its board. For programs that have no runner, such as a command of the terminal.
    ///
    /// # Errors
    /// `campaign_unknown`; the store's categories.
    ///
    /// # Cancellation
    /// Dropping the future begins no further cycle.
    pub async fn run_until_settled(&self, tenant: &TenantId, id: &str) -> Result<CampaignBoard> {
        let key = CampaignKey::new(tenant, id);
        loop {
            let board = self.core.load_campaign(&key).await?.board;
            match board.next_step() {
                CampaignStep::Ask | CampaignStep::Execute(_) => {
                    let ended = self.run_cycle(&key, &board).await?;
                    let board = self.core.load_campaign(&key).await?.board;
                    if ended != CycleEnd::Recorded && board.next_step().runs() {
                        return Ok(board);
                    }
                }
                CampaignStep::Sleep(until) if until <= self.core.env.clock.now() => {
                    self.wake_paused_campaign(&key).await?;
                }
                CampaignStep::Sleep(_) | CampaignStep::Await | CampaignStep::Rest => return Ok(board),
            }
        }
    }

    /// Runs one cycle of a campaign that can go on, and returns its board; for programs that count cycles themselves.
    ///
    /// # Errors
    /// As [`Controller::run_until_settled`].
    ///
    /// # Cancellation
    /// The cycle is a turn of the chat: it ends also when the future is dropped.
    pub async fn run_one_cycle(&self, tenant: &TenantId, id: &str) -> Result<CampaignBoard> {
        let key = CampaignKey::new(tenant, id);
        let board = self.core.load_campaign(&key).await?.board;
        if board.next_step().runs() {
            self.run_cycle(&key, &board).await?;
        }
        Ok(self.core.load_campaign(&key).await?.board)
    }

    /// Looks again and again for the campaigns that can go on, where other processes share the store: the process of one may
    /// have ended between two cycles, when no turn of it is left to be taken over.
    async fn find_campaigns_of_others(&self) -> Infallible {
        if !self.chat.has_other_writers() {
            return std::future::pending().await;
        }
        loop {
            self.core.env.timer.sleep_for(self.core.limits.look_every).await;
            self.find_runnable_campaigns().await;
        }
    }

    /// Puts every campaign that can go on into the queue, and every schedule among the timers.
    async fn find_runnable_campaigns(&self) {
        let mut tenant: Option<TenantId> = None;
        loop {
            let tenants = self.chat.tenants(tenant.as_ref(), PAGE).await;
            match tenants {
                Ok(tenants) if tenants.is_empty() => return,
                Ok(tenants) => {
                    for tenant in &tenants {
                        self.find_campaigns_of_tenant(tenant).await;
                    }
                    tenant = tenants.into_iter().next_back();
                }
                Err(_) => self.core.env.timer.sleep_for(self.core.limits.store_retry).await,
            }
        }
    }

    async fn find_campaigns_of_tenant(&self, tenant: &TenantId) {
        let mut past: Option<String> = None;
        loop {
            match self.core.store.list(tenant, past.as_deref(), PAGE).await {
                Ok(boards) if boards.is_empty() => break,
                Ok(boards) => {
                    for board in &boards {
                        let key = CampaignKey::new(tenant, &board.campaign.id);
                        self.core.queue.wake_campaign(&key, board);
                    }
                    past = boards.last().map(|board| board.campaign.id.clone());
                }
                Err(_) => self.core.env.timer.sleep_for(self.core.limits.store_retry).await,
            }
        }
        loop {
            match self.core.store.list_schedules(tenant, None).await {
                Ok(schedules) => {
                    for found in schedules {
                        let key = CampaignKey::new(tenant, &found.schedule.campaign);
                        self.core.queue.set_schedule(&key, &found.id, found.schedule.next_at);
                    }
                    return;
                }
                Err(_) => self.core.env.timer.sleep_for(self.core.limits.store_retry).await,
            }
        }
    }

    async fn act_on_timer(&self, timer: RunnerTimer) {
        let later = || self.core.env.clock.now().saturating_add(self.core.limits.store_retry);
        match timer {
            RunnerTimer::Campaign(key) => match self.wake_paused_campaign(&key).await {
                Err(crate::Error::Unknown { .. }) | Ok(()) => {}
                Err(_) => self.core.queue.set_pause(&key, later()),
            },
            RunnerTimer::Schedule(key, schedule) => {
                if self.fire_schedule(&key, &schedule).await.is_err() {
                    self.core.queue.set_schedule(&key, &schedule, later());
                }
            }
        }
    }

    /// Resumes a campaign whose pause after a failure is over.
    async fn wake_paused_campaign(&self, key: &CampaignKey) -> Result<()> {
        let now = self.core.env.clock.now();
        let woken = self.core.decide(key, |board| match board.next_step() {
            CampaignStep::Sleep(until) if until <= now => Ok(wake_after_pause(board, now)?.into()),
            _ => Ok(CampaignDecision::default()),
        });
        let board = woken.await?.board;
        self.core.queue.wake_campaign(key, &board);
        Ok(())
    }

    /// Runs a cycle of a campaign that was taken from the queue, and puts it back where it can go on.
    async fn run_queued_cycle(&self, key: CampaignKey) {
        let ran = match self.core.store.load_head(&key.tenant, &key.id).await {
            Ok(Some(board)) if board.next_step().runs() => self.run_cycle(&key, &board).await,
            Ok(_) => Ok(CycleEnd::Recorded),
            Err(error) => Err(error.into()),
        };
        let queue = &self.core.queue;
        queue.begin_look(&key);
        let head = self.core.store.load_head(&key.tenant, &key.id).await;
        let has_news = queue.end_cycle(&key);
        let later = || self.core.env.clock.now().saturating_add(self.core.limits.store_retry);
        match (ran, head) {
            (Ok(_), Ok(None)) => {}
            // It is looked for again.
            (Ok(CycleEnd::HeldElsewhere), Ok(Some(_))) if self.chat.has_other_writers() => {}
            // It could not even record its failure, or what it has to do fails each time.
            (Ok(CycleEnd::Failed | CycleEnd::HeldElsewhere), Ok(Some(board))) if board.next_step().runs() => {
                queue.set_pause(&key, later());
            }
            (Ok(_), Ok(Some(board))) => {
                queue.wake_campaign(&key, &board);
                if has_news {
                    queue.push_campaign(&key);
                } else if !board.next_step().runs() {
                    self.tenant_chat(&key.tenant).session(campaign_session(&key.id)).unload();
                }
            }
            (Err(_), _) | (_, Err(_)) => queue.set_pause(&key, later()),
        }
    }

    /// Runs one cycle: a turn in the session of the campaign.
    ///
    /// # Errors
    /// Those of the store; the turn's own failure is recorded in the campaign.
    async fn run_cycle(&self, key: &CampaignKey, board: &CampaignBoard) -> Result<CycleEnd> {
        let session = self.tenant_chat(&key.tenant).session(campaign_session(&key.id));
        let options = SendOptions::new().agent(CYCLE_AGENT).policy(TurnPromptPolicy::Command);
        let message = ChatMessage::user(project_command(board));
        match session.send_with(message, options).await {
            ChatTurnOutcome::Completed(_) | ChatTurnOutcome::Suspended(_) => Ok(CycleEnd::Recorded),
            ChatTurnOutcome::Errored(errored) if errored.error_category == SHUTTING_DOWN => {
                Err(singletree_harness::Error::ShuttingDown.into())
            }
            // Nothing has failed in the campaign. It is tried again, since its owner may end.
            ChatTurnOutcome::Errored(errored) if errored.error_category == HELD_ELSEWHERE => {
                Ok(CycleEnd::HeldElsewhere)
            }
            ChatTurnOutcome::Errored(errored) => {
                self.settle_failed_cycle(key, &errored).await?;
                Ok(CycleEnd::Failed)
            }
        }
    }

    /// Records what a failed turn means for its campaign.
    async fn settle_failed_cycle(&self, key: &CampaignKey, errored: &ErroredTurn) -> Result<()> {
        let category = errored.error_category.as_str();
        let now = self.core.env.clock.now();
        let may_pass = errored.error_bucket == FailureBucket::RetryableTransient;
        let settled = self.core.decide(key, |board| {
            if !board.next_step().runs() {
                return Ok(CampaignDecision::default());
            }
            let mut events = match category {
                // The same cycle is continued.
                CANCELLED => Vec::new(),
                QUOTA => fail_with_quota(board, category)?,
                _ => fail_cycle(board, (category, may_pass), now)?,
            };
            if board.is_cycle_open && !events.is_empty() {
                events.splice(0..0, measure_cycle(CycleCost::default()));
            }
            Ok(events.into())
        });
        settled.await.map(drop)
    }
}

/// How a cycle ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CycleEnd {
    /// What it came to is recorded.
    Recorded,
    /// Its turn failed, or did not begin.
    Failed,
    /// Another process holds its session; nothing has changed.
    HeldElsewhere,
}

/// Closes the queue when the runner ends, however it does.
struct CloseOnDrop<'a>(&'a Controller);

impl Drop for CloseOnDrop<'_> {
    fn drop(&mut self) {
        self.0.core.queue.close();
    }
}
