//! Tokens that somebody else signed: those that are believed, and every way not to be.
//!
//! The keys of `signing_keys.json` were drawn for these tests and sign nothing else.

use std::path::PathBuf;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use jsonwebtoken::{Algorithm, EncodingKey};
use serde_json::{Value, json};
use singletree_server::{AccessPolicy, TokenPolicy};
use tempfile::TempDir;

use crate::support::Rig;

/// The time at which all tests begin, in seconds.
const NOW: i64 = 1_767_225_600;

/// Somebody who signs tokens, and a server that believes some of them.
struct Signing {
    rig: Rig,
    folder: TempDir,
    keys: Value,
}

impl Signing {
    async fn start() -> Self {
        let keys: Value = serde_json::from_str(include_str!("signing_keys.json")).unwrap();
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("jwks.json");
        // Unusable keys are skipped: a shared secret, an unknown type.
        let odd = [json!({ "kty": "oct", "kid": "shared", "k": "c2VjcmV0" }), json!({ "kty": "PQC" })];
        let all: Vec<Value> =
            ["rsa", "ec", "ed"].iter().map(|it| keys[it]["jwk"].clone()).chain(odd).collect();
        std::fs::write(&path, json!({ "keys": all }).to_string()).unwrap();
        let tokens = Some(policy(path));
        let policy = AccessPolicy { required: true, tokens, ..AccessPolicy::default() };
        let rig = Rig::builder().server(|it| it.access_policy(policy)).start().await;
        Self { rig, folder, keys }
    }

    fn der(&self, key: &str) -> Vec<u8> {
        STANDARD.decode(self.keys[key]["der"].as_str().unwrap()).unwrap()
    }

    /// Signs a head and claims.
    fn sign(&self, key: &str, head: &Value, claims: &Value) -> String {
        let (key, algorithm) = match key {
            "ec" => (EncodingKey::from_ec_der(&self.der(key)), Algorithm::ES256),
            "ed" => (EncodingKey::from_ed_der(&self.der(key)), Algorithm::EdDSA),
            _ => (EncodingKey::from_rsa_der(&self.der(key)), Algorithm::RS256),
        };
        self.sign_with(&key, algorithm, head, claims)
    }

    fn sign_with(&self, key: &EncodingKey, algorithm: Algorithm, head: &Value, claims: &Value) -> String {
        let part = |it: &Value| URL_SAFE_NO_PAD.encode(it.to_string());
        let message = format!("{}.{}", part(head), part(claims));
        let signature = jsonwebtoken::crypto::sign(message.as_bytes(), key, algorithm).unwrap();
        format!("{message}.{signature}")
    }

    /// Returns the status and the category with which a token is answered, and no word of the token.
    async fn used(&self, token: &str) -> (u16, Value) {
        let answer = self.rig.client().bearer(token).get("/v1/sessions").await;
        for part in token.split('.').filter(|it| it.len() > 8) {
            assert!(!answer.text().contains(part), "{}", answer.text());
        }
        let good = answer.status == 200;
        (answer.status, if good { Value::Null } else { answer.json()["error"]["category"].clone() })
    }

    async fn check(&self, name: &str, token: &str, status: u16, category: Option<&str>) {
        assert_eq!(self.used(token).await, (status, json!(category)), "{name}");
    }
}

fn policy(key_set: PathBuf) -> TokenPolicy {
    TokenPolicy {
        key_set,
        issuer: "https://id.example.com".into(),
        audiences: vec!["singletree".into()],
        tenant_claim: "org".into(),
        scope_claim: "scope".into(),
        scope_prefix: "chat:".into(),
        leeway: Duration::from_secs(30),
    }
}

fn claims() -> Value {
    json!({
        "iss": "https://id.example.com", "aud": "singletree", "sub": "ann", "org": "acme",
        "scope": "chat:read chat:write", "exp": NOW + 300, "nbf": NOW,
    })
}

fn with(name: &str, value: Value) -> Value {
    let mut claims = claims();
    claims[name] = value;
    claims
}

fn without(name: &str) -> Value {
    let mut claims = claims();
    claims.as_object_mut().unwrap().remove(name);
    claims
}

fn rsa() -> Value {
    json!({ "alg": "RS256", "kid": "rsa-1" })
}

#[tokio::test]
async fn tokens_of_each_algorithm_are_believed() {
    let signing = Signing::start().await;
    for (key, head) in [
        ("rsa", rsa()),
        ("ec", json!({ "alg": "ES256", "kid": "ec-1", "typ": "JWT" })),
        ("ed", json!({ "alg": "EdDSA", "kid": "ed-1" })),
        // The only one of its algorithm need not be named.
        ("ed", json!({ "alg": "EdDSA" })),
    ] {
        let token = signing.sign(key, &head, &claims());
        signing.check(&head.to_string(), &token, 200, None).await;
    }
    let both = with("aud", json!(["other", "singletree"]));
    signing.check("audiences", &signing.sign("rsa", &rsa(), &both), 200, None).await;
    let list = with("scope", json!(["chat:read"]));
    signing.check("a list of scopes", &signing.sign("rsa", &rsa(), &list), 200, None).await;
    let late = with("exp", json!(NOW - 29));
    signing.check("within the leeway", &signing.sign("rsa", &rsa(), &late), 200, None).await;
    let early = with("nbf", json!(NOW + 29));
    signing.check("within the leeway", &signing.sign("rsa", &rsa(), &early), 200, None).await;
    signing.rig.stop().await;
}

#[tokio::test]
async fn a_token_whose_words_are_not_right_is_told_so() {
    let signing = Signing::start().await;
    let (invalid, expired) = (Some("server_token_invalid"), Some("server_token_expired"));
    for (name, claims, category) in [
        ("over", with("exp", json!(NOW - 30)), expired),
        ("not yet", with("nbf", json!(NOW + 31)), expired),
        ("without an end", without("exp"), invalid),
        ("an end that is none", with("exp", json!("tomorrow")), invalid),
        ("an end before time", with("exp", json!(-1)), invalid),
        ("a beginning that is none", with("nbf", json!("now")), invalid),
        ("another issuer", with("iss", json!("https://elsewhere.example.com")), invalid),
        ("no issuer", without("iss"), invalid),
        ("another audience", with("aud", json!("billing")), invalid),
        ("no audience", without("aud"), invalid),
        ("no tenant", without("org"), invalid),
        ("a tenant that is no text", with("org", json!(7)), invalid),
        ("the house", with("org", json!("operator")), invalid),
        ("no subject", without("sub"), invalid),
        ("a long subject", with("sub", json!("s".repeat(257))), invalid),
        ("an ID token with a nonce", with("nonce", json!("n-0S6_WzA2Mj")), invalid),
        (
            "an ID token with a hash of the access token",
            with("at_hash", json!("77QmUPtjPfzWtF2AnpK9RQ")),
            invalid,
        ),
        ("an ID token by its type", with("typ", json!("ID")), invalid),
    ] {
        signing.check(name, &signing.sign("rsa", &rsa(), &claims), 401, category).await;
    }
    let forbidden = Some("server_forbidden");
    for (name, claims) in [
        ("no scope", without("scope")),
        ("scopes of others", with("scope", json!("read mail:read"))),
        ("another scope", with("scope", json!("chat:approve"))),
    ] {
        signing.check(name, &signing.sign("rsa", &rsa(), &claims), 403, forbidden).await;
    }
    signing.rig.stop().await;
}

#[tokio::test]
async fn a_token_that_our_keys_did_not_sign_is_not_believed() {
    let signing = Signing::start().await;
    let part = |it: &Value| URL_SAFE_NO_PAD.encode(it.to_string());
    let good = signing.sign("rsa", &rsa(), &claims());
    let (message, signature) = good.rsplit_once('.').unwrap();
    let (head, body) = message.split_once('.').unwrap();
    let hs256 = json!({ "alg": "HS256", "kid": "rsa-1" });
    let shared =
        |key: &[u8]| signing.sign_with(&EncodingKey::from_secret(key), Algorithm::HS256, &hs256, &claims());
    let n = signing.keys["rsa"]["jwk"]["n"].as_str().unwrap();
    for (name, token) in [
        ("none", format!("{}.{body}.", part(&json!({ "alg": "none" })))),
        (
            "none, with a signature",
            format!("{}.{body}.{signature}", part(&json!({ "alg": "none", "kid": "rsa-1" }))),
        ),
        ("None", format!("{}.{body}.", part(&json!({ "alg": "None" })))),
        ("the public key as a shared secret", shared(n.as_bytes())),
        ("its bytes as a shared secret", shared(&URL_SAFE_NO_PAD.decode(n).unwrap())),
        ("the shared secret of the file", {
            let head = json!({ "alg": "HS256", "kid": "shared" });
            signing.sign_with(&EncodingKey::from_secret(b"secret"), Algorithm::HS256, &head, &claims())
        }),
        (
            "another algorithm than the key's",
            signing.sign("ec", &json!({ "alg": "ES256", "kid": "rsa-1" }), &claims()),
        ),
        ("an unknown key", signing.sign("other", &json!({ "alg": "RS256", "kid": "other-1" }), &claims())),
        ("another's key under our name", signing.sign("other", &rsa(), &claims())),
        ("other words under the signature", {
            format!("{head}.{}.{signature}", part(&with("org", json!("umbrella"))))
        }),
        ("half a signature", good[..good.len() - 20].to_owned()),
        ("what has to be understood", {
            signing.sign(
                "rsa",
                &json!({ "alg": "RS256", "kid": "rsa-1", "crit": ["b64"], "b64": false }),
                &claims(),
            )
        }),
        ("no JSON", "a.b.c".to_owned()),
        ("claims that are a list", {
            signing.sign("rsa", &rsa(), &json!(["iss", "https://id.example.com"]))
        }),
        ("nothing in it", "..".to_owned()),
    ] {
        signing.check(name, &token, 401, Some("server_token_invalid")).await;
    }
    signing.check("five parts", "a.b.c.d.e", 401, Some("server_unauthorized")).await;
    signing.rig.stop().await;
}

#[tokio::test]
async fn the_file_of_the_keys_is_read_again_when_it_changes_and_kept_while_it_is_broken() {
    let signing = Signing::start().await;
    let path = signing.folder.path().join("jwks.json");
    let old = signing.sign("rsa", &rsa(), &with("exp", json!(NOW + 3600)));
    let new = json!({ "alg": "RS256", "kid": "other-1" });
    let new = signing.sign("other", &new, &with("exp", json!(NOW + 3600)));
    signing.check("not yet", &new, 401, Some("server_token_invalid")).await;
    std::fs::write(&path, "{ \"keys\": [").unwrap();
    signing.rig.clock.advance(Duration::from_secs(2));
    signing.check("while it is broken", &old, 200, None).await;
    std::fs::write(&path, json!({ "keys": [signing.keys["other"]["jwk"]] }).to_string()).unwrap();
    signing.rig.clock.advance(Duration::from_secs(2));
    signing.check("the new one", &new, 200, None).await;
    signing.check("the old one", &old, 401, Some("server_token_invalid")).await;
    std::fs::remove_file(&path).unwrap();
    signing.rig.clock.advance(Duration::from_secs(2));
    signing.check("while it is gone", &new, 200, None).await;
    signing.rig.stop().await;
}

#[tokio::test]
async fn an_audit_tells_a_token_from_a_key_and_from_the_operator() {
    let signing = Signing::start().await;
    let mut claims = with("sub", json!("operator"));
    claims["scope"] = json!("chat:admin");
    let client = signing.rig.client().bearer(&signing.sign("rsa", &rsa(), &claims));
    let made = client.post("/v1/keys", &json!({ "name": "till", "scopes": ["read"] })).await;
    assert_eq!(made.status, 201, "{}", made.text());
    let audit = client.get("/v1/audit?limit=1").await.json();
    assert_eq!(audit["items"][0]["who"], json!("token:operator"), "{audit}");
    signing.rig.stop().await;
}
