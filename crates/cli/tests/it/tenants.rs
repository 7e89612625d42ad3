//! Two tenants of one server, and the data that the one's agents keep: nothing of it reaches the other, and nothing
//! is left of a session that was deleted (INV-14, D25). Data that is stored somewhere new adds its canary here.

mod shared;

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::home::{BINARY, Home};
use crate::serving::Serving;

const SAID: &str = "canary-said-4711";
const NOTED: &str = "canary-noted-4711";
const SENT: &str = "canary-sent-4711";
const CANARIES: [&str; 3] = [SAID, NOTED, SENT];

const AGENTS: &str = r#"
[models.script]
wire = "script"
file = "script.json"

[agents.keeper]
instructions = "Keep what you are told."
tools = ["clock", "calculator", "notes", "outbox"]

[approval]
ask = []
trust = ["send_message"]

[server]
narration_file = "told.jsonl"
"#;

/// A model that calls each of the built-in tools that keep or list something, and repeats their results.
fn script() -> Value {
    let rule = |user: &str, tool: &str, arguments: Value| {
        let then = json!({ "calls": [{ "tool": tool, "arguments": arguments }] });
        json!({ "when": { "user": [user] }, "then": then })
    };
    let told = |user: &str, tool: &str| {
        let when = json!({ "user": [user], "results": [{ "tool": tool, "content": "{told}" }] });
        json!({ "when": when, "then": { "reply": "It says: {told}" } })
    };
    json!({ "model": "x", "rules": [
        rule("note {text}", "notes_add", json!({ "text": "{text}" })),
        told("note {text}", "notes_add"),
        rule("list", "notes_list", json!({})),
        told("list", "notes_list"),
        rule("find {text}", "notes_search", json!({ "text": "{text}" })),
        told("find {text}", "notes_search"),
        rule("send {text}", "send_message", json!({ "to": "Bob", "body": "{text}" })),
        told("send {text}", "send_message"),
        rule("count", "calculator", json!({ "expression": "1+1" })),
        told("count", "calculator"),
        { "when": { "user": ["say {text}"] }, "then": { "reply": "You said: {text}" } },
    ]})
}

/// A tenant of a server.
struct Tenant<'a> {
    server: &'a Serving,
    secret: String,
}

impl<'a> Tenant<'a> {
    fn new(home: &Home, server: &'a Serving, name: &str) -> Self {
        let scopes = ["read", "write", "approve", "admin"].map(|it| ["--scope", it]).concat();
        let (code, made) = home.json(&[&["keys", "create", "--tenant", name], scopes.as_slice()].concat());
        assert_eq!(code, 0, "{made}");
        Self { server, secret: made["secret"].as_str().unwrap().to_owned() }
    }

    /// Asks for a path, and returns all that is answered.
    fn ask(&self, method: &str, path: &str, body: &Value) -> String {
        let mut stream = TcpStream::connect(self.server.url.trim_start_matches("http://")).unwrap();
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let (secret, length) = (&self.secret, body.len());
        let head = format!(
            "{method} {path} HTTP/1.0\r\nhost: localhost\r\nauthorization: Bearer {secret}\r\n\
             content-type: application/json\r\ncontent-length: {length}\r\n\r\n"
        );
        stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    fn say(&self, session: &str, content: &str) -> String {
        self.ask("POST", &format!("/v1/sessions/{session}/messages"), &json!({ "content": content }))
    }
}

fn check_clean(what: &str, text: &str) {
    for canary in CANARIES {
        assert!(!text.contains(canary), "{what} holds {canary}: {text}");
    }
}

/// Returns the files below a folder that hold a canary.
fn holding(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(holding(&path));
            continue;
        }
        let bytes = fs::read(&path).unwrap_or_default();
        let holds = |canary: &str| bytes.windows(canary.len()).any(|it| it == canary.as_bytes());
        found.extend(CANARIES.iter().filter(|it| holds(it)).map(|it| format!("{}: {it}", path.display())));
    }
    found
}

fn served() -> (Home, Serving, std::path::PathBuf) {
    let home = Home::new();
    fs::write(home.path().join("script.json"), script().to_string()).unwrap();
    fs::write(home.path().join("singletree.toml"), AGENTS).unwrap();
    let log = home.path().join("log.jsonl");
    let mut command = home.command(BINARY);
    command.current_dir(home.path()).args(["serve", "--listen", "127.0.0.1:0", "--auth"]);
    command.stdout(Stdio::piped()).stderr(fs::File::create(&log).unwrap());
    let server = Serving::of(command.spawn().unwrap());
    (home, server, log)
}

// INV-14, D25
#[test]
fn what_tools_keep_for_one_tenant_reaches_no_other_and_goes_with_its_session() {
    let (home, server, log) = served();
    let (a, b) = (Tenant::new(&home, &server, "a"), Tenant::new(&home, &server, "b"));
    for said in [format!("say {SAID}"), format!("note {NOTED}"), format!("send {SENT}"), "count".to_owned()] {
        let told = a.say("mine", &said);
        assert!(told.contains("\"completed\""), "{told}");
    }
    // The canaries work: their owner gets each of them.
    assert!(a.say("mine", "list").contains(NOTED) && a.say("mine", "find canary").contains(NOTED));
    assert!(a.ask("GET", "/v1/sessions/mine/narration", &Value::Null).contains(SAID));
    let outbox = |tenant: &str| home.json(&["outbox", "list", "--tenant", tenant]).1.to_string();
    assert!(outbox("a").contains(SENT));

    // Another session of the same tenant, and the same session name of another tenant.
    check_clean("another session", &a.say("other", "list"));
    for said in ["list", "find canary", "note of b", "list", "send of b", "count"] {
        check_clean(said, &b.say("mine", said));
    }
    let mine = "/v1/sessions/mine";
    for path in [
        "/v1/sessions".to_owned(),
        "/v1/pending".to_owned(),
        "/v1/usage".to_owned(),
        "/v1/audit".to_owned(),
        "/v1/keys".to_owned(),
        mine.to_owned(),
        format!("{mine}/messages"),
        format!("{mine}/turns"),
        format!("{mine}/narration"),
        format!("{mine}/artifacts"),
        format!("{mine}/export"),
        "/v1/ui/mine/messages".to_owned(),
        "/v1/chats/mine/messages".to_owned(),
        "/metrics".to_owned(),
    ] {
        check_clean(&path, &b.ask("GET", &path, &Value::Null));
    }
    check_clean("the outbox of b", &outbox("b"));

    // Tenant b deletes only b's data: all data of a is still there.
    for session in ["mine", "other"] {
        b.ask("DELETE", &format!("/v1/sessions/{session}"), &Value::Null);
        b.ask("DELETE", &format!("/v1/sessions/{session}/narration"), &Value::Null);
    }
    assert!(a.say("mine", "list").contains(NOTED) && outbox("a").contains(SENT));
    assert!(fs::read_to_string(home.path().join("told.jsonl")).unwrap().contains(SAID));

    let deleted = a.ask("DELETE", mine, &Value::Null);
    assert!(deleted.contains(" 204 "), "{deleted}");
    check_clean("the session again", &a.say("mine", "list"));
    check_clean("the outbox again", &outbox("a"));
    server.stop();
    check_clean("the log", &fs::read_to_string(log).unwrap());
    assert_eq!(holding(home.path()), Vec::<String>::new());
}

#[test]
fn the_outbox_is_listed_shown_and_delivered_once() {
    let home = Home::new();
    let (code, asked) = home.json(&["send", "send hello to Bob", "--session", "s"]);
    assert_eq!(code, 3, "{asked}");
    home.json(&["answer", asked["signal"].as_str().unwrap(), "approve"]);
    let (_, listed) = home.json(&["outbox", "list"]);
    let message = &listed["messages"][0];
    let id = message["id"].as_str().unwrap();
    assert_eq!(
        (&message["session"], &message["to"], &message["body"]),
        (&json!("s"), &json!("Bob"), &json!("hello"))
    );
    let shown = home.run(&["outbox", "show", id]);
    assert!(shown.code == 0 && shown.out.ends_with("to: Bob\nhello\n"), "{shown:?}");
    let line = home.run(&["outbox", "list"]).out;
    assert!(line.starts_with(id) && line.ends_with("  s  Bob\n"), "{line}");
    assert_eq!(home.json(&["outbox", "delivered", id]), (0, json!({ "delivered": id })));
    assert_eq!(home.json(&["outbox", "list"]).1, json!({ "messages": [] }));
    let again = home.run(&["outbox", "delivered", id]);
    assert_eq!((again.code, again.out.as_str()), (2, ""), "{again:?}");
    let copy = home.path().join("copy.db");
    assert_eq!(home.run(&["backup", copy.to_str().unwrap()]).code, 0);
}

// The settings of files that were shared by all conversations are refused with a hint.
#[test]
fn a_file_that_names_a_place_of_notes_or_messages_is_refused_with_a_hint() {
    let home = Home::new();
    let agents =
        AGENTS.replace("[approval]", "[tools.notes]\nfile = \"notes.txt\"\n[tools.outbox]\n\n[approval]");
    fs::write(home.path().join("script.json"), script().to_string()).unwrap();
    let file = home.path().join("singletree.toml");
    fs::write(&file, agents).unwrap();
    let ran = home.run(&["check", file.to_str().unwrap()]);
    assert_eq!(ran.code, 1, "{ran:?}");
    let told = format!("{}{}", ran.out, ran.err);
    for expected in ["`tools` has no key `notes`", "`tools` has no key `outbox`", "singletree outbox"] {
        assert!(told.contains(expected), "{told}");
    }
}
