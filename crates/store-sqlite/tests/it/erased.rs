//! Names of deleted sessions are kept as keyed hashes (D25).

use rusqlite::Connection;
use singletree_durable::{AuditRow, BatchPrecondition, Counters, Error, Journal, RowMutation, TurnRowQuery};
use singletree_store_sqlite::{ErasedName, ErasureList, SqliteStore};

use crate::made::{at, batch, counters, head, key, scratch, store};

const OLD: [&str; 3] = [
    include_str!("../../src/schema/v1.sql"),
    include_str!("../../src/schema/v2.sql"),
    include_str!("../../src/schema/v3.sql"),
];

fn holds(scratch: &crate::made::Scratch, word: &str) -> bool {
    let files = std::fs::read_dir(scratch.dir.path()).unwrap();
    let bytes = files.map(|it| std::fs::read(it.unwrap().path()).unwrap());
    bytes.into_iter().any(|it| it.windows(word.len()).any(|it| it == word.as_bytes()))
}

// D25
#[tokio::test]
async fn a_deleted_session_leaves_no_name_and_its_numbers_go_on() {
    let (scratch, store) = store().await;
    let left = counters(3);
    let row = AuditRow {
        at: at(1),
        action: "session.deleted".into(),
        key: key("name-xyzzy"),
        by: Some("by-xyzzy".into()),
    };
    store
        .apply(batch(&store, "name-xyzzy", [RowMutation::Head(head(1)), RowMutation::Counters(left)]))
        .await
        .unwrap();
    store.apply(batch(&store, "name-xyzzy", [RowMutation::Delete, RowMutation::Audit(row)])).await.unwrap();
    assert_eq!(store.read_counters(&key("name-xyzzy")).await.unwrap(), left);
    assert_eq!(store.read_counters(&key("another")).await.unwrap(), Counters::default());
    store.close().await;
    assert!(!holds(&scratch, "xyzzy"));

    let store = SqliteStore::open(&scratch.path).await.unwrap();
    store.apply(batch(&store, "name-xyzzy", [RowMutation::Head(head(1))])).await.unwrap();
    let anew = store.read_session(&key("name-xyzzy")).await.unwrap().unwrap();
    assert_eq!(anew.counters, left, "the numbers go on");
}

// D25, INV-13
#[tokio::test]
async fn names_that_an_older_format_kept_are_replaced_by_their_hashes() {
    let scratch = scratch();
    let file = Connection::open(&scratch.path).unwrap();
    for step in OLD {
        file.execute_batch(step).unwrap();
    }
    file.execute_batch(
        "PRAGMA application_id = 0x73696e67; PRAGMA user_version = 3;
         INSERT INTO former VALUES ('default', 'name-xyzzy', 3, 6, 12, 0);
         INSERT INTO audit (at, action, tenant, session, done_by)
         VALUES (1, 'session.deleted', 'default', 'name-xyzzy', 'by-xyzzy');",
    )
    .unwrap();
    drop(file);
    // A file that is only read stays as it is, and tells the numbers.
    let reader = SqliteStore::open_read_only(&scratch.path).await.unwrap();
    assert_eq!(reader.read_counters(&key("name-xyzzy")).await.unwrap(), counters(3));
    assert!(reader.read_turns(&key("name-xyzzy"), &TurnRowQuery::Open).await.unwrap().is_empty());
    reader.close().await;
    let store = SqliteStore::open(&scratch.path).await.unwrap();
    assert_eq!(store.read_counters(&key("name-xyzzy")).await.unwrap(), counters(3));
    store.close().await;
    let file = Connection::open(&scratch.path).unwrap();
    let kept: (String, String, String) = file
        .query_row("SELECT f.session, a.session, a.done_by FROM former f, audit a", [], |it| {
            Ok((it.get(0)?, it.get(1)?, it.get(2)?))
        })
        .unwrap();
    assert_eq!((kept.0.len(), kept.2.len()), (64, 64));
    assert_eq!(kept.0, kept.1, "one name has one hash");
}

// D25, INV-3: only the deletion needs the list.
#[tokio::test]
async fn where_the_list_cannot_be_written_the_deletion_fails_and_the_other_commits_of_its_group_stay() {
    let scratch = scratch();
    let store = SqliteStore::options(&scratch.path).list_erasures().open().await.unwrap();
    let make = |name: &str| batch(&store, name, [RowMutation::Head(head(1))]);
    let delete = || {
        let (action, key) = ("session.deleted".into(), key("deleted"));
        let row = AuditRow { at: at(7), action, key, by: None };
        batch(&store, "deleted", [RowMutation::Delete, RowMutation::Audit(row)])
    };
    store.apply(make("deleted")).await.unwrap();
    let list = ErasureList::path_beside(&scratch.path);
    std::fs::create_dir(&list).unwrap();

    // While somebody else writes, the writes that are handed over gather to a group.
    let commits = store.commit_count();
    let other = Connection::open(&scratch.path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let first = store.apply(make("first"));
    let before = store.apply(make("before"));
    let deletion = store.apply(delete());
    let keys = store.list_erased(vec![ErasedName::Session(key("other"))], at(8));
    let renewal = store.apply(make("deleted").require(BatchPrecondition::SessionAbsent));
    let after = store.apply(make("after"));
    other.execute_batch("ROLLBACK").unwrap();
    assert!(first.await.is_ok() && before.await.is_ok() && after.await.is_ok());
    for failed in [deletion.await, keys.await] {
        assert!(matches!(failed, Err(Error::Unavailable { .. })), "{failed:?}");
    }
    let refused = renewal.await;
    assert!(matches!(refused, Err(Error::Refused { .. })), "the session was not deleted: {refused:?}");
    assert!(store.commit_count() - commits <= 2, "they share commits");
    for name in ["deleted", "first", "before", "after"] {
        assert!(store.read_session(&key(name)).await.unwrap().is_some(), "{name}");
    }

    std::fs::remove_dir(&list).unwrap();
    store.apply(delete()).await.unwrap();
    assert!(store.read_session(&key("deleted")).await.unwrap().is_none());
    let list = ErasureList::read_from_file(list).unwrap();
    assert_eq!(list.erased_at(&ErasedName::Session(key("deleted"))), Some(at(7)));
    assert_eq!(list.erased_at(&ErasedName::Session(key("other"))), None);
}

// D25: a deletion that a full disk does not let be listed is refused by that category, and made once there is room.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn where_the_disk_of_the_list_is_full_the_deletion_is_refused_as_such() {
    let scratch = scratch();
    let store = SqliteStore::options(&scratch.path).list_erasures().open().await.unwrap();
    let delete = || {
        let row = AuditRow { at: at(7), action: "session.deleted".into(), key: key("deleted"), by: None };
        batch(&store, "deleted", [RowMutation::Delete, RowMutation::Audit(row)])
    };
    store.apply(batch(&store, "deleted", [RowMutation::Head(head(1))])).await.unwrap();
    let list = ErasureList::path_beside(&scratch.path);
    std::os::unix::fs::symlink("/dev/full", &list).unwrap();
    for _ in 0..2 {
        let refused = store.apply(delete()).await;
        assert!(matches!(refused, Err(Error::Full { .. })), "{refused:?}");
        assert!(store.read_session(&key("deleted")).await.unwrap().is_some());
    }
    std::fs::remove_file(&list).unwrap();
    store.apply(delete()).await.unwrap();
    assert!(store.read_session(&key("deleted")).await.unwrap().is_none());
    let list = ErasureList::read_from_file(list).unwrap();
    assert_eq!(list.erased_at(&ErasedName::Session(key("deleted"))), Some(at(7)));
}
