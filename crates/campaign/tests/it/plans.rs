//! Plans: what one must be, what an approval is of, and what an edit does to it.

use serde_json::{Value, json};
use singletree_campaign::{
    CampaignBoard, CampaignEvent, CampaignProposal, CampaignStatus, CampaignStep, CampaignWait,
    LOG_BYTES_MAX, PersonCommand, Plan, ProofPolicy, TaskStatus, begin_cycle, decide_command,
};

use crate::bench::{Bench, tasks, two_tasks};

fn refusal(value: Value) -> (&'static str, String) {
    let policy = ProofPolicy::default();
    let error = Plan::new("cmp_a", 1, tasks(value), &policy).unwrap_err();
    (error.category(), error.to_string())
}

fn task(id: &str, needs: &[&str]) -> Value {
    json!({ "id": id, "description": "d", "needs": needs, "proof": [
        { "type": "user_confirmed", "question": "Done?" } ] })
}

#[test]
fn a_plan_is_checked_before_it_is_one() {
    let check = |value: Value, category: &str, part: &str| {
        let (found, text) = refusal(value);
        assert!(found == category && text.contains(part), "{found}: {text}");
    };
    let plan = "campaign_plan_invalid";
    check(json!([]), plan, "0 tasks");
    check(json!([task("a", &[]), task("a", &[])]), plan, "two tasks are called 'a'");
    check(json!([task("a b", &[])]), plan, "a name has");
    check(json!([task("a", &["b"])]), plan, "needs 'b', which is not in the plan");
    check(json!([task("a", &["a"])]), plan, "circle");
    check(json!([task("a", &["c"]), task("b", &["a"]), task("c", &["b"])]), plan, "circle");
    check(json!([{ "id": "a", "description": " ", "proof": [] }]), plan, "description");
    check(json!([{ "id": "a", "description": "x".repeat(2_049), "proof": [] }]), plan, "description");
    // Acceptance 9: a plan without proofs.
    check(json!([{ "id": "a", "description": "d", "proof": [] }]), plan, "has 1 to 16 proofs");
    let many: Vec<Value> = (0..2_001).map(|no| task(&format!("t{no}"), &[])).collect();
    check(many.into(), plan, "2001 tasks");
}

#[test]
fn a_digest_is_of_everything_that_is_approved() {
    let policy = ProofPolicy::default();
    let digest = |campaign: &str, version, value: Value| {
        Plan::new(campaign, version, tasks(value), &policy).unwrap().digest
    };
    let plan = || json!([task("a", &[]), task("b", &["a"])]);
    let first = digest("cmp_a", 1, plan());
    assert_eq!(first, digest("cmp_a", 1, plan()));
    let mut other = plan();
    other[0]["proof"][0]["question"] = json!("Really?");
    for changed in [digest("cmp_b", 1, plan()), digest("cmp_a", 2, plan()), digest("cmp_a", 1, other)] {
        assert_ne!(first, changed);
    }
}

// spec: agent-chat-output §4.1: nothing is executed under a plan that nobody approved
#[test]
fn only_an_approved_plan_runs() {
    let mut bench = Bench::new();
    let select = |task: &str| CampaignProposal::SelectTask { task: task.to_owned() };
    assert_eq!(bench.propose(select("letter")).unwrap_err().category(), "campaign_proposal_invalid");
    bench.propose(CampaignProposal::ReplacePlan { tasks: two_tasks() }).unwrap();
    assert_eq!(
        (bench.board.status, &bench.board.wait),
        (CampaignStatus::Initializing, &Some(CampaignWait::Plan))
    );
    assert_eq!(bench.board.next_step(), CampaignStep::Await);
    assert_eq!(bench.propose(select("letter")).unwrap_err().category(), "campaign_status_unfit");
    bench.approve_plan();
    assert_eq!(bench.board.status, CampaignStatus::Active);
    bench.propose(select("letter")).unwrap();
    assert_eq!(bench.board.task_in_hand().unwrap().task, "letter");
}

// Acceptance 4: an edit voids the approval, and what was found under the version before does not count.
#[test]
fn an_edit_makes_a_version_that_nobody_approved() {
    let mut bench = Bench::with_approved_plan();
    bench.select("letter").unwrap();
    bench.call("letter", ("send", json!({ "to": "Ann" })), true, false).unwrap();
    bench.approve_artifact("letter", "spring");
    let mut edited = two_tasks();
    edited[0].description = "Write it again.".to_owned();
    bench.command(PersonCommand::EditPlan { version: 1, tasks: edited }).unwrap();
    assert!(!bench.board.is_plan_approved());
    assert_eq!(bench.board.next_step(), CampaignStep::Await);
    bench.approve_plan();
    assert_eq!(bench.board.find_progress("letter").unwrap().status, TaskStatus::Pending);
    bench.select("letter").unwrap();
    let error = bench.complete("letter").unwrap_err();
    assert_eq!(error.to_string(), "proof missing: a successful call of send");
}

#[test]
fn a_task_that_is_the_same_and_done_stays_done() {
    let mut bench = Bench::with_approved_plan();
    bench.select("letter").unwrap();
    bench.call("letter", ("send", json!({ "to": "Ann" })), true, false).unwrap();
    bench.approve_artifact("letter", "spring");
    bench.complete("letter").unwrap();
    let added = tasks(json!([task("more", &["letter"])]));
    bench.propose(CampaignProposal::AddTasks { after: Some("letter".into()), tasks: added }).unwrap();
    bench.approve_plan();
    let rows: Vec<(&str, TaskStatus)> =
        bench.board.progress.iter().map(|row| (row.task.as_str(), row.status)).collect();
    assert_eq!(
        rows,
        [("letter", TaskStatus::Done), ("more", TaskStatus::Pending), ("report", TaskStatus::Pending),]
    );
    let ready: Vec<&str> = bench.board.ready_tasks().map(|row| row.task.as_str()).collect();
    assert_eq!(ready, ["more", "report"]);
}

#[test]
fn a_rejected_plan_is_proposed_anew() {
    let mut bench = Bench::new();
    bench.propose(CampaignProposal::ReplacePlan { tasks: two_tasks() }).unwrap();
    bench.command(PersonCommand::RejectPlan { version: 1, reason: Some("too short".into()) }).unwrap();
    assert_eq!(bench.board.next_step(), CampaignStep::Ask);
    let command = singletree_campaign::project_command(&bench.board);
    assert_eq!(command, "The plan was rejected: too short. Propose another one.");
    bench.propose(CampaignProposal::ReplacePlan { tasks: two_tasks() }).unwrap();
    assert_eq!(bench.board.plan.as_ref().unwrap().version, 2);
}

// INV-12: without a limit the log would grow for ever.
#[test]
fn a_full_log_takes_no_cycle_and_no_command_but_the_end() {
    let bench = Bench::new();
    let stored =
        bench.log.iter().map(|entry| serde_json::to_string(entry).unwrap().len() as u64).sum::<u64>();
    assert_eq!(bench.board.log_bytes, stored);
    let full = CampaignBoard { log_bytes: LOG_BYTES_MAX, ..bench.board.clone() };
    let command = |command| decide_command(&full, &command, ("Ann", &bench.policy));
    for refused in [PersonCommand::Pause, PersonCommand::Free { text: "Go on.".to_owned() }] {
        assert_eq!(command(refused).unwrap_err().category(), "campaign_log_full");
    }
    assert!(matches!(command(PersonCommand::Cancel).unwrap()[..], [CampaignEvent::Cancelled { .. }]));
    let failed = begin_cycle(&full).unwrap();
    assert!(matches!(&failed[..], [CampaignEvent::Failed { category }] if category == "campaign_log_full"));
    let almost = CampaignBoard { log_bytes: LOG_BYTES_MAX - 1, ..bench.board };
    assert!(matches!(begin_cycle(&almost).unwrap()[..], [CampaignEvent::CycleBegan { .. }]));
}
