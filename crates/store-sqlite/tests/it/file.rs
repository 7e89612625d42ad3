//! Files that are not ours, or not whole, are refused by category and left as they are (INV-13).

use std::path::Path;

use rusqlite::Connection;
use singletree_durable::Journal;
use singletree_store_sqlite::SqliteStore;

use crate::made::{scratch, store};

async fn check(path: &Path, category: &str) {
    let before = std::fs::read(path).unwrap();
    for error in [
        SqliteStore::open(path).await.map(drop).unwrap_err(),
        SqliteStore::open_read_only(path).await.unwrap_err(),
    ] {
        assert_eq!(error.category(), category, "{}: {error}", path.display());
    }
    assert!(std::fs::read(path).unwrap() == before, "{} was changed", path.display());
}

#[tokio::test]
async fn foreign_newer_and_broken_files_are_refused_and_left_unchanged() {
    let scratch = scratch();
    let named = |name: &str| scratch.dir.path().join(name);
    let make = |name: &str, sql: &str| {
        let path = named(name);
        Connection::open(&path).unwrap().execute_batch(sql).unwrap();
        path
    };
    let foreign = "CREATE TABLE theirs (x); INSERT INTO theirs VALUES (1);";
    check(&make("unmarked", foreign), "store_format_unsupported").await;
    check(&make("marked", &format!("{foreign} PRAGMA application_id = 77;")), "store_format_unsupported")
        .await;
    check(&make("versioned", &format!("{foreign} PRAGMA user_version = 1;")), "store_format_unsupported")
        .await;
    check(&make("wal", &format!("PRAGMA journal_mode = WAL; {foreign}")), "store_format_unsupported").await;

    let ours = named("newer");
    SqliteStore::open(&ours).await.unwrap().close().await;
    Connection::open(&ours).unwrap().execute_batch("PRAGMA user_version = 5").unwrap();
    check(&ours, "store_format_unsupported").await;
    let refused = SqliteStore::open(&ours).await.unwrap_err().to_string();
    assert_eq!(refused, "the store has format version 5, and this version knows version 4");

    for (name, bytes) in [("text", &b"dear diary"[..]), ("long", &[7; 9000][..])] {
        std::fs::write(named(name), bytes).unwrap();
        check(&named(name), "store_corrupt").await;
    }
    let damaged = named("damaged");
    SqliteStore::open(&damaged).await.unwrap().close().await;
    let mut bytes = std::fs::read(&damaged).unwrap();
    bytes[100..2048].fill(0xa5);
    std::fs::write(&damaged, &bytes).unwrap();
    check(&damaged, "store_corrupt").await;
}

#[tokio::test]
async fn an_empty_file_is_made_ours_with_every_setting_and_a_missing_folder_is_an_error() {
    let scratch = scratch();
    std::fs::write(&scratch.path, b"").unwrap();
    assert_eq!(
        SqliteStore::open_read_only(&scratch.path).await.unwrap_err().category(),
        "store_format_unsupported"
    );
    let store = SqliteStore::open(&scratch.path).await.unwrap();
    assert_eq!((store.read_newest_fence().await.unwrap().0, store.log_epoch().len()), (1, 16));
    let file = Connection::open(&scratch.path).unwrap();
    let pragma = |name: &str| -> String {
        file.query_row(&format!("SELECT \"{name}\" || '' FROM pragma_{name}"), [], |it| it.get(0)).unwrap()
    };
    let found = ["page_size", "journal_mode", "application_id", "user_version"].map(pragma);
    assert_eq!(found, ["2048", "wal", "1936289383", "4"]);
    let loose = "SELECT count(*) FROM pragma_table_list \
                 WHERE type = 'table' AND NOT strict AND name NOT LIKE 'sqlite_%'";
    let loose: i64 = file.query_row(loose, [], |it| it.get(0)).unwrap();
    assert_eq!(loose, 0, "tables that are not STRICT");

    let lost = scratch.dir.path().join("no/such/folder.db");
    for error in
        [SqliteStore::open(&lost).await.unwrap_err(), SqliteStore::open_read_only(&lost).await.unwrap_err()]
    {
        assert_eq!(error.category(), "store_unavailable");
    }
    assert_eq!(SqliteStore::open(scratch.dir.path()).await.unwrap_err().category(), "store_unavailable");
}

#[cfg(unix)]
#[tokio::test]
async fn only_the_owner_can_read_what_is_made() {
    use std::os::unix::fs::PermissionsExt;
    let (scratch, _store) = store().await;
    for name in ["store.db", "store.db-wal", "store.db-shm", "store.db.lock"] {
        let mode = scratch.dir.path().join(name).metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
}

#[tokio::test]
async fn two_files_have_two_epochs() {
    let (_one, first) = store().await;
    let (_two, second) = store().await;
    assert_ne!(first.log_epoch(), second.log_epoch());
}
