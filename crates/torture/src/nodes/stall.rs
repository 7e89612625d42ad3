//! Commits that come late: the writes of all wait for longer than a lease while a node goes away, or those of one node do.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::time::Duration;

use super::NodesRun;
use crate::error::{Error, Result};

/// The line by which the program that makes writes wait says that they do.
pub const STALLED: &str = "stalled";

/// How long the clients ask until the node goes away, so that commits are on their way.
const ON_THEIR_WAY: Duration = Duration::from_millis(200);

impl NodesRun<'_> {
    /// Makes all writes wait, and takes a node away meanwhile: it is killed, stands still, or loses its connections. Its
    /// commits come when the others are about to take over its sessions.
    pub(super) fn stall_database(&mut self) -> Result<()> {
        let node = self.await_ready_node()?;
        let time = self.plan.lease + self.plan.lease / 5 + self.draw_millis(self.plan.lease / 5);
        let mut stall = self.start_stall(time)?;
        self.takeovers.forget();
        self.faults.stalls += 1;
        self.serve_for(ON_THEIR_WAY, None)?;
        match self.draw_below(3) {
            0 => self.kill_now(node, None)?,
            1 => self.pause_now(node)?,
            _ => self.fleet.node(node).proxy.cut_all(),
        }
        self.takeovers.forget();
        // Until it is over, and what has waited is done.
        self.serve_for(time + self.plan.lease / 5, None)?;
        stall.wait().map(drop).map_err(|source| Error::Child { doing: "wait for the end of", source })
    }

    /// Holds back what a node sends to the database for longer than its lease; the node may be killed meanwhile. Its commits
    /// come when others have its sessions.
    pub(super) fn delay_messages(&mut self) -> Result<()> {
        let node = self.await_ready_node()?;
        let time = self.plan.lease + self.plan.lease / 10 + self.draw_millis(self.plan.lease);
        self.takeovers.forget();
        self.faults.delays += 1;
        self.fleet.node(node).proxy.hold_messages(true);
        self.serve_for(ON_THEIR_WAY, None)?;
        if self.draw_below(3) == 0 {
            self.kill_now(node, None)?;
            self.takeovers.forget();
        }
        self.serve_for(time, None)?;
        self.fleet.node(node).proxy.hold_messages(false);
        self.serve_for(self.plan.lease / 5, None)
    }

    fn start_stall(&self, time: Duration) -> Result<Child> {
        let failed = |source| Error::Child { doing: "make the writes wait of", source };
        let mut stall = (self.programs.stall)(time).stdout(Stdio::piped()).spawn().map_err(failed)?;
        let mut said = String::new();
        if let Some(out) = stall.stdout.take() {
            BufReader::new(out).read_line(&mut said).map_err(failed)?;
        }
        match said.trim_end() == STALLED {
            true => Ok(stall),
            false => Err(Error::Stall { status: stall.wait().map_err(failed)?.to_string() }),
        }
    }
}
