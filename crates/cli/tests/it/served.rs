//! `singletree serve` follows its file and its command line.

use std::fs;

use serde_json::{Value, json};

use crate::home::{BINARY, Home};
use crate::serving::Serving;

const AGENTS: &str = r#"
[models.script]
wire = "script"
file = "script.json"

[agents.closed]
instructions = "Think."

[agents.open]
instructions = "Think."
show_thinking = true
examples = ["Hello.", "And now?"]
"#;

/// A home with two agents that think, and this about the server.
fn home(server: &str) -> Home {
    let home = Home::new();
    let then = json!({ "thinking": "Between us.", "reply": "Aloud." });
    let script = json!({ "model": "x", "rules": [{ "when": { "user": ["*"] }, "then": then }] });
    fs::write(home.path().join("script.json"), script.to_string()).unwrap();
    fs::write(home.path().join("singletree.toml"), format!("{AGENTS}\n[server]\n{server}")).unwrap();
    home
}

fn say(server: &Serving, session: &str) -> Value {
    server.ask("POST", &format!("/v1/sessions/{session}/messages"), &json!({ "content": "Hello." }))
}

/// Returns whether narration is on, and the narrated texts.
fn narrated(server: &Serving, session: &str) -> (bool, Vec<String>) {
    let answer = server.ask("GET", &format!("/v1/sessions/{session}/narration"), &Value::Null);
    let items = answer["items"].as_array().unwrap_or_else(|| panic!("{answer}"));
    let told = items.iter().map(|it| it["content"].as_str().unwrap().to_owned()).collect();
    (answer["enabled"].as_bool().unwrap(), told)
}

fn words(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|it| (*it).to_owned()).collect()
}

// spec: agent-chat-output §12
#[test]
fn narration_is_as_the_file_says_and_the_command_line_has_the_last_word() {
    let check = |file: &str, flags: &[&str], expected: (bool, &[&str])| {
        let home = home(file);
        let server = Serving::start_in(&home, flags);
        assert_eq!(say(&server, "s")["status"], "completed");
        let (is_on, texts) = expected;
        assert_eq!(narrated(&server, "s"), (is_on, words(texts)), "{file:?} {flags:?}");
        server.stop();
    };
    check("", &[], (true, &["Hello.", "Done."]));
    check("", &["--narration", "off"], (false, &[]));
    check("narration = \"off\"\nnarration_file = \"told.jsonl\"\n", &[], (false, &[]));
    check("narration = \"off\"\n", &["--narration", "on"], (true, &["Hello.", "Done."]));
    check("narration_language = \"de\"\n", &[], (true, &["Hello.", "Fertig."]));
    check("narration_language = \"ja\"\nnarration_keep = 1\n", &[], (true, &["完了しました。"]));
    check("narration_verbosity = \"quiet\"\n", &[], (true, &[]));
}

#[test]
fn what_one_may_say_first_is_listed_with_its_agent() {
    let home = home("");
    let server = Serving::start_in(&home, &[]);
    let agents = server.ask("GET", "/v1/agents", &Value::Null);
    let listed = agents["items"].as_array().unwrap().iter().map(|it| (&it["id"], it.get("examples")));
    let both = json!(["Hello.", "And now?"]);
    assert_eq!(listed.collect::<Vec<_>>(), [(&json!("closed"), None), (&json!("open"), Some(&both))]);
    server.stop();
}

#[test]
fn narration_is_written_to_the_file_that_is_named_and_a_deleted_session_is_taken_out() {
    let home = home("narration_file = \"told.jsonl\"\n");
    let server = Serving::start_in(&home, &[]);
    let lines = || fs::read_to_string(home.path().join("told.jsonl")).unwrap();
    // A thread of its own writes the file: it is given the time of so many requests.
    let until = |what: &str, is_so: &dyn Fn(&str) -> bool| {
        let is_seen = (0..5_000).any(|_| {
            narrated(&server, "kept");
            is_so(&lines())
        });
        assert!(is_seen, "{what}: {}", lines());
    };
    say(&server, "kept");
    say(&server, "gone");
    until("both are written", &|it| it.lines().count() == 4);
    let sessions: Vec<Value> = lines().lines().map(|it| serde_json::from_str(it).unwrap()).collect();
    let sessions: Vec<&str> = sessions.iter().map(|it| it["session"].as_str().unwrap()).collect();
    assert_eq!(sessions, ["kept", "kept", "gone", "gone"]);
    server.ask("DELETE", "/v1/sessions/gone/narration", &Value::Null);
    until("one is taken out", &|it| it.lines().count() == 2 && !it.contains("gone"));
    server.stop();
}

#[test]
fn a_file_of_narration_that_cannot_be_opened_is_told_before_anybody_is_served() {
    let home = home("narration_file = \"no/where.jsonl\"\n");
    let mut command = home.command(BINARY);
    let ran = command.current_dir(home.path()).args(["serve", "--listen", "127.0.0.1:0"]).output().unwrap();
    let (out, err) = (String::from_utf8(ran.stdout).unwrap(), String::from_utf8(ran.stderr).unwrap());
    assert_eq!(out, "", "{err}");
    assert!(err.starts_with("error: place_unavailable: cannot write narration to "), "{err}");
    assert!(err.contains("where.jsonl") && !ran.status.success(), "{err}");
}

// spec: agent-chat-output §8.2
#[test]
fn what_a_person_approves_over_http_is_shown_to_the_model_with_the_next_command() {
    let home = home("");
    let shown = "*Approved artifacts*Meet at noon.*";
    let rules = json!([
        { "when": { "user": ["Hello."], "system": [shown] }, "then": { "reply": "At noon." } },
        { "when": { "user": ["*"] }, "then": { "reply": "Nobody told me." } },
    ]);
    let script = json!({ "model": "x", "rules": rules });
    fs::write(home.path().join("script.json"), script.to_string()).unwrap();
    let server = Serving::start_in(&home, &[]);
    server.ask("POST", "/v1/sessions", &json!({ "id": "s", "prompt_policy": "command" }));
    let plan = json!({ "kind": "plan", "key": "a", "content": "Meet at noon." });
    let added = server.ask("POST", "/v1/sessions/s/artifacts", &plan);
    let reply = || say(&server, "s")["replies"][0]["content"].clone();
    assert_eq!(reply(), "Nobody told me.", "it is approved by nobody");
    let approval = json!({ "kind": "plan", "key": "a", "version": 1, "digest": added["digest"] });
    let approved = server.ask("POST", "/v1/sessions/s/artifacts/approve", &approval);
    assert_eq!(approved["approved_by"], "local", "{approved}");
    assert_eq!(reply(), "At noon.");
    server.stop();
}

// D19
#[test]
fn thoughts_are_shown_of_the_agents_whose_table_says_so() {
    let home = home("");
    let server = Serving::start_in(&home, &[]);
    for (agent, is_shown) in [("open", true), ("closed", false)] {
        server.ask("POST", "/v1/sessions", &json!({ "id": agent, "agent": agent }));
        let outcome = say(&server, agent).to_string();
        let history = server.ask("GET", &format!("/v1/sessions/{agent}/messages"), &Value::Null).to_string();
        for text in [outcome, history] {
            assert!(text.contains("Aloud."), "{agent}: {text}");
            assert_eq!(text.contains("Between us."), is_shown, "{agent}: {text}");
        }
    }
    server.stop();
}

#[test]
fn a_running_server_forgets_turns_as_its_file_says() {
    let home = home("[retention]\nturns = 2\n");
    let server = Serving::start_in(&home, &[]);
    for _ in 0..5 {
        assert_eq!(say(&server, "s")["status"], "completed");
    }
    let kept = || server.ask("GET", "/v1/sessions/s/turns", &Value::Null)["items"].as_array().unwrap().len();
    // It forgets beside its answers: it is asked until it has.
    assert!((0..50_000).any(|_| kept() <= 2), "{} turns are kept", kept());
    let messages = server.ask("GET", "/v1/sessions/s/messages", &Value::Null);
    assert_eq!(messages["items"].as_array().unwrap().len(), 10, "history is never forgotten");
    server.stop();
}
