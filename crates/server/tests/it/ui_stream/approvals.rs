//! Approvals in the parts that `ai` has for them since version 6.

use serde_json::{Value, json};

use super::{Page, messages, post, types, user};
use crate::support::{Client, Rig};

fn six(rig: &Rig) -> Client {
    rig.client().with("x-ai-sdk-version", "6")
}

fn call(message: &Value) -> Value {
    let parts = message["parts"].as_array().unwrap();
    parts.iter().rfind(|part| part["type"] == "dynamic-tool").unwrap().clone()
}

/// Returns the body that the library posts once a person has approved or denied a call.
fn responded(message: &Value, approved: bool) -> Value {
    let mut message = message.clone();
    for part in message["parts"].as_array_mut().unwrap() {
        if part["state"] == "approval-requested" {
            part["state"] = "approval-responded".into();
            part["approval"]["approved"] = approved.into();
            part["approval"]["reason"] = "because".into();
        }
    }
    json!({ "id": "s", "messages": [user("u1", "send"), message], "trigger": "submit-message", "messageId": message["id"] })
}

// W5, D2
#[tokio::test]
async fn an_approval_is_asked_for_and_given_in_the_librarys_own_parts() {
    let rig = Rig::start().await;
    let client = six(&rig);
    let told = post(&client, &json!({ "id": "s", "message": user("u1", "send") })).await;
    let request = told.iter().find(|part| part["type"] == "tool-approval-request").unwrap();
    let page = Page::of(&told);
    let asked = call(&page.message);
    assert_eq!(
        (&asked["state"], &asked["approval"]["id"]),
        (&json!("approval-requested"), &request["approvalId"])
    );
    assert_eq!(messages(&client, "s").await[1], page.message);
    // Version 5 gives up on a part that it does not know, so it gets none of these.
    assert!(!messages(&rig.client(), "s").await[1].to_string().contains("approval-requested"));
    // An id that was made up, and one about another action, approve nothing.
    let mut forged = page.message.clone();
    forged["parts"].as_array_mut().unwrap().iter_mut().for_each(|part| {
        if part["state"] == "approval-requested" {
            part["approval"]["id"] = "apr_MQ".into();
        }
    });
    assert_eq!(client.post("/v1/ui", &responded(&forged, true)).await.status, 400);
    assert!(rig.world.done().is_empty());
    let before = page.message.clone();
    let told = post(&client, &responded(&before, true)).await;
    let page = Page::going_on(&before, &told);
    assert_eq!(call(&page.message)["state"], "output-available");
    assert_eq!(rig.world.done(), ["send a"]);
    // The same answer again gets the same turn and has no second effect.
    let again = post(&client, &responded(&before, true)).await;
    assert_eq!(Page::going_on(&before, &again).message["parts"], page.message["parts"]);
    assert_eq!(rig.world.done(), ["send a"]);
    rig.stop().await;
}

// W5
#[tokio::test]
async fn a_denied_call_is_denied_on_the_page_too() {
    let rig = Rig::start().await;
    let client = six(&rig);
    let told = post(&client, &json!({ "id": "s", "message": user("u1", "send") })).await;
    let page = Page::of(&told);
    let told = post(&client, &responded(&page.message, false)).await;
    assert!(types(&told).contains(&"tool-output-denied"), "{told:?}");
    let kept = call(&messages(&client, "s").await[1]);
    assert_eq!((&kept["state"], &kept["approval"]["approved"]), (&json!("output-denied"), &json!(false)));
    assert_eq!(kept["approval"]["reason"], "because");
    assert!(rig.world.done().is_empty());
    let read = client.post("/v1/ui", &responded(&page.message, true)).await;
    assert_eq!(read.status, 409, "it was answered otherwise");
    assert_eq!(rig.client().with("x-ai-sdk-version", "six").get("/v1/ui/s/messages").await.status, 400);
    rig.stop().await;
}
