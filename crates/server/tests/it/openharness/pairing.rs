//! A device gets a key of its own (spec: OpenHarness guide device-pairing-session).

use std::time::Duration;

use serde_json::{Value, json};
use singletree_durable::{DocumentChange, DocumentKey, DocumentPrecondition, JsonDocument, TenantId};

use super::asking::{Shell, checked, error, saying, texts};
use crate::support::{Answer, Client, Rig};

async fn post(client: &Client, path: &str, body: Value) -> Answer {
    checked(client.post(path, &body).await)
}

/// Somebody who may make keys of a tenant.
async fn admin(rig: &Rig, tenant: &str) -> Client {
    let made =
        rig.operator().post("/v1/keys", &json!({ "tenant": tenant, "scopes": ["admin"] })).await.json();
    rig.client().bearer(made["secret"].as_str().unwrap())
}

async fn created(rig: &Rig, body: Value) -> Value {
    let made = post(&rig.client(), "/v1/openharness/pair/create", body).await;
    assert_eq!(made.status, 200);
    made.json()
}

/// Returns the status and the error code, as the guide names it.
fn word(answer: &Answer) -> (u16, String) {
    (answer.status, answer.json()["error"].as_str().unwrap_or_default().to_owned())
}

fn refused() -> (u16, String) {
    (400, "invalid_or_expired_code".to_owned())
}

#[tokio::test]
async fn a_device_shows_a_code_somebody_confirms_it_and_the_device_fetches_its_key() {
    let rig = Rig::asking().await;
    let admin = admin(&rig, "acme").await;
    let asked = created(&rig, json!({"device_name": "TV\u{7}", "device_fingerprint": "f"})).await;
    let code = asked["code"].as_str().unwrap();
    assert!(code.len() == 8 && code.bytes().all(|it| it.is_ascii_uppercase() || it.is_ascii_digit()));
    assert_eq!(asked["expires_at"], "2026-01-01T00:05:00.000Z");
    assert_eq!(asked["expires_in_sec"], 300);
    let claim = json!({"pairing_id": asked["pairing_id"], "device_fingerprint": "f"});
    let claiming = async || post(&rig.client(), "/v1/openharness/pair/claim", claim.clone()).await;
    assert_eq!(claiming().await.json()["state"], "waiting");

    // As people type it.
    let typed = format!("{}-{}", &code[..4].to_lowercase(), &code[4..]);
    let confirmed =
        post(&admin, "/v1/openharness/pair/confirm", json!({"code": typed, "tenant_id": "acme"})).await;
    let told = confirmed.json();
    assert_eq!(told["tenant_id"], "acme");
    let token = |of: &Value| of["access_token"].as_str().unwrap().to_owned();
    // Who confirmed can bring the key to the device.
    let brought = Shell(rig.client().bearer(&token(&told)));
    assert_eq!(texts(&brought.say("s", "say a").await), ["You said: a"]);

    // The device fetches another secret of the same key, and from then on only that one is good.
    let other = json!({"pairing_id": asked["pairing_id"], "device_fingerprint": "g"});
    assert_eq!(word(&post(&rig.client(), "/pair/claim", other).await), refused());
    let fetched = claiming().await.json();
    assert_eq!(fetched["device_id"], told["device_id"]);
    assert_eq!(fetched["session_id"], told["session_id"]);
    let device = Shell(rig.client().bearer(&token(&fetched)));
    let session = fetched["session_id"].as_str().unwrap();
    assert_eq!(texts(&device.say(session, "say b").await), ["You said: b"]);
    rig.clock.advance(Duration::from_millis(1));
    assert_eq!(brought.post(&saying("s", "say c")).await.status, 401);
    // Once.
    assert_eq!(word(&claiming().await), refused());
    let again = post(&admin, "/v1/openharness/pair/confirm", json!({"code": code})).await;
    assert_eq!(word(&again), refused());

    // It may talk, and neither approve nor manage.
    let key = admin.get("/v1/keys").await.json();
    let key =
        key["items"].as_array().unwrap().iter().find(|it| it["id"] == told["device_id"]).cloned().unwrap();
    assert_eq!((key["name"].as_str(), &key["scopes"]), (Some("device TV"), &json!(["read", "write"])));
    let audit = admin.get("/v1/audit").await.json();
    let deeds: Vec<_> = audit["items"].as_array().unwrap().iter().map(|it| it["action"].clone()).collect();
    assert!(deeds.contains(&json!("device.paired")), "{audit}");

    let revoked = post(&admin, "/v1/openharness/pair/revoke", json!({"device_id": told["device_id"]})).await;
    assert_eq!(revoked.json()["state"], "revoked");
    assert_eq!(error(&device.post(&saying("s", "say c")).await.json()).0, "unauthorized");
    rig.stop().await;
}

#[tokio::test]
async fn neither_codes_nor_tokens_are_in_the_store() {
    let rig = Rig::asking().await;
    let admin = admin(&rig, "acme").await;
    let asked = created(&rig, json!({"device_fingerprint": "fingerprint-of-it"})).await;
    let told = post(&admin, "/pair/confirm", json!({"code": asked["code"], "scopes": ["read"]})).await.json();
    let mut kept = String::new();
    let kinds = ["pairing", "pairing_device", "pairing_attempts", "api_key", "api_key_owner", "audit"];
    for tenant in ["operator", "acme"] {
        for kind in kinds {
            let tenant = TenantId::parse(tenant).unwrap();
            for document in rig.documents.read_documents(&tenant, kind, None, 100).await.unwrap() {
                kept += &format!("{document:?}\n");
            }
        }
    }
    assert!(kept.contains("pairing_device") && kept.contains("api_key"));
    for secret in [&asked["code"], &asked["pairing_id"], &told["access_token"]] {
        assert!(!kept.contains(secret.as_str().unwrap()), "{secret}");
    }
    assert!(!kept.contains("fingerprint-of-it"));
    rig.stop().await;
}

#[tokio::test]
async fn a_code_is_used_up_with_its_key_or_not_at_all() {
    let rig = Rig::asking().await;
    let admin = admin(&rig, "acme").await;
    let asked = created(&rig, json!({})).await;
    let confirm = async || post(&admin, "/pair/confirm", json!({"code": asked["code"]})).await;
    // No room for another key.
    let acme = TenantId::parse("acme").unwrap();
    let key = |n: u32| DocumentKey::new(acme.clone(), "api_key", format!("filler-{n:04}"));
    let write = |n: u32| DocumentChange::Write {
        key: key(n),
        expect: DocumentPrecondition::Absent,
        session: None,
        body: JsonDocument::from_serializable(&json!({})).unwrap(),
        expires_at: None,
    };
    rig.documents.change_documents((0..999).map(write).collect()).await.unwrap();
    assert_ne!(confirm().await.status, 200);
    let remove = |n: u32| DocumentChange::Remove { key: key(n), expect: DocumentPrecondition::Any };
    rig.documents.change_documents((0..999).map(remove).collect()).await.unwrap();
    // Two at once: one of them has it.
    let (one, other) = tokio::join!(confirm(), confirm());
    let (well, told) = if one.status == 200 { (one, other) } else { (other, one) };
    assert_eq!((well.status, word(&told)), (200, refused()));
    assert_eq!(rig.documents.read_documents(&acme, "api_key", None, 100).await.unwrap().len(), 2);
    rig.stop().await;
}

#[tokio::test]
async fn a_code_is_good_for_five_minutes() {
    let rig = Rig::asking().await;
    let admin = admin(&rig, "acme").await;
    let asked = created(&rig, json!({})).await;
    rig.clock.advance(Duration::from_secs(300));
    assert_eq!(word(&post(&admin, "/pair/confirm", json!({"code": asked["code"]})).await), refused());
    let claim = json!({"pairing_id": asked["pairing_id"]});
    assert_eq!(word(&post(&rig.client(), "/pair/claim", claim).await), refused());
    rig.stop().await;
}

#[tokio::test]
async fn who_guesses_codes_is_stopped_also_with_the_right_one_and_others_are_not() {
    let rig = Rig::asking().await;
    let (one, other) = (admin(&rig, "one").await, admin(&rig, "other").await);
    let asked = created(&rig, json!({})).await;
    for guess in 0..10 {
        let answer = post(&one, "/pair/confirm", json!({"code": format!("AAAAAA{guess:02}")})).await;
        assert_eq!(word(&answer), refused());
    }
    let stopped = post(&one, "/pair/confirm", json!({"code": asked["code"]})).await;
    assert_eq!(word(&stopped), (429, "rate_limited".to_owned()));
    assert_eq!(stopped.header("retry-after"), "300");
    assert_eq!(post(&other, "/pair/confirm", json!({"code": asked["code"]})).await.status, 200);
    rig.clock.advance(Duration::from_secs(300));
    let asked = created(&rig, json!({})).await;
    assert_eq!(post(&one, "/pair/confirm", json!({"code": asked["code"]})).await.status, 200);
    rig.stop().await;
}

#[tokio::test]
async fn only_so_many_devices_may_be_on_their_way_and_time_makes_room() {
    let rig = Rig::asking().await;
    for _ in 0..64 {
        created(&rig, json!({})).await;
    }
    let refused = post(&rig.client(), "/pair/create", json!({})).await;
    assert_eq!(word(&refused), (429, "rate_limited".to_owned()));
    rig.clock.advance(Duration::from_secs(300));
    created(&rig, json!({})).await;
    let kept = rig
        .documents
        .read_documents(&TenantId::parse("operator").unwrap(), "pairing", None, 100)
        .await
        .unwrap();
    assert_eq!(kept.len(), 1);
    rig.stop().await;
}

#[tokio::test]
async fn who_may_not_confirm_is_told_and_nobody_confirms_for_another_tenant() {
    let rig = Rig::asking().await;
    let asked = created(&rig, json!({})).await;
    let body = json!({"code": asked["code"]});
    assert_eq!(post(&rig.client(), "/v1/openharness/pair/confirm", body.clone()).await.status, 401);
    let made =
        rig.operator().post("/v1/keys", &json!({ "tenant": "acme", "scopes": ["write"] })).await.json();
    let writer = rig.client().bearer(made["secret"].as_str().unwrap());
    for path in ["confirm", "revoke"] {
        let answer = post(&writer, &format!("/v1/openharness/pair/{path}"), body.clone()).await;
        assert_eq!((answer.status, error(&answer.json()).0.as_str()), (403, "forbidden"));
    }
    let admin = admin(&rig, "acme").await;
    let foreign = json!({"code": asked["code"], "tenant_id": "other"});
    assert_eq!(post(&admin, "/v1/openharness/pair/confirm", foreign).await.status, 403);
    let operator = post(&rig.operator(), "/v1/openharness/pair/confirm", body.clone()).await;
    assert_eq!(operator.status, 403, "the operator sees no tenant's sessions, and neither do its devices");
    // The code was not used up by that.
    let own = json!({"code": asked["code"], "tenant_id": "acme", "session_id": "tv"});
    let told = post(&admin, "/v1/openharness/pair/confirm", own).await.json();
    assert_eq!((&told["tenant_id"], &told["session_id"]), (&json!("acme"), &json!("tv")));
    // Nor does anybody revoke another tenant's device.
    let revoke = json!({"device_id": told["device_id"]});
    let other = self::admin(&rig, "other").await;
    assert_eq!(post(&other, "/v1/openharness/pair/revoke", revoke).await.status, 404);
    rig.stop().await;
}

#[tokio::test]
async fn what_is_not_said_right_is_told_in_the_guides_words() {
    let rig = Rig::start().await;
    let client = rig.client().with("content-type", "application/json");
    let send = async |path: &str, body: &'static str| {
        word(&checked(client.send_bytes(hyper::Method::POST, path, body.into()).await))
    };
    let said = |word: &str| (400, word.to_owned());
    assert_eq!(send("/pair/create", "{").await, said("invalid_json"));
    assert_eq!(send("/pair/create", "[]").await, said("invalid_json"));
    assert_eq!(send("/pair/create", r#"{"device_name": 7}"#).await, said("missing_fields"));
    assert_eq!(send("/pair/confirm", "{}").await, said("missing_fields"));
    assert_eq!(send("/pair/confirm", r#"{"code": "A", "scopes": ["root"]}"#).await, said("missing_fields"));
    assert_eq!(send("/pair/confirm", r#"{"code": "A", "session_id": ""}"#).await, said("missing_fields"));
    assert_eq!(send("/pair/claim", "{}").await, said("missing_fields"));
    assert_eq!(send("/pair/claim", r#"{"pairing_id": "x"}"#).await, said("invalid_or_expired_code"));
    assert_eq!(send("/pair/revoke", "{}").await, said("missing_fields"));
    rig.stop().await;
}
