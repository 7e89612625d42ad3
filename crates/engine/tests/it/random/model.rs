//! The outcome of a graph, by plain recursion: no futures, no cursors, no stores.
//!
//! The model computes the final state or the failure, which functions run and how often, and which of them a run may
//! perform again when it is resumed: those that an unfinished instance or unfinished branches contain
//! (pipeline-utilities §§10.7, 11.9), and those that are attempted anew because attempts are (§10.6) or because a
//! suspension inside of a container begins it anew (suspension §§8.2, 8.3).

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::plan::{Branch, Doing, Fan, Fork, Jump, Kind, Node, Plan, When, Wrap};
use super::state::{Change, State};
use super::told::{Act, Execution, Failure, Feature, Told, Unit};
use super::work::{Job, TRANSIENT, degraded};
use super::world::Ended;

/// Why something did not return an update.
#[derive(Debug, Clone)]
enum Stop {
    Failed(Failure),
    /// A member asked; whether its container is done by that.
    Asked(bool),
    /// The node is done by a suspension, with this update: no middleware sees it.
    Passed(Box<Change>),
}

/// The outcome of a member: its last state, or an update in its own terms.
enum Contribution {
    Walked(State),
    Degraded(Change),
}

struct Model {
    acts: Vec<Act>,
    executions: Vec<Execution>,
    features: BTreeSet<Feature>,
    ambiguous: bool,
    in_order: bool,
    units: Vec<Unit>,
    /// The names on the way, with members.
    path: Vec<String>,
    /// The states of the present strand, outermost first.
    states: Vec<State>,
    /// How many members deep.
    inside: usize,
}

/// More acts than this are more than a small graph has.
const ACTS: usize = 16;

pub(crate) fn tell(plan: &Plan) -> Told {
    let mut model = Model {
        acts: Vec::new(),
        executions: Vec::new(),
        features: BTreeSet::new(),
        ambiguous: false,
        in_order: false,
        units: Vec::new(),
        path: Vec::new(),
        states: vec![State::new(plan.items)],
        inside: 0,
    };
    let end = match model.walk(plan, 0) {
        Ok(()) => Ok(model.states[0].to_json()),
        Err(Stop::Failed(failure)) => {
            model.features.insert(Feature::Failure);
            Err(failure)
        }
        Err(Stop::Asked(_) | Stop::Passed(_)) => unreachable!("suspensions end at their node"),
    };
    let Model { acts, executions, features, ambiguous, in_order, .. } = model;
    Told { end, acts, executions, features, ambiguous, in_order }
}

impl Model {
    fn state(&self) -> &State {
        self.states.last().expect("a strand has a state")
    }

    /// Walks a graph on the last state.
    fn walk(&mut self, plan: &Plan, attempt: u32) -> Result<(), Stop> {
        let mut at = 0;
        while let Some(node) = plan.nodes.get(at) {
            if self.acts.len() > ACTS {
                self.ambiguous = true;
                return Ok(());
            }
            let change = match self.node(plan, node, attempt) {
                Ok(change) => change,
                Err(Stop::Passed(change)) => *change,
                Err(stop) => return Err(stop),
            };
            let state = self.states.last_mut().expect("a strand has a state");
            state.apply(change);
            at = match node.jump {
                Jump::Back { to, until } if state.turns < i64::from(until) => {
                    let back = plan.nodes.iter().position(|it| it.id == to);
                    if back.is_some() {
                        self.features.insert(Feature::Cycle);
                    }
                    back.unwrap_or(at + 1)
                }
                Jump::Skip if state.acc % 2 == 0 => at + 2,
                Jump::None | Jump::Back { .. } | Jump::Skip => at + 1,
            };
        }
        Ok(())
    }

    fn node(&mut self, plan: &Plan, node: &Node, attempt: u32) -> Result<Change, Stop> {
        let chain = plan.chain(node);
        let degrade = |it: &Self| degraded(node.id, node.turns(), &it.state().view());
        let name = node.name();
        match &node.kind {
            Kind::Work(work) => {
                let job = Job { work: *work, id: node.id, name, turns: node.turns() };
                self.surround(&chain, attempt, &degrade, &mut |it, attempt| it.function(&job, attempt))
            }
            Kind::Sub(inner) => {
                let at = self.begin(&name);
                let mut times = 0;
                let ended = self.surround(&chain, attempt, &degrade, &mut |it, attempt| {
                    times += 1;
                    it.subgraph(&name, inner, attempt)
                });
                self.end(at, times > 1);
                // Another attempt asks anew, and one that was gone on with is one more: the number of answers says
                // nothing.
                let asks = |it: &Act| matches!(it.ended, Ended::Asked(_));
                self.ambiguous |= times > 1 && self.acts[self.executions[at].acts.clone()].iter().any(asks);
                ended
            }
            Kind::Fan(fan) => self.container(&name, (&chain, attempt), &degrade, &mut |it, at, attempt| {
                it.instances(&name, (node.id, fan), at, attempt)
            }),
            Kind::Fork(fork) => self.container(&name, (&chain, attempt), &degrade, &mut |it, at, attempt| {
                it.branches(&name, fork, at, attempt)
            }),
        }
    }

    /// Runs a chain around its unit.
    fn surround<T>(
        &mut self,
        chain: &[Wrap],
        attempt: u32,
        degrade: &dyn Fn(&Self) -> T,
        perform: &mut dyn FnMut(&mut Self, u32) -> Result<T, Stop>,
    ) -> Result<T, Stop> {
        let Some((wrap, rest)) = chain.split_first() else { return perform(self, attempt) };
        match *wrap {
            Wrap::Timing => self.surround(rest, attempt, degrade, perform),
            Wrap::Isolation => match self.surround(rest, attempt, degrade, perform) {
                Err(Stop::Failed(_)) => {
                    self.features.insert(Feature::Isolation);
                    Ok(degrade(self))
                }
                other => other,
            },
            Wrap::Retry(attempts) => {
                let mut own = 0;
                loop {
                    match self.surround(rest, own, degrade, perform) {
                        Err(Stop::Failed(it)) if it.category == TRANSIENT && own + 1 < attempts => own += 1,
                        other => return other,
                    }
                    self.features.insert(Feature::Retry);
                }
            }
        }
    }

    fn place(&self, name: &str) -> String {
        self.path.iter().map(String::as_str).chain([name]).collect::<Vec<_>>().join("/")
    }

    /// Overlays an answer (suspension §6): the outermost state and the one that was suspended.
    fn answer(&mut self) {
        let answer = self.states[0].answer + 1;
        self.states[0].answer = answer;
        self.states.last_mut().expect("a strand has a state").answer = answer;
    }

    fn function(&mut self, job: &Job, attempt: u32) -> Result<Change, Stop> {
        loop {
            let view = self.state().view();
            let (failure, asks) = (job.failure(&view, attempt), job.asks(&view));
            let ended = match (failure, asks) {
                (Some(_), _) => Ended::Failed,
                (None, Some(done)) => Ended::Asked(done),
                (None, None) => Ended::Done,
            };
            let key = (self.place(&job.name), view.acc);
            self.acts.push(Act { key, attempt, ended, units: self.units.clone(), certain: true });
            match (failure, asks) {
                (Some(category), _) => {
                    return Err(Stop::Failed(Failure { category, node: job.name.clone() }));
                }
                (None, Some(done)) => {
                    self.features.insert(Feature::Suspension);
                    if !done {
                        self.features.insert(Feature::SuspensionThatRunsAgain);
                    }
                    if self.inside > 0 {
                        return Err(Stop::Asked(done));
                    }
                    self.answer();
                    if done {
                        return Err(Stop::Passed(Box::default()));
                    }
                }
                (None, None) => return Ok(job.change(&view)),
            }
        }
    }

    /// The state that an inner graph begins with.
    fn start(&self, plan: &Plan) -> State {
        let State { acc, answer, n, .. } = *self.state();
        State { acc, answer, n, ..State::new(plan.items) }
    }

    fn subgraph(&mut self, name: &str, plan: &Plan, attempt: u32) -> Result<Change, Stop> {
        if self.path.last().is_some_and(|it| it.starts_with('s')) {
            self.features.insert(Feature::SubgraphTwoDeep);
        }
        let start = self.start(plan);
        self.path.push(name.to_owned());
        self.states.push(start);
        let walked = self.walk(plan, attempt);
        self.path.pop();
        let State { acc, log, rows, results, nested, errors, .. } =
            self.states.pop().expect("it was pushed above");
        walked.map(|()| Change { acc: Some(acc), log, rows, results, nested, errors, ..Change::default() })
    }

    /// Notes that something begins whose acts have something in common.
    fn begin(&mut self, name: &str) -> usize {
        let now = self.acts.len();
        let path = self.place(name);
        let around = self.units.clone();
        self.executions.push(Execution { path, acts: now..now, around, cut: false });
        self.executions.len() - 1
    }

    /// Notes its end, and whether its acts may be performed anew until something else has happened after it.
    fn end(&mut self, at: usize, anew: bool) {
        let execution = &mut self.executions[at];
        execution.acts.end = self.acts.len();
        if anew {
            let depth = execution.around.len();
            for act in &mut self.acts[execution.acts.clone()] {
                act.units.insert(depth, Unit::Anew(at));
            }
        }
    }

    /// Runs a node that has members.
    fn container(
        &mut self,
        name: &str,
        (chain, attempt): (&[Wrap], u32),
        degrade: &dyn Fn(&Self) -> Change,
        members: &mut dyn FnMut(&mut Self, usize, u32) -> Members,
    ) -> Result<Change, Stop> {
        let at = self.begin(name);
        let mut times = 0;
        let ended = self.surround(chain, attempt, degrade, &mut |it, attempt| {
            loop {
                times += 1;
                let first = it.acts.len();
                let members = members(it, at, attempt);
                let (gathered, stop) = it.judge(name, members);
                let Some(stop) = stop else { return Ok(gathered) };
                it.executions[at].cut = true;
                it.acts[first..].iter_mut().for_each(|it| it.certain = false);
                match stop {
                    // The outermost container suspends.
                    Stop::Asked(done) if it.inside == 0 => {
                        it.answer();
                        if done {
                            return Err(Stop::Passed(Box::new(gathered)));
                        }
                    }
                    stop => return Err(stop),
                }
            }
        });
        self.end(at, times > 1 || self.executions[at].cut);
        ended
    }

    /// Returns the outcome of a container with these members: their contributions, and the reason why it has not
    /// completed.
    fn judge(&mut self, name: &str, members: Members) -> (Change, Option<Stop>) {
        let Members { gathered, failures, asked, collect } = members;
        let categories: BTreeSet<_> = failures.iter().map(|it| it.category).collect();
        if collect {
            self.ambiguous |= !asked.is_empty();
            if !failures.is_empty() {
                self.features.insert(Feature::Collected);
            }
            return (gathered, None);
        }
        self.ambiguous |= categories.len() > 1 || (!categories.is_empty() && !asked.is_empty());
        if let Some(done) = asked.first() {
            self.ambiguous |= asked.iter().any(|it| it != done);
            self.in_order |= done;
            return (gathered, Some(Stop::Asked(*done)));
        }
        let failed = |it: Failure| Stop::Failed(Failure { node: name.to_owned(), ..it });
        (gathered, failures.into_iter().next().map(failed))
    }

    /// Runs one member on a strand of its own.
    fn member<T>(
        &mut self,
        (name, unit): (String, Unit),
        (chain, attempt): (&[Wrap], u32),
        (start, degrade): (&State, &dyn Fn(&Self) -> T),
        perform: &mut dyn FnMut(&mut Self, u32) -> Result<T, Stop>,
    ) -> Result<T, Stop> {
        let around = std::mem::take(&mut self.states);
        let at_path = self.path.len();
        self.path.push(name);
        self.units.push(unit);
        self.inside += 1;
        let at = self.begin("");
        let mut times = 0;
        let ended = self.surround(chain, attempt, degrade, &mut |it, attempt| {
            times += 1;
            it.states = vec![start.clone()];
            perform(it, attempt)
        });
        self.end(at, times > 1);
        self.inside -= 1;
        self.units.pop();
        self.path.truncate(at_path);
        self.states = around;
        ended
    }

    fn instances(&mut self, name: &str, (id, fan): (u32, &Fan), at: usize, attempt: u32) -> Members {
        let items = match fan.count {
            Some(count) => vec![self.state().n; count.into()],
            None => self.state().items.clone(),
        };
        if !items.is_empty() {
            if self.units.iter().any(|it| matches!(it, Unit::Instance(..))) {
                self.features.insert(Feature::NestedFanOut);
            }
            if self.units.iter().any(|it| matches!(it, Unit::Branches(_))) {
                self.features.insert(Feature::FanOutInBranch);
            }
        }
        let count = Some(i64::try_from(items.len()).expect("there are few"));
        let mut members = Members::new(fan.collect, Change { count, ..Change::default() });
        for (index, n) in (0_u64..).zip(items) {
            let start = State { n, ..self.start(&fan.inner) };
            let degrade = |_: &Self| Contribution::Degraded(degraded(id, false, &start.view()));
            let called = (format!("{name}[{index}]"), Unit::Instance(at, index));
            let ended = self.member(called, (&fan.chain, attempt), (&start, &degrade), &mut |it, attempt| {
                it.walk(&fan.inner, attempt)?;
                Ok(Contribution::Walked(it.state().clone()))
            });
            members.take(ended, json!(index), |all, contribution| {
                let (log, acc, rows) = match contribution {
                    Contribution::Walked(State { log, acc, rows, .. }) => (log, acc, rows.into()),
                    Contribution::Degraded(Change { log, acc, .. }) => {
                        (log, acc.expect("it is set"), Value::Null)
                    }
                };
                all.rows.push(json!(log));
                all.results.push(acc);
                all.nested.push(rows);
            });
        }
        self.ambiguous |= members.asked.first() == Some(&true) && is_slow(&fan.inner);
        members
    }

    fn branches(&mut self, name: &str, fork: &Fork, at: usize, attempt: u32) -> Members {
        let mut members = Members::new(fork.collect, Change::default());
        let odd = self.state().acc % 2 == 1;
        let runs = |it: &&Branch| match it.when {
            When::Always => true,
            When::Never => false,
            When::Odd => odd,
        };
        for branch in fork.branches.iter().filter(runs) {
            let called = (format!("{name}[{}]", branch.name()), Unit::Branches(at));
            let start = match &branch.doing {
                Doing::Call(_) => self.state().clone(),
                Doing::Graph(plan) => self.start(plan),
            };
            let degrade = |_: &Self| degraded(branch.id, false, &start.view());
            let ended =
                self.member(called, (&branch.chain, attempt), (&start, &degrade), &mut |it, attempt| {
                    match &branch.doing {
                        Doing::Call(work) => {
                            let (id, name) = (branch.id, branch.name());
                            it.function(&Job { work: *work, id, name, turns: false }, attempt)
                        }
                        Doing::Graph(plan) => {
                            it.walk(plan, attempt)?;
                            let State { acc, log, rows, results, .. } = it.state().clone();
                            Ok(Change { acc: Some(acc), log, rows, results, ..Change::default() })
                        }
                    }
                });
            members.take(ended, json!(branch.name()), |all, it| {
                all.acc = it.acc.or(all.acc);
                all.items = it.items.or(all.items.take());
                all.log.extend(it.log);
                all.rows.extend(it.rows);
                all.results.extend(it.results);
            });
        }
        let slow = fork.branches.iter().any(|it| match &it.doing {
            Doing::Call(work) => work.takes > 0,
            Doing::Graph(plan) => is_slow(plan),
        });
        self.ambiguous |= members.asked.first() == Some(&true) && slow;
        members
    }
}

/// Tells whether something in a graph takes time: then siblings run in between.
fn is_slow(plan: &Plan) -> bool {
    plan.works().iter().any(|it| it.takes > 0)
}

/// The outcomes of the members of a container.
struct Members {
    gathered: Change,
    failures: Vec<Failure>,
    asked: Vec<bool>,
    collect: bool,
}

impl Members {
    fn new(collect: bool, gathered: Change) -> Self {
        Self { gathered, failures: Vec::new(), asked: Vec::new(), collect }
    }

    fn take<T>(&mut self, ended: Result<T, Stop>, error: Value, add: impl FnOnce(&mut Change, T)) {
        match ended {
            // Members after one that asks have not begun.
            Ok(contribution) if self.asked.is_empty() => add(&mut self.gathered, contribution),
            Ok(_) => {}
            Err(Stop::Failed(failure)) => {
                if self.collect {
                    self.gathered.errors.push(error);
                }
                self.failures.push(failure);
            }
            Err(Stop::Asked(done)) => self.asked.push(done),
            Err(Stop::Passed(_)) => unreachable!("a member's suspension is its container's"),
        }
    }
}
