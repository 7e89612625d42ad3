//! Refused commands and their errors.

use serde_json::json;

use crate::home::{Home, kill};

// INV-1
#[test]
fn a_second_writer_is_told_who_the_first_one_is_and_readers_work_beside_it() {
    let home = Home::new();
    assert_eq!(home.run(&["send", "send hello to Bob", "--session", "s"]).code, 3);
    let holder = home.hold();
    let message = format!(
        "the database cannot be opened: the store is in use by process {}: singletree chat",
        holder.id()
    );
    let hint = format!(
        "one process writes to a database: stop process {} (singletree chat), then run this again",
        holder.id()
    );
    let document = home.path().join("document.json");
    std::fs::write(&document, home.run(&["sessions", "export", "s"]).out).unwrap();
    for args in [
        ["send", "hi"].as_slice(),
        &["answer", "x", "approve"],
        &["retry", "--session", "s"],
        &["sessions", "delete", "s"],
        &["sessions", "import", document.to_str().unwrap(), "--session", "t"],
        &["erase", "--subject", "ann"],
        &["chat"],
    ] {
        let ran = home.run(args);
        assert_eq!((ran.code, ran.out.as_str()), (4, ""), "{args:?}");
        assert_eq!(ran.err, format!("error: store_locked: {message}\nhint: {hint}\n"), "{args:?}");
    }
    let told = json!({ "error": { "category": "store_locked", "message": message, "hint": hint } });
    assert_eq!(home.json(&["cancel", "t"]), (4, told));

    let ran = home.run(&["restore", "some.backup"]);
    assert_eq!((ran.code, ran.out.as_str()), (2, ""));
    let hint = format!(
        "hint: restore to another --db; or stop process {} (singletree chat), and move this database away\n",
        holder.id()
    );
    assert!(ran.err.starts_with("error: file_exists: ") && ran.err.ends_with(&hint), "{}", ran.err);

    for args in [
        ["sessions", "list"].as_slice(),
        &["sessions", "show", "s"],
        &["sessions", "export", "s"],
        &["pending"],
    ] {
        let (code, document) = home.json(args);
        assert_eq!(code, 0, "{args:?}: {document}");
    }
    assert_eq!(home.json(&["pending"]).1["pending"][0]["session"], "s");
    kill(holder);
    let ran = home.run(&["restore", "some.backup"]);
    assert!(ran.err.ends_with("hint: restore to another --db, or move this database away\n"), "{}", ran.err);
    // Its end frees the database, however it came.
    assert_eq!(home.run(&["send", "hi", "--session", "t"]).code, 0);
}

#[test]
fn a_database_that_cannot_be_used_is_refused_by_category() {
    let home = Home::new();
    let path = |name: &str| home.path().join(name).to_str().unwrap().to_owned();
    let check = |args: &[&str], db: &str, category: &str| {
        let ran = home.run(&[args, &["--db", db]].concat());
        assert_eq!((ran.code, ran.out.as_str()), (4, ""), "{args:?}: {ran:?}");
        assert!(ran.err.starts_with(&format!("error: {category}: ")), "{args:?}: {}", ran.err);
        assert_eq!(ran.err.lines().count(), 1, "{}", ran.err);
    };
    let scribble = path("scribble.db");
    std::fs::write(&scribble, "this is no database, and long enough to be looked at as one. ".repeat(20))
        .unwrap();
    check(&["send", "hi"], &scribble, "store_corrupt");
    check(&["sessions", "list"], &scribble, "store_corrupt");
    let foreign = path("foreign.db");
    rusqlite::Connection::open(&foreign).unwrap().execute_batch("CREATE TABLE t (a)").unwrap();
    check(&["chat"], &foreign, "store_format_unsupported");
    check(&["pending"], &path("none.db"), "store_unavailable");
    check(&["send", "hi"], home.path().to_str().unwrap(), "store_unavailable");
    check(&["send", "hi"], &format!("{scribble}/x.db"), "place_unavailable");
}

#[test]
fn a_wrong_command_line_is_a_usage_error() {
    let home = Home::new();
    let check = |args: &[&str]| {
        let ran = home.run(args);
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{args:?}: {ran:?}");
        assert!(ran.err.starts_with("error: "), "{args:?}: {}", ran.err);
    };
    check(&["sing"]);
    check(&["send"]);
    check(&["send", "hi", "--loud"]);
    check(&["send", "hi", "--session", ""]);
    check(&["send", "hi", "--agent", "nobody"]);
    check(&["chat", "--agent", "nobody"]);
    check(&["chat", "--new", "--session", "s"]);
    check(&["answer", "x", "maybe"]);
    check(&["answer", "x", "[true]"]);
    check(&["cancel", "t.x"]);
    assert_eq!(home.run(&["sessions"]).code, 2);
    let ran = home.run(&[]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    assert!(ran.out.contains("Usage: singletree"), "{}", ran.out);
}
