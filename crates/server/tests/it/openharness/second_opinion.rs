//! The same schema, read by somebody else's library: Python's `jsonschema`, where it is there.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use bytes::Bytes;
use hyper::Method;
use serde_json::{Value, json};
use singletree_client::{ShellProfile, ShellSession as Client};
use singletree_protocol::openharness::{AttachmentRef, Continuation, EnvironmentState};

use super::asking::{Shell, message, option, saying, with_id};
use super::schema::path;
use crate::support::Rig;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/clients/openharness_schema.py");

/// One answer of each kind.
async fn answers() -> Vec<Value> {
    let rig = Rig::start().await;
    let (shell, client) = (Shell::of(&rig), rig.client());
    let waiting = shell.ask(&with_id(saying("s", "send"), "r")).await;
    let mut asking = saying("t", "both");
    asking["capabilities"] = json!({"openharness.streaming": true, "openharness.attachments.upload": true});
    let mut old = saying("s", "x");
    old["protocol_version"] = "3.0.0".into();
    let mut answers = vec![
        shell.decide(&option(&waiting, "approve")).await,
        waiting,
        shell.ask(&asking).await,
        shell.ask(&old).await,
        shell.ask(&message(json!({}))).await,
    ];
    for intent in ["fail retryable", "fail correctable", "fail terminating"] {
        answers.push(shell.say("u", intent).await);
    }
    answers.push(shell.post_bytes("no json").await.json());
    answers.push(client.get("/v1/openharness/capabilities").await.json());
    answers.push(client.get("/v1/openharness/nowhere").await.json());
    answers.push(client.send(Method::DELETE, "/v1/openharness", None).await.json());
    answers.push(client.send_bytes(Method::POST, "/openharness", Bytes::new()).await.json());
    answers.push(client.post("/pair/create", &json!({})).await.json());
    answers.push(client.post("/pair/confirm", &json!({"code": "x"})).await.json());
    rig.stop().await;
    answers
}

/// The requests of our own shell.
fn requests() -> Vec<Value> {
    let shell =
        Client::new(ShellProfile::for_text_shell("test", "1"), Some("s".into())).conversation("c").sop("p");
    let attachment =
        AttachmentRef { ref_id: Some("a".into()), size_bytes: Some(1), ..AttachmentRef::default() };
    let state: EnvironmentState = serde_json::from_value(json!({"os": "x", "more": [1]})).unwrap();
    let continuation = Continuation { continuation_token: Some("t".into()), ..Continuation::default() };
    let said = [
        shell.request_for_intent("hello", "r".into()),
        shell.request_with_attachments("look", vec![attachment], Some(state), "r".into()).unwrap(),
        shell.request_for_decision(&continuation, "r".into()),
    ];
    said.iter().map(|it| serde_json::to_value(it).unwrap()).collect()
}

#[tokio::test]
async fn somebody_elses_library_finds_the_same_messages_valid() {
    let Some(schema) = path("schema/openharness-v1.draft.json") else { return };
    let found = Command::new("python3").args(["-c", "import jsonschema"]).stderr(Stdio::null()).status();
    if !found.is_ok_and(|it| it.success()) {
        writeln!(std::io::stderr(), "not run: openharness second opinion: no python3 with jsonschema")
            .unwrap();
        return;
    }
    let mut lines: Vec<Value> =
        answers().await.into_iter().map(|it| json!(["responseMessage", it])).collect();
    lines.extend(requests().into_iter().map(|it| json!(["requestMessage", it])));
    let count = lines.len();
    assert_eq!(judged(&schema, &lines), (true, count.to_string()));
    // Proves that the judge can refuse.
    lines[0][1]["response"]["status"] = "maybe".into();
    assert!(!judged(&schema, &lines).0);
}

fn judged(schema: &Path, lines: &[Value]) -> (bool, String) {
    let mut child = Command::new("python3")
        .arg(SCRIPT)
        .arg(schema)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    for line in lines {
        // It may have found something wrong already.
        drop(writeln!(input, "{line}"));
    }
    drop(input);
    let output = child.wait_with_output().unwrap();
    let text = if output.status.success() { output.stdout } else { output.stderr };
    (output.status.success(), String::from_utf8(text).unwrap().trim().to_owned())
}
