//! Campaigns of a server: the decisions of a person. The server runs the cycles.

use serde_json::Value;
use singletree_protocol::native::{
    AddSchedule, ApproveArtifact, ApprovePlan, BudgetLimits, CampaignCommand, CampaignDetail, CampaignPhase,
    CreateCampaign, EditPlan, MissedDueTimes, PendingDecision, ProofRule, RejectPlan, ScheduleInfo,
};

use super::ServedChat;
use crate::args::Campaign;
use crate::campaigns::{id_beginning, read_json_file};
use crate::error::{Error, Result};
use crate::exit::{COMPLETED, ERRORED, SUSPENDED};
use crate::json;
use crate::print::{TerminalOutput, TextStyle};

/// How many digits of a digest name something.
const DIGITS_MIN: usize = 8;

impl ServedChat {
    /// Carries out a command about campaigns at the server.
    pub(crate) async fn run_campaign_command(&self, args: Campaign) -> Result<u8> {
        let as_json = args.options().common.json;
        let campaigns = &self.campaigns;
        let is_run = matches!(args, Campaign::Run { .. });
        let id = match &args {
            Campaign::New { .. } => String::new(),
            named => self.find_campaign(named.named_campaign()).await?,
        };
        if let Campaign::Schedule { .. } | Campaign::Unschedule { .. } = args {
            return self.change_schedules(&id, (args, as_json)).await;
        }
        if let Campaign::Narrate { .. } = args {
            return self.narrate_campaign(&id, as_json).await;
        }
        let detail = match args {
            Campaign::New { demo: true, .. } => {
                let why =
                    "the demo decides by itself: it takes a database that no server has open (--db FILE)";
                return Err(Error::Usage(why.to_owned()));
            }
            Campaign::New { goal, template, name, agent, cycles, plan, .. } => {
                let budget = cycles.map(|cycles| BudgetLimits { cycles: Some(cycles), ..Default::default() });
                let tasks = plan.as_deref().map(read_json_file).transpose()?;
                let new = CreateCampaign { goal, template, name, agent, budget, tasks, ..Default::default() };
                campaigns.create_campaign(&new).await?
            }
            Campaign::Plan { edit: Some(file), .. } => {
                let version = campaigns.fetch_campaign(&id).await?.plan.map_or(0, |plan| plan.version);
                campaigns.edit_plan(&id, &EditPlan { version, tasks: read_json_file(&file)? }).await?;
                campaigns.fetch_campaign(&id).await?
            }
            Campaign::Run { .. } => campaigns.fetch_campaign(&id).await?,
            Campaign::Pause { .. } => campaigns.pause_campaign(&id).await?,
            Campaign::Resume { .. } => campaigns.resume_campaign(&id).await?,
            Campaign::Cancel { .. } => campaigns.cancel_campaign(&id).await?,
            Campaign::Approve { digest, reject, reason, .. } => {
                self.decide_in_campaign(&id, &digest, (!reject, reason)).await?
            }
            Campaign::Command { text, .. } => {
                self.command_campaign(&id, CampaignCommand::Free { text }).await?
            }
            Campaign::Unblock { task, .. } => {
                self.command_campaign(&id, CampaignCommand::Unblock { task }).await?
            }
            Campaign::Retry { task, .. } => {
                self.command_campaign(&id, CampaignCommand::Retry { task }).await?
            }
            Campaign::Confirm { task, question, .. } => {
                let question = match question {
                    Some(question) => question,
                    None => self.find_question(&id, &task).await?,
                };
                self.command_campaign(&id, CampaignCommand::Confirm { task, question }).await?
            }
            Campaign::Answer { answer, .. } => {
                let detail = campaigns.fetch_campaign(&id).await?;
                let Some(PendingDecision::Question { question, .. }) = detail.waits_for else {
                    return Err(Error::Usage("no question of this campaign waits for an answer".to_owned()));
                };
                let answer = serde_json::from_str(&answer).unwrap_or(Value::String(answer));
                self.command_campaign(&id, CampaignCommand::Answer { question, answer }).await?
            }
            _ => {
                let why = format!("do this at the server, {}: it has the database open", self.server_url());
                return Err(Error::Usage(why));
            }
        };
        print_detail(&detail, as_json)?;
        Ok(if is_run { exit_code_of_phase(detail.status) } else { COMPLETED })
    }

    /// Prints the narration of a campaign that the server holds.
    async fn narrate_campaign(&self, id: &str, as_json: bool) -> Result<u8> {
        let mut screen = TerminalOutput::standard_output();
        // One that there is not is told, and not shown as silent.
        let session = self.campaigns.fetch_campaign(id).await?.session;
        match as_json {
            true => json::print_json(&mut screen, &self.client.list_narration(&session, None).await?)?,
            false => self.show_narration(&session, &mut screen).await?,
        }
        Ok(COMPLETED)
    }

    /// Finds a campaign by its id, or by the beginning of it where only one begins so.
    async fn find_campaign(&self, id: &str) -> Result<String> {
        let (begins, past) = id_beginning(id);
        let mut found = self.campaigns.list_campaigns(Some(&past), Some(2)).await?.items;
        found.retain(|campaign| campaign.id.starts_with(&begins));
        match found.as_slice() {
            [] => Ok(id.to_owned()),
            [campaign] => Ok(campaign.id.clone()),
            _ => Err(Error::Usage(format!("several campaigns begin with '{id}'"))),
        }
    }

    /// Returns the question of the proof of a task, where it has exactly one.
    async fn find_question(&self, id: &str, task: &str) -> Result<String> {
        let plan = self.campaigns.fetch_plan(id).await?;
        let named = plan.tasks.into_iter().filter(|definition| definition.id == task);
        let proofs = named.flat_map(|definition| definition.proof);
        let questions: Vec<String> = proofs
            .filter_map(|proof| match proof {
                ProofRule::UserConfirmed { question } => Some(question),
                _ => None,
            })
            .collect();
        match questions.as_slice() {
            [question] => Ok(question.clone()),
            _ => Err(Error::Usage(format!("name the question: task '{task}' has not exactly one"))),
        }
    }

    async fn change_schedules(&self, id: &str, (args, as_json): (Campaign, bool)) -> Result<u8> {
        match args {
            Campaign::Schedule { cron, zone, skip_missed, command, .. } => {
                let missed = if skip_missed { MissedDueTimes::Skip } else { MissedDueTimes::Once };
                let schedule = AddSchedule { expression: cron, zone: Some(zone), missed, command };
                let added = self.campaigns.add_schedule(id, &schedule).await?;
                return print_schedule(&added, as_json);
            }
            Campaign::Unschedule { schedule, .. } => self.campaigns.remove_schedule(id, &schedule).await?,
            _ => {}
        }
        Ok(COMPLETED)
    }

    async fn command_campaign(&self, id: &str, command: CampaignCommand) -> Result<CampaignDetail> {
        Ok(self.campaigns.give_command(id, &command, None).await?)
    }

    /// Approves or rejects whatever has this digest.
    async fn decide_in_campaign(
        &self,
        id: &str,
        digest: &str,
        (approved, reason): (bool, Option<String>),
    ) -> Result<CampaignDetail> {
        let is_named = |whole: &str| digest.len() >= DIGITS_MIN && whole.starts_with(digest);
        let detail = self.campaigns.fetch_campaign(id).await?;
        if let Some(plan) = detail.plan.filter(|plan| is_named(&plan.digest)) {
            let version = plan.version;
            return Ok(match approved {
                true => {
                    let approval = ApprovePlan { version, digest: plan.digest };
                    self.campaigns.approve_plan(id, &approval).await?
                }
                false => self.campaigns.reject_plan(id, &RejectPlan { version, reason }).await?,
            });
        }
        if let Some(call) = detail.call.filter(|call| is_named(&call.digest)) {
            let command = CampaignCommand::Decide { digest: call.digest, approved, reason };
            return self.command_campaign(id, command).await;
        }
        let artifacts = self.campaigns.list_campaign_artifacts(id).await?.items;
        let Some(artifact) = artifacts.into_iter().find(|artifact| approved && is_named(&artifact.digest))
        else {
            let why = format!("nothing that waits in this campaign has the digest {digest}");
            return Err(Error::Usage(why));
        };
        let approval = ApproveArtifact {
            kind: artifact.kind,
            key: artifact.key,
            version: artifact.version,
            digest: artifact.digest,
        };
        self.campaigns.approve_campaign_artifact(id, &approval).await?;
        Ok(self.campaigns.fetch_campaign(id).await?)
    }
}

fn print_schedule(added: &ScheduleInfo, as_json: bool) -> Result<u8> {
    let mut screen = TerminalOutput::standard_output();
    if as_json {
        json::print_json(&mut screen, added)?;
        return Ok(COMPLETED);
    }
    let ScheduleInfo { id, expression, zone, next_at, command, .. } = added;
    screen.write_line(&format!("{id}  {expression} {zone}  next {}  {command}", next_at.0))?;
    Ok(COMPLETED)
}

fn print_detail(detail: &CampaignDetail, as_json: bool) -> Result<()> {
    let mut screen = TerminalOutput::standard_output();
    if as_json {
        json::print_json(&mut screen, detail)?;
        return Ok(());
    }
    let status = phase_word(detail.status);
    screen.write_styled_line(TextStyle::Strong, &format!("{}: {status}", detail.name))?;
    screen.write_line(&format!("  {}  tasks done: {}", detail.id, detail.tasks.done))?;
    Ok(())
}

fn phase_word(phase: CampaignPhase) -> &'static str {
    match phase {
        CampaignPhase::Initializing => "initializing",
        CampaignPhase::Active => "active",
        CampaignPhase::Paused => "paused",
        CampaignPhase::Completed => "completed",
        CampaignPhase::Error => "error",
        CampaignPhase::Cancelled => "cancelled",
    }
}

fn exit_code_of_phase(phase: CampaignPhase) -> u8 {
    match phase {
        CampaignPhase::Completed => COMPLETED,
        CampaignPhase::Error | CampaignPhase::Cancelled => ERRORED,
        CampaignPhase::Initializing | CampaignPhase::Active | CampaignPhase::Paused => SUSPENDED,
    }
}
