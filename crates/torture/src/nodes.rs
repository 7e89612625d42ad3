//! Several nodes over one database: they are killed, stopped and cut off while clients ask them, and the same audit judges
//! the stored data.

mod ending;
mod fleet;
mod owners;
mod stall;
mod takeovers;

use std::collections::BTreeMap;
use std::fmt;
use std::process::Command;
use std::time::Duration;

use serde::Serialize;
use singletree_audit::{AuditRule, AuditedOutcome, RuleViolation};
use singletree_engine::Clock;

use crate::aim::KillTrigger;
use crate::error::{Error, Result};
use crate::load::{ReopenedStore, SILENCE, StopCondition, TICK, TorturePlan, TortureRun};
use crate::phase::BatchPurpose;
use crate::proxy::{CutSide, DatabaseAddress, PlannedCut};
use crate::verdict::{KillStatistics, TortureVerdict};
use crate::wire::{ChildReport, ChildRequest};
use fleet::{Fleet, Heard};
use owners::SessionOwners;
pub use stall::STALLED;
use takeovers::AwaitedTakeovers;

/// The plan of a run with several nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodesPlan {
    /// The load, and when to stop.
    pub load: TorturePlan,
    /// How many nodes there are.
    pub nodes: usize,
    /// Their lease.
    pub lease: Duration,
    /// Where the database listens.
    pub database: DatabaseAddress,
    /// A command that makes the database crash and brings it back, for `sh`.
    pub restart: Option<String>,
}

/// The programs of a run with several nodes.
#[derive(Clone, Copy)]
pub struct NodePrograms<'a> {
    /// Starts a node, given its number and the port of this machine at which it finds the database.
    pub start: &'a dyn Fn(usize, u16) -> Command,
    /// Makes all writes to the database wait for a time; the program says [`STALLED`] in a line as soon as they do, and ends
    /// after it.
    pub stall: &'a dyn Fn(Duration) -> Command,
}

impl fmt::Debug for NodePrograms<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodePrograms").finish_non_exhaustive()
    }
}

/// The faults beside kills, and how soon the survivors went on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct NodeFaults {
    /// How often a node stood still for longer than its lease.
    pub pauses: u64,
    /// How often all writes to the database waited for longer than the lease.
    pub stalls: u64,
    /// How often the messages of a node reached the database later than its lease.
    pub delays: u64,
    /// How many connections to the database were cut.
    pub cuts: u64,
    /// How often the database was restarted.
    pub restarts: u64,
    /// How many requests went to another node because the first one did not own the session.
    pub moved: u64,
    /// How many sessions with running turns another node took over, as far as no other fault came between.
    pub takeovers: u64,
    /// The longest time from a kill to the first commit of the next owner, in milliseconds.
    pub slowest_takeover_millis: i64,
}

/// Tortures several nodes: load, kills, pauses, cuts and restarts, until the plan says stop; then lets everything end, opens
/// the store and compares. `tell` hears how far it is, after each kill.
///
/// The load runs on the calling thread, which it blocks; only the doctor and the comparison at the end await.
///
/// # Errors
/// `torture_child_failed` when a node ends or falls silent by itself, or the database is not restarted, which is no verdict;
/// those of opening the store.
///
/// # Cancellation
/// The nodes are killed.
pub async fn torture_nodes<F, O>(
    plan: &NodesPlan,
    programs: NodePrograms<'_>,
    clock: &dyn Clock,
    tell: &mut dyn FnMut(&KillStatistics),
    open: F,
) -> Result<TortureVerdict>
where
    F: Fn() -> O,
    O: Future<Output = Result<ReopenedStore>>,
{
    let mut run = NodesRun::start(plan, programs, clock)?;
    let began = clock.now();
    let goes_on = |run: &NodesRun<'_>| match plan.load.until {
        StopCondition::Kills(kills) => run.run.kills.total < kills,
        StopCondition::Time(time) => clock.now().duration_since(began) < time,
    };
    while goes_on(&run) {
        let before = run.run.kills.total;
        run.run_fault()?;
        if run.run.kills.total == before {
            continue;
        }
        tell(&run.run.kills);
        if run.run.kills.total.is_multiple_of(EXAMINED) {
            run.settle()?;
            run.run.examine_store(open().await?).await?;
        }
    }
    run.finish()?.compute_verdict(open().await?).await
}

/// After how many kills the doctor looks at the store, when every call is answered.
const EXAMINED: u64 = 25;

/// The number of kills for each pause, for each time that all writes wait or those of a node come late, and for each restart of
/// the database.
const KILLS_A_PAUSE: u64 = 3;
const KILLS_A_STALL: u64 = 3;
const KILLS_A_DELAY: u64 = 3;
const KILLS_A_RESTART: u64 = 30;

/// After how many messages a connection is cut at most, and how many are cut one after the other.
const CUT_AFTER: u64 = 120;
const CUTS: u64 = 6;

/// For how long a request waits that a node has refused because another one owns the session, in milliseconds.
const MOVED_AGAIN: u64 = 150;

/// The refusal of a node that does not own the session.
const MOVING: &str = "session_moving";

/// A request that has no answer yet.
struct AskedRequest {
    node: usize,
    request: ChildRequest,
    /// The highest fence of its session when it was asked.
    asked_under: u64,
}

struct NodesRun<'a> {
    run: TortureRun<'a>,
    plan: &'a NodesPlan,
    programs: NodePrograms<'a>,
    fleet: Fleet<'a>,
    /// Where each open call is, by its number.
    asked: BTreeMap<u64, AskedRequest>,
    /// Requests that were refused by a node, each with the time to ask again.
    again: Vec<(i64, ChildRequest)>,
    /// Which node answered last for a session.
    homes: BTreeMap<String, usize>,
    takeovers: AwaitedTakeovers,
    owners: SessionOwners,
    faults: NodeFaults,
}

impl<'a> NodesRun<'a> {
    fn start(plan: &'a NodesPlan, programs: NodePrograms<'a>, clock: &'a dyn Clock) -> Result<Self> {
        Ok(Self {
            run: TortureRun::new(&plan.load, clock),
            plan,
            programs,
            fleet: Fleet::start(plan.nodes, &plan.database, programs.start)?,
            asked: BTreeMap::new(),
            again: Vec::new(),
            homes: BTreeMap::new(),
            takeovers: AwaitedTakeovers::default(),
            owners: SessionOwners::default(),
            faults: NodeFaults::default(),
        })
    }

    fn draw_below(&mut self, end: u64) -> u64 {
        self.run.clients.random_source().draw_below(end)
    }

    fn draw_millis(&mut self, end: Duration) -> Duration {
        Duration::from_millis(self.draw_below(u64::try_from(end.as_millis()).unwrap_or(u64::MAX)))
    }

    /// Makes the next fault, and lets the clients ask for a while.
    fn run_fault(&mut self) -> Result<()> {
        let kills = self.run.kills.total;
        let lease = self.plan.lease;
        if self.faults.pauses * KILLS_A_PAUSE < kills {
            self.await_takeovers()?;
            self.pause_node()?;
            return self.serve_for(lease / 2, None);
        }
        if self.plan.restart.is_some() && self.faults.restarts * KILLS_A_RESTART < kills {
            self.await_takeovers()?;
            self.restart_database()?;
            return self.serve_for(lease / 2, None);
        }
        if self.faults.stalls * KILLS_A_STALL < kills {
            self.await_takeovers()?;
            return self.stall_database();
        }
        if self.faults.delays * KILLS_A_DELAY < kills {
            self.await_takeovers()?;
            return self.delay_messages();
        }
        if self.cut_count() < kills * CUTS / 2 {
            self.cut_connections();
        }
        let pause = self.draw_millis(lease);
        self.serve_for(pause, None)?;
        self.kill_node()
    }

    /// Lets the others take over the sessions of a dead node before a fault that would keep them from it: so the time of each
    /// takeover is measured, however long it takes.
    fn await_takeovers(&mut self) -> Result<()> {
        let until =
            self.run.now_millis() + i64::try_from((self.plan.lease * 2).as_millis()).unwrap_or(i64::MAX);
        while self.takeovers.is_awaited() && self.run.now_millis() < until {
            self.ask_requests(None, false)?;
            self.receive(TICK)?;
        }
        Ok(())
    }

    fn pause_node(&mut self) -> Result<()> {
        let node = self.await_ready_node()?;
        // In the middle of a commit, which is made or refused long after another node has the session.
        let phase = self.run.clients.random_source().draw_index(BatchPurpose::AIMED.len());
        let phase = BatchPurpose::AIMED.get(phase).copied().unwrap_or(BatchPurpose::Step);
        self.await_moment(node, KillTrigger::Phase(phase, 0))?;
        self.pause_now(node)
    }

    fn pause_now(&mut self, node: usize) -> Result<()> {
        let long = self.plan.lease + self.plan.lease / 5 + self.draw_millis(self.plan.lease);
        let until = self.run.now_millis() + i64::try_from(long.as_millis()).unwrap_or(i64::MAX);
        self.takeovers.forget();
        self.faults.pauses += 1;
        self.fleet.pause(node, until)
    }

    fn restart_database(&mut self) -> Result<()> {
        let Some(command) = &self.plan.restart else { return Ok(()) };
        self.takeovers.forget();
        let status = Command::new("sh").arg("-c").arg(command).status();
        let status = status.map_err(|source| Error::Child { doing: "restart the database of", source })?;
        if !status.success() {
            return Err(Error::Restart { status: status.to_string() });
        }
        self.faults.restarts += 1;
        Ok(())
    }

    fn cut_count(&self) -> u64 {
        self.fleet.nodes.iter().map(|node| node.proxy.cut_count()).sum()
    }

    fn cut_connections(&mut self) {
        let (skip, count) = (self.draw_below(CUT_AFTER), self.draw_below(CUTS) + 1);
        let side = if self.draw_below(2) == 0 { CutSide::Before } else { CutSide::After };
        let node = self.run.clients.random_source().draw_index(self.fleet.nodes.len());
        self.fleet.node(node).proxy.set_next_cut(Some(PlannedCut { skip, count, side }));
    }

    fn kill_node(&mut self) -> Result<()> {
        let node = self.await_ready_node()?;
        let aim = KillTrigger::choose_next(self.run.clients.random_source(), &self.run.kills);
        let aimed = aim.awaited_phase();
        self.await_moment(node, aim)?;
        self.kill_now(node, aimed)
    }

    fn kill_now(&mut self, node: usize, aimed: Option<BatchPurpose>) -> Result<()> {
        self.fleet.node(node).may_end = true;
        self.fleet.node(node).handle.kill()?;
        // Lines that it wrote before it died still count.
        while !matches!(self.receive(TICK)?, Heard::Ended(of) if of == node) {}
        let work = std::mem::take(&mut self.fleet.node(node).work);
        self.takeovers.note_death(work.busy_sessions(), self.run.now_millis());
        work.count_kill(aimed, &mut self.run.kills);
        self.run.read_effects()?;
        let lost: Vec<u64> =
            self.asked.iter().filter(|(_, it)| it.node == node).map(|(call, _)| *call).collect();
        self.run.clients.handle_child_death(|call| lost.contains(&call));
        self.asked.retain(|call, _| !lost.contains(call));
        self.owners.forget_node(node);
        self.fleet.start_again(node)
    }

    /// Lets the clients ask until it is time for a fault at a node.
    fn await_moment(&mut self, node: usize, mut aim: KillTrigger) -> Result<()> {
        let until = self.run.now_millis() + aim.kill_timeout_millis();
        while self.run.now_millis() < until {
            self.ask_requests(aim.awaited_phase(), false)?;
            if let Heard::Line(of, line) = self.receive(TICK)?
                && of == node
                && aim.is_met_by(&line)
            {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Draws a node that answers, and waits until there is one.
    fn await_ready_node(&mut self) -> Result<usize> {
        let mut since = self.run.now_millis();
        loop {
            let ready = self.fleet.answering_nodes();
            // With one that answers beside it the load goes on.
            if ready.len() > 1 {
                let at = self.run.clients.random_source().draw_index(ready.len());
                return Ok(ready.get(at).copied().unwrap_or_default());
            }
            let now = self.run.now_millis();
            if self.fleet.nodes.iter().any(|node| node.paused_until.is_some()) {
                since = now;
            }
            if now - since > i64::try_from(SILENCE.as_millis()).unwrap_or(i64::MAX) {
                let silent = self.fleet.nodes.iter().position(|node| !node.is_ready).unwrap_or_default();
                return Err(self.fleet.silent_error(silent, SILENCE));
            }
            self.ask_requests(None, false)?;
            self.receive(TICK)?;
        }
    }

    /// Lets the clients ask for a while.
    fn serve_for(&mut self, time: Duration, wanted: Option<BatchPurpose>) -> Result<()> {
        let until = self.run.now_millis() + i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
        while self.run.now_millis() < until {
            self.ask_requests(wanted, false)?;
            self.receive(TICK)?;
        }
        Ok(())
    }

    /// Sends the next requests of the clients, each to a node.
    fn ask_requests(&mut self, wanted: Option<BatchPurpose>, settle: bool) -> Result<()> {
        let now = self.run.now_millis();
        self.fleet.resume_due(now)?;
        if self.fleet.answering_nodes().is_empty() {
            return Ok(());
        }
        let (due, later) = std::mem::take(&mut self.again).into_iter().partition(|(at, _)| *at <= now);
        self.again = later;
        let due: Vec<(i64, ChildRequest)> = due;
        let new = self.run.clients.next_requests(wanted, now, settle);
        for request in due.into_iter().map(|(_, request)| request).chain(new) {
            let node = self.choose_node(request.session());
            self.fleet.send_request(node, &request)?;
            let asked_under = request.session().map_or(0, |session| self.owners.newest_fence(session));
            self.asked.insert(request.call(), AskedRequest { node, request, asked_under });
        }
        Ok(())
    }

    /// Chooses a node for a request: mostly the one that answered last for the session, as a load balancer that knows
    /// nothing would not.
    fn choose_node(&mut self, session: Option<&str>) -> usize {
        let home = session.and_then(|session| self.homes.get(session)).copied();
        let ready = self.fleet.answering_nodes();
        let dice = self.run.clients.random_source();
        if dice.draw_percent(3) {
            // One that may stand still.
            return dice.draw_index(self.fleet.nodes.len());
        }
        match home.filter(|home| ready.contains(home) && dice.draw_percent(70)) {
            Some(home) => home,
            None => ready.get(dice.draw_index(ready.len())).copied().unwrap_or_default(),
        }
    }

    /// Waits for a line of a node, and gives it to the client that it is for.
    fn receive(&mut self, within: Duration) -> Result<Heard> {
        let heard = self.fleet.receive(within)?;
        match &heard {
            Heard::Line(node, line) => self.process_report(*node, line),
            Heard::Ended(node) if !self.fleet.node(*node).may_end => {
                return Err(self.fleet.ended_error(*node));
            }
            Heard::Ended(_) | Heard::Nothing => {}
        }
        Ok(heard)
    }

    fn process_report(&mut self, node: usize, line: &ChildReport) {
        let now = self.run.now_millis();
        let cuts = self.cut_count();
        self.takeovers.note_cuts(cuts);
        self.takeovers.note_report(line, now);
        let (call, is_moving, is_answered) = match line {
            ChildReport::Told { call, turn, end, .. } => {
                let moves = matches!(end, AuditedOutcome::Errored { category, .. } if category == MOVING);
                (*call, turn.is_none() && moves, turn.is_some())
            }
            ChildReport::Failed { call, category } => (*call, category == MOVING, false),
            ChildReport::Done { call } => (*call, false, true),
            ChildReport::Acquired { session, fence } => {
                return self.owners.note_acquired(node, session, *fence);
            }
            ChildReport::Refused { session, why } => {
                let why = format!("another process has written what its owner writes: {why}");
                return self.record_violation(session, why);
            }
            _ => return self.run.clients.receive_report(line, now),
        };
        let Some(asked) = self.asked.remove(&call) else { return };
        let session = asked.request.session().map(str::to_owned);
        if is_moving {
            self.faults.moved += 1;
            let wait = i64::try_from(self.draw_below(MOVED_AGAIN)).unwrap_or_default();
            session.map(|session| self.homes.remove(&session));
            self.again.push((now + wait, asked.request));
            return;
        }
        if let Some(session) = session {
            if is_answered && self.owners.is_former(node, &session, asked.asked_under) {
                let why = "a node has answered from memory after another one had taken the session";
                self.record_violation(&session, format!("{call}: {why}"));
            }
            self.homes.insert(session, node);
        }
        self.run.clients.receive_report(line, now);
    }

    fn record_violation(&mut self, session: &str, why: String) {
        let (rule, session) = (AuditRule::Contradicted, session.to_owned());
        self.run.found.push(RuleViolation { rule, session, why });
    }
}
