//! No answer leaves before the sync after its last log write: read off the system calls of the binary.
//!
//! A kill does not lose what the kernel holds, so that a store that syncs nothing passes every torture. The trace does not.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use rusqlite::Connection;
use singletree_torture::Ask;

use crate::home::{BINARY, Home};

/// What a trace shows.
#[derive(Debug, Default, PartialEq, Eq)]
struct Trace {
    log_writes: usize,
    syncs: usize,
    answers: usize,
    /// The answers that left while a log write was not synced.
    early: Vec<String>,
}

/// Reads a trace of one caller who asks one thing after the other: whatever was written to the log before an answer
/// belongs to it. An answer is a write to the standard output that has `mark` in it.
fn read(trace: &str, mark: &str) -> Trace {
    let mut seen = Trace::default();
    let mut dirty = false;
    for line in trace.lines() {
        let Some((_, call)) = line.split_once(' ') else { continue };
        let call = call.trim_start();
        let is_log = call.contains("-wal>");
        if (call.starts_with("pwrite64(") || call.starts_with("write(")) && is_log {
            seen.log_writes += 1;
            dirty = true;
        } else if (call.starts_with("fdatasync(") || call.starts_with("fsync(")) && is_log {
            // Where the call is cut in two, the thread that writes the log waits in it: nothing is written meanwhile.
            seen.syncs += 1;
            dirty = call.contains("unfinished") && dirty;
        } else if call.starts_with("<... fdatasync resumed>") || call.starts_with("<... fsync resumed>") {
            dirty = false;
        } else if call.starts_with("write(1<") && call.contains(mark) {
            seen.answers += 1;
            if dirty {
                seen.early.push(call.to_owned());
            }
        }
    }
    seen
}

/// Prepares a program under strace; none where there is no strace that may trace.
fn traced(home: &Home, program: &str, trace: &Path) -> Option<Command> {
    let calls = "trace=write,pwrite64,fdatasync,fsync";
    let mut command = home.command("strace");
    command.args(["-f", "-y", "-s", "60", "-e", calls, "-o"]).arg(trace);
    let works = home.command("strace").args(["-o", "/dev/null", "true"]).stderr(Stdio::null()).status();
    if !works.is_ok_and(|it| it.success()) {
        // Past the test harness, which swallows what a passing test prints.
        let mut stderr = std::io::stderr();
        writeln!(stderr, "not run: sync_trace: there is no strace that works").unwrap();
        return None;
    }
    command.arg(program);
    Some(command)
}

// INV-3
#[test]
fn no_answer_leaves_before_the_sync_after_its_last_log_write() {
    let home = Home::new();
    let trace = home.path().join("trace");
    let mut signal = String::new();
    for (text, code) in [("hello", 0), ("note: buy milk", 0), ("send hello to Bob", 3), ("", 0)] {
        let Some(mut command) = traced(&home, BINARY, &trace) else { return };
        match text {
            "" => command.args(["answer", &signal, "approve", "--json"]),
            text => command.args(["send", text, "--session", "s", "--json"]),
        };
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{output:?}");
        let told: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        signal = told["signal"].as_str().unwrap_or_default().to_owned();
        let seen = read(&std::fs::read_to_string(&trace).unwrap(), "{");
        assert_eq!(seen.early, Vec::<String>::new(), "{text}");
        assert!(seen.answers >= 1 && seen.syncs >= 2 && seen.log_writes >= 2, "{text}: {seen:?}");
    }
}

/// Serves one message under strace, and returns what the trace shows of its answer.
fn served(relaxed: bool) -> Option<Trace> {
    let home = Home::new();
    let trace = home.path().join("trace");
    let mut command = traced(&home, BINARY, &trace)?;
    let (db, effects) = (home.path().join("t.db"), home.path().join("effects"));
    command.arg("torture-child").arg("--db").arg(db).arg("--effects").arg(effects);
    if relaxed {
        command.arg("--relaxed");
    }
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let deed = serde_json::from_value(serde_json::json!({ "deed": "send", "text": "effect x" })).unwrap();
    let ask = Ask::Do { call: 0, session: "s".into(), deed, to: None };
    writeln!(child.stdin.take().unwrap(), "{}", serde_json::to_string(&ask).unwrap()).unwrap();
    assert!(child.wait_with_output().unwrap().status.success());
    Some(read(&std::fs::read_to_string(&trace).unwrap(), "told"))
}

// INV-3
#[test]
fn the_trace_of_a_store_that_does_not_sync_its_commits_is_told_apart() {
    let Some(full) = served(false) else { return };
    assert_eq!((full.answers, full.early.len()), (1, 0), "{full:?}");
    let relaxed = served(true).unwrap();
    assert_eq!((relaxed.answers, relaxed.early.len()), (1, 1), "{relaxed:?}");
}

const MUTANT: &str = "SINGLETREE_MUTANT";

/// Not a test by itself: what the next one runs under strace, as a process of its own. Commits a row and answers.
#[test]
fn a_program_that_commits_and_answers() {
    let Some(synchronous) = std::env::var_os(MUTANT) else { return };
    let folder = std::path::PathBuf::from(std::env::var_os("HOME").unwrap());
    let db = Connection::open(folder.join("mutant.db")).unwrap();
    db.pragma_update(None, "journal_mode", "WAL").unwrap();
    db.pragma_update(None, "synchronous", synchronous.to_str().unwrap()).unwrap();
    db.execute_batch("CREATE TABLE t (a)").unwrap();
    for row in 0..3 {
        db.execute("INSERT INTO t VALUES (?)", [row]).unwrap();
        writeln!(std::io::stdout(), "answer {row}").unwrap();
    }
}

// INV-3
#[test]
fn the_trace_of_synchronous_off_is_told_apart_from_that_of_full() {
    for (synchronous, early) in [("FULL", 0), ("OFF", 3)] {
        let home = Home::new();
        let (trace, this) = (home.path().join("trace"), std::env::current_exe().unwrap());
        let Some(mut command) = traced(&home, this.to_str().unwrap(), &trace) else { return };
        command.args(["--exact", "sync_trace::a_program_that_commits_and_answers", "--nocapture"]);
        let output = command.env(MUTANT, synchronous).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let seen = read(&std::fs::read_to_string(&trace).unwrap(), "answer ");
        assert_eq!((seen.answers, seen.early.len()), (3, early), "{synchronous}: {seen:?}");
    }
}

#[test]
fn a_trace_is_read_in_the_order_of_its_calls() {
    let written = "7 pwrite64(3</d/a.db-wal>, \"x\", 1, 0) = 1\n";
    let synced = "7 fdatasync(3</d/a.db-wal>) = 0\n";
    let answer = "8 write(1<pipe:[1]>, \"{}\", 2) = 2\n";
    let early = |lines: &[&str]| read(&lines.concat(), "{").early.len();
    assert_eq!(early(&[written, synced, answer]), 0);
    assert_eq!(early(&[written, answer, synced]), 1);
    assert_eq!(early(&[written, synced, written, answer]), 1);
    let (begun, ended) =
        ("7 fdatasync(3</d/a.db-wal> <unfinished ...>\n", "7 <... fdatasync resumed>) = 0\n");
    assert_eq!(early(&[written, begun, answer, ended]), 1);
    assert_eq!(early(&[written, begun, ended, answer]), 0);
    assert_eq!(early(&["7 fdatasync(4</d/a.db>) = 0\n", answer]), 0);
    assert_eq!(early(&[written, "7 fdatasync(4</d/a.db>) = 0\n", answer]), 1, "another file");
}
