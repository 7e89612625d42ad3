//! Checks of campaigns: the log rebuilds the board, acknowledged commands are in it once, and no task is done without its
//! proofs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;
use singletree_campaign::{
    CampaignBoard, CampaignEvent, CampaignLogEntry, CampaignStatus, CampaignStep, CampaignStore, PauseReason,
    Plan, Proof, campaign_session,
};
use singletree_durable::MemoryStore;
use singletree_tools::IdempotencyKey;

use crate::campaign::{
    CampaignCallAnswer, CampaignCallKind, CampaignCallRecord, CampaignWorld, SimulatedCampaignName,
};
use crate::ledger::EffectRecord;
use crate::tool::SimulatedToolKind;
use crate::world::SimulatedWorld;

/// How many entries of a log are read at once.
const PAGE: u64 = 500;

/// Checks every campaign of the run.
pub(super) async fn check_campaigns(world: &Arc<SimulatedWorld>, data: &MemoryStore) -> Vec<String> {
    let Some(campaigns) = &world.campaigns else { return Vec::new() };
    let store = CampaignStore::new(Arc::new(data.clone()));
    let mut found = Vec::new();
    for name in campaigns.names() {
        let calls = calls_of(campaigns, &name);
        match read_campaign(&store, &name).await {
            Ok(Some((board, log))) => {
                note_cases(world, &board, &log);
                let checked = CheckedCampaign { name: &name, board: &board, log: &log };
                found.extend(checked.check_all(world, &calls));
            }
            Ok(None) => {
                let is_deleted = calls.iter().any(|call| {
                    call.kind == CampaignCallKind::Delete && call.answer == CampaignCallAnswer::Done
                });
                world.coverage.note_if(is_deleted, "a campaign was deleted");
                found.extend(check_absence(&name, &calls));
            }
            Err(why) => found.push(format!("unreadable: {}: {why}", name.qualified())),
        }
    }
    found
}

fn calls_of(campaigns: &CampaignWorld, name: &SimulatedCampaignName) -> Vec<CampaignCallRecord> {
    campaigns.lock_known().calls.iter().filter(|call| call.campaign == *name).cloned().collect()
}

async fn read_campaign(
    store: &CampaignStore,
    SimulatedCampaignName { tenant, id }: &SimulatedCampaignName,
) -> Result<Option<(CampaignBoard, Vec<CampaignLogEntry>)>, singletree_campaign::Error> {
    let mut log: Vec<CampaignLogEntry> = Vec::new();
    loop {
        let page = store.read_log(tenant, id, (log.len() as u64, PAGE)).await?;
        if page.is_empty() {
            break;
        }
        log.extend(page);
    }
    Ok(store.load(tenant, id).await?.map(|stored| (stored.board, log)))
}

/// Notes the cases that runs have to reach.
fn note_cases(world: &SimulatedWorld, board: &CampaignBoard, log: &[CampaignLogEntry]) {
    let is_completed = board.status == CampaignStatus::Completed;
    world.coverage.note_if(is_completed, "a campaign was completed");
    for entry in log {
        let case = match &entry.event {
            CampaignEvent::ProposalRefused { .. } => "a proposal was refused",
            CampaignEvent::Paused { reason: PauseReason::Transient { .. } } => {
                "a campaign paused after a failure"
            }
            CampaignEvent::Paused { reason: PauseReason::Budget { .. } } => "a campaign used up its budget",
            CampaignEvent::Resumed { by: None } => "a campaign went on after a pause",
            CampaignEvent::ActionDone { success: false, text, .. } if text.contains("\"unknown\"") => {
                "a call of a campaign was in doubt"
            }
            _ => continue,
        };
        world.coverage.note(case);
    }
}

/// A campaign that is not there was never created, or somebody tried to delete it.
fn check_absence(name: &SimulatedCampaignName, calls: &[CampaignCallRecord]) -> Option<String> {
    let is = |kind: CampaignCallKind, answer: &CampaignCallAnswer| {
        calls.iter().any(|call| call.kind == kind && call.answer == *answer)
    };
    let may_be_deleted = is(CampaignCallKind::Delete, &CampaignCallAnswer::Done)
        || is(CampaignCallKind::Delete, &CampaignCallAnswer::Unknown);
    let was_there = calls.iter().any(|call| call.answer == CampaignCallAnswer::Done);
    (was_there && !may_be_deleted).then(|| format!("lost: {} was created and is not there", name.qualified()))
}

/// A campaign with its whole log.
struct CheckedCampaign<'a> {
    name: &'a SimulatedCampaignName,
    board: &'a CampaignBoard,
    log: &'a [CampaignLogEntry],
}

impl CheckedCampaign<'_> {
    fn check_all(&self, world: &SimulatedWorld, calls: &[CampaignCallRecord]) -> Vec<String> {
        let mut found = Vec::new();
        found.extend(self.check_fold());
        found.extend(self.check_rest(world));
        found.extend(self.check_decisions());
        found.extend(self.check_budget());
        found.extend(self.check_proofs());
        found.extend(self.check_calls_of_people(calls));
        found.extend(self.check_effects(&world.ledger.records()));
        found.iter().map(|why| format!("{} in campaign {}", why, self.name.qualified())).collect()
    }

    /// The log alone rebuilds the board.
    fn check_fold(&self) -> Option<String> {
        match CampaignBoard::from_log(self.log) {
            Ok(folded) if folded == *self.board => None,
            Ok(_) => Some("contradicted: the log gives another board than the stored one".to_owned()),
            Err(error) => Some(format!("unreadable: the log does not fold: {error}")),
        }
    }

    /// Nothing can go on by itself.
    fn check_rest(&self, world: &SimulatedWorld) -> Option<String> {
        match self.board.next_step() {
            step if step.runs() => Some(format!("stuck: {step:?} is next, and nothing runs")),
            CampaignStep::Sleep(until) if until < world.times_of_day().0 => {
                Some("stuck: its pause is over, and it sleeps".to_owned())
            }
            _ => None,
        }
    }

    /// Of two decisions about the same thing, one wins.
    fn check_decisions(&self) -> Vec<String> {
        let mut decided = BTreeMap::<String, u64>::new();
        for entry in self.log {
            let about = match &entry.event {
                // A version that was rejected may be approved later, when the agent has no other one.
                CampaignEvent::PlanApproved { version, .. } => format!("the approval of version {version}"),
                CampaignEvent::PlanRejected { version, .. }
                    if decided.contains_key(&format!("the approval of version {version}")) =>
                {
                    format!("the approval of version {version}")
                }
                CampaignEvent::ActionDecided { digest, .. } => format!("the call {digest}"),
                CampaignEvent::ActionDone { digest, .. } => format!("the end of the call {digest}"),
                CampaignEvent::ActionBegan { digest } => format!("the beginning of the call {digest}"),
                _ => continue,
            };
            *decided.entry(about).or_default() += 1;
        }
        let twice = decided.into_iter().filter(|(_, count)| *count > 1);
        twice.map(|(about, count)| format!("doubled: {about} was recorded {count} times")).collect()
    }

    fn check_budget(&self) -> Option<String> {
        let budgets = self.log.iter().filter_map(|entry| match &entry.event {
            CampaignEvent::BudgetChanged { budget, .. } => Some(budget.cycles),
            CampaignEvent::Created { campaign } => Some(campaign.budget.cycles),
            _ => None,
        });
        let most = budgets.map(|cycles| cycles.unwrap_or(u64::MAX)).max().unwrap_or(u64::MAX);
        let used = self.board.usage.cycles;
        (used > most).then(|| format!("bounds: {used} cycles were run, and {most} are allowed"))
    }

    /// A task is done when the log had all of its proofs before.
    fn check_proofs(&self) -> Vec<String> {
        let mut plan: Option<&Plan> = None;
        let mut found = Vec::new();
        for (at, entry) in self.log.iter().enumerate() {
            match &entry.event {
                CampaignEvent::PlanChanged { plan: changed, .. } => plan = Some(changed),
                CampaignEvent::TaskCompleted { task, .. } => {
                    let planned = plan.and_then(|plan| plan.tasks.iter().find(|planned| planned.id == *task));
                    let before = &self.log[..at];
                    let missing = planned.into_iter().flat_map(|planned| &planned.proof);
                    let missing = missing.filter(|proof| !is_proved(task, proof, before));
                    found
                        .extend(missing.map(|proof| format!("invented: '{task}' is done without {proof:?}")));
                    if planned.is_none() {
                        found.push(format!("invented: '{task}' is done and in no plan"));
                    }
                }
                _ => {}
            }
        }
        found
    }

    /// Commands that were carried out are in the log once; refused ones are not in it.
    fn check_calls_of_people(&self, calls: &[CampaignCallRecord]) -> Vec<String> {
        let mut found = Vec::new();
        for call in calls.iter().filter(|call| call.kind != CampaignCallKind::Delete) {
            let by = Value::from(call.by.as_str());
            let said = self.log.iter().filter_map(|entry| serde_json::to_value(&entry.event).ok());
            let kinds: Vec<String> =
                said.filter(|event| is_said_by(event, &by)).map(|event| event["type"].to_string()).collect();
            let (count, distinct) = (kinds.len(), kinds.iter().collect::<BTreeSet<_>>().len());
            let asked = format!("{:?} of {}", call.kind, call.by);
            match &call.answer {
                CampaignCallAnswer::Done if count == 0 && call.kind == CampaignCallKind::Command => {
                    found.push(format!("lost: {asked} was carried out and is not in the log"));
                }
                CampaignCallAnswer::Refused(category) if count > 0 => {
                    found.push(format!("contradicted: {asked} was refused as {category} and is in the log"));
                }
                _ => {}
            }
            if count != distinct {
                found.push(format!("doubled: {asked} is in the log as {kinds:?}"));
            }
        }
        found
    }

    /// An effect was begun before, was permitted, happened once, and is not denied.
    fn check_effects(&self, records: &[EffectRecord]) -> Vec<String> {
        let mut found = Vec::new();
        let session = campaign_session(&self.name.id);
        let mut known = BTreeSet::new();
        for action in self.log.iter().filter_map(|entry| match &entry.event {
            CampaignEvent::ActionProposed { action, .. } => Some(action),
            _ => None,
        }) {
            let key = IdempotencyKey::new(&session, &action.digest, 0, 0).to_string();
            let name = self.name.qualified();
            let happened = records.iter().any(|record| record.key == key && record.session == name);
            let has = |fits: &dyn Fn(&CampaignEvent) -> bool| self.log.iter().any(|entry| fits(&entry.event));
            let is_begun = has(
                &|event| matches!(event, CampaignEvent::ActionBegan { digest } if *digest == action.digest),
            );
            let is_approved = has(
                &|event| matches!(event, CampaignEvent::ActionDecided { digest, approved: true, .. } if *digest == action.digest),
            );
            let done = self.log.iter().find_map(|entry| match &entry.event {
                CampaignEvent::ActionDone { digest, success, text, .. } if *digest == action.digest => {
                    Some((*success, text))
                }
                _ => None,
            });
            let what = format!("the call of {} in cycle {}", action.tool, action.cycle);
            if happened && !is_begun {
                found.push(format!("orphaned: {what} has had its effect and was never begun"));
            }
            if happened && !is_approved && action.tool == SimulatedToolKind::Risky.tool_name() {
                found.push(format!("orphaned: {what} has had its effect, and nobody has approved it"));
            }
            match done {
                Some((true, _)) if !happened && action.tool != SimulatedToolKind::Look.tool_name() => {
                    found.push(format!("lost: {what} is said to have succeeded and had no effect"));
                }
                Some((false, text)) if happened && text.contains("\"denied\"") => {
                    found.push(format!("contradicted: {what} had its effect, and the log says {text}"));
                }
                None if is_begun => found.push(format!("stuck: {what} was begun and never ended")),
                _ => {}
            }
            known.insert(key);
        }
        let name = self.name.qualified();
        let orphaned = records.iter().filter(|record| record.session == name && !known.contains(&record.key));
        found.extend(
            orphaned.map(|record| format!("orphaned: nobody proposed the effect of {}", record.tool)),
        );
        found
    }
}

/// Tells whether an event names this author.
fn is_said_by(event: &Value, by: &Value) -> bool {
    event.get("by") == Some(by) || event["reason"].get("by") == Some(by)
}

/// Tells whether the log has a proof of a task.
fn is_proved(task: &str, proof: &Proof, before: &[CampaignLogEntry]) -> bool {
    let mut calls = BTreeMap::new();
    before.iter().any(|entry| match (&entry.event, proof) {
        (CampaignEvent::ActionProposed { action, .. }, _) => {
            calls.insert(action.digest.as_str(), action);
            false
        }
        (
            CampaignEvent::ActionDone { digest, tool, success: true, reads: false, .. },
            Proof::ToolSucceeded { tool: named, args },
        ) => {
            let action = calls.get(digest.as_str());
            let fits = |(name, value): (&String, &Value)| {
                action.is_some_and(|action| action.args.get(name) == Some(value))
            };
            tool == named && action.is_some_and(|action| action.task == task) && args.iter().all(fits)
        }
        (
            CampaignEvent::ArtifactApproved { kind, key, .. },
            Proof::ArtifactApproved { kind: named, key: of },
        ) => kind == named && key == of,
        (CampaignEvent::Confirmed { task: of, question, .. }, Proof::UserConfirmed { question: asked }) => {
            of == task && question == asked
        }
        _ => false,
    })
}

/// Tells whether something of a campaign goes on by itself.
pub(crate) fn is_campaign_under_way(board: &CampaignBoard, now: singletree_env::Timestamp) -> bool {
    match board.next_step() {
        CampaignStep::Sleep(until) => until <= now,
        step => step.runs(),
    }
}
