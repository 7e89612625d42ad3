//! Agents of a file with others: prompts in a folder, colleagues, servers of tools.

use std::fs;

use serde_json::json;

use crate::desk::{Desk, KEY};
use crate::model_server::{ModelServer, stream_text};

#[test]
fn instructions_may_be_a_prompt_of_the_folder() {
    let server = ModelServer::start(|_, stream| stream_text(stream, &["Hi."]));
    let desk = Desk::new();
    fs::create_dir(desk.path("texts")).unwrap();
    desk.write(
        "texts/support.md",
        "+++\nlabels = [\"production\"]\n[sampling]\ntemperature = 0.25\n+++\nYou help at {{ shop }}.\n",
    );
    desk.write(
        "singletree.toml",
        &format!(
            "prompts = \"texts\"\nmodels.m = {{ wire = \"openai\", name = \"x\", base_url = \"{}\", sampling = {{ temperature = 1, seed = 7 }} }}\n\
             agents.a.prompt = {{ name = \"support\", variables = {{ shop = \"Books\" }} }}\n",
            server.url
        ),
    );
    assert_eq!(desk.run(&["send", "hi", "--session", "s"]).code, 0);
    let asked = server.asked().body;
    assert_eq!(asked["messages"][0], json!({ "role": "system", "content": "You help at Books." }));
    assert_eq!((&asked["temperature"], &asked["seed"]), (&json!(0.25), &json!(7)));
}

/// Two agents of one conversation, each with a script.
const TEAM: &str = r#"
[models.front]
wire = "script"
file = "front.json"
[models.back]
wire = "script"
file = "back.json"

[agents.front]
model = "front"
instructions = "You greet."
hand_offs = ["billing"]

[agents.billing]
model = "back"
title = "Billing"
description = "Knows invoices."
instructions = "You bill."
hand_offs = ["front"]
"#;

#[test]
fn a_conversation_is_handed_over_and_stays_there() {
    let desk = Desk::new();
    desk.write("singletree.toml", TEAM);
    desk.write(
        "front.json",
        r#"{ "model": "f", "rules": [
            { "when": { "user": ["*invoice*"] }, "then": { "calls": [{ "tool": "transfer_to_billing", "arguments": { "reason": "an invoice" } }] } }
        ], "fallback": { "reply": "Hello from the front." } }"#,
    );
    desk.write("back.json", r#"{ "model": "b", "rules": [
            { "when": { "user": ["*"], "results": [{ "tool": "transfer_to_billing", "content": "*" }] }, "then": { "reply": "Billing here." } }
        ], "fallback": { "reply": "Still billing." } }"#);
    let send = |text: &str| {
        desk.json(&["send", text, "--session", "s"]).1["replies"].as_array().unwrap().last().unwrap()["content"].clone()
    };
    assert_eq!(send("hi"), "Hello from the front.");
    assert_eq!(send("my invoice"), "Billing here.");
    assert_eq!(send("and now?"), "Still billing.", "also in another process");
    let (_, shown) = desk.json(&["sessions", "show", "s"]);
    assert_eq!(shown["agent"], "front", "the session began there");
    // Each can be met first.
    let (code, other) = desk.json(&["send", "hi", "--agent", "billing"]);
    assert_eq!((code, &other["replies"][0]["content"]), (0, &json!("Still billing.")), "{other}");
}

// D27
#[test]
fn a_summary_is_shown_before_the_messages_that_it_does_not_stand_for() {
    let desk = Desk::new();
    desk.write(
        "singletree.toml",
        "models.m = { wire = \"script\", file = \"m.json\" }\n\
        [agents.a]\ninstructions = \"x\"\ncompaction = { keep = 1, every = 4 }\n",
    );
    // The request for a summary matches no rule: the fallback answers it.
    desk.write(
        "m.json",
        r#"{ "model": "m", "rules": [
            { "when": { "user": ["say {what}"] }, "then": { "reply": "You said {what}." } }
        ], "fallback": { "reply": "Letters.\nTwo of them." } }"#,
    );
    let send = |text: &str| assert_eq!(desk.run(&["send", text, "--session", "s"]).code, 0);
    send("say a");
    let (_, shown) = desk.json(&["sessions", "show", "s"]);
    assert_eq!(shown.get("summary"), None, "nothing is summarised yet");
    ["say b", "say c"].into_iter().for_each(send);
    let ran = desk.run(&["sessions", "show", "s"]);
    let (_, rest) = ran.out.split_once('\n').unwrap();
    assert_eq!(
        rest,
        "you> say a\nYou said a.\nyou> say b\nYou said b.\n\
         summary of messages 0-3: Letters.\n    Two of them.\nyou> say c\nYou said c.\n"
    );
    let (_, shown) = desk.json(&["sessions", "show", "s"]);
    let summary = json!({ "from": 0, "to": 4, "text": "Letters.\nTwo of them.", "model": "m" });
    assert_eq!((&shown["summary"], shown["history"].as_array().unwrap().len()), (&summary, 6));
}

/// An MCP server in the language of every shell.
#[cfg(unix)]
const SERVER: &str = r#"
while read -r line; do
    id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
    answer() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$1"; }
    tool() { printf '{"name":"%s","description":"x","inputSchema":{"type":"object"}}' "$1"; }
    case "$line" in
        *'"initialize"'*) answer '{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}' ;;
        *'"tools/list"'*) answer "{\"tools\":[$(tool look),$(tool drop),$(tool hidden)]}" ;;
        *'"tools/call"'*) answer "{\"content\":[{\"type\":\"text\",\"text\":\"mode $MODE, token of ${#TOKEN}, other ${#OPENAI_API_KEY}\"}]}" ;;
    esac
done
"#;

// INV-16
#[cfg(unix)]
#[test]
fn tools_of_a_server_are_those_that_are_listed_under_the_effects_that_the_file_declares() {
    let desk = Desk::new();
    desk.write("server.sh", SERVER);
    desk.write("singletree.toml", "models.m = { wire = \"script\", file = \"m.json\" }\n\
        [agents.a]\ninstructions = \"x\"\ntools = [\"files\"]\n\
        [mcp.files]\ncommand = \"sh\"\nargs = [\"server.sh\"]\ntools = [\"look\", \"drop\"]\neffects = { look = \"read\" }\n\
        env = { MODE = \"ro\", TOKEN = { env = \"OPENAI_API_KEY\" } }\n");
    let call = |tool: &str| {
        format!(
            r#"{{ "when": {{ "user": ["{tool}"] }}, "then": {{ "calls": [{{ "tool": "files__{tool}", "arguments": {{}} }}] }} }}"#
        )
    };
    let result = |tool: &str| {
        format!(r#"{{ "when": {{ "user": ["{tool}"], "results": "any" }}, "then": {{ "reply": "Done." }} }}"#)
    };
    let rules: Vec<String> =
        ["look", "drop", "hidden"].iter().flat_map(|it| [call(it), result(it)]).collect();
    desk.write("m.json", &format!(r#"{{ "model": "m", "rules": [{}] }}"#, rules.join(",\n")));

    let ran = desk.run(&["send", "look", "--session", "s"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(ran.out, "  * files__look {}\n  = mode ro, token of 15, other 0\nDone.\n");
    let ran = desk.run(&["send", "hidden", "--session", "s"]);
    let told = "error: there is no tool \"files__hidden\"; the tools are: files__look, files__drop\nDone.\n";
    assert!(ran.code == 0 && ran.out.ends_with(told), "the model was not told of it: {ran:?}");
    let (code, document) = desk.json(&["send", "drop", "--session", "s"]);
    assert_eq!((code, &document["metadata"]["effect"]), (3, &json!("destructive")), "{document}");
    let ran = desk.run(&["answer", document["signal"].as_str().unwrap(), "approve"]);
    assert!(ran.code == 0 && ran.out.ends_with("Done.\n"), "{ran:?}");
    let held = fs::read(desk.home.db()).unwrap();
    assert!(!held.windows(KEY.len()).any(|it| it == KEY.as_bytes()));
}
