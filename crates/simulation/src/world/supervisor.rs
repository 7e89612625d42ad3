//! Starts processes, and kills them.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::FutureExt;
use singletree_audit::HistoryEvent;
use singletree_harness::StoreDoctor;

use super::SimulatedWorld;
use crate::error::Result;
use crate::fault::FaultKind;
use crate::oracle::check_session_bounds;
use crate::process::SimulatedProcess;
use crate::store::ProcessDeath;

/// Of a hundred deaths, after how many the doctor looks at the store.
const EXAMINED_PERCENT: u64 = 40;

impl SimulatedWorld {
    /// Keeps a process running at a place, kills it now and then, and leaves the last one alone when faults are over.
    pub(crate) async fn supervise_processes(self: Arc<Self>, slot: usize) {
        loop {
            let number = self.numbers.fetch_add(1, Ordering::Relaxed);
            let started = self.start_process(slot, number).await;
            let Some(process) = started else { continue };
            if !self.let_process_run(&process).await {
                return;
            }
            self.executor.sleep_for(self.draw_millis(1, 5_000)).await;
            if self.random.draw_percent(20) {
                // A deployment.
                self.release.fetch_add(1, Ordering::Relaxed);
                self.coverage.note("another release was started");
            }
        }
    }

    fn draw_millis(&self, low: u64, high: u64) -> Duration {
        Duration::from_millis(self.random.draw_between(low, high))
    }

    async fn start_process(&self, slot: usize, number: u32) -> Option<SimulatedProcess> {
        self.executor.trace_event(format_args!("process {number} starts"));
        let opened: Result<SimulatedProcess> = SimulatedProcess::open(self, (slot, number));
        let process = match opened {
            Ok(process) => process,
            Err(error) => {
                self.note_contradiction(format!("process {number} cannot be made: {error:?}"));
                self.executor.sleep_for(Duration::from_secs(3_600)).await;
                return None;
            }
        };
        process.start_heartbeat(self);
        let Some(taken) = process.take_over_turns(self).await else {
            self.coverage.note("a process could not take over turns and started again");
            self.kill_process(&process, ProcessDeath::Killed);
            self.executor.sleep_for(self.draw_millis(100, 3_000)).await;
            return None;
        };
        self.coverage.note_if(taken > 0, "turns of a dead process were taken over");
        self.executor.trace_event(format_args!("process {number} serves, {taken} turns taken over"));
        process.start_deliveries(self);
        process.start_campaigns(self);
        self.set_process(slot, Some(process.clone()));
        Some(process)
    }

    /// Returns when the process has died, or when faults are over; tells which.
    async fn let_process_run(&self, process: &SimulatedProcess) -> bool {
        loop {
            self.executor.sleep_for(self.draw_millis(1, 8_000)).await;
            if self.swarm.is_over() {
                return false;
            }
            self.swarm.change_rates();
            if self.swarm.is_due(FaultKind::ClockCorrected) {
                let millis = i64::try_from(self.random.draw_between(1, 120_000)).unwrap_or(0);
                let is_back = self.random.draw_percent(50);
                self.clocks[process.slot].correct_by(if is_back { -millis } else { millis });
            }
            if self.swarm.is_due(FaultKind::StoreClockAhead) {
                self.store.move_clock_ahead(self.draw_millis(1, 7_200_000));
            }
            let most = u64::try_from(self.nodes.lease.as_millis()).unwrap_or(0) * 3;
            if self.swarm.is_due(FaultKind::Partition) {
                self.store.cut_off(process.slot, self.draw_millis(1, most));
            }
            if self.swarm.is_due(FaultKind::ProcessFrozen) {
                self.executor.freeze_group(process.group);
                self.executor.sleep_for(self.draw_millis(1, most)).await;
                self.executor.thaw_group(process.group);
            }
            if self.swarm.is_due(FaultKind::ProcessStopped) {
                // Calls that arrive while it stops are refused.
                let began = self.executor.now();
                process.shut_down(self, self.draw_millis(1, 3_000)).await;
                self.coverage.note("a process was stopped in an orderly way");
                // A store that fails, or a pause, may keep it from noting in time which turns it leaves.
                let is_calm = self.swarm.is_store_calm() && !self.swarm.has_paused_since(began);
                let death = if is_calm { ProcessDeath::Stopped } else { ProcessDeath::Killed };
                self.bury_process(process, death).await;
                return true;
            }
            if self.swarm.is_due(FaultKind::ProcessKilled) {
                // The power of a machine is cut, and that of a store that several share is another one's.
                let is_cut = self.swarm.is_due(FaultKind::PowerCut) && self.nodes.count == 1;
                let death = if is_cut { ProcessDeath::PowerCut } else { ProcessDeath::Killed };
                self.bury_process(process, death).await;
                return true;
            }
        }
    }

    async fn bury_process(&self, process: &SimulatedProcess, death: ProcessDeath) {
        self.kill_process(process, death);
        if self.random.draw_percent(EXAMINED_PERCENT) {
            self.examine_store().await;
        }
    }

    fn kill_process(&self, process: &SimulatedProcess, death: ProcessDeath) {
        self.executor.trace_event(format_args!("{:?} dies: {death:?}", process.group));
        self.set_process(process.slot, None);
        self.executor.kill_group(process.group);
        self.history.record_event("", HistoryEvent::Died);
        self.store.handle_process_death(process.slot, death);
        self.deaths.fetch_add(1, Ordering::Relaxed);
        self.kills.fetch_add(u64::from(death != ProcessDeath::Stopped), Ordering::Relaxed);
    }

    /// Lets the doctor look at the store of a dead process, so that damage which a later process repairs is found, too.
    pub(crate) async fn examine_store(&self) {
        let data = Arc::new(self.store.data());
        for key in self.all_session_keys() {
            let found = check_session_bounds(&self.settings.limits, data.as_ref(), &key).now_or_never();
            found.into_iter().flatten().for_each(|why| self.note_contradiction(why));
        }
        let doctor = StoreDoctor::new(data.clone(), data).clock(self.clocks[0].clone());
        // The data itself answers at once.
        match doctor.examine().now_or_never() {
            Some(Ok(examination)) => {
                for finding in examination.findings {
                    let (session, code) = (&finding.session, finding.symptom.code());
                    let why =
                        format!("doctor: {code} in {}/{}: {}", session.tenant, session.session, finding.what);
                    self.note_contradiction(why);
                }
            }
            Some(Err(error)) => self.note_contradiction(format!("the doctor cannot read the store: {error}")),
            None => self.note_contradiction("the doctor waits for something".to_owned()),
        }
    }
}
