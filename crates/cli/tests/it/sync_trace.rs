//! No answer leaves before the sync after its last log write: read off the system calls of the binary.
//!
//! A kill does not lose the data that the kernel holds, so a store that syncs nothing passes every torture. It fails
//! this test.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use rusqlite::Connection;
use singletree_torture::ChildRequest;

use crate::home::{BINARY, Home};

/// The numbers of writes, syncs and answers in a trace.
#[derive(Debug, Default, PartialEq, Eq)]
struct Trace {
    log_writes: usize,
    syncs: usize,
    answers: usize,
    /// The answers that left while a log write was not synced.
    early: Vec<String>,
}

/// Reads a trace of one caller who asks one thing after the other: whatever was written to the log before an answer
/// belongs to it. An answer is a write to the standard output that has `mark` in it. A sync that strace answered in the
/// kernel's place was none.
fn read(trace: &str, mark: &str) -> Trace {
    let mut seen = Trace::default();
    let mut dirty = false;
    // Who waits in a sync of the log: where such a call is cut in two, the second half names no file.
    let mut waiting = BTreeSet::new();
    for line in trace.lines() {
        let Some((thread, call)) = line.split_once(' ') else { continue };
        let call = call.trim_start();
        let is_log = call.contains("-wal>");
        let begins = (call.starts_with("fdatasync(") || call.starts_with("fsync(")) && is_log;
        let ends = call.starts_with("<... fdatasync resumed>") || call.starts_with("<... fsync resumed>");
        if (call.starts_with("pwrite64(") || call.starts_with("write(")) && is_log {
            seen.log_writes += 1;
            dirty = true;
        } else if begins && call.contains("<unfinished") {
            waiting.insert(thread);
        } else if begins || ends && waiting.remove(thread) {
            if !call.contains("(INJECTED)") {
                seen.syncs += 1;
                dirty = false;
            }
        } else if call.starts_with("write(1<") && call.contains(mark) {
            seen.answers += 1;
            if dirty {
                seen.early.push(call.to_owned());
            }
        }
    }
    seen
}

/// Makes every sync a lie: it is answered with success, and the kernel never hears of it.
const LIES: &[&str] = &["-e", "inject=fdatasync,fsync:retval=0"];

/// Prepares a program under strace, with more for strace to do; none where there is no strace that may trace.
fn traced_with(home: &Home, program: &str, trace: &Path, more: &[&str]) -> Option<Command> {
    let calls = "trace=write,pwrite64,fdatasync,fsync";
    let mut command = home.command("strace");
    command.args(["-f", "-y", "-s", "60", "-e", calls]).args(more).arg("-o").arg(trace);
    let works = home.command("strace").args(["-o", "/dev/null", "true"]).stderr(Stdio::null()).status();
    if !works.is_ok_and(|it| it.success()) {
        // Written past the test harness, which swallows the output of a passing test.
        let mut stderr = std::io::stderr();
        writeln!(stderr, "not run: sync_trace: there is no strace that works").unwrap();
        return None;
    }
    command.arg(program);
    Some(command)
}

fn traced(home: &Home, program: &str, trace: &Path) -> Option<Command> {
    traced_with(home, program, trace, &[])
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

/// Serves one message under strace, and returns the trace of its answer.
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
    let ask = ChildRequest::Do { call: 0, session: "s".into(), deed, to: None };
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

/// Lets a mutant of the binary talk, and expects each of its answers to have left too early, and nothing else of it
/// to be wrong: no torture would tell it apart.
fn is_caught(program: &str, more: &[&str]) {
    let home = Home::new();
    let trace = home.path().join("trace");
    for (text, code) in [("hello", 0), ("note: buy milk", 0), ("send hello to Bob", 3)] {
        let Some(mut command) = traced_with(&home, program, &trace, more) else { return };
        let output = command.args(["send", text, "--session", "s", "--json"]).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{output:?}");
        let seen = read(&std::fs::read_to_string(&trace).unwrap(), "{");
        assert!(seen.answers >= 1 && seen.log_writes >= 2, "{text}: {seen:?}");
        assert_eq!((seen.syncs, seen.early.len()), (0, seen.answers), "{text}: {seen:?}");
    }
    let (code, document) = home.json(&["doctor"]);
    assert_eq!((code, &document["findings"]), (0, &serde_json::json!([])), "{document:#}");
}

// INV-3
#[test]
fn the_binary_over_a_kernel_that_syncs_nothing_is_caught() {
    is_caught(BINARY, LIES);
}

// INV-3: the binary with an SQLite that makes no sync at all; `.ci/mutants` builds it.
#[test]
fn the_binary_with_an_sqlite_that_syncs_nothing_is_caught() {
    match std::env::var_os("SINGLETREE_UNSYNCED") {
        Some(program) => is_caught(program.to_str().unwrap(), &[]),
        None => {
            let mut stderr = std::io::stderr();
            let why = "SINGLETREE_UNSYNCED names no binary (.ci/mutants builds it)";
            writeln!(stderr, "not run: the binary with an SQLite that syncs nothing: {why}").unwrap();
        }
    }
}

const MUTANT: &str = "SINGLETREE_MUTANT";

/// Not a test by itself: the program that the next one runs under strace, as a process of its own. Commits a row and
/// answers.
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
    let other = "9 fdatasync(4</d/a.db> <unfinished ...>\n9 <... fdatasync resumed>) = 0\n";
    assert_eq!(early(&[written, other, answer]), 1, "another file, cut in two");
    assert_eq!(early(&[written, "7 fdatasync(3</d/a.db-wal>) = 0 (INJECTED)\n", answer]), 1, "a lie");
    assert_eq!(early(&[written, begun, "7 <... fdatasync resumed>) = 0 (INJECTED)\n", answer]), 1, "a lie");
}
