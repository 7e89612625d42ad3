//! Requests that are no valid message: every answer is a message all the same.

use bytes::Bytes;
use hyper::Method;
use serde_json::{Value, json};
use singletree_server::ServerLimits;

use super::asking::{PATH, Shell, checked, error, saying, with_id};
use crate::support::{Answer, Rig};

fn told(answer: &Answer) -> (u16, String, String) {
    let value = answer.json();
    assert_eq!(value.get("request_id"), None, "none is made up");
    let category = value["response"]["error"]["details"]["error_category"].as_str().unwrap().to_owned();
    (answer.status, error(&value).0, category)
}

fn expected(status: u16, code: &str, category: &str) -> (u16, String, String) {
    (status, code.to_owned(), category.to_owned())
}

#[tokio::test]
async fn what_is_no_message_is_answered_by_one() {
    let rig = Rig::start().await;
    let shell = Shell::of(&rig);
    let invalid = expected(400, "invalid_request", "server_request_invalid");
    let deep = "[".repeat(100_000);
    for bytes in ["", "{", "nul", "[]", "\"x\"", "7", "{\"a\":1}{", "\u{feff}{}", deep.as_str()] {
        assert_eq!(told(&shell.post_bytes(bytes.to_owned()).await), invalid, "{bytes:.20}");
    }
    assert_eq!(told(&shell.post_bytes(vec![0xff, 0xfe]).await), invalid);
    rig.stop().await;
}

#[tokio::test]
async fn paths_methods_and_types_that_are_not_there_are_told_by_messages() {
    let rig = Rig::start().await;
    let client = rig.client();
    let gone = checked(client.get("/v1/openharness/nowhere").await);
    assert_eq!(told(&gone), expected(404, "invalid_request", "server_route_unknown"));
    for path in [PATH, "/openharness"] {
        let answer = checked(client.send(Method::DELETE, path, None).await);
        assert_eq!(told(&answer), expected(405, "invalid_request", "server_method_not_allowed"));
        assert_eq!(answer.header("allow"), "POST");
        let form = client.clone().with("content-type", "application/x-www-form-urlencoded");
        let answer = checked(form.send_bytes(Method::POST, path, Bytes::from_static(b"a=b")).await);
        assert_eq!(told(&answer), expected(415, "invalid_request", "server_media_type_unsupported"));
    }
    rig.stop().await;
}

#[tokio::test]
async fn a_body_that_is_too_large_is_told_by_a_message() {
    let limits = ServerLimits { body_bytes: 1000, ..ServerLimits::default() };
    let rig = Rig::builder().limits(limits).start().await;
    let answer = Shell::of(&rig).post(&saying("s", &"x".repeat(1000))).await;
    assert_eq!(told(&answer), expected(413, "invalid_request", "server_body_too_large"));
    rig.stop().await;
}

// spec: OpenHarness profile http-transport
#[tokio::test]
async fn a_correlation_id_of_the_transport_comes_back_by_the_transport_and_the_messages_own_wins() {
    let rig = Rig::start().await;
    let shell = Shell(rig.client().with("x-correlation-id", "outer"));
    let answer = shell.post(&saying("s", "say a")).await;
    assert_eq!(answer.header("x-correlation-id"), "outer");
    assert_eq!(answer.json().get("correlation_id"), None);
    let mut asked = with_id(saying("s", "say b"), "r");
    asked["correlation_id"] = "inner".into();
    let answer = shell.post(&asked).await;
    assert_eq!(answer.header("x-correlation-id"), "inner");
    assert_eq!(answer.json()["correlation_id"], "inner");
    rig.stop().await;
}

#[tokio::test]
async fn both_paths_are_the_same_engine() {
    let rig = Rig::start().await;
    let client = rig.client();
    let asked = with_id(saying("s", "say a"), "r");
    let one = checked(client.post(PATH, &asked).await);
    let other = checked(client.post("/openharness", &asked).await);
    assert_eq!(one.body, other.body);
    let table: Value = checked(client.get("/v1/openharness/capabilities").await).json();
    assert_eq!(checked(client.get("/openharness/capabilities").await).json(), table);
    assert_eq!(table["response"], json!({"status": "success", "action_directives": []}));
    rig.stop().await;
}
