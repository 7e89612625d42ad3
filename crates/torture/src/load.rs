//! Runs it all: starts, asks, kills, starts again, and in the end compares.

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use singletree_audit::{AuditRule, RuleViolation, StoredSession, audit_sessions};
use singletree_durable::{Journal, JournalMaintenance, SessionId, SessionKey, TenantId};
use singletree_engine::Clock;
use singletree_harness::{Chat, StoreDoctor};
use singletree_llm::InstantTimer;
use singletree_store_testing::FailedWriteEffect;

use crate::aim::{KillTrigger, WorkInProgress};
use crate::child::{LoggedEffect, build_agents};
use crate::clients::LoadClients;
use crate::error::{Error, Result};
use crate::fault::CommitFaults;
use crate::nodes::NodeFaults;
use crate::process::{ChildProcess, ReceivedLine};
use crate::verdict::{KillStatistics, TortureVerdict, answered_too_late, check_effects};
use crate::wire::ChildReport;

/// How long the child may say nothing.
pub(crate) const SILENCE: Duration = Duration::from_secs(60);

/// When to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopCondition {
    /// After so many kills.
    Kills(u64),
    /// After so long.
    Time(Duration),
}

/// The plan of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TorturePlan {
    /// The seed of the load: the same seed makes the same calls.
    pub seed: u64,
    /// When to stop.
    pub until: StopCondition,
    /// How many clients ask at once.
    pub clients: usize,
    /// In how many sessions.
    pub sessions: usize,
    /// The file to which tools write their effects; the child is started with the same.
    pub effects: PathBuf,
}

/// The store, opened again.
#[derive(Debug, Clone)]
pub struct ReopenedStore {
    /// The store.
    pub journal: Arc<dyn Journal>,
    /// The same store.
    pub upkeep: Arc<dyn JournalMaintenance>,
}

/// Tortures a child: load, kills, restarts, until the plan says stop; then lets everything end, opens the store and
/// compares. `tell` hears how far it is, now and then.
///
/// The load runs on the calling thread, which it blocks; only the comparison at the end awaits.
///
/// # Errors `torture_child_failed` when the child ends or falls silent by itself, which is no verdict; those of
/// opening the store.
///
/// # Cancellation
/// The child is killed.
pub async fn torture_child<F, O>(
    plan: &TorturePlan,
    start: impl Fn() -> Command,
    clock: &dyn Clock,
    tell: &mut dyn FnMut(&KillStatistics),
    open: F,
) -> Result<TortureVerdict>
where
    F: Fn() -> O,
    O: Future<Output = Result<ReopenedStore>>,
{
    let mut run = TortureRun::new(plan, clock);
    let began = clock.now();
    let goes_on = |run: &TortureRun<'_>| match plan.until {
        StopCondition::Kills(kills) => run.kills.total < kills,
        StopCondition::Time(time) => clock.now().duration_since(began) < time,
    };
    while goes_on(&run) {
        run.run_process(start())?;
        tell(&run.kills);
        if run.kills.total.is_multiple_of(EXAMINED) {
            run.examine_store(open().await?).await?;
        }
    }
    run.run_last_process(start())?;
    run.compute_verdict(open().await?).await
}

/// After how many kills the doctor looks at the store, between two processes.
const EXAMINED: u64 = 50;

/// After how many processes the second agent gets another release.
const RELEASED: u64 = 10;

/// How long a call may go without its answer in a process that is left alone, while nothing else happens.
pub(crate) const STUCK: Duration = Duration::from_secs(20);

pub(crate) struct TortureRun<'a> {
    plan: &'a TorturePlan,
    clock: &'a dyn Clock,
    pub(crate) clients: LoadClients,
    pub(crate) kills: KillStatistics,
    /// The faults of a run with several nodes.
    pub(crate) faults: Option<NodeFaults>,
    effects: Vec<(Option<String>, LoggedEffect)>,
    /// How many lines of the effects' log were read.
    read: usize,
    /// Which release of the second agent the process has.
    release: u32,
    /// Violations that were found before the end.
    pub(crate) found: Vec<RuleViolation>,
}

/// The decisions about a process before it is started.
struct ProcessPlan {
    aim: KillTrigger,
    /// Whether its commits fail for a while.
    faults: Option<CommitFaults>,
    /// Whether it is left alone for a while before it is killed, until every call is answered.
    settles: bool,
}

impl<'a> TortureRun<'a> {
    pub(crate) fn new(plan: &'a TorturePlan, clock: &'a dyn Clock) -> Self {
        Self {
            plan,
            clock,
            clients: LoadClients::new(plan.seed, plan.clients, plan.sessions),
            kills: KillStatistics::default(),
            faults: None,
            effects: Vec::new(),
            read: 0,
            release: 1,
            found: Vec::new(),
        }
    }

    pub(crate) fn now_millis(&self) -> i64 {
        self.clock.now().as_millis()
    }

    fn choose_process_plan(&mut self, command: &mut Command) -> ProcessPlan {
        if (self.kills.total + 1).is_multiple_of(RELEASED) {
            self.release += 1;
            self.clients.mix.releases += 1;
        }
        command.arg("--release").arg(self.release.to_string());
        let aim = KillTrigger::choose_next(self.clients.random_source(), &self.kills);
        let dice = self.clients.random_source();
        let faults = dice.draw_percent(8).then(|| CommitFaults {
            from: dice.draw_below(60),
            count: dice.draw_below(6) + 1,
            land: if dice.draw_percent(50) { FailedWriteEffect::Before } else { FailedWriteEffect::After },
        });
        let settles = faults.is_none() && dice.draw_percent(25);
        if let Some(faults) = &faults {
            command.arg("--fail-commits").arg(faults.to_string());
        }
        self.clients.mix.commit_faults += u64::from(faults.is_some());
        ProcessPlan { aim, faults, settles }
    }

    /// One process, from its start to its kill.
    fn run_process(&mut self, mut command: Command) -> Result<()> {
        let ProcessPlan { mut aim, faults, settles } = self.choose_process_plan(&mut command);
        let mut process = ChildProcess::start(command)?;
        let aimed = aim.awaited_phase();
        let mut way = WorkInProgress::default();
        self.clients.begin_process();
        // A process whose commits fail may end by itself before it serves: a death like the others.
        let serves = match self.wait_until_ready(&mut process, &mut way) {
            Err(Error::Ended { .. }) if faults.is_some() => false,
            ready => ready.map(|()| true)?,
        };
        if settles {
            self.warm_up_process(&mut process, &mut way)?;
            self.wait_for_answers(&mut process, &mut way)?;
        }
        if serves {
            self.send_requests_until(&mut aim, &mut process, &mut way, faults.is_some())?;
        }
        process.handle.kill()?;
        // Lines that the child wrote before it died still count.
        while let ReceivedLine::Line(line) = process.receive_line(SILENCE)? {
            self.process_report(&line, &mut way);
        }
        process.handle.wait_for_exit()?;
        way.count_kill(aimed, &mut self.kills);
        self.read_effects()?;
        if faults.is_none() {
            for (session, why) in self.clients.take_unexpected_answers() {
                self.found.push(RuleViolation { rule: AuditRule::Contradicted, session, why });
            }
        }
        self.clients.handle_child_death(|_| true);
        Ok(())
    }

    /// Lets the clients ask until it is time to kill, or a process whose commits fail is gone.
    fn send_requests_until(
        &mut self,
        aim: &mut KillTrigger,
        process: &mut ChildProcess,
        way: &mut WorkInProgress,
        may_end: bool,
    ) -> Result<()> {
        let (aimed, ready_at) = (aim.awaited_phase(), self.clock.now());
        loop {
            let now = self.now_millis();
            for ask in self.clients.next_requests(aimed, now, false) {
                process.handle.send_request(&ask)?;
            }
            let left = duration_of_millis(aim.kill_timeout_millis())
                .saturating_sub(self.clock.now().duration_since(ready_at));
            if left == Duration::ZERO {
                return Ok(());
            }
            match process.receive_line(left.min(TICK))? {
                ReceivedLine::Line(line) => {
                    let is_met = aim.is_met_by(&line);
                    if is_met {
                        // At once: the commit is under way right now.
                        process.handle.kill()?;
                    }
                    self.process_report(&line, way);
                    if is_met {
                        return Ok(());
                    }
                }
                ReceivedLine::Nothing => {}
                ReceivedLine::Closed if may_end => return Ok(()),
                ReceivedLine::Closed => return Err(child_ended_error(process)),
            }
        }
    }

    /// Lets the clients ask for a moment.
    fn warm_up_process(&mut self, process: &mut ChildProcess, way: &mut WorkInProgress) -> Result<()> {
        let began = self.clock.now();
        loop {
            let now = self.now_millis();
            for ask in self.clients.next_requests(None, now, false) {
                process.handle.send_request(&ask)?;
            }
            let left = WARM.saturating_sub(self.clock.now().duration_since(began));
            if left.is_zero() {
                return Ok(());
            }
            match process.receive_line(left.min(TICK))? {
                ReceivedLine::Line(line) => self.process_report(&line, way),
                ReceivedLine::Nothing => {}
                ReceivedLine::Closed => return Err(child_ended_error(process)),
            }
        }
    }

    /// Waits until the child serves. A sign of life is no progress.
    fn wait_until_ready(&mut self, process: &mut ChildProcess, way: &mut WorkInProgress) -> Result<()> {
        let (mut since, mut alive) = (self.clock.now(), "starting, as far as it said".to_owned());
        loop {
            match process.receive_line(SILENCE.saturating_sub(self.clock.now().duration_since(since)))? {
                ReceivedLine::Line(ChildReport::Alive { phase, beats }) => {
                    alive = format!("{}, and said so {beats} times", phase.as_str());
                }
                ReceivedLine::Line(line) => {
                    since = self.clock.now();
                    self.process_report(&line, way);
                    if matches!(line, ChildReport::Ready { .. }) {
                        return Ok(());
                    }
                }
                ReceivedLine::Nothing => {
                    return Err(Error::Silent {
                        seconds: SILENCE.as_secs(),
                        phase: alive,
                        state: process.handle.describe_state(),
                    });
                }
                ReceivedLine::Closed => return Err(child_ended_error(process)),
            }
        }
    }

    /// Leaves the child alone until every call is answered. A call without an answer when nothing happens any more is
    /// stuck: no kill may cure it unseen (INV-8).
    fn wait_for_answers(&mut self, process: &mut ChildProcess, way: &mut WorkInProgress) -> Result<()> {
        self.clients.mix.settled += 1;
        let mut since = self.clock.now();
        loop {
            let now = self.now_millis();
            for ask in self.clients.next_requests(None, now, true) {
                process.handle.send_request(&ask)?;
            }
            let unanswered = self.clients.unanswered_calls();
            if unanswered.is_empty() {
                return Ok(());
            }
            match process.receive_line(STUCK.saturating_sub(self.clock.now().duration_since(since)))? {
                ReceivedLine::Line(line) => {
                    if !matches!(line, ChildReport::Alive { .. }) {
                        since = self.clock.now();
                    }
                    self.process_report(&line, way);
                }
                ReceivedLine::Nothing => {
                    for (session, call) in unanswered {
                        let why = format!(
                            "{call} had no answer before the kill, {STUCK:?} after anything happened"
                        );
                        self.found.push(RuleViolation { rule: AuditRule::Stuck, session, why });
                    }
                    return Ok(());
                }
                ReceivedLine::Closed => return Err(child_ended_error(process)),
            }
        }
    }

    fn process_report(&mut self, line: &ChildReport, way: &mut WorkInProgress) {
        way.note_report(line);
        let now = self.now_millis();
        self.clients.receive_report(line, now);
    }

    /// The last process: it is not killed, and it answers the open calls.
    fn run_last_process(&mut self, mut command: Command) -> Result<()> {
        self.clients.stop_new_calls();
        command.arg("--release").arg(self.release.to_string());
        let mut process = ChildProcess::start(command)?;
        let mut way = WorkInProgress::default();
        self.clients.begin_process();
        self.wait_until_ready(&mut process, &mut way)?;
        self.wait_for_answers(&mut process, &mut way)?;
        process.handle.close_requests();
        let mut since = self.clock.now();
        loop {
            match process.receive_line(SILENCE.saturating_sub(self.clock.now().duration_since(since)))? {
                ReceivedLine::Line(ChildReport::Alive { .. }) => {}
                ReceivedLine::Line(line) => {
                    since = self.clock.now();
                    self.process_report(&line, &mut way);
                }
                ReceivedLine::Nothing => {
                    let (seconds, state) = (SILENCE.as_secs(), process.handle.describe_state());
                    return Err(Error::Silent { seconds, phase: "ending".to_owned(), state });
                }
                ReceivedLine::Closed => break,
            }
        }
        let status = process.handle.wait_for_exit()?;
        if !status.success() {
            return Err(Error::Ended { status: status.to_string() });
        }
        self.read_effects()
    }

    /// Reads the new lines of the log of effects.
    pub(crate) fn read_effects(&mut self) -> Result<()> {
        let text = match std::fs::read_to_string(&self.plan.effects) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            Err(source) => return Err(Error::Effects { source }),
        };
        for line in text.split_inclusive('\n').filter(|line| line.ends_with('\n')).skip(self.read) {
            let happened: LoggedEffect = serde_json::from_str(line)
                .map_err(|source| Error::Line { line: line.trim_end().to_owned(), source })?;
            self.clients.record_effect(&happened.text, &happened.key);
            let session = self.clients.session_of_text(&happened.text).map(str::to_owned);
            self.effects.push((session, happened));
            self.read += 1;
        }
        Ok(())
    }

    /// Runs the doctor on the store of a dead process, so that a fault which a later process repairs is found, too.
    pub(crate) async fn examine_store(&mut self, opened: ReopenedStore) -> Result<()> {
        self.clients.mix.examinations += 1;
        let examination = StoreDoctor::new(opened.journal, opened.upkeep).examine().await?;
        let kills = self.kills.total;
        for finding in examination.findings {
            let (session, code) = (finding.session.session.to_string(), finding.symptom.code());
            let why = format!("the doctor finds {code} after {kills} kills: {}", finding.what);
            self.found.push(RuleViolation { rule: AuditRule::Contradicted, session, why });
        }
        Ok(())
    }

    pub(crate) async fn compute_verdict(self, opened: ReopenedStore) -> Result<TortureVerdict> {
        let ReopenedStore { journal, upkeep } = opened;
        let agents = build_agents(self.plan.effects.clone(), Arc::new(InstantTimer), self.release)?;
        let chat = Chat::builder();
        let chat = agents.into_iter().fold(chat, singletree_harness::ChatBuilder::agent);
        let chat = chat.open_shared(journal.clone(), upkeep.clone())?;
        let (mut stored, mut late) = (Vec::new(), Vec::new());
        for session in self.clients.possible_sessions() {
            let id = SessionId::parse(session).expect("the load's own names are names");
            let key = SessionKey::new(TenantId::single(), id);
            let read = StoredSession::read_from_store(&chat, journal.as_ref(), &key).await?;
            let found = answered_too_late(journal.as_ref(), &key, &read).await;
            late.extend(found.map_err(singletree_harness::Error::from)?);
            stored.push(read);
        }
        let records = self.clients.records();
        let mut report = audit_sessions(&records, &stored);
        report.violations.extend(check_effects(&self.effects, &records, &stored));
        report.violations.extend(late);
        report.violations.extend(self.found);
        let examination = StoreDoctor::new(journal, upkeep).examine().await?;
        let (seed, kills, nodes, mix) = (self.plan.seed, self.kills, self.faults, self.clients.mix);
        Ok(TortureVerdict { seed, kills, nodes, mix, report, examination })
    }
}

/// For how long clients ask before a process is left alone.
const WARM: Duration = Duration::from_millis(150);

/// How long it waits for a line before it looks whether a client has something to ask.
pub(crate) const TICK: Duration = Duration::from_millis(20);

fn duration_of_millis(millis: i64) -> Duration {
    Duration::from_millis(u64::try_from(millis).unwrap_or(0))
}

fn child_ended_error(process: &mut ChildProcess) -> Error {
    match process.handle.wait_for_exit() {
        Ok(status) => Error::Ended { status: status.to_string() },
        Err(error) => error,
    }
}
