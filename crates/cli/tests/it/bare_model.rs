//! `--model`: a model without a file, over a server on this machine.

use std::process::Stdio;

use serde_json::json;

use crate::home::{BINARY, Home, Ran};
use crate::model_server::{ModelServer, answer, stream_text};

const KEY: &str = "canary-key-4711";

/// Runs the binary with a key in its environment.
fn run(home: &Home, args: &[&str], input: &str) -> Ran {
    use std::io::Write;
    let mut command = home.command(BINARY);
    command.args(args).current_dir(home.path()).env("MY_KEY", KEY).env("OPENAI_API_KEY", KEY);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let ran = Ran { code: output.status.code().unwrap(), out: text(output.stdout), err: text(output.stderr) };
    assert!(!ran.out.contains(KEY) && !ran.err.contains(KEY), "{ran:?}");
    ran
}

#[test]
fn a_conversation_needs_no_file_and_streams() {
    let server = ModelServer::start(|_, stream| stream_text(stream, &["Hel", "lo, ", "Ann."]));
    let home = Home::new();
    let args =
        ["chat", "--model", "openai:x", "--base-url", &server.url, "--key-env", "MY_KEY", "--session", "s"];
    let ran = run(&home, &args, "I am Ann\nand now?\n");
    assert_eq!((ran.code, ran.out.as_str()), (0, "Hello, Ann.\nHello, Ann.\n"), "{ran:?}");
    let agents = format!("agents:   x of {}\n", server.url);
    assert!(ran.err.contains(&agents), "{}", ran.err);
    let first = server.asked();
    assert!(first.head.starts_with("POST /v1/chat/completions HTTP/1.1\r\n"), "{}", first.head);
    assert!(first.head.contains(&format!("authorization: Bearer {KEY}\r\n")), "{}", first.head);
    assert_eq!((&first.body["model"], &first.body["stream"]), (&json!("x"), &json!(true)));
    assert_eq!(first.body["messages"], json!([{ "role": "user", "content": "I am Ann" }]));
    assert_eq!(first.body.get("tools"), None);
    let second = server.asked().body;
    assert_eq!(second["messages"][1], json!({ "role": "assistant", "content": "Hello, Ann." }));
}

// spec: llm-provider §8.2: Anthropic wants to know how long an answer may be, though nobody said.
#[test]
fn every_wire_needs_nothing_but_a_name() {
    let anthropic = json!({
        "id": "m", "type": "message", "role": "assistant", "model": "x", "stop_reason": "end_turn",
        "content": [{ "type": "text", "text": "Hi." }], "usage": { "input_tokens": 1, "output_tokens": 1 },
    });
    let gemini = json!({
        "candidates": [{ "content": { "role": "model", "parts": [{ "text": "Hi." }] }, "finishReason": "STOP" }],
        "usageMetadata": { "promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2 },
    });
    for (wire, body, path) in [
        ("anthropic", anthropic, "/v1/messages"),
        ("gemini", gemini, "/v1beta/models/x:streamGenerateContent"),
    ] {
        let server = ModelServer::start(move |_, stream| answer(stream, "200 OK", &body));
        let model = ["--model", &format!("{wire}:x"), "--base-url", &server.url, "--key-env", "MY_KEY"];
        let ran = run(&Home::new(), &[["send", "hi"].as_slice(), &model].concat(), "");
        assert_eq!((ran.code, ran.out.as_str()), (0, "Hi.\n"), "{wire}: {ran:?}");
        let asked = server.asked();
        assert!(asked.head.starts_with(&format!("POST {path}")), "{}", asked.head);
    }
}

// A vendor's key is for the vendor's server only.
#[test]
fn a_server_of_ones_own_gets_no_key_that_was_not_named_for_it() {
    let server = ModelServer::start(|_, stream| stream_text(stream, &["Hi."]));
    let ran = run(
        &Home::new(),
        &["send", "hi", "--model", "openai:x", "--base-url", &format!("{}/v1", server.url)],
        "",
    );
    assert_eq!((ran.code, ran.out.as_str()), (0, "Hi.\n"), "{ran:?}");
    let asked = server.asked();
    assert!(asked.head.starts_with("POST /v1/chat/completions "), "{}", asked.head);
    assert!(!asked.head.contains("authorization"), "{}", asked.head);
}

#[test]
fn a_wrong_key_is_told_by_category_and_hint() {
    let server = ModelServer::start(|_, stream| {
        let message = format!("Incorrect API key provided: {KEY}");
        answer(
            stream,
            "401 Unauthorized",
            &json!({ "error": { "message": message, "code": "invalid_api_key" } }),
        );
    });
    let home = Home::new();
    let model = ["--model", "openai:x", "--base-url", &server.url, "--key-env", "MY_KEY"];
    let ran = run(&home, &[["send", "hi"].as_slice(), &model].concat(), "");
    assert_eq!(ran.code, 1, "{ran:?}");
    let [_, category, hint] = ran.out.lines().collect::<Vec<_>>()[..] else { panic!("{ran:?}") };
    assert!(category.starts_with("  (provider_authentication: "), "{category}");
    assert_eq!(hint, "  hint: check the key: the variable or the file that is named for this model");
    let ran = run(&home, &[["send", "hi", "--json"].as_slice(), &model].concat(), "");
    let document: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((ran.code, &document["category"]), (1, &json!("provider_authentication")));
    // It is in no file either.
    let kept = std::fs::read(home.db()).unwrap();
    assert!(!kept.windows(KEY.len()).any(|it| it == KEY.as_bytes()));
}

#[test]
fn a_server_that_is_down_is_told_by_category_and_hint() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let ran = run(&Home::new(), &["chat", "--model", "openai:x", "--base-url", &url], "hi\n");
    assert_eq!(ran.code, 1, "{ran:?}");
    let [_, category, hint] = ran.out.lines().collect::<Vec<_>>()[..] else { panic!("{ran:?}") };
    assert!(category.starts_with("  (provider_unavailable: 127.0.0.1:"), "{category}");
    assert!(category.contains(" cannot be reached: "), "{category}");
    assert_eq!(hint, "  hint: check that the model's server runs and can be reached, then send it again");
}

#[test]
fn a_model_that_is_named_wrongly_is_a_usage_error() {
    let home = Home::new();
    let check = |args: &[&str], text: &str| {
        let ran = run(&home, &[&["send", "hi"], args].concat(), "");
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{args:?}: {ran:?}");
        assert!(ran.err.contains(text), "{args:?}: {}", ran.err);
    };
    check(&["--model", "gpt-5"], "it begins with openai:, anthropic: or gemini:");
    check(&["--model", "openai:"], "it names no model");
    check(&["--base-url", "http://x"], "--model <WIRE:NAME>");
    check(&["--model", "openai:x", "--config", "y"], "cannot be used with");
    check(
        &["--model", "gemini:x"],
        "the environment variable GEMINI_API_KEY is not set; name another variable by --key-env",
    );
    check(&["--model", "openai:x", "--key-env", KEY], "the variable that --key-env names is not set");
    assert!(!home.folder().exists(), "nothing was made");
    let ran = run(
        &home,
        &["send", "hi", "--model", "openai:x", "--base-url", "http://me:canary@x", "--key-env", "MY_KEY"],
        "",
    );
    assert_eq!((ran.code, ran.out.as_str()), (1, ""), "{ran:?}");
    assert!(
        ran.err.starts_with("error: provider_invalid_request: ") && !ran.err.contains("canary"),
        "{}",
        ran.err
    );
}
