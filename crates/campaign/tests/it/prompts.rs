//! What an agent is shown: to the byte, bounded, and nothing of a conversation (agent-chat-output §8; wire-notes §3.1, rule
//! 8.2).

use serde_json::{Value, json};
use singletree_campaign::{
    CampaignProposal, PersonCommand, SNAPSHOT_BYTES_MAX, project_command, project_snapshot,
};
use singletree_llm::canonical_json;

use crate::bench::{Bench, object, tasks};

/// The snapshot of the first cycle.
const FIRST: &str = concat!(
    r#"{"campaign":{"cycle":0,"cycles_left":null,"goal":"Write to every customer.","name":"Spring","#,
    r#""plan_approved":false,"plan_version":null,"status":"initializing"},"#,
    r#""counts":{"blocked":0,"done":0,"in_progress":0,"pending":0},"log":[],"next":[],"task":null}"#,
);

/// The snapshot after a task was taken in hand, and a call of it has succeeded.
const LATER: &str = concat!(
    r#"{"campaign":{"cycle":3,"cycles_left":null,"goal":"Write to every customer.","name":"Spring","#,
    r#""plan_approved":true,"plan_version":1,"status":"active"},"#,
    r#""counts":{"blocked":0,"done":0,"in_progress":1,"pending":1},"log":["#,
    r#"{"seq":3,"what":{"tasks":2,"type":"plan_changed","version":1}},"#,
    r#"{"seq":4,"what":{"by":"Ann","digest":"DIGEST","type":"plan_approved","version":1}},"#,
    r#"{"seq":6,"what":{"task":"letter","type":"task_selected"}},"#,
    r#"{"seq":8,"what":{"args":{"to":"Ann"},"task":"letter","tool":"send","type":"action_proposed"}},"#,
    r#"{"seq":10,"what":{"success":true,"text":"did it","tool":"send","type":"action_done"}}],"next":[],"#,
    r#""task":{"attempts":1,"description":"Write and send the letter.","id":"letter","needs":[],"proof":["#,
    r#"{"found":false,"proof":{"key":"spring","kind":"letter","type":"artifact_approved"}},"#,
    r#"{"found":true,"proof":{"args":{"to":"Ann"},"tool":"send","type":"tool_succeeded"}}]}}"#,
);

#[test]
fn a_snapshot_is_the_board_to_the_byte() {
    assert_eq!(canonical_json(&project_snapshot(&Bench::new().board)), FIRST);
    let mut bench = Bench::with_approved_plan();
    bench.select("letter").unwrap();
    bench.call("letter", ("send", json!({ "to": "Ann" })), true, false).unwrap();
    let digest = &bench.board.plan.as_ref().unwrap().digest;
    assert_eq!(canonical_json(&project_snapshot(&bench.board)), LATER.replace("DIGEST", digest));
    assert_eq!(project_command(&bench.board), "Propose the next action.");
    bench.command(PersonCommand::Free { text: "Hurry.".into() }).unwrap();
    assert_eq!(project_command(&bench.board), "Hurry.");
}

// Acceptance 5: the log alone rebuilds the board, and so the next prompt is the same after a restart.
#[test]
fn a_rebuilt_board_is_shown_the_same() {
    let mut bench = Bench::with_approved_plan();
    bench.select("letter").unwrap();
    bench.call("letter", ("send", json!({ "to": "Ann" })), true, false).unwrap();
    let stored = serde_json::to_string(&bench.log).unwrap();
    let log: Vec<_> = serde_json::from_str(&stored).unwrap();
    let rebuilt = singletree_campaign::CampaignBoard::from_log(&log).unwrap();
    assert_eq!(rebuilt, bench.board);
    let board = serde_json::to_string(&bench.board).unwrap();
    assert_eq!(serde_json::from_str::<singletree_campaign::CampaignBoard>(&board).unwrap(), bench.board);
}

#[test]
fn a_log_that_does_not_fit_is_refused() {
    let bench = Bench::with_approved_plan();
    let refused = |log: &[singletree_campaign::CampaignLogEntry]| {
        singletree_campaign::CampaignBoard::from_log(log).unwrap_err().category()
    };
    assert_eq!(refused(&[]), "campaign_log_corrupt");
    assert_eq!(refused(&bench.log[1..]), "campaign_log_corrupt");
    let mut gap = bench.log.clone();
    gap.remove(1);
    assert_eq!(refused(&gap), "campaign_log_corrupt");
    let mut twice = bench.log.clone();
    let again = twice[0].event.clone();
    twice[1].event = again;
    assert_eq!(refused(&twice), "campaign_log_corrupt");
}

// Acceptance 7: a campaign of 1,000 tasks and 10,000 cycles
#[test]
fn a_snapshot_is_bounded_whatever_the_plan_and_the_log_are() {
    let mut bench = Bench::new();
    let args = object(json!({ "text": "x".repeat(3_000) }));
    let proof = json!([{ "type": "tool_succeeded", "tool": "send", "args": args }]);
    let needs: Vec<String> = (1..900).map(|no| format!("t{no}")).collect();
    let task = |no: usize| {
        let needs: &[String] = if no == 999 { &needs } else { &[] };
        json!({ "id": format!("t{no}"), "description": "é".repeat(1_024), "needs": needs, "proof": proof })
    };
    let plan = tasks((0..1_000).map(task).collect::<Vec<Value>>().into());
    bench.propose(CampaignProposal::ReplacePlan { tasks: plan }).unwrap();
    bench.approve_plan();
    bench.select("t0").unwrap();
    let mut sizes = Vec::new();
    for cycle in 0..10_000 {
        let (tool, text) = ("look".to_owned(), "y".repeat(9_000));
        let look =
            CampaignProposal::ExecuteTool { task: "t0".into(), tool, args: object(json!({ "q": text })) };
        bench.propose(look).unwrap();
        bench.run_call(true, true).unwrap();
        if cycle % 2_500 == 5 {
            sizes.push(canonical_json(&project_snapshot(&bench.board)).len());
        }
        // The log of the test itself is not needed.
        bench.log.clear();
    }
    assert!(sizes.iter().all(|size| *size <= SNAPSHOT_BYTES_MAX), "{sizes:?}");
    // The numbers in it grow by digits, and nothing else.
    assert!(sizes.iter().max().unwrap() - sizes.iter().min().unwrap() < 100, "{sizes:?}");
    assert_eq!(project_snapshot(&bench.board)["next"].as_array().unwrap().len(), 10);
    assert_eq!(bench.board.recent.len(), 5);
}
