//! Bad weather: a full disk, a file that cannot be written, a busy neighbour. The store works again when it clears.

use std::path::Path;
use std::process::Command;

use singletree_durable::{DocumentStore, ItemRange, Journal, RowMutation};
use singletree_store_sqlite::SqliteStore;

use crate::crash::{child, say};
use crate::made::{batch, batch_under, head, item, key, scratch};

/// A small disk in memory, unmounted at the end.
struct SmallDisk<'a>(&'a Path);

impl<'a> SmallDisk<'a> {
    fn mount(at: &'a Path) -> Result<Self, String> {
        let run = Command::new("mount").args(["-t", "tmpfs", "-o", "size=4m", "tmpfs"]).arg(at).output();
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

#[tokio::test]
async fn a_full_disk_is_told_by_category_and_nothing_answered_is_lost() {
    let dir = tempfile::tempdir().unwrap();
    let disk = match SmallDisk::mount(dir.path()) {
        Ok(disk) => disk,
        Err(reason) => return say(&format!("not run: disk_full: {reason}")),
    };
    let (path, ballast) = (dir.path().join("store.db"), dir.path().join("ballast"));
    std::fs::write(&ballast, vec![0; 3_000_000]).unwrap();
    let store = SqliteStore::open(&path).await.unwrap();
    store.apply(batch(&store, "s", [RowMutation::Head(head(0))])).await.unwrap();
    let body = format!("\"{}\"", "x".repeat(50_000));
    let add = |no| store.apply(batch(&store, "s", [RowMutation::Item(item(no, &body))]));
    let mut answered = Vec::new();
    let full = loop {
        let no = answered.len() as u64;
        match add(no).await {
            Ok(()) => answered.push(item(no, &body)),
            Err(error) => break error,
        }
    };
    assert_eq!(full.category(), "store_full", "{full:?}");
    assert_eq!(store.probe_write().await.unwrap_err().category(), "store_full");
    assert!(answered.len() > 3, "{} before the disk was full", answered.len());
    let all = ItemRange::Numbers { from: 0, to: u64::MAX };
    assert_eq!(store.read_items(&key("s"), &all).await.unwrap(), answered);
    let no = answered.len() as u64;
    assert_eq!(add(no).await.unwrap_err().category(), "store_full");

    std::fs::remove_file(&ballast).unwrap();
    store.probe_write().await.unwrap();
    add(no).await.unwrap();
    answered.push(item(no, &body));
    assert_eq!(store.read_items(&key("s"), &all).await.unwrap(), answered);
    store.close().await;
    let store = SqliteStore::open(&path).await.unwrap();
    assert_eq!(store.read_items(&key("s"), &all).await.unwrap(), answered);
    drop(store);
    drop(disk);
}

#[tokio::test]
async fn a_neighbour_that_holds_the_file_delays_and_then_refuses_nobody_for_ever() {
    let scratch = scratch();
    let store = SqliteStore::open(&scratch.path).await.unwrap();
    let shell = rusqlite::Connection::open(&scratch.path).unwrap();
    shell.execute_batch("BEGIN IMMEDIATE").unwrap();
    let held = store.apply(batch(&store, "s", [RowMutation::Head(head(1))])).await.unwrap_err();
    assert_eq!(held.category(), "store_unavailable", "{held:?}");
    shell.execute_batch("ROLLBACK").unwrap();
    store.apply(batch(&store, "s", [RowMutation::Head(head(2))])).await.unwrap();
    assert_eq!(store.read_session(&key("s")).await.unwrap().unwrap().head, head(2));

    // A neighbour that reads delays the emptying of the log after a deletion, not the deletion.
    shell.execute_batch("BEGIN; SELECT count(*) FROM session").unwrap();
    store.apply(batch(&store, "s", [RowMutation::Delete])).await.unwrap();
    let log = scratch.dir.path().join("store.db-wal");
    assert_ne!(log.metadata().unwrap().len(), 0);
    shell.execute_batch("COMMIT").unwrap();
    store.apply(batch(&store, "r", [])).await.unwrap();
    assert_eq!(log.metadata().unwrap().len(), 0);
}

#[tokio::test]
async fn a_deletion_beside_a_reader_waits_for_it_alone() {
    let scratch = scratch();
    let store = SqliteStore::open(&scratch.path).await.unwrap();
    for session in ["s", "r"] {
        store.apply(batch(&store, session, [RowMutation::Head(head(1))])).await.unwrap();
    }
    let shell = rusqlite::Connection::open(&scratch.path).unwrap();
    shell.execute_batch("BEGIN; SELECT count(*) FROM session").unwrap();
    // Answers arrive in the order in which they are given, however late anybody looks.
    let (told, mut heard) = tokio::sync::mpsc::unbounded_channel();
    let deletion = store.apply(batch(&store, "s", [RowMutation::Delete]));
    let write = store.apply(batch(&store, "r", [RowMutation::Head(head(2))]));
    for (name, answer) in [("deletion", deletion), ("write", write)] {
        let told = told.clone();
        tokio::spawn(async move {
            answer.await.unwrap();
            told.send(name).unwrap();
        });
    }
    assert_eq!((heard.recv().await, heard.recv().await), (Some("write"), Some("deletion")));
    drop(shell);
    store.close().await;
    assert!(!scratch.dir.path().join("store.db-wal").exists());
}

#[tokio::test]
async fn what_the_powerless_child_does() {
    let Some(path) = std::env::var_os(crate::crash::FILE) else { return };
    match SqliteStore::open(path).await {
        Ok(_) => say("opened"),
        Err(error) => say(&format!("refused {}", error.category())),
    }
}

#[cfg(unix)]
#[tokio::test]
async fn a_file_that_may_only_be_read_is_told_by_category() {
    use std::os::unix::fs::{PermissionsExt, chown};
    use std::os::unix::process::CommandExt;
    const NOBODY: u32 = 65_534;
    let scratch = scratch();
    SqliteStore::open(&scratch.path).await.unwrap().close().await;
    let before = std::fs::read(&scratch.path).unwrap();
    let mut process = child("weather::what_the_powerless_child_does", &scratch.path);
    let set = |path: &Path, mode| std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    set(&scratch.path, 0o444);
    if chown(scratch.dir.path(), Some(NOBODY), None).is_ok() {
        // To the superuser no file is read-only.
        let lock = scratch.dir.path().join("store.db.lock");
        chown(lock, Some(NOBODY), None).unwrap();
        process.uid(NOBODY);
    }
    let output = match process.output() {
        Ok(output) => output,
        Err(error) => return say(&format!("not run: read_only_file: {error}")),
    };
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains("refused store_unavailable"), "{said}");
    assert!(std::fs::read(&scratch.path).unwrap() == before);
}

#[tokio::test]
async fn a_probe_commits_and_leaves_the_file_as_it_was() {
    let scratch = scratch();
    let store = SqliteStore::open(&scratch.path).await.unwrap();
    let (commits, fence) = (store.commit_count(), store.read_newest_fence().await.unwrap());
    store.probe_write().await.unwrap();
    assert_eq!(store.commit_count(), commits + 1);
    // Each probe writes a page: nothing less shows that the disk takes one.
    let log = scratch.dir.path().join("store.db-wal");
    let before = std::fs::read(&log).unwrap();
    store.probe_write().await.unwrap();
    assert_ne!(std::fs::read(&log).unwrap(), before);
    store.apply(batch(&store, "s", [RowMutation::Head(head(0))])).await.unwrap();
    store.close().await;
    let reader = SqliteStore::open_read_only(&scratch.path).await.unwrap();
    assert_eq!(reader.read_newest_fence().await.unwrap(), fence);
}

// Finding C11
#[tokio::test]
async fn a_probe_tells_a_writer_that_another_one_has_taken_over() {
    let scratch = scratch();
    let store = SqliteStore::open(&scratch.path).await.unwrap();
    store.probe_write().await.unwrap();
    // As a second process does whose lock does not work.
    let shell = rusqlite::Connection::open(&scratch.path).unwrap();
    let own = store.acquire(&key("s")).await.unwrap().fence;
    shell.execute("UPDATE meta SET fence = fence + 1", []).unwrap();
    let lost = store.apply(batch(&store, "s", [RowMutation::Head(head(0))])).await.unwrap_err();
    assert_eq!(lost.category(), "store_fenced", "{lost:?}");
    let fenced = store.probe_write().await.unwrap_err();
    assert_eq!(fenced.category(), "store_fenced", "{fenced:?}");
    let found: i64 = shell.query_row("SELECT fence FROM meta", [], |row| row.get(0)).unwrap();
    assert_eq!(u64::try_from(found).unwrap(), own.0 + 1, "the probe has changed nothing");
}

// Finding S9
#[cfg(unix)]
#[tokio::test]
async fn nothing_is_written_to_a_file_that_is_not_at_its_path_until_it_is_back() {
    let scratch = scratch();
    let elsewhere = scratch.dir.path().join("elsewhere.db");
    let store = SqliteStore::open(&scratch.path).await.unwrap();
    store.apply(batch(&store, "s", [RowMutation::Head(head(0))])).await.unwrap();
    let fence = store.acquire(&key("s")).await.unwrap().fence;
    for replaced in [false, true] {
        std::fs::rename(&scratch.path, &elsewhere).unwrap();
        if replaced {
            std::fs::write(&scratch.path, "another file").unwrap();
        }
        assert_eq!(store.probe_write().await.unwrap_err().category(), "store_displaced", "{replaced}");
        let late = batch_under(fence, &key("s"), [RowMutation::Head(head(1))]);
        let refused = store.apply(late).await.unwrap_err();
        assert_eq!(refused.category(), "store_displaced", "{replaced}");
        std::fs::rename(&elsewhere, &scratch.path).unwrap();
        store.probe_write().await.unwrap();
    }
    store.apply(batch(&store, "s", [RowMutation::Head(head(2))])).await.unwrap();
    assert_eq!(store.read_session(&key("s")).await.unwrap().unwrap().head, head(2));
}
