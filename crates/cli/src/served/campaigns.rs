//! Campaigns of a server: the decisions of a person. The server runs the cycles.

use serde_json::Value;
use singletree_protocol::native::{
    ApproveArtifact, ApprovePlan, BudgetLimits, CampaignCommand, CampaignDetail, CampaignPhase,
    CreateCampaign, PendingDecision, RejectPlan,
};

use super::ServedChat;
use crate::args::Campaign;
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
        let id = args.named_campaign().to_owned();
        let campaigns = &self.campaigns;
        let is_run = matches!(args, Campaign::Run { .. });
        let detail = match args {
            Campaign::New { demo: false, plan: None, goal, template, name, agent, cycles, .. } => {
                let budget = cycles.map(|cycles| BudgetLimits { cycles: Some(cycles), ..Default::default() });
                let new = CreateCampaign { goal, template, name, agent, budget, ..Default::default() };
                campaigns.create_campaign(&new).await?
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
            Campaign::Confirm { task, question: Some(question), .. } => {
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
