//! Shared code of both ways of racing: the number of rounds, the checks after each round, and the final report.

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use singletree_audit::{AuditReport, RaceStatistics, StoredSession, audit_sessions};
use singletree_store_sqlite::SqliteStore;

use crate::race::{Ground, Race, Said};
use crate::rig::key_of;

/// How long a round may take before something is stuck.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The smallest share of wins of a side, in a full run.
const SHARE: f64 = 0.05;

pub(crate) fn is_deep() -> bool {
    std::env::var_os("SINGLETREE_DEEP").is_some()
}

/// Returns how many rounds there are: the full figure under `.ci/run --deep`.
pub(crate) fn rounds() -> u64 {
    if is_deep() { 1_000 } else { 40 }
}

/// The rounds of one race, as they went.
pub(crate) struct Rounds<'a> {
    race: &'a Race,
    how: &'static str,
    seed: u64,
    pub(crate) tally: RaceStatistics,
    report: AuditReport,
}

impl<'a> Rounds<'a> {
    pub(crate) fn new(race: &'a Race, how: &'static str, seed: u64) -> Self {
        let tally = RaceStatistics::new(race.name, race.sides);
        Self { race, how, seed, tally, report: AuditReport::default() }
    }

    /// Looks at a round when nothing runs any more; returns whether the first side won.
    pub(crate) async fn judge(
        &mut self,
        ground: &Ground,
        chat: &singletree_harness::Chat,
        said: [Said; 2],
    ) -> bool {
        let at = format!("{} ({}), {}, seed {:#x}", self.race.name, self.how, ground.session, self.seed);
        assert!(chat.shutdown(PATIENCE).await, "{at}: something runs still");
        let stored = StoredSession::read_from_store(chat, ground.journal.as_ref(), &key_of(&ground.session))
            .await
            .unwrap();
        let report = audit_sessions(&ground.log.records(), std::slice::from_ref(&stored));
        assert!(report.is_clean(), "{at}: {report}\n{:?}", ground.log.records());
        let first = (self.race.judge)(ground, &said, &stored).unwrap_or_else(|why| panic!("{at}: {why}"));
        self.report.merge_report(report);
        self.tally.count_win(first);
        first
    }

    /// Says how it went, and that each side has won.
    pub(crate) fn close(self, more: &str) {
        let Self { how, seed, tally, report, .. } = self;
        let mut said = std::io::stderr();
        let line = format!("race: {tally} ({how}, SQLite file, seed {seed:#x}{more}); {report}");
        // Written directly, because the test harness captures the output of passing tests.
        writeln!(said, "{line}").unwrap();
        let least = if is_deep() { SHARE } else { 1e-9 };
        assert!(tally.smaller_share() >= least, "{tally}");
    }
}

/// Opens a file in a scratch folder, with the store's defaults.
pub(crate) async fn open_file() -> (tempfile::TempDir, Arc<SqliteStore>) {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path().join("race.db")).await.unwrap();
    (folder, Arc::new(store))
}
