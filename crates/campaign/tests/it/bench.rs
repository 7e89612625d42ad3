//! A campaign to test with, and its log.

use serde_json::{Map, Value, json};
use singletree_campaign::{
    ActionTerms, Campaign, CampaignBoard, CampaignBudget, CampaignEvent, CampaignLogEntry, CampaignProposal,
    CampaignStep, CompletionReads, CycleCost, Error, PersonCommand, PlanTask, ProofPolicy, ReasonedProposal,
    Result, accept_proposal, begin_action, begin_cycle, create_campaign, decide_command, finish_action,
    measure_cycle, record_artifact_approval, refuse_proposal,
};
use singletree_env::Timestamp;

/// How often a proposal may be refused in a row.
pub(crate) const REPAIRS: u64 = 3;

/// A board and the log that it is the fold of.
pub(crate) struct Bench {
    pub(crate) board: CampaignBoard,
    pub(crate) log: Vec<CampaignLogEntry>,
    pub(crate) policy: ProofPolicy,
    pub(crate) now: Timestamp,
}

pub(crate) fn campaign(budget: CampaignBudget) -> Campaign {
    Campaign {
        id: "cmp_spring".to_owned(),
        tenant: "default".to_owned(),
        subject: None,
        name: "Spring".to_owned(),
        goal: "Write to every customer.".to_owned(),
        agent: "writer".to_owned(),
        budget,
        created_at: Timestamp::from_millis(0),
    }
}

/// Reads tasks of a plan.
pub(crate) fn tasks(value: Value) -> Vec<PlanTask> {
    serde_json::from_value(value).unwrap()
}

/// Two tasks: a letter that is approved and sent, and a report that a person confirms.
pub(crate) fn two_tasks() -> Vec<PlanTask> {
    tasks(json!([
        { "id": "letter", "description": "Write and send the letter.", "proof": [
            { "type": "artifact_approved", "kind": "letter", "key": "spring" },
            { "type": "tool_succeeded", "tool": "send", "args": { "to": "Ann" } },
        ] },
        { "id": "report", "description": "Tell what was done.", "needs": ["letter"], "proof": [
            { "type": "user_confirmed", "question": "Is it told?" },
        ] },
    ]))
}

pub(crate) fn object(value: Value) -> Map<String, Value> {
    value.as_object().unwrap().clone()
}

impl Bench {
    pub(crate) fn new() -> Self {
        Self::with_budget(CampaignBudget::default())
    }

    pub(crate) fn with_budget(budget: CampaignBudget) -> Self {
        let now = Timestamp::from_millis(0);
        let event = create_campaign(campaign(budget)).unwrap().remove(0);
        let first = CampaignLogEntry { seq: 1, at: now, event };
        let board = CampaignBoard::from_first_entry(&first).unwrap();
        let policy = ProofPolicy {
            verify_tools: [("crm".to_owned(), "look".to_owned())].into(),
            reading_tools: ["read".to_owned()].into(),
        };
        Self { board, log: vec![first], policy, now }
    }

    /// A campaign whose plan of two tasks is approved.
    pub(crate) fn with_approved_plan() -> Self {
        let mut bench = Self::new();
        bench.propose(CampaignProposal::ReplacePlan { tasks: two_tasks() }).unwrap();
        bench.approve_plan();
        bench
    }

    /// Records events as one commit.
    pub(crate) fn record(&mut self, events: Vec<CampaignEvent>) {
        for event in events {
            self.now = self.now.saturating_add(std::time::Duration::from_millis(1));
            let entry = CampaignLogEntry { seq: self.board.seq + 1, at: self.now, event };
            self.board.apply_entry(&entry).unwrap();
            self.log.push(entry);
        }
    }

    /// Begins a cycle and decides about a proposal in it.
    pub(crate) fn propose(&mut self, proposal: CampaignProposal) -> Result<()> {
        self.propose_with(proposal, (true, false), &[])
    }

    pub(crate) fn propose_with(
        &mut self,
        proposal: CampaignProposal,
        (is_possible, needs_approval): (bool, bool),
        reads: &[usize],
    ) -> Result<()> {
        let begun = begin_cycle(&self.board)?;
        let runs = matches!(begun[0], CampaignEvent::CycleBegan { .. });
        self.record(begun);
        if !runs {
            return Ok(());
        }
        let terms = ActionTerms { is_possible, needs_approval };
        let reads = CompletionReads(reads.to_vec());
        match accept_proposal(&self.board, &proposal, (terms, &self.policy, &reads)) {
            Ok(events) => {
                self.record(events);
                Ok(())
            }
            Err(error) => {
                let refused = refuse_proposal(&self.board, &error, REPAIRS);
                self.record(refused);
                Err(error)
            }
        }
    }

    /// Begins a cycle, and decides about a proposal of a model that was asked before something happened.
    pub(crate) fn propose_before(
        &mut self,
        proposal: &CampaignProposal,
        meanwhile: impl FnOnce(&mut Self),
    ) -> Result<()> {
        self.record(begin_cycle(&self.board)?);
        let seen = Some(self.board.seq);
        meanwhile(self);
        self.record(measure_cycle(CycleCost { seen, ..CycleCost::default() }));
        let terms = ActionTerms { is_possible: true, needs_approval: false };
        let reads = CompletionReads::default();
        let events = accept_proposal(&self.board, proposal, (terms, &self.policy, &reads))?;
        self.record(events);
        Ok(())
    }

    /// Proposes what a model writes.
    pub(crate) fn propose_json(&mut self, arguments: Value) -> Result<()> {
        self.propose(ReasonedProposal::from_arguments(&object(arguments))?.proposal)
    }

    pub(crate) fn command(&mut self, command: PersonCommand) -> Result<()> {
        let events = decide_command(&self.board, &command, ("Ann", &self.policy))?;
        self.record(events);
        Ok(())
    }

    pub(crate) fn approve_plan(&mut self) {
        let plan = self.board.plan.clone().unwrap();
        self.command(PersonCommand::ApprovePlan { version: plan.version, digest: plan.digest }).unwrap();
    }

    pub(crate) fn approve_artifact(&mut self, kind: &str, key: &str) {
        let events = record_artifact_approval(&self.board, (kind, key, 1), "Ann");
        self.record(events);
    }

    pub(crate) fn select(&mut self, task: &str) -> Result<()> {
        self.propose(CampaignProposal::SelectTask { task: task.to_owned() })
    }

    pub(crate) fn complete(&mut self, task: &str) -> Result<()> {
        self.propose(CampaignProposal::CompleteTask { task: task.to_owned() })
    }

    /// Proposes a call, begins it and ends it.
    pub(crate) fn call(
        &mut self,
        task: &str,
        (tool, args): (&str, Value),
        success: bool,
        reads: bool,
    ) -> Result<()> {
        let (task, tool, args) = (task.to_owned(), tool.to_owned(), object(args));
        self.propose(CampaignProposal::ExecuteTool { task, tool, args })?;
        self.run_call(success, reads)
    }

    /// Begins and ends the granted call.
    pub(crate) fn run_call(&mut self, success: bool, reads: bool) -> Result<()> {
        let CampaignStep::Execute(action) = self.board.next_step() else {
            return Err(Error::Changed { why: "no call is granted".to_owned() });
        };
        let begun = begin_action(&self.board, &action.digest)?;
        self.record(begun);
        let done = finish_action(&self.board, &action.digest, (success, reads), ("turn:1", "did it"))?;
        self.record(done);
        Ok(())
    }
}
