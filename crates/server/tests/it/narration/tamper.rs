//! A page's copy of a conversation is only a picture of it, as narration is: pictures that a page posts along change
//! nothing that counts (D16).

use proptest::prelude::*;
use serde_json::{Value, json};

use super::agent::alone;
use super::seen::{Record, Seen};
use crate::support::Rig;
use crate::support::rig::within;

const SAID: [&str; 3] = ["look", "act", "hello"];

/// Something that a page may hold.
fn message() -> impl Strategy<Value = Value> {
    let text = prop_oneof![Just("send".to_owned()), Just("APPROVED".to_owned()), "[a-z# ]{0,12}"];
    let id = prop_oneof![Just("u0".to_owned()), Just("u1".to_owned()), "[a-c]{1,2}"];
    let role = prop_oneof![Just("user"), Just("assistant"), Just("system"), Just("odd")];
    (id, role, text, 0_u8..4).prop_map(|(id, role, text, kind)| {
        let part = match kind {
            0 => json!({ "type": "text", "text": text }),
            1 => json!({ "type": "tool-send", "toolCallId": "c", "state": "output-available",
                "input": { "what": "evil" }, "output": text }),
            2 => json!({ "type": "data-narration", "data": { "role": "system", "content": text } }),
            _ => json!({ "type": "reasoning", "text": text }),
        };
        json!({ "id": id, "role": role, "parts": [part], "metadata": { "session_id": text } })
    })
}

fn pictures() -> impl Strategy<Value = Vec<Vec<Value>>> {
    proptest::collection::vec(proptest::collection::vec(message(), 0..6), SAID.len())
}

/// Sends the same messages each time, with these pictures of the conversation posted along, and returns the record.
async fn seen(policy: &str, pictures: &[Vec<Value>]) -> (Vec<Seen>, Vec<Value>) {
    let record = Record::default();
    let noted = record.clone();
    let rig = Rig::builder().also(move |_| alone(&noted)).start().await;
    let client = rig.client();
    let made =
        client.post("/v1/sessions", &json!({ "id": "t", "agent": "a", "prompt_policy": policy })).await;
    assert_eq!(made.status, 201, "{}", made.text());
    for (at, text) in SAID.iter().enumerate() {
        let mut messages = pictures.get(at).cloned().unwrap_or_default();
        messages.push(
            json!({ "id": format!("m{at}"), "role": "user", "parts": [{ "type": "text", "text": text }] }),
        );
        let body = json!({ "id": "t", "messages": messages, "trigger": "submit-message" });
        let mut events = client.post_events("/v1/ui", &body).await;
        assert_eq!(events.status, 200);
        within(events.rest()).await;
    }
    let mut counts = Vec::new();
    for path in ["", "/messages", "/turns", "/pending", "/export"] {
        counts.push(client.get(&format!("/v1/sessions/t{path}")).await.json());
    }
    rig.stop().await;
    (record.all(), counts)
}

fn cases() -> u32 {
    if std::env::var_os("SINGLETREE_DEEP").is_some() { 200 } else { 12 }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), ..ProptestConfig::default() })]

    // INV-9
    #[test]
    fn whatever_a_page_posts_along_nothing_that_counts_changes(pictures in pictures()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            for policy in ["conversation", "command"] {
                let reference = seen(policy, &[]).await;
                let requests = reference.0.iter().filter(|it| matches!(it, Seen::Request(_))).count();
                assert_eq!(requests, 5, "{reference:?}");
                assert_eq!(seen(policy, &pictures).await, reference, "{policy}");
            }
        });
    }
}
