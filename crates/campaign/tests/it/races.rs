//! Pause, resume, cancel, approve and edit at once: one wins (acceptance 4); a begun call ends whatever is decided.

use serde_json::json;
use singletree_campaign::{
    ActionStage, CampaignProposal, CampaignStatus, CampaignStep, PersonCommand, begin_action, finish_action,
};

use crate::bench::{Bench, object, two_tasks};

/// A campaign in which a call waits for approval; returns its digest.
fn asked() -> (Bench, String) {
    let mut bench = Bench::with_approved_plan();
    bench.select("letter").unwrap();
    let (task, tool, args) = ("letter".to_owned(), "send".to_owned(), object(json!({ "to": "Ann" })));
    bench.propose_with(CampaignProposal::ExecuteTool { task, tool, args }, (true, true), &[]).unwrap();
    let digest = bench.board.action.as_ref().unwrap().action.digest.clone();
    (bench, digest)
}

fn decide(digest: &str, approved: bool) -> PersonCommand {
    PersonCommand::DecideAction { digest: digest.to_owned(), approved, reason: None }
}

// Acceptance 3: nothing is executed that was not approved.
#[test]
fn a_call_is_made_after_its_approval_and_once() {
    let (mut bench, digest) = asked();
    assert_eq!(bench.board.next_step(), CampaignStep::Await);
    assert_eq!(begin_action(&bench.board, &digest).unwrap_err().category(), "campaign_changed");
    assert_eq!(bench.command(decide("0", true)).unwrap_err().category(), "campaign_changed");
    bench.command(decide(&digest, true)).unwrap();
    assert_eq!(bench.command(decide(&digest, false)).unwrap_err().category(), "campaign_changed");
    bench.run_call(true, false).unwrap();
    assert_eq!(begin_action(&bench.board, &digest).unwrap_err().category(), "campaign_changed");
    let again = finish_action(&bench.board, &digest, (true, false), ("r", "t"));
    assert_eq!(again.unwrap_err().category(), "campaign_changed");
}

#[test]
fn a_rejected_call_is_never_made() {
    let (mut bench, digest) = asked();
    bench.command(decide(&digest, false)).unwrap();
    assert!(bench.board.action.is_none());
    assert_eq!(bench.board.next_step(), CampaignStep::Ask);
    assert!(begin_action(&bench.board, &digest).is_err());
}

#[test]
fn two_calls_that_are_alike_are_two_calls() {
    let (mut bench, first) = asked();
    bench.command(decide(&first, false)).unwrap();
    let (task, tool, args) = ("letter".to_owned(), "send".to_owned(), object(json!({ "to": "Ann" })));
    bench.propose_with(CampaignProposal::ExecuteTool { task, tool, args }, (true, true), &[]).unwrap();
    assert_ne!(bench.board.action.as_ref().unwrap().action.digest, first);
    assert_eq!(bench.command(decide(&first, true)).unwrap_err().category(), "campaign_changed");
}

// controller.md: a pause acts at once for what is not begun; an open approval stays, and its answer is kept.
#[test]
fn a_paused_campaign_keeps_an_answer_and_does_nothing() {
    let (mut bench, digest) = asked();
    bench.command(PersonCommand::Pause).unwrap();
    assert_eq!(bench.command(PersonCommand::Pause).unwrap_err().category(), "campaign_status_unfit");
    bench.command(decide(&digest, true)).unwrap();
    assert_eq!(bench.board.status, CampaignStatus::Paused);
    assert_eq!(bench.board.next_step(), CampaignStep::Await);
    assert_eq!(begin_action(&bench.board, &digest).unwrap_err().category(), "campaign_status_unfit");
    bench.command(PersonCommand::Resume).unwrap();
    assert!(matches!(bench.board.next_step(), CampaignStep::Execute(action) if action.digest == digest));
}

#[test]
fn a_begun_call_ends_whatever_was_decided_since() {
    for command in [
        PersonCommand::Pause,
        PersonCommand::Cancel,
        PersonCommand::EditPlan { version: 1, tasks: two_tasks() },
    ] {
        let (mut bench, digest) = asked();
        bench.command(decide(&digest, true)).unwrap();
        let begun = begin_action(&bench.board, &digest).unwrap();
        bench.record(begun);
        bench.command(command.clone()).unwrap();
        assert_eq!(bench.board.action.as_ref().unwrap().stage, ActionStage::Begun);
        assert!(matches!(bench.board.next_step(), CampaignStep::Execute(_)), "{command:?}");
        let done = finish_action(&bench.board, &digest, (true, false), ("r", "t")).unwrap();
        bench.record(done);
        assert!(bench.board.action.is_none());
        let is_over = command == PersonCommand::Cancel;
        assert_eq!(bench.board.next_step(), if is_over { CampaignStep::Rest } else { CampaignStep::Await });
    }
}

#[test]
fn what_was_not_begun_goes_with_a_cancel_or_another_plan() {
    for command in [PersonCommand::Cancel, PersonCommand::EditPlan { version: 1, tasks: two_tasks() }] {
        let (mut bench, digest) = asked();
        bench.command(decide(&digest, true)).unwrap();
        bench.command(command).unwrap();
        assert!(bench.board.action.is_none());
        assert!(begin_action(&bench.board, &digest).is_err());
    }
}

// Acceptance 4: of each two commands about the same thing the second one is refused.
#[test]
fn of_two_that_race_one_wins() {
    let plan = |bench: &Bench| bench.board.plan.clone().unwrap();
    let fresh = || {
        let mut bench = Bench::new();
        bench.propose(CampaignProposal::ReplacePlan { tasks: two_tasks() }).unwrap();
        bench
    };
    let approve = |bench: &Bench| {
        let plan = plan(bench);
        PersonCommand::ApprovePlan { version: plan.version, digest: plan.digest }
    };
    let edit = || PersonCommand::EditPlan { version: 1, tasks: two_tasks() };
    let mut bench = fresh();
    let late = approve(&bench);
    bench.command(edit()).unwrap();
    assert_eq!(bench.command(late).unwrap_err().category(), "campaign_changed");
    assert_eq!(bench.command(edit()).unwrap_err().category(), "campaign_changed");
    let mut bench = fresh();
    let twice = approve(&bench);
    bench.command(twice.clone()).unwrap();
    assert_eq!(bench.command(twice).unwrap_err().category(), "campaign_changed");
    let reject = PersonCommand::RejectPlan { version: 1, reason: None };
    assert_eq!(bench.command(reject).unwrap_err().category(), "campaign_changed");
    let forged = PersonCommand::ApprovePlan { version: 1, digest: "0".repeat(64) };
    assert_eq!(fresh().command(forged).unwrap_err().category(), "campaign_changed");
    let mut bench = fresh();
    bench.command(PersonCommand::Cancel).unwrap();
    for command in [PersonCommand::Pause, PersonCommand::Resume, PersonCommand::Cancel, edit()] {
        assert_eq!(bench.command(command).unwrap_err().category(), "campaign_status_unfit");
    }
    assert_eq!(bench.board.status, CampaignStatus::Cancelled);
}
