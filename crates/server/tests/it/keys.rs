//! Keys: creation, use, rotation, revocation, tenants, and the entries of the audit.

use std::time::Duration;

use hyper::Method;
use serde_json::{Value, json};
use singletree_server::AccessPolicy;
use singletree_test_store::TestStore;

use crate::support::{Client, Rig, rig::within};

/// A server that asks everybody, with a key of an admin of the tenant `acme`.
async fn asking() -> (Rig, Client) {
    let rig = Rig::asking().await;
    let made =
        rig.operator().post("/v1/keys", &json!({ "tenant": "acme", "scopes": ["read", "admin"] })).await;
    assert_eq!(made.status, 201, "{}", made.text());
    let admin = rig.client().bearer(made.json()["secret"].as_str().unwrap());
    (rig, admin)
}

async fn key(admin: &Client, body: Value) -> (String, String) {
    let made = admin.post("/v1/keys", &body).await;
    assert_eq!(made.status, 201, "{}", made.text());
    let made = made.json();
    (made["key"]["id"].as_str().unwrap().to_owned(), made["secret"].as_str().unwrap().to_owned())
}

/// Returns the status and the category with which a key is answered.
async fn used(rig: &Rig, secret: &str) -> (u16, Value) {
    let answer = rig.client().bearer(secret).get("/v1/keys").await;
    (
        answer.status,
        if answer.status == 200 { Value::Null } else { answer.json()["error"]["category"].clone() },
    )
}

fn refused(category: &str) -> (u16, Value) {
    (401, json!(category))
}

const GOOD: (u16, Value) = (200, Value::Null);

#[tokio::test]
async fn a_key_is_shown_once_and_opens_its_tenant_alone() {
    let (rig, admin) = asking().await;
    let made =
        admin.post("/v1/keys", &json!({ "name": "ci", "scopes": ["read"], "expires_in": 60 })).await.json();
    let id = made["key"]["id"].clone();
    let shown = json!({
        "id": id, "tenant": "acme", "name": "ci", "scopes": ["read"], "state": "active",
        "created_at": "2026-01-01T00:00:00.000Z", "expires_at": "2026-01-01T00:01:00.000Z",
    });
    assert_eq!(made["key"], shown);
    let listed = admin.get("/v1/keys").await;
    assert!(listed.json()["items"].as_array().unwrap().contains(&shown), "{}", listed.text());
    assert!(!listed.text().contains(made["secret"].as_str().unwrap()));
    // Another tenant's admin sees nothing of it.
    let (_, other) = key(&rig.operator(), json!({ "tenant": "umbrella", "scopes": ["admin"] })).await;
    let other = rig.client().bearer(&other);
    assert_eq!(other.get("/v1/keys").await.json()["items"].as_array().unwrap().len(), 1);
    rig.stop().await;
}

// INV-14
#[tokio::test]
async fn a_key_of_another_tenant_is_answered_as_one_that_is_not_there() {
    let (rig, admin) = asking().await;
    let (id, secret) = key(&admin, json!({})).await;
    let (_, other) = key(&rig.operator(), json!({ "tenant": "umbrella", "scopes": ["admin"] })).await;
    let other = rig.client().bearer(&other).with("x-request-id", "r");
    for method in [Method::POST, Method::DELETE] {
        let path = |id: &str| match method {
            Method::POST => format!("/v1/keys/{id}/rotate"),
            _ => format!("/v1/keys/{id}"),
        };
        let foreign = other.send(method.clone(), &path(&id), None).await;
        let unknown = other.send(method.clone(), &path("0011223344556677"), None).await;
        assert_eq!(foreign.status, 404);
        assert_eq!(foreign.text().replace(&id, "ID"), unknown.text().replace("0011223344556677", "ID"));
    }
    let named = other.post("/v1/keys", &json!({ "tenant": "acme" })).await;
    assert_eq!((named.status, &named.json()["error"]["category"]), (403, &json!("server_forbidden")));
    assert_eq!(used(&rig, &secret).await.0, 403, "it is good, and may not list keys");
    rig.stop().await;
}

#[tokio::test]
async fn a_key_that_is_over_or_taken_back_says_so_to_who_holds_it_and_to_nobody_else() {
    let (rig, admin) = asking().await;
    let (_, brief) = key(&admin, json!({ "scopes": ["admin"], "expires_in": 60 })).await;
    let (id, taken) = key(&admin, json!({ "scopes": ["admin"] })).await;
    assert_eq!((used(&rig, &brief).await, used(&rig, &taken).await), (GOOD, GOOD));
    rig.clock.advance(Duration::from_secs(60));
    assert_eq!(used(&rig, &brief).await, refused("server_key_expired"));
    let revoked = admin.delete(&format!("/v1/keys/{id}")).await.json();
    assert_eq!(
        (&revoked["state"], &revoked["revoked_at"]),
        (&json!("revoked"), &json!("2026-01-01T00:01:00.000Z"))
    );
    assert_eq!(used(&rig, &taken).await, refused("server_key_revoked"));
    let guessed = format!("{}x", &taken[..taken.len() - 1]);
    for wrong in [&guessed, "st_0011223344556677_abc", "st_", "nonsense", "a.b.c"] {
        assert_eq!(used(&rig, wrong).await, refused("server_unauthorized"), "{wrong}");
    }
    let nobody = rig.client().get("/v1/keys").await;
    assert_eq!((nobody.status, nobody.header("www-authenticate")), (401, "Bearer"));
    rig.stop().await;
}

#[tokio::test]
async fn after_a_rotation_the_old_secret_is_good_for_its_time() {
    let (rig, admin) = asking().await;
    let (id, old) = key(&admin, json!({ "scopes": ["admin"] })).await;
    let rotated = admin.post(&format!("/v1/keys/{id}/rotate"), &json!({ "grace": 60 })).await.json();
    let new = rotated["secret"].as_str().unwrap();
    assert_eq!(rotated["key"]["old_secret_until"], "2026-01-01T00:01:00.000Z");
    assert_ne!(old, new);
    assert_eq!((used(&rig, &old).await, used(&rig, new).await), (GOOD, GOOD));
    rig.clock.advance(Duration::from_secs(60));
    assert_eq!((used(&rig, &old).await, used(&rig, new).await), (refused("server_unauthorized"), GOOD));
    let newest = admin.post(&format!("/v1/keys/{id}/rotate"), &json!({ "grace": 0 })).await.json();
    assert_eq!(used(&rig, new).await, refused("server_unauthorized"));
    assert_eq!(used(&rig, newest["secret"].as_str().unwrap()).await, GOOD);
    rig.stop().await;
}

#[tokio::test]
async fn when_a_key_was_used_last_is_known_to_the_minute() {
    let (rig, admin) = asking().await;
    let (id, secret) = key(&admin, json!({ "scopes": ["admin"] })).await;
    let last = async || {
        let listed = admin.get("/v1/keys").await.json();
        let found =
            listed["items"].as_array().unwrap().iter().find(|it| it["id"] == id.as_str()).unwrap().clone();
        found["last_used_at"].clone()
    };
    assert_eq!(last().await, Value::Null);
    for (wait, known) in [(0, "2026-01-01T00:00:00.000Z"), (90, "2026-01-01T00:01:30.000Z")] {
        rig.clock.advance(Duration::from_secs(wait));
        assert_eq!(used(&rig, &secret).await, GOOD);
        // It is taken down in the background.
        within(async {
            while last().await != known {
                tokio::task::yield_now().await;
            }
        })
        .await;
    }
    rig.stop().await;
}

#[tokio::test]
async fn what_is_done_to_keys_is_in_the_audit_of_their_tenant() {
    let (rig, admin) = asking().await;
    rig.clock.advance(Duration::from_secs(1));
    let (id, _) = key(&admin, json!({ "name": "ci", "scopes": ["read"] })).await;
    rig.clock.advance(Duration::from_secs(1));
    admin.post(&format!("/v1/keys/{id}/rotate"), &json!({ "grace": 60 })).await;
    rig.clock.advance(Duration::from_secs(1));
    admin.delete(&format!("/v1/keys/{id}")).await;
    let audit = admin.get("/v1/audit?limit=3").await.json();
    let who = rig.operator().get("/v1/keys?tenant=acme").await.json();
    let own =
        who["items"].as_array().unwrap().iter().find(|it| it["id"] != id.as_str()).unwrap()["id"].clone();
    let told: Vec<Value> = audit["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| json!([it["at"], it["who"], it["action"], it["subject"], it["details"]]))
        .collect();
    let expected = json!([
        ["2026-01-01T00:00:03.000Z", own, "key.revoked", id, null],
        ["2026-01-01T00:00:02.000Z", own, "key.rotated", id, { "grace_seconds": 60 }],
        ["2026-01-01T00:00:01.000Z", own, "key.created", id, { "name": "ci", "scopes": ["read"] }],
    ]);
    assert_eq!(json!(told), expected);
    let next = audit["next"].as_str().unwrap();
    let rest = admin.get(&format!("/v1/audit?from={next}")).await.json();
    assert_eq!(rest["items"][0]["who"], "operator");
    assert_eq!((rest["items"].as_array().unwrap().len(), &rest["next"]), (1, &Value::Null));
    rig.stop().await;
}

#[tokio::test]
async fn keys_are_good_after_a_restart_and_the_operator_has_another() {
    let store = TestStore::new();
    let policy = || AccessPolicy { required: true, ..AccessPolicy::default() };
    let first = Rig::builder().server(move |it| it.access_policy(policy())).start_on(store.clone()).await;
    let (_, secret) = key(&first.operator(), json!({ "scopes": ["admin"] })).await;
    let again = Rig::builder().after(&first).server(move |it| it.access_policy(policy()));
    let operator = first.operator_key();
    first.stop().await;
    let second = again.start_on(store.reopen()).await;
    assert_eq!(used(&second, &secret).await, GOOD);
    assert_ne!(operator, second.operator_key());
    assert_eq!(used(&second, &operator).await, refused("server_unauthorized"));
    second.stop().await;
}

#[tokio::test]
async fn the_operator_manages_keys_and_sees_no_session() {
    let (rig, _) = asking().await;
    let operator = rig.operator();
    assert_eq!(operator.get("/v1/keys").await.status, 200);
    let sessions = operator.get("/v1/sessions").await;
    assert_eq!((sessions.status, &sessions.json()["error"]["category"]), (403, &json!("server_forbidden")));
    let own = operator.post("/v1/keys", &json!({ "tenant": "operator" })).await;
    assert_eq!((own.status, &own.json()["error"]["category"]), (400, &json!("server_tenant_invalid")));
    rig.stop().await;
}

#[tokio::test]
async fn a_server_that_asks_nobody_answers_its_machine_and_no_page_of_elsewhere() {
    let origins = vec!["https://chat.example.com".to_owned()];
    let policy = AccessPolicy { origins, ..AccessPolicy::default() };
    let rig = Rig::builder().server(move |it| it.access_policy(policy)).start().await;
    let ask = async |headers: &[(&str, &str)]| {
        let client = headers.iter().fold(rig.client(), |client, (name, value)| client.with(name, value));
        client.get("/v1/sessions").await.status
    };
    assert_eq!(ask(&[]).await, 200);
    assert_eq!(ask(&[("authorization", "Bearer whatever-the-client-wants")]).await, 200);
    assert_eq!(ask(&[("authorization", "Bearer st_0011223344556677_abc")]).await, 401, "a key is a claim");
    assert_eq!(ask(&[("host", "rebound.example.com")]).await, 403);
    assert_eq!(ask(&[("origin", "https://elsewhere.example.com")]).await, 403);
    assert_eq!(ask(&[("origin", "https://chat.example.com")]).await, 200);
    assert_eq!(ask(&[("origin", &format!("http://{}", rig.at))]).await, 200);
    rig.stop().await;
}

#[tokio::test]
async fn what_is_said_of_a_new_key_has_to_be_right() {
    let (rig, admin) = asking().await;
    let check = async |body: Value, status: u16, category: &str| {
        let answer = admin.post("/v1/keys", &body).await;
        assert_eq!(
            (answer.status, &answer.json()["error"]["category"]),
            (status, &json!(category)),
            "{body}"
        );
    };
    check(json!({ "scopes": [] }), 400, "server_key_invalid").await;
    check(json!({ "name": " " }), 400, "server_key_invalid").await;
    check(json!({ "name": "a\u{7}b" }), 400, "server_key_invalid").await;
    check(json!({ "name": "n".repeat(129) }), 400, "server_key_invalid").await;
    check(json!({ "scopes": ["root"] }), 400, "server_request_invalid").await;
    check(json!({ "expires_in": 0 }), 400, "server_request_invalid").await;
    check(json!({ "expires_in": 1_u64 << 40 }), 400, "server_request_invalid").await;
    check(json!({ "secret": "mine" }), 400, "server_request_invalid").await;
    rig.stop().await;
}
