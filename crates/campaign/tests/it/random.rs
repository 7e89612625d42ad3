//! Random sequences of proposals, calls and commands, beside a plain model that knows neither events nor a log.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use serde_json::json;
use singletree_campaign::{
    CampaignBoard, CampaignProposal, CampaignStatus, CampaignWait, OpenAction, PersonCommand, Plan,
    TaskStatus, begin_action, fail_cycle, finish_action, wake_after_pause,
};

use crate::bench::{Bench, REPAIRS, object, two_tasks};

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

/// The plain model: what a person would note on a sheet.
#[derive(Debug, Clone, PartialEq, Default)]
struct Sheet {
    status: String,
    /// Why it is paused, in one word.
    pause: &'static str,
    began: bool,
    /// `proposed`, `approved`, or empty.
    plan: &'static str,
    tasks: BTreeMap<String, String>,
    /// The proofs that were found, by task; the approval of the letter as `approval`.
    found: BTreeSet<String>,
    wait: &'static str,
    /// The call in hand: its task, how far it is, and whether its version of the plan is the newest.
    call: Option<(String, &'static str, bool)>,
    idle: u64,
    refusals: u64,
    command: bool,
}

impl Sheet {
    fn new() -> Self {
        Self { status: "initializing".to_owned(), ..Self::default() }
    }

    fn has_plan(&self) -> bool {
        !self.plan.is_empty()
    }

    fn approved(&self) -> bool {
        self.plan == "approved"
    }

    fn runs(&self) -> bool {
        self.status == "initializing" || self.status == "active"
    }

    fn over(&self) -> bool {
        self.status == "completed" || self.status == "cancelled"
    }

    fn in_hand(&self, task: &str) -> bool {
        self.tasks.get(task).is_some_and(|it| it == "in_progress")
    }

    fn ready(&self, task: &str) -> bool {
        let pending = self.tasks.get(task).is_some_and(|it| it == "pending");
        pending && (task == "letter" || self.tasks["letter"] == "done")
    }

    fn proved(&self, task: &str) -> bool {
        self.found.contains(task) && (task == "report" || self.found.contains("approval"))
    }

    fn pause(&mut self, why: &'static str) {
        (self.status, self.pause) = ("paused".to_owned(), why);
    }

    fn resume(&mut self) {
        self.status = if self.began { "active" } else { "initializing" }.to_owned();
        (self.pause, self.refusals, self.idle) = ("", 0, 0);
    }

    fn news(&mut self) {
        if self.status == "paused" && self.pause == "waiting" {
            self.resume();
        }
    }

    fn new_plan(&mut self, by_agent: bool) {
        if by_agent {
            self.taken(0);
        }
        let fresh =
            |old: Option<&String>| if old.is_some_and(|old| old == "done") { "done" } else { "pending" };
        for task in ["letter", "report"] {
            let status = fresh(self.tasks.get(task)).to_owned();
            // What was found for a task that is not done does not count for another version.
            if status != "done" {
                self.found.remove(task);
            }
            self.tasks.insert(task.to_owned(), status);
        }
        (self.plan, self.wait) = ("proposed", "plan");
        self.call = self
            .call
            .take()
            .filter(|(_, stage, _)| *stage == "begun")
            .map(|(task, stage, _)| (task, stage, false));
    }

    /// A proposal was accepted.
    fn taken(&mut self, idle: u64) {
        (self.refusals, self.command, self.idle) = (0, false, idle);
    }

    /// Begins a cycle; `false` when none begins, `None` when the campaign is paused or completed instead.
    fn cycle(&mut self) -> Option<bool> {
        let asks = self.runs() && self.wait.is_empty() && self.call.is_none();
        if !asks {
            return Some(false);
        }
        if self.approved() && self.tasks.values().all(|it| it == "done") {
            self.status = "completed".to_owned();
            return None;
        }
        let busy = self.command
            || !self.approved()
            || ["letter", "report"].iter().any(|it| self.in_hand(it) || self.ready(it));
        if !busy {
            self.pause("waiting");
            return None;
        }
        Some(true)
    }

    fn propose(&mut self, op: &Op) -> bool {
        match self.cycle() {
            Some(true) => {}
            Some(false) => return false,
            None => return true,
        }
        let fits = match op {
            Op::ReplacePlan | Op::Question | Op::Nothing => true,
            Op::Select(first) => {
                self.approved()
                    && self.ready(&task(*first))
                    && !self.in_hand("letter")
                    && !self.in_hand("report")
            }
            Op::Call { first, .. } | Op::Block(first) => self.approved() && self.in_hand(&task(*first)),
            Op::Complete(first) => {
                self.approved() && self.in_hand(&task(*first)) && self.proved(&task(*first))
            }
            _ => unreachable!(),
        };
        if !fits {
            self.refusals += 1;
            if self.refusals > REPAIRS {
                self.status = "error".to_owned();
            }
            return false;
        }
        let idle = if matches!(op, Op::Nothing) { self.idle + 1 } else { 0 };
        self.taken(idle);
        match op {
            Op::ReplacePlan => self.new_plan(true),
            Op::Question => self.wait = "question",
            Op::Nothing => {
                if self.has_plan() && !self.approved() {
                    self.wait = "plan";
                }
                if idle >= 3 {
                    self.pause("waiting");
                }
            }
            Op::Select(first) => drop(self.tasks.insert(task(*first), "in_progress".to_owned())),
            Op::Block(first) => drop(self.tasks.insert(task(*first), "blocked".to_owned())),
            Op::Complete(first) => drop(self.tasks.insert(task(*first), "done".to_owned())),
            Op::Call { first, asks } => {
                self.call = Some((task(*first), if *asks { "asked" } else { "granted" }, true));
                self.wait = if *asks { "action" } else { "" };
            }
            _ => unreachable!(),
        }
        true
    }

    fn act(&mut self, op: &Op) -> bool {
        match op {
            Op::ReplacePlan
            | Op::Select(_)
            | Op::Call { .. }
            | Op::Complete(_)
            | Op::Block(_)
            | Op::Question
            | Op::Nothing => self.propose(op),
            Op::Begin => {
                let runs = self.runs();
                let call = self.call.as_mut().filter(|(_, stage, _)| runs && *stage == "granted");
                call.map(|(_, stage, _)| *stage = "begun").is_some()
            }
            Op::Finish { success, reads } => {
                if self.call.as_ref().is_none_or(|(_, stage, _)| *stage != "begun") {
                    return false;
                }
                let (task, _, newest) = self.call.take().unwrap();
                if *success && !reads && newest && task == "letter" {
                    self.found.insert(task);
                }
                true
            }
            Op::ApproveLetter => {
                self.found.insert("approval".to_owned());
                self.news();
                true
            }
            Op::Fail { may_pass } => {
                let runs = self.runs();
                match (runs, may_pass) {
                    (false, _) => {}
                    (true, true) => self.pause("transient"),
                    (true, false) => self.status = "error".to_owned(),
                }
                runs
            }
            Op::Wake => {
                let wakes = self.status == "paused" && self.pause == "transient";
                if wakes {
                    self.resume();
                }
                wakes
            }
            person => !self.over() && self.command_of_person(person),
        }
    }

    fn command_of_person(&mut self, op: &Op) -> bool {
        let taken = match op {
            Op::Pause | Op::Resume | Op::Cancel => return self.change_status(op),
            Op::ApprovePlan { stale } => {
                let approves = self.has_plan() && !stale && !self.approved();
                if approves {
                    (self.plan, self.began) = ("approved", true);
                    self.close("plan");
                    if self.status == "initializing" {
                        self.status = "active".to_owned();
                    }
                }
                approves
            }
            Op::RejectPlan => {
                let rejects = self.has_plan() && !self.approved();
                if rejects {
                    self.close("plan");
                    self.command = true;
                }
                rejects
            }
            Op::EditPlan { stale } => {
                if !stale {
                    self.new_plan(false);
                }
                !stale
            }
            other => self.work_of_person(other),
        };
        if taken {
            self.news();
        }
        taken
    }

    fn change_status(&mut self, op: &Op) -> bool {
        match op {
            Op::Pause => {
                let pauses = self.runs() || (self.status == "paused" && self.pause != "person");
                if pauses {
                    self.pause("person");
                }
                pauses
            }
            Op::Resume => {
                let resumes = self.status == "paused" || self.status == "error";
                if resumes {
                    self.resume();
                }
                resumes
            }
            Op::Cancel => {
                (self.status, self.pause, self.wait) = ("cancelled".to_owned(), "", "");
                self.call = self.call.take().filter(|(_, stage, _)| *stage == "begun");
                true
            }
            _ => unreachable!(),
        }
    }

    fn work_of_person(&mut self, op: &Op) -> bool {
        match op {
            Op::Decide(approved) => {
                let decides = self.wait == "action";
                if decides {
                    self.wait = "";
                    self.call = self
                        .call
                        .take()
                        .filter(|_| *approved)
                        .map(|(task, _, newest)| (task, "granted", newest));
                }
                decides
            }
            Op::Answer => {
                let answers = self.wait == "question";
                if answers {
                    self.wait = "";
                }
                answers
            }
            Op::Confirm => {
                let confirms = self.has_plan() && self.approved();
                if confirms {
                    self.found.insert("report".to_owned());
                }
                confirms
            }
            Op::Free => {
                self.command = true;
                self.close("plan");
                true
            }
            Op::Unblock(first) | Op::Retry(first) => {
                let is_retry = matches!(op, Op::Retry(_));
                let status = self.tasks.get(&task(*first)).cloned().unwrap_or_default();
                let fits = status == "blocked" || (is_retry && status == "done");
                if fits {
                    self.tasks.insert(task(*first), "pending".to_owned());
                    if is_retry {
                        self.found.remove(&task(*first));
                    }
                }
                fits
            }
            _ => unreachable!(),
        }
    }

    fn close(&mut self, wait: &str) {
        if self.wait == wait {
            self.wait = "";
        }
    }
}

/// What the sheet says, read off the board.
fn read_sheet(board: &CampaignBoard) -> Sheet {
    use singletree_campaign::{ActionStage, PauseReason};
    let word = |status: TaskStatus| serde_json::to_value(status).unwrap().as_str().unwrap().to_owned();
    let version = board.plan.as_ref().map_or(0, |plan| plan.version);
    let call = board.action.as_ref().map(|open| {
        let stage = match open.stage {
            ActionStage::Asked => "asked",
            ActionStage::Granted => "granted",
            ActionStage::Begun => "begun",
        };
        (open.action.task.clone(), stage, open.action.plan_version == version)
    });
    let has = |task: &str, at: usize| board.find_progress(task).is_some_and(|row| row.found[at].is_some());
    let found = [("letter", 1), ("report", 0)].into_iter().filter(|(task, at)| has(task, *at));
    let approved = board.approved_artifacts.contains_key("letter/spring");
    let approval = approved.then(|| "approval".to_owned());
    Sheet {
        status: board.status.as_str().to_owned(),
        pause: match &board.pause {
            None => "",
            Some(PauseReason::Person { .. }) => "person",
            Some(PauseReason::Transient { .. }) => "transient",
            Some(PauseReason::NoReadyTask | PauseReason::NothingToPropose) => "waiting",
            Some(PauseReason::Budget { .. } | PauseReason::Quota { .. }) => "budget",
        },
        began: board.began,
        plan: match (&board.plan, board.is_plan_approved()) {
            (None, _) => "",
            (Some(_), false) => "proposed",
            (Some(_), true) => "approved",
        },
        tasks: board.progress.iter().map(|row| (row.task.clone(), word(row.status))).collect(),
        found: found.map(|(task, _)| task.to_owned()).chain(approval).collect(),
        wait: match &board.wait {
            None => "",
            Some(CampaignWait::Plan) => "plan",
            Some(CampaignWait::Action) => "action",
            Some(CampaignWait::Question { .. }) => "question",
        },
        call,
        idle: board.idle,
        refusals: board.refusals,
        command: board.command.is_some(),
    }
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
