//! Keys, scopes and tenants: who may send requests, and that no tenant learns of the data of another (INV-14).

use serde_json::{Value, json};

use super::asking::{Shell, checked, error, message, option, question, saying, texts, with_id};
use crate::support::{Client, Rig};

/// Makes a key of a tenant.
async fn key(rig: &Rig, tenant: &str, scopes: &[&str]) -> Client {
    let made = rig.operator().post("/v1/keys", &json!({ "tenant": tenant, "scopes": scopes })).await;
    assert_eq!(made.status, 201, "{}", made.text());
    rig.client().bearer(made.json()["secret"].as_str().unwrap())
}

const ALL: &[&str] = &["read", "write", "approve"];

#[tokio::test]
async fn who_has_no_key_is_told_by_a_message() {
    let rig = Rig::asking().await;
    for path in ["/v1/openharness", "/openharness"] {
        let answer = checked(rig.client().post(path, &with_id(saying("s", "say a"), "r")).await);
        let value = answer.json();
        assert_eq!((answer.status, error(&value).0.as_str()), (401, "unauthorized"));
        assert_eq!(answer.header("www-authenticate"), "Bearer");
        assert_eq!(value.get("request_id"), None, "the message was not read");
    }
    let table = checked(rig.client().get("/v1/openharness/capabilities").await);
    assert_eq!(table.status, 401);
    rig.stop().await;
}

#[tokio::test]
async fn what_a_key_may_not_is_told_by_a_message_with_the_requests_own_id() {
    let rig = Rig::asking().await;
    let all = Shell(key(&rig, "acme", ALL).await);
    let waiting = all.say("s", "send").await;
    let run = json!({"continuation": {"run_id": option(&waiting, "approve")["run_id"]}});
    let decide = json!({"continuation": option(&waiting, "approve")});
    let check = async |scopes: &[&str], context: &Value, allowed: bool| {
        let shell = Shell(key(&rig, "acme", scopes).await);
        let answer = shell.post(&with_id(message(context.clone()), "r")).await;
        let value = answer.json();
        assert_eq!(value["request_id"], "r");
        if allowed {
            assert_eq!(answer.status, 200, "{value}");
        } else {
            assert_eq!((answer.status, error(&value).0.as_str()), (403, "forbidden"), "{scopes:?} {context}");
        }
    };
    let say = json!({"session_id": "t", "user_intent": "say a"});
    check(&["read", "approve"], &say, false).await;
    check(&["write", "read"], &decide, false).await;
    check(&["write", "approve"], &run, false).await;
    assert!(rig.world.done().is_empty());
    check(&["write"], &say, true).await;
    check(&["read"], &run, true).await;
    check(&["approve"], &decide, true).await;
    assert_eq!(rig.world.done(), ["send a"]);
    rig.stop().await;
}

// spec: OpenHarness §7: the transport says whose it is
#[tokio::test]
async fn a_message_that_names_another_tenant_is_refused_before_anything_is_done() {
    let rig = Rig::asking().await;
    let shell = Shell(key(&rig, "acme", ALL).await);
    let mut asked = with_id(saying("s", "say a"), "r");
    asked["request"]["auth"] = json!({"tenant_id": "other", "credential_ref": "x"});
    let answer = shell.post(&asked).await;
    assert_eq!(answer.status, 403);
    assert_eq!(error(&answer.json()), ("forbidden".into(), Some("auth.tenant_id".into())));
    asked["request"]["auth"]["tenant_id"] = "acme".into();
    assert_eq!(texts(&shell.ask(&asked).await), ["You said: a"]);
    rig.stop().await;
}

#[tokio::test]
async fn what_is_of_another_tenant_is_answered_as_what_is_not_there() {
    let rig = Rig::asking().await;
    let ours = Shell(key(&rig, "acme", ALL).await);
    let theirs = Shell(key(&rig, "other", ALL).await);
    let waiting = ours.say("s", "send").await;
    let foreign = [option(&waiting, "approve"), json!({"run_id": option(&waiting, "approve")["run_id"]})];
    let unknown = [json!({"continuation_token": "ctok_x"}), json!({"run_id": "x"})];
    for (foreign, unknown) in foreign.iter().zip(&unknown) {
        let [foreign, unknown] = [theirs.decide(foreign).await, theirs.decide(unknown).await];
        assert_eq!(foreign, unknown);
        assert_eq!(error(&foreign).0, "continuation_invalid");
    }
    // The same session and the same request are others' for others.
    let asked = with_id(saying("s", "say a"), "r");
    assert_eq!(texts(&theirs.ask(&asked).await), ["You said: a"]);
    assert_eq!(texts(&ours.decide(&option(&waiting, "approve")).await), ["All done."]);
    rig.stop().await;
}

#[tokio::test]
async fn who_may_not_decide_gets_the_question_without_tokens_and_a_denial() {
    let rig = Rig::asking().await;
    let shell = Shell(key(&rig, "acme", &["read", "write"]).await);
    let mut asked = saying("s", "send");
    asked["capabilities"] = json!({"openharness.ui.approval": true});
    let answer = shell.ask(&asked).await;
    assert_eq!(question(&answer)["payload"]["options"], json!([]));
    assert_eq!(answer["capability_denials"][0]["code"], "disabled_by_policy");
    assert_eq!(texts(&answer).len(), 1);
    rig.stop().await;
}

#[tokio::test]
async fn each_decision_is_one_row_of_the_audit() {
    let rig = Rig::asking().await;
    let shell = Shell(key(&rig, "acme", ALL).await);
    let admin = key(&rig, "acme", &["admin"]).await;
    let waiting = shell.say("s", "send").await;
    for _ in 0..2 {
        shell.decide(&option(&waiting, "reject")).await;
        shell.decide(&option(&waiting, "approve")).await;
    }
    let audit = admin.get("/v1/audit").await.json();
    let rows = audit["items"].as_array().unwrap().clone();
    let rows: Vec<_> = rows.into_iter().filter(|it| it["action"] == "signal.answered").collect();
    assert_eq!(rows.len(), 1, "{audit}");
    assert_eq!(rows[0]["subject"], question(&waiting)["payload"]["signal_id"]);
    rig.stop().await;
}
