//! How everything comes to its end: before the doctor looks at the store, and at the end of a run.

use singletree_audit::{AuditRule, RuleViolation};

use super::NodesRun;
use super::fleet::Heard;
use crate::error::Result;
use crate::load::{SILENCE, STUCK, TICK, TortureRun};
use crate::wire::ChildReport;

impl<'a> NodesRun<'a> {
    /// Waits until every call is answered, with all nodes there. A call without an answer when nothing happens any more is
    /// stuck.
    pub(super) fn settle(&mut self) -> Result<()> {
        self.run.clients.mix.settled += 1;
        for node in &mut self.fleet.nodes {
            node.proxy.set_next_cut(None);
            node.paused_until = node.paused_until.map(|_| i64::MIN);
        }
        let mut since = self.run.now_millis();
        let patience = i64::try_from((STUCK + self.plan.lease).as_millis()).unwrap_or(i64::MAX);
        loop {
            self.ask_requests(None, true)?;
            let unanswered = self.run.clients.unanswered_calls();
            let is_ready = self.fleet.nodes.iter().all(|node| node.is_ready);
            if unanswered.is_empty() && is_ready {
                return Ok(());
            }
            let moved = self.faults.moved;
            if let Heard::Line(_, line) = self.receive(TICK)?
                && !matches!(line, ChildReport::Alive { .. })
                && moved == self.faults.moved
            {
                since = self.run.now_millis();
            }
            if self.run.now_millis() - since < patience {
                continue;
            }
            if !is_ready {
                return Err(self.fleet.silent_error(0, STUCK));
            }
            for (session, call) in unanswered {
                let why = format!("{call} had no answer, {STUCK:?} after anything happened");
                self.run.found.push(RuleViolation { rule: AuditRule::Stuck, session, why });
            }
            return Ok(());
        }
    }

    /// Lets everything end, and the nodes with it.
    pub(super) fn finish(mut self) -> Result<TortureRun<'a>> {
        self.run.clients.stop_new_calls();
        self.settle()?;
        let mut open: Vec<usize> = (0..self.plan.nodes).collect();
        for node in &mut self.fleet.nodes {
            node.may_end = true;
            node.handle.close_requests();
        }
        let mut since = self.run.now_millis();
        while let Some(first) = open.first().copied() {
            match self.receive(TICK)? {
                Heard::Ended(node) => {
                    self.fleet.finish(node)?;
                    open.retain(|it| *it != node);
                    since = self.run.now_millis();
                }
                Heard::Line(_, ChildReport::Alive { .. }) | Heard::Nothing => {}
                Heard::Line(..) => since = self.run.now_millis(),
            }
            if self.run.now_millis() - since > i64::try_from(SILENCE.as_millis()).unwrap_or(i64::MAX) {
                return Err(self.fleet.silent_error(first, SILENCE));
            }
        }
        self.run.read_effects()?;
        self.faults.cuts = self.cut_count();
        self.faults.takeovers = self.takeovers.count;
        self.faults.slowest_takeover_millis = self.takeovers.slowest_millis;
        self.run.faults = Some(self.faults);
        Ok(self.run)
    }
}
