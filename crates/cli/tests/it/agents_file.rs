//! `singletree.toml` through the binary: written, checked, talked to.

use std::fs;

use serde_json::json;

use crate::desk::{Desk, KEY};
use crate::model_server::{ModelServer, answer, stream_call, stream_text};

#[test]
fn init_writes_a_file_that_check_finds_sound_and_overwrites_nothing() {
    let desk = Desk::new();
    let ran = desk.run(&["init"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{ran:?}");
    assert!(ran.out.starts_with("written: singletree.toml\n"), "{}", ran.out);
    let ran = desk.run(&["check"]);
    assert_eq!(
        (ran.code, ran.out.as_str()),
        (0, "singletree.toml: nothing is wrong; agents: assistant\n"),
        "{ran:?}"
    );
    desk.write("singletree.toml", "mine");
    let ran = desk.run(&["init"]);
    assert_eq!((ran.code, ran.out.as_str()), (2, ""));
    assert_eq!(ran.err, "error: file_exists: singletree.toml is there already, and stays as it is\n");
    assert_eq!(desk.read("singletree.toml"), "mine");
    assert_eq!(desk.json(&["init", "other.toml"]), (0, json!({ "written": "other.toml" })));
    assert_eq!(
        desk.json(&["check", "other.toml"]),
        (0, json!({ "agents": ["assistant"], "file": "other.toml", "mistakes": [] }))
    );
    assert_eq!(desk.run(&["init", "no/where.toml"]).code, 4);
}

#[test]
fn check_tells_every_mistake_and_so_does_whoever_needs_the_file() {
    let desk = Desk::new();
    desk.write("singletree.toml", "[agents.a]\ninstuctions = \"x\"\nmodel = \"m\"\n[models.m]\nwire = \"openai\"\nname = \"x\"\nkey = \"canary-key-4711\"\n");
    let report = "singletree.toml:1:9: `agents.a.instructions` is missing\n    hint: say what the agent is for: `instructions = \"…\"` or `prompt = \"NAME\"`\n\
                  singletree.toml:2:1: `agents.a` has no key `instuctions`\n    hint: did you mean `instructions`?\n\
                  singletree.toml:7:7: `models.m.key` holds a secret itself\n    hint: write { env = \"NAME\" } or { file = \"PATH\" }; \
                  what stood here is known to whoever read the file\n";
    let told = format!("error: config_invalid: singletree.toml has 3 mistakes\n{report}");
    let ran = desk.run(&["check"]);
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (1, told.as_str(), ""));
    for args in [["chat"].as_slice(), &["send", "hi"], &["answer", "x", "approve"], &["graph", "show", "a"]] {
        let ran = desk.run(args);
        assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (2, "", told.as_str()), "{args:?}");
    }
    assert!(!desk.home.folder().exists(), "nothing was made");
    let (code, document) = desk.json(&["check"]);
    let expected = json!({ "line": 2, "column": 1, "kind": "unknown_key", "what": "`agents.a` has no key `instuctions`",
                           "hint": "did you mean `instructions`?" });
    assert_eq!((code, &document["mistakes"][1]), (1, &expected));
    let (code, document) = desk.json(&["send", "hi"]);
    assert_eq!((code, &document["error"]["category"]), (2, &json!("config_invalid")));
    assert_eq!(document["error"]["report"]["mistakes"][1], expected);

    for args in [["check", "none.toml"].as_slice(), &["send", "hi", "--config", "none.toml"]] {
        let ran = desk.run(args);
        assert_eq!((ran.code, ran.out.as_str()), (2, ""));
        assert_eq!(ran.err, "error: config_unreadable: none.toml cannot be read: entity not found\n");
    }
}

/// Two agents on scripts, one of which sends messages.
fn scripted(desk: &Desk) {
    desk.write("a.json", r#"{ "model": "a", "rules": [
        { "when": { "user": ["*"] }, "then": { "calls": [{ "tool": "send_message", "arguments": { "to": "Bob", "body": "hi" } }] } },
        { "when": { "user": ["*"], "results": "any" }, "then": { "reply": "Done." } }
    ] }"#);
    desk.write("b.json", r#"{ "model": "b", "rules": [], "fallback": { "reply": "I am B." } }"#);
    desk.write("agents.toml", "[models.a]\nwire = \"script\"\nfile = \"a.json\"\n[models.b]\nwire = \"script\"\nfile = \"b.json\"\n\
        [agents.sender]\nmodel = \"a\"\ninstructions = \"x\"\ntools = [\"outbox\"]\n[agents.talker]\nmodel = \"b\"\ninstructions = \"x\"\n");
}

// INV-7
#[test]
fn an_agent_of_a_file_asks_and_the_answer_is_taken_by_the_same_file() {
    let desk = Desk::new();
    scripted(&desk);
    let ran = desk.run(&["send", "go", "--config", "agents.toml", "--session", "s"]);
    assert_eq!(ran.code, 3, "{ran:?}");
    let (_, pending) = desk.json(&["pending"]);
    let signal = pending["pending"][0]["signal"].as_str().unwrap();
    let line =
        |word: &str| format!("    singletree answer {signal} {word} --session s --config agents.toml\n");
    let how = line("approve") + &line("reject");
    assert!(ran.out.ends_with(&how), "{}", ran.out);
    let ran = desk.run(&["pending", "--config", "agents.toml"]);
    assert!(ran.out.contains(&how), "{}", ran.out);
    // No line of the demo would do: it does not have this agent.
    let ran = desk.run(&["pending"]);
    let elsewhere =
        "    the agent sender is not here: answer in the program that has it, or name its file by --config\n";
    assert!(ran.out.contains(elsewhere) && !ran.out.contains("singletree answer"), "{}", ran.out);
    let ran = desk.run(&["answer", signal, "approve", "--session", "s", "--config", "agents.toml"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.out.ends_with("Done.\n"), "{}", ran.out);
    let (_, outbox) = desk.json(&["outbox", "list"]);
    assert_eq!(outbox["messages"].as_array().unwrap().len(), 1, "{outbox}");
    // Others look at it without the file.
    let (code, shown) = desk.json(&["sessions", "show", "s"]);
    assert_eq!((code, &shown["agent"]), (0, &json!("sender")));
    assert_eq!(desk.run(&["turn", "show", "--session", "s"]).code, 0);
}

#[test]
fn who_asks_for_another_agent_begins_another_conversation() {
    let desk = Desk::new();
    scripted(&desk);
    let send = |more: &[&str]| desk.json(&[["send", "hi"].as_slice(), more].concat()).1["session"].clone();
    let demo = send(&[]);
    let talker = send(&["--config", "agents.toml", "--agent", "talker"]);
    assert_ne!(demo, talker, "no agent of the file is the demo");
    assert_eq!(send(&["--config", "agents.toml"]), talker);
    assert_eq!(send(&["--config", "agents.toml", "--agent", "talker"]), talker);
    let ran = desk.run(&["send", "hi", "--config", "agents.toml", "--agent", "nobody"]);
    assert_eq!(
        (ran.code, ran.err.as_str()),
        (2, "error: usage: there is no agent 'nobody'; there is: sender, talker\n")
    );
    fs::rename(desk.path("agents.toml"), desk.path("singletree.toml")).unwrap();
    assert_eq!(send(&[]), talker, "the file of this folder is found");
    let ran = desk.run(&["graph", "show", "talker"]);
    assert_eq!(ran.code, 0, "{ran:?}");
}

#[test]
fn an_agent_over_a_server_calls_its_tools_by_its_own_policy() {
    let server = ModelServer::start(|asked, stream| {
        match asked.body["messages"].as_array().unwrap().last().unwrap()["role"].as_str() {
            Some("user") => stream_call(stream, "notes_add", &json!({ "text": "milk" })),
            _ => stream_text(stream, &["Not", "ed."]),
        }
    });
    let desk = Desk::new();
    desk.write(
        "singletree.toml",
        &format!(
            "[models.m]\nwire = \"openai\"\nname = \"x\"\nbase_url = \"{}\"\nkey = {{ env = \"OPENAI_API_KEY\" }}\n\
             sampling = {{ temperature = 0.5, max_tokens = 99 }}\n[agents.a]\ninstructions = \"Be brief.\"\nforbidden = \"Rhymes.\"\n\
             tools = [\"notes\"]\napproval = {{ ask = [\"notes_add\"] }}\n",
            server.url
        ),
    );
    let (code, document) = desk.json(&["send", "note milk", "--session", "s"]);
    assert_eq!((code, &document["metadata"]["tool"]), (3, &json!("notes_add")), "{document}");
    let asked = server.asked();
    assert_eq!(
        asked.body["messages"][0],
        json!({ "role": "system", "content": "Be brief.\n\nYou must not do this:\nRhymes." })
    );
    assert_eq!((&asked.body["temperature"], &asked.body["max_tokens"]), (&json!(0.5), &json!(99)));
    assert_eq!(asked.body["tools"].as_array().unwrap().len(), 3);
    assert!(asked.head.contains(&format!("authorization: Bearer {KEY}\r\n")));
    let ran = desk.run(&["answer", document["signal"].as_str().unwrap(), "approve", "--session", "s"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.out.ends_with("  = Noted: milk\nNoted.\n"), "{}", ran.out);
}

// INV-16
#[test]
fn no_output_of_any_command_holds_a_key() {
    let server = ModelServer::start(|asked, stream| {
        let message = format!("no such model, {KEY}, {}", asked.head);
        answer(
            stream,
            "404 Not Found",
            &json!({ "error": { "message": message, "code": "model_not_found", "param": KEY } }),
        );
    });
    let desk = Desk::new();
    desk.write("key", &format!("{KEY}\n"));
    let model = format!("wire = \"openai\"\nname = \"x\"\nbase_url = \"{}\"\n", server.url);
    desk.write(
        "singletree.toml",
        &format!("[models.m]\n{model}key = {{ file = \"key\" }}\n[agents.a]\ninstructions = \"x\"\n"),
    );
    // `Desk::run` looks through all that is printed.
    for args in [
        ["check"].as_slice(),
        &["check", "--json"],
        &["send", "hi", "--session", "s"],
        &["send", "hi", "--session", "s", "--json"],
        &["chat", "--session", "s"],
        &["sessions", "list"],
        &["sessions", "show", "s"],
        &["sessions", "export", "s"],
        &["turn", "show", "--session", "s"],
        &["turn", "show", "--session", "s", "--format", "json"],
        &["turn", "show", "--session", "s", "--format", "svg"],
        &["pending", "--json"],
        &["graph", "show", "a", "--format", "json"],
        &["doctor"],
        &["cancel", "00000000-0000-4000-8000-000000000000"],
        &["answer", "x", "approve"],
    ] {
        desk.run(args);
    }
    let (code, document) = desk.json(&["send", "hi", "--session", "s"]);
    assert_eq!((code, &document["category"]), (1, &json!("provider_invalid_model")), "{document}");
    for file in fs::read_dir(desk.home.folder()).unwrap() {
        let path = file.unwrap().path();
        let held = fs::read(&path).unwrap_or_default();
        assert!(!held.windows(KEY.len()).any(|it| it == KEY.as_bytes()), "{}", path.display());
    }
    for wrong in [
        format!("[models.m]\n{model}key = \"{KEY}\"\n"),
        format!("[models.m]\n{model}key = {{ env = \"{KEY}\" }}\n"),
        format!("[models.m]\n{model}key = {{ file = \"{KEY}\" }}\n[agents.a]\ninstructions = \"x\"\n"),
        format!("[models.m]\n{model}api_key = \"{KEY}\"\nkey = {KEY}\n"),
        format!("[models.m]\n{model}key = \"{KEY}\n"),
        format!("[models.m]\nbase_url = \"http://x:{KEY}@h\"\nname = [\"{KEY}\"]\nwire = \"{KEY}\"\n"),
        format!("[mcp.s]\ncommand = \"x\"\nenv = {{ TOKEN = \"{KEY}\" }}\n"),
    ] {
        desk.write("wrong.toml", &wrong);
        assert_eq!(desk.run(&["check", "wrong.toml"]).code, 1, "{wrong}");
        assert_eq!(desk.run(&["check", "wrong.toml", "--json"]).code, 1, "{wrong}");
        assert_eq!(desk.run(&["send", "hi", "--config", "wrong.toml", "--json"]).code, 2, "{wrong}");
    }
}
