//! The story: a conversation with tools and an approval, cut off twice, and whole in the end.
//!
//! `docs/story.txt` is the text on the screen. To write it anew, run this test with SINGLETREE_UPDATE=1.

use std::path::Path;

use rusqlite::{Connection, OpenFlags};
use serde_json::{Value, json};

use crate::home::Home;
use crate::terminal::Terminal;

const PROMPT: &str = "you> ";

// INV-2, INV-6, INV-7, INV-8
#[test]
fn a_conversation_survives_two_kills_whole_and_sends_its_message_once() {
    let home = Home::new();
    let mut story = Story { home: &home, text: String::new() };

    story.chat(|terminal| {
        terminal.say(PROMPT, "hello");
        terminal.say(PROMPT, "my name is Ann");
        terminal.say(PROMPT, "what time is it");
        terminal.say(PROMPT, "what is 6*7");
        terminal.say(PROMPT, "note: buy milk");
        terminal.say(PROMPT, "tell me a story");
        terminal.wait_for("in the middle of a line");
        End::Killed
    });
    story.chat(|terminal| {
        terminal.wait_for("finishing what was accepted before:");
        terminal.wait_for("And then she wrote that down, too.");
        terminal.say(PROMPT, "what is my name");
        terminal.say(PROMPT, "send hello to Bob");
        terminal.wait_for("approve, reject or later? ");
        End::Killed
    });
    story.chat(|terminal| {
        terminal.wait_for("approval wanted: send_message");
        terminal.say("approve, reject or later? ", "approve");
        terminal.say(PROMPT, "what are my notes");
        terminal.say(PROMPT, "/quit");
        End::Left
    });

    assert_eq!(home.outbox(), [json!({ "to": "Bob", "body": "hello" })]);
    check_transcript(&home);
    check_store(&home);
    check_kept(&format!("{}\n", story.text.trim_end()));
}

/// How a process ended.
enum End {
    Killed,
    Left,
}

struct Story<'a> {
    home: &'a Home,
    text: String,
}

impl Story<'_> {
    /// One life of the process.
    fn chat(&mut self, tell: impl FnOnce(&mut Terminal) -> End) {
        let mut terminal = Terminal::start(self.home, &["chat"], &[]);
        let (shown, after) = match tell(&mut terminal) {
            End::Killed => (terminal.kill(), "[kill -9]\n"),
            End::Left => {
                let (shown, _, status) = terminal.end();
                assert!(status.success(), "{status}");
                (shown, "")
            }
        };
        let shown = self.plain(&shown);
        let lines: Vec<&str> = shown.lines().map(str::trim_end).collect();
        self.text.push_str(&format!("$ singletree chat\n{}\n{after}\n", lines.join("\n")));
    }

    /// Replaces the parts that differ each time: the folder, the session's id, times.
    fn plain(&self, shown: &str) -> String {
        let last = std::fs::read_to_string(self.home.folder().join("singletree.db.last")).unwrap();
        let home = self.home.path().to_str().unwrap();
        let shown = shown.replace(home, "~/.local/share").replace(last.trim(), "chat-1a2b3c4d");
        let mut text = String::new();
        let mut rest = shown.as_str();
        while let Some(first) = rest.chars().next() {
            let length = if is_time(rest) { 20 } else { first.len_utf8() };
            text.push_str(if length == 20 { "2026-01-01T12:00:00Z" } else { &rest[..length] });
            rest = &rest[length..];
        }
        text
    }
}

/// Says whether a text begins with a time, as the clock tells it.
fn is_time(text: &str) -> bool {
    let form = b"0000-00-00T00:00:00Z";
    text.len() >= form.len()
        && form.iter().zip(text.bytes()).all(|(form, it)| match form {
            b'0' => it.is_ascii_digit(),
            other => it == *other,
        })
}

/// Checks the messages, as they are exported: each message once, in order.
fn check_transcript(home: &Home) {
    let session = std::fs::read_to_string(home.folder().join("singletree.db.last")).unwrap();
    let (code, export) = home.json(&["sessions", "export", session.trim()]);
    assert_eq!(code, 0);
    let items = export["lists"]["messages"].as_array().unwrap();
    let line = |it: &Value| {
        let body = &it["body"];
        let role = body["role"].as_str().unwrap();
        let content = body["content"].as_str().unwrap_or_default();
        let calls = body["tool_calls"].as_array().into_iter().flatten();
        let calls: Vec<&str> = calls.map(|it| it["name"].as_str().unwrap()).collect();
        let begin: String = content.chars().take(24).collect();
        let begin = if is_time(content) { "(time)".to_owned() } else { begin };
        format!("{role}: {begin}{}", calls.join(" ")).trim_end().to_owned()
    };
    let lines: Vec<String> = items.iter().map(line).collect();
    let expected = [
        "user: hello",
        "assistant: Hello! I am a demo agent",
        "user: my name is Ann",
        "assistant: Nice to meet you, Ann. I",
        "user: what time is it",
        "assistant: clock",
        "tool: (time)",
        "assistant: It is",
        "user: what is 6*7",
        "assistant: calculator",
        "tool: 42",
        "assistant: 6*7 = 42",
        "user: note: buy milk",
        "assistant: notes_add",
        "tool: Noted: buy milk",
        "assistant: Done. Noted: buy milk",
        "user: tell me a story",
        "assistant: Once there was a lightho",
        "user: what is my name",
        "assistant: Your name is Ann.",
        "user: send hello to Bob",
        "assistant: send_message",
        "tool: Sent to Bob.",
        "assistant: Done. Sent to Bob.",
        "user: what are my notes",
        "assistant: notes_list",
        "tool: buy milk",
        "assistant: Your notes:\nbuy milk",
    ];
    let cut = |it: &String| {
        if it.starts_with("assistant: It is ") { "assistant: It is".into() } else { it.clone() }
    };
    assert_eq!(lines.iter().map(cut).collect::<Vec<_>>(), expected);
}

/// Checks the content of the store: every turn ended, every wait answered, no message twice.
fn check_store(home: &Home) {
    let db = Connection::open_with_flags(home.db(), OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    let mut rows =
        db.prepare("SELECT kind, status, deaths, outcome IS NOT NULL FROM turn ORDER BY no").unwrap();
    let rows = rows.query_map([], |row| {
        let (kind, status): (String, String) = (row.get(0)?, row.get(1)?);
        let (deaths, ended): (u32, bool) = (row.get(2)?, row.get(3)?);
        Ok(format!("{kind} {status}, deaths {deaths}, ended {ended}"))
    });
    let turns: Vec<String> = rows.unwrap().map(Result::unwrap).collect();
    let mut expected = vec!["message completed, deaths 0, ended true"; 9];
    expected[5] = "message completed, deaths 1, ended true";
    expected[7] = "message suspended, deaths 0, ended true";
    expected.insert(8, "resume completed, deaths 0, ended true");
    assert_eq!(turns, expected);

    let one = |sql: &str| db.query_row(sql, [], |row| row.get::<_, String>(0)).unwrap();
    assert_eq!(one("SELECT group_concat(status || ' by ' || answered_by) FROM wait"), "consumed by terminal");
    assert_eq!(one("SELECT count(*) || '' FROM position"), "0");
    assert_eq!(one("SELECT count(*) || '' FROM item WHERE list IS NULL"), "0");
    let twice = "SELECT (count(*) - count(DISTINCT seq)) || '' FROM transcript WHERE list = 'messages'";
    assert_eq!(one(twice), "0");
    assert_eq!(one("SELECT count(*) || '' FROM transcript WHERE list = 'messages'"), "28");
}

/// Compares the story with the one that is kept.
fn check_kept(text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/story.txt");
    if std::env::var_os("SINGLETREE_UPDATE").is_some() {
        std::fs::write(&path, text).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(text, kept, "the story is another one; look at it, and keep it with SINGLETREE_UPDATE=1");
}
