//! `singletree doctor`: checks the invariants of the database, and repairs damage where that is possible.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use singletree::Damage;
use singletree::harness::{DoctorFinding, Examination, NoticeSettings, StoreDoctor};
use singletree_server::ServerLimits;

use crate::args::Doctor;
use crate::conversation_store::ConversationStore;
use crate::error::{Error, Result};
use crate::exit::{COMPLETED, ERRORED, UNREADABLE};
use crate::json;
use crate::place::DatabaseLocation;
use crate::print::{TerminalOutput, TextStyle};
use crate::serving::build_notice_settings;
use crate::traces::unsent_notes_kept;
use crate::who::{FILE, load_config};

/// Runs the command; without `--repair` beside a writer or alone.
pub(crate) async fn run_doctor_command(args: Doctor) -> Result<u8> {
    let as_json = args.common.json;
    match examine_database(args).await {
        Ok(code) => Ok(code),
        Err(error @ Error::Output(_)) => Err(error),
        Err(error) => {
            crate::print_error(&error, as_json);
            Ok(UNREADABLE)
        }
    }
}

async fn examine_database(args: Doctor) -> Result<u8> {
    let place = DatabaseLocation::from_options(&args.common.db)?;
    // Also before a repair: the doctor creates no database where none exists.
    let store = ConversationStore::open_read_only(&place).await?;
    let damage = store.find_damage().await?;
    let unchecked = store.count_unchecked_rows().await?;
    // A changed value does not stop the repair of everything else: a repair writes whole values only.
    let is_readable = damage.iter().all(|it| matches!(it, Damage::Changed(_)));
    let damage: Vec<String> = damage.iter().map(ToString::to_string).collect();
    let mut mended = Vec::new();
    // A file that is damaged itself is not written to.
    let examination = if args.repair && is_readable {
        let records = RepairRecords::from_config(args.config.as_deref()).await?;
        store.close().await;
        let store = ConversationStore::open_writable(&place, "doctor --repair").await?;
        let doctor = build_store_doctor(&store).notices(records.notices).audit(records.audit_kept);
        let doctor = records.notes_kept.into_iter().fold(doctor, StoreDoctor::note_unsent_turns);
        let repaired = doctor.repair().await;
        store.close().await;
        let repaired = repaired?;
        mended = repaired.mended;
        repaired.left
    } else {
        build_store_doctor(&store).examine().await?
    };
    let told = DoctorReport { damage: &damage, unchecked, mended: &mended, examination: &examination };
    let mut screen = TerminalOutput::standard_output();
    match args.common.json {
        true => json::print_json(&mut screen, &told.to_printed_report())?,
        false => told.show_report(&mut screen)?,
    }
    Ok(if damage.is_empty() && examination.is_sound() { COMPLETED } else { ERRORED })
}

/// Returns how many things the doctor finds about a database and its file. Sessions that are changed whenever they are read
/// count, too: they were not examined.
pub(crate) async fn count_store_findings(store: &ConversationStore) -> Result<usize> {
    let damage = store.find_damage().await?.len();
    let examination = build_store_doctor(store).examine().await?;
    Ok(damage + examination.findings.len() + examination.busy.len())
}

fn build_store_doctor(store: &ConversationStore) -> StoreDoctor {
    let store = Arc::new(store.clone());
    StoreDoctor::new(store.clone(), store)
}

/// What is written beside a repair.
struct RepairRecords {
    notices: NoticeSettings,
    /// For how long its entry in the audit is kept.
    audit_kept: Duration,
    /// For how long the notes of traces are kept that are to be exported.
    notes_kept: Option<Duration>,
}

impl RepairRecords {
    /// As the agents' file says; without a file, no notices, and entries as long as a server keeps them.
    async fn from_config(config: Option<&Path>) -> Result<Self> {
        let usual = Path::new(FILE);
        let audit_kept = ServerLimits::default().audit_kept;
        let Some(config) = config.or_else(|| usual.exists().then_some(usual)) else {
            return Ok(Self { notices: NoticeSettings::new(), audit_kept, notes_kept: None });
        };
        let config = load_config(config).await?;
        let audit_kept = config.serving_settings().audit_kept.unwrap_or(audit_kept);
        let notices = build_notice_settings(config.notify_settings())?;
        let notes_kept = config.telemetry_settings().map(unsent_notes_kept);
        Ok(Self { notices, audit_kept, notes_kept })
    }
}

/// Everything that is told.
struct DoctorReport<'a> {
    /// The damage that the store reports about its file.
    damage: &'a [String],
    /// How many rows have no checksum.
    unchecked: Option<u64>,
    mended: &'a [DoctorFinding],
    examination: &'a Examination,
}

#[derive(Serialize)]
struct PrintedDoctorReport<'a> {
    sessions: u64,
    file: &'a [String],
    /// How many rows have no checksum, since an older version wrote them; null when no row of the file has one.
    unchecked: Option<u64>,
    findings: Vec<PrintedFinding<'a>>,
    mended: Vec<PrintedFinding<'a>>,
    busy: Vec<&'a str>,
}

#[derive(Serialize)]
struct PrintedFinding<'a> {
    tenant: &'a str,
    session: &'a str,
    code: &'static str,
    invariant: String,
    what: &'a str,
    why: &'static str,
    repair: Option<&'static str>,
}

impl<'a> PrintedFinding<'a> {
    fn from_finding(finding: &'a DoctorFinding) -> Self {
        Self {
            tenant: finding.session.tenant.as_str(),
            session: finding.session.session.as_str(),
            code: finding.symptom.code(),
            invariant: format!("INV-{}", finding.symptom.invariant()),
            what: &finding.what,
            why: finding.symptom.why(),
            repair: finding.describe_repair(),
        }
    }
}

impl<'a> DoctorReport<'a> {
    fn to_printed_report(&self) -> PrintedDoctorReport<'a> {
        PrintedDoctorReport {
            sessions: self.examination.sessions,
            file: self.damage,
            unchecked: self.unchecked,
            findings: self.examination.findings.iter().map(PrintedFinding::from_finding).collect(),
            mended: self.mended.iter().map(PrintedFinding::from_finding).collect(),
            busy: self.examination.busy.iter().map(|it| it.session.as_str()).collect(),
        }
    }

    fn show_report(&self, screen: &mut TerminalOutput) -> Result<()> {
        for damage in self.damage {
            screen.write_styled_line(TextStyle::Wrong, &format!("the file: {damage}"))?;
        }
        if !self.damage.is_empty() {
            screen.write_styled_line(TextStyle::Dim, "  nothing here can mend that: go back to a backup")?;
        }
        for finding in self.mended {
            show_finding_head(screen, TextStyle::Plain, finding)?;
            screen.write_styled_line(
                TextStyle::Dim,
                &format!("  mended: {}", finding.describe_repair().unwrap_or_default()),
            )?;
        }
        for finding in &self.examination.findings {
            show_finding_head(screen, TextStyle::Wrong, finding)?;
            screen
                .write_styled_line(TextStyle::Dim, &format!("  why it matters: {}", finding.symptom.why()))?;
            let repair = finding.describe_repair().map_or_else(
                || {
                    "  --repair: nothing, without losing something; go back to a backup if it matters"
                        .to_owned()
                },
                |repair| format!("  --repair: {repair}"),
            );
            screen.write_styled_line(TextStyle::Dim, &repair)?;
        }
        for key in &self.examination.busy {
            screen
                .write_line(&format!("session {}: changed whenever it was read; look again", key.session))?;
        }
        if let Some(rows) = self.unchecked.filter(|rows| *rows > 0) {
            screen.write_line(&format!("{rows} rows of an older version have no checksum"))?;
        }
        let (sessions, findings) = (self.examination.sessions, self.examination.findings.len());
        screen
            .write_line(&format!("{sessions} sessions, {} mended, {findings} findings", self.mended.len()))?;
        Ok(())
    }
}

fn show_finding_head(screen: &mut TerminalOutput, style: TextStyle, finding: &DoctorFinding) -> Result<()> {
    let (session, code) = (&finding.session.session, finding.symptom.code());
    let invariant = finding.symptom.invariant();
    Ok(screen.write_styled_line(
        style,
        &format!("session {session}: {code} (INV-{invariant}): {}", finding.what),
    )?)
}
