//! `kill -9` of a process that writes.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use singletree_durable::{BatchPrecondition, Error, FencingToken, ItemRange, Journal, RowMutation};
use singletree_store_sqlite::SqliteStore;

use crate::made::{batch, head, item, key, scratch};

/// Names the file to the child.
pub(crate) const FILE: &str = "STORE_CHILD_FILE";

/// Makes this test binary run one test as another process.
pub(crate) fn child(test: &str, file: &std::path::Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]).env(FILE, file).stdout(Stdio::piped());
    command
}

pub(crate) fn say(line: &str) {
    // Straight to the pipe: the test harness captures the output of `print!`.
    let mut out = std::io::stdout();
    writeln!(out, "\n{line}").unwrap();
    out.flush().unwrap();
}

#[tokio::test]
async fn what_the_child_does() {
    let Some(path) = std::env::var_os(FILE) else { return };
    let store = SqliteStore::options(path).command("the child").open().await.unwrap();
    for no in 0_u64.. {
        let step =
            batch(&store, "s", [RowMutation::Head(head(no + 1)), RowMutation::Item(item(no, "\"kept\""))]);
        let step = if no == 0 { step } else { step.require(BatchPrecondition::SessionVersion(no)) };
        store.apply(step).await.unwrap();
        say(&format!("answered {no}"));
    }
}

#[tokio::test]
async fn a_killed_writer_frees_the_lock_and_every_answered_batch_is_there() {
    for round in 1..=3 {
        let scratch = scratch();
        let mut process = child("crash::what_the_child_does", &scratch.path).spawn().unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let mut answered = 0;
        let mut hear = |until: u64| {
            while answered < until {
                let line = lines.next().expect("the child speaks until it is killed").unwrap();
                if let Some(no) = line.strip_prefix("answered ") {
                    answered = no.parse().unwrap();
                }
            }
        };
        hear(5);
        match SqliteStore::open(&scratch.path).await {
            Err(Error::Locked { pid, command }) => {
                assert_eq!((pid, command.as_str()), (process.id(), "the child"));
            }
            other => panic!("{other:?}"),
        }
        let beside = SqliteStore::open_read_only(&scratch.path).await.unwrap();
        assert!(beside.read_session(&key("s")).await.unwrap().unwrap().head.version > 5);
        drop(beside);
        hear(100 * round);
        process.kill().unwrap();
        process.wait().unwrap();
        for line in lines {
            if let Some(no) = line.unwrap().strip_prefix("answered ") {
                answered = no.parse().unwrap();
            }
        }

        let store = SqliteStore::open(&scratch.path).await.unwrap();
        assert_eq!(store.read_newest_fence().await.unwrap(), FencingToken(2));
        let all = ItemRange::Numbers { from: 0, to: u64::MAX };
        let found = store.read_items(&key("s"), &all).await.unwrap();
        let landed = found.len() as u64;
        // The last one may have landed without its answer being heard.
        assert!(
            landed == answered + 1 || landed == answered + 2,
            "{landed} landed, {answered} was answered last"
        );
        let expected: Vec<_> = (0..landed).map(|no| item(no, "\"kept\"")).collect();
        assert_eq!(found, expected);
        assert_eq!(store.read_session(&key("s")).await.unwrap().unwrap().head, head(landed));
    }
}
