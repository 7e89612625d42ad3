//! The doctor: checks whether stored data keeps the invariants, and repairs damage that can be repaired without losing
//! anything.
//!
//! It reads through the journal alone, so that it works with every store. Checks of the store's own file (pages,
//! checksums, foreign keys) belong to the store.
//!
//! # Inside
//! `chart` reads one whole session. Each of `turns`, `waits`, `mail`, `lists`, `history` and `log` checks the session
//! for one kind of damage and reports it as a `finding`. `repair` turns a finding into one batch.

mod chart;
mod finding;
mod history;
mod lists;
mod log;
mod mail;
mod repair;
mod turns;
mod waits;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use singletree_durable::{Journal, JournalMaintenance, SessionKey, TenantId};
use singletree_engine::{Clock, SystemClock};
use singletree_session::BatchBuilder;

use crate::runtime::deed::{AuditRecord, AuditSettings};
use crate::runtime::noticing::{NoticePublisher, NoticeSettings};
use crate::runtime::unsent_turns::UnsentTurns;
use crate::{Error, Result};
use chart::SessionRowSet;
use finding::RepairAction;
pub use finding::{DoctorFinding, FindingKind};
use repair::SessionRepair;

/// How much is read at once.
const PAGE: u64 = 512;

/// How often a session is read again that changes while it is read.
const ATTEMPTS: u32 = 16;

/// How many repairs one session may take; a database that needs more is not mended by repairs.
const REPAIRS_MAX: usize = 4096;

/// Checks stored sessions against INV-2, INV-4, INV-6 and INV-8.
///
/// It sees the sessions of all tenants, unless it was bound to one. While another process writes, each session is seen
/// as it was at one moment, or is reported as busy.
///
/// # Example
/// ```
/// # use std::sync::Arc;
/// # use singletree_durable::MemoryStore;
/// # use singletree_harness::StoreDoctor;
/// # let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
/// # runtime.block_on(async {
/// let store = Arc::new(MemoryStore::new());
/// let examined = StoreDoctor::new(store.clone(), store).examine().await.unwrap();
/// assert!(examined.is_sound());
/// # });
/// ```
#[derive(Debug, Clone)]
pub struct StoreDoctor {
    journal: Arc<dyn Journal>,
    upkeep: Arc<dyn JournalMaintenance>,
    tenant: Option<TenantId>,
    clock: Arc<dyn Clock>,
    publisher: Arc<NoticePublisher>,
    auditing: AuditSettings,
    unsent_turns: UnsentTurns,
}

/// The result of an examination.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Examination {
    /// How many sessions were looked at.
    pub sessions: u64,
    /// The damage found, ordered by session.
    pub findings: Vec<DoctorFinding>,
    /// Sessions that changed whenever they were read: look again when less happens in them.
    pub busy: Vec<SessionKey>,
}

impl Examination {
    /// Tells whether everything was seen and nothing is wrong.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.findings.is_empty() && self.busy.is_empty()
    }
}

/// The result of a repair, and the findings that remain.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RepairReport {
    /// The findings that were mended, in the order in which they were.
    pub mended: Vec<DoctorFinding>,
    /// The result of an examination after the repair.
    pub left: Examination,
}

impl StoreDoctor {
    /// Makes a doctor over a store.
    #[must_use]
    pub fn new(journal: Arc<dyn Journal>, upkeep: Arc<dyn JournalMaintenance>) -> Self {
        Self {
            journal,
            upkeep,
            tenant: None,
            clock: Arc::new(SystemClock),
            publisher: Arc::new(NoticePublisher::new(NoticeSettings::new())),
            auditing: AuditSettings::default(),
            unsent_turns: UnsentTurns::new(None),
        }
    }

    /// Looks only at this tenant's sessions (INV-14).
    #[must_use]
    pub fn tenant(mut self, tenant: TenantId) -> Self {
        self.tenant = Some(tenant);
        self
    }

    /// Sets where the time of repairs comes from (INV-11).
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Has notices of these types written with the repairs that end turns or waits, in the same commit, as a chat with
    /// these settings writes them ([`ChatBuilder::notices`](crate::ChatBuilder::notices)). Without it, none.
    #[must_use]
    pub fn notices(mut self, wanted: NoticeSettings) -> Self {
        self.publisher = Arc::new(NoticePublisher::new(wanted));
        self
    }

    /// Has each repair recorded in the audit, in the same commit: `session.repaired`, with the code of the finding. A
    /// record is kept for the given time. Without it, none.
    #[must_use]
    pub fn audit(mut self, kept: Duration) -> Self {
        self.auditing = AuditSettings::with_retention_time(kept);
        self
    }

    /// Has the turns that a repair ends noted as turns whose traces are to be exported, in the same commit, as a chat does
    /// ([`ChatBuilder::note_unsent_turns`](crate::ChatBuilder::note_unsent_turns)). Without it, none.
    #[must_use]
    pub fn note_unsent_turns(mut self, kept: Duration) -> Self {
        self.unsent_turns = UnsentTurns::new(Some(kept));
        self
    }

    /// Looks at all sessions. Writes nothing.
    ///
    /// # Errors
    /// `store_unavailable` and its kin: then nothing is known about the damage.
    ///
    /// # Cancellation
    /// Nothing is left behind.
    pub async fn examine(&self) -> Result<Examination> {
        let mut examination = Examination::default();
        if let Some(tenant) = &self.tenant {
            self.examine_tenant(tenant, &mut examination).await?;
            return Ok(examination);
        }
        let mut past = None;
        loop {
            let tenants = self.upkeep.read_tenants(past.as_ref(), PAGE).await?;
            for tenant in &tenants {
                self.examine_tenant(tenant, &mut examination).await?;
            }
            past = tenants.into_iter().next_back();
            if past.is_none() {
                return Ok(examination);
            }
        }
    }

    async fn examine_tenant(&self, tenant: &TenantId, examination: &mut Examination) -> Result<()> {
        let mut from = None;
        loop {
            let page = self.journal.read_session_page(tenant, from.as_ref(), PAGE).await?;
            for row in page.sessions {
                self.examine_session(&row.key, examination).await?;
            }
            from = page.next;
            if from.is_none() {
                return Ok(());
            }
        }
    }

    async fn examine_session(&self, key: &SessionKey, examination: &mut Examination) -> Result<()> {
        match self.read_session(key).await? {
            SessionReadResult::Whole(chart) => {
                examination.sessions += 1;
                examination.findings.extend(diagnose_session(&chart));
            }
            SessionReadResult::Busy => examination.busy.push(key.clone()),
            SessionReadResult::Gone => {}
        }
        Ok(())
    }

    /// Repairs all damage that can be repaired. Each repair is one batch, which is refused when the session changed
    /// since it was examined. No message, result or outcome is removed. Needs a store that is open for writing and that
    /// no other process serves.
    ///
    /// # Errors
    /// `store_refused` when another process writes; `store_unavailable` and its kin. Earlier repairs stay.
    ///
    /// # Cancellation
    /// Each repair has happened or has not.
    pub async fn repair(&self) -> Result<RepairReport> {
        let before = self.examine().await?;
        let mut mended = Vec::new();
        let keys: BTreeSet<SessionKey> = before.findings.into_iter().map(|finding| finding.session).collect();
        for key in keys {
            for _ in 0..REPAIRS_MAX {
                let SessionReadResult::Whole(chart) = self.read_session(&key).await? else { break };
                let next = diagnose_session(&chart).into_iter().find_map(|it| Some((it.mend.clone()?, it)));
                let Some((mend, finding)) = next else { break };
                self.apply_repair(&chart, &mend, (finding.symptom, mended.len())).await?;
                mended.push(finding);
            }
        }
        Ok(RepairReport { mended, left: self.examine().await? })
    }

    /// Carries out one repair.
    async fn apply_repair(
        &self,
        chart: &SessionRowSet,
        mend: &RepairAction,
        found: (FindingKind, usize),
    ) -> Result<()> {
        let key = &chart.row.key;
        let acquired = self.journal.acquire(key).await?;
        let repair = SessionRepair { journal: self.journal.as_ref(), chart, mend };
        let repaired = match repair.write_batch((self.clock.now(), acquired.fence)).await {
            Ok(writing) => self.commit_repair(writing, found).await,
            Err(error) => Err(error),
        };
        // The repair has landed or has failed, whatever comes of this.
        drop(self.journal.release(vec![key.clone()]).await);
        repaired
    }

    /// Commits a repair with its notices, its note of a trace and its record in the audit. `earlier` counts the repairs before this one.
    async fn commit_repair(
        &self,
        writing: BatchBuilder,
        (found, earlier): (FindingKind, usize),
    ) -> Result<()> {
        let mut writing = writing.finish_batch();
        let key = writing.batch.key.clone();
        let notices = self.publisher.notices_of_batch(&writing);
        writing.batch.puts.extend(NoticePublisher::documents_for_notices(&notices));
        let unsent = self.unsent_turns.documents_for_batch(&writing);
        writing.batch.puts.extend(unsent);
        let record = AuditRecord::new(writing.now, None, "session.repaired", key.session.as_str())
            .with_detail("finding", found.code());
        let number = format!("repair {earlier}");
        writing.batch.puts.extend(self.auditing.document_for_record(&key, &record, &number));
        Ok(self.journal.apply(writing.batch).await?)
    }

    /// Reads a session as it is at one moment.
    async fn read_session(&self, key: &SessionKey) -> Result<SessionReadResult> {
        for _ in 0..ATTEMPTS {
            let Some(row) = self.journal.read_session(key).await? else { return Ok(SessionReadResult::Gone) };
            let chart = SessionRowSet::read_session(self.journal.as_ref(), row).await;
            // Whatever a turn commits that one row says of another takes a number or raises the version.
            if self.journal.read_session(key).await?.as_ref()
                != Some(chart.as_ref().map_or_else(|(row, _)| row, |chart| &chart.row))
            {
                continue;
            }
            return chart.map(|chart| SessionReadResult::Whole(Box::new(chart))).map_err(|(_, error)| error);
        }
        Ok(SessionReadResult::Busy)
    }
}

/// The result of reading a session.
enum SessionReadResult {
    Whole(Box<SessionRowSet>),
    /// It was deleted meanwhile.
    Gone,
    Busy,
}

/// Checks a session. Findings are repaired in this order: ending a turn may resolve later findings.
fn diagnose_session(chart: &SessionRowSet) -> Vec<DoctorFinding> {
    let mut findings = Vec::new();
    log::check_counters(chart, &mut findings);
    lists::check_lists(chart, &mut findings);
    turns::check_turns(chart, &mut findings);
    waits::check_waits(chart, &mut findings);
    mail::check_early_signals(chart, &mut findings);
    history::check_history(chart, &mut findings);
    log::check_event_log(chart, &mut findings);
    findings
}

/// Says that something stored cannot be read.
fn corrupt_store_error(what: String) -> Error {
    crate::error::store_corrupt_error(what, None)
}
