//! The torture: the binary is killed in the middle of its work, and its data is compared with the answers to its
//! clients.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;

use rusqlite::Connection;
use serde_json::Value;
use singletree::SqliteStore;
use singletree::engine::SystemClock;
use singletree_torture::{
    BatchPurpose, ChildReport, ChildRequest, ReopenedStore, StopCondition, TorturePlan, torture_child,
};

use crate::home::{BINARY, Home};

/// How many kills: some in a plain run, all of them in a deep one.
fn kills() -> u64 {
    if std::env::var_os("SINGLETREE_DEEP").is_some() { 300 } else { 12 }
}

fn tortured(home: &Home, kills: u64, seed: u64) -> (i32, Value) {
    let folder = home.path().join("torture");
    let (kills, seed) = (kills.to_string(), seed.to_string());
    let args =
        ["torture", "--kills", &kills, "--seed", &seed, "--folder", folder.to_str().unwrap(), "--json"];
    let ran = home.run(&args);
    (ran.code, serde_json::from_str(&ran.out).unwrap_or_else(|it| panic!("{it}: {ran:?}")))
}

// INV-1, INV-2, INV-3, INV-6, INV-7, INV-8
#[test]
fn nothing_is_lost_doubled_or_contradicted_wherever_the_process_is_killed() {
    let (home, kills) = (Home::new(), kills());
    let (code, verdict) = tortured(&home, kills, 4_711);
    assert_eq!((code, verdict["violations"].as_array().map(Vec::len)), (0, Some(0)), "{verdict:#}");
    for count in ["lost", "doubled", "orphaned", "contradicted", "stuck"] {
        assert_eq!(verdict[count], 0, "{verdict:#}");
    }
    assert_eq!(verdict["kills"]["total"], kills);
    let running = verdict["kills"]["running"].as_u64().unwrap();
    assert!(running * 3 >= kills * 2, "two of three kills land in a running turn: {verdict:#}");
    let landed = |phase: BatchPurpose| verdict["kills"]["landed"][phase.as_str()].as_u64().unwrap_or(0);
    for phase in BatchPurpose::AIMED {
        assert!(landed(phase) >= kills / 30, "{phase:?}: {verdict:#}");
    }
    let db = home.path().join("torture").join("torture.db");
    let (code, doctor) = home.json(&["doctor", "--db", db.to_str().unwrap()]);
    assert_eq!((code, doctor["findings"].as_array().map(Vec::len)), (0, Some(0)), "{doctor:#}");
}

/// Breaks the stored data, each invariant once.
const HARM: &str = "
  UPDATE wait SET status = 'cancelled' WHERE session = (SELECT id FROM session WHERE session = 's3');
  CREATE TEMP TABLE quiet AS SELECT id FROM session WHERE id NOT IN (SELECT session FROM wait WHERE status = 'pending');
  DELETE FROM turn WHERE session = (SELECT id FROM session WHERE session = 's0') AND status = 'completed' AND no % 2;
  UPDATE turn SET outcome = json_set(outcome, '$.from', outcome ->> 'to')
    WHERE session = (SELECT id FROM session WHERE session = 's1') AND status = 'completed';
  UPDATE turn SET status = 'accepted', outcome = NULL, ended_at = NULL
    WHERE session IN quiet AND status = 'completed' AND (no % 3 = 0
    OR session = (SELECT id FROM session WHERE session = 's3'));
  UPDATE item SET body = json_set(body, '$.tool_call_id', 'nobody')
    WHERE session = (SELECT id FROM session WHERE session = 's2') AND body ->> 'role' = 'tool';
";

// INV-2, INV-3, INV-6, INV-8; D7
#[test]
fn what_is_lost_doubled_orphaned_contradicted_or_stuck_is_seen() {
    let home = Home::new();
    let (db, effects) = (home.path().join("t.db"), home.path().join("effects"));
    let plan = TorturePlan {
        seed: 5,
        until: StopCondition::Kills(4),
        clients: 8,
        sessions: 5,
        effects: effects.clone(),
    };
    let start = || {
        // Each restart tells all effects again.
        if let Ok(told) = std::fs::read_to_string(&effects) {
            std::fs::write(&effects, [told.as_str(), told.as_str()].concat()).unwrap();
        }
        let mut command = Command::new(BINARY);
        command.arg("torture-child").arg("--db").arg(&db).arg("--effects").arg(&effects);
        command
    };
    let open = async || {
        Connection::open(&db).unwrap().execute_batch(HARM).unwrap();
        let store = Arc::new(SqliteStore::open_read_only(&db).await.unwrap());
        Ok(ReopenedStore { journal: store.clone(), upkeep: store })
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let verdict = runtime.block_on(torture_child(&plan, start, &SystemClock, &mut |_| {}, open)).unwrap();
    assert!(!verdict.is_clean());
    for (name, count) in verdict.count_broken_promises() {
        assert!(count > 0, "none {name}: {verdict}");
    }
}

/// A child that is asked by hand.
struct Served {
    child: Child,
    stdin: ChildStdin,
    lines: BufReader<std::process::ChildStdout>,
}

impl Served {
    fn start(home: &Home) -> Self {
        let (db, effects) = (home.path().join("t.db"), home.path().join("effects"));
        let mut command = Command::new(BINARY);
        command.arg("torture-child").arg("--db").arg(db).arg("--effects").arg(effects);
        // An abort tells of itself; nobody needs to see that.
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let (stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Self { child, stdin, lines: BufReader::new(stdout) }
    }

    fn ask(&mut self, ask: &ChildRequest) {
        // A child that is gone is asked in vain.
        writeln!(self.stdin, "{}", serde_json::to_string(ask).unwrap()).unwrap_or_default();
    }

    fn send(&mut self, call: u64, session: &str, text: &str) {
        let deed = serde_json::from_value(serde_json::json!({ "deed": "send", "text": text })).unwrap();
        self.ask(&ChildRequest::Do { call, session: session.into(), deed, to: None });
    }

    /// Reads on to the first line that this takes; none when the child is gone.
    fn until<T>(&mut self, mut take: impl FnMut(&ChildReport) -> Option<T>) -> Option<T> {
        let mut text = String::new();
        loop {
            text.clear();
            if self.lines.read_line(&mut text).unwrap() == 0 || !text.ends_with('\n') {
                return None;
            }
            if let Some(taken) = take(&serde_json::from_str(&text).unwrap()) {
                return Some(taken);
            }
        }
    }

    fn told(&mut self, of: u64) -> Option<String> {
        self.until(|line| match line {
            ChildReport::Told { call, end, .. } if *call == of => Some(end.as_str().to_owned()),
            _ => None,
        })
    }

    fn dies(mut self) {
        assert_eq!(self.until(|_| None::<()>), None);
        assert_eq!(self.child.wait().unwrap().code(), None, "a signal ended it");
    }
}

// INV-2, INV-8; D24
#[test]
fn a_turn_that_aborts_the_process_each_time_is_closed_at_the_third_restart_and_others_are_served() {
    let home = Home::new();
    let mut served = Served::start(&home);
    served.send(0, "good", "plain a");
    assert_eq!(served.told(0).as_deref(), Some("completed"));
    served.send(1, "bad", "abort b");
    // The process may end before it has told the name; the store knows it.
    served.dies();
    let db = home.path().join("t.db");
    let name = "SELECT t.invocation FROM turn t JOIN session s ON t.session = s.id WHERE s.session = 'bad'";
    let turn: String = Connection::open(&db).unwrap().query_row(name, [], |row| row.get(0)).unwrap();
    // The turn was accepted, so it runs again, twice.
    Served::start(&home).dies();
    Served::start(&home).dies();
    let mut served = Served::start(&home);
    served.ask(&ChildRequest::Outcome { call: 1, turn });
    assert_eq!(served.told(1).as_deref(), Some("chat_turn_crashed"));
    for (call, session) in [(2, "good"), (3, "bad"), (4, "new")] {
        served.send(call, session, &format!("plain {session}"));
        assert_eq!(served.told(call).as_deref(), Some("completed"), "{session}");
    }
    drop(served.stdin);
    assert!(served.child.wait().unwrap().success());

    let (code, doctor) = home.json(&["doctor", "--db", db.to_str().unwrap()]);
    assert_eq!(code, 0, "{doctor:#}");
    let db = Connection::open(&db).unwrap();
    let deaths = db.query_row("SELECT max(deaths) FROM turn", [], |row| row.get::<_, u32>(0)).unwrap();
    assert_eq!(deaths, 3);
}

// INV-2
#[test]
fn the_last_process_ends_what_is_queued_before_it_stops() {
    let home = Home::new();
    let mut first = Served::start(&home);
    for call in 0..8 {
        first.send(call, "one", &format!("plain {call}"));
    }
    let mut given = 0;
    first.until(|line| {
        given += u32::from(matches!(line, ChildReport::Given { .. }));
        (given == 8).then_some(())
    });
    first.child.kill().unwrap();
    first.child.wait().unwrap();

    let mut last = Served::start(&home);
    drop(last.stdin);
    let mut said = String::new();
    std::io::Read::read_to_string(&mut last.lines, &mut said).unwrap();
    assert!(last.child.wait().unwrap().success(), "{said}");
    let db = Connection::open(home.path().join("t.db")).unwrap();
    let count = |sql: &str| db.query_row(sql, [], |row| row.get::<_, u32>(0)).unwrap();
    assert_eq!(count("SELECT count(*) FROM turn"), 8);
    assert_eq!(count("SELECT count(*) FROM turn WHERE outcome IS NULL"), 0);
}

#[test]
fn a_torture_does_not_work_in_a_folder_that_is_there() {
    let home = Home::new();
    let ran = home.run(&["torture", "--kills", "1", "--folder", home.path().to_str().unwrap()]);
    assert_eq!((ran.code, ran.out.as_str()), (4, ""));
    assert!(ran.err.starts_with("error: place_unavailable: cannot make the folder "), "{}", ran.err);
}
