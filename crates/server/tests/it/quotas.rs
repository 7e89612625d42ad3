//! Quotas of keys and tenants: a caller that uses up a quota is refused, and no other is (INV-12).

use std::time::Duration;

use bytes::Bytes;
use hyper::body::Incoming;
use hyper::{Method, Response};
use serde_json::{Value, json};
use singletree_server::{AccessPolicy, KeyQuotas, Quotas, TenantQuotas};
use tokio::net::TcpListener;

use crate::support::rig::within;
use crate::support::{Answer, Client, Events, Rig};

/// A server that asks everybody for a key.
async fn rig(quotas: Quotas) -> Rig {
    let policy = AccessPolicy { required: true, ..AccessPolicy::default() };
    Rig::builder().server(|it| it.access_policy(policy).quotas(quotas)).start().await
}

fn quotas(key: KeyQuotas, tenant: TenantQuotas) -> Quotas {
    Quotas { key, tenant }
}

/// Makes a key of a tenant; returns its id and who shows it.
async fn key(rig: &Rig, tenant: &str) -> (String, Client, String) {
    let wanted = json!({ "tenant": tenant, "scopes": ["read", "write", "approve", "admin"] });
    let made = rig.operator().post("/v1/keys", &wanted).await;
    assert_eq!(made.status, 201, "{}", made.text());
    let (id, secret) = (made.json()["key"]["id"].clone(), made.json()["secret"].clone());
    let secret = secret.as_str().unwrap().to_owned();
    (id.as_str().unwrap().to_owned(), rig.client().bearer(&secret), secret)
}

/// Checks that an answer says which quota is used up, whose it is and when to ask again.
fn is_refused(answer: &Answer, message: &str, seconds: u64) {
    let error = answer.json()["error"].clone();
    assert_eq!((answer.status, &error["category"]), (429, &json!("server_quota_exceeded")), "{error}");
    assert_eq!(error["message"], message);
    assert_eq!(answer.header("retry-after"), seconds.to_string(), "{error}");
    assert_eq!(error["retry_after"], seconds, "{error}");
}

/// Reads the metrics, which have a port of their own where keys are asked for.
async fn metrics(rig: &Rig) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = Client::new(listener.local_addr().unwrap());
    let serving = rig.server.serve_metrics(listener);
    let asking = client.get("/metrics");
    tokio::select! {
        () = serving => panic!("it serves until it is dropped"),
        answer = asking => answer.text(),
    }
}

/// Counts the refusals of a quota.
async fn refusals(rig: &Rig, quota: &str, scope: &str) -> u64 {
    let text = metrics(rig).await;
    let name = format!("singletree_quota_refusals_total{{quota=\"{quota}\",scope=\"{scope}\"}} ");
    text.lines().find_map(|it| it.strip_prefix(&name)).map_or(0, |it| it.parse().unwrap())
}

// S4
#[tokio::test]
async fn of_4096_streams_that_one_key_tries_64_are_open_and_all_others_are_served() {
    let quotas = quotas(
        KeyQuotas { requests: 1_000_000, ..KeyQuotas::default() },
        TenantQuotas { requests: 1_000_000, ..TenantQuotas::default() },
    );
    let rig = rig(quotas).await;
    let ((id, greedy, _), (_, colleague, _), (_, stranger, _)) =
        (key(&rig, "acme").await, key(&rig, "acme").await, key(&rig, "umbrella").await);
    let greedy = greedy.with("accept", "text/event-stream");
    let (mut open, mut refused): (Vec<Response<Incoming>>, usize) = (Vec::new(), 0);
    for number in 0..4096 {
        // Also of sessions that are not there.
        let path = format!("/v1/sessions/s{}/narration", number % 7);
        let answer = within(greedy.begin(Method::GET, &path, Bytes::new())).await;
        match answer.status().as_u16() {
            200 => open.push(answer),
            429 => refused += 1,
            other => panic!("{other}"),
        }
    }
    assert_eq!((open.len(), refused), (64, 4032));
    assert_eq!(refusals(&rig, "streams", "key").await, 4032);
    let refused = within(greedy.get("/v1/sessions/s/narration")).await;
    is_refused(&refused, "the quota `streams` of this key is used up: 64 open streams", 1);
    // All others are served, and so is the key itself where it opens no stream.
    for client in [&colleague, &stranger] {
        let sent = client.post("/v1/sessions/s/messages", &json!({ "content": "say hello" })).await;
        assert_eq!(sent.status, 200, "{}", sent.text());
        assert_eq!(within(client.events("/v1/sessions/s/events", None)).await.status, 200);
    }
    assert_eq!(greedy.get("/healthz").await.status, 200);
    // Its key can be taken back, and with it go the streams and the places that they had.
    assert_eq!(colleague.delete(&format!("/v1/keys/{id}")).await.status, 200);
    for stream in open {
        assert_eq!(within(Events::of(stream).rest()).await, []);
    }
    let streams = async || {
        let text = metrics(&rig).await;
        text.lines().find_map(|it| it.strip_prefix("singletree_streams ").map(str::to_owned)).unwrap()
    };
    within(async { while streams().await != "0" {} }).await;
    rig.stop().await;
}

#[tokio::test]
async fn the_streams_of_a_tenant_take_no_more_than_half_of_the_descriptors() {
    let policy = AccessPolicy { required: true, ..AccessPolicy::default() };
    let rig = Rig::builder().server(|it| it.access_policy(policy).descriptor_limit(7)).start().await;
    let ((_, one, _), (_, two, _)) = (key(&rig, "acme").await, key(&rig, "acme").await);
    let mut open = Vec::new();
    for client in [&one, &two, &one] {
        open.push(within(client.events("/v1/sessions/s/narration", None)).await);
    }
    assert!(open.iter().all(|it| it.status == 200));
    let refused =
        within(two.clone().with("accept", "text/event-stream").get("/v1/sessions/s/narration")).await;
    is_refused(&refused, "the quota `streams` of this tenant is used up: 3 open streams", 1);
    let (_, stranger, _) = key(&rig, "umbrella").await;
    assert_eq!(within(stranger.events("/v1/sessions/s/narration", None)).await.status, 200);
    rig.stop().await;
}

// S8
#[tokio::test]
async fn requests_are_bounded_by_key_and_tenant_and_keys_can_be_managed_all_the_same() {
    let quotas = quotas(
        KeyQuotas { requests: 6, ..KeyQuotas::default() },
        TenantQuotas { requests: 10, ..TenantQuotas::default() },
    );
    let rig = rig(quotas).await;
    let ((id, one, _), (_, two, _), (_, stranger, _)) =
        (key(&rig, "acme").await, key(&rig, "acme").await, key(&rig, "umbrella").await);
    let ask = async |client: &Client| client.get("/v1/sessions").await;
    for _ in 0..6 {
        assert_eq!(ask(&one).await.status, 200);
    }
    is_refused(&ask(&one).await, "the quota `requests` of this key is used up: 6 requests a minute", 10);
    for _ in 0..4 {
        assert_eq!(ask(&two).await.status, 200);
    }
    is_refused(&ask(&two).await, "the quota `requests` of this tenant is used up: 10 requests a minute", 6);
    assert_eq!(ask(&stranger).await.status, 200);
    // Requests that manage keys count for their own key alone.
    assert_eq!(two.delete(&format!("/v1/keys/{id}")).await.status, 200);
    assert_eq!(two.get("/v1/keys").await.status, 200);
    assert_eq!(two.get("/v1/keys").await.status, 429, "the sixth was the last");
    rig.clock.advance(Duration::from_secs(10));
    assert_eq!((ask(&two).await.status, ask(&two).await.status), (200, 429));
    assert_eq!((refusals(&rig, "requests", "key").await, refusals(&rig, "requests", "tenant").await), (3, 1));
    rig.stop().await;
}

// S8
#[tokio::test]
async fn new_sessions_are_bounded_however_they_are_made_and_those_that_are_there_go_on() {
    let quotas = quotas(KeyQuotas { sessions: 3, ..KeyQuotas::default() }, TenantQuotas::default());
    let rig = rig(quotas).await;
    let (_, client, _) = key(&rig, "acme").await;
    let say = json!({ "content": "say hello" });
    assert_eq!(client.post("/v1/sessions", &json!({ "id": "a" })).await.status, 201);
    assert_eq!(client.post("/v1/sessions/b/messages", &say).await.status, 200);
    assert_eq!(client.post("/v1/sessions/b/fork", &json!({ "id": "c" })).await.status, 201);
    let message = "the quota `sessions` of this key is used up: 3 new sessions a minute";
    let user = json!({ "id": "m", "role": "user", "parts": [{ "type": "text", "text": "say hello" }] });
    for (path, body) in [
        ("/v1/sessions", json!({ "id": "d" })),
        ("/v1/sessions/d/messages", say.clone()),
        ("/v1/sessions/b/fork", json!({ "id": "d" })),
        ("/v1/sessions/b/edit", json!({ "message": 0, "content": "say bye", "id": "d" })),
        ("/v1/chats/d/send", say.clone()),
        ("/v1/ui", json!({ "sessionId": "d", "message": user })),
    ] {
        let refused = client.post(path, &body).await;
        if refused.status == 400 {
            // This test does not cover bodies; the request must be refused because of the session.
            panic!("{path}: {}", refused.text());
        }
        is_refused(&refused, message, 20);
    }
    assert_eq!(client.get("/v1/sessions/d").await.status, 404, "nothing was made");
    assert_eq!(client.post("/v1/sessions/a/messages", &say).await.status, 200);
    rig.clock.advance(Duration::from_secs(20));
    assert_eq!(client.post("/v1/sessions/d/messages", &say).await.status, 200);
    rig.stop().await;
}

// S8, D3
#[tokio::test]
async fn a_turn_over_the_bound_is_refused_before_acceptance_with_no_row_and_no_key_used() {
    let quotas = quotas(
        KeyQuotas { turns: 2, ..KeyQuotas::default() },
        TenantQuotas { turns: 3, ..TenantQuotas::default() },
    );
    let rig = rig(quotas).await;
    let ((_, one, _), (_, two, _)) = (key(&rig, "acme").await, key(&rig, "acme").await);
    let slow = json!({ "content": "slow word" });
    let begin = async |client: &Client, session: &str| {
        let client = client.clone().with("prefer", "respond-async");
        client.post(&format!("/v1/sessions/{session}/messages"), &slow).await
    };
    assert_eq!(begin(&one, "a").await.status, 202);
    assert_eq!(begin(&one, "b").await.status, 202);
    let keyed = one.clone().with("idempotency-key", "k");
    let message = "the quota `turns` of this key is used up: 2 running turns";
    is_refused(&begin(&keyed, "c").await, message, 1);
    assert_eq!(one.get("/v1/sessions/c").await.status, 404);
    let run = json!({
        "threadId": "c", "runId": "r", "state": {}, "tools": [], "context": [], "forwardedProps": {},
        "messages": [{ "id": "m", "role": "user", "content": "say hello" }],
    });
    let refused = one.post("/v1/agui", &run).await;
    assert_eq!((refused.status, &refused.json()["message"]), (429, &json!(message)), "{}", refused.text());
    let asked = json!({ "model": "scripted", "messages": [{ "role": "user", "content": "say hello" }] });
    let refused = one.post("/v1/chat/completions", &asked).await;
    assert_eq!(
        (refused.status, &refused.json()["error"]["message"].as_str().unwrap()[..message.len()]),
        (429, message)
    );
    // The tenant's own bound.
    assert_eq!(begin(&two, "d").await.status, 202);
    is_refused(&begin(&two, "e").await, "the quota `turns` of this tenant is used up: 3 running turns", 1);
    // When turns end their places are free, and the idempotency key is as good as new.
    rig.pace.run_free();
    let other = json!({ "content": "say another" });
    let sent = within(async {
        loop {
            let sent = keyed.post("/v1/sessions/c/messages", &other).await;
            if sent.status != 429 {
                return sent;
            }
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert_eq!((sent.status, &sent.json()["replies"][0]["content"]), (200, &json!("You said: another")));
    rig.stop().await;
}

// S8
#[tokio::test]
async fn sign_ins_of_a_tenant_are_bounded() {
    let quotas = quotas(KeyQuotas::default(), TenantQuotas { sign_ins: 2, ..TenantQuotas::default() });
    let rig = rig(quotas).await;
    let ((_, _, one), (_, _, two), (_, _, stranger)) =
        (key(&rig, "acme").await, key(&rig, "acme").await, key(&rig, "umbrella").await);
    let sign_in = async |secret: &str| rig.client().post("/page/sign-in", &json!({ "key": secret })).await;
    assert_eq!((sign_in(&one).await.status, sign_in(&two).await.status), (200, 200));
    let message = "the quota `sign_ins` of this tenant is used up: 2 sign-ins an hour";
    is_refused(&sign_in(&one).await, message, 1800);
    assert_eq!(sign_in(&stranger).await.status, 200);
    rig.clock.advance(Duration::from_secs(1800));
    assert_eq!(sign_in(&one).await.status, 200);
    rig.stop().await;
}

// S8
#[tokio::test]
async fn the_bytes_of_blobs_are_bounded_by_key_and_tenant_also_for_sessions_that_are_not_there() {
    let quotas = quotas(
        KeyQuotas { blob_bytes: 20, ..KeyQuotas::default() },
        TenantQuotas { blob_bytes: 30, ..TenantQuotas::default() },
    );
    let rig = rig(quotas).await;
    let ((_, one, _), (_, two, _), (_, stranger, _)) =
        (key(&rig, "acme").await, key(&rig, "acme").await, key(&rig, "umbrella").await);
    let keep = async |client: &Client, session: &str, end: &str| {
        let png = [b"\x89PNG\r\n\x1a\n", end.as_bytes()].concat();
        client.send_bytes(Method::POST, &format!("/v1/sessions/{session}/blobs"), png.into()).await
    };
    assert_eq!(keep(&one, "a", "01").await.status, 201, "10 bytes");
    assert_eq!(keep(&one, "b", "02").await.status, 201);
    let message = "the quota `blob_bytes` of this key is used up: 20 bytes of blobs";
    is_refused(&keep(&one, "a", "03").await, message, 3600);
    assert_eq!(keep(&one, "a", "01").await.status, 201, "what is there already takes no more");
    assert_eq!(keep(&two, "c", "04").await.status, 201);
    is_refused(
        &keep(&two, "d", "05").await,
        "the quota `blob_bytes` of this tenant is used up: 30 bytes of blobs",
        3600,
    );
    assert_eq!(keep(&stranger, "a", "03").await.status, 201);
    // Deleting a session frees the bytes of its blobs.
    assert_eq!(one.delete("/v1/sessions/a").await.status, 204);
    assert_eq!(keep(&one, "b", "06").await.status, 201);
    rig.stop().await;
}

// S8
#[tokio::test]
async fn where_tokens_are_bounded_a_tenant_that_has_used_them_sends_no_more() {
    let quotas = quotas(KeyQuotas::default(), TenantQuotas { tokens: Some(1), ..TenantQuotas::default() });
    let rig = rig(quotas).await;
    let ((_, one, _), (_, stranger, _)) = (key(&rig, "acme").await, key(&rig, "umbrella").await);
    let say = json!({ "content": "say hello" });
    let first = one.post("/v1/sessions/s/messages", &say).await;
    assert_eq!(first.status, 200, "{}", first.text());
    let message = "the quota `tokens` of this tenant is used up: 1 tokens of models";
    is_refused(&one.post("/v1/sessions/s/messages", &say).await, message, 3600);
    assert_eq!(stranger.post("/v1/sessions/s/messages", &say).await.status, 200);
    rig.stop().await;
}

#[tokio::test]
async fn a_server_that_asks_nobody_for_a_key_applies_no_quota() {
    let none = KeyQuotas { requests: 0, streams: 0, turns: 0, sessions: 0, blob_bytes: 0 };
    let tenant = TenantQuotas { requests: 0, streams: 0, ..TenantQuotas::default() };
    let rig = Rig::builder().server(|it| it.quotas(quotas(none, tenant))).start().await;
    let client = rig.client();
    let sent = client.post("/v1/sessions/s/messages", &json!({ "content": "say hello" })).await;
    assert_eq!(sent.status, 200, "{}", sent.text());
    assert_eq!(within(client.events("/v1/sessions/s/events", None)).await.status, 200);
    let text: Value = client.get("/v1/sessions").await.json();
    assert_eq!(text["items"].as_array().unwrap().len(), 1);
    rig.stop().await;
}
