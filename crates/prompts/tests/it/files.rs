//! Folders of prompts.

use std::fs;
use std::path::Path;

use serde_json::json;
use singletree_llm::{ImageDetailLevel, RuntimeConfig};
use singletree_prompts::{
    BlockTemplate, ChatSegment, Error, FileBackend, FileLimits, ImageTemplate, Prompt, PromptBackend as _,
    Result, SegmentContent, SegmentRole, Template, TokenBudget,
};
use tempfile::TempDir;

use crate::support::{Told, at};

/// Makes a folder of files.
fn folder(files: &[(&str, &str)]) -> TempDir {
    let dir = tempfile::tempdir().expect("a scratch folder");
    for (name, text) in files {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("it is made");
        fs::write(path, text).expect("it is written");
    }
    dir
}

async fn fetch(dir: &Path, name: &str, label: &str) -> Result<Prompt> {
    let backend = FileBackend::new(dir).with_clock(Told::at(9));
    backend.fetch_prompt(name, label, None).await.map(|it| (*it).clone())
}

const FULL: &str = r#"+++
version = "3"
labels = ["production", "latest"]
description = "Says hello."

[sampling]
temperature = 0
max_tokens = 256
stop_sequences = ["END"]

[sampling.extras]
top_k = 40

[token_budget]
input_max_tokens = 2000
whatever = "is ignored"

[observability_entities]
langfuse_prompt = "ref"

[metadata]
owner = "support"
+++

Hello, {{ user }}!

"#;

#[tokio::test]
async fn a_file_says_everything_about_its_prompt() {
    let dir = folder(&[("support/greeting.md", FULL)]);
    let map = |it: serde_json::Value| it.as_object().unwrap().clone();
    let sampling = RuntimeConfig {
        temperature: Some(0.0),
        max_tokens: Some(256),
        stop_sequences: Some(vec!["END".into()]),
        extras: map(json!({"top_k": 40})),
        ..RuntimeConfig::default()
    };
    let wanted = Prompt::text("support/greeting", "3", "Hello, {{ user }}!")
        .with_label("latest")
        .with_fetched_at(at(9))
        .with_sampling(sampling)
        .with_token_budget(TokenBudget { input_max_tokens: Some(2000), total_max_tokens: None })
        .with_observability_entities(map(json!({"langfuse_prompt": "ref"})))
        .with_metadata(map(json!({
            "owner": "support", "description": "Says hello.", "path": "support/greeting.md"
        })));
    assert_eq!(fetch(dir.path(), "support/greeting", "latest").await.unwrap(), wanted);
}

#[tokio::test]
async fn a_file_without_a_header_is_a_prompt_of_its_hash_in_production() {
    let dir = folder(&[("plain.md", "\u{feff}\r\nOne\r\n\r\nTwo\r\n")]);
    let prompt = fetch(dir.path(), "plain", "production").await.unwrap();
    assert_eq!(prompt.template(), &Template::Text("One\n\nTwo".into()));
    assert_eq!(format!("sha256:{}", prompt.version()), prompt.template_hash()[..19]);
    fs::write(dir.path().join("plain.md"), "Three").unwrap();
    let changed = fetch(dir.path(), "plain", "production").await.unwrap();
    assert_eq!(changed.template(), &Template::Text("Three".into()));
    assert_ne!(changed.version(), prompt.version());
}

#[tokio::test]
async fn versions_of_a_prompt_lie_beside_each_other_and_labels_choose() {
    let dir = folder(&[
        ("p@1.md", "one"),
        ("p@2.md", "+++\nlabels = [\"staging\"]\n+++\ntwo"),
        ("p@3.md", "+++\nlabels = []\n+++\nthree"),
        ("pp.md", "+++\nlabels = [\"staging\"]\n+++\nother"),
    ]);
    let version = async |label| fetch(dir.path(), "p", label).await.map(|it| it.version().to_owned());
    assert_eq!(version("production").await.unwrap(), "1");
    assert_eq!(version("staging").await.unwrap(), "2");
    assert_eq!(version("3").await.unwrap_err().category(), "prompt_not_found");
}

#[tokio::test]
async fn markers_make_a_chat_prompt() {
    let text = r#"
[[system]]

You describe photos.

  Briefly.

[[placeholder history]]
[[user]]
Describe {{ product }}:
[[image url = "{{ url }}", detail = "high"]]
[[image base64_data = "{{ data }}", media_type = "image/png"]]
\[[image]] is no marker.
[[assistant]]
[ok] [[x]] [[
"#;
    let dir = folder(&[("p.md", text)]);
    let image = |source, detail| BlockTemplate::Image { source, detail };
    let url = ImageTemplate::Url { url: "{{ url }}".into(), media_type: None };
    let inline = ImageTemplate::Inline { base64_data: "{{ data }}".into(), media_type: "image/png".into() };
    let wanted = vec![
        ChatSegment::text(SegmentRole::System, "You describe photos.\n\n  Briefly."),
        ChatSegment::placeholder("history"),
        ChatSegment::Content {
            role: SegmentRole::User,
            content: SegmentContent::Blocks(vec![
                BlockTemplate::text("Describe {{ product }}:"),
                image(url, Some(ImageDetailLevel::High)),
                image(inline, None),
                BlockTemplate::text("[[image]] is no marker."),
            ]),
        },
        ChatSegment::text(SegmentRole::Assistant, "[ok] [[x]] [["),
    ];
    let prompt = fetch(dir.path(), "p", "production").await.unwrap();
    assert_eq!(prompt.template(), &Template::Chat(wanted));
}

#[tokio::test]
async fn a_mistake_is_told_with_its_file_and_its_line() {
    for (text, line, what) in [
        ("", 1, "there is no template"),
        ("+++\n+++\n\n \n", 3, "there is no template"),
        ("+++\nversion = \"1\"\n", 1, "the header has no end"),
        ("---\nversion: 1\n---\nx", 1, "a header is TOML between two lines '+++'"),
        ("+++\nlabels = []\nverson = \"1\"\n+++\nx", 3, "unknown field `verson`"),
        ("+++\n\nversion = 1\n+++\nx", 3, "invalid type: integer `1`, expected a string"),
        ("+++\n[sampling]\ntemprature = 1\n+++\nx", 3, "unknown field `temprature`"),
        ("+++\n[sampling]\nmax_tokens = -1\n+++\nx", 3, "invalid value: integer `-1`"),
        ("+++\nversion = \n+++\nx", 2, "string values must be quoted"),
        ("[[system]]\nx\n[[human]]\ny", 3, "unknown marker [[human]]"),
        ("[[system]]\n\n[[user]]\nx", 1, "the segment is empty"),
        ("+++\n+++\n[[placeholder h]]\nx", 4, "text stands in a segment"),
        ("[[placeholder h]]\n[[placeholder h]]", 2, "is there twice"),
        ("[[placeholder 1h]]", 1, "letters, digits and underscores"),
        ("[[system]]\nx\n[[image url = \"u\"]]", 3, "an image stands in a segment [[user]]"),
        ("[[user]]\n[[image]]", 2, "either url or base64_data"),
        ("[[user]]\n[[image base64_data = \"x\"]]", 2, "needs its media_type"),
        ("[[user]]\n[[image url = \"x\", detail = \"much\"]]", 2, "auto, low or high"),
        ("[[user]]\n[[image link = \"x\"]]", 2, "unknown field `link`"),
    ] {
        let dir = folder(&[("p.md", text)]);
        let error = fetch(dir.path(), "p", "production").await.unwrap_err();
        let Error::FileInvalid { path, line: at, what: told } = &error else { panic!("{text:?}: {error:?}") };
        assert_eq!((path, *at), (&dir.path().join("p.md"), line), "{text:?}: {told}");
        assert!(told.contains(what), "{text:?}: {told}");
        assert_eq!((error.category(), error.is_transient()), ("prompt_file_invalid", false));
    }
}

#[tokio::test]
async fn a_bad_file_hides_no_good_one() {
    let dir = folder(&[("p@1.md", "one"), ("p@2.md", "+++\nbad\n+++\ntwo")]);
    assert_eq!(fetch(dir.path(), "p", "production").await.unwrap().version(), "1");
    let error = fetch(dir.path(), "p", "staging").await.unwrap_err();
    assert_eq!(error.category(), "prompt_file_invalid", "perhaps the bad one is what was asked for");
}

#[tokio::test]
async fn two_files_with_one_label_are_a_mistake() {
    let dir = folder(&[("p@1.md", "one"), ("p@2.md", "two")]);
    let told = fetch(dir.path(), "p", "production").await.unwrap_err().to_string();
    assert!(told.contains("p@1.md") && told.contains("p@2.md"), "{told}");
}

#[tokio::test]
async fn what_is_too_long_or_no_text_is_not_read() {
    let dir = folder(&[("long.md", "12345")]);
    fs::write(dir.path().join("bytes.md"), b"ok\n\xff").unwrap();
    let backend = FileBackend::new(dir.path()).with_limits(FileLimits { file_bytes: 4 });
    let told = async |name| backend.fetch_prompt(name, "production", None).await.unwrap_err().to_string();
    assert!(told("long").await.ends_with("long.md:1: the file is longer than 4 bytes"));
    assert!(told("bytes").await.ends_with("bytes.md:2: the text is no UTF-8"));
}

#[tokio::test]
async fn a_folder_that_is_not_there_is_unavailable_and_a_name_that_no_file_has_is_not_found() {
    let dir = folder(&[("p.md", "x"), (".hidden.md", "x"), ("dir.md/x.md", "x")]);
    let missing = fetch(&dir.path().join("missing"), "p", "production").await.unwrap_err();
    assert_eq!((missing.category(), missing.is_transient()), ("prompt_store_unavailable", true));
    for name in ["q", "p/q", "../p", "/p", ".hidden", "p@1", "", "dir", "p\0"] {
        let error = fetch(dir.path(), name, "production").await.unwrap_err();
        assert_eq!(error.category(), "prompt_not_found", "{name:?}: {error}");
    }
}

#[tokio::test]
async fn a_folder_is_checked_as_a_whole() {
    let dir = folder(&[
        ("good.md", FULL),
        ("sub/broken.md", "Hello, {{ user"),
        ("sub/header.md", "+++\nx = 1\n+++\ny"),
        ("twice@1.md", "one"),
        ("twice@2.md", "two"),
        ("notes.txt", "{{"),
    ]);
    let mistakes = FileBackend::new(dir.path()).check_files().await.unwrap();
    let places: Vec<_> = mistakes
        .iter()
        .map(|it| match it {
            Error::FileInvalid { path, line, .. } => {
                (path.strip_prefix(dir.path()).unwrap().to_str().unwrap(), *line)
            }
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(places, [("sub/broken.md", 1), ("sub/header.md", 2), ("twice@2.md", 1)]);
}

// Without a runtime there is no other task to hold up.
#[test]
fn a_folder_is_read_without_a_runtime_too() {
    let dir = folder(&[("p.md", "x")]);
    let backend = FileBackend::new(dir.path());
    let mut fetch = backend.fetch_prompt("p", "production", None);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    let ready = fetch.as_mut().poll(&mut context);
    assert!(matches!(ready, std::task::Poll::Ready(Ok(prompt)) if prompt.name() == "p"));
}
