//! A person who looks after campaigns: reads the board of one, and mostly gives the command that it asks for.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use singletree_agent::{ArtifactName, SessionArtifact};
use singletree_campaign::{
    CampaignBoard, CampaignBudget, CampaignStatus, CampaignWait, PauseReason, PersonCommand, Proof,
    TaskStatus,
};
use singletree_controller::{CampaignCaller, Controller, NewCampaign};
use singletree_durable::TenantId;

use super::{
    CYCLES, CampaignCallAnswer, CampaignCallKind, CampaignCallRecord, CampaignWorld, SimulatedCampaignName,
};
use crate::client::TENANTS;
use crate::process::SimulatedProcess;
use crate::random::SimulationRandom;
use crate::world::{CallReporter, SimulatedWorld};

/// A call about a campaign.
#[derive(Debug, Clone)]
enum CampaignCall {
    Create,
    Read,
    Command(PersonCommand),
    ApproveArtifact(ArtifactName, String),
    Delete,
}

/// The reply to a call.
#[derive(Debug)]
enum CampaignReply {
    Read(Box<CampaignBoard>, Vec<SessionArtifact>),
    Done,
    Failed(String),
}

/// One person.
pub(crate) struct SimulatedPerson {
    world: Arc<SimulatedWorld>,
    campaigns: Arc<CampaignWorld>,
    number: usize,
    random: SimulationRandom,
}

impl SimulatedPerson {
    pub(crate) fn new(world: Arc<SimulatedWorld>, campaigns: Arc<CampaignWorld>, number: usize) -> Self {
        let random = SimulationRandom::from_name(world.seed, &format!("person {number}"));
        Self { world, campaigns, number, random }
    }

    /// Makes calls until none are left.
    pub(crate) async fn run(self) {
        loop {
            let most = u64::try_from(self.world.settings.thinking.as_micros()).unwrap_or(0);
            // A cycle takes some time.
            let span = Duration::from_micros(self.random.draw_between(1, most.max(200_000)));
            self.world.executor.sleep_for(span).await;
            let Some(number) = self.campaigns.take_call() else { return };
            match self.draw_campaign() {
                Some(campaign) => self.look_at_campaign(&campaign, number).await,
                None => self.create_campaign(number).await,
            }
            self.campaigns.end_call();
        }
    }

    /// Reads a campaign, and says something about it after a while.
    async fn look_at_campaign(&self, campaign: &SimulatedCampaignName, number: u64) {
        let read = self.make_call(campaign, CampaignCall::Read, number).await;
        let Some(CampaignReply::Read(board, artifacts)) = read else { return };
        // Somebody else may say something meanwhile.
        self.world.executor.sleep_for(self.draw_pause()).await;
        if let Some(call) = self.choose_call(&board, &artifacts) {
            self.make_call(campaign, call, number).await;
        }
    }

    fn draw_pause(&self) -> Duration {
        Duration::from_millis(self.random.draw_from(&[0, 1, 50, 2_000]).unwrap_or(0))
    }

    /// Chooses a campaign; none to create one.
    fn draw_campaign(&self) -> Option<SimulatedCampaignName> {
        let names: Vec<_> = self.campaigns.names().into_iter().collect();
        let creates = names.len() < self.campaigns.settings.campaigns && self.random.draw_percent(40);
        if creates { None } else { self.random.draw_from(&names) }
    }

    async fn create_campaign(&self, number: u64) {
        let tenant = self.random.draw_from(&TENANTS).and_then(|tenant| TenantId::parse(tenant).ok());
        let name = SimulatedCampaignName {
            tenant: tenant.unwrap_or_else(TenantId::single),
            id: format!("cmp_{number}"),
        };
        self.campaigns.lock_known().campaigns.insert(name.clone());
        self.make_call(&name, CampaignCall::Create, number).await;
    }

    /// Makes a call once, and notes the answer; a lost connection is not repeated.
    async fn make_call(
        &self,
        campaign: &SimulatedCampaignName,
        call: CampaignCall,
        number: u64,
    ) -> Option<CampaignReply> {
        let world = &self.world;
        let by = format!("person-{}-{number}", self.number);
        let kind = match &call {
            CampaignCall::Create => Some(CampaignCallKind::Create),
            CampaignCall::Command(_) => Some(CampaignCallKind::Command),
            CampaignCall::ApproveArtifact(..) => Some(CampaignCallKind::ApproveArtifact),
            CampaignCall::Delete => Some(CampaignCallKind::Delete),
            CampaignCall::Read => None,
        };
        world.executor.trace_event(format_args!("{by} {}: {call:?}", campaign.qualified()));
        world.begin_work();
        let asked = (campaign.clone(), call, by.clone());
        let handle = move |process: &SimulatedProcess, reporter| {
            handle_campaign_call(process.controller.clone(), reporter, asked)
        };
        let mut replies = world.call_process(handle).await;
        let reply = replies.recv().await;
        world.end_work();
        world.executor.trace_event(format_args!("{by} hears {reply:?}"));
        if let Some(kind) = kind {
            let answer = describe_answer(reply.as_ref());
            let refused =
                matches!(&answer, CampaignCallAnswer::Refused(category) if category == "campaign_changed");
            world.coverage.note_if(refused, "a person was too late with a campaign");
            let record = CampaignCallRecord { campaign: campaign.clone(), kind, by, answer };
            self.campaigns.lock_known().calls.push(record);
        }
        reply
    }

    fn choose_call(&self, board: &CampaignBoard, artifacts: &[SessionArtifact]) -> Option<CampaignCall> {
        let random = &self.random;
        match random.draw_below(100) {
            0..2 => return Some(CampaignCall::Delete),
            2..4 => return Some(CampaignCall::Command(PersonCommand::Cancel)),
            4..10 => return Some(CampaignCall::Command(PersonCommand::Pause)),
            10..16 => {
                let text = "Go on with care.".to_owned();
                return Some(CampaignCall::Command(PersonCommand::Free { text }));
            }
            16..19 => {
                let version = board.plan.as_ref().map_or(0, |plan| plan.version);
                let tasks = serde_json::from_value(self.campaigns.settings.plan.clone()).unwrap_or_default();
                return Some(CampaignCall::Command(PersonCommand::EditPlan { version, tasks }));
            }
            _ => {}
        }
        let unapproved = artifacts.iter().rev().find(|artifact| artifact.approved_by.is_none());
        if let Some(artifact) = unapproved {
            return Some(CampaignCall::ApproveArtifact(artifact.name.clone(), artifact.digest.clone()));
        }
        self.choose_command(board).map(CampaignCall::Command)
    }

    /// Chooses the command that the board asks for.
    fn choose_command(&self, board: &CampaignBoard) -> Option<PersonCommand> {
        let random = &self.random;
        // Somebody who copies the digest wrongly.
        let is_wrong = random.draw_percent(4);
        let copy = |digest: &str| if is_wrong { "0".repeat(digest.len()) } else { digest.to_owned() };
        match (&board.wait, &board.plan, &board.action) {
            (Some(CampaignWait::Plan), Some(plan), _) => {
                let (version, digest) = (plan.version, copy(&plan.digest));
                return Some(match random.draw_percent(85) {
                    true => PersonCommand::ApprovePlan { version, digest },
                    false => PersonCommand::RejectPlan { version, reason: None },
                });
            }
            (Some(CampaignWait::Action), _, Some(open)) => {
                let (digest, approved) = (copy(&open.action.digest), random.draw_percent(75));
                return Some(PersonCommand::DecideAction { digest, approved, reason: None });
            }
            (Some(CampaignWait::Question { question, .. }), ..) => {
                let answer = json!({ "answer": "yes" });
                return Some(PersonCommand::Answer { question: question.clone(), answer });
            }
            _ => {}
        }
        if let Some(progress) = board.task_in_hand() {
            let asked = board.missing_proofs(&progress.task).into_iter().find_map(|(_, proof)| match proof {
                Proof::UserConfirmed { question } => Some(question.clone()),
                _ => None,
            });
            if let Some(question) = asked {
                return Some(PersonCommand::Confirm { task: progress.task.clone(), question });
            }
        }
        let blocked = board.progress.iter().find(|progress| progress.status == TaskStatus::Blocked);
        if let Some(blocked) = blocked.filter(|_| random.draw_percent(60)) {
            let task = blocked.task.clone();
            return Some(match random.draw_percent(50) {
                true => PersonCommand::Unblock { task },
                false => PersonCommand::Retry { task },
            });
        }
        match (board.status, &board.pause) {
            (CampaignStatus::Paused, Some(PauseReason::Budget { .. })) => {
                let cycles = Some(board.usage.cycles + CYCLES);
                Some(PersonCommand::EditBudget { budget: CampaignBudget { cycles, ..board.campaign.budget } })
            }
            (CampaignStatus::Paused | CampaignStatus::Error, _) => Some(PersonCommand::Resume),
            _ => None,
        }
    }
}

/// Interprets a reply. After an error of the store it is unknown whether the call was carried out.
fn describe_answer(reply: Option<&CampaignReply>) -> CampaignCallAnswer {
    match reply {
        Some(CampaignReply::Done | CampaignReply::Read(..)) => CampaignCallAnswer::Done,
        Some(CampaignReply::Failed(category))
            if !category.starts_with("store_") && category != "chat_shutting_down" =>
        {
            CampaignCallAnswer::Refused(category.clone())
        }
        Some(CampaignReply::Failed(_)) | None => CampaignCallAnswer::Unknown,
    }
}

async fn handle_campaign_call(
    controller: Option<Controller>,
    reporter: CallReporter<CampaignReply>,
    (campaign, call, by): (SimulatedCampaignName, CampaignCall, String),
) {
    let Some(controller) = controller else { return };
    let reply = make_campaign_call(&controller, &campaign, call, &CampaignCaller::with_all_scopes(by)).await;
    reporter.report(reply.unwrap_or_else(|error| CampaignReply::Failed(error.category().to_owned())));
}

async fn make_campaign_call(
    controller: &Controller,
    SimulatedCampaignName { tenant, id }: &SimulatedCampaignName,
    call: CampaignCall,
    caller: &CampaignCaller,
) -> singletree_controller::Result<CampaignReply> {
    match call {
        CampaignCall::Create => {
            let budget = CampaignBudget { cycles: Some(CYCLES), ..CampaignBudget::default() };
            let goal = NewCampaign::with_goal("Do every step.");
            let new = NewCampaign { id: Some(id.clone()), budget: Some(budget), ..goal };
            controller.create(tenant, new, caller).await?;
        }
        CampaignCall::Read => {
            let board = controller.get(tenant, id).await?;
            let artifacts = controller.artifacts(tenant, id).await?;
            return Ok(CampaignReply::Read(Box::new(board), artifacts));
        }
        CampaignCall::Command(command) => {
            controller.command(tenant, id, command, caller).await?;
        }
        CampaignCall::ApproveArtifact(name, digest) => {
            controller.approve_artifact(tenant, id, (&name, &digest), caller).await?;
        }
        CampaignCall::Delete => controller.delete(tenant, id, caller).await?,
    }
    Ok(CampaignReply::Done)
}
