//! The document of the API, and the page made of it.

use std::collections::BTreeSet;

use serde_json::Value;

use super::api::Api;
use crate::support::Rig;

#[tokio::test]
async fn the_document_describes_what_is_served_and_nothing_else() {
    let rig = Rig::start().await;
    let document = rig.client().get("/openapi.json").await.json();
    assert_eq!(document["openapi"], "3.1.0");
    let served: BTreeSet<_> = singletree_server::Server::list_routes()
        .into_iter()
        .map(|(method, path)| (method.as_str().to_ascii_lowercase(), path.to_owned()))
        .collect();
    let mut described = BTreeSet::new();
    let mut ids = BTreeSet::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            described.insert((method.clone(), path.clone()));
            assert!(ids.insert(operation["operationId"].as_str().unwrap()), "{operation}");
            assert!(!operation["tags"][0].as_str().unwrap().is_empty(), "{operation}");
        }
    }
    let invented: Vec<_> = described.difference(&served).collect();
    assert_eq!(invented, Vec::<&(String, String)>::new());
    // Of the native API nothing is left out. Protocols of others are described elsewhere.
    let hidden: Vec<_> =
        served.difference(&described).filter(|it| it.1.starts_with("/v1/sessions")).collect();
    assert_eq!(hidden, Vec::<&(String, String)>::new());
}

#[tokio::test]
async fn every_reference_in_the_document_leads_somewhere_and_every_shape_is_used() {
    let rig = Rig::start().await;
    let document = rig.client().get("/openapi.json").await.json();
    let mut named = BTreeSet::new();
    references(&document, &mut named);
    let shapes = document["components"]["schemas"].as_object().unwrap();
    let there: BTreeSet<_> = shapes.keys().map(|it| format!("#/components/schemas/{it}")).collect();
    assert_eq!(named, there);
    for (name, schema) in shapes {
        assert!(schema["description"].is_string(), "{name} is not described");
    }
}

fn references(value: &Value, named: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) => {
            named.extend(map.get("$ref").and_then(Value::as_str).map(str::to_owned));
            map.values().for_each(|it| references(it, named));
        }
        Value::Array(all) => all.iter().for_each(|it| references(it, named)),
        _ => {}
    }
}

#[tokio::test]
async fn the_page_shows_every_operation_and_lets_a_browser_do_nothing() {
    let rig = Rig::start().await;
    let document = rig.client().get("/openapi.json").await.json();
    let page = rig.client().get("/docs").await;
    assert_eq!((page.status, page.header("content-type")), (200, "text/html; charset=utf-8"));
    assert_eq!(page.header("x-content-type-options"), "nosniff");
    let policy = page.header("content-security-policy");
    assert!(policy.starts_with("default-src 'none'; style-src 'sha256-"), "{policy}");
    assert!(!policy.contains("unsafe"), "{policy}");
    let html = page.text();
    for word in ["<script", "javascript:", " onclick", "http://", "https://", "style=\"", "@import", "url("] {
        assert!(!html.contains(word), "{word}");
    }
    for methods in document["paths"].as_object().unwrap().values() {
        for operation in methods.as_object().unwrap().values() {
            let id = operation["operationId"].as_str().unwrap();
            assert!(html.contains(&format!("<section id=\"{id}\">")), "{id}");
        }
    }
    for name in document["components"]["schemas"].as_object().unwrap().keys() {
        assert!(html.contains(&format!("<section id=\"shape-{name}\">")), "{name}");
    }
    // The digest in the policy is that of the style sheet in the page.
    let style = html.split("<style>").nth(1).unwrap().split("</style>").next().unwrap();
    let digest = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, sha256(style));
    assert!(policy.contains(&format!("'sha256-{digest}'")), "{policy}");
}

fn sha256(text: &str) -> Vec<u8> {
    sha2::Digest::finalize(<sha2::Sha256 as sha2::Digest>::new_with_prefix(text)).to_vec()
}

// INV-14: the document says nothing of anybody's sessions, and is read without a key.
#[tokio::test]
async fn the_document_is_the_same_for_all() {
    let rig = Rig::start().await;
    let before = rig.client().get("/openapi.json").await.body;
    Api::of(&rig).await.send("s", "say hello").await;
    assert_eq!(rig.client().get("/openapi.json").await.body, before);
}
