//! The HTTP layers around every section.

use bytes::Bytes;
use hyper::Method;
use serde_json::json;

use crate::support::{Client, Rig};

fn error(category: &str, message: &str, id: &str) -> serde_json::Value {
    json!({ "error": {
        "category": category, "bucket": "user_correctable", "message": message, "request_id": id } })
}

#[tokio::test]
async fn a_path_that_is_not_there_is_told_in_one_shape_with_the_callers_own_id() {
    let rig = Rig::start().await;
    let answer = rig.client().with("x-request-id", "mine-1").get("/nowhere").await;
    assert_eq!(answer.status, 404);
    assert_eq!(answer.header("x-request-id"), "mine-1");
    assert_eq!(answer.json(), error("server_route_unknown", "there is no such path", "mine-1"));
    rig.stop().await;
}

#[tokio::test]
async fn a_method_that_is_not_there_is_told_with_those_that_are() {
    let rig = Rig::start().await;
    let answer = rig.client().with("x-request-id", "m").send(Method::DELETE, "/healthz", None).await;
    assert_eq!(answer.status, 405);
    assert_eq!(answer.header("allow"), "GET,HEAD");
    let message = "this path is not used with this method";
    assert_eq!(answer.json(), error("server_method_not_allowed", message, "m"));
    rig.stop().await;
}

#[tokio::test]
async fn an_id_that_is_not_fit_is_replaced() {
    let rig = Rig::start().await;
    let ask = async |client: Client| {
        let answer = client.send_bytes(Method::GET, "/healthz", Bytes::new()).await;
        answer.header("x-request-id").to_owned()
    };
    let long = "x".repeat(200);
    assert_eq!(ask(rig.client().with("x-request-id", &long)).await, "00000000-0000-4000-8000-000000000000");
    assert_eq!(ask(rig.client()).await, "00000000-0000-4000-8000-000000000001");
    rig.stop().await;
}
