//! A process that dies at every system call with which the opening of a file changes something: the next process opens
//! the file and finds the same content as without the crash (INV-2, INV-13).

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use rusqlite::Connection;
use rusqlite::types::Value;
use singletree_durable::{FencingToken, Journal, RowMutation};
use singletree_store_sqlite::SqliteStore;

use crate::made::{batch, head, key, scratch};

/// Names the file to the child.
const FILE: &str = "STORE_OPENING_FILE";

/// The system calls that change files or make a change durable.
const CALLS: &str = "write,pwrite64,ftruncate,fallocate,fdatasync,fsync,unlink,unlinkat,rename";

/// A file to open.
struct Start {
    name: &'static str,
    make: fn(&Path),
    /// The fewest calls that its opening and closing can do with: fewer, and the sweep has looked at something else.
    least: u32,
}

/// Every file that this version opens for writing: none, an empty one, and one of each format that was ever released. A
/// format that comes to be is put here with its file, and the sweep stops at every write of its upgrade.
const STARTS: [Start; 6] = [
    Start { name: "no file", make: |_| {}, least: 20 },
    Start { name: "an empty file", make: |path| std::fs::write(path, b"").unwrap(), least: 20 },
    Start { name: "format 1", make: |path| copy("v1.db", path), least: 6 },
    Start { name: "format 2", make: |path| copy("v2.db", path), least: 6 },
    Start { name: "format 3", make: |path| copy("v3.db", path), least: 6 },
    Start { name: "format 4", make: |path| copy("v4.db", path), least: 6 },
];

/// Copies a released file.
fn copy(name: &str, to: &Path) {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../harness/tests/corpus");
    std::fs::copy(corpus.join(name), to).unwrap();
}

/// Not a test by itself: the process that the next test kills.
#[tokio::test]
async fn what_the_child_opens() {
    let Some(path) = std::env::var_os(FILE) else { return };
    SqliteStore::open(path).await.unwrap().close().await;
}

/// Opens a file in a process of its own, which dies at the entry of the n-th of the calls, before it is done. Tells
/// whether there was one; none where there is no strace that may trace.
fn dies(path: &Path, n: u32) -> Option<bool> {
    let works = Command::new("strace").args(["-o", "/dev/null", "true"]).stderr(Stdio::null()).status();
    if !works.is_ok_and(|it| it.success()) {
        // Bypasses the test harness, which captures the output of passing tests.
        let mut stderr = std::io::stderr();
        writeln!(stderr, "not run: opening: there is no strace that works").unwrap();
        return None;
    }
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "-o", "/dev/null", "-e", &format!("trace={CALLS}")]);
    command.args(["-e", &format!("inject={CALLS}:signal=KILL:when={n}")]);
    command.arg(std::env::current_exe().unwrap());
    command.args(["--exact", "opening::what_the_child_opens", "--test-threads=1"]);
    let output = command.env(FILE, path).stdin(Stdio::null()).output().unwrap();
    Some(!output.status.success())
}

/// Returns everything in a file except the values that differ from one opening to the next: fence and epoch.
fn content(path: &Path) -> Vec<String> {
    let file = Connection::open(path).unwrap();
    let rows = |sql: &str| -> Vec<String> {
        let mut statement = file.prepare(sql).unwrap();
        let columns = statement.column_count();
        let row = |row: &rusqlite::Row<'_>| (0..columns).map(|it| row.get::<_, Value>(it)).collect();
        let rows: Result<Vec<Vec<Value>>, _> = statement.query_map([], row).unwrap().collect();
        rows.unwrap().iter().map(|it| format!("{it:?}")).collect()
    };
    let mut content = rows("SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY type, name");
    for mark in ["application_id", "user_version", "page_size", "journal_mode"] {
        content.extend(rows(&format!("PRAGMA {mark}")));
    }
    let tables = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT IN ('meta') ORDER BY name";
    let mut tables = file.prepare(tables).unwrap();
    let names: Result<Vec<String>, _> = tables.query_map([], |row| row.get(0)).unwrap().collect();
    for name in names.unwrap() {
        content.push(name.clone());
        // Each file draws a key of its own for the hashes of names.
        let columns = match name.as_str() {
            "former" => "tenant, length(session), next_turn, next_item, next_event, next_wait",
            "audit" => "id, at, action, tenant, length(session), length(done_by)",
            _ => "*",
        };
        let mut found = rows(&format!("SELECT {columns} FROM \"{name}\""));
        found.sort();
        content.extend(found);
    }
    content
}

async fn sweep(start: &Start) {
    let whole = scratch();
    (start.make)(&whole.path);
    SqliteStore::open(&whole.path).await.unwrap().close().await;
    let expected = content(&whole.path);
    for n in 1.. {
        let scratch = scratch();
        (start.make)(&scratch.path);
        let Some(died) = dies(&scratch.path, n) else { return };
        let at = format!("{}, call {n}", start.name);
        // A reader that opens the file now either succeeds or gets an error that names the state of the file; it
        // changes nothing.
        match SqliteStore::open_read_only(&scratch.path).await {
            Ok(_) => {}
            Err(error) => {
                let told = error.category();
                assert!(["store_format_unsupported", "store_unavailable"].contains(&told), "{at}: {error}");
            }
        }
        let store = SqliteStore::open(&scratch.path).await.unwrap_or_else(|it| panic!("{at}: {it}"));
        assert!(store.read_newest_fence().await.unwrap() >= FencingToken(1), "{at}");
        assert_eq!(store.find_damage().await.unwrap(), [], "{at}");
        store.close().await;
        assert_eq!(content(&scratch.path), expected, "{at}");
        let store = SqliteStore::open(&scratch.path).await.unwrap();
        store.apply(batch(&store, "swept", [RowMutation::Head(head(0))])).await.unwrap();
        assert_eq!(store.read_session(&key("swept")).await.unwrap().unwrap().head, head(0), "{at}");
        store.close().await;
        if !died {
            assert!(n > start.least, "{}: {n} calls", start.name);
            return;
        }
    }
}

#[tokio::test]
async fn the_making_of_a_file_is_gone_on_with_wherever_a_process_dies() {
    sweep(&STARTS[0]).await;
    // It goes the same way from its first page on.
    if std::env::var_os("SINGLETREE_DEEP").is_some() {
        sweep(&STARTS[1]).await;
    }
}

#[tokio::test]
async fn the_taking_over_of_a_file_of_any_format_is_gone_on_with_wherever_a_process_dies() {
    for start in &STARTS[2..] {
        sweep(start).await;
    }
}
