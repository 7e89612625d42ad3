//! Bad input and bad weather on a file: told by category, nothing lost, and the chat goes on when it clears (D20,
//! INV-2).

use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use singletree_durable::Timestamp;
use singletree_engine::{Clock, Graph, Signal};
use singletree_harness::{ChatTurnOutcome, Limits};
use singletree_store_sqlite::SqliteStore;

use crate::bench::{
    Log, Talk, approve, asking, at, category, chat_of, check_rows, history, key, line, plain, user,
};

fn not_run(name: &str, reason: &str) {
    let line = format!("not run: {name}: {reason}\n");
    std::io::stderr().write_all(line.as_bytes()).unwrap();
}

/// A small disk in memory, unmounted at the end.
struct SmallDisk<'a>(&'a Path);

impl<'a> SmallDisk<'a> {
    fn mount(at: &'a Path) -> Result<Self, String> {
        let run = Command::new("mount").args(["-t", "tmpfs", "-o", "size=2m", "tmpfs"]).arg(at).output();
        match run {
            Ok(output) if output.status.success() => Ok(Self(at)),
            Ok(output) => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }
}

impl Drop for SmallDisk<'_> {
    fn drop(&mut self) {
        Command::new("umount").arg(self.0).status().unwrap();
    }
}

// D20, INV-2: whatever was accepted has its outcome when there is room again, and nothing stands twice.
#[tokio::test]
async fn a_disk_that_fills_up_under_a_chat_loses_no_turn() {
    let folder = tempfile::tempdir().unwrap();
    let disk = match SmallDisk::mount(folder.path()) {
        Ok(disk) => disk,
        Err(reason) => return not_run("a_disk_that_fills_up_under_a_chat_loses_no_turn", &reason),
    };
    let ballast = folder.path().join("ballast");
    std::fs::write(&ballast, vec![0; 900_000]).unwrap();
    let store = SqliteStore::open(folder.path().join("s.db")).await.unwrap();
    let limits = Limits { record_retry: Duration::from_millis(1), ..Limits::default() };
    let chat = chat_of(&plain(&Log::default())).limits(limits).open(store.clone()).unwrap();
    let text = |no: usize| format!("m{no} {}", "x".repeat(20_000));
    let (mut accepted, mut refused) = (Vec::new(), 0);
    for no in 0..200 {
        match chat.session("s").submit(user(&text(no)), key(&format!("k{no}"))).await {
            Ok(turn) => {
                turn.outcome().await;
                accepted.push((no, turn.id().clone()));
            }
            Err(errored) => {
                let errored = errored.into_errored_turn();
                let told = (errored.error_category.as_str(), errored.retry_safe);
                assert_eq!(told, ("chat_accept_failed", true));
                refused += 1;
            }
        }
        if refused == 3 {
            break;
        }
    }
    assert!(refused == 3 && accepted.len() > 3, "the disk was full after {} turns", accepted.len());
    std::fs::remove_file(&ballast).unwrap();
    let last = chat.session("s").send_with(user("after"), key("after")).await;
    assert_eq!(line(&last), "completed 3.2 [a:hello]");
    let mut expected = Vec::new();
    for (no, id) in &accepted {
        match chat.turn(id).await.unwrap().outcome().await.as_ref() {
            ChatTurnOutcome::Completed(_) => expected.extend([format!("u:{}", text(*no)), "a:hello".into()]),
            other => {
                panic!("turn {no} has run, and its end is recorded when there is room again (D38): {other:?}")
            }
        }
    }
    expected.extend(["u:after".to_owned(), "a:hello".to_owned()]);
    assert_eq!(history(&chat, "s").await, expected);
    check_rows(&store, "s").await;
    assert!(chat.shutdown(Duration::from_secs(5)).await);
    store.close().await;
    drop(disk);
}

// INV-12, INV-13: too long is refused whole, as long as allowed is kept letter by letter.
#[tokio::test]
async fn long_and_strange_messages_are_refused_or_kept_as_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.db");
    let store = SqliteStore::open(&path).await.unwrap();
    let chat = chat_of(&plain(&Log::default())).open(store.clone()).unwrap();
    let huge = "x".repeat(10 << 20);
    assert_eq!(category(chat.session("s").send(user(&huge)).await), "chat_message_shape_invalid");
    assert_eq!(category(chat.session(&huge).send(user("m")).await), "harness_session_id_unresolved");
    assert_eq!(chat.sessions(None, 10).await.unwrap().items.len(), 0, "nothing was kept of it");
    let strange = "\u{0}\u{1b}[31m\u{7f}\u{202e}\u{feff}\r\n\t\u{10ffff}\\u0000\"'`";
    assert_eq!(line(&chat.session("s").send(user(strange)).await), "completed 3.1 [a:hello]");
    store.close().await;

    let store = SqliteStore::open(&path).await.unwrap();
    let limits = Limits { message_bytes: 16 << 20, ..Limits::default() };
    let chat = chat_of(&plain(&Log::default())).limits(limits).open(store).unwrap();
    assert_eq!(line(&chat.session("s").send(user(&huge)).await), "completed 3.2 [a:hello]");
    let kept = history(&chat, "s").await;
    assert_eq!(kept[0], format!("u:{strange}"));
    assert_eq!((kept[2].len(), kept[3].as_str()), (2 + huge.len(), "a:hello"));
}

// INV-13: one session that cannot be read keeps no other from being served.
#[tokio::test]
async fn a_damaged_session_is_told_and_the_others_are_served() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.db");
    let store = SqliteStore::open(&path).await.unwrap();
    let chat = chat_of(&plain(&Log::default())).open(store.clone()).unwrap();
    for session in ["hurt", "well"] {
        assert_eq!(line(&chat.session(session).send(user("m")).await), "completed 3.1 [a:hello]");
    }
    store.close().await;
    let shell = rusqlite::Connection::open(&path).unwrap();
    let lost = "DELETE FROM item WHERE rowid = (SELECT max(rowid) FROM item WHERE session = 1)";
    assert_eq!(shell.execute(lost, []).unwrap(), 1);
    drop(shell);

    let store = SqliteStore::open(&path).await.unwrap();
    let chat = chat_of(&plain(&Log::default())).open(store).unwrap();
    chat.sweep().await.unwrap();
    for no in 0..2 {
        let turn = chat.session("hurt").submit(user("n"), key(&format!("k{no}"))).await.unwrap();
        assert_eq!(category(turn.outcome().await.as_ref().clone()), "session_load_failed");
        let stored = chat.turn(turn.id()).await.unwrap().outcome().await;
        assert_eq!(category(stored.as_ref().clone()), "session_load_failed", "it is recorded (INV-2)");
    }
    assert_eq!(line(&chat.session("well").send(user("n")).await), "completed 3.2 [a:hello]");
    assert_eq!(history(&chat, "well").await, ["u:m", "a:hello", "u:n", "a:hello"]);
}

/// A clock that goes where it is put.
#[derive(Debug, Default)]
struct Wild(AtomicI64);

impl Clock for Wild {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.load(Ordering::Relaxed))
    }
}

// INV-1, INV-11: order is by number, never by time; a deadline is due when the clock says so, however it got there.
#[tokio::test]
async fn a_clock_that_jumps_changes_no_order_and_loses_nothing() {
    const DAY: i64 = 24 * 3_600_000;
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path().join("s.db")).await.unwrap();
    let clock = Arc::new(Wild::default());
    let open = |graph: &Graph<Talk>| chat_of(graph).clock(clock.clone()).open(store.clone()).unwrap();
    let chat = open(&plain(&Log::default()));
    let mut expected = Vec::new();
    for (no, now) in
        [20_000 * DAY, 0, -5 * DAY, 100_000 * DAY, i64::MAX / 2, 20_000 * DAY].into_iter().enumerate()
    {
        clock.0.store(now, Ordering::Relaxed);
        let outcome = chat.session("s").send(user(&format!("m{no}"))).await;
        assert_eq!(outcome.as_str(), "completed", "at {now}: {outcome:?}");
        expected.extend([format!("u:m{no}"), "a:hello".to_owned()]);
    }
    assert_eq!(history(&chat, "s").await, expected);
    drop(chat);

    let signal = Signal::new("ok").expires_at(clock.now().saturating_add(Duration::from_secs(60)));
    let chat = open(&asking(&Log::default(), signal));
    assert_eq!(chat.session("w").send(user("m")).await.as_str(), "suspended");
    clock.0.store(-DAY, Ordering::Relaxed);
    chat.sweep().await.unwrap();
    assert_eq!(chat.session("w").pending().await.unwrap().len(), 1, "back in time nothing is due");
    let turn = chat.answer(at("w", "ok"), approve(true)).await.unwrap();
    assert_eq!(line(turn.outcome().await.as_ref()), "completed 3.3 [a:done]");
    check_rows(&store, "w").await;
}
