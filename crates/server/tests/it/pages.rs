//! Lists of long messages: each answer is cut by bytes, and going on from where it ended shows the whole (S5).

use serde_json::{Value, json};

use crate::support::{Client, Rig};

/// How many long messages are in the conversation; as many answers are as long.
const SENT: usize = 6;
/// Bytes of each.
const LONG: usize = 900_000;
/// The largest size of an answer: a page, the message that filled it, and the JSON around it.
const ANSWER: usize = (2 << 20) + LONG + 100_000;

async fn talkative() -> Rig {
    let rig = Rig::start().await;
    for n in 0..SENT {
        let said = json!({ "content": format!("say {n}{}", "x".repeat(LONG)) });
        assert_eq!(rig.client().post("/v1/sessions/s/messages", &said).await.status, 200);
    }
    rig
}

/// Reads a list to its end, a page of as many entries as may be asked for at a time.
async fn pages(client: &Client, path: &str, items: &str) -> Vec<Value> {
    let (mut all, mut from) = (Vec::new(), 0);
    loop {
        let answer = client.get(&format!("{path}?limit=1000&from={from}")).await;
        assert_eq!(answer.status, 200);
        assert!(answer.body.len() <= ANSWER, "{path}: {} bytes", answer.body.len());
        let page = answer.json();
        all.extend(page[items].as_array().unwrap().iter().cloned());
        match page["next"].as_u64() {
            Some(next) => from = next,
            None => return all,
        }
    }
}

// Finding S5, INV-12
#[tokio::test]
async fn lists_of_long_messages_are_cut_by_bytes_in_every_protocol() {
    let rig = talkative().await;
    let client = rig.client();
    let contents = |all: &[Value]| -> Vec<String> {
        all.iter().map(|it| it["content"].as_str().unwrap().chars().take(14).collect()).collect()
    };
    let native = pages(&client, "/v1/sessions/s/messages", "items").await;
    let expected: Vec<String> =
        (0..SENT).flat_map(|n| [format!("say {n}xxxxxxxxx"), format!("You said: {n}xxx")]).collect();
    assert_eq!(contents(&native), expected);
    let steerable = pages(&client, "/v1/chats/s/messages", "messages").await;
    assert_eq!(contents(&steerable), expected);
    // Of the page's own protocol the newest messages come, as many as fit.
    let newest = client.get("/v1/ui/s/messages").await;
    assert!(newest.body.len() <= ANSWER, "{} bytes", newest.body.len());
    let shown = newest.json()["messages"].as_array().unwrap().clone();
    assert!(!shown.is_empty() && shown.len() < 2 * SENT, "{}", shown.len());
    assert!(shown.last().unwrap().to_string().contains(&format!("You said: {}x", SENT - 1)));
    rig.stop().await;
}
