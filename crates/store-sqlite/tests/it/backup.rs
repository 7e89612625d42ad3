//! Copies made while others write, and the damage that a check of the file finds.

use std::sync::atomic::{AtomicBool, Ordering};

use rusqlite::Connection;
use singletree_durable::{ItemRange, Journal, JournalMaintenance, RowMutation, StoredTurnStatus};
use singletree_store_sqlite::{Damage, SqliteStore};

use crate::made::{batch, head, item, key, scratch, store, turn};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_under_load_is_one_moment_of_the_database_and_opens() {
    let (scratch, store) = store().await;
    let stop = std::sync::Arc::new(AtomicBool::new(false));
    let answered = std::sync::Arc::new(std::sync::atomic::AtomicU64::new(0));
    let writing = {
        let (store, stop, answered) = (store.clone(), stop.clone(), answered.clone());
        tokio::spawn(async move {
            let mut no = 0;
            while !stop.load(Ordering::SeqCst) {
                // Version and item belong together: a copy has both or neither.
                let puts =
                    [RowMutation::Head(head(no + 1)), RowMutation::Item(item(no, &format!("\"{no:0900}\"")))];
                store.apply(batch(&store, "s", puts)).await.unwrap();
                no += 1;
                answered.store(no, Ordering::SeqCst);
            }
        })
    };
    while answered.load(Ordering::SeqCst) < 50 {
        tokio::task::yield_now().await;
    }
    let mut landed = Vec::new();
    for round in 0..3 {
        let before = answered.load(Ordering::SeqCst);
        let to = scratch.dir.path().join(format!("copy-{round}.db"));
        store.backup(&to).await.unwrap();
        let copy = SqliteStore::open(&to).await.unwrap();
        assert_eq!(copy.find_damage().await.unwrap(), []);
        let version = copy.read_session(&key("s")).await.unwrap().unwrap().head.version;
        let items = copy.read_items(&key("s"), &ItemRange::Numbers { from: 0, to: u64::MAX }).await.unwrap();
        assert!(version >= before, "{before} were answered before, {version} are in the copy");
        assert_eq!(items.len() as u64, version);
        landed.push(version);
    }
    stop.store(true, Ordering::SeqCst);
    writing.await.unwrap();
    assert!(landed.is_sorted(), "{landed:?}");
    assert!(answered.load(Ordering::SeqCst) > 50);
    assert_eq!(store.find_damage().await.unwrap(), []);
    let mut names: Vec<_> =
        std::fs::read_dir(scratch.dir.path()).unwrap().map(|it| it.unwrap().file_name()).collect();
    names.retain(|it| it.to_string_lossy().contains("partial"));
    assert!(names.is_empty(), "{names:?}");
}

#[tokio::test]
async fn a_backup_is_another_log_each_time_it_is_put_back_and_its_turns_are_ownerless() {
    let (scratch, store) = store().await;
    let open = RowMutation::Turn(singletree_durable::TurnRow {
        fence: store.read_newest_fence().await.unwrap(),
        ..turn(0, StoredTurnStatus::Accepted)
    });
    store.apply(batch(&store, "s", [RowMutation::Head(head(1)), open])).await.unwrap();
    let [first, second] = ["first.db", "second.db"].map(|it| scratch.dir.path().join(it));
    store.backup(&first).await.unwrap();
    std::fs::copy(&first, &second).unwrap();
    let looked_at = SqliteStore::open_read_only(&first).await.unwrap();
    let mut epochs = vec![store.log_epoch().to_owned(), looked_at.log_epoch().to_owned()];
    // A handle that only reads makes copies, too.
    let third = scratch.dir.path().join("third.db");
    looked_at.backup(&third).await.unwrap();
    looked_at.close().await;
    for path in [&first, &second, &third] {
        let copy = SqliteStore::open(path).await.unwrap();
        assert_eq!(copy.read_ownerless_turns(None, 9).await.unwrap().len(), 1);
        assert!(copy.read_newest_fence().await.unwrap() > store.read_newest_fence().await.unwrap());
        epochs.push(copy.log_epoch().to_owned());
        copy.close().await;
        assert_eq!(SqliteStore::open(path).await.unwrap().log_epoch(), epochs[epochs.len() - 1]);
    }
    let count = epochs.len();
    epochs.sort();
    epochs.dedup();
    assert_eq!(epochs.len(), count, "{epochs:?}");
}

#[tokio::test]
async fn a_backup_never_touches_what_is_there_and_leaves_nothing_when_it_fails() {
    let (scratch, store) = store().await;
    store.apply(batch(&store, "s", [RowMutation::Head(head(1))])).await.unwrap();
    let taken = scratch.dir.path().join("taken");
    for there in [&b""[..], b"mine"] {
        std::fs::write(&taken, there).unwrap();
        let refused = store.backup(&taken).await.unwrap_err();
        assert_eq!(refused.category(), "store_unavailable", "{refused:?}");
        assert_eq!(std::fs::read(&taken).unwrap(), there);
    }
    assert_eq!(store.backup(&scratch.path).await.unwrap_err().category(), "store_unavailable");
    let lost = scratch.dir.path().join("no/such/folder.db");
    assert_eq!(store.backup(&lost).await.unwrap_err().category(), "store_unavailable");

    let fresh = scratch.dir.path().join("fresh");
    std::fs::write(scratch.dir.path().join("fresh.partial"), b"another's").unwrap();
    store.backup(&fresh).await.unwrap_err();
    assert!(!fresh.exists());
    assert_eq!(std::fs::read(scratch.dir.path().join("fresh.partial")).unwrap(), b"another's");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let good = scratch.dir.path().join("good");
        store.backup(&good).await.unwrap();
        assert_eq!(good.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }
    store.close().await;
    assert_eq!(store.backup(scratch.dir.path().join("late")).await.unwrap_err().category(), "store_closed");
    assert_eq!(store.find_damage().await.unwrap_err().category(), "store_closed");
}

#[tokio::test]
async fn a_look_through_the_file_finds_what_nobody_here_could_have_written() {
    let scratch = scratch();
    let store = SqliteStore::open(&scratch.path).await.unwrap();
    let puts = [
        RowMutation::Head(head(1)),
        RowMutation::Item(item(0, "1")),
        RowMutation::Turn(turn(0, StoredTurnStatus::Completed)),
    ];
    store.apply(batch(&store, "s", puts)).await.unwrap();
    assert_eq!(store.find_damage().await.unwrap(), []);
    store.close().await;
    let damage = |sql: &str| {
        let file = Connection::open(&scratch.path).unwrap();
        file.execute_batch("PRAGMA foreign_keys = OFF; PRAGMA ignore_check_constraints = ON").unwrap();
        file.execute_batch(sql).unwrap();
    };
    damage("UPDATE item SET body = 'not json'");
    damage("INSERT INTO item (id, turn, body) VALUES (7 << 32, 0, '1')");
    damage("UPDATE turn SET agent = 99");
    damage("INSERT INTO field (session, name, value) VALUES (8, 'x', '1')");
    let store = SqliteStore::open(&scratch.path).await.unwrap();
    let found = store.find_damage().await.unwrap();
    let (changed, found): (Vec<_>, Vec<_>) =
        found.into_iter().partition(|damage| matches!(damage, Damage::Changed(_)));
    let rows = ["item 0 of session default/s", "item 0 of session ?", "turn 0 of session default/s"];
    let changed_rows = rows.into_iter().chain(["field x of session ?"]);
    assert_eq!(changed, changed_rows.map(|row| Damage::Changed(row.to_owned())).collect::<Vec<_>>());
    assert_eq!(
        found,
        [
            Damage::Integrity("CHECK constraint failed in item".to_owned()),
            Damage::Reference("field: no session for 1 rows".to_owned()),
            Damage::Reference("item: no session 7".to_owned()),
            Damage::Reference("turn: no name 99".to_owned()),
        ]
    );
}
