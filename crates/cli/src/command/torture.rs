//! `singletree torture`: kills a chat of its own again and again, and checks the remaining data.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use singletree::durable::{Journal, TenantId};
use singletree::engine::{IdGenerator, RandomIds, SystemClock};
use singletree::env::Env;
use singletree::{PostgresOptions, SqliteStore, harness};
use singletree_torture::{
    DatabaseAddress, KillStatistics, LoadComposition, NodeFaults, NodePrograms, NodesPlan, ReopenedStore,
    StopCondition, TorturePlan, TortureVerdict, torture_child, torture_nodes,
};

use crate::args::Torture;
use crate::error::{Error, Result};
use crate::exit::{COMPLETED, ERRORED};
use crate::json;
use crate::print::{TerminalOutput, TextStyle};
use crate::store_url::StoreUrl;

/// How many clients ask at once, and in how many sessions: more than one in each, so that they meet.
const CLIENTS: usize = 12;
const SESSIONS: usize = 8;

/// The lease of several nodes: the shortest that there is.
const LEASE: Duration = Duration::from_secs(3);

/// The variable of the environment by which a node is told its database.
pub(crate) const CHILD_STORE: &str = "SINGLETREE_TORTURE_STORE";

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
    let minutes = Duration::from_secs(args.minutes.saturating_mul(60));
    let plan = TorturePlan {
        seed: args.seed.unwrap_or_else(draw_seed),
        until: args.kills.map_or(StopCondition::Time(minutes), StopCondition::Kills),
        clients: CLIENTS,
        sessions: SESSIONS,
        effects: folder.join("effects.jsonl"),
    };
    let program = std::env::current_exe().map_err(|source| Error::Place {
        doing: "find",
        path: "the program itself".into(),
        source,
    })?;
    let mut screen = TerminalOutput::standard_error();
    let mut tell = |kills: &KillStatistics| {
        if kills.total.is_multiple_of(EVERY) {
            // Only how far it is: when nobody reads it, it goes on.
            screen.write_styled_line(TextStyle::Dim, &format!("{} kills", kills.total)).unwrap_or_default();
        }
    };
    match (args.nodes, &args.store) {
        (Some(nodes), Some(store)) => {
            let nodes = usize::from(nodes);
            let load = TorturePlan { clients: CLIENTS * nodes, sessions: SESSIONS * nodes, ..plan };
            let restart = args.restart_with.clone();
            torture_several(NodesToTorture { program, nodes, store, restart, load }, &mut tell).await
        }
        _ => torture_one(&program, &plan, folder.join("torture.db"), &mut tell).await,
    }
}

/// Tortures one process over a file.
async fn torture_one(
    program: &Path,
    plan: &TorturePlan,
    db: PathBuf,
    tell: &mut dyn FnMut(&KillStatistics),
) -> Result<TortureVerdict> {
    let start = || {
        let mut command = Command::new(program);
        command.arg("torture-child").arg("--db").arg(&db).arg("--effects").arg(&plan.effects);
        command
    };
    let open = async || {
        let store = SqliteStore::open_read_only(&db).await.map_err(harness::Error::from)?;
        let store = Arc::new(store);
        Ok(ReopenedStore { journal: store.clone(), upkeep: store })
    };
    Ok(torture_child(plan, start, &SystemClock, tell, open).await?)
}

/// Several nodes, and their database.
struct NodesToTorture<'a> {
    program: PathBuf,
    nodes: usize,
    store: &'a StoreUrl,
    restart: Option<String>,
    load: TorturePlan,
}

/// Tortures several processes over one PostgreSQL database.
async fn torture_several(
    NodesToTorture { program, nodes, store, restart, load }: NodesToTorture<'_>,
    tell: &mut dyn FnMut(&KillStatistics),
) -> Result<TortureVerdict> {
    let unfit = || Error::Usage(format!("{} does not name one host", store.shown()));
    let database = match store.single_place().ok_or_else(unfit)? {
        (folder, port) if folder.starts_with('/') => {
            DatabaseAddress::Unix(Path::new(&folder).join(format!(".s.PGSQL.{port}")))
        }
        (host, port) => DatabaseAddress::Tcp(host, port),
    };
    refuse_sessions(store).await?;
    let plan = NodesPlan { load, nodes, lease: LEASE, database, restart };
    let start = |node: usize, port: u16| {
        let mut command = Command::new(&program);
        command.arg("torture-child").arg("--effects").arg(&plan.load.effects);
        command.arg("--node").arg(format!("node {node}")).arg("--lease").arg(LEASE.as_millis().to_string());
        // In the environment, so that no list of processes shows a password.
        command.env(CHILD_STORE, store.at_local_port(port).unwrap_or_default());
        command
    };
    let stall = |time: Duration| {
        let mut command = Command::new(&program);
        command.arg("torture-stall").arg(time.as_millis().to_string()).env(CHILD_STORE, store.expose());
        command
    };
    let programs = NodePrograms { start: &start, stall: &stall };
    let open = async || {
        let options = PostgresOptions::new(store.expose(), Env::from_system());
        let store = Arc::new(options.open_read_only().await.map_err(harness::Error::from)?);
        Ok(ReopenedStore { journal: store.clone(), upkeep: store })
    };
    Ok(torture_nodes(&plan, programs, &SystemClock, tell, open).await?)
}

/// Makes the schema, and refuses a database that has sessions: the load could not be told from them.
async fn refuse_sessions(store: &StoreUrl) -> Result<()> {
    let options = PostgresOptions::new(store.expose(), Env::from_system()).node("singletree torture");
    let opened = options.open().await.map_err(|source| Error::Open { source })?;
    let page = opened.read_session_page(&TenantId::single(), None, 1).await;
    opened.close().await;
    match page.map_err(|source| Error::Open { source })?.sessions.is_empty() {
        true => Ok(()),
        false => Err(Error::Usage(format!("the database {} has sessions", store.shown()))),
    }
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
    /// The faults beside kills, where there were several nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    nodes: Option<NodeFaults>,
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
            nodes: verdict.nodes,
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
