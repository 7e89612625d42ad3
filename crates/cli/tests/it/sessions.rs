//! Sessions: which is the last, and the commands for them.

use serde_json::{Value, json};

use crate::home::Home;

fn names(home: &Home) -> Vec<String> {
    let (code, document) = home.json(&["sessions", "list"]);
    assert_eq!(code, 0);
    let sessions = document["sessions"].as_array().unwrap();
    sessions.iter().map(|it| it["session"].as_str().unwrap().to_owned()).collect()
}

fn sent_to(home: &Home, args: &[&str]) -> String {
    let (code, document) = home.json(&[&["send", "thanks"], args].concat());
    assert_eq!(code, 0, "{document}");
    document["session"].as_str().unwrap().to_owned()
}

#[test]
fn the_last_session_is_remembered_until_it_is_deleted() {
    let home = Home::new();
    let first = sent_to(&home, &[]);
    assert_eq!(sent_to(&home, &[]), first);
    assert_eq!(sent_to(&home, &["--session", "a"]), "a");
    assert_eq!(sent_to(&home, &[]), "a");
    assert_eq!(home.feed(&["chat", "--new"], "hi\n").code, 0);
    let third = sent_to(&home, &[]);
    let mut expected = vec!["a".to_owned(), first, third.clone()];
    expected.sort();
    assert_eq!(names(&home), expected);
    assert_eq!(home.run(&["sessions", "delete", &third]).out, format!("deleted: {third}\n"));
    assert!(!expected.contains(&sent_to(&home, &[])));
}

#[test]
fn a_session_moves_from_one_database_to_another_whole() {
    let (home, other) = (Home::new(), Home::new());
    assert_eq!(home.feed(&["chat", "--session", "s"], "my name is Ann\nwhat is 6*7\n").code, 0);
    let exported = home.run(&["sessions", "export", "s"]);
    assert_eq!((exported.code, exported.err.as_str()), (0, ""));
    let file = other.path().join("s.json");
    std::fs::write(&file, &exported.out).unwrap();
    let file = file.to_str().unwrap();
    assert_eq!(other.json(&["sessions", "import", file]), (0, json!({ "imported": "s" })));
    assert_eq!(
        other.feed(&["sessions", "import", "-", "--session", "t"], &exported.out).out,
        "imported: t\n"
    );
    let (code, document) = other.json(&["sessions", "import", file]);
    assert_eq!((code, &document["error"]["category"]), (1, &json!("chat_session_exists")), "{document}");
    let document =
        |home: &Home| serde_json::from_str::<Value>(&home.run(&["sessions", "export", "s"]).out).unwrap();
    assert_eq!(document(&other), document(&home));
    let ran = other.run(&["send", "what is my name", "--session", "t"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "Your name is Ann.\n"));
    let ran = other.feed(&["sessions", "import", "-", "--json"], "{}");
    assert_eq!((ran.code, ran.out.contains("document_invalid")), (1, true), "{ran:?}");
}

#[test]
fn a_session_is_shown_with_its_history() {
    let home = Home::new();
    assert_eq!(home.run(&["send", "what is 6*7", "--session", "s"]).code, 0);
    let ran = home.run(&["sessions", "show", "s"]);
    let (head, rest) = ran.out.split_once('\n').unwrap();
    assert!(head.starts_with("s  demo  made "), "{head}");
    assert_eq!(rest, "you> what is 6*7\n  * calculator {\"expression\":\"6*7\"}\n  = 42\n6*7 = 42\n");
    let (_, shown) = home.json(&["sessions", "show", "s"]);
    let roles: Vec<&Value> =
        shown["history"].as_array().unwrap().iter().map(|it| &it["message"]["role"]).collect();
    assert_eq!(roles, ["user", "assistant", "tool", "assistant"]);
    assert_eq!(
        [&shown["session"], &shown["agent"], &shown["messages"]],
        [&json!("s"), &json!("demo"), &json!(4)]
    );
    let (code, document) = home.json(&["sessions", "show", "t"]);
    let (category, message) = ("chat_session_unknown", "there is no session 't'");
    let hint = "list the conversations, or make one of this name by sending a message";
    assert_eq!(
        (code, document),
        (1, json!({ "error": { "category": category, "message": message, "hint": hint } }))
    );
}

#[cfg(unix)]
#[test]
fn what_is_kept_is_for_its_user_alone() {
    use std::os::unix::fs::PermissionsExt;
    let home = Home::new();
    sent_to(&home, &[]);
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&home.folder()), 0o700);
    for file in std::fs::read_dir(home.folder()).unwrap() {
        let path = file.unwrap().path();
        assert_eq!(mode(&path), 0o600, "{}", path.display());
    }
}

#[test]
fn failed_turns_that_are_not_shown_are_counted() {
    let home = Home::new();
    assert_eq!(home.feed(&["chat", "--session", "s"], &"fail\n".repeat(1002)).code, 1);
    let (_, shown) = home.json(&["sessions", "show", "s"]);
    assert_eq!(shown["failed"].as_array().unwrap().len(), 1000);
    assert_eq!(shown["failed_before"], 2);
    let ran = home.run(&["sessions", "show", "s"]);
    let line = ran.out.lines().nth(1).unwrap();
    assert_eq!(line, "(2 failed turns before the ones below are not shown)");
    assert_eq!(home.run(&["send", "fail", "--session", "t"]).code, 1);
    let (_, shown) = home.json(&["sessions", "show", "t"]);
    assert_eq!((shown["failed"].as_array().unwrap().len(), shown.get("failed_before")), (1, None));
}
