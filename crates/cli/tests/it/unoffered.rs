//! MCP servers that cannot be had: whoever should know is told, and the conversation goes on.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use serde_json::{Value, json};

use crate::desk::Desk;
use crate::home::{BINARY, kill};

/// A server with one tool, in a language that every machine speaks.
const ROOMS: &str = r#"while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case "$line" in
    *'"initialize"'*) result='{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"rooms","version":"1"}}' ;;
    *'"tools/list"'*) result='{"tools":[{"name":"book_room","description":"","inputSchema":{"type":"object"}}]}' ;;
    *) result='{}' ;;
  esac
  if [ -n "$id" ]; then printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$result"; fi
done
"#;

/// An agent that answers everything, with a tool of a server.
fn agent(desk: &Desk, tool: &str, server: &str) {
    desk.write("rooms.sh", ROOMS);
    desk.write("s.json", r#"{ "model": "s", "rules": [], "fallback": { "reply": "Hi." } }"#);
    let models = "[models.m]\nwire = \"script\"\nfile = \"s.json\"\n";
    let agents = format!("[agents.a]\ninstructions = \"x\"\ntools = [\"{tool}\"]\n");
    desk.write("singletree.toml", &format!("{models}{agents}[mcp.rooms]\n{server}\n"));
}

const GONE: &str = "the tools of `rooms` are not offered: the MCP server \"rooms\" cannot be reached: ";

#[test]
fn a_program_that_is_not_there_is_found_by_check_and_told_once_where_it_is_missed() {
    let desk = Desk::new();
    agent(&desk, "rooms", "command = \"python4-is-not-there\"");
    let ran = desk.run(&["check"]);
    let told = "error: config_invalid: singletree.toml has 1 mistake\n\
                singletree.toml:8:11: `mcp.rooms.command` is `python4-is-not-there`, which is in no folder of PATH\n    \
                hint: install it, correct its name, or write its whole path\n";
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (1, told, ""));

    let ran = desk.run(&["send", "hi"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "Hi.\n"), "the turn goes on");
    let warned = format!("warning: {GONE}\"python4-is-not-there\" cannot be started: ");
    assert!(ran.err.starts_with(&warned) && ran.err.lines().count() == 1, "{}", ran.err);

    let ran =
        desk.home.feed(&["chat", "--config", desk.path("singletree.toml").to_str().unwrap()], "hi\nhi\nhi\n");
    assert_eq!((ran.code, ran.out.as_str()), (0, "Hi.\nHi.\nHi.\n"));
    assert_eq!(ran.err.matches("warning: ").count(), 1, "{}", ran.err);
}

#[test]
fn a_program_that_ends_at_once_is_told_with_its_last_words() {
    let desk = Desk::new();
    agent(&desk, "rooms", "command = \"sh\"\nargs = [\"-c\", \"echo no database >&2; exit 3\"]");
    assert_eq!(desk.run(&["check"]).code, 0, "it starts nothing");
    let ran = desk.run(&["send", "hi"]);
    let warned = format!("warning: {GONE}the program ended (exit status: 3) (it last said: no database)\n");
    assert_eq!((ran.code, ran.err), (0, warned));
    let ran = desk.run(&["check", "--connect"]);
    let told = "singletree.toml:7:6: `mcp.rooms`: the MCP server \"rooms\" cannot be reached: the program ended (exit status: 3)\n    \
                hint: it last said: no database\n";
    assert_eq!((ran.code, ran.out.split_once('\n').map(|it| it.1)), (1, Some(told)));
}

#[test]
fn a_tool_that_a_server_does_not_have_is_told_with_what_was_meant() {
    let desk = Desk::new();
    let rooms = "command = \"sh\"\nargs = [\"rooms.sh\"]";
    agent(&desk, "rooms.book_roo", rooms);
    let ran = desk.run(&["send", "hi"]);
    let warned = "warning: the tool `rooms.book_roo` is not offered: the server has no such tool (did you mean `book_room`?)\n";
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (0, "Hi.\n", warned));
    let ran = desk.run(&["check", "--connect"]);
    let told = "error: config_invalid: singletree.toml has 1 mistake\n\
                singletree.toml:6:10: the server `rooms` has no tool `book_roo`\n    hint: did you mean `book_room`?\n";
    assert_eq!((ran.code, ran.out.as_str()), (1, told));
    agent(&desk, "rooms.book_room", rooms);
    assert_eq!(desk.run(&["send", "hi"]).err, "", "that one is there");
    assert_eq!(desk.run(&["check", "--connect"]).code, 0);
    agent(
        &desk,
        "rooms",
        &format!("{rooms}\neffects = {{ book_rom = \"read\" }}\ntools = [\"book_rom\", \"book_room\"]"),
    );
    let (code, document) = desk.json(&["check", "--connect"]);
    let lines: Vec<&Value> = document["mistakes"].as_array().unwrap().iter().map(|it| &it["line"]).collect();
    assert_eq!((code, lines), (1, vec![&json!(10), &json!(11)]));
}

#[test]
fn a_server_of_ours_says_it_in_its_log_once() {
    let desk = Desk::new();
    agent(&desk, "rooms", "command = \"python4-is-not-there\"");
    let mut command = desk.home.command(BINARY);
    command.current_dir(desk.home.path()).args(["serve", "--listen", "127.0.0.1:0"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut first = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut first).unwrap();
    let url = first.trim().strip_prefix("singletree listens at ").unwrap().to_owned();
    let log = BufReader::new(child.stderr.take().unwrap());
    for _turn in 0..2 {
        crate::serving::ask(&url, "POST", "/v1/sessions/s/messages", &json!({ "content": "hi" }));
    }
    // The second turn's line is the last that matters.
    let mut lines: Vec<Value> = Vec::new();
    for line in log.lines() {
        lines.push(serde_json::from_str(&line.unwrap()).unwrap());
        if lines.iter().filter(|it| it["kind"] == "turn").count() == 2 {
            break;
        }
    }
    kill(child);
    let told: Vec<&Value> = lines.iter().filter(|it| it["kind"] == "tools_not_offered").collect();
    assert_eq!(told.len(), 1, "{lines:?}");
    assert_eq!((&told[0]["server"], told[0].get("tool")), (&json!("rooms"), None));
    let why = told[0]["why"].as_str().unwrap();
    assert!(why.contains("\"python4-is-not-there\" cannot be started"), "{why}");
}
