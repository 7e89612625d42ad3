//! Budgets, failures and quotas: pauses with their reasons.

use std::time::Duration;

use singletree_campaign::{
    CampaignBudget, CampaignProposal, CampaignStatus, CampaignStep, CycleCost, PauseReason, PersonCommand,
    fail_cycle, fail_with_quota, measure_cycle, wake_after_pause,
};

use crate::bench::Bench;

fn budget_pause(part: &str) -> Option<PauseReason> {
    Some(PauseReason::Budget { part: part.to_owned() })
}

#[test]
fn a_budget_that_is_used_up_pauses_and_a_larger_one_resumes() {
    let mut bench = Bench::with_budget(CampaignBudget { cycles: Some(2), ..CampaignBudget::default() });
    for _ in 0..3 {
        bench.propose(CampaignProposal::NoOp {}).unwrap();
    }
    assert_eq!((bench.board.usage.cycles, &bench.board.pause), (2, &budget_pause("cycles")));
    let budget = |cycles, tokens| CampaignBudget { cycles, tokens, time_ms: None };
    bench.command(PersonCommand::EditBudget { budget: budget(Some(2), None) }).unwrap();
    assert_eq!(bench.board.status, CampaignStatus::Paused, "it has no room");
    bench.command(PersonCommand::EditBudget { budget: budget(None, Some(100)) }).unwrap();
    assert_eq!(bench.board.status, CampaignStatus::Initializing);
    bench.record(measure_cycle(CycleCost { tokens: 100, time_ms: 5, seen: None }));
    bench.propose(CampaignProposal::NoOp {}).unwrap();
    assert_eq!(bench.board.pause, budget_pause("tokens"));
    // Resuming by hand changes no budget: it pauses again before anything is spent.
    bench.command(PersonCommand::Resume).unwrap();
    bench.propose(CampaignProposal::NoOp {}).unwrap();
    assert_eq!((bench.board.usage.cycles, &bench.board.pause), (2, &budget_pause("tokens")));
}

#[test]
fn a_failure_that_may_pass_is_tried_again_later_and_later() {
    let mut bench = Bench::with_approved_plan();
    for seconds in [2, 4, 8] {
        let failed = fail_cycle(&bench.board, ("provider_unavailable", true), bench.now).unwrap();
        let until = bench.now.saturating_add(Duration::from_secs(seconds));
        bench.record(failed);
        assert_eq!(bench.board.next_step(), CampaignStep::Sleep(until));
        assert!(wake_after_pause(&bench.board, bench.now).is_err(), "it is too early");
        // News do not shorten it.
        bench.command(PersonCommand::Free { text: "now".into() }).unwrap();
        assert_eq!(bench.board.next_step(), CampaignStep::Sleep(until));
        let woken = wake_after_pause(&bench.board, until).unwrap();
        bench.record(woken);
        assert_eq!(bench.board.next_step(), CampaignStep::Ask);
    }
    // A cycle that succeeds begins the count anew.
    bench.select("letter").unwrap();
    assert_eq!(bench.board.failures, 0);
}

#[test]
fn any_other_failure_is_an_error_and_a_quota_a_pause() {
    let mut bench = Bench::with_approved_plan();
    let failed = fail_cycle(&bench.board, ("provider_authentication", false), bench.now).unwrap();
    bench.record(failed);
    assert_eq!(
        (bench.board.status, bench.board.failure.as_deref()),
        (CampaignStatus::Error, Some("provider_authentication"))
    );
    let late = fail_cycle(&bench.board, ("provider_unavailable", true), bench.now).unwrap_err();
    assert_eq!(late.category(), "campaign_status_unfit");
    bench.command(PersonCommand::Resume).unwrap();
    let quota = fail_with_quota(&bench.board, "server_quota_exceeded").unwrap();
    bench.record(quota);
    assert_eq!(bench.board.next_step(), CampaignStep::Await);
    assert!(wake_after_pause(&bench.board, bench.now).is_err(), "a quota does not pass by itself");
}
