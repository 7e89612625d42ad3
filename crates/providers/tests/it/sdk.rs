//! One stream per wire and kind, decoded by us and by the vendor's own SDK: equal messages.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use serde_json::{Value, json};
use singletree_http::{HttpClient, HttpLimits};
use singletree_llm::{
    ChatMessage, ContentBlock, Error, MessageContent, Request, Response, ResponseLimits, ToolDefinition,
    complete_streaming,
};
use singletree_providers::{HttpProvider, Wire};

use crate::installed::installed;
use crate::served::{Answer, Asked, Served};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/streams");

pub(crate) const WIRES: [(&str, Wire); 3] =
    [("openai", Wire::OpenAi), ("anthropic", Wire::Anthropic), ("gemini", Wire::Gemini)];

/// The streams of a wire, by name.
pub(crate) fn names(wire: &str) -> Vec<String> {
    let files = std::fs::read_dir(Path::new(FOLDER).join(wire)).unwrap().map(|it| it.unwrap().path());
    let mut names: Vec<String> = files
        .filter(|path| path.extension().is_some_and(|it| it == "sse"))
        .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    names.sort();
    assert!(
        ["error", "text", "thinking", "tools"].iter().all(|it| names.iter().any(|name| name == it)),
        "{names:?}"
    );
    names
}

pub(crate) fn file(wire: &str, name: &str, extension: &str) -> PathBuf {
    Path::new(FOLDER).join(wire).join(format!("{name}.{extension}"))
}

/// The stored result of an SDK for a stream.
fn kept(wire: &str, name: &str) -> Value {
    serde_json::from_slice(&std::fs::read(file(wire, name, "json")).unwrap()).unwrap()
}

/// Answers every request under `/WIRE/NAME/` with that stream.
fn streams() -> Served {
    Served::new(|asked: &Asked| {
        let mut parts = asked.path.split('/').skip(1);
        let (wire, name) = (parts.next().unwrap(), parts.next().unwrap());
        Answer::of(200, "text/event-stream", "", &std::fs::read(file(wire, name, "sse")).unwrap())
    })
}

fn request() -> Request {
    let tool = |name| {
        let any = json!({"type": "object", "properties": {}});
        ToolDefinition::new(name, "Tells something.", any).unwrap()
    };
    let config = singletree_llm::RuntimeConfig { max_tokens: Some(1024), ..Default::default() };
    Request::new(vec![Arc::new(ChatMessage::user("What is it?"))])
        .with_tools(["weather", "clock", "calendar"].map(tool).to_vec())
        .with_config(config)
}

/// Writes a response as `decode.py` does.
fn plain(response: &Response) -> Value {
    let content = match &response.message.content {
        MessageContent::Text(text) if text.is_empty() => Vec::new(),
        MessageContent::Text(text) => vec![ContentBlock::from_text(text)],
        MessageContent::Blocks(blocks) => blocks.clone(),
    };
    json!({
        "content": content,
        "tool_calls": response.message.tool_calls,
        "finish_reason": response.finish_reason,
        "usage": response.usage,
    })
}

async fn ours(wire: Wire, url: &str) -> Result<Response, Error> {
    let transport = Arc::new(HttpClient::new(HttpLimits::standard()).unwrap());
    let provider = HttpProvider::builder(wire, "any", transport).base_url(url).build().unwrap();
    complete_streaming(&provider, &request(), ResponseLimits::standard(), |_| {}).await
}

// spec: llm-provider §6, §8.1.6
#[tokio::test(flavor = "multi_thread")]
async fn we_make_of_each_stream_what_the_sdk_of_the_vendor_makes_of_it() {
    let server = streams();
    for (folder, wire) in WIRES {
        for name in names(folder) {
            let got = ours(wire, &format!("{}/{folder}/{name}", server.url())).await;
            let expected = kept(folder, &name);
            match (got, expected.get("error")) {
                (Ok(response), None) => assert_eq!(plain(&response), expected, "{folder}/{name}"),
                // Each of these says that the server could not, so trying again may help. spec: llm-provider §7
                (Err(error), Some(_)) => {
                    assert_eq!(error.category(), "provider_unavailable", "{folder}/{name}")
                }
                (got, expected) => panic!("{folder}/{name}: {got:?}, the SDK: {expected:?}"),
            }
        }
    }
}

#[test]
fn the_sdks_of_the_vendors_make_of_each_stream_what_is_kept() {
    let test = "the_sdks_of_the_vendors_make_of_each_stream_what_is_kept";
    let Some(python) = installed(test, "python/bin/python") else { return };
    let server = streams();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/sdk/decode.py");
    let mut child = Command::new(python)
        .arg(script)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("python starts");
    let mut tasks = child.stdin.take().unwrap();
    let mut answers = BufReader::new(child.stdout.take().unwrap()).lines();
    for (folder, _) in WIRES {
        for name in names(folder) {
            let url = format!("{}/{folder}/{name}", server.url());
            writeln!(tasks, "{}", json!({"wire": folder, "url": url})).unwrap();
            let answer =
                answers.next().unwrap_or_else(|| panic!("{folder}/{name}: the script ended")).unwrap();
            let answer: Value = serde_json::from_str(&answer).unwrap();
            assert_eq!(answer, kept(folder, &name), "{folder}/{name}");
        }
    }
    drop(tasks);
    assert!(child.wait().unwrap().success());
}
