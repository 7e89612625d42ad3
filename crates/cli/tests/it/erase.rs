//! Erasing a person or a tenant: nothing of it stays in the folder, and no backup brings it back (D25).

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::{Value, json};

use crate::home::{BINARY, Home};
use crate::serving::Serving;

/// A word that only the erased person uses.
const CANARY: &str = "xyzzy7731";
/// The names of the erased person and of its conversations.
const NAMES: [&str; 3] = [CANARY, "ann-4242", "about-ann"];

fn say(server: &Serving, subject: &str, session: &str, text: &str) {
    let path = format!("/v1/sessions/{session}/messages");
    let answer = server.ask_for(subject, &path, &json!({ "content": text }));
    assert_eq!(answer["status"], "completed", "{answer}");
}

fn sessions(home: &Home) -> Vec<String> {
    let (code, listed) = home.json(&["sessions", "list"]);
    assert_eq!(code, 0);
    listed["sessions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["session"].as_str().unwrap().to_owned())
        .collect()
}

/// Returns the files of a folder that hold one of these words.
fn holding(folder: &Path, words: &[&str]) -> Vec<PathBuf> {
    let files = fs::read_dir(folder).unwrap().map(|it| it.unwrap().path()).filter(|it| it.is_file());
    let holds = |path: &PathBuf| {
        let bytes = fs::read(path).unwrap();
        words.iter().any(|word| bytes.windows(word.len()).any(|it| it == word.as_bytes()))
    };
    files.filter(holds).collect()
}

/// Removes the database as a disk that dies does; the list beside it stays.
fn lose(home: &Home) {
    for ending in ["", "-wal", "-shm"] {
        let path = PathBuf::from(format!("{}{ending}", home.db().display()));
        if path.exists() {
            fs::remove_file(path).unwrap();
        }
    }
}

// D25
#[test]
fn what_is_erased_for_a_person_is_in_no_file_and_no_restored_backup() {
    let home = Home::new();
    let server = Serving::start(&home, &[]);
    say(&server, "ann-4242", "about-ann", &format!("my name is {CANARY}"));
    say(&server, "bob", "about-bob", "my name is Bob");
    say(&server, "bob", "deleted", "thanks");
    server.stop();
    let fork = home.run(&["fork", "about-ann"]).out.trim().to_owned();
    let (_, key) = home.json(&["keys", "create", "--name", "lost"]);
    let key = key["key"]["id"].as_str().or(key["id"].as_str()).unwrap().to_owned();
    let backup = home.path().join("backup.db").display().to_string();
    assert_eq!(home.run(&["backup", &backup]).code, 0);
    assert!(!holding(&home.folder(), &NAMES).is_empty() && !holding(home.path(), &NAMES).is_empty());

    assert_eq!(home.run(&["sessions", "delete", "deleted"]).code, 0);
    assert_eq!(home.run(&["keys", "revoke", &key]).code, 0);
    assert_eq!(home.run(&["erase", "--subject", "ann-4242"]).out, "erased: 2 conversations\n");
    assert_eq!(home.run(&["erase", "--subject", "ann-4242"]).out, "erased: 0 conversations\n");
    assert_eq!(sessions(&home), ["about-bob"]);
    assert_eq!(holding(&home.folder(), &[&NAMES[..], &[&fork]].concat()), [] as [PathBuf; 0]);
    assert_eq!(home.run(&["doctor"]).code, 0);

    assert_eq!(home.run(&["restore", &backup]).code, 2, "a database that is there stays");
    lose(&home);
    let missing = home.run(&["restore", &backup, "--erased", "no-such-list"]);
    assert_eq!(missing.code, 2, "without the list, erased data would come back: {}", missing.out);
    // The draft of a restore that crashed.
    fs::write(home.folder().join("singletree.db.restoring"), "half").unwrap();
    let restored = home.run(&["restore", &backup]);
    let told = format!("restored to {}\nleft out, since it was erased: 4\n", home.db().display());
    assert_eq!((restored.out, restored.err), (told, String::new()));
    assert_eq!(sessions(&home), ["about-bob"]);
    assert_eq!(holding(&home.folder(), &[&NAMES[..], &[&fork]].concat()), [] as [PathBuf; 0]);
    let (_, keys) = home.json(&["keys", "list"]);
    assert_eq!(keys[0]["state"], "revoked", "{keys}");
    assert_eq!(home.run(&["doctor"]).code, 0);
}

/// A server with a file for narration and an endpoint that takes nothing, so that deliveries stay.
const KEEPING: &str = r#"
[models.script]
wire = "script"
file = "script.json"

[agents.keeper]
instructions = "Keep what you are told."
tools = ["outbox"]

[server]
narration_file = "told.jsonl"

[notify.default]
url = "http://127.0.0.1:1/"
secret = { env = "NOTIFY_SECRET" }
private_network = true
"#;

/// Returns the files below a folder that hold one of these words.
fn holding_below(folder: &Path, words: &[&str]) -> Vec<PathBuf> {
    let mut found = holding(folder, words);
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(holding_below(&path, words));
        }
    }
    found
}

// D25
#[test]
fn nothing_of_an_erased_person_stays_in_narration_deliveries_artifacts_or_logs() {
    let home = Home::new();
    let script = json!({ "model": "x", "rules": [
        { "when": { "user": ["my name is {text}"] },
          "then": { "calls": [{ "tool": "send_message", "arguments": { "to": "{text}", "body": "{text}" } }] } },
    ]});
    fs::write(home.path().join("script.json"), script.to_string()).unwrap();
    fs::write(home.path().join("singletree.toml"), KEEPING).unwrap();
    let log = home.path().join("log.jsonl");
    let mut command = home.command(BINARY);
    command.current_dir(home.path()).args(["serve", "--listen", "127.0.0.1:0"]);
    command.env("NOTIFY_SECRET", "0123456789abcdef0123456789abcdef");
    command.stdout(Stdio::piped()).stderr(fs::File::create(&log).unwrap());
    let server = Serving::of(command.spawn().unwrap());
    let path = "/v1/sessions/about-ann/messages";
    let answer = server.ask_for("ann-4242", path, &json!({ "content": format!("my name is {CANARY}") }));
    assert_eq!(answer["status"], "suspended", "{answer}");
    let artifact = json!({ "kind": "plan", "key": "a", "content": CANARY });
    let kept = server.ask_for("ann-4242", "/v1/sessions/about-ann/artifacts", &artifact);
    assert_eq!(kept["key"], "a", "{kept}");
    server.stop();
    let told = home.path().join("told.jsonl");
    assert!(fs::read_to_string(&told).unwrap().contains("about-ann"), "narration was written");
    let db = rusqlite::Connection::open(home.db()).unwrap();
    let deliveries = "SELECT count(*) FROM document WHERE CAST(body AS TEXT) LIKE '%about-ann%'";
    let deliveries: u32 = db.query_row(deliveries, [], |row| row.get(0)).unwrap();
    assert!(deliveries > 0, "something waits to be delivered");
    drop(db);

    let config = home.path().join("singletree.toml").display().to_string();
    let mut erase = home.command(BINARY);
    erase.args(["erase", "--subject", "ann-4242", "--config", &config]);
    let ran = erase.env("NOTIFY_SECRET", "0123456789abcdef0123456789abcdef").output().unwrap();
    let erased = [ran.stdout, ran.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    assert_eq!(erased, ["erased: 1 conversation\n", ""]);
    // A log names sessions by their id, as operators need it, and nothing that was said or who said it.
    let text = fs::read_to_string(&log).unwrap();
    assert!(!text.contains(CANARY) && !text.contains("ann-4242"), "{text}");
    fs::remove_file(&log).unwrap();
    assert_eq!(holding_below(home.path(), &NAMES), [] as [PathBuf; 0]);
}

// D25
#[test]
fn what_is_deleted_or_revoked_over_http_is_in_no_restored_backup() {
    let home = Home::new();
    let (_, key) = home.json(&["keys", "create", "--name", "lost"]);
    let key = key["key"]["id"].as_str().or(key["id"].as_str()).unwrap().to_owned();
    let server = Serving::start(&home, &[]);
    say(&server, "bob", "deleted", "thanks");
    say(&server, "bob", "kept", "thanks");
    let backup = home.path().join("backup.db").display().to_string();
    assert_eq!(home.run(&["backup", &backup]).code, 0);
    server.ask("DELETE", "/v1/sessions/deleted", &Value::Null);
    server.ask("DELETE", "/v1/sessions/never-there", &Value::Null);
    // The running server is asked to revoke it.
    assert_eq!(home.run(&["keys", "revoke", &key]).code, 0);
    server.stop();
    let list = fs::read_to_string(format!("{}.erased", home.db().display())).unwrap();
    assert_eq!(list.lines().filter(|line| !line.is_empty()).count(), 3, "a key and two names: {list}");

    lose(&home);
    let restored = home.run(&["restore", &backup]);
    assert!(restored.out.ends_with("left out, since it was erased: 2\n"), "{}", restored.out);
    assert_eq!(sessions(&home), ["kept"]);
    let (_, keys) = home.json(&["keys", "list"]);
    assert_eq!(keys[0]["state"], "revoked", "{keys}");
}

// D25
#[test]
fn a_conversation_that_began_anew_after_a_deletion_is_restored() {
    let home = Home::new();
    for args in [&["send", "thanks", "--session", "s"][..], &["sessions", "delete", "s"]] {
        assert_eq!(home.run(args).code, 0);
    }
    assert_eq!(home.run(&["send", "hello again", "--session", "s"]).code, 0);
    let backup = home.path().join("backup.db").display().to_string();
    assert_eq!(home.run(&["backup", &backup]).code, 0);
    lose(&home);
    assert_eq!(home.run(&["restore", &backup]).code, 0);
    assert_eq!(sessions(&home), ["s"]);
}

// D25
#[test]
fn a_tenant_that_began_anew_after_its_erasure_is_restored_with_its_keys() {
    let home = Home::new();
    let create = || assert_eq!(home.run(&["keys", "create", "--name", "anew", "--tenant", "t"]).code, 0);
    create();
    assert_eq!(home.run(&["erase", "--tenant", "t"]).code, 0);
    create();
    let backup = home.path().join("backup.db").display().to_string();
    assert_eq!(home.run(&["backup", &backup]).code, 0);
    lose(&home);
    assert_eq!(home.run(&["restore", &backup]).code, 0);
    let (_, keys) = home.json(&["keys", "list", "--tenant", "t"]);
    assert_eq!(keys.as_array().map(Vec::len), Some(1), "{keys}");
    assert_eq!(keys[0]["state"], "active", "{keys}");
}

// D25, INV-14
#[test]
fn a_tenant_is_erased_with_its_keys_and_its_typed_lines() {
    let home = Home::new();
    assert_eq!(home.run(&["send", &format!("my name is {CANARY}"), "--session", "about-ann"]).code, 0);
    for tenant in [&[][..], &["--tenant", "other"]] {
        assert_eq!(home.run(&[&["keys", "create", "--name", CANARY][..], tenant].concat()).code, 0);
    }
    fs::write(home.folder().join("singletree.db.typed"), CANARY).unwrap();
    let backup = home.path().join("backup.db").display().to_string();
    assert_eq!(home.run(&["backup", &backup]).code, 0);
    assert_eq!(home.run(&["erase"]).code, 2, "it wants to be told for whom");
    assert_eq!(home.run(&["erase", "--tenant", "default"]).out, "erased: 1 conversation\n");
    let count = |home: &Home, tenant: &str| {
        let (_, keys) = home.json(&["keys", "list", "--tenant", tenant]);
        keys.as_array().map_or(9, Vec::len)
    };
    let expected = (Vec::<String>::new(), 0, 1);
    assert_eq!((sessions(&home), count(&home, "default"), count(&home, "other")), expected);
    assert!(!home.folder().join("singletree.db.typed").exists());
    lose(&home);
    assert_eq!(home.run(&["restore", &backup]).code, 0);
    assert_eq!((sessions(&home), count(&home, "default"), count(&home, "other")), expected);
}
