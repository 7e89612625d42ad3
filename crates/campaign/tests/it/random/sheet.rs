//! The plain model of a campaign.

use std::collections::{BTreeMap, BTreeSet};

use singletree_campaign::{CampaignBoard, CampaignWait, TaskStatus};

use super::{Op, task};
use crate::bench::REPAIRS;

/// The plain model: what a person would note on a sheet.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Sheet {
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
    pub(super) fn new() -> Self {
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

    pub(super) fn act(&mut self, op: &Op) -> bool {
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
pub(super) fn read_sheet(board: &CampaignBoard) -> Sheet {
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
