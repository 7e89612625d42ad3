//! Third-party clients against the server: their state must equal the state of the server.

use std::io::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;

use crate::support::Rig;

/// Returns the path of an installed program, if `.ci/tools/install` installed it; otherwise reports that the test is
/// not run.
pub(crate) fn installed(test: &str, file: &str) -> Option<(PathBuf, PathBuf)> {
    let missing = |reason: &str| {
        // `eprintln!` of a test that passes is swallowed.
        writeln!(std::io::stderr(), "not run: {test}: {reason}")
            .expect("the test's error stream takes a line");
        None
    };
    let Some(tools) = std::env::var_os("SINGLETREE_TOOLS").map(PathBuf::from) else {
        return missing("SINGLETREE_TOOLS is not set; .ci/run sets it");
    };
    let node = std::process::Command::new("node").arg("--version").output();
    if !file.ends_with("python") && node.is_err() {
        return missing("there is no node");
    }
    let path = tools.join(file);
    if path.exists() { Some((tools, path)) } else { missing(&format!("{file} is not installed")) }
}

/// Runs a client to its end and returns its last line. Each line `pace N` lets the model go on for N pauses.
pub(crate) async fn run(rig: &Rig, program: &Path, arguments: &[&std::ffi::OsStr], script: &str) -> Value {
    let obey = |line: &str| match line.strip_prefix("pace ") {
        Some(pauses) => {
            rig.pace.pass(pauses.parse().unwrap());
            true
        }
        None => false,
    };
    drive(rig.at, program, arguments, script, obey).await
}

/// Runs a client to its end and returns the last line that it printed, except for lines that `obey` carries out.
pub(crate) async fn drive(
    at: SocketAddr,
    program: &Path,
    arguments: &[&std::ffi::OsStr],
    script: &str,
    mut obey: impl FnMut(&str) -> bool,
) -> Value {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients").join(script);
    let mut command = Command::new(program);
    command.arg(script).args(arguments).arg(format!("http://{at}"));
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let talking = async {
        let mut last = String::new();
        while let Some(line) = lines.next_line().await.unwrap() {
            if !obey(&line) {
                last = line;
            }
        }
        last
    };
    let last = tokio::time::timeout(Duration::from_secs(120), talking).await.expect("it does not end");
    let ended = child.wait().await.unwrap();
    assert!(ended.success(), "{ended}: {last}");
    serde_json::from_str(&last).unwrap()
}

/// Returns a session's transcript, as the native API has it, in AG-UI's words.
async fn transcript(rig: &Rig, session: &str) -> Vec<Value> {
    let answer = rig.client().get(&format!("/v1/sessions/{session}/messages")).await.json();
    let items = answer["items"].as_array().unwrap().iter().map(|it| {
        let id = it["side"].get("client_id").unwrap_or(&it["id"]);
        let mut message = json!({ "id": id, "role": it["role"] });
        let calls = it["tool_calls"].as_array().map(|calls| {
            let call = |it: &Value| {
                json!({ "id": it["id"], "type": "function",
                "function": { "name": it["name"], "arguments": it["arguments"].to_string() } })
            };
            calls.iter().map(call).collect::<Vec<_>>()
        });
        if it["content"] != "" || calls.is_none() {
            message["content"] = it["content"].clone();
        }
        if let Some(calls) = calls {
            message["toolCalls"] = calls.into();
        }
        if let Some(call) = it.get("tool_call_id") {
            message["toolCallId"] = call.clone();
        }
        message
    });
    items.collect()
}

#[tokio::test]
async fn the_protocols_own_client_of_ag_ui_holds_the_transcript() {
    the_client_of_ag_ui_holds_the_transcript("@ag-ui/client").await;
}

// W6
#[tokio::test]
async fn the_last_client_of_ag_ui_before_its_version_1_holds_the_transcript() {
    the_client_of_ag_ui_holds_the_transcript("@ag-ui/client-0").await;
}

async fn the_client_of_ag_ui_holds_the_transcript(package: &str) {
    let file = format!("node_modules/{package}/package.json");
    let Some((tools, _)) = installed("a client of AG-UI holds the transcript", &file) else { return };
    let rig = Rig::start().await;
    let arguments = [tools.as_os_str(), package.as_ref()];
    let told = run(&rig, Path::new("node"), &arguments, "agui.mjs").await;
    // The client strips unknown fields, with a warning, and fails at malformed ones. Its only warnings here say that a
    // run was aborted, which the test did.
    let warnings: Vec<_> = told["warnings"].as_array().unwrap().iter().map(ToString::to_string).collect();
    assert!(warnings.iter().all(|it| it.contains("abort")), "{warnings:?}");
    for session in ["tools", "approvals", "errors", "reconnect"] {
        assert_eq!(told[format!("{session}Messages")], json!(transcript(&rig, session).await), "{session}");
    }
    assert_eq!(told["anewMessages"], told["reconnectMessages"]);
    let outcome = |name: &str| told[name]["outcome"].as_str().unwrap_or_default().to_owned();
    for name in ["said", "tools", "refused", "givenUp", "recovered", "again", "anew"] {
        assert_eq!(outcome(name), "success", "{name}");
    }
    let ended = told["cancelled"]["types"].as_array().unwrap().last().unwrap().clone();
    assert_eq!((ended, &told["cancelled"]["error"]), (json!("RUN_FINISHED"), &Value::Null));
    assert_eq!((outcome("asked"), outcome("approved")), ("interrupt".to_owned(), "interrupt".to_owned()));
    assert_eq!(told["interrupts"][0]["responseSchema"]["required"], json!(["approved"]));
    assert_eq!(told["leftPending"], json!([]));
    assert_eq!(rig.world.done(), ["look a", "act b", "send a"]);

    assert_eq!(told["failed"]["error"], "provider_unavailable");
    let failed = told["failedMessages"].as_array().unwrap();
    assert_eq!(failed[..2], told["errorsMessages"].as_array().unwrap()[..2]);
    assert_eq!((failed.len(), &failed[2]["content"]), (3, &json!("fail halfway")));

    let halfway = told["halfway"][1]["content"].as_str().unwrap();
    let whole = told["reconnectMessages"][1]["content"].as_str().unwrap();
    assert!(whole.starts_with(halfway) && halfway.len() < whole.len(), "{halfway:?} {whole:?}");
    assert_eq!(rig.chat.session("reconnect").turns(0, 9).await.unwrap().items.len(), 1);
    rig.stop().await;
}

fn content(completion: &Value) -> &Value {
    &completion["choices"][0]["message"]["content"]
}

#[tokio::test]
async fn openais_own_client_for_node_is_answered_as_it_expects() {
    let test = "openais_own_client_for_node_is_answered_as_it_expects";
    let Some((tools, _)) = installed(test, "node_modules/openai/package.json") else { return };
    let rig = Rig::start().await;
    let told = run(&rig, Path::new("node"), &[tools.as_os_str()], "openai.mjs").await;
    assert_eq!((&told["models"], &told["model"]["id"]), (&json!(["brief", "scripted"]), &json!("brief")));
    assert_eq!(content(&told["whole"]), "All done.");
    assert_eq!(
        (content(&told["streamed"]), &told["text"]),
        (&json!("You said: one two"), &json!("You said: one two"))
    );
    assert!(told["streamed"]["usage"]["total_tokens"].as_u64().unwrap() > 0);
    assert_eq!(told["ran"], "All done.");
    let roles: Vec<_> = told["ranMessages"].as_array().unwrap().iter().map(|it| it["role"].clone()).collect();
    assert_eq!(roles, ["user", "assistant", "tool", "assistant"]);

    assert_eq!(
        (content(&told["first"]), content(&told["second"])),
        (&json!("You said: a"), &json!("All done."))
    );
    assert_eq!(told["waiting"]["singletree"]["outcome"], "suspended");
    let texts: Vec<_> = transcript(&rig, "node").await.into_iter().map(|it| it["content"].clone()).collect();
    let expect = ["say a", "You said: a", "act", "", "did a", "All done.", "send", ""];
    assert_eq!(texts.iter().map(|it| it.as_str().unwrap_or_default()).collect::<Vec<_>>(), expect);
    let error = |name: &str, status: Value, code: &str, kind: &str, param: Value| json!({ "name": name, "status": status, "code": code, "type": kind, "param": param });
    let (invalid, bad) = ("invalid_request_error", "BadRequestError");
    let suspended = error("ConflictError", json!(409), "chat_session_suspended", invalid, Value::Null);
    assert_eq!(told["suspended"], suspended);
    assert_eq!((content(&told["once"]), &told["tries"]), (&json!("You said: once"), &json!(2)));
    assert_eq!(rig.chat.session("once").turns(0, 9).await.unwrap().items.len(), 1);

    let errors = json!({
        "retryable": error("InternalServerError", json!(503), "provider_unavailable", "server_error", Value::Null),
        "correctable": error(bad, json!(400), "provider_invalid_request", invalid, Value::Null),
        "halfway": error("APIError", Value::Null, "provider_unavailable", "server_error", Value::Null),
        "model": error("NotFoundError", json!(404), "chat_agent_unknown", invalid, json!("model")),
        "n": error(bad, json!(400), "server_request_invalid", invalid, json!("n")),
    });
    assert_eq!(told["errors"], errors);
    // It retried only the retryable failure, twice.
    let asked = rig.world.asked();
    let tried =
        |text: &str| asked.iter().filter(|it| it.messages.last().is_some_and(|it| it.text() == text)).count();
    assert_eq!([tried("fail retryable"), tried("fail correctable")], [3, 1]);
    rig.stop().await;
}

#[tokio::test]
async fn openais_own_client_for_python_is_answered_as_it_expects() {
    let test = "openais_own_client_for_python_is_answered_as_it_expects";
    let Some((_, python)) = installed(test, "python/bin/python") else { return };
    let rig = Rig::start().await;
    let told = run(&rig, &python, &[], "openai_client.py").await;
    assert_eq!(told["models"], json!(["brief", "scripted"]));
    assert_eq!(content(&told["whole"]), "You said: one two");
    assert_eq!((content(&told["streamed"]), &told["text"]), (&json!("All done."), &json!("All done.")));
    assert!(told["streamed"]["usage"]["total_tokens"].as_u64().unwrap() > 0);
    assert_eq!((&told["called"]["finish_reason"], &told["ran"]), (&json!("tool_calls"), &json!("All done.")));
    assert_eq!((content(&told["first"]), &told["second"]), (&json!("You said: a"), &json!("All done.")));
    assert_eq!(told["waiting"]["singletree"]["wait"]["metadata"]["tool"], "send");
    assert_eq!(transcript(&rig, "python").await.len(), 8);
    let error = |name: &str, status: Value, code: &str, param: Value| json!({ "name": name, "status": status, "code": code, "param": param });
    assert_eq!(told["suspended"], error("ConflictError", json!(409), "chat_session_suspended", Value::Null));
    let errors = json!({
        "retryable": error("InternalServerError", json!(503), "provider_unavailable", Value::Null),
        "halfway": error("APIError", Value::Null, "provider_unavailable", Value::Null),
        "model": error("NotFoundError", json!(404), "chat_agent_unknown", json!("model")),
        "n": error("BadRequestError", json!(400), "server_request_invalid", json!("n")),
    });
    assert_eq!(told["errors"], errors);
    rig.stop().await;
}
