//! Messages: sent in each manner, once by their key, refused before anything is stored.

use serde_json::{Value, json};

use super::api::{Api, bare};
use crate::support::rig::within;
use crate::support::{Answer, Rig};

fn category(answer: &Answer) -> (u16, Value) {
    (answer.status, answer.json()["error"]["category"].clone())
}

#[tokio::test]
async fn the_answer_is_the_outcome() {
    let api = Api::start().await;
    let outcome = api.send("s", "say hello").await;
    let turn = outcome["turn"].clone();
    let expected = json!({
        "status": "completed", "turn": turn, "session": "s",
        "replies": [{ "role": "assistant", "content": "You said: hello" }],
    });
    assert_eq!(outcome, expected);
    let history = api.get("/v1/sessions/s/messages").await.json();
    let id = |k: u64| format!("{}/{k}", turn.as_str().unwrap());
    let at = "2026-01-01T00:00:00.000Z";
    let expected = json!([
        { "seq": 0, "id": id(0), "at": at, "role": "user", "content": "say hello" },
        { "seq": 1, "id": id(1), "at": at, "role": "assistant", "content": "You said: hello" },
    ]);
    assert_eq!(history["items"], expected);
}

// A turn that was accepted and failed was answered: the failure is its outcome.
#[tokio::test]
async fn a_turn_that_fails_is_an_outcome_in_its_bucket() {
    let api = Api::start().await;
    for (text, bucket, category) in [
        ("fail retryable", "retryable_transient", "provider_unavailable"),
        ("fail correctable", "user_correctable", "provider_invalid_request"),
        ("fail terminating", "session_terminating", "provider_model_not_loaded"),
    ] {
        let outcome = api.send("s", text).await;
        let told = (&outcome["status"], &outcome["bucket"], &outcome["category"]);
        assert_eq!(told, (&json!("errored"), &json!(bucket), &json!(category)));
        assert!(!outcome["reply"].as_str().unwrap().is_empty());
    }
    // D11
    assert_eq!(api.get("/v1/sessions/s").await.json()["messages"], 0);
}

#[tokio::test]
async fn tools_and_their_results_are_part_of_the_answer() {
    let api = Api::start().await;
    let outcome = api.send("s", "both").await;
    let call = |n: usize| outcome["replies"][0]["tool_calls"][n]["id"].clone();
    let expected = json!([
        { "role": "assistant", "content": "", "tool_calls": [
            { "id": call(0), "name": "look", "arguments": { "what": "a" } },
            { "id": call(1), "name": "act", "arguments": { "what": "b" } } ] },
        { "role": "tool", "content": "did a", "tool_call_id": call(0) },
        { "role": "tool", "content": "did b", "tool_call_id": call(1) },
        { "role": "assistant", "content": "All done." },
    ]);
    assert_eq!(outcome["replies"], expected);
}

#[tokio::test]
async fn the_stream_tells_the_turn_as_it_happens_and_ends_with_the_outcome() {
    let rig = Rig::start().await;
    let api = Api::of(&rig).await;
    let mut events =
        api.client.post_events("/v1/sessions/s/messages", &json!({ "content": "slow one two" })).await;
    assert_eq!((events.status, events.headers["content-type"].to_str().unwrap()), (200, "text/event-stream"));
    let accepted = events.next().await.unwrap();
    assert_eq!((accepted.json()["type"].clone(), &accepted.event), (json!("turn.accepted"), &None));
    assert_eq!(accepted.json()["id"], accepted.id.clone().unwrap());
    rig.pace.run_free();
    let rest = within(events.rest()).await;
    for event in &rest {
        api.is_event(&event.json());
        let provisional = ["delta", "tool.started", "tool.finished", "turn.started"];
        let is_kept = !provisional.contains(&event.json()["type"].as_str().unwrap());
        assert_eq!(event.id.is_some(), is_kept, "{event:?}");
    }
    let deltas: String = rest.iter().filter_map(|it| it.json()["text"].as_str().map(str::to_owned)).collect();
    assert_eq!(deltas, "You said: one two");
    let last = rest.last().unwrap().json();
    assert_eq!(
        (&last["type"], &last["outcome"]["replies"][0]["content"]),
        (&json!("turn.completed"), &json!(deltas))
    );
}

// RFC 7240
#[tokio::test]
async fn who_does_not_want_to_wait_gets_the_turn_and_asks_for_it_later() {
    let rig = Rig::start().await;
    let api = Api::of(&rig).await;
    let hurried = api.header("prefer", "respond-async");
    let answer = hurried.post("/v1/sessions/s/messages", json!({ "content": "slow one" })).await;
    assert_eq!((answer.status, answer.header("preference-applied")), (202, "respond-async"));
    let turn = answer.json();
    assert_eq!(
        (&turn["status"], &turn["kind"], turn.get("outcome")),
        (&json!("accepted"), &json!("message"), None)
    );
    let place = answer.header("location").to_owned();
    assert_eq!(place, format!("/v1/sessions/s/turns/{}", turn["id"].as_str().unwrap()));
    // The activity changes while the turn runs.
    let still = |mut turn: Value| {
        turn.as_object_mut().unwrap().remove("activity");
        turn
    };
    assert_eq!(still(api.get(&place).await.json()), still(turn.clone()));
    let mut events = api.client.events(&place, None).await;
    rig.pace.run_free();
    within(events.rest()).await;
    assert_eq!(api.get(&place).await.json()["outcome"]["replies"][0]["content"], "You said: one");
    // Within the time that it is given, it is waited for.
    let patient = api.header("prefer", "respond-async, wait=20");
    let answer = within(patient.post("/v1/sessions/s/messages", json!({ "content": "say two" }))).await;
    assert_eq!(
        (answer.status, answer.json()["replies"][0]["content"].clone()),
        (200, json!("You said: two"))
    );
}

// D3
#[tokio::test]
async fn a_message_with_a_key_is_sent_once() {
    let rig = Rig::start().await;
    let api = Api::of(&rig).await;
    let keyed = api.header("idempotency-key", "k");
    let hello = json!({ "content": "say hello" });
    let first = keyed.post("/v1/sessions/s/messages", hello.clone()).await.json();
    let again = keyed.post("/v1/sessions/s/messages", hello.clone()).await.json();
    assert_eq!(again, first);
    let mut events = keyed.client.post_events("/v1/sessions/s/messages", &hello).await;
    assert_eq!(within(events.rest()).await.last().unwrap().json()["outcome"], first);
    let other = keyed.post("/v1/sessions/s/messages", json!({ "content": "say bye" })).await;
    assert_eq!(category(&other), (409, json!("chat_idempotency_conflict")));
    assert_eq!(api.get("/v1/sessions/s").await.json()["messages"], 2);
}

// D16
#[tokio::test]
async fn clients_speak_as_the_user_and_as_nobody_else() {
    let api = Api::start().await;
    for role in ["system", "assistant", "tool", "User", ""] {
        let sent = json!({ "role": role, "content": "say hello" });
        let answer = api.post("/v1/sessions/s/messages", sent).await;
        assert_eq!(category(&answer), (400, json!("server_request_invalid")), "{role}");
        assert_eq!(answer.json()["error"]["field"], "role");
    }
    let answer = api.post("/v1/sessions/s/messages", json!({ "role": "user", "content": "say hello" })).await;
    assert_eq!(answer.status, 200);
}

#[tokio::test]
async fn what_is_not_right_is_refused_and_nothing_is_stored() {
    let api = Api::start().await;
    let picture =
        |url: &str| json!({ "content": [{ "type": "image", "source": { "type": "url", "url": url } }] });
    let cases = [
        (json!({}), None),
        (json!({ "content": "" }), None),
        (json!({ "content": [] }), None),
        (json!({ "content": [{ "type": "text", "text": "" }] }), None),
        (json!({ "content": 7 }), Some("content")),
        (json!({ "content": "say x", "messages": [] }), Some("messages")),
        (json!({ "content": "say x", "agent": 1 }), Some("agent")),
        (json!({ "content": [{ "type": "thinking", "text": "hm" }] }), Some("content")),
        (
            json!({ "content": [{ "type": "image", "source": { "type": "inline", "base64_data": "aa" } }] }),
            Some("content"),
        ),
        (picture("data:image/png;base64,aaaa"), Some("content[0].source.url")),
        (picture("http://example.com/a.png"), Some("content[0].source.url")),
        (picture("file:///etc/passwd"), Some("content[0].source.url")),
        (picture("https:"), Some("content[0].source.url")),
    ];
    for (body, field) in cases {
        let answer = api.post("/v1/sessions/s/messages", body.clone()).await;
        assert_eq!(answer.status, 400, "{body}");
        assert_eq!(answer.json()["error"].get("field"), field.map(|it| json!(it)).as_ref(), "{body}");
    }
    assert_eq!(api.get("/v1/sessions/s").await.status, 404);
}

// Content types that another site's page can make a browser send without a preflight request are not JSON.
#[tokio::test]
async fn a_body_has_to_be_called_json() {
    let rig = Rig::start().await;
    let api = Api::of(&rig).await;
    let body = || bytes::Bytes::from_static(b"{\"content\": \"say hello\"}");
    for kind in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""] {
        let client = rig.client().with("content-type", kind);
        let answer = client.send_bytes(hyper::Method::POST, "/v1/sessions/s/messages", body()).await;
        assert_eq!(category(&answer), (415, json!("server_media_type_unsupported")), "{kind}");
    }
    assert_eq!(api.get("/v1/sessions/s").await.status, 404);
    let client = rig.client().with("content-type", "application/json; charset=utf-8");
    let answer = client.send_bytes(hyper::Method::POST, "/v1/sessions/s/messages", body()).await;
    assert_eq!(answer.status, 200);
}

#[tokio::test]
async fn pictures_are_named_by_address_or_by_what_was_uploaded() {
    let rig = Rig::start().await;
    let api = Api::of(&rig).await;
    let key = singletree_durable::SessionKey::new(
        singletree_durable::TenantId::single(),
        singletree_durable::SessionId::parse("s").unwrap(),
    );
    let digest = "ab".repeat(32);
    let blob = singletree_durable::StoredBlob {
        digest: digest.clone(),
        media_type: "image/png".into(),
        bytes: vec![1],
    };
    rig.documents.keep_blob(&key, blob).await.unwrap();
    let content = json!([
        { "type": "text", "text": "say hello" },
        { "type": "image", "source": { "type": "url", "url": "https://example.com/a.png" }, "detail": "low" },
        { "type": "image", "source": { "type": "url", "url": format!("blob:{digest}") }, "media_type": "image/png" },
    ]);
    let sent = api
        .header("prefer", "respond-async")
        .post("/v1/sessions/s/messages", json!({ "content": content }))
        .await;
    assert_eq!(sent.status, 202);
    let told = within(api.follow("s", None).await.json()).await.unwrap();
    assert_eq!(told["message"], json!({ "role": "user", "content": content }));
    // Another session cannot use the blob; a digest that was never uploaded is refused, too.
    for (session, name) in [("other", digest), ("s", "cd".repeat(32)), ("s", "0".into())] {
        let content =
            json!([{ "type": "image", "source": { "type": "url", "url": format!("blob:{name}") } }]);
        let path = format!("/v1/sessions/{session}/messages");
        let elsewhere = api.post(&path, json!({ "content": content })).await;
        assert_eq!(category(&elsewhere), (400, json!("chat_blob_unknown")));
    }
}

#[tokio::test]
async fn what_steers_has_a_turn_of_its_own_where_none_runs_that_could_take_it() {
    let rig = Rig::start().await;
    let api = Api::of(&rig).await;
    let answer = api.post("/v1/sessions/s/steer", json!({ "content": "say hello" })).await;
    assert_eq!(answer.json()["replies"][0]["content"], "You said: hello");
    // One that asks its model no more does not take it, either.
    let hurried = api.header("prefer", "respond-async");
    let running = hurried.post("/v1/sessions/s/messages", json!({ "content": "slow one" })).await.json();
    let keyed = hurried.header("idempotency-key", "k");
    let steering = keyed.post("/v1/sessions/s/steer", json!({ "content": "say two" })).await.json();
    rig.pace.run_free();
    let place = format!("/v1/sessions/s/turns/{}", steering["id"].as_str().unwrap());
    within(api.client.events(&place, None).await.rest()).await;
    let ended = api.get(&place).await.json();
    assert_eq!(ended["outcome"]["replies"][0]["content"], "You said: two");
    assert_ne!(ended["id"], running["id"]);
}

#[tokio::test]
async fn a_full_queue_says_when_to_come_again() {
    let limits = singletree_harness::Limits { queue: 1, ..Default::default() };
    let rig = Rig::builder().chat_limits(limits).start().await;
    let api = Api::of(&rig).await.header("prefer", "respond-async");
    let mut refused = None;
    for n in 0..8 {
        let answer = api.post("/v1/sessions/s/messages", json!({ "content": format!("slow {n}") })).await;
        if answer.status != 202 {
            refused = Some(answer);
            break;
        }
    }
    let refused = refused.expect("a queue of one is full at last");
    assert_eq!((category(&refused), refused.header("retry-after")), ((429, json!("chat_queue_full")), "1"));
}

#[tokio::test]
async fn the_history_is_read_page_by_page() {
    let api = Api::start().await;
    for n in 0..3 {
        api.send("s", &format!("say {n}")).await;
    }
    let whole = api.get("/v1/sessions/s/messages").await.json();
    let mut pages = Vec::new();
    let mut from = json!(0);
    loop {
        let page = api.get(&format!("/v1/sessions/s/messages?limit=2&from={from}")).await.json();
        pages.extend(page["items"].as_array().unwrap().clone());
        match page.get("next") {
            Some(next) => from = next.clone(),
            None => break,
        }
    }
    assert_eq!(json!(pages), whole["items"]);
    let past = bare(api.get("/v1/sessions/s/messages?from=99").await.json());
    assert_eq!(past, json!({ "items": [], "last_event": whole["last_event"] }));
}
