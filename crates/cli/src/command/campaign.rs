//! `singletree campaign`: goals that an agent pursues over many cycles.

use serde_json::{Value, json};
use singletree::campaign::{
    CampaignBoard, CampaignBudget, CampaignWait, MissedRuns, PersonCommand, Proof, StoredSchedule,
    campaign_session,
};
use singletree::controller::{CampaignCaller, Controller, NewCampaign, NewSchedule, demo};
use singletree::durable::TenantId;

use crate::args::Campaign;
use crate::campaigns::{
    describe_proof, describe_status, exit_code_of_campaign, id_beginning, read_json_file, task_status_word,
};
use crate::error::{Error, Result};
use crate::exit::COMPLETED;
use crate::json;
use crate::narration_screen::NOTHING_NARRATED;
use crate::place::DatabaseLocation;
use crate::print::{TerminalOutput, TextStyle};
use crate::served::{self, ChatLocation, ServerAddress};
use crate::who::Who;
use crate::wire::Workspace;

/// Who decides at a terminal, as it is recorded.
const FROM: &str = "terminal";
/// Who decides in the demo.
const DEMO: &str = "demo";
/// How many campaigns are read at once, and how many entries of a log.
const PAGE: u64 = 200;
/// How many digits of a digest name something.
const DIGITS_MIN: usize = 8;
/// How many decisions the demo makes at most.
const DEMO_STEPS: usize = 50;

/// The campaigns of a database, and where about them is printed.
struct CampaignDesk<'a> {
    controller: &'a Controller,
    workspace: &'a Workspace,
    tenant: TenantId,
    caller: CampaignCaller,
    as_json: bool,
    screen: TerminalOutput,
}

/// Runs the command over the database; decisions beside a server that has it open are made at the server.
pub(crate) async fn run_campaign_command(args: Campaign) -> Result<u8> {
    let options = args.options();
    let place = DatabaseLocation::from_options(&options.common.db)?;
    let (who, as_json) = (options.who.clone(), options.common.json);
    let is_demo = matches!(args, Campaign::New { demo: true, .. });
    let who = if is_demo { Who::default() } else { who };
    let reads = matches!(
        args,
        Campaign::List { .. }
            | Campaign::Show { .. }
            | Campaign::Plan { edit: None, .. }
            | Campaign::Artifacts { .. }
            | Campaign::Schedules { .. }
            | Campaign::Log { .. }
    );
    let workspace = if reads {
        Workspace::open_read_only(&place).await?
    } else {
        let open = async {
            match is_demo {
                true => Workspace::open_without_agents(&place, "campaign").await,
                false => Workspace::open_with_agents(&place, &who, "campaign").await,
            }
        };
        match served::locate_chat(&place, &ServerAddress::default(), open).await? {
            ChatLocation::Here(workspace) => *workspace,
            ChatLocation::There(served) => return served.run_campaign_command(args).await,
        }
    };
    let mut desk = CampaignDesk {
        controller: &workspace.controller,
        workspace: &workspace,
        tenant: TenantId::single(),
        caller: CampaignCaller::with_all_scopes(if is_demo { DEMO } else { FROM }),
        as_json,
        screen: TerminalOutput::standard_output(),
    };
    let ran = desk.run(args).await;
    let ran = workspace.redact_result(ran);
    workspace.close_gracefully().await;
    ran
}

impl CampaignDesk<'_> {
    async fn run(&mut self, args: Campaign) -> Result<u8> {
        let command = match args {
            Campaign::New { demo: true, .. } => return self.play_demo().await,
            Campaign::New { goal, template, name, agent, cycles, plan, .. } => {
                let budget =
                    cycles.map(|cycles| CampaignBudget { cycles: Some(cycles), ..Default::default() });
                let tasks = plan.as_deref().map(read_json_file).transpose()?.unwrap_or_default();
                let new = NewCampaign { goal, template, name, agent, budget, tasks, ..Default::default() };
                let board = self.controller.create(&self.tenant, new, &self.caller).await?;
                return self.print_created(&board);
            }
            Campaign::List { .. } => return self.print_list().await,
            Campaign::Show { campaign } => {
                let board = self.find(&campaign.id).await?;
                return self.print_board(&board).await;
            }
            Campaign::Run { campaign } => return self.run_to_decision(&campaign.id).await,
            Campaign::Plan { campaign, edit: None } => {
                let board = self.find(&campaign.id).await?;
                return self.print_plan(&board);
            }
            Campaign::Artifacts { campaign } => return self.print_artifacts(&campaign.id).await,
            Campaign::Log { campaign } => return self.print_log(&campaign.id).await,
            // Narration is held by the process that runs the campaign, and by no other one.
            Campaign::Narrate { campaign } => {
                self.find(&campaign.id).await?;
                match self.as_json {
                    true => json::print_json(&mut self.screen, &json!({ "items": [], "enabled": false }))?,
                    false => self.screen.write_line(NOTHING_NARRATED)?,
                }
                return Ok(COMPLETED);
            }
            Campaign::Schedule { campaign, cron, zone, skip_missed, command } => {
                let missed = if skip_missed { MissedRuns::Skip } else { MissedRuns::Once };
                let new = NewSchedule { expression: cron, zone, missed, command };
                let id = self.find(&campaign.id).await?.campaign.id;
                let added = self.controller.add_schedule(&self.tenant, &id, new, &self.caller).await?;
                return self.print_schedules(&[added]);
            }
            Campaign::Unschedule { campaign, schedule } => {
                let id = self.find(&campaign.id).await?.campaign.id;
                self.controller.remove_schedule(&self.tenant, &id, &schedule, &self.caller).await?;
                return Ok(COMPLETED);
            }
            Campaign::Schedules { campaign } => {
                let id = self.find(&campaign.id).await?.campaign.id;
                let listed = self.controller.schedules(&self.tenant, &id).await?;
                return self.print_schedules(&listed);
            }
            Campaign::Approve { campaign, digest, reject, reason } => {
                let board = self.find(&campaign.id).await?;
                let board = self.decide(&board, &digest, (!reject, reason)).await?;
                return self.print_board(&board).await;
            }
            other => other,
        };
        let id = self.find(command.named_campaign()).await?.campaign.id;
        let command = self.person_command(&id, command).await?;
        let board = self.controller.command(&self.tenant, &id, command, &self.caller).await?;
        self.print_board(&board).await
    }

    /// Makes the command of a person from the arguments.
    async fn person_command(&self, id: &str, args: Campaign) -> Result<PersonCommand> {
        Ok(match args {
            Campaign::Plan { edit: Some(file), .. } => {
                let board = self.controller.get(&self.tenant, id).await?;
                let version = board.plan.map_or(0, |plan| plan.version);
                PersonCommand::EditPlan { version, tasks: read_json_file(&file)? }
            }
            Campaign::Confirm { task, question, .. } => {
                let board = self.controller.get(&self.tenant, id).await?;
                let question = question.or_else(|| find_question(&board, &task)).ok_or_else(|| {
                    Error::Usage(format!("name the question: task '{task}' has not exactly one"))
                })?;
                PersonCommand::Confirm { task, question }
            }
            Campaign::Command { text, .. } => PersonCommand::Free { text },
            Campaign::Answer { answer, .. } => {
                let board = self.controller.get(&self.tenant, id).await?;
                let Some(CampaignWait::Question { question, .. }) = board.wait else {
                    return Err(Error::Usage("no question of this campaign waits for an answer".to_owned()));
                };
                let answer = serde_json::from_str(&answer).unwrap_or(Value::String(answer));
                PersonCommand::Answer { question, answer }
            }
            Campaign::Unblock { task, .. } => PersonCommand::Unblock { task },
            Campaign::Retry { task, .. } => PersonCommand::Retry { task },
            Campaign::Pause { .. } => PersonCommand::Pause,
            Campaign::Cancel { .. } => PersonCommand::Cancel,
            _ => PersonCommand::Resume,
        })
    }

    /// Finds a campaign by its id, or by the beginning of it where only one begins so.
    async fn find(&self, id: &str) -> Result<CampaignBoard> {
        let (begins, past) = id_beginning(id);
        let mut found = self.controller.list(&self.tenant, Some(&past), 2).await?;
        found.retain(|board| board.campaign.id.starts_with(&begins));
        match found.as_slice() {
            [] => Err(singletree::controller::Error::Unknown { id: id.to_owned() }.into()),
            [board] => Ok(self.controller.get(&self.tenant, &board.campaign.id).await?),
            _ => Err(Error::Usage(format!("several campaigns begin with '{id}'"))),
        }
    }

    /// Approves or rejects whatever has this digest.
    async fn decide(
        &self,
        board: &CampaignBoard,
        digest: &str,
        (approved, reason): (bool, Option<String>),
    ) -> Result<CampaignBoard> {
        let id = &board.campaign.id;
        let is_named = |whole: &str| digest.len() >= DIGITS_MIN && whole.starts_with(digest);
        let command = match (&board.plan, &board.action) {
            (Some(plan), _) if is_named(&plan.digest) => match approved {
                true => PersonCommand::ApprovePlan { version: plan.version, digest: plan.digest.clone() },
                false => PersonCommand::RejectPlan { version: plan.version, reason },
            },
            (_, Some(open)) if is_named(&open.action.digest) => {
                PersonCommand::DecideAction { digest: open.action.digest.clone(), approved, reason }
            }
            _ => {
                let artifacts = self.controller.artifacts(&self.tenant, id).await?;
                let named = artifacts.iter().find(|artifact| approved && is_named(&artifact.digest));
                let Some(artifact) = named else {
                    let why = format!("nothing that waits in this campaign has the digest {digest}");
                    return Err(Error::Usage(why));
                };
                let named = (&artifact.name, artifact.digest.as_str());
                return Ok(self.controller.approve_artifact(&self.tenant, id, named, &self.caller).await?);
            }
        };
        Ok(self.controller.command(&self.tenant, id, command, &self.caller).await?)
    }

    async fn run_to_decision(&mut self, id: &str) -> Result<u8> {
        let board = self.find(id).await?;
        let board = self.run_and_tell(&board.campaign.id).await?;
        self.print_board(&board).await?;
        Ok(exit_code_of_campaign(&board))
    }

    /// Runs cycles until a person has to decide something, and tells what happens.
    async fn run_and_tell(&mut self, id: &str) -> Result<CampaignBoard> {
        loop {
            let board = self.controller.get(&self.tenant, id).await?;
            if !board.next_step().runs() {
                return Ok(board);
            }
            let after = self.controller.run_one_cycle(&self.tenant, id).await?;
            if !self.as_json {
                self.workspace.narration.print_new(&campaign_session(id), &mut self.screen)?;
            }
            if after == board {
                return Ok(after);
            }
        }
    }

    /// Plays the campaign of the demo: the demo decides in the place of a person.
    async fn play_demo(&mut self) -> Result<u8> {
        let new = NewCampaign { name: Some(demo::NAME.to_owned()), ..NewCampaign::with_goal(demo::GOAL) };
        let created = self.controller.create(&self.tenant, new, &self.caller).await?;
        let id = created.campaign.id;
        for _ in 0..DEMO_STEPS {
            let board = self.run_and_tell(&id).await?;
            let Some((what, digest)) = self.find_waiting(&board).await? else { break };
            if !self.as_json {
                let line = format!("the demo approves {what} ({digest})");
                self.screen.write_styled_line(TextStyle::Strong, &line)?;
            }
            self.decide(&board, &digest, (true, None)).await?;
        }
        let board = self.controller.get(&self.tenant, &id).await?;
        self.print_board(&board).await?;
        Ok(exit_code_of_campaign(&board))
    }

    /// Returns what waits for an approval, with its digest.
    async fn find_waiting(&self, board: &CampaignBoard) -> Result<Option<(String, String)>> {
        if board.status.is_over() {
            return Ok(None);
        }
        Ok(match (&board.wait, &board.plan, &board.action) {
            (Some(CampaignWait::Plan), Some(plan), _) => {
                Some((format!("version {} of the plan", plan.version), plan.digest.clone()))
            }
            (Some(CampaignWait::Action), _, Some(open)) => {
                let arguments = Value::Object(open.action.args.clone());
                Some((format!("{} {arguments}", open.action.tool), open.action.digest.clone()))
            }
            _ => {
                let artifacts = self.controller.artifacts(&self.tenant, &board.campaign.id).await?;
                let open = artifacts.into_iter().rfind(|artifact| artifact.approved_by.is_none());
                open.map(|artifact| (format!("the artifact {}", artifact.name), artifact.digest))
            }
        })
    }

    fn print_created(&mut self, board: &CampaignBoard) -> Result<u8> {
        match self.as_json {
            true => json::print_json(&mut self.screen, board)?,
            false => self.screen.write_line(&board.campaign.id)?,
        }
        Ok(COMPLETED)
    }

    async fn print_list(&mut self) -> Result<u8> {
        let (mut past, mut is_empty, mut all) = (None::<String>, true, Vec::new());
        loop {
            let page = self.controller.list(&self.tenant, past.as_deref(), PAGE).await?;
            let Some(last) = page.last() else { break };
            past = Some(last.campaign.id.clone());
            is_empty = false;
            for board in page {
                if self.as_json {
                    all.push(board);
                } else {
                    let line = format!("{}  {}  {}", board.campaign.id, board.status, board.campaign.name);
                    self.screen.write_line(&line)?;
                }
            }
        }
        match (self.as_json, is_empty) {
            (true, _) => json::print_json(&mut self.screen, &serde_json::json!({ "items": all }))?,
            (false, true) => self.screen.write_line("there are no campaigns")?,
            (false, false) => {}
        }
        Ok(COMPLETED)
    }

    async fn print_board(&mut self, board: &CampaignBoard) -> Result<u8> {
        if self.as_json {
            json::print_json(&mut self.screen, board)?;
            return Ok(COMPLETED);
        }
        let campaign = &board.campaign;
        let counts = board.count_tasks();
        let screen = &mut self.screen;
        screen.write_styled_line(
            TextStyle::Strong,
            &format!("{}: {}", campaign.name, describe_status(board)),
        )?;
        screen.write_line(&format!("  goal:  {}", campaign.goal))?;
        screen.write_line(&format!(
            "  tasks: {} done, {} in progress, {} pending, {} blocked; cycles: {}",
            counts.done, counts.in_progress, counts.pending, counts.blocked, board.usage.cycles
        ))?;
        for progress in board.progress.iter().take(PAGE as usize) {
            let because = progress.blocked_because.as_deref().map(|why| format!(": {why}"));
            let status = task_status_word(progress.status);
            screen.write_line(&format!("  - {} {status}{}", progress.task, because.unwrap_or_default()))?;
        }
        let id = &campaign.id;
        if let Some(CampaignWait::Question { question, .. }) = &board.wait {
            self.screen.write_line(&format!("a question: {question}"))?;
            self.screen.write_line(&format!("  singletree campaign answer {id} ANSWER"))?;
        }
        if let Some((what, digest)) = self.find_waiting(board).await? {
            self.screen.write_line(&format!("waits for approval: {what}"))?;
            self.screen.write_line(&format!("  singletree campaign approve {id} {digest}"))?;
        }
        Ok(COMPLETED)
    }

    fn print_plan(&mut self, board: &CampaignBoard) -> Result<u8> {
        let Some(plan) = &board.plan else {
            self.screen.write_line("there is no plan yet")?;
            return Ok(COMPLETED);
        };
        if self.as_json {
            json::print_json(&mut self.screen, plan)?;
            return Ok(COMPLETED);
        }
        let approved = match &board.approval {
            Some(approval) if board.is_plan_approved() => format!("approved by {}", approval.by),
            _ => "not approved".to_owned(),
        };
        self.screen.write_styled_line(TextStyle::Strong, &format!("version {}, {approved}", plan.version))?;
        for task in &plan.tasks {
            let needs = match task.needs.is_empty() {
                true => String::new(),
                false => format!(" (after {})", task.needs.join(", ")),
            };
            self.screen.write_line(&format!("- {}{needs}: {}", task.id, task.description))?;
            for proof in &task.proof {
                self.screen.write_line(&format!("    proof: {}", describe_proof(proof)))?;
            }
        }
        self.screen.write_line(&format!("digest: {}", plan.digest))?;
        Ok(COMPLETED)
    }

    fn print_schedules(&mut self, schedules: &[StoredSchedule]) -> Result<u8> {
        for StoredSchedule { id, schedule, .. } in schedules {
            let next = json::format_time(schedule.next_at);
            let line =
                format!("{id}  {} {}  next {next}  {}", schedule.expression, schedule.zone, schedule.command);
            self.screen.write_line(&line)?;
        }
        if schedules.is_empty() {
            self.screen.write_line("this campaign has no schedules")?;
        }
        Ok(COMPLETED)
    }

    async fn print_artifacts(&mut self, id: &str) -> Result<u8> {
        let id = self.find(id).await?.campaign.id;
        let artifacts = self.controller.artifacts(&self.tenant, &id).await?;
        for artifact in &artifacts {
            let approval = artifact.approved_by.as_deref().map(|by| format!("approved by {by}"));
            let approval = approval.unwrap_or_else(|| "not approved".to_owned());
            let line = format!("{}  {approval}  {}", artifact.name, artifact.digest);
            self.screen.write_styled_line(TextStyle::Dim, &line)?;
            for line in artifact.content.lines() {
                self.screen.write_line(&format!("    {line}"))?;
            }
        }
        if artifacts.is_empty() {
            self.screen.write_line("this campaign has no artifacts")?;
        }
        Ok(COMPLETED)
    }

    async fn print_log(&mut self, id: &str) -> Result<u8> {
        let id = self.find(id).await?.campaign.id;
        let mut after = 0;
        loop {
            let page = self.controller.log(&self.tenant, &id, (after, PAGE)).await?;
            let Some(last) = page.last() else { return Ok(COMPLETED) };
            after = last.seq;
            for entry in &page {
                json::print_json(&mut self.screen, entry)?;
            }
        }
    }
}

/// Returns the question of the proof of a task, where it has exactly one.
fn find_question(board: &CampaignBoard, task: &str) -> Option<String> {
    let (_, task) = board.plan.as_ref()?.find_task(task)?;
    let mut questions = task.proof.iter().filter_map(|proof| match proof {
        Proof::UserConfirmed { question } => Some(question.clone()),
        _ => None,
    });
    questions.next().filter(|_| questions.next().is_none())
}
