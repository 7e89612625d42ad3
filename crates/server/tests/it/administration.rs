//! The administration of a server: a listener of its own, figures of the system, and keys that only operators create.

use std::sync::Arc;

use serde_json::json;
use singletree_server::{AccessPolicy, ServerLimits, SystemProbe, SystemUsage};
use tokio::net::TcpListener;

use crate::operating::{logged, metric};
use crate::support::rig::within;
use crate::support::{Client, Rig};

// Finding S4
#[tokio::test]
async fn the_listener_for_administration_answers_when_all_connections_are_taken() {
    let limits = ServerLimits { connections: 2, ..ServerLimits::default() };
    let policy = AccessPolicy { required: true, ..AccessPolicy::default() };
    let rig = Rig::builder().limits(limits).server(|it| it.access_policy(policy)).start().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let admin = Client::new(listener.local_addr().unwrap());
    let server = rig.server.clone();
    let serving = tokio::spawn(async move { server.serve_admin(listener).await });
    let made = rig.operator().post("/v1/keys", &json!({ "tenant": "acme" })).await;
    assert_eq!(made.status, 201, "{}", made.text());
    let id = made.json()["key"]["id"].as_str().unwrap().to_owned();
    let held = [rig.client().open().await, rig.client().open().await];
    // Both are accepted once the earlier requests are answered.
    within(async { while metric_of(&rig, "singletree_connections").await != Some(3) {} }).await;
    assert_eq!(within(admin.get("/healthz")).await.status, 200);
    // A probe of the store takes its time where the machine is busy.
    within(async { while admin.get("/readyz").await.status != 200 {} }).await;
    let operator = admin.clone().bearer(&rig.operator_key());
    assert_eq!(within(operator.delete(&format!("/v1/keys/{id}?tenant=acme"))).await.status, 200);
    assert_eq!(within(operator.get("/v1/keys?tenant=acme")).await.status, 200);
    assert_eq!(within(admin.get("/v1/keys")).await.status, 401, "it asks for a key as the other does");
    assert_eq!(within(admin.get("/v1/sessions")).await.status, 404, "conversations are elsewhere");
    drop(held);
    serving.abort();
    rig.stop().await;
}

/// Reads how many connections are open, through a listener for metrics alone.
async fn metric_of(rig: &Rig, name: &str) -> Option<u64> {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = Client::new(listener.local_addr().unwrap());
    let server = rig.server.clone();
    let serving = tokio::spawn(async move { server.serve_metrics(listener).await });
    let value = metric(&at.get("/metrics").await.text(), name);
    serving.abort();
    value.and_then(|it| it.parse().ok())
}

/// A system that is nearly used up.
#[derive(Debug)]
struct NearlyUsedUp;

impl SystemProbe for NearlyUsedUp {
    fn measure_usage(&self) -> SystemUsage {
        SystemUsage {
            open_descriptors: Some(950),
            descriptor_limit: Some(1000),
            database_bytes: Some(4096),
            wal_bytes: Some(2048),
            disk_free_bytes: Some(1 << 30),
            dropped_log_lines: Some(7),
        }
    }
}

#[tokio::test]
async fn metrics_show_what_the_system_has_left_and_the_log_says_when_that_is_little() {
    let (rig, lines) = logged();
    let rig = rig.server(|it| it.system_probe(Arc::new(NearlyUsedUp))).start().await;
    rig.client().post("/v1/sessions/s/messages", &json!({ "content": "ask PRIVATE" })).await;
    let text = rig.client().get("/metrics").await.text();
    for (name, value) in [
        ("singletree_descriptors_open", "950"),
        ("singletree_descriptors_limit", "1000"),
        ("singletree_database_bytes", "4096"),
        ("singletree_database_wal_bytes", "2048"),
        ("singletree_disk_free_bytes", "1073741824"),
        ("singletree_log_lines_dropped", "7"),
    ] {
        assert_eq!(metric(&text, name).as_deref(), Some(value), "{name}\n{text}");
    }
    assert!(metric(&text, "singletree_pending_waits").is_some(), "{text}");
    let near = lines.of("descriptors");
    assert_eq!(near.len(), 1, "{near:?}");
    assert_eq!(
        (&near[0]["state"], &near[0]["open"], &near[0]["limit"]),
        (&json!("near_limit"), &json!(950), &json!(1000))
    );
    rig.stop().await;
}

#[tokio::test]
async fn files_of_the_page_are_no_lines_of_the_log_unless_something_is_wrong() {
    let (rig, lines) = logged();
    let rig = rig.start().await;
    assert_eq!(rig.client().get("/").await.status, 200);
    assert!(lines.of("request").is_empty(), "{:?}", lines.all());
    assert_eq!(rig.client().get("/js/none.js").await.status, 404);
    assert_eq!(lines.of("request").len(), 1);
    rig.stop().await;
}

#[tokio::test]
async fn a_server_that_asks_for_no_key_lets_only_its_operator_make_one() {
    let rig = Rig::start().await;
    let made = rig.client().post("/v1/keys", &json!({ "scopes": ["admin"] })).await;
    assert_eq!((made.status, &made.json()["error"]["category"]), (403, &json!("server_forbidden")));
    assert_eq!(rig.operator().post("/v1/keys", &json!({})).await.status, 201);
    rig.stop().await;
}

#[tokio::test]
async fn private_answers_stay_out_of_caches_and_other_sites() {
    let rig = Rig::start().await;
    rig.client().post("/v1/sessions/s/messages", &json!({ "content": "say PRIVATE" })).await;
    for path in ["/v1/sessions/s/messages", "/v1/sessions/unknown", "/v1/sessions"] {
        let answer = rig.client().get(path).await;
        assert_eq!(answer.header("cache-control"), "no-store", "{path}");
        assert_eq!(answer.header("x-content-type-options"), "nosniff", "{path}");
        assert_eq!(answer.header("cross-origin-resource-policy"), "same-origin", "{path}");
    }
    // The page's files are the same for everybody, and have an `ETag`.
    assert_eq!(rig.client().get("/").await.header("cache-control"), "no-cache");
    rig.stop().await;
}

#[tokio::test]
async fn over_tls_the_cookie_is_bound_to_its_host() {
    let rig = Rig::asking().await;
    let key = rig.operator().post("/v1/keys", &json!({ "scopes": ["read"] })).await.json();
    let shown = json!({ "key": key["secret"] });
    let cookie =
        |answer: &crate::support::Answer| answer.header("set-cookie").split(';').next().unwrap().to_owned();
    let plain = rig.client().post("/page/sign-in", &shown).await;
    assert!(cookie(&plain).starts_with("singletree_page="), "{}", cookie(&plain));
    let secure = rig.client().with("x-forwarded-proto", "https");
    let signed_in = secure.post("/page/sign-in", &shown).await;
    let text = signed_in.header("set-cookie").to_owned();
    assert!(text.starts_with("__Host-singletree_page="), "{text}");
    assert!(text.contains("; Secure") && text.contains("; Path=/;") && !text.contains("Domain"), "{text}");
    let with =
        |client: Client, cookie: &str| client.with("cookie", cookie).with("sec-fetch-site", "same-origin");
    assert_eq!(with(secure.clone(), &cookie(&signed_in)).get("/v1/sessions").await.status, 200);
    // A plain cookie, which another host of the domain could have set, is ignored.
    assert_eq!(with(secure.clone(), &cookie(&plain)).get("/v1/sessions").await.status, 401);
    with(secure.clone(), &cookie(&signed_in)).post("/page/sign-out", &json!({})).await;
    assert_eq!(with(secure, &cookie(&signed_in)).get("/v1/sessions").await.status, 401);
    rig.stop().await;
}
