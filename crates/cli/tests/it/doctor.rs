//! The doctor and the backup, over the real file.

use std::io::Write;
use std::path::Path;

use rusqlite::Connection;
use serde_json::Value;

use crate::home::{Home, kill};

fn harm(home: &Home, sql: &str) {
    Connection::open(home.db()).unwrap().execute_batch(sql).unwrap();
}

fn codes(document: &Value, list: &str) -> Vec<String> {
    let found = document[list].as_array().unwrap().iter();
    found.map(|it| it["code"].as_str().unwrap().to_owned()).collect()
}

// INV-2, INV-8
#[test]
fn harm_is_found_explained_and_mended() {
    let home = Home::new();
    assert_eq!(home.run(&["send", "send hello to Bob", "--session", "s"]).code, 3);
    let (code, document) = home.json(&["doctor"]);
    assert_eq!((code, &document["sessions"], codes(&document, "findings").len()), (0, &1.into(), 0));

    harm(&home, "DELETE FROM wait");
    let ran = home.run(&["doctor"]);
    assert_eq!((ran.code, ran.err.as_str()), (1, ""));
    for part in [
        "session s: suspended_without_wait (INV-8): turn 0 is suspended, and nothing waits for it\n",
        "  why it matters: nothing can ever answer it\n",
        "  --repair: ends the invocation as errored, its wait as cancelled\n",
        "1 sessions, 0 mended, 1 findings\n",
    ] {
        assert!(ran.out.contains(part), "{part:?} in {}", ran.out);
    }
    // Looking changes nothing.
    assert_eq!(home.run(&["doctor"]), ran);
    let (code, document) = home.json(&["doctor", "--repair"]);
    assert_eq!((code, codes(&document, "mended")), (0, vec!["suspended_without_wait".to_owned()]));
    assert_eq!(home.run(&["doctor"]).out, "1 sessions, 0 mended, 0 findings\n");
    // The call that was open is closed, and the conversation goes on.
    assert_eq!(home.run(&["send", "what is 6*7", "--session", "s"]).code, 0);
    assert_eq!(home.json(&["doctor"]).0, 0);
}

// INV-4
#[test]
fn what_cannot_be_mended_is_said_to_be_so_and_left_alone() {
    let home = Home::new();
    assert_eq!(home.run(&["send", "hello", "--session", "s"]).code, 0);
    harm(&home, "DELETE FROM item WHERE no = 1");
    let (code, document) = home.json(&["doctor", "--repair"]);
    assert_eq!((code, codes(&document, "mended").len()), (1, 0));
    assert!(codes(&document, "findings").contains(&"turn_replies_missing".to_owned()), "{document:#}");
    // The file itself: a row that hangs on nothing.
    let other = Home::new();
    assert_eq!(other.run(&["send", "hello", "--session", "s"]).code, 0);
    harm(&other, "PRAGMA foreign_keys = OFF; DELETE FROM session");
    let (code, document) = other.json(&["doctor"]);
    assert_eq!(code, 1, "{document:#}");
    assert!(document["file"][0].as_str().unwrap().contains("no session"), "{document:#}");
}

#[test]
fn a_doctor_who_cannot_read_says_so_and_makes_nothing() {
    let home = Home::new();
    for args in [["doctor"].as_slice(), &["doctor", "--repair"]] {
        let ran = home.run(args);
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{ran:?}");
        assert!(ran.err.starts_with("error: store_unavailable: "), "{}", ran.err);
        assert!(!home.db().exists());
    }
    assert_eq!(home.run(&["send", "hello", "--session", "s"]).code, 0);
    let holder = home.hold();
    assert_eq!(home.json(&["doctor"]).0, 0);
    let ran = home.run(&["doctor", "--repair"]);
    assert_eq!(ran.code, 2, "somebody serves it: {ran:?}");
    assert!(ran.err.starts_with("error: store_locked: "), "{}", ran.err);
    kill(holder);
}

// INV-2
#[test]
fn a_backup_during_load_is_a_whole_database() {
    let home = Home::new();
    assert_eq!(home.run(&["send", "hello", "--session", "first"]).code, 0);
    let mut chat = home.spawn(&["chat", "--session", "s"]);
    let mut stdin = chat.stdin.take().unwrap();
    for message in 0..200 {
        writeln!(stdin, "note: thing {message}").unwrap();
    }
    drop(stdin);
    let copies: Vec<_> = (0..3).map(|it| home.path().join(format!("copy-{it}.db"))).collect();
    let name = |it: &Path| it.to_str().unwrap().to_owned();
    for copy in &copies {
        let ran = home.run(&["backup", &name(copy)]);
        assert_eq!(
            (ran.code, ran.out.as_str()),
            (0, format!("copied to {}\n", name(copy)).as_str()),
            "{ran:?}"
        );
    }
    let busy = chat.try_wait().unwrap().is_none();
    kill(chat);
    assert!(busy, "the load was over before the backups were");
    for copy in &copies {
        let at = name(copy);
        // A turn that ran when the copy was made is resumed in the copy.
        let ran = home.run(&["send", "what is 6*7", "--session", "first", "--db", &at]);
        assert_eq!(ran.code, 0, "{ran:?}");
        let (code, document) = home.json(&["doctor", "--db", &at]);
        assert_eq!((code, codes(&document, "findings").len()), (0, 0), "{document:#}");
        let ran = home.run(&["backup", &at]);
        assert_eq!((ran.code, ran.out.as_str()), (4, ""), "an existing file is refused: {ran:?}");
        assert!(ran.err.starts_with("error: place_unavailable: "), "{}", ran.err);
    }
    let epoch = |db: &Path| {
        let db = Connection::open(db).unwrap();
        db.query_row("SELECT log_epoch FROM meta", [], |row| row.get::<_, String>(0)).unwrap()
    };
    assert_ne!(epoch(&copies[0]), epoch(&home.db()), "the logs go on apart");
    assert_eq!(home.run(&["backup", &name(&home.path().join("none/x.db"))]).code, 4);
}
