//! `singletree doctor`: checks the invariants of the database, and repairs damage where that is possible.

use std::sync::Arc;

use serde::Serialize;
use singletree::harness::{DoctorFinding, Examination, StoreDoctor};
use singletree::{Damage, SqliteStore};

use crate::args::Doctor;
use crate::error::{Error, Result};
use crate::exit::{COMPLETED, ERRORED, UNREADABLE};
use crate::json;
use crate::place::DatabaseLocation;
use crate::print::{TerminalOutput, TextStyle};

/// Runs the command; without `--repair` beside a writer or alone.
pub(crate) async fn run(args: Doctor) -> Result<u8> {
    let as_json = args.common.json;
    match examine(args).await {
        Ok(code) => Ok(code),
        Err(error @ Error::Output(_)) => Err(error),
        Err(error) => {
            crate::report(&error, as_json);
            Ok(UNREADABLE)
        }
    }
}

async fn examine(args: Doctor) -> Result<u8> {
    let place = DatabaseLocation::of(args.common.db.db.as_deref())?;
    let open = |source| Error::Open { source };
    // Also before a repair: the doctor creates no database where none exists.
    let store = SqliteStore::read_only(place.db()).await.map_err(open)?;
    let damage = store.check().await.map_err(open)?;
    let unchecked = store.unchecked_rows().await.map_err(open)?;
    // A changed value does not stop the repair of everything else: a repair writes whole values only.
    let is_readable = damage.iter().all(|it| matches!(it, Damage::Changed(_)));
    let damage: Vec<String> = damage.iter().map(ToString::to_string).collect();
    let mut mended = Vec::new();
    // A file that is damaged itself is not written to.
    let examination = if args.repair && is_readable {
        store.close().await;
        let options = SqliteStore::options(place.db()).command("singletree doctor --repair");
        let store = options.open().await.map_err(open)?;
        let repaired = physician(&store).repair().await;
        store.close().await;
        let repaired = repaired?;
        mended = repaired.mended;
        repaired.left
    } else {
        physician(&store).examine().await?
    };
    let told = DoctorReport { damage: &damage, unchecked, mended: &mended, examination: &examination };
    let mut screen = TerminalOutput::out();
    match args.common.json {
        true => json::print(&mut screen, &told.document())?,
        false => told.show(&mut screen)?,
    }
    Ok(if damage.is_empty() && examination.is_sound() { COMPLETED } else { ERRORED })
}

fn physician(store: &SqliteStore) -> StoreDoctor {
    let store = Arc::new(store.clone());
    StoreDoctor::new(store.clone(), store)
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
    fn of(finding: &'a DoctorFinding) -> Self {
        Self {
            tenant: finding.session.tenant.as_str(),
            session: finding.session.session.as_str(),
            code: finding.symptom.code(),
            invariant: format!("INV-{}", finding.symptom.invariant()),
            what: &finding.what,
            why: finding.symptom.why(),
            repair: finding.repair(),
        }
    }
}

impl<'a> DoctorReport<'a> {
    fn document(&self) -> PrintedDoctorReport<'a> {
        PrintedDoctorReport {
            sessions: self.examination.sessions,
            file: self.damage,
            unchecked: self.unchecked,
            findings: self.examination.findings.iter().map(PrintedFinding::of).collect(),
            mended: self.mended.iter().map(PrintedFinding::of).collect(),
            busy: self.examination.busy.iter().map(|it| it.session.as_str()).collect(),
        }
    }

    fn show(&self, screen: &mut TerminalOutput) -> Result<()> {
        for damage in self.damage {
            screen.styled(TextStyle::Wrong, &format!("the file: {damage}"))?;
        }
        if !self.damage.is_empty() {
            screen.styled(TextStyle::Dim, "  nothing here can mend that: go back to a backup")?;
        }
        for finding in self.mended {
            head(screen, TextStyle::Plain, finding)?;
            screen.styled(TextStyle::Dim, &format!("  mended: {}", finding.repair().unwrap_or_default()))?;
        }
        for finding in &self.examination.findings {
            head(screen, TextStyle::Wrong, finding)?;
            screen.styled(TextStyle::Dim, &format!("  why it matters: {}", finding.symptom.why()))?;
            let repair = finding.repair().map_or_else(
                || {
                    "  --repair: nothing, without losing something; go back to a backup if it matters"
                        .to_owned()
                },
                |repair| format!("  --repair: {repair}"),
            );
            screen.styled(TextStyle::Dim, &repair)?;
        }
        for key in &self.examination.busy {
            screen.line(&format!("session {}: changed whenever it was read; look again", key.session))?;
        }
        if let Some(rows) = self.unchecked.filter(|rows| *rows > 0) {
            screen.line(&format!("{rows} rows of an older version have no checksum"))?;
        }
        let (sessions, findings) = (self.examination.sessions, self.examination.findings.len());
        screen.line(&format!("{sessions} sessions, {} mended, {findings} findings", self.mended.len()))?;
        Ok(())
    }
}

fn head(screen: &mut TerminalOutput, style: TextStyle, finding: &DoctorFinding) -> Result<()> {
    let (session, code) = (&finding.session.session, finding.symptom.code());
    let invariant = finding.symptom.invariant();
    Ok(screen.styled(style, &format!("session {session}: {code} (INV-{invariant}): {}", finding.what))?)
}
