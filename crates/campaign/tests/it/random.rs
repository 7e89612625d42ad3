//! Random sequences of proposals, calls and commands, beside a plain model that knows neither events nor a log.

mod sheet;

use proptest::prelude::*;
use serde_json::json;
use singletree_campaign::{
    CampaignBoard, CampaignProposal, CampaignStatus, OpenAction, PersonCommand, Plan, begin_action,
    fail_cycle, finish_action, wake_after_pause,
};

use self::sheet::{Sheet, read_sheet};
use crate::bench::{Bench, object, two_tasks};

/// What may happen. Tasks are `letter`, which needs an approval and a call, and `report`, which needs `letter` and a
/// confirmation.
#[derive(Debug, Clone)]
enum Op {
    ReplacePlan,
    Select(bool),
    Call { first: bool, asks: bool },
    Complete(bool),
    Block(bool),
    Question,
    Nothing,
    Begin,
    Finish { success: bool, reads: bool },
    ApprovePlan { stale: bool },
    RejectPlan,
    EditPlan { stale: bool },
    Decide(bool),
    Answer,
    Confirm,
    ApproveLetter,
    Free,
    Unblock(bool),
    Retry(bool),
    Pause,
    Resume,
    Cancel,
    Fail { may_pass: bool },
    Wake,
}

fn ops() -> impl Strategy<Value = Op> {
    let flag = any::<bool>;
    prop_oneof![
        2 => Just(Op::ReplacePlan),
        6 => flag().prop_map(Op::Select),
        6 => (flag(), flag()).prop_map(|(first, asks)| Op::Call { first, asks }),
        5 => flag().prop_map(Op::Complete),
        1 => flag().prop_map(Op::Block),
        1 => Just(Op::Question),
        2 => Just(Op::Nothing),
        5 => Just(Op::Begin),
        5 => (prop::bool::weighted(0.8), prop::bool::weighted(0.1)).prop_map(|(success, reads)| Op::Finish { success, reads }),
        5 => prop::bool::weighted(0.1).prop_map(|stale| Op::ApprovePlan { stale }),
        1 => Just(Op::RejectPlan),
        1 => flag().prop_map(|stale| Op::EditPlan { stale }),
        4 => prop::bool::weighted(0.8).prop_map(Op::Decide),
        2 => Just(Op::Answer),
        2 => Just(Op::Confirm),
        3 => Just(Op::ApproveLetter),
        2 => Just(Op::Free),
        1 => flag().prop_map(Op::Unblock),
        1 => flag().prop_map(Op::Retry),
        1 => Just(Op::Pause),
        2 => Just(Op::Resume),
        1 => Just(Op::Cancel),
        1 => flag().prop_map(|may_pass| Op::Fail { may_pass }),
        1 => Just(Op::Wake),
    ]
}

/// The task of a flag.
fn task(first: bool) -> String {
    if first { "letter" } else { "report" }.to_owned()
}

/// Does it to the campaign; returns whether it was taken.
fn act(bench: &mut Bench, op: &Op) -> bool {
    let version = bench.board.plan.as_ref().map_or(0, |plan: &Plan| plan.version);
    let digest = bench.board.plan.as_ref().map(|plan| plan.digest.clone()).unwrap_or_default();
    let action = bench.board.action.as_ref().map(|open: &OpenAction| open.action.digest.clone());
    let action = action.unwrap_or_default();
    let question = "Is it told?".to_owned();
    let done = match op.clone() {
        Op::ReplacePlan => bench.propose(CampaignProposal::ReplacePlan { tasks: two_tasks() }),
        Op::Select(first) => bench.select(&task(first)),
        Op::Call { first, asks } => {
            let (task, tool, args) = (task(first), "send".to_owned(), object(json!({ "to": "Ann" })));
            bench.propose_with(CampaignProposal::ExecuteTool { task, tool, args }, (true, asks), &[])
        }
        Op::Complete(first) => bench.complete(&task(first)),
        Op::Block(first) => {
            bench.propose(CampaignProposal::BlockTask { task: task(first), why: "no".to_owned() })
        }
        Op::Question => {
            let question = "To whom?".to_owned();
            bench.propose(CampaignProposal::AskUser { task: None, question, schema: None })
        }
        Op::Nothing => bench.propose(CampaignProposal::NoOp {}),
        Op::Begin => begin_action(&bench.board, &action).map(|events| bench.record(events)),
        Op::Finish { success, reads } => finish_action(&bench.board, &action, (success, reads), ("r", "t"))
            .map(|events| bench.record(events)),
        Op::ApprovePlan { stale } => {
            let version = if stale { version.wrapping_sub(1) } else { version };
            bench.command(PersonCommand::ApprovePlan { version, digest })
        }
        Op::RejectPlan => bench.command(PersonCommand::RejectPlan { version, reason: None }),
        Op::EditPlan { stale } => {
            let version = if stale { version + 1 } else { version };
            bench.command(PersonCommand::EditPlan { version, tasks: two_tasks() })
        }
        Op::Decide(approved) => {
            bench.command(PersonCommand::DecideAction { digest: action, approved, reason: None })
        }
        Op::Answer => {
            bench.command(PersonCommand::Answer { question: "To whom?".to_owned(), answer: json!("Bob") })
        }
        Op::Confirm => bench.command(PersonCommand::Confirm { task: task(false), question }),
        Op::ApproveLetter => {
            bench.approve_artifact("letter", "spring");
            Ok(())
        }
        Op::Free => bench.command(PersonCommand::Free { text: "Go.".to_owned() }),
        Op::Unblock(first) => bench.command(PersonCommand::Unblock { task: task(first) }),
        Op::Retry(first) => bench.command(PersonCommand::Retry { task: task(first) }),
        Op::Pause => bench.command(PersonCommand::Pause),
        Op::Resume => bench.command(PersonCommand::Resume),
        Op::Cancel => bench.command(PersonCommand::Cancel),
        Op::Fail { may_pass } => {
            fail_cycle(&bench.board, ("c", may_pass), bench.now).map(|events| bench.record(events))
        }
        Op::Wake => {
            let later = bench.now.saturating_add(std::time::Duration::from_secs(36_000));
            wake_after_pause(&bench.board, later).map(|events| bench.record(events))
        }
    };
    done.is_ok()
}

fn check_invariants(bench: &Bench) {
    let board = &bench.board;
    assert_eq!(CampaignBoard::from_log(&bench.log).unwrap(), *board, "the log alone rebuilds the board");
    let counts = board.count_tasks();
    assert!(counts.in_progress <= 1, "{counts:?}");
    assert_eq!(board.progress.len(), board.plan.as_ref().map_or(0, |plan| plan.tasks.len()));
    assert_eq!(board.pause.is_some(), board.status == CampaignStatus::Paused);
    assert!(board.recent.len() <= 5);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_sequences_go_as_a_plain_model_says(ops in prop::collection::vec(ops(), 1..60)) {
        let (mut bench, mut sheet) = (Bench::new(), Sheet::new());
        for (no, op) in ops.iter().enumerate() {
            let before = bench.board.clone();
            let (taken, expected) = (act(&mut bench, op), sheet.act(op));
            prop_assert_eq!(taken, expected, "step {}: {:?} at {:?}", no, op, before);
            prop_assert_eq!(&read_sheet(&bench.board), &sheet, "step {}: {:?}", no, op);
            check_invariants(&bench);
        }
    }
}
