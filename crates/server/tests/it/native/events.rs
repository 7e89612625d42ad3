//! The events of a session, from any point on (D9).

use serde_json::{Value, json};
use singletree_harness::Retention;

use super::api::Api;
use crate::support::Rig;
use crate::support::rig::within;

/// Reads durable events up to the end of the n-th turn.
async fn told(events: &mut crate::support::Events, turns: usize) -> Vec<Value> {
    let (mut all, mut ended) = (Vec::new(), 0);
    while ended < turns {
        let event = within(events.next()).await.expect("the stream goes on");
        let Some(id) = &event.id else { continue };
        let data = event.json();
        assert_eq!(&data["id"], id);
        ended += usize::from(data.get("outcome").is_some());
        all.push(data);
    }
    all
}

#[tokio::test]
async fn a_stream_begins_after_what_was_seen_and_goes_on_with_what_happens() {
    let api = Api::start().await;
    api.send("s", "say one").await;
    let whole = told(&mut api.follow("s", None).await, 1).await;
    whole.iter().for_each(|it| api.is_event(it));
    let kinds: Vec<_> = whole.iter().map(|it| it["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["turn.accepted", "message.appended", "turn.completed"]);
    let seen = whole[0]["id"].as_str().unwrap();
    assert_eq!(told(&mut api.follow("s", Some(seen)).await, 1).await, whole[1..]);
    let by_query = format!("/v1/sessions/s/events?after={seen}");
    assert_eq!(told(&mut api.client.events(&by_query, None).await, 1).await, whole[1..]);
    // The browser's `Last-Event-ID` takes precedence over the `after` of the address.
    let last = whole[2]["id"].as_str().unwrap();
    let mut events = api.client.events(&by_query, Some(last)).await;
    api.send("s", "say two").await;
    let next = told(&mut events, 1).await;
    assert_eq!(
        (&next[0]["type"], &next[0]["message"]["content"]),
        (&json!("turn.accepted"), &json!("say two"))
    );
}

#[tokio::test]
async fn who_comes_late_gets_the_text_so_far() {
    let rig = Rig::start().await;
    let api = Api::of(&rig).await;
    let mut sender =
        api.client.post_events("/v1/sessions/s/messages", &json!({ "content": "slow a b c" })).await;
    rig.pace.pass(3);
    let mut shown = String::new();
    while !shown.contains("said") {
        shown += within(sender.json()).await.unwrap()["text"].as_str().unwrap_or_default();
    }
    let mut late = api.follow("s", None).await;
    let so_far = loop {
        let event = within(late.json()).await.unwrap();
        api.is_event(&event);
        if event["type"] == "delta" {
            break event;
        }
    };
    assert_eq!(so_far["so_far"], true);
    assert!(so_far["text"].as_str().unwrap().starts_with(shown.trim_end()), "{so_far} {shown}");
    rig.pace.run_free();
}

#[tokio::test]
async fn an_id_that_the_log_never_had_is_unknown_and_one_of_another_log_is_expired() {
    let api = Api::start().await;
    api.send("s", "say one").await;
    let whole = told(&mut api.follow("s", None).await, 1).await;
    let first = whole[0]["id"].as_str().unwrap();
    let epoch = first.rsplit_once('.').unwrap().0;
    let never = api.get(&format!("/v1/sessions/s/events?after={epoch}.99")).await;
    assert_eq!((never.status, never.json()["error"]["category"].clone()), (404, json!("chat_event_unknown")));
    let nonsense = api.get("/v1/sessions/s/events?after=nonsense").await;
    assert_eq!(
        (nonsense.status, nonsense.json()["error"]["category"].clone()),
        (404, json!("chat_event_unknown"))
    );
    let foreign = api.get("/v1/sessions/s/events?after=another.0").await;
    let error = foreign.json()["error"].clone();
    let told = (foreign.status, &error["category"], &error["oldest_event"]);
    assert_eq!(told, (409, &json!("chat_events_expired"), &json!(first)));
}

// D9: an id older than the retained events is answered with the oldest one.
#[tokio::test]
async fn an_id_before_what_is_kept_is_answered_with_the_oldest() {
    let rig = Rig::start().await;
    let api = Api::of(&rig).await;
    for n in 0..3 {
        api.send("s", &format!("say {n}")).await;
    }
    let whole = told(&mut api.follow("s", None).await, 3).await;
    let first = whole[0]["id"].as_str().unwrap();
    rig.chat.retain(&Retention { turns: Some(1), ..Retention::default() }).await.unwrap();
    let expired = api.get(&format!("/v1/sessions/s/events?after={first}")).await;
    let error = expired.json()["error"].clone();
    assert_eq!((expired.status, &error["category"]), (409, &json!("chat_events_expired")));
    let oldest = error["oldest_event"].as_str().unwrap();
    // Without an id the stream begins there.
    let kept = told(&mut api.follow("s", None).await, 1).await;
    assert_eq!(kept[0]["id"], oldest);
    // Messages whose turns are forgotten are there, without id and time.
    let history = api.get("/v1/sessions/s/messages").await.json();
    let ids: Vec<_> = history["items"].as_array().unwrap().iter().map(|it| it.get("id").is_some()).collect();
    assert_eq!(ids, [false, false, false, false, true, true]);
}

// D25
#[tokio::test]
async fn the_stream_of_a_session_that_is_deleted_says_so_and_ends() {
    let api = Api::start().await;
    api.send("s", "say one").await;
    let mut events = api.follow("s", None).await;
    told(&mut events, 1).await;
    api.delete("/v1/sessions/s").await;
    let last = within(events.next()).await.unwrap();
    assert_eq!((last.id.clone(), last.json()["type"].clone()), (None, json!("stream.failed")));
    api.is_event(&last.json());
    assert_eq!(last.json()["error"]["category"], "chat_session_unknown");
    assert_eq!(within(events.next()).await, None);
}

#[tokio::test]
async fn as_many_listen_to_a_session_as_may() {
    let limits = singletree_harness::Limits { subscriptions: 2, ..Default::default() };
    let rig = Rig::builder().chat_limits(limits).start().await;
    let api = Api::of(&rig).await;
    api.send("s", "say one").await;
    let (mut one, mut two) = (api.follow("s", None).await, api.follow("s", None).await);
    within(one.next()).await;
    within(two.next()).await;
    let refused = api.get("/v1/sessions/s/events").await;
    let told = (
        refused.status,
        refused.json()["error"]["category"].clone(),
        refused.header("retry-after").to_owned(),
    );
    assert_eq!(told, (429, json!("chat_subscriptions_full"), "1".into()));
}

#[tokio::test]
async fn what_is_read_of_the_history_joins_what_is_streamed() {
    let api = Api::start().await;
    api.send("s", "say one").await;
    let page = api.get("/v1/sessions/s/messages").await.json();
    api.send("s", "say two").await;
    let mut events = api.follow("s", page["last_event"].as_str()).await;
    let next = told(&mut events, 1).await;
    assert_eq!(next[0]["message"]["content"], "say two");
}

#[tokio::test]
async fn a_history_that_is_read_in_the_middle_of_a_turn_joins_all_of_that_turn() {
    let rig = Rig::start().await;
    let api = Api::of(&rig).await;
    api.send("s", "say one").await;
    let mut sender =
        api.client.post_events("/v1/sessions/s/messages", &json!({ "content": "slow a b c" })).await;
    rig.pace.pass(3);
    while within(sender.json()).await.unwrap()["type"] != "delta" {}
    let page = api.get("/v1/sessions/s/messages").await.json();
    let mut events = api.follow("s", page["last_event"].as_str()).await;
    rig.pace.run_free();
    let kinds: Vec<_> = told(&mut events, 1).await.iter().map(|it| it["type"].clone()).collect();
    // The history does not have the running turn's message yet; a reader that follows from its end still gets it.
    assert_eq!(kinds, ["turn.accepted", "message.appended", "turn.completed"]);
}

#[tokio::test]
async fn streams_end_with_a_hint_when_the_server_does() {
    let mut rig = Rig::start().await;
    let api = Api::of(&rig).await;
    api.send("s", "say one").await;
    let mut events = api.follow("s", None).await;
    told(&mut events, 1).await;
    rig.begin_stop();
    let last = within(events.block()).await.unwrap();
    assert_eq!((last.retry, last.data), (Some(1000), None));
    assert_eq!(within(events.block()).await, None);
}
