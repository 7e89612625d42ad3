//! Values that were changed or removed in the file, one kind after the other: the check of the file or the doctor finds
//! each of them (INV-2, INV-4, INV-8).

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use rusqlite::Connection;
use singletree_harness::StoreDoctor;
use singletree_store_sqlite::SqliteStore;

use crate::corpus::make;

/// The changes to the file, by name. Each changes at least one row.
const KINDS: &[(&str, &str)] = &[
    ("the text of a message", "UPDATE item SET body = replace(body, 'two', 'ten') WHERE body LIKE '%two%'"),
    ("the role of a message", "UPDATE item SET body = replace(body, 'assistant', 'user') WHERE no = 1"),
    ("the turn of a message", "UPDATE item SET turn = turn + 1 WHERE no = 1"),
    ("a side record", "UPDATE item SET side = '{\"speaker\":\"me\"}' WHERE no = 1"),
    (
        "the order of two messages",
        "UPDATE item SET seq = seq + 100 WHERE seq = 0; \
        UPDATE item SET seq = 0 WHERE seq = 1; UPDATE item SET seq = 1 WHERE seq = 100",
    ),
    ("a message removed", "DELETE FROM item WHERE seq = 1"),
    (
        "the newest message removed, and the list shortened",
        "DELETE FROM item WHERE seq = 3; UPDATE field SET len = 3 WHERE len = 4",
    ),
    (
        "a told message removed from the log",
        "DELETE FROM event WHERE kind = (SELECT id FROM name WHERE text = 'message.appended')",
    ),
    (
        "one told message removed from the log",
        "DELETE FROM event WHERE id = (SELECT max(e.id) FROM event e \
        JOIN name n ON n.id = e.kind WHERE n.text = 'message.appended')",
    ),
    (
        "the end of a turn removed from the log",
        "DELETE FROM event WHERE kind = (SELECT id FROM name WHERE text = 'turn.completed')",
    ),
    (
        "the beginning of a turn removed from the log",
        "DELETE FROM event WHERE seq > 0 AND kind = (SELECT id FROM name WHERE text = 'turn.accepted')",
    ),
    ("the item of an event", "UPDATE event SET item = item - 1 WHERE item > 0"),
    ("the time of an event", "UPDATE event SET at = at + 1"),
    ("the body of an event", "UPDATE event SET body = '{\"k\":7}' WHERE body IS NOT NULL"),
    ("a key", "UPDATE turn SET key = 'other' WHERE key = 'k2'"),
    ("a key removed with its digest", "UPDATE turn SET key = NULL, digest = NULL WHERE key = 'k2'"),
    ("a digest", "UPDATE turn SET digest = 'other' WHERE key = 'k2'"),
    (
        "the outcome of a turn",
        "UPDATE turn SET outcome = json_set(outcome, '$.x', 1) WHERE outcome IS NOT NULL",
    ),
    ("the fence of a turn", "UPDATE turn SET fence = fence - 1"),
    ("the deaths of a turn", "UPDATE turn SET deaths = 2"),
    ("the time of a turn", "UPDATE turn SET accepted_at = accepted_at - 1000"),
    ("the turn that a turn retries", "UPDATE turn SET retries = 0 WHERE no = 1"),
    ("the agent of a turn", "UPDATE turn SET agent = graph"),
    ("a turn removed", "DELETE FROM turn WHERE no = 0"),
    ("the answer of a wait", "UPDATE wait SET answer = '{\"approved\":true}'"),
    ("who answered a wait", "UPDATE wait SET answered_by = 'mallory'"),
    ("the action of a wait", "UPDATE wait SET action = 'other'"),
    ("the deadline of a wait", "UPDATE wait SET deadline = 1"),
    ("the metadata of a wait", "UPDATE wait SET metadata = '{}'"),
    ("a pending wait removed", "DELETE FROM wait"),
    ("where a turn stands", "UPDATE position SET body = json_set(body, '$.version', 9)"),
    ("where a turn stands removed", "DELETE FROM position"),
    ("an early signal", "UPDATE mail SET payload = '{\"approved\":false}'"),
    ("who sent an early signal", "UPDATE mail SET sent_by = 'mallory'"),
    ("the value of a field", "UPDATE field SET value = '[7]' WHERE value IS NOT NULL"),
    ("the length of a list", "UPDATE field SET len = len - 1 WHERE len > 1"),
    ("the bytes of a list", "UPDATE field SET bytes = bytes + 1 WHERE len > 1"),
    ("the version of a session", "UPDATE session SET version = version + 1"),
    ("the agent of a session", "UPDATE session SET agent = graph"),
    ("the prompt policy of a session", "UPDATE session SET prompt_policy = 'command'"),
    ("a counter lowered", "UPDATE session SET next_event = 1"),
    ("the use of a model", "UPDATE usage SET prompt_tokens = prompt_tokens - 1"),
    ("the use of a model in a session removed", "DELETE FROM usage WHERE session <> ''"),
    ("the use of a model by a tenant removed", "DELETE FROM usage WHERE session = ''"),
    ("a document", "UPDATE document SET body = '{\"kept\":false}'"),
    ("the owner of a document", "UPDATE document SET session = NULL WHERE session IS NOT NULL"),
    ("a blob removed", "DELETE FROM blob"),
    ("the fence", "UPDATE meta SET fence = fence + 7"),
    ("the epoch", "UPDATE meta SET log_epoch = '0000000000000000'"),
    ("a checksum removed", "UPDATE item SET checksum = NULL WHERE no = 1"),
    ("a checksum", "UPDATE turn SET checksum = checksum + 1"),
];

/// Returns the findings of the file's check and of the doctor, in words.
async fn found(path: &Path) -> Vec<String> {
    let store = SqliteStore::open_read_only(path).await.unwrap();
    assert_eq!(store.count_unchecked_rows().await.unwrap(), Some(0));
    let mut found: Vec<String> = store.find_damage().await.unwrap().iter().map(ToString::to_string).collect();
    let doctor = StoreDoctor::new(Arc::new(store.clone()), Arc::new(store.clone()));
    match doctor.examine().await {
        Ok(examined) => found.extend(examined.findings.into_iter().map(|it| it.what)),
        Err(error) => found.push(error.to_string()),
    }
    store.close().await;
    found
}

#[tokio::test]
async fn every_kind_of_tampering_is_found_and_nothing_in_an_untouched_file() {
    let folder = tempfile::tempdir().unwrap();
    let whole = folder.path().join("whole.db");
    make(&whole).await;
    assert_eq!(found(&whole).await, [""; 0], "an untouched file");
    let mut missed = Vec::new();
    for (name, sql) in KINDS {
        let path = folder.path().join("tampered.db");
        std::fs::copy(&whole, &path).unwrap();
        let file = Connection::open(&path).unwrap();
        file.execute_batch("PRAGMA foreign_keys = OFF").unwrap();
        let before: i64 = file.query_row("SELECT total_changes()", [], |row| row.get(0)).unwrap();
        file.execute_batch(sql).unwrap();
        let after: i64 = file.query_row("SELECT total_changes()", [], |row| row.get(0)).unwrap();
        assert!(after > before, "{name}: nothing was changed");
        drop(file);
        if found(&path).await.is_empty() {
            missed.push(name);
        }
        std::fs::remove_file(&path).unwrap();
    }
    assert_eq!(missed, [&""; 0]);
    assert!(KINDS.len() >= 24);
    // For the deep run, which tells the number.
    writeln!(std::io::stdout(), "tampering: {} kinds", KINDS.len()).unwrap();
}
