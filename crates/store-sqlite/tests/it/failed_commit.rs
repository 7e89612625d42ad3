//! A commit whose sync fails, and a process that dies afterwards: no refused write is there at the next start, and a
//! write that may be there was not reported as refused (D38).

use std::path::Path;
use std::process::{Command, Stdio};

use singletree_durable::{ItemRange, Journal, RowMutation};
use singletree_store_sqlite::SqliteStore;

use crate::crash::{FILE, say};
use crate::made::{batch, head, item, key, scratch};

/// More syncs than the child comes to.
const SYNCS: u32 = 40;

/// How many writes the child tries.
const WRITES: u64 = 4;

/// Not a test by itself: the process that the other tests kill.
#[tokio::test]
async fn what_the_child_with_a_broken_disk_does() {
    let Some(path) = std::env::var_os(FILE) else { return };
    let store = match SqliteStore::open(path).await {
        Ok(store) => store,
        Err(error) => return say(&format!("not opened {}", error.category())),
    };
    // From here on a reader has the file open, so that no end of a writer's connection removes the log.
    assert_eq!(store.read_session(&key("s")).await.unwrap(), None);
    for no in 0..WRITES {
        let body = format!("\"{}\"", "x".repeat(3_000));
        let step = batch(&store, "s", [RowMutation::Head(head(no + 1)), RowMutation::Item(item(no, &body))]);
        match store.apply(step).await {
            Ok(()) => say(&format!("write {no} ok")),
            Err(error) => say(&format!("write {no} {}", error.category())),
        }
    }
    say("dies");
    // Nothing is closed, and nothing is folded in.
    std::process::abort();
}

/// Runs the child so that such calls of sync fail, and returns how each write was answered; none where there is no
/// strace that may trace, or when the file could not be opened.
fn answers(path: &Path, when: &str) -> Option<Vec<String>> {
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "-o", "/dev/null", "-e", "trace=fsync,fdatasync"]);
    command.args(["-e", &format!("inject=fsync,fdatasync:error=EIO:when={when}")]);
    command.arg(std::env::current_exe().unwrap());
    command.args(["--exact", "failed_commit::what_the_child_with_a_broken_disk_does", "--nocapture"]);
    let said = command.env(FILE, path).output().unwrap().stdout;
    let said = String::from_utf8(said).unwrap();
    let answers = said.lines().filter_map(|line| Some(line.strip_prefix("write ")?[2..].to_owned()));
    said.contains("dies").then(|| answers.collect())
}

fn can_trace() -> bool {
    let works = Command::new("strace").args(["-o", "/dev/null", "true"]).stderr(Stdio::null()).status();
    let works = works.is_ok_and(|it| it.success());
    if !works {
        say("not run: failed_commit: there is no strace that works");
    }
    works
}

/// Returns the numbers of the items that a new process finds.
async fn found(path: &Path) -> Vec<u64> {
    let store = SqliteStore::open(path).await.unwrap();
    let items = store.read_items(&key("s"), &ItemRange::Numbers { from: 0, to: u64::MAX }).await.unwrap();
    assert_eq!(store.find_damage().await.unwrap(), []);
    items.into_iter().map(|it| it.no).collect()
}

fn numbers_of(answers: &[String], answer: &str) -> Vec<u64> {
    (0..).zip(answers).filter(|(_, it)| *it == answer).map(|(no, _)| no).collect()
}

#[tokio::test]
async fn what_was_refused_since_one_sync_failed_is_not_there_at_the_next_start() {
    if !can_trace() {
        return;
    }
    let mut refused = 0;
    for n in 1..SYNCS {
        let scratch = scratch();
        let Some(answers) = answers(&scratch.path, &n.to_string()) else { continue };
        assert_eq!(answers.len() as u64, WRITES, "sync {n}: {answers:?}");
        assert_eq!(found(&scratch.path).await, numbers_of(&answers, "ok"), "sync {n}: {answers:?}");
        refused += numbers_of(&answers, "store_unavailable").len();
        if refused > 0 && answers.iter().all(|it| it == "ok") {
            break;
        }
    }
    assert_eq!(refused as u64, WRITES, "each write was refused once");
}

#[tokio::test]
async fn a_store_whose_syncs_keep_failing_says_that_it_does_not_know_and_takes_nothing_more() {
    if !can_trace() {
        return;
    }
    let mut unknown = 0;
    for n in 1..SYNCS {
        let scratch = scratch();
        let Some(answers) = answers(&scratch.path, &format!("{n}+")) else { continue };
        assert_eq!(answers.len() as u64, WRITES, "sync {n}: {answers:?}");
        let done = numbers_of(&answers, "ok");
        let in_doubt = done.len() as u64;
        if in_doubt == WRITES {
            break;
        }
        let rest: Vec<u64> = (in_doubt + 1..WRITES).collect();
        assert_eq!(numbers_of(&answers, "store_commit_unknown"), [in_doubt], "sync {n}: {answers:?}");
        assert_eq!(numbers_of(&answers, "store_unavailable"), rest, "sync {n}: {answers:?}");
        let found = found(&scratch.path).await;
        let kept = [done.clone(), vec![in_doubt]].concat();
        assert!(found == done || found == kept, "sync {n}: {answers:?}, {found:?}");
        unknown += 1;
    }
    assert_eq!(unknown, WRITES, "each write was in doubt once");
}
