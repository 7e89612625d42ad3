//! Runs it all: starts, asks, kills, starts again, and in the end compares.

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use singletree_audit::{StoredSession, audit};
use singletree_durable::{Journal, SessionId, SessionKey, TenantId, Upkeep};
use singletree_engine::Clock;
use singletree_harness::{Chat, Doctor};
use singletree_llm::NoPause;

use crate::aim::{Aim, UnderWay};
use crate::child::{Happened, load_agent};
use crate::clients::Clients;
use crate::error::{Error, Result};
use crate::process::{Heard, Process};
use crate::verdict::{Kills, Verdict, check_effects};
use crate::wire::Line;

/// How long the child may say nothing.
const SILENCE: Duration = Duration::from_secs(60);

/// When to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// After so many kills.
    Kills(u64),
    /// After so long.
    Time(Duration),
}

/// What to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// What the load is drawn from: the same seed asks for the same.
    pub seed: u64,
    /// When to stop.
    pub until: Until,
    /// How many clients ask at once.
    pub clients: usize,
    /// In how many sessions.
    pub sessions: usize,
    /// The file to which tools write their effects; the child is started with the same.
    pub effects: PathBuf,
}

/// The store, opened again.
#[derive(Debug, Clone)]
pub struct Opened {
    /// The store.
    pub journal: Arc<dyn Journal>,
    /// The same store.
    pub upkeep: Arc<dyn Upkeep>,
}

/// Tortures a child: load, kills, restarts, until the plan says stop; then lets everything end, opens the store and
/// compares. `tell` hears how far it is, now and then.
///
/// The load runs on the calling thread, which it blocks; only the comparison at the end awaits.
///
/// # Errors
/// `torture_child_failed` when the child ends or falls silent by itself, which is no verdict; those of opening the store.
///
/// # Cancellation
/// The child is killed.
pub async fn torture<F, O>(
    plan: &Plan,
    start: impl Fn() -> Command,
    clock: &dyn Clock,
    tell: &mut dyn FnMut(&Kills),
    open: F,
) -> Result<Verdict>
where
    F: FnOnce() -> O,
    O: Future<Output = Result<Opened>>,
{
    let mut run = Run {
        plan,
        clock,
        clients: Clients::new(plan.seed, plan.clients, plan.sessions),
        kills: Kills::default(),
        effects: Vec::new(),
        read: 0,
    };
    let began = clock.now();
    let goes_on = |run: &Run<'_>| match plan.until {
        Until::Kills(kills) => run.kills.total < kills,
        Until::Time(time) => clock.now().since(began) < time,
    };
    while goes_on(&run) {
        run.life(start())?;
        tell(&run.kills);
    }
    run.last_life(start())?;
    run.verdict(open().await?).await
}

struct Run<'a> {
    plan: &'a Plan,
    clock: &'a dyn Clock,
    clients: Clients,
    kills: Kills,
    effects: Vec<(Option<String>, Happened)>,
    /// How many lines of the effects' log were read.
    read: usize,
}

impl Run<'_> {
    /// One process, from its start to its kill.
    fn life(&mut self, command: Command) -> Result<()> {
        let mut process = Process::start(command)?;
        let mut aim = Aim::choose(self.clients.dice(), &self.kills);
        let aimed = aim.phase();
        let mut way = UnderWay::default();
        let mut ready_at = None;
        loop {
            if ready_at.is_some() {
                for ask in self.clients.asks(aimed) {
                    process.ask(&ask)?;
                }
            }
            let left = ready_at
                .map(|at| self.clock.now().since(at))
                .map(|it| millis(aim.at_last()).saturating_sub(it));
            if left == Some(Duration::ZERO) {
                break;
            }
            match process.hear(left.unwrap_or(SILENCE))? {
                Heard::Line(line) => {
                    let is_met = ready_at.is_some() && aim.is_met(&line);
                    if is_met {
                        // At once: the commit is under way right now.
                        process.kill()?;
                    }
                    if matches!(line, Line::Ready { .. }) {
                        ready_at = Some(self.clock.now());
                    }
                    self.take(&line, &mut way);
                    if is_met {
                        break;
                    }
                }
                Heard::Nothing if left.is_none() => return Err(Error::Silent { seconds: SILENCE.as_secs() }),
                Heard::Nothing => break,
                Heard::Closed => return Err(ended(&mut process)),
            }
        }
        process.kill()?;
        // What it had said before it died was said.
        while let Heard::Line(line) = process.hear(SILENCE)? {
            self.take(&line, &mut way);
        }
        process.wait()?;
        way.count(aimed, &mut self.kills);
        self.read_effects()?;
        self.clients.died();
        Ok(())
    }

    fn take(&mut self, line: &Line, way: &mut UnderWay) {
        way.note(line);
        self.clients.hear(line);
    }

    /// The last process: nobody kills it, and it answers what is open.
    fn last_life(&mut self, command: Command) -> Result<()> {
        self.clients.end();
        let mut process = Process::start(command)?;
        let mut way = UnderWay::default();
        let mut is_ready = false;
        while !is_ready || !self.clients.is_quiet() {
            if is_ready {
                for ask in self.clients.asks(None) {
                    process.ask(&ask)?;
                }
            }
            match process.hear(SILENCE)? {
                Heard::Line(line) => {
                    is_ready |= matches!(line, Line::Ready { .. });
                    self.take(&line, &mut way);
                }
                Heard::Nothing => break,
                Heard::Closed => return Err(ended(&mut process)),
            }
        }
        process.hang_up();
        while let Heard::Line(line) = process.hear(SILENCE)? {
            self.take(&line, &mut way);
        }
        let status = process.wait()?;
        if !status.success() {
            return Err(Error::Ended { status: status.to_string() });
        }
        self.read_effects()
    }

    /// Reads what was added to the log of effects.
    fn read_effects(&mut self) -> Result<()> {
        let text = match std::fs::read_to_string(&self.plan.effects) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            Err(source) => return Err(Error::Effects { source }),
        };
        for line in text.split_inclusive('\n').filter(|it| it.ends_with('\n')).skip(self.read) {
            let happened: Happened = serde_json::from_str(line)
                .map_err(|source| Error::Line { line: line.trim_end().to_owned(), source })?;
            self.clients.happened(&happened.text, &happened.key);
            let session = self.clients.session_of(&happened.text).map(str::to_owned);
            self.effects.push((session, happened));
            self.read += 1;
        }
        Ok(())
    }

    async fn verdict(self, opened: Opened) -> Result<Verdict> {
        let Opened { journal, upkeep } = opened;
        let agent = load_agent(self.plan.effects.clone(), Arc::new(NoPause))?;
        let chat = Chat::builder().agent(agent).open_shared(journal.clone(), upkeep.clone())?;
        let mut stored = Vec::new();
        for session in self.clients.sessions() {
            let id = SessionId::parse(session).expect("the load's own names are names");
            let key = SessionKey::new(TenantId::single(), id);
            stored.push(StoredSession::read(&chat, journal.as_ref(), &key).await?);
        }
        let records = self.clients.records();
        let mut report = audit(&records, &stored);
        report.violations.extend(check_effects(&self.effects, &records, &stored));
        let examination = Doctor::new(journal, upkeep).examine().await?;
        Ok(Verdict { seed: self.plan.seed, kills: self.kills, report, examination })
    }
}

fn millis(millis: i64) -> Duration {
    Duration::from_millis(u64::try_from(millis).unwrap_or(0))
}

fn ended(process: &mut Process) -> Error {
    match process.wait() {
        Ok(status) => Error::Ended { status: status.to_string() },
        Err(error) => error,
    }
}
