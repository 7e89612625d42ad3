//! Proofs: the word of the agent is none (acceptance 3 and 9).

use serde_json::{Value, json};
use singletree_campaign::{
    CampaignProposal, CampaignScope, CampaignStatus, PersonCommand, Plan, ProofPolicy, TaskStatus,
    begin_action, finish_action,
};

use crate::bench::{Bench, tasks, two_tasks};

fn plan_with(proof: Value) -> Vec<singletree_campaign::PlanTask> {
    tasks(json!([{ "id": "a", "description": "d", "proof": [proof] }]))
}

fn refused(policy: &ProofPolicy, proof: Value) -> String {
    let error = Plan::new("cmp_a", 1, plan_with(proof), policy).unwrap_err();
    assert_eq!(error.category(), "campaign_proof_invalid");
    error.to_string()
}

// Acceptance 9
#[test]
fn a_proof_that_proves_nothing_is_refused_with_its_plan() {
    let policy = Bench::new().policy;
    let read = refused(&policy, json!({ "type": "tool_succeeded", "tool": "read" }));
    assert!(read.contains("'read' only reads"), "{read}");
    let look = |server: &str, tool: &str| json!({ "type": "mcp_read", "server": server, "tool": tool, "expect": {} });
    assert!(refused(&policy, look("crm", "write")).contains("does not list 'write' of 'crm'"));
    assert!(refused(&policy, look("other", "look")).contains("does not list 'look' of 'other'"));
    assert!(Plan::new("cmp_a", 1, plan_with(look("crm", "look")), &policy).is_ok());
    // A caller who may only write answers a question: that approves nothing.
    let answer = refused(&policy, json!({ "type": "artifact_approved", "kind": "answer", "key": "a" }));
    assert!(answer.contains("not approved by anybody"), "{answer}");
    assert!(refused(&policy, json!({ "type": "user_confirmed", "question": " " })).contains("question"));
}

// Acceptance 3: "done" without proof completes nothing, however often it is said.
#[test]
fn a_task_is_done_when_every_proof_is_found_and_not_before() {
    let mut bench = Bench::with_approved_plan();
    bench.select("letter").unwrap();
    let missing = |bench: &mut Bench| {
        let error = bench.complete("letter").unwrap_err();
        assert_eq!(error.category(), "campaign_proof_missing");
        assert_eq!(bench.board.find_progress("letter").unwrap().status, TaskStatus::InProgress);
        error.to_string()
    };
    assert_eq!(
        missing(&mut bench),
        "proof missing: the approval of letter/spring; a successful call of send"
    );
    // Each of these is close to the proof, and none is it.
    bench.call("letter", ("send", json!({ "to": "Bob" })), true, false).unwrap();
    bench.call("letter", ("send", json!({ "to": "Ann" })), false, false).unwrap();
    bench.call("letter", ("send", json!({ "to": "Ann" })), true, true).unwrap();
    bench.call("letter", ("post", json!({ "to": "Ann" })), true, false).unwrap();
    bench.approve_artifact("letter", "autumn");
    assert_eq!(
        missing(&mut bench),
        "proof missing: the approval of letter/spring; a successful call of send"
    );
    bench.call("letter", ("send", json!({ "to": "Ann", "copy": true })), true, false).unwrap();
    assert_eq!(missing(&mut bench), "proof missing: the approval of letter/spring");
    bench.approve_artifact("letter", "spring");
    bench.complete("letter").unwrap();
    assert_eq!(bench.board.find_progress("letter").unwrap().status, TaskStatus::Done);
}

// Acceptance 9: an old success of another task
#[test]
fn a_success_counts_for_its_task_and_its_version_of_the_plan_only() {
    let proof = json!([{ "type": "tool_succeeded", "tool": "send" }]);
    let plan = tasks(json!([
        { "id": "a", "description": "d", "proof": proof }, { "id": "b", "description": "d", "proof": proof } ]));
    let mut bench = Bench::new();
    bench.propose(CampaignProposal::ReplacePlan { tasks: plan }).unwrap();
    bench.approve_plan();
    bench.select("a").unwrap();
    bench.call("a", ("send", json!({})), true, false).unwrap();
    bench.complete("a").unwrap();
    bench.select("b").unwrap();
    assert_eq!(bench.complete("b").unwrap_err().category(), "campaign_proof_missing");
    // A retry has to be proved anew.
    bench.call("b", ("send", json!({})), true, false).unwrap();
    bench.complete("b").unwrap();
    bench.command(PersonCommand::Retry { task: "a".into() }).unwrap();
    assert_eq!(bench.board.status, CampaignStatus::Active);
    bench.select("a").unwrap();
    assert_eq!(bench.complete("a").unwrap_err().category(), "campaign_proof_missing");
}

// Acceptance 9: a call that was begun under the version before ends, and proves nothing under the new one.
#[test]
fn a_call_of_the_version_before_proves_nothing() {
    let mut bench = Bench::with_approved_plan();
    bench.select("letter").unwrap();
    let (task, tool) = ("letter".to_owned(), "send".to_owned());
    let args = crate::bench::object(json!({ "to": "Ann" }));
    bench.propose(CampaignProposal::ExecuteTool { task, tool, args }).unwrap();
    let digest = bench.board.action.as_ref().unwrap().action.digest.clone();
    let begun = begin_action(&bench.board, &digest).unwrap();
    bench.record(begun);
    bench.command(PersonCommand::EditPlan { version: 1, tasks: two_tasks() }).unwrap();
    assert_eq!(bench.board.approval, None, "nobody has approved this version");
    bench.approve_plan();
    let done = finish_action(&bench.board, &digest, (true, false), ("turn:1", "sent")).unwrap();
    bench.record(done);
    bench.select("letter").unwrap();
    bench.approve_artifact("letter", "spring");
    let error = bench.complete("letter").unwrap_err();
    assert_eq!(error.to_string(), "proof missing: a successful call of send");
}

#[test]
fn a_read_proof_counts_only_when_it_was_read_for_this_completion() {
    let mut bench = Bench::new();
    let proof = json!({ "type": "mcp_read", "server": "crm", "tool": "look", "expect": { "state": "paid" } });
    bench.propose(CampaignProposal::ReplacePlan { tasks: plan_with(proof) }).unwrap();
    bench.approve_plan();
    bench.select("a").unwrap();
    let complete = || CampaignProposal::CompleteTask { task: "a".into() };
    let error = bench.propose(complete()).unwrap_err();
    assert_eq!(error.to_string(), "proof missing: look of crm reads what is expected");
    assert!(bench.propose_with(complete(), (true, false), &[1]).is_err(), "another proof was read");
    bench.propose_with(complete(), (true, false), &[0]).unwrap();
    assert_eq!(bench.board.find_progress("a").unwrap().status, TaskStatus::Done);
}

// Acceptance 9: approvals and confirmations need the scope `approve`; nothing that an agent proposes is one.
#[test]
fn only_a_person_who_may_approve_confirms() {
    let mut bench = Bench::with_approved_plan();
    let confirm = PersonCommand::Confirm { task: "report".into(), question: "Is it told?".into() };
    assert_eq!(confirm.required_scope(), CampaignScope::Approve);
    let other = PersonCommand::Confirm { task: "report".into(), question: "Is it?".into() };
    assert_eq!(bench.command(other).unwrap_err().category(), "campaign_changed");
    bench.command(confirm).unwrap();
    assert!(bench.board.missing_proofs("report").is_empty());
    let schema = singletree_campaign::propose_schema().to_string();
    for word in ["confirm\"", "approve\"", "decide\"", "resume\"", "edit_budget\""] {
        assert!(!schema.contains(word), "an agent could propose {word}");
    }
}

#[test]
fn a_campaign_is_completed_when_every_task_is() {
    let mut bench = Bench::with_approved_plan();
    bench.select("letter").unwrap();
    bench.call("letter", ("send", json!({ "to": "Ann" })), true, false).unwrap();
    bench.approve_artifact("letter", "spring");
    bench.complete("letter").unwrap();
    bench.select("report").unwrap();
    bench.command(PersonCommand::Confirm { task: "report".into(), question: "Is it told?".into() }).unwrap();
    bench.complete("report").unwrap();
    // The next cycle finds nothing to do.
    bench.propose(CampaignProposal::NoOp {}).unwrap();
    assert_eq!(bench.board.status, CampaignStatus::Completed);
    let error = bench.command(PersonCommand::EditPlan { version: 1, tasks: two_tasks() }).unwrap_err();
    assert_eq!(error.category(), "campaign_status_unfit");
}
