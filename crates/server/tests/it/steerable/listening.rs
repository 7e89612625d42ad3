//! `GET …/events`: all turns of a chat, and going on where the stream was lost.

use hyper::Method;
use serde_json::{Value, json};
use singletree_harness::SendOptions;
use singletree_llm::ChatMessage;

use super::{messages, said, schemas, send};
use crate::support::rig::within;
use crate::support::{Event, Events, Rig};

/// Reads so many turns of a stream.
async fn listen(events: &mut Events, turns: usize) -> Vec<Event> {
    let mut heard = Vec::new();
    let mut done = 0;
    while done < turns {
        let event = within(events.next()).await.expect("the stream goes on");
        schemas::check_event(&event.json());
        done += usize::from(event.json()["type"] == "done");
        heard.push(event);
    }
    heard
}

/// Returns the events, without those that only carry a place to resume from.
fn told(events: &[Event]) -> Vec<Value> {
    events.iter().map(|it| it.json()).filter(|it| it["type"] != "keepalive").collect()
}

#[tokio::test]
async fn all_turns_are_told_to_who_listens_whoever_speaks() {
    let rig = Rig::start().await;
    send(&rig.client(), "s", "say before").await;
    let mut events = rig.client().events("/v1/chats/s/events", None).await;
    assert_eq!(events.status, 200);
    assert_eq!(events.block().await.unwrap().data, None);
    for text in ["look", "fail retryable"] {
        rig.chat.session("s").send(ChatMessage::user(text)).await;
    }
    let heard = told(&listen(&mut events, 2).await);
    assert_eq!(heard[0]["payload"]["message"]["content"], "look");
    assert_eq!(said(&heard)[0].1, "All done.");
    let ended: Vec<_> =
        heard.iter().filter(|it| it["type"] == "done").map(|it| &it["payload"]["outcome"]).collect();
    assert_eq!(ended, ["completed", "errored"]);
    // The user's message has the name under which it is kept.
    let kept = messages(&rig.client(), "s").await;
    assert_eq!(heard[0]["payload"]["message"]["id"], kept[2]["id"]);
}

// A reader that loses its stream anywhere and resumes with its last id has the same events as one that never lost it.
#[tokio::test]
async fn a_stream_that_is_lost_anywhere_goes_on_there() {
    let rig = Rig::start().await;
    let client = rig.client();
    client.post("/v1/agent-sessions", &json!({ "chatId": "s" })).await;
    let mut events = client.events("/v1/chats/s/events", None).await;
    events.block().await.unwrap();
    let slow = rig
        .chat
        .session("s")
        .submit(ChatMessage::user("slow one two three four"), SendOptions::new())
        .await
        .unwrap();
    let mut live = Vec::new();
    // Some of it is lost while it happens: each piece shows one word more.
    let mut whole = Vec::new();
    for pauses in [0, 1, 1, 1] {
        // One by one: who comes late gets several in one.
        rig.pace.pass(pauses);
        let event = within(events.next()).await.unwrap();
        whole.push(event.clone());
        live.push(event);
    }
    assert!(live[1..].iter().all(|it| it.json()["type"] == "content" && it.id.is_some()), "{live:?}");
    let mut lost = Vec::new();
    for seen in &live {
        lost.push((seen.clone(), client.events("/v1/chats/s/events", seen.id.as_deref()).await));
    }
    rig.pace.run_free();
    slow.outcome().await;
    rig.chat.session("s").send(ChatMessage::user("both")).await;
    whole.extend(listen(&mut events, 2).await);
    let expected = said(&told(&whole));
    for (at, (seen, mut events)) in lost.into_iter().enumerate() {
        let mut heard = live[..=at].to_vec();
        heard.extend(listen(&mut events, 2).await);
        assert_eq!(said(&told(&heard)), expected, "lost after {seen:?}");
    }
    // All of it is lost after it happened: from the log alone.
    for at in 0..whole.len() - 1 {
        let turns = 2 - whole[..=at].iter().filter(|it| it.json()["type"] == "done").count();
        let mut heard = whole[..=at].to_vec();
        let id = heard.iter().rev().find_map(|it| it.id.clone());
        heard.extend(listen(&mut client.events("/v1/chats/s/events", id.as_deref()).await, turns).await);
        assert_eq!(said(&told(&heard)), expected, "lost after {at}: {:?}", whole[at]);
        let calls = |heard: &[Event]| told(heard).into_iter().filter(|it| it["type"] == "tool_call").count();
        assert_eq!((calls(&heard), calls(&whole)), (2, 2), "lost after {at}: {:?}", whole[at]);
    }
}

// Who has read the messages and listens from there has everything, also of a turn that runs.
#[tokio::test]
async fn messages_and_events_join() {
    let rig = Rig::start().await;
    send(&rig.client(), "s", "say before").await;
    let mut running = rig.client().post_events("/v1/chats/s/send", &json!({ "content": "slow one" })).await;
    within(running.json()).await.unwrap();
    let page = rig.client().get("/v1/chats/s/messages").await.json();
    let after = page["lastEventId"].as_str().unwrap();
    let mut events = rig.client().events(&format!("/v1/chats/s/events?after={after}"), None).await;
    rig.pace.run_free();
    let heard = told(&listen(&mut events, 1).await);
    let mut texts: Vec<Value> =
        page["messages"].as_array().unwrap().iter().map(|it| it["content"].clone()).collect();
    texts.push(heard[0]["payload"]["message"]["content"].clone());
    texts.extend(said(&heard).into_iter().map(|it| it.1.into()));
    let kept: Vec<Value> =
        messages(&rig.client(), "s").await.iter().map(|it| it["content"].clone()).collect();
    assert_eq!(texts, kept);
}

#[tokio::test]
async fn what_cannot_be_listened_to_is_told() {
    let rig = Rig::start().await;
    let check = async |path: &str, last: Option<&str>, status: u16, category: &str| {
        let client = last.map_or(rig.client(), |it| rig.client().with("last-event-id", it));
        let answer = client.send(Method::GET, path, None).await;
        assert_eq!(
            (answer.status, &answer.json()["error"]["category"]),
            (status, &json!(category)),
            "{path} {last:?}"
        );
    };
    check("/v1/chats/none/events", None, 404, "chat_session_unknown").await;
    send(&rig.client(), "s", "say hi").await;
    check("/v1/chats/s/events", Some("other.1"), 409, "chat_events_expired").await;
    check("/v1/chats/s/events?after=nothing", None, 404, "chat_event_unknown").await;
    check("/v1/chats/s/events", Some("m0.1;AAAA"), 404, "chat_event_unknown").await;
    // A session that is deleted ends its streams.
    let mut events = rig.client().events("/v1/chats/s/events", None).await;
    events.block().await.unwrap();
    rig.chat.session("s").delete(None).await.unwrap();
    let last: Vec<Value> = within(events.rest()).await.iter().map(|it| it.json()).collect();
    assert_eq!(last[0]["code"], "chat_session_unknown");
    assert_eq!(last[1]["type"], "done");
}
