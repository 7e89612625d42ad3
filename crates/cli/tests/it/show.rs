//! Pictures of graphs and of turns.
//!
//! `docs/demo.svg` is the picture of the demo agent's graph. To write it anew, run this test with SINGLETREE_UPDATE=1.

use std::path::Path;

use serde_json::{Value, json};

use crate::home::{Home, kill};

/// Runs a command that prints JSON by `--format json`.
fn document(home: &Home, args: &[&str]) -> (i32, Value) {
    let ran = home.run(&[args, &["--format", "json"]].concat());
    assert_eq!(ran.err, "", "{args:?}");
    (ran.code, serde_json::from_str(&ran.out).unwrap_or_else(|it| panic!("{it}: {}", ran.out)))
}

#[test]
fn the_graph_of_the_demo_agent_is_drawn_in_each_form_without_a_database() {
    let home = Home::new();
    let show = |format: &str| {
        let ran = home.run(&["graph", "show", "demo", "--format", format]);
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{format}");
        ran.out
    };
    let mermaid = show("mermaid");
    assert!(mermaid.starts_with("flowchart TD\n"), "{mermaid}");
    assert_eq!(home.run(&["graph", "show", "demo"]).out, mermaid, "it is the default");
    assert!(show("dot").starts_with("digraph \"demo\" {\n"));
    let (code, outline) = document(&home, &["graph", "show", "demo"]);
    let targets = json!([{ "node": "gate" }, { "node": "tools" }, "end"]);
    let node = |name: &str| json!({ "name": name, "kind": "function", "next": { "edge": "one_of", "targets": targets } });
    let expected = json!({
        "state": outline["state"],
        "digest": outline["digest"],
        "entry": "model",
        "nodes": [
            node("model"),
            node("gate"),
            { "name": "tools", "kind": "function", "next": { "edge": "always", "to": { "node": "model" } } },
        ],
    });
    assert_eq!((code, &outline), (0, &expected));
    assert_eq!(outline["digest"].as_str().unwrap().len(), 16);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/demo.svg");
    let svg = show("svg");
    if std::env::var_os("SINGLETREE_UPDATE").is_some() {
        std::fs::write(&path, &svg).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(svg == kept, "it is another picture; look at it, and keep it with SINGLETREE_UPDATE=1");
    assert!(!home.folder().exists(), "nothing is made");
}

#[test]
fn an_agent_that_is_not_here_is_told_with_those_that_are() {
    let home = Home::new();
    let ran = home.run(&["graph", "show", "nobody"]);
    let told = "error: usage: there is no agent 'nobody'; there is: demo\n";
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (2, "", told));
    let (code, document) = document(&home, &["graph", "show", "nobody"]);
    assert_eq!((code, &document["error"]["category"]), (2, &json!("usage")));
    assert_eq!(home.run(&["graph", "show", "demo", "--format", "png"]).code, 2);
}

/// The kind and the content of each entry of a turn, with the node that made it.
fn entries(turn: &Value) -> Vec<String> {
    let line = |it: &Value| {
        let made = it["made_by"]["node"].as_str().map(|it| format!("{it}: ")).unwrap_or_default();
        let about = it["tool"].as_str().or(it["text"].as_str()).unwrap_or_default();
        format!("{made}{} {about}", it["entry"].as_str().unwrap())
    };
    turn["entries"].as_array().unwrap().iter().map(line).collect()
}

#[test]
fn a_turn_with_tools_shows_its_nodes_messages_and_calls() {
    let home = Home::new();
    assert_eq!(home.run(&["send", "thanks", "--session", "s"]).code, 0);
    let (_, sent) = home.json(&["send", "what is 6*7", "--session", "s"]);
    let id = sent["turn"].as_str().unwrap();
    let (code, shown) = document(&home, &["turn", "show", id]);
    assert_eq!((code, &shown["session"], &shown["agent"]), (0, &json!("s"), &json!("demo")));
    let turns = shown["turns"].as_array().unwrap();
    assert_eq!(turns.len(), 1);
    assert_eq!(
        (&turns[0]["turn"], &turns[0]["status"], &turns[0]["kept"]),
        (&json!(id), &json!("completed"), &json!("whole"))
    );
    let told = [
        "accepted what is 6*7",
        "model: message ",
        "tools: tool_result calculator",
        "model: message 6*7 = 42",
    ];
    assert_eq!(entries(&turns[0]), told);
    assert_eq!(shown["waits"], json!([]));

    let ran = home.run(&["turn", "show", id]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    let words: Vec<&str> = [
        "accepted",
        "model",
        "calculator",
        "expression: 6*7 \u{2192} 42",
        "completed",
        "spans of",
        "\n  demo ",
        "\n    model ",
        "\n      singletree-demo ",
        " tokens",
        "\n    tools ",
        "\n      calculator ",
        "\n    model ",
    ]
    .into();
    let mut rest = ran.out.as_str();
    for word in words {
        rest = rest.split_once(word).unwrap_or_else(|| panic!("{word} is missing: {}", ran.out)).1;
    }
    assert!(!ran.out.contains('\u{1b}'), "{}", ran.out);
    assert_eq!(home.run(&["turn", "show", "--session", "s"]).out, ran.out, "it is the last one");
    assert_eq!(home.run(&["turn", "show"]).out, ran.out, "and the conversation the last one");
    let svg = home.run(&["turn", "show", id, "--format", "svg"]).out;
    assert!(
        svg.starts_with("<svg ") && svg.ends_with("</svg>\n") && svg.contains(">calculator</text>"),
        "{svg}"
    );
}

#[test]
fn a_turn_that_waits_says_so_and_its_answer_is_shown_with_it() {
    let home = Home::new();
    let (_, sent) = home.json(&["send", "send hello to Bob", "--session", "s"]);
    let (id, signal) = (sent["turn"].as_str().unwrap(), sent["signal"].as_str().unwrap());
    let holder = home.hold();
    let (_, shown) = document(&home, &["turn", "show", id]);
    kill(holder);
    assert_eq!(shown["turns"][0]["status"], "suspended");
    assert_eq!(shown["turns"][0]["ended_in"], json!({ "node": "gate" }));
    assert_eq!(
        (&shown["waits"][0]["signal"], &shown["waits"][0]["status"]),
        (&json!(signal), &json!("pending"))
    );
    let stands = &shown["stands"];
    assert_eq!(stands["at"], json!([{ "node": "gate" }]));
    assert_eq!(
        (&stands["open_calls"][0]["tool"], &stands["open_calls"][0]["state"]),
        (&json!("send_message"), &json!("asked"))
    );
    let text = home.run(&["turn", "show", id]).out;
    assert!(text.contains(&format!("suspended: waits for {signal}")), "{text}");

    assert_eq!(home.run(&["answer", signal, "approve", "--from", "Ann"]).code, 0);
    let (_, shown) = document(&home, &["turn", "show", &format!("{id}.1")]);
    let turns = shown["turns"].as_array().unwrap();
    assert_eq!(turns.len(), 2);
    let told = ["signal ", "tools: tool_result send_message", "model: message Done. Sent to Bob."];
    assert_eq!(entries(&turns[1]), told);
    assert_eq!(
        (&shown["waits"][0]["status"], &shown["waits"][0]["answered_by"]),
        (&json!("consumed"), &json!("Ann"))
    );
    assert_eq!(shown["stands"], Value::Null);
    // Both names show the whole of it.
    let (_, whole) = document(&home, &["turn", "show", id]);
    assert_eq!(whole, shown);
}

#[test]
fn a_turn_that_failed_says_where_and_why() {
    let home = Home::new();
    let (_, sent) = home.json(&["send", "fail", "--session", "s"]);
    let (_, shown) = document(&home, &["turn", "show", sent["turn"].as_str().unwrap()]);
    let turn = &shown["turns"][0];
    assert_eq!(
        (&turn["status"], &turn["ended_in"]),
        (&json!("errored"), &json!({ "node": "model", "attempt": 0 }))
    );
    assert_eq!(turn["error"]["category"], "provider_unavailable");
    assert_eq!(turn["error"]["diagnostic"], sent["diagnostic"]);
    let text = home.run(&["turn", "show"]).out;
    assert!(text.contains("at model: provider_unavailable"), "{text}");
}

#[test]
fn what_a_retention_forgot_is_told_as_such() {
    let home = Home::new();
    let turns: Vec<Value> =
        (0..3).map(|_| home.json(&["send", "what is 6*7", "--session", "s"]).1["turn"].clone()).collect();
    let id = |at: usize| turns[at].as_str().unwrap();
    // A turn has five events here: of the second one two are left, of the first one none, and no record.
    let db = rusqlite::Connection::open(home.db()).unwrap();
    let events: u32 = db.query_row("SELECT count(*) FROM event", [], |row| row.get(0)).unwrap();
    assert_eq!(events, 15);
    drop(db);
    assert_eq!(home.run(&["retain", "--events", "7"]).code, 0);
    let (_, shown) = document(&home, &["turn", "show", id(1)]);
    assert_eq!(shown["turns"][0]["kept"], "partly");
    assert_eq!(entries(&shown["turns"][0]), ["model: message 6*7 = 42"]);
    assert!(home.run(&["turn", "show", id(1)]).out.contains("were forgotten by a retention"));
    assert_eq!(document(&home, &["turn", "show", id(2)]).1["turns"][0]["kept"], "whole");
    let (_, first) = document(&home, &["turn", "show", id(0)]);
    assert_eq!((&first["turns"][0]["kept"], &first["turns"][0]["entries"]), (&json!("nothing"), &json!([])));
    assert_eq!(home.run(&["retain", "--turns", "1"]).code, 0);
    let (code, gone) = document(&home, &["turn", "show", id(0)]);
    assert_eq!((code, &gone["error"]["category"]), (1, &json!("chat_turn_unknown")));
}

#[test]
fn a_turn_is_asked_for_by_name_or_by_session_and_lines_are_as_wide_as_the_user_says() {
    let home = Home::new();
    assert_eq!(home.run(&["turn", "show"]).code, 4, "there is no database yet");
    assert_eq!(home.run(&["send", "thanks", "--session", "s"]).code, 0);
    assert_eq!(home.run(&["turn", "show", "x", "--session", "s"]).code, 2);
    assert_eq!(home.run(&["turn", "show", "x.y"]).code, 2);
    assert_eq!(document(&home, &["turn", "show", "x"]).1["error"]["category"], "chat_turn_unknown");
    assert_eq!(
        document(&home, &["turn", "show", "--session", "t"]).1["error"]["category"],
        "chat_session_unknown"
    );
    for columns in [50, 64, 100] {
        let mut command = home.command(crate::home::BINARY);
        let shown = command.args(["turn", "show"]).env("COLUMNS", columns.to_string()).output().unwrap();
        let text = String::from_utf8(shown.stdout).unwrap();
        let widest = text.lines().map(|it| it.chars().count()).max().unwrap();
        assert!(widest <= columns && widest > columns / 2, "{columns}: {text}");
    }
}
