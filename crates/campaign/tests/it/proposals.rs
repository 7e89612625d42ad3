//! Proposals: one schema, exactly one action, repairs (agent-chat-output §4.1; D30).

use serde_json::{Value, json};
use singletree_campaign::{
    CampaignBudget, CampaignEvent, CampaignProposal, CampaignStatus, CampaignStep, PauseReason,
    PersonCommand, ReasonedProposal, TaskStatus, propose_schema, propose_tool,
};
use singletree_llm::Schema;

use crate::bench::{Bench, REPAIRS, object, two_tasks};

/// One proposal of each kind.
fn samples() -> Vec<Value> {
    let tasks = json!([{ "id": "a", "description": "d", "needs": ["letter"], "proof": [
        { "type": "tool_succeeded", "tool": "send", "args": { "to": "Ann" } },
        { "type": "artifact_approved", "kind": "letter", "key": "spring" },
        { "type": "mcp_read", "server": "crm", "tool": "look", "expect": { "n": 1 } },
        { "type": "user_confirmed", "question": "Done?" } ] }]);
    vec![
        json!({ "action": "add_tasks", "after": "letter", "tasks": tasks }),
        json!({ "action": "replace_plan", "tasks": tasks }),
        json!({ "action": "select_task", "task": "letter", "why": "It is due." }),
        json!({ "action": "execute_tool", "task": "letter", "tool": "send", "args": { "to": "Ann" } }),
        json!({ "action": "propose_artifact", "task": "letter", "kind": "letter", "key": "spring", "content": "Dear all" }),
        json!({ "action": "ask_user", "task": "letter", "question": "To whom?", "schema": { "type": "object" } }),
        json!({ "action": "complete_task", "task": "letter" }),
        json!({ "action": "block_task", "task": "letter", "why": "no paper" }),
        json!({ "action": "no_op", "why": "nothing to do" }),
    ]
}

// wire-notes §3.1, rule 4.1: machine output is schema-validated; both readers agree.
#[test]
fn what_the_schema_takes_is_read_and_what_it_refuses_is_not() {
    let schema = Schema::compile(propose_schema()).unwrap();
    let both = |value: &Value| {
        (schema.check_value(value).is_ok(), ReasonedProposal::from_arguments(&object(value.clone())).is_ok())
    };
    for sample in samples() {
        assert_eq!(both(&sample), (true, true), "{sample}");
        // One field more, one less, and another word.
        let mut more = sample.clone();
        more["extra"] = json!(1);
        assert_eq!(both(&more), (false, false), "{more}");
        let mut other = sample.clone();
        other["action"] = json!("do_it");
        assert_eq!(both(&other), (false, false), "{other}");
        for (name, _) in object(sample.clone()) {
            let mut less = object(sample.clone());
            less.remove(&name);
            let optional = ["why", "after", "args", "schema"].contains(&name.as_str())
                || (name == "task" && sample["action"] == "ask_user");
            let needed = !optional || (name == "why" && sample["action"] == "block_task");
            assert_eq!(both(&less.clone().into()), (!needed, !needed), "{name} of {sample}");
        }
    }
    assert_eq!(propose_tool().unwrap().name(), "propose");
}

#[test]
fn a_reason_is_told_and_recorded_nowhere() {
    let read = ReasonedProposal::from_arguments(&object(samples()[2].clone())).unwrap();
    assert_eq!(read.why.as_deref(), Some("It is due."));
    let mut bench = Bench::with_approved_plan();
    bench.propose(read.proposal).unwrap();
    assert!(!serde_json::to_string(&bench.log).unwrap().contains("It is due."));
}

// Acceptance 3: a hostile model, any JSON
#[test]
fn what_is_no_proposal_is_refused_and_narrates_its_reason() {
    for hostile in [
        json!({}),
        json!({ "action": ["no_op"] }),
        json!({ "action": "no_op", "task": "letter" }),
        json!({ "action": "select_task", "task": ["letter"] }),
        json!({ "action": "execute_tool", "task": "letter", "tool": "send", "args": [1] }),
        json!({ "action": "add_tasks", "tasks": [] }),
        json!({ "action": "propose_artifact", "task": "letter", "kind": "answer", "key": "a", "content": "yes" }),
        json!({ "action": "propose_artifact", "task": "letter", "kind": "a/b", "key": "a", "content": "yes" }),
        json!({ "action": "no_op", "why": 7 }),
        json!({ "actions": [{ "action": "no_op" }, { "action": "no_op" }] }),
    ] {
        let error = ReasonedProposal::from_arguments(&object(hostile.clone())).unwrap_err();
        assert_eq!(error.category(), "campaign_proposal_invalid", "{hostile}");
        assert!(!error.to_string().is_empty());
    }
}

// D30
#[test]
fn an_agent_is_asked_again_so_many_times_and_then_the_campaign_is_in_error() {
    let mut bench = Bench::with_approved_plan();
    let wrong = || json!({ "action": "complete_task", "task": "letter" });
    for no in 1..=REPAIRS {
        bench.propose_json(wrong()).unwrap_err();
        assert_eq!((bench.board.refusals, bench.board.status), (no, CampaignStatus::Active));
    }
    // One that fits begins the count anew.
    bench.select("letter").unwrap();
    assert_eq!(bench.board.refusals, 0);
    for _ in 0..=REPAIRS {
        bench.propose_json(json!({ "action": "select_task", "task": "letter" })).unwrap_err();
    }
    assert_eq!(bench.board.status, CampaignStatus::Error);
    assert_eq!(bench.board.failure.as_deref(), Some("campaign_proposal_invalid"));
    assert_eq!(bench.board.next_step(), CampaignStep::Await);
    bench.command(PersonCommand::Resume).unwrap();
    assert_eq!((bench.board.status, bench.board.refusals), (CampaignStatus::Active, 0));
}

#[test]
fn at_most_one_task_is_in_hand_and_only_a_ready_one() {
    let mut bench = Bench::with_approved_plan();
    let report = bench.select("report").unwrap_err().to_string();
    assert!(report.contains("'report' is not ready"), "{report}");
    assert_eq!(bench.select("other").unwrap_err().category(), "campaign_task_unknown");
    bench.select("letter").unwrap();
    let second = bench.select("letter").unwrap_err().to_string();
    assert!(second.contains("'letter' is in hand"), "{second}");
    for proposal in [
        json!({ "action": "execute_tool", "task": "report", "tool": "send" }),
        json!({ "action": "block_task", "task": "report", "why": "x" }),
        json!({ "action": "complete_task", "task": "report" }),
    ] {
        let error = bench.propose_json(proposal.clone()).unwrap_err().to_string();
        assert!(error.contains("'report' is not in hand"), "{proposal}: {error}");
        bench.board.refusals = 0;
    }
    bench.propose_json(json!({ "action": "block_task", "task": "letter", "why": "no paper" })).unwrap();
    let row = bench.board.find_progress("letter").unwrap();
    assert_eq!((row.status, row.blocked_because.as_deref()), (TaskStatus::Blocked, Some("no paper")));
    // Nothing is ready now: paused, with the reason; a person lets it go on.
    bench.propose_json(json!({ "action": "no_op" })).unwrap();
    assert_eq!(bench.board.pause, Some(PauseReason::NoReadyTask));
    bench.command(PersonCommand::Unblock { task: "letter".into() }).unwrap();
    assert_eq!(bench.board.status, CampaignStatus::Active);
    bench.select("letter").unwrap();
    assert_eq!(bench.board.find_progress("letter").unwrap().attempts, 2);
}

#[test]
fn nothing_three_times_in_a_row_pauses() {
    let mut bench = Bench::with_approved_plan();
    bench.propose(CampaignProposal::NoOp {}).unwrap();
    bench.propose(CampaignProposal::NoOp {}).unwrap();
    bench.select("letter").unwrap();
    for _ in 0..3 {
        assert_eq!(bench.board.status, CampaignStatus::Active);
        bench.propose(CampaignProposal::NoOp {}).unwrap();
    }
    assert_eq!(bench.board.pause, Some(PauseReason::NothingToPropose));
    // A word of a person is something to go on with.
    bench.command(PersonCommand::Free { text: "Send it to Ann.".into() }).unwrap();
    assert_eq!(bench.board.next_step(), CampaignStep::Ask);
}

/// Of three idle cycles, the last was asked before a person said something: what was said is gone on with.
#[test]
fn a_word_that_comes_while_the_agent_finds_nothing_is_no_pause() {
    let words: [fn(&mut Bench); 3] = [
        |bench| bench.command(PersonCommand::Free { text: "Send it to Ann.".into() }).unwrap(),
        |bench| {
            let artifact = CampaignEvent::ArtifactApproved {
                kind: "letter".into(),
                key: "spring".into(),
                version: 1,
                by: "Ann".into(),
            };
            bench.record(vec![artifact]);
        },
        |bench| bench.command(PersonCommand::EditBudget { budget: CampaignBudget::default() }).unwrap(),
    ];
    for word in words {
        let mut bench = Bench::with_approved_plan();
        bench.select("letter").unwrap();
        for _ in 0..2 {
            bench.propose(CampaignProposal::NoOp {}).unwrap();
        }
        bench.propose_before(&CampaignProposal::NoOp {}, word).unwrap();
        assert_eq!(bench.board.next_step(), CampaignStep::Ask);
        // From there on it counts anew.
        for _ in 0..3 {
            assert_eq!(bench.board.status, CampaignStatus::Active);
            bench.propose_before(&CampaignProposal::NoOp {}, |_| {}).unwrap();
        }
        assert_eq!(bench.board.pause, Some(PauseReason::NothingToPropose));
    }
}

/// A command is carried out by a cycle that was shown it, and by no other.
#[test]
fn a_command_that_comes_while_the_agent_is_asked_is_for_the_next_cycle() {
    let free = |text: &str| PersonCommand::Free { text: text.into() };
    let mut bench = Bench::with_approved_plan();
    bench.command(free("first")).unwrap();
    let select = CampaignProposal::SelectTask { task: "letter".into() };
    bench.propose_before(&select, |bench| bench.command(free("second")).unwrap()).unwrap();
    assert_eq!(bench.board.command.as_deref(), Some("second"));
    bench.propose_before(&CampaignProposal::NoOp {}, |_| {}).unwrap();
    assert_eq!(bench.board.command, None);
    // A plan that was made without it waits for no approval before the command was heard.
    let mut bench = Bench::new();
    let plan = CampaignProposal::ReplacePlan { tasks: two_tasks() };
    bench.propose_before(&plan, |bench| bench.command(free("Shorter.")).unwrap()).unwrap();
    assert_eq!(
        (bench.board.next_step(), bench.board.command.as_deref()),
        (CampaignStep::Ask, Some("Shorter."))
    );
    bench.propose_before(&CampaignProposal::NoOp {}, |_| {}).unwrap();
    assert_eq!(bench.board.next_step(), CampaignStep::Await);
}

#[test]
fn a_question_waits_for_its_answer() {
    let mut bench = Bench::with_approved_plan();
    bench.propose_json(samples()[5].clone()).unwrap();
    assert_eq!(bench.board.next_step(), CampaignStep::Await);
    // Typed words are a new command, and no answer (agent-chat-output §9).
    bench.command(PersonCommand::Free { text: "yes".into() }).unwrap();
    assert_eq!(bench.board.next_step(), CampaignStep::Await);
    let answer = |question: &str, answer| PersonCommand::Answer { question: question.into(), answer };
    // An answer to another question changes nothing: it was read before this one was asked.
    let other = bench.command(answer("To whom else?", json!({ "to": "Ann" }))).unwrap_err();
    assert_eq!((other.category(), bench.board.next_step()), ("campaign_changed", CampaignStep::Await));
    bench.command(answer("To whom?", json!({ "to": "Ann" }))).unwrap();
    assert_eq!(bench.board.next_step(), CampaignStep::Ask);
    let twice = bench.command(answer("To whom?", json!({}))).unwrap_err();
    assert_eq!(twice.category(), "campaign_changed");
    assert!(bench.board.approved_artifacts.is_empty(), "an answer approves nothing");
}

#[test]
fn a_tool_that_there_is_not_is_not_called() {
    let mut bench = Bench::with_approved_plan();
    bench.select("letter").unwrap();
    let call = ReasonedProposal::from_arguments(&object(samples()[3].clone())).unwrap().proposal;
    let error = bench.propose_with(call, (false, false), &[]).unwrap_err();
    assert_eq!(error.category(), "campaign_proposal_invalid");
    assert!(bench.board.action.is_none());
    assert!(matches!(bench.log.last().unwrap().event, CampaignEvent::ProposalRefused { .. }));
}
