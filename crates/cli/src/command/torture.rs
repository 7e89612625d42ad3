//! `singletree torture`: kills a chat of its own again and again, and checks the remaining data.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use singletree::SqliteStore;
use singletree::engine::{IdGenerator, RandomIds, SystemClock};
use singletree::harness;
use singletree_torture::{
    KillStatistics, LoadComposition, ReopenedStore, StopCondition, TorturePlan, TortureVerdict, torture_child,
};

use crate::args::Torture;
use crate::error::{Error, Result};
use crate::exit::{COMPLETED, ERRORED};
use crate::json;
use crate::print::{TerminalOutput, TextStyle};

/// How many clients ask at once, and in how many sessions: more than one in each, so that they meet.
const CLIENTS: usize = 12;
const SESSIONS: usize = 8;

/// How often it says how far it is, in kills.
const EVERY: u64 = 50;

/// Runs the command.
pub(crate) async fn run_torture_command(args: Torture) -> Result<u8> {
    let (folder, temporary) = create_work_folder(args.folder.as_deref())?;
    let verdict = run_torture_plan(&args, &folder).await?;
    let clean = verdict.is_clean();
    let mut screen = TerminalOutput::standard_output();
    match args.json {
        true => json::print_json(&mut screen, &PrintedTortureVerdict::from_verdict(&verdict, &folder))?,
        false => screen.write_line(&verdict.to_string())?,
    }
    if clean && temporary {
        // If the removal fails, the rest stays in the system's folder for temporary files.
        fs::remove_dir_all(&folder).unwrap_or_default();
    } else if !args.json {
        screen.write_styled_line(TextStyle::Dim, &format!("kept in {}", folder.display()))?;
    }
    Ok(if clean { COMPLETED } else { ERRORED })
}

async fn run_torture_plan(args: &Torture, folder: &Path) -> Result<TortureVerdict> {
    let (db, effects) = (folder.join("torture.db"), folder.join("effects.jsonl"));
    let minutes = Duration::from_secs(args.minutes.saturating_mul(60));
    let plan = TorturePlan {
        seed: args.seed.unwrap_or_else(draw_seed),
        until: args.kills.map_or(StopCondition::Time(minutes), StopCondition::Kills),
        clients: CLIENTS,
        sessions: SESSIONS,
        effects: effects.clone(),
    };
    let program = std::env::current_exe().map_err(|source| Error::Place {
        doing: "find",
        path: "the program itself".into(),
        source,
    })?;
    let start = || {
        let mut command = Command::new(&program);
        command.arg("torture-child").arg("--db").arg(&db).arg("--effects").arg(&effects);
        command
    };
    let mut screen = TerminalOutput::standard_error();
    let mut tell = |kills: &KillStatistics| {
        if kills.total.is_multiple_of(EVERY) {
            // Only how far it is: when nobody reads it, it goes on.
            screen.write_styled_line(TextStyle::Dim, &format!("{} kills", kills.total)).unwrap_or_default();
        }
    };
    let open = async || {
        let store = SqliteStore::open_read_only(&db).await.map_err(harness::Error::from)?;
        let store = Arc::new(store);
        Ok(ReopenedStore { journal: store.clone(), upkeep: store })
    };
    Ok(torture_child(&plan, start, &SystemClock, &mut tell, open).await?)
}

/// Makes the folder to work in; says whether it is a temporary one.
fn create_work_folder(named: Option<&Path>) -> Result<(PathBuf, bool)> {
    let (path, temporary) = match named {
        Some(path) => (path.to_owned(), false),
        None => {
            (std::env::temp_dir().join(format!("singletree-torture-{}", RandomIds.generate_uuid())), true)
        }
    };
    match fs::create_dir(&path) {
        Ok(()) => Ok((path, temporary)),
        Err(source) => Err(Error::Place { doing: "make the folder", path, source }),
    }
}

/// Draws a seed, so that no two runs are the same unless somebody wants it.
fn draw_seed() -> u64 {
    let uuid = RandomIds.generate_uuid();
    let first: String = uuid.chars().filter(char::is_ascii_hexdigit).take(12).collect();
    u64::from_str_radix(&first, 16).unwrap_or(0)
}

/// The output of `--json`.
#[derive(Serialize)]
struct PrintedTortureVerdict<'a> {
    seed: u64,
    passed: bool,
    kills: &'a KillStatistics,
    lost: usize,
    doubled: usize,
    orphaned: usize,
    contradicted: usize,
    stuck: usize,
    calls: u64,
    turns: u64,
    effects: u64,
    /// How many of a hundred outcomes say that the session waits.
    suspended_percent: u64,
    load: &'a LoadComposition,
    violations: Vec<String>,
    folder: String,
}

impl<'a> PrintedTortureVerdict<'a> {
    fn from_verdict(verdict: &'a TortureVerdict, folder: &Path) -> Self {
        let [lost, doubled, orphaned, contradicted, stuck] =
            verdict.count_broken_promises().map(|(_, count)| count);
        let findings = verdict.examination.findings.iter();
        let findings =
            findings.map(|it| format!("{} in {}: {}", it.symptom.code(), it.session.session, it.what));
        Self {
            seed: verdict.seed,
            passed: verdict.is_clean(),
            kills: &verdict.kills,
            lost,
            doubled,
            orphaned,
            contradicted,
            stuck,
            calls: verdict.report.calls,
            turns: verdict.report.stored,
            effects: verdict.report.effects,
            suspended_percent: verdict.mix.suspended_share(),
            load: &verdict.mix,
            violations: verdict.report.violations.iter().map(ToString::to_string).chain(findings).collect(),
            folder: folder.display().to_string(),
        }
    }
}
