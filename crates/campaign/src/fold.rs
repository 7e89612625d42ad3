//! How an entry of the log changes the board. Every change of a board is made here.

use std::collections::VecDeque;

use crate::board::{
    ActionStage, CampaignBoard, CampaignWait, OpenAction, RECENT_MAX, TaskProgress, TaskStatus,
};
use crate::campaign::{CampaignStatus, CampaignUsage, PauseReason};
use crate::error::{Error, Result};
use crate::event::{CampaignAction, CampaignEvent, CampaignLogEntry};
use crate::plan::{Plan, PlanApproval};
use crate::proof::Proof;
use crate::recent::RecentEntry;

impl CampaignBoard {
    /// Builds the board of a whole log.
    ///
    /// # Errors
    /// `campaign_log_corrupt` for a log that does not begin with the making of the campaign, or has an entry that
    /// cannot follow those before it.
    pub fn from_log(log: &[CampaignLogEntry]) -> Result<Self> {
        let unfit = |why: &str| Error::Log { why: why.to_owned() };
        let (first, rest) = log.split_first().ok_or_else(|| unfit("it is empty"))?;
        let mut board = Self::from_first_entry(first)?;
        for entry in rest {
            board.apply_entry(entry)?;
        }
        Ok(board)
    }

    /// Builds the board of the first entry of a log.
    ///
    /// # Errors
    /// `campaign_log_corrupt` when it is not the making of a campaign.
    pub fn from_first_entry(entry: &CampaignLogEntry) -> Result<Self> {
        let CampaignLogEntry { seq: 1, at, event: CampaignEvent::Created { campaign } } = entry else {
            return Err(Error::Log { why: "it does not begin with the making of the campaign".to_owned() });
        };
        Ok(Self {
            campaign: campaign.as_ref().clone(),
            status: CampaignStatus::Initializing,
            pause: None,
            failure: None,
            usage: CampaignUsage::default(),
            plan: None,
            approval: None,
            progress: Vec::new(),
            wait: None,
            action: None,
            approved_artifacts: Default::default(),
            command: None,
            command_seq: 0,
            news_seq: 0,
            seen: None,
            refusals: 0,
            idle: 0,
            failures: 0,
            is_cycle_open: false,
            began: false,
            recent: VecDeque::new(),
            seq: 1,
            log_bytes: count_bytes(entry),
            updated_at: *at,
        })
    }

    /// Changes the board as an entry says.
    ///
    /// # Errors
    /// `campaign_log_corrupt` when the entry does not follow the last one, or names what is not there. The board is
    /// unchanged then.
    pub fn apply_entry(&mut self, entry: &CampaignLogEntry) -> Result<()> {
        let unfit = |why: String| Err(Error::Log { why });
        if entry.seq != self.seq + 1 {
            return unfit(format!("entry {} follows entry {}", entry.seq, self.seq));
        }
        if let Some(task) = entry.event.named_task()
            && self.find_progress(task).is_none()
        {
            return unfit(format!("entry {} is about task '{task}', which is not in the plan", entry.seq));
        }
        let open = self.action.as_ref().map(|open| open.action.digest.as_str());
        if entry.event.named_action().is_some_and(|digest| open != Some(digest)) {
            return unfit(format!("entry {} is about a call that is not open", entry.seq));
        }
        if matches!(entry.event, CampaignEvent::Created { .. }) {
            return unfit(format!("entry {} makes the campaign again", entry.seq));
        }
        self.seq = entry.seq;
        self.log_bytes = self.log_bytes.saturating_add(count_bytes(entry));
        self.updated_at = entry.at;
        if entry.event.is_from_person() {
            self.news_seq = entry.seq;
        }
        self.apply_event(&entry.event);
        if entry.event.is_shown_to_agents() {
            self.recent.push_back(RecentEntry::from_log_entry(entry));
            self.recent.drain(..self.recent.len().saturating_sub(RECENT_MAX));
        }
        Ok(())
    }

    fn apply_event(&mut self, event: &CampaignEvent) {
        match event {
            CampaignEvent::Created { .. } => {}
            CampaignEvent::ArtifactProposed { .. } => {
                self.accept_cycle();
                self.idle = 0;
            }
            CampaignEvent::CycleMeasured { tokens, time_ms, seen } => {
                (self.is_cycle_open, self.seen) = (false, *seen);
                self.usage.tokens = self.usage.tokens.saturating_add(*tokens);
                self.usage.time_ms = self.usage.time_ms.saturating_add(*time_ms);
            }
            CampaignEvent::BudgetChanged { budget, .. } => self.campaign.budget = *budget,
            CampaignEvent::CommandGiven { text, .. } => {
                self.give_command(text.clone());
                // The plan can be approved all the same; the agent may change it first.
                self.close_wait(&CampaignWait::Plan);
            }
            CampaignEvent::PlanChanged { plan, by } => self.change_plan(plan, by.is_some()),
            CampaignEvent::PlanApproved { version, digest, by } => {
                let (version, digest, by) = (*version, digest.clone(), by.clone());
                self.approval = Some(PlanApproval { version, digest, by });
                self.began = true;
                self.close_wait(&CampaignWait::Plan);
                if self.status == CampaignStatus::Initializing {
                    self.status = CampaignStatus::Active;
                }
            }
            CampaignEvent::PlanRejected { reason, .. } => {
                self.close_wait(&CampaignWait::Plan);
                let reason = reason.as_deref().map(|reason| format!(": {reason}")).unwrap_or_default();
                self.give_command(format!("The plan was rejected{reason}. Propose another one."));
            }
            CampaignEvent::CycleBegan { number } => {
                self.usage.cycles = *number;
                (self.is_cycle_open, self.seen) = (true, None);
            }
            CampaignEvent::ProposalRefused { .. } => self.refusals += 1,
            CampaignEvent::NothingProposed => {
                self.accept_cycle();
                if self.has_unseen_news() {
                    // The model had less to go on than there is now.
                    self.idle = 0;
                    return;
                }
                self.idle += 1;
                if self.plan.is_some() && !self.is_plan_approved() {
                    self.wait = Some(CampaignWait::Plan);
                }
            }
            CampaignEvent::TaskSelected { task } => {
                self.accept_cycle();
                self.idle = 0;
                if let Some(progress) = self.progress_mut(task) {
                    progress.status = TaskStatus::InProgress;
                    progress.attempts += 1;
                }
            }
            other => self.apply_action(other),
        }
    }

    /// Applies events about calls.
    fn apply_action(&mut self, event: &CampaignEvent) {
        match event {
            CampaignEvent::ActionProposed { action, needs_approval } => {
                self.accept_cycle();
                self.idle = 0;
                let stage = if *needs_approval { ActionStage::Asked } else { ActionStage::Granted };
                self.action = Some(OpenAction { action: action.clone(), stage, is_approved: false });
                self.wait = needs_approval.then_some(CampaignWait::Action);
            }
            CampaignEvent::ActionDecided { approved, .. } => {
                self.close_wait(&CampaignWait::Action);
                match &mut self.action {
                    Some(open) if *approved => {
                        (open.stage, open.is_approved) = (ActionStage::Granted, true);
                    }
                    _ => self.action = None,
                }
            }
            CampaignEvent::ActionBegan { .. } => {
                if let Some(open) = &mut self.action {
                    open.stage = ActionStage::Begun;
                }
            }
            CampaignEvent::ActionDone { success, reads, .. } => {
                if let Some(OpenAction { action, .. }) = self.action.take()
                    && *success
                    && !reads
                {
                    self.find_proofs_in_call(&action);
                }
            }
            other => self.apply_word(other),
        }
    }

    /// Applies events about artifacts, questions, tasks and the status.
    fn apply_word(&mut self, event: &CampaignEvent) {
        match event {
            CampaignEvent::ArtifactApproved { kind, key, version, .. } => {
                let newest = self.approved_artifacts.entry(format!("{kind}/{key}")).or_default();
                *newest = (*newest).max(*version);
            }
            CampaignEvent::QuestionAsked { task, question, schema } => {
                self.accept_cycle();
                self.idle = 0;
                let (task, question, schema) = (task.clone(), question.clone(), schema.clone());
                self.wait = Some(CampaignWait::Question { task, question, schema });
            }
            CampaignEvent::QuestionAnswered { .. } => {
                if matches!(self.wait, Some(CampaignWait::Question { .. })) {
                    self.wait = None;
                }
            }
            CampaignEvent::Confirmed { task, question, .. } => {
                let is_it =
                    |proof: &Proof| matches!(proof, Proof::UserConfirmed { question: it } if it == question);
                self.find_proofs(task, is_it);
            }
            CampaignEvent::TaskCompleted { task, result } => {
                self.accept_cycle();
                self.idle = 0;
                if let Some(progress) = self.progress_mut(task) {
                    progress.status = TaskStatus::Done;
                    progress.result_ref.clone_from(result);
                }
            }
            CampaignEvent::TaskBlocked { task, why } => {
                self.accept_cycle();
                self.idle = 0;
                if let Some(progress) = self.progress_mut(task) {
                    progress.status = TaskStatus::Blocked;
                    progress.blocked_because = Some(why.clone());
                }
            }
            CampaignEvent::TaskUnblocked { task, .. } | CampaignEvent::TaskRetried { task, .. } => {
                let is_retry = matches!(event, CampaignEvent::TaskRetried { .. });
                if let Some(progress) = self.progress_mut(task) {
                    progress.status = TaskStatus::Pending;
                    progress.blocked_because = None;
                    if is_retry {
                        // What was found belongs to the attempt that is done anew.
                        progress.result_ref = None;
                        progress.found.fill(None);
                    }
                }
            }
            other => self.apply_status(other),
        }
    }

    fn apply_status(&mut self, event: &CampaignEvent) {
        match event {
            CampaignEvent::Paused { reason } => {
                self.status = CampaignStatus::Paused;
                if matches!(reason, PauseReason::Transient { .. }) {
                    self.failures = self.failures.saturating_add(1);
                }
                self.pause = Some(reason.clone());
            }
            CampaignEvent::Resumed { .. } => {
                self.status = if self.began { CampaignStatus::Active } else { CampaignStatus::Initializing };
                (self.pause, self.failure, self.refusals, self.idle) = (None, None, 0, 0);
            }
            CampaignEvent::Failed { category } => {
                (self.status, self.pause) = (CampaignStatus::Error, None);
                self.failure = Some(category.clone());
            }
            CampaignEvent::Completed => (self.status, self.pause) = (CampaignStatus::Completed, None),
            CampaignEvent::Cancelled { .. } => {
                (self.status, self.pause, self.wait) = (CampaignStatus::Cancelled, None, None);
                // A call that was begun ends; one that was not is never made.
                self.action.take_if(|open| open.stage != ActionStage::Begun);
            }
            _ => {}
        }
    }

    /// A proposal was accepted: the command that the model was shown was carried out, and what was refused before does not
    /// count any more.
    fn accept_cycle(&mut self) {
        (self.refusals, self.failures) = (0, 0);
        if self.seen.is_none_or(|seen| self.command_seq <= seen) {
            self.command = None;
        }
    }

    fn give_command(&mut self, command: String) {
        (self.command, self.command_seq) = (Some(command), self.seq);
    }

    fn close_wait(&mut self, wait: &CampaignWait) {
        self.wait.take_if(|open| open == wait);
    }

    /// Takes another version of the plan. Tasks that are the same and done stay done; nothing that was found for
    /// another one counts any more.
    fn change_plan(&mut self, plan: &Plan, is_edited: bool) {
        if !is_edited {
            self.accept_cycle();
            self.idle = 0;
        }
        let before = self.plan.take();
        let is_same = |task: &crate::plan::PlanTask| {
            before.as_ref().and_then(|before| before.find_task(&task.id)).is_some_and(|(_, old)| old == task)
        };
        let row = |task: &crate::plan::PlanTask| {
            let kept = self.find_progress(&task.id).filter(|_| is_same(task));
            match kept {
                Some(done) if done.status == TaskStatus::Done => done.clone(),
                kept => TaskProgress {
                    task: task.id.clone(),
                    status: TaskStatus::Pending,
                    attempts: kept.map_or(0, |kept| kept.attempts),
                    blocked_because: None,
                    result_ref: None,
                    found: vec![None; task.proof.len()],
                },
            }
        };
        self.progress = plan.tasks.iter().map(row).collect();
        self.plan = Some(plan.clone());
        self.approval = None;
        // A command that came while the agent made this version goes first: it may change it again.
        self.wait = (is_edited || self.command.is_none()).then_some(CampaignWait::Plan);
        // A call of the version before is not made any more, unless it was begun.
        self.action.take_if(|open| open.stage != ActionStage::Begun);
    }

    /// Notes which proofs of its task a successful call is; a call of another version of the plan is none.
    fn find_proofs_in_call(&mut self, action: &CampaignAction) {
        if self.plan.as_ref().is_some_and(|plan| plan.version == action.plan_version) {
            self.find_proofs(&action.task, |proof| proof.is_found_in_call(&action.tool, &action.args));
        }
    }

    fn find_proofs(&mut self, task: &str, is_found: impl Fn(&Proof) -> bool) {
        let seq = self.seq;
        let Some((_, definition)) = self.plan.as_ref().and_then(|plan| plan.find_task(task)) else { return };
        let found: Vec<usize> = definition
            .proof
            .iter()
            .enumerate()
            .filter(|(_, proof)| is_found(proof))
            .map(|(at, _)| at)
            .collect();
        if let Some(progress) = self.progress_mut(task) {
            for at in found {
                progress.found[at] = Some(seq);
            }
        }
    }
}

impl CampaignEvent {
    /// Returns the task of the plan that it is about, where there must be one.
    fn named_task(&self) -> Option<&str> {
        match self {
            Self::TaskSelected { task }
            | Self::ArtifactProposed { task, .. }
            | Self::Confirmed { task, .. }
            | Self::TaskCompleted { task, .. }
            | Self::TaskBlocked { task, .. }
            | Self::TaskUnblocked { task, .. }
            | Self::TaskRetried { task, .. } => Some(task),
            Self::QuestionAsked { task, .. } => task.as_deref(),
            Self::ActionProposed { action, .. } => Some(&action.task),
            _ => None,
        }
    }

    /// Returns the digest of the open call that it is about.
    fn named_action(&self) -> Option<&str> {
        match self {
            Self::ActionDecided { digest, .. }
            | Self::ActionBegan { digest }
            | Self::ActionDone { digest, .. } => Some(digest),
            _ => None,
        }
    }

    /// Tells whether a person has said something by it that an agent may go on with.
    fn is_from_person(&self) -> bool {
        match self {
            Self::CommandGiven { .. }
            | Self::PlanApproved { .. }
            | Self::PlanRejected { .. }
            | Self::BudgetChanged { .. }
            | Self::ActionDecided { .. }
            | Self::ArtifactApproved { .. }
            | Self::QuestionAnswered { .. }
            | Self::Confirmed { .. }
            | Self::TaskUnblocked { .. }
            | Self::TaskRetried { .. } => true,
            Self::PlanChanged { by, .. } | Self::Resumed { by } => by.is_some(),
            _ => false,
        }
    }

    /// Tells whether the agent is shown it among the last entries: beginnings and measures tell nothing.
    fn is_shown_to_agents(&self) -> bool {
        !matches!(self, Self::CycleBegan { .. } | Self::CycleMeasured { .. } | Self::ActionBegan { .. })
    }
}

/// Counts the bytes of an entry as JSON.
fn count_bytes(entry: &CampaignLogEntry) -> u64 {
    struct Counter(u64);
    impl std::io::Write for Counter {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len() as u64;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut counter = Counter(0);
    // What cannot be represented is not stored either.
    serde_json::to_writer(&mut counter, entry).unwrap_or_default();
    counter.0
}
